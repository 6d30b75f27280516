"""Cells lived in real time, next to the simulated ones. Only what no time can change is decided here."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from tempora_tta import TemporaError
from tempora_tta.cli import app
from tempora_tta.cli import live as cli_live
from tempora_tta.data import Stream
from tempora_tta.engine import Observer, Run, audit
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.profile_child import subject_of
from tempora_tta.scenarios import Bursty, Deployment, Periodic, Poisson
from tempora_tta.serving import Pipeline
from tempora_tta.serving import live as living
from tempora_tta.store import ADAPTED, FALLBACK, FROZEN, RunFolder, Trace
from tempora_tta.store.trace import SKIPPED
from tempora_tta.timing import Profile, ProfileClock, device_kind, load_profile, machine_facts, record
from tempora_tta.timing.timer import Elapsed

CLOCK = {"baseline_ms": 40, "standard": (38, 0), "tent": (41, 56)}
CHARGED, FREE = ({"fallback_cost": cost} for cost in ("charged", "free"))
PATIENT = [
    {"protocol": "deployment", "arrivals": {"poisson": {"interval_ms": 5.0}}, "queue": 100},
    {"protocol": "deployment", "arrivals": "on_prediction", "deadline_ms": 1e9},
    {"protocol": "deployment", "interval_ms": 3.0, "queue": 0, "fallback": "standard"} | CHARGED,
    {"protocol": "deployment", "interval_ms": 3.0, "queue": 0, "fallback": "standard"} | FREE,
    {"protocol": "amortised", "budget_ms": 100.0},
]
"""Nothing is lost, or the fallback answers it; responses are worth the same. Neither a free fallback nor a
strict budget can be lived."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    load_profile(CLOCK).save(folder / "clock.json")
    flags = {
        "clock": str(folder / "clock.json"),
        "data.shifts": ["contrast"],
        "data.workers": 0,
        "methods": ["standard", "tent"],
        "grid": "none",
        "scenarios": PATIENT,
        "batches": 5,
        "batch_size": 8,
        "device": "cpu",
    }
    with RunFolder.for_writing(folder / "run") as opened:
        return Run(build_job(load_config(None, flags=flags)), opened).execute()


@pytest.fixture(scope="module")
def job(run):
    return audit._job(run)


def test_what_time_cannot_change_is_lived_as_it_was_simulated(run):
    cells = living.live(run, cells=100, repeats=2)
    assert len(cells) == 2 * 4, "all but those of the free fallback and of the strict budget"
    for cell in cells:
        assert [life.lived.availability for life in cell.lives] == [1.0, 1.0]
        assert all(life.trace.served.all() and life.lived.response_p50_ms > 0 for life in cell.lives)
        if "fallback" in cell.label:
            continue  # who answers a batch is up to the machine
        simulated = cell.simulated.utility
        assert cell.mean() == pytest.approx(simulated, abs=1e-12)
        assert cell.interval() == pytest.approx((simulated, simulated), abs=1e-12)
        assert cell.clock_agrees
        assert cell.stands


@pytest.mark.parametrize("fits", [True, False])
def test_inputs_are_there_before_a_life_begins(run, fits, monkeypatch):
    """Clients are other processes: making an input must not disturb the pipeline. What does not fit is said."""
    made, begun, notes = [], [], []

    class Noting(Observer):
        def note(self, text):
            notes.append(text)

    batch, submit = Stream.batch, Pipeline.submit
    monkeypatch.setattr(Stream, "batch", lambda self, i: made.append(len(begun)) or batch(self, i))
    monkeypatch.setattr(Pipeline, "submit", lambda self, x: begun.append(x) or submit(self, x))
    if not fits:
        monkeypatch.setattr(living, "PREPARED_BYTES", 0)
    (cell,) = living.live(run, cells=1, repeats=1, observer=Noting())
    assert (max(made) == 0) == fits
    assert any("each is made while the" in text for text in notes) != fits
    assert len(begun) == cell.lives[0].trace.num_batches


@pytest.mark.parametrize(("speed_x", "same"), [(1.09, True), (0.92, True), (1.11, False), (0.89, False)])
def test_a_machine_of_another_speed_than_its_profile_is_said_and_only_the_logic_judged(
    run, speed_x, same, monkeypatch
):
    monkeypatch.setattr(living, "profiled_ms", lambda job: 38.0)
    monkeypatch.setattr(living.Speed, "now_x", lambda self: speed_x)
    monkeypatch.setattr(living, "outside", lambda resolved: None)
    (cell,) = living.live(run, cells=1, repeats=1)
    assert cell.speeds_x == (speed_x,)
    assert (cell.outside is None) == same
    said = cli_live.machine_speed([cell])
    assert f"took {speed_x:.2f} times as long as when the machine was profiled" in said
    assert ("profile again" in said) != same


