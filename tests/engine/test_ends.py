"""Methods with a history at both ends of the profile, where timing leaves a winner open. All times are made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tempora_tta.analysis.doubt import contested
from tempora_tta.engine import Observer
from tempora_tta.engine.ends import Contested, Ends
from tempora_tta.engine.evaluate import job_from_batches
from tempora_tta.engine.run import Run
from tempora_tta.measure import SteadyClock
from tempora_tta.measure.steady import Entry, Rounds, SteadyProfile
from tempora_tta.scenarios import Continuous, Discrete
from tempora_tta.store import RunFolder

INTERVAL_MS = 20.0
SCENARIOS = [Discrete(interval_ms=INTERVAL_MS), Continuous(threshold_x=2.5)]


class Watches(Observer):
    def __init__(self) -> None:
        self.passes: list[str] = []
        self.notes: list[str] = []

    def pass_started(self, kind: str, batches: int) -> None:
        self.passes.append(kind)

    def note(self, text: str) -> None:
        self.notes.append(text)


def profile(error: float = 0.3) -> SteadyProfile:
    """Tent takes about an interval, give or take; in every second round a third more."""
    entries = [
        Entry(method="standard", phase="predict", steady_ms=10.0, samples=20),
        Entry(method="adabn", phase="predict", steady_ms=10.0, samples=20),
        Entry(method="adabn", phase="adapt", action="none", steady_ms=0.0, samples=20),
        Entry(method="tent", phase="predict", steady_ms=10.0, error=error, samples=20),
        Entry(method="tent", phase="adapt", action="step", steady_ms=11.0, error=error, samples=20),
    ]
    unsteady = [entry.method == "tent" for entry in entries]
    rounds = Rounds(
        shift=["x"] * 20,
        clean=[True] * 20,
        checks=[False] * 20,
        standard_ms=[10.0] * 20,
        ms=[
            [entry.steady_ms * (1 + error * (-1) ** number if varies else 1) for number in range(20)]
            for entry, varies in zip(entries, unsteady, strict=True)
        ],
        amount=[None] * len(entries),
    )
    facts = {"name": "made up", "id": "abc", "made_at": "2026", "model": "fashion_resnet", "weights": "w"}
    facts |= {"device": "somewhere", "times": "process CPU time"}
    return SteadyProfile(
        **facts,
        batch_size=8,
        threads=1,
        standard_ms=10.0,
        entries=entries,
        rounds=rounds,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def job(network: Any, batches: Any) -> Any:
    made = job_from_batches(
        network("fashion_resnet"),
        {"contrast": batches},
        ["standard", "adabn", "tent"],
        SCENARIOS,
        device="cpu",
        clock="steady",
        seed=1,
    )
    return replace(made, clock=SteadyClock(profile()))


@pytest.fixture
def folder(tmp_path: Any) -> Any:
    with RunFolder.for_writing(tmp_path / "run") as opened:
        yield opened


def test_a_method_with_a_history_is_run_at_both_ends_and_the_others_are_not(job: Any, folder: Any) -> None:
    baseline = job.clock.profile.baseline()
    watches = Watches()
    ends = Ends(job, folder, baseline, watches)
    asked = [Contested(method, "contrast", 1, place) for place in (1, 2) for method in ("adabn", "tent")]
    (told,) = ends.made(asked)
    assert (told["method"], told["scenario"]) == ("tent", 1), (
        "AdaBN forgets, and where streams wait nothing is lost"
    )
    error = job.clock.profile.uncertainty("tent")
    assert [times_x for times_x, _ in told["passes"]] == [1 - error, 1 + error]
    quick, slow = (folder.trace(key) for _, key in told["passes"])
    assert quick.served.all()
    assert slow.served.sum() < len(slow.served), "what takes longer than the interval loses batches"
    assert np.allclose(quick.adapt_ms, (1 - error) * 11.0)
    assert watches.passes == ["live", "live"]
    assert "1 cell run again at both ends of the profile" in watches.notes[0]

    watches.passes.clear()
    assert ends.made(asked) == [told]
    assert watches.passes == [], "the same command finds them"
    assert ends.made([Contested("tent", "elsewhere", 1, 1), Contested("gone", "contrast", 1, 1)]) == []


def test_exact_times_have_no_ends(job: Any, folder: Any) -> None:
    exact = replace(job, clock=SteadyClock(profile(error=0.0)))
    ends = Ends(exact, folder, exact.clock.profile.baseline(), Observer())
    assert ends.made([Contested("tent", "contrast", 1, 1)]) == []


def test_a_run_makes_them_where_timing_leaves_its_winner_open(
    job: Any, folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether eight batches are undecided by timing is chance, so who is contested is said here."""
    import tempora_tta.engine.executors.local as local
    import tempora_tta.engine.run as runs

    class Known:
        def __init__(self, job: Any, clock: Any, folder: Any, observer: Any) -> None:
            self.learn, self._clock = None, clock

        def ready(self) -> Any:
            return self._clock.profile.baseline()

    monkeypatch.setattr(local, "OwnProfile", Known)
    monkeypatch.setattr(runs, "contested", lambda results: [Contested("tent", "contrast", 1, 1)])
    job.clock.profile.save(folder.path / "profile.json")
    watches = Watches()
    results = Run(job, folder, watches).execute()
    (told,) = results.manifest["ends"]
    assert told["method"] == "tent"
    assert results.manifest["finished"]
    assert set(results.utilities["method"]) == {"standard", "adabn", "tent"}, "no row is about an end"
    used = set(results.utilities["adapting_pass"])
    assert used.isdisjoint(key for _, key in told["passes"])


def test_nobody_is_contested_where_times_are_exact(job: Any, folder: Any) -> None:
    from tempora_tta.measure import SteadyClock as Clock

    exact = replace(job, clock=Clock(profile(error=0.0), own=False))
    results = Run(exact, folder).execute()
    assert contested(results) == []
    assert results.manifest["ends"] == []
