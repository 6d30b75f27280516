"""A suite is what it was, and a run that departs from it is not called by its name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tempora import TemporaError
from tempora.engine import Observer, suites
from tempora.engine.config import MethodConfig, load_config
from tempora.engine.setup import job_from_config

FROZEN = {
    "tempora-fashion-v1/resnet": "16cca39f7a58d6aad708199996774b5231492e7a8ddf1731cce021d0785421b7",
    "tempora-fashion-v1/vit": "6e110737528a623dacbf320715a621a295d1e29fbe5b402b433a289bd4048cc2",
}
"""sha256 of each part without its comments. A change means a new version, never a new number here."""


class Notes(Observer):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def made(name: str, **flags: object) -> tuple[str | None, list[str]]:
    notes = Notes()
    job = job_from_config(load_config(Path(name), flags={"device": "cpu", **flags}), notes)
    return job.facts.get("suite"), notes.notes


@pytest.mark.parametrize("name", suites.names())
def test_a_part_never_changes(name):
    lines = suites.path_of(name).read_text().splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    assert hashlib.sha256(kept.encode()).hexdigest() == FROZEN[name]


@pytest.mark.parametrize("name", suites.names())
def test_what_is_installed_is_the_suite(name):
    """Weights and images have the fingerprints of the day the suite was made."""
    assert made(name) == (name, [])


def test_the_machine_and_methods_of_ones_own_are_free():
    mine = {"name": "tempora.methods.sar:SAR", "label": "mine", "lr": 0.5}
    flags = {"threads": 1, "clock": "measured", "methods": ["standard", "tent", mine]}
    config = load_config(Path("tempora-fashion-v1/resnet"), flags=flags)
    assert config.methods[1] == MethodConfig(name="tent", lr=0.0025)
    assert made("tempora-fashion-v1/resnet", **flags)[0] == "tempora-fashion-v1/resnet"


def test_all_means_the_suites_methods():
    config = load_config(Path("tempora-fashion-v1/vit"), flags={"methods": ["all"]})
    assert config.methods == load_config(Path("tempora-fashion-v1/vit")).methods


@pytest.mark.parametrize(
    ("flags", "departure"),
    [
        ({"batches": 5}, "batches is 5 instead of 78"),
        ({"data.severity": 3}, "data.severity is 3 instead of 5"),
        ({"methods": ["standard", {"name": "tent", "lr": 0.01}]}, "tent has other settings"),
        ({"model": "fashion_vit", "methods": ["standard"]}, "model is 'fashion_vit'"),
        ({"data.severity": 3}, "contrast has other images"),
    ],
)
def test_departures_are_named(flags, departure):
    suite, notes = made("tempora-fashion-v1/resnet", **flags)
    assert suite is None
    assert any(
        note.startswith("these are no results of tempora-fashion-v1/resnet") and departure in note
        for note in notes
    )


def test_names_that_are_none():
    with pytest.raises(TemporaError, match=r"name one, tempora-fashion-v1/resnet or tempora-fashion-v1/vit"):
        load_config(Path("tempora-fashion-v1"))
    with pytest.raises(TemporaError, match="`tempora list suites`"):
        load_config(Path("tempora-fashion-v9/resnet"))
    with pytest.raises(TemporaError, match="unknown suite 'mine'"):
        job_from_config(load_config(None, flags={"suite": "mine", "device": "cpu"}))