def test_only_a_profile_of_this_network_on_a_machine_like_this_tells_how_fast_it_should_be(job):
    assert living.profiled_ms(job) is None, "given by hand"
    facts = {"device": device_kind(machine_facts(job.device)), "weights": job.weights, "batch_size": 8}
    for other, then_ms in (({}, 3.0), ({"device": "another"}, None), ({"weights": "w"}, None)):
        profile = Profile.model_construct(standard_ms=3.5, back_to_back_ms=3.0, **facts | other)
        told = living.profiled_ms(replace(job, clock=ProfileClock(profile)))
        assert told == then_ms, "by the same look, not by what it took among other work"
    assert living.profiled_ms(replace(job, clock=ProfileClock())) is None, "not recorded yet"


def test_the_speed_is_that_of_standard_inference_now(job, monkeypatch):
    speed = living.Speed(job, job.open_stream(job.streams[0]), 2.0)
    monkeypatch.setattr(living, "back_to_back_ms", lambda *given: [3.0, 2.5, 9.0])
    assert speed.now_x() == 1.5


def test_a_machine_as_fast_as_when_it_was_profiled_is_so_by_the_same_look(job, monkeypatch):
    """On a machine whose standard inference takes 10 ms after any other work, and 9 right after itself."""
    last = []

    class Machine:
        what = "process CPU time"

        def __init__(self, *given):
            pass

        def time(self, work):
            kind = work.func.__qualname__ if isinstance(work, partial) else "other"
            ms = 9.0 if last[-1:] == [kind] == ["Standard.predict"] else 10.0
            last.append(kind)
            return work(), Elapsed(ms, ms)

    monkeypatch.setattr(record, "Timer", Machine)
    monkeypatch.setattr(living, "Timer", Machine)
    profile = record.record(subject_of(job), seconds=0.1, labels=[spec.label for spec in job.methods])
    assert (profile.standard_ms, profile.back_to_back_ms) == (10.0, 9.0)
    stream = job.open_stream(job.streams[0])
    assert living.Speed(job, stream, profile.back_to_back_ms).now_x() == 1.0


def test_a_run_without_a_cell_to_live_says_so(run, monkeypatch):
    monkeypatch.setattr(living, "not_livable", lambda job, results, cell: "no")
    with pytest.raises(TemporaError, match="has no cell that could be lived"):
        living.live(run)


def test_cells_that_can_be_judged_are_lived_before_the_others(run, monkeypatch):
    """A check that picked none of them would pass any life."""
    monkeypatch.setattr(living, "outside", lambda resolved: None if resolved.queue == 0 else "no")
    monkeypatch.setattr(living, "_lived_cell", lambda job, results, cell, *more: cell["label"])
    for seed in range(8):
        assert all("queue 0" in label for label in living.live(run, cells=2, seed=seed))
        more = living.live(run, cells=3, seed=seed)
        assert sum("queue 0" in label for label in more) == 2
    assert len({tuple(living.live(run, cells=3, seed=seed)) for seed in range(8)}) > 1


TIGHT = [
    Deployment(arrivals=Periodic(interval_ms=2.0), queue=1, deadline_ms=8.0),
    Deployment(fps=1000, cameras=4, deadline_ms=8.0),
    Deployment(
        arrivals=Bursty(interval_ms=3.0, burst=4, length=4), queue=2, threshold_ms=6.0, budget_ms=20.0
    ),
    Deployment(arrivals="on_prediction", threshold_ms=6.0),
    Deployment(arrivals="on_completion", budget_ms=20.0, rule="overshoot"),
    *(
        Deployment(arrivals=Poisson(interval_ms=2.0), queue=queue, fallback=fallback, fallback_cost="charged")
        for queue, fallback in ((0, "standard"), (0, "latest"), (1, "latest"))
    ),
]
"""More comes than can be served, responses decay at about the time that they take, and batteries run empty: on any
machine, its times and arrivals say what was lived."""


@pytest.mark.parametrize("deployment", TIGHT, ids=lambda deployment: deployment.label)
def test_lived_arrivals_and_times_replay_to_what_was_lived(job, deployment):
    spec, source = job.methods[1], job.streams[0]
    stream = job.open_stream(source)
    resolved = deployment.resolve(
        num_batches=stream.num_batches, batch_size=stream.batch_size, baseline_ms=2.0, seed=1
    )
    life = living.live_once(job, spec, stream, resolved)
    assert life.replayed.utility == pytest.approx(life.lived.utility, abs=1e-9)
    assert life.replayed.availability == life.lived.availability
    assert life.replayed.response_p50_ms == pytest.approx(life.lived.response_p50_ms, abs=1e-6)
    assert life.handover_ms >= 0


@pytest.mark.parametrize(("fps", "queue"), [(300, 1), (3000, 2), (3000, 0)])
def test_frames_answered_at_once_are_lived_and_replayed_so(run, fps, queue):
    config = run.manifest["config"] | {"batch_size": 1, "batches": 60, "scenarios": []}
    job = build_job(load_config(None, flags=config))
    stream = job.open_stream(job.streams[0])
    camera = Deployment(fps=fps, answer="at_once", batch_size=8, deadline_ms=20, queue=queue)
    resolved = camera.resolve(num_batches=stream.num_batches, baseline_ms=2.0)
    life = living.live_once(job, job.methods[1], stream, resolved)
    assert life.replayed.utility == pytest.approx(life.lived.utility, abs=1e-9)
    assert life.replayed.availability == life.lived.availability
    served = life.trace.start_ms[life.trace.served]
    assert np.unique(served, return_counts=True)[1].max() <= 8
    assert np.count_nonzero(life.trace.action == "step") == len(served) // 8


