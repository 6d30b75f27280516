"""A suite is what it was, and a run that departs from it is not called by its name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from watching import Watches

from tempora_tta import TemporaError
from tempora_tta.config import MethodConfig
from tempora_tta.engine import suites
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config

FROZEN = {
    "tempora-fashion-streams-v1/resnet-continual": "694a5793fcdd86c0e76673e831db98b3c4b4b433960332dd3e692becede190b7",
    "tempora-fashion-streams-v1/resnet-dirichlet": "6d6e90eaf2e5e69708d0ed300671f610f94d606a7639181268da63d0c1871220",
    "tempora-fashion-streams-v1/resnet-gradual": "1cc1ea70b211175c2fea3904d1ff67aec6ff19d517465904d54f056c7d6e5ed1",
    "tempora-fashion-streams-v1/resnet-mixed": "85113c562bb3053c8415c3380d2806b4361b21a888e28636780d430949e37eef",
    "tempora-fashion-streams-v1/resnet-recurring": "e4829e3797ebf2fe321f63beda7024af8f2288fd641e7a1945daa9d074673f9f",
    "tempora-fashion-streams-v1/vit-continual": "d7875f319f7099b17e7a47216a58c03349287c4e17d9dca942f05051aab57475",
    "tempora-fashion-streams-v1/vit-dirichlet": "cd481ad360fd351eabbcacf2714600c9aa06887d3bc7ba2e4712bdc5f3ae5ddc",
    "tempora-fashion-streams-v1/vit-gradual": "7c2fc39fc28a71b2c8e1689c0208dc8fc18bc2242523b9475ba0740fa08819f4",
    "tempora-fashion-streams-v1/vit-mixed": "142753a79be714d216233b98a1ecf203d1173c2829a667201c972f88b238fba3",
    "tempora-fashion-streams-v1/vit-recurring": "081b321cdabb2b691260625d0522f4a02b0343c63da369e558501fa527b76fc7",
    "tempora-fashion-v1/resnet": "16cca39f7a58d6aad708199996774b5231492e7a8ddf1731cce021d0785421b7",
    "tempora-fashion-v1/vit": "6e110737528a623dacbf320715a621a295d1e29fbe5b402b433a289bd4048cc2",
}
"""sha256 of each part without its comments. A change means a new version, never a new number here."""


def made(name: str, **flags: object) -> tuple[str | None, list[str]]:
    notes = Watches()
    job = build_job(load_config(Path(name), flags={"device": "cpu", **flags}), notes)
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
    mine = {"name": "tempora_tta.methods.sar:SAR", "label": "mine", "lr": 0.5}
    flags = {"threads": 1, "clock": "measured", "methods": ["standard", "tent", mine]}
    config = load_config(Path("tempora-fashion-v1/resnet"), flags=flags)
    assert config.methods[1] == MethodConfig("tent", settings={"lr": 0.0025})
    every = load_config(Path("tempora-fashion-v1/vit"), flags={"methods": ["all"]})
    assert every.methods == load_config(Path("tempora-fashion-v1/vit")).methods
    assert made("tempora-fashion-v1/resnet", **flags)[0] == "tempora-fashion-v1/resnet"


@pytest.mark.parametrize(
    ("flags", "departures"),
    [
        ({"batches": 5}, ["batches", "5", "78"]),
        ({"data.severity": 3}, ["data.severity", "3", "5", "contrast"]),
        ({"methods": ["standard", {"name": "tent", "lr": 0.01}]}, ["tent", "settings"]),
        ({"model": "fashion_vit", "methods": ["standard"]}, ["model", "'fashion_vit'"]),
    ],
)
def test_departures_are_named(flags, departures):
    suite, notes = made("tempora-fashion-v1/resnet", **flags)
    assert suite is None
    said = " ".join(note for note in notes if "tempora-fashion-v1/resnet" in note)
    assert all(word in said for word in departures)


@pytest.mark.parametrize(
    ("name", "flags", "said"),
    [
        (Path("tempora-fashion-v1"), {}, "tempora-fashion-v1/resnet or tempora-fashion-v1/vit"),
        (Path("tempora-fashion-v9/resnet"), {}, "`tempora list suites`"),
        (None, {"suite": "mine", "device": "cpu"}, "'mine'"),
    ],
)
def test_names_that_are_none(name, flags, said):
    with pytest.raises(TemporaError, match=said):
        build_job(load_config(name, flags=flags))
