"""The profiles that ship with Tempora, and one that is ready to be added to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tempora_tta.cli import app
from tempora_tta.errors import TemporaError
from tempora_tta.names import PROFILES, SETUPS, file_of
from tempora_tta.timing import load_profile
from tempora_tta.timing.profile import Profile
from tempora_tta.timing.work import Kind

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_all_files_are_listed_and_an_unknown_name_is_told_the_others() -> None:
    files = {path.stem for path in file_of("tempora_tta.timing.library:x").parent.glob("*.json")}
    assert files == set(PROFILES)
    with pytest.raises(TemporaError, match="h200-resnet50"):
        load_profile("library:h200-resnet5")
    said = CliRunner().invoke(app, ["list", "clocks"]).output
    assert all(f"library:{name}" in said for name in PROFILES)


def test_what_is_shared_has_a_name_of_its_own_and_nothing_private() -> None:
    recorded = Profile.model_validate(
        {
            "name": "this machine",
            "id": "abc",
            "made_at": "2026-11-16T08:00:00+00:00",
            "model": "fashion_resnet",
            "weights": "w",
            "batch_size": 64,
            "device": "AMD EPYC (tm), 1 thread",
            "threads": 1,
            "times": "process CPU time",
            "machine": {
                "cpu": "AMD EPYC",
                "versions": {"torch": "2.6"},
                "command": ["tempora", "--root", "somewhere/private"],
            },
            "standard_ms": 5.0,
            "entries": [],
        }
    )
    shared = recorded.to_share()
    assert shared.name == "amd-epyc-tm-1-thread-fashion_resnet-batch-64"
    smaller = recorded.model_copy(update={"batch_size": 16}).to_share()
    assert smaller.name != shared.name, "one would overwrite the other"
    assert shared.machine == {"cpu": "AMD EPYC", "versions": {"torch": "2.6"}}
    assert (shared.made_at, shared.standard_ms) == (recorded.made_at, 5.0)


def test_every_setup_of_the_paper_is_a_clock_and_what_was_inferred_says_so() -> None:
    pi, main, other = (
        load_profile(f"published:{name}") for name in ("rn18_c10c_rpi5", "rn50_inc", "rn50_inr")
    )
    assert pi.verdict.reasons == ("times inferred from availability",)
    assert main.verdict.reasons == ()
    assert other.entries == main.entries
    listed = CliRunner().invoke(app, ["list", "clocks"]).output
    assert "inferred from availability" in listed
    assert all(f"published:{name}" in listed for name in SETUPS)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_of_the_library_holds_what_was_measured_and_says_where(name: str) -> None:
    measured = json.loads((BENCHMARKS / "results" / f"{name.replace('-', '-methods-', 1)}.json").read_text())
    profile = load_profile(f"library:{name}")
    rows = {row["name"]: row for row in measured["rows"]}
    for method in profile.methods:
        for phase, action in (("predict", ""), ("adapt", "*")):
            told = profile.by_kind[Kind(method, phase, action=action)].steady_ms
            assert told == pytest.approx(rows[method][f"{phase}_ms"], abs=6e-4)
    assert profile.baseline_ms == pytest.approx(1.03 * rows["standard"]["predict_ms"], abs=2e-3)
    machine = profile.machine
    assert all((machine["gpu"] or machine["cpu"], machine["versions"]["torch"], "command" not in machine))


def test_times_of_another_network_are_said_and_kept(tmp_path: Path) -> None:
    asked = "run --methods standard --shifts fog --batches 1 --batch-size 8 --grid none --clock library:h200-resnet50"
    told = CliRunner().invoke(app, [*asked.split(), "--out", str(tmp_path / "run")]).output
    assert " ".join(told.split()).count("those of resnet50, not of fashion_resnet") == 2, (
        "at its start and end"
    )
    kept = json.loads((tmp_path / "run" / "run.json").read_text())["profile"]
    assert (kept["device"], kept["model"], kept["batch_size"]) == ("NVIDIA H200", "resnet50", 64)