def test_a_replay_follows_the_timeline_and_not_the_trace():
    """A life is only believed as far as arrivals and times go: who is served is worked out again."""
    resolved = Deployment(interval_ms=10, queue=1).resolve(num_batches=5)
    trace = Trace.empty(5, 2)
    trace.arrived_ms[:] = [0.0, 10.0, 20.0, 30.0, 40.0]
    served = [0, 2, 4]
    trace.phase[served], trace.correct[served] = ADAPTED, [2, 1, 0]
    trace.predict_ms[served], trace.adapt_ms[served] = 5.0, 15.0
    assert living.replayed(trace, trace.arrived_ms, resolved).utility == pytest.approx((1.0 + 0.5 + 0.0) / 5)
    trace.phase[[2, 3]], trace.correct[[2, 3]] = [SKIPPED, ADAPTED], [0, 1]
    trace.predict_ms[[2, 3]], trace.adapt_ms[[2, 3]] = [np.nan, 5.0], [np.nan, 15.0]
    told = living.replayed(trace, trace.arrived_ms, resolved)
    assert told.course.served.tolist() == [0, 2, 4], "not 0, 3, 4, as a pipeline that went wrong had it"

    rescued = Deployment(interval_ms=10, queue=0, fallback="standard").resolve(num_batches=4)
    trace = Trace.empty(4, 2)
    trace.arrived_ms[:] = [0.0, 10.0, 20.0, 30.0]
    trace.phase[:], trace.correct[:] = [ADAPTED, FALLBACK, FROZEN, FALLBACK], [2, 1, 2, 0]
    trace.predict_ms[:], trace.adapt_ms[:] = [5.0, 4.0, 15.0, 4.0], [10.0, 0.0, 0.0, 0.0]
    assert living.replayed(trace, trace.arrived_ms, rescued).utility == pytest.approx(
        (1.0 + 0.5 + 1.0 + 0.0) / 4
    )


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({"utilisation": 0.7, "queue": 1, "deadline_x": 1.5}, None),
        ({"utilisation": 0.7, "queue": 2}, None),
        ({"arrivals": Poisson(utilisation=0.5), "threshold_x": 1.1}, None),
        ({"utilisation": 0.71}, "utilisation 0.71"),
        ({"utilisation": 0.5, "queue": 0}, "no queue"),
        ({"utilisation": 0.5, "deadline_x": 1.4}, "deadline 1.4 λ"),
        ({"arrivals": "on_prediction"}, "no schedule"),
    ],
)
def test_cells_where_a_small_difference_in_time_decides_are_shown_and_not_judged(knobs, why):
    resolved = Deployment(**knobs).resolve(num_batches=3, baseline_ms=10.3)
    assert living.outside(resolved) == why


def figures(utility):
    return living.Figures(utility, 1.0, 1.0, None, None)


@pytest.mark.parametrize(
    ("lived", "replayed", "outside", "verdict", "stands"),
    [
        ([0.5, 0.519], [0.5, 0.519], None, "agrees", True),
        ([0.5, 0.521], [0.5, 0.521], None, "differs", False),
        ([0.5, 0.521], [0.5, 0.521], "no queue", "not judged:\nno queue", True),
        ([0.5, 0.5], [0.5, 0.5009], "no queue", "not judged:\nno queue", True),
        ([0.5, 0.5], [0.5, 0.5011], "no queue", "wrong logic", False),
    ],
)
def test_one_point_for_the_clock_and_a_tenth_for_the_logic(lived, replayed, outside, verdict, stands):
    trace = Trace.empty(1, 1)
    lives = tuple(
        living.LiveResult(figures(one), figures(other), 0.1, trace)
        for one, other in zip(lived, replayed, strict=True)
    )
    cell = living.LivedCell("tent", "contrast", 1, "ρ 50 %", figures(0.5), lives, outside)
    assert (str(cli_live._verdict(cell)), cell.stands) == (verdict, stands)
    said = cli_live.summary([cell])
    judged = (
        "no cell is of the kind" if outside else f"{int(verdict == 'agrees')} of 1 cell agree within 1 point"
    )
    assert judged in said
    assert f"{int(verdict != 'wrong logic')} of 1 cell agree within 0.1 points" in said


@pytest.mark.parametrize(("load", "said"), [(2.4, False), (7.0, True)])
def test_a_busy_machine_is_said_before_a_profile_is_blamed(load, said, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load), raising=False)
    assert (cli_live.busy_machine() is not None) == said


def test_the_command_prints_both(run):
    result = CliRunner().invoke(app, ["audit", str(run.path), "--realtime", "--cells", "2", "--seed", "3"])
    said = " ".join(result.output.split())
    assert "Profile against lived: " in said
    assert "Lived times replayed against lived: " in said
    assert "agree within 0.1 points (largest difference 0.0000)" in said
