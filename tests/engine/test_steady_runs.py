"""Runs under the steady clock: a profile first, then passes that it drives. No test depends on how long work took."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from late_action import Late

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.config import RunConfig
from tempora_tta.engine import Observer
from tempora_tta.engine.build import job_from_python, settle_torch
from tempora_tta.engine.own_profile import needs
from tempora_tta.engine.profile_child import subject_of
from tempora_tta.methods import LEARNS, Method
from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete
from tempora_tta.timing import load_profile
from tempora_tta.timing import record as recording
from tempora_tta.timing.profile import Entry, MethodFacts, Profile, Residuals, Round
from tempora_tta.timing.record import profiled_batches

SCENARIOS = [
    Discrete(utilisation=1),
    Discrete(utilisation=0.5),
    Discrete(utilisation=1, queue=0),
    Continuous(threshold_x=2.5),
    Amortised(budget_x=0.125),
    Amortised(budget_x=0.5, rule="overshoot"),
    Deployment(arrivals="on_prediction", threshold_x=3, budget_x=0.25),
]
METHODS = ["standard", "adabn", "lame", "tent", "eta"]


class Watches(Observer):
    def __init__(self) -> None:
        self.passes, self.notes = [], []

    def pass_started(self, kind, batches):
        self.passes.append(kind)

    def note(self, text):
        self.notes.append(text)


def made_up(methods=METHODS, **more) -> Profile:
    """Make up a profile with different latencies for every method, phase and action."""
    entries = [Entry(method="standard", phase="predict", steady_ms=10.0)]
    for position, method in enumerate(methods):
        if method == "standard":
            continue
        entries += [
            Entry(method=method, phase="predict", steady_ms=10.5 + position, error=0.01, samples=9),
            Entry(method=method, phase="frozen", steady_ms=10.25),
        ]
        slow = method in ("tent", "eta", "sar", "deyo")
        entries += [
            Entry(method=method, phase="adapt", action=action, steady_ms=ms + position, samples=9)
            for action, ms in ((("step", 17.0), ("nothing_kept", 1.5)) if slow else (("none", 0.125),))
        ]
    entries = [entry.model_copy(update={"rounds": [0], "ms": [entry.steady_ms]}) for entry in entries]
    rounds = [Round(shift="x", clean=True, checks=False, standard_ms=10.0)]
    blocks = [[1.0, 1.25, 1.0, 1.5, 1.0, 1.0, 2.0, 1.0], [1.0, 1.0, 1.75, 1.0, 3.0, 1.0, 1.0, 1.125]]
    facts = {
        "name": "made up",
        "id": "abc",
        "made_at": "2026-01-01",
        "model": "fashion_resnet",
        "weights": "w",
    }
    facts |= {"batch_size": 8, "device": "somewhere", "threads": 1, "times": "process CPU time"}
    residuals = Residuals(factors=blocks, clean_samples=16)
    numbers = {"standard_ms": 10.0, "entries": entries, "rounds": rounds, "residuals": residuals}
    return Profile(**facts | numbers | more)


@pytest.fixture
def clock(tmp_path):
    made_up().save(tmp_path / "clock.json")
    return tmp_path / "clock.json"


def evaluate(model, batches, methods, **more):
    options = {"scenarios": SCENARIOS, "device": "cpu"} | more
    return tempora.evaluate(model, batches, methods, **options)


# -- driven by a profile ------------------------------------------------------------------------------------


def test_shared_and_unshared_runs_agree_to_the_bit(network, batches, clock):
    runs = [
        evaluate(network("fashion_resnet"), batches, METHODS, clock=clock, share=share)
        for share in (True, False)
    ]
    left, right = (run.utilities.drop(columns=["origin", "adapting_pass", "frozen_pass"]) for run in runs)
    assert left.equals(right)
    assert (left["status"] == "ok").all()
    together, alone = (run.traces.drop(columns="attempt_predict_ms") for run in runs)
    for column in ("served", "correct", "predict_ms", "adapt_ms", "start_ms", "residual", "mode", "action"):
        assert together[column].equals(alone[column]), column


def test_times_are_constants_of_the_kind_and_tails_have_them_too(network, batches, clock):
    run = evaluate(network("fashion_resnet"), batches, ["standard", "tent"], clock=clock)
    assert run.manifest["clock"] == "recorded:abc"
    assert run.manifest["baseline"]["baseline_ms"] == pytest.approx(10.3)
    tent = run.traces[run.traces["method"] == "tent"]
    adapted = tent[tent["phase"] == "adapt"]
    assert set(adapted["predict_ms"]) == {13.5}
    assert set(adapted.loc[adapted["action"] == "step", "adapt_ms"]) == {20.0}
    frozen = tent[(tent["protocol"] == "amortised") & (tent["phase"] == "frozen")]
    assert len(frozen) > 0
    assert set(frozen["predict_ms"]) == {10.25}, (
        "frozen batches that nothing waits for have times all the same"
    )
    assert frozen["finish_ms"].notna().all()


def test_joules_are_busy_time_times_the_power_of_the_profile(network, batches, tmp_path):
    facts = {
        "standard": MethodFacts(watts=100.0, memory_bytes=2 * 10**8),
        "tent": MethodFacts(watts=150.0, memory_bytes=7 * 10**8),
    }
    made_up(facts=facts).save(tmp_path / "powered.json")
    methods = ["standard", "tent", "adabn"]
    run = evaluate(network("fashion_resnet"), batches, methods, clock=tmp_path / "powered.json")
    traces = run.traces[run.traces["served"]]
    traces = traces.assign(
        watts=np.where(
            traces["phase"] == "adapt", traces["method"].map({"standard": 100.0, "tent": 150.0}), 100.0
        )
    )
    traces["joules"] = traces["watts"] * (traces["predict_ms"] + traces["adapt_ms"]) / 1000
    cell = ["method", "shift", "label", "queue"]
    expected = traces.groupby(cell)["joules"].sum()
    steady = run.utilities[run.utilities["queue"] > 0]  # without the device's own variation in its times
    steady = steady.set_index(cell).sort_index()
    for name in ("standard", "tent"):
        found = steady.loc[name, "energy_j"]
        assert len(found) == 7
        assert found.to_dict() == pytest.approx(expected.loc[name].loc[found.index].to_dict())
    assert steady.loc["adabn", "energy_j"].isna().all(), "its power was not measured"
    assert (steady.loc["standard", "overhead_j"] == 0).all()
    assert set(steady.loc["tent", "memory_mb"]) == {700.0}
    assert run.recommend(memory_mb=500).left_out["tent"] == "its memory is 700 MB, above 500"


def test_the_devices_own_variation_is_applied_where_the_tail_is_the_answer(network, batches, clock):
    run = evaluate(network("fashion_resnet"), batches, ["standard"], clock=clock)
    traces = run.traces
    factors = traces[traces["protocol"] == "offline"]["residual"].to_numpy()
    assert set(factors) > {1.0}
    waits = traces[(traces["protocol"] == "discrete") & (traces["queue"] == 0)].set_index("index")
    taken = (waits["finish_ms"] - waits["start_ms"])[waits["served"]]
    assert taken.to_numpy() == pytest.approx(10.0 * factors[taken.index])
    queued = traces[(traces["label"] == "ρ 100 %") & (traces["queue"] == 1) & traces["served"]]
    assert (queued["finish_ms"] - queued["start_ms"]).to_numpy() == pytest.approx(10.0)


def test_no_warm_up_and_no_look_at_the_machine(network, batches, clock, monkeypatch):
    """Predictions that are not timed are made once each."""
    calls = []
    predict = Method.logits
    monkeypatch.setattr(Method, "logits", lambda self, x: calls.append(1) or predict(self, x))
    evaluate(network("fashion_resnet"), batches, ["tent"], scenarios=[], clock=clock)
    assert len(calls) == len(batches)


def test_a_variant_takes_the_times_of_its_method_and_a_stranger_those_it_names(network, batches, clock):
    methods = [
        "standard",
        ("tent", {"lr": 1e-4, "label": "slow_tent"}),
        (Late, {"times_as": "eta", "label": "mine"}),
    ]
    run = evaluate(network("fashion_resnet"), batches, methods, clock=clock, scenarios=[])
    means = run.traces.groupby("method")["predict_ms"].mean()
    assert means["slow_tent"] == 13.5
    assert means["mine"] == 14.5
    with pytest.raises(TemporaError, match="no times for 'late'"):
        raise_failure(evaluate(network("fashion_resnet"), batches, [Late], clock=clock, scenarios=[]))


def raise_failure(run) -> None:
    raise TemporaError(run.utilities["status"].iloc[0])


def test_a_kind_without_a_time_costs_a_step_where_its_device_is_not_at_hand(network, batches, tmp_path):
    entries = [
        Entry(method="late", phase="predict", steady_ms=10.0),
        *(
            Entry(method="late", phase="adapt", mode=mode, action="step", steady_ms=5.0)
            for mode in ("even", "odd")
        ),
    ]
    made_up(["standard"], entries=[*made_up(["standard"]).entries, *entries]).save(tmp_path / "clock.json")
    watches = Watches()
    clock = tmp_path / "clock.json"
    run = evaluate(network("fashion_resnet"), batches, ["standard", Late], clock=clock, observer=watches)
    late = run.traces[(run.traces["method"] == "late") & (run.traces["protocol"] == "offline")]
    assert set(late["adapt_ms"]) == {5.0}
    assert list(late["amount"]) == [float(index + 1) for index in range(len(batches))]
    assert list(late["mode"])[:2] == ["odd", "even"]
    verdicts = run.utilities[run.utilities["method"] == "late"].set_index("protocol")["timing"]
    assert verdicts["offline"] == "VALID", "time does not touch it"
    assert set(verdicts["continuous"]) <= set("WARN") or verdicts["continuous"] == "WARN"
    assert any("no time for" in note and "jump" in note for note in watches.notes)


def test_a_profile_of_shared_cores_answers_relative_scenarios_only(network, batches, tmp_path):
    busy = made_up(["standard"], cores_ours=False, threads=4, times="wall time")
    busy.save(tmp_path / "clock.json")
    scenarios = [Discrete(utilisation=1), Discrete(interval_ms=20)]
    run = evaluate(
        network("fashion_resnet"), batches, ["standard"], clock=tmp_path / "clock.json", scenarios=scenarios
    )
    status = run.utilities.set_index("label")["status"]
    assert list(status[["offline", "ρ 100 %"]]) == ["ok", "ok"]
    assert status["γ 20 ms"].startswith("not applicable: the cores were not ours")
    assert run.manifest["verdict"]["status"] == "WARN"


# -- recorded first -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_profiles_this_machine_first_and_resumes_from_it(network, batches, tmp_path):
    """The real thing, in a child process: structure, resume, a kind met later, and sharing to the bit."""
    shifts = {"one": batches[:7], "two": batches[1:8]}
    methods = ["standard", "tent", Late]
    options = {"clock": "steady", "profile_s": 1.0, "scenarios": SCENARIOS[:5], "out": tmp_path / "run"}
    watches = Watches()
    first = evaluate(network("fashion_resnet"), shifts, methods, observer=watches, **options)
    assert (first.utilities["status"] == "ok").all()
    assert watches.passes[0] == "profiling"
    assert watches.passes.count("profiling a new kind of work") in (1, 2)

    profile = load_profile(tmp_path / "run" / "profile.json")
    assert profile.own_process
    assert profile.threads == 1
    assert profile.times == "process CPU time"
    assert first.manifest["clock"] == f"steady:{profile.id}"
    assert first.manifest["baseline"]["baseline_ms"] == 1.03 * profile.standard_ms
    kinds = {str(kind) for kind in profile.by_kind}
    assert {"standard|predict||", "tent|predict||", "tent|adapt||step", "tent|frozen||"} <= kinds
    assert profile.facts["tent"].unmet == ["nothing_kept", "non_finite"]
    met_later = [entry for entry in profile.entries if entry.action == "jump"]
    assert met_later, "batches after the first few did something new, and it was profiled then"
    assert set(first.utilities["timing"]) == {"VALID"}
    for entry in profile.entries:
        assert len(entry.ms) == len(entry.rounds) > 0
        assert max(entry.rounds) < len(profile.rounds)
    offline = first.traces[first.traces["protocol"] == "offline"]
    for _, group in offline.groupby(["method", "action", "mode", group_amount(offline)]):
        assert np.ptp(group["adapt_ms"]) == 0, "the same kind and amount takes the same time on every batch"

    watches = Watches()
    again = evaluate(network("fashion_resnet"), shifts, methods, observer=watches, **options)
    assert watches.passes == [], "nothing is profiled or made again"
    assert again.utilities.equals(first.utilities)

    alone = evaluate(
        network("fashion_resnet"),
        shifts,
        methods,
        clock=tmp_path / "run" / "profile.json",
        scenarios=SCENARIOS[:5],
        share=False,
    )
    columns = ["method", "shift", "label", "utility", "availability", "responsiveness", "cutoff", "spent_ms"]
    assert alone.utilities[columns].equals(first.utilities[columns])


def group_amount(traces):
    return traces["amount"].fillna(-1.0)


def test_what_lives_in_this_process_alone_is_profiled_here(network, batches):
    class AtAPrompt(Method):
        name = "at_a_prompt"

        def predict(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x)

    watches = Watches()
    run = evaluate(
        network("fashion_resnet"),
        batches[:3],
        ["standard", AtAPrompt],
        clock="steady",
        profile_s=0.1,
        scenarios=[],
        observer=watches,
    )
    assert (run.utilities["status"] == "ok").all()
    assert any("put them into a module" in note for note in watches.notes)
    assert not load_profile(run.path / "profile.json").own_process


def test_methods_of_a_later_run_are_added_to_the_profile():
    first, more = made_up(["standard", "tent"]), made_up(["standard", "eta"], standard_ms=20.0)
    both = first.with_methods(more)
    assert both.id == first.id
    eta = both.by_kind[
        next(kind for kind in both.by_kind if kind.method == "eta" and kind.phase == "predict")
    ]
    assert eta.steady_ms == 11.5 / 2, "relative to standard inference, which took twice as long then"
    assert both.by_kind[first.entries[0].kind].steady_ms == 10.0


def test_what_has_to_be_profiled(network, batches, clock):
    from tempora_tta.engine.build import job_from_python

    def job(*methods):
        return job_from_python(
            network("fashion_resnet"), {"a": batches}, methods, [], device="cpu", clock=clock, seeds=[1]
        )

    assert needs(job("standard", "tent"), None) == ["standard", "tent"]
    assert needs(job("standard", "cmf", (Late, {"times_as": "tent"})), made_up()) == ["cmf"]
    with pytest.raises(TemporaError, match="add 'spa' to them"):
        needs(job("standard", (Late, {"times_as": "spa"})), made_up())


def test_times_of_a_method_that_was_edited_or_set_otherwise_are_stale(
    network, batches, clock, tmp_path, monkeypatch
):
    from tempora_tta.engine.build import job_from_python

    def job(*methods):
        return job_from_python(
            network("fashion_resnet"), {"a": batches}, methods, [], device="cpu", clock=clock, seeds=[1]
        )

    text = (
        "from tempora_tta.methods import Method\nclass Mine(Method):\n    name = 'mine'\n"
        "    def predict(self, x):\n        return self.model(x)\n"
    )
    (tmp_path / "stale.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    before = job("standard", "tent", "stale:Mine")
    facts = {name: MethodFacts() for name in ("standard", "tent", "mine")} | {"eta": MethodFacts(failed=True)}
    profile = made_up(["standard", "tent", "mine"], facts=facts).stamped(before.made_by_label)
    assert needs(before, profile) == []
    assert needs(job("standard", ("tent", {"lr": 0.5}), "stale:Mine"), profile) == ["tent"]
    (tmp_path / "stale.py").write_text(text.replace("self.model(x)", "self.model(x) + self.model(x)"))
    del sys.modules["stale"]
    assert needs(job("standard", "tent", "stale:Mine"), profile) == ["mine"]
    assert needs(job("standard", "tent"), profile) == []


def test_what_is_profiled_again_takes_the_place_of_what_was_there():
    first = made_up(["standard", "tent", "eta"], facts={"eta": MethodFacts(unmet=["gone"])})
    again = made_up(["standard", "eta"], facts={"eta": MethodFacts(unmet=["new"])})
    both = first.with_methods(again)
    assert [(entry.method, entry.phase) for entry in both.entries].count(("eta", "predict")) == 1
    eta = next(entry for entry in both.entries if (entry.method, entry.phase) == ("eta", "predict"))
    assert eta.steady_ms == 11.5, "not the 12.5 ms of the first recording"
    assert both.methods == {"standard", "tent", "eta"}
    assert (len(both.rounds), eta.rounds) == (2, [1])
    assert both.facts["eta"].unmet == ["new"]
    fails = made_up(["standard"], facts={"eta": MethodFacts(failed=True)})
    assert "eta" not in first.with_methods(fails).methods


def test_shifts_to_profile_on_are_spread_and_the_last_checks(network, batches, clock):
    names = [f"s{index:02}" for index in range(15)]
    streams = dict.fromkeys(names, batches[:1])
    job = job_from_python(
        network("fashion_resnet"), streams, ["standard"], [], device="cpu", clock=clock, seeds=[1]
    )
    assert list(profiled_batches(job.streams, job.open_stream)) == ["s00", "s05", "s14", "s09"]


@pytest.mark.parametrize(("shifts", "each"), [(1, 12), (2, 6), (3, 4), (4, 3), (15, 3)])
def test_fewer_shifts_are_looked_at_longer(network, batches, clock, shifts, each):
    job = job_from_python(
        network("fashion_resnet"),
        {f"s{index:02}": batches for index in range(shifts)},
        ["standard"],
        [],
        device="cpu",
        clock=clock,
        seeds=[1],
    )
    found = profiled_batches(job.streams, job.open_stream)
    assert {len(given) for given in found.values()} == {min(each, len(batches))}


@pytest.mark.parametrize(
    ("waited_s", "share", "by_processor", "lasts_s"),
    [
        (0, 1.0, True, 24),
        (4, 1.0, True, 20),
        (4, 1.0, False, 20),
        (1000, 1.0, True, 18),
        (1000, 0.5, False, 18),
        (0, 0.8, True, 30),
        (0, 0.1, True, 48),
    ],
    ids=[
        "all of it",
        "less what the start took",
        "also of a GPU",
        "which leaves most",
        "and others",
        "shared",
        "lost",
    ],
)
def test_the_time_of_a_profile_is_what_it_had(monkeypatch, waited_s, share, by_processor, lasts_s):
    """24 seconds; others use the rest of the processor."""
    now = SimpleNamespace(s=1000.0)
    clock = SimpleNamespace(monotonic=lambda: now.s, process_time=lambda: 2000.0 + share * (now.s - 1000.0))
    monkeypatch.setattr(recording, "time", clock)
    deadline = recording.Deadline(24.0, waited_s, by_processor)
    now.s += lasts_s - 0.01
    assert deadline.up < 1
    now.s += 0.02
    assert deadline.up > 1


def test_torch_is_told_to_be_deterministic_only_where_that_changes_something(monkeypatch):
    told = []
    monkeypatch.setattr(torch, "use_deterministic_algorithms", told.append)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    settle_torch(RunConfig(), torch.device("cpu"))
    assert told == [], "the call imports a compiler, which takes seconds"
    settle_torch(RunConfig(deterministic=True), torch.device("cpu"))
    assert told == [True]


class Fifth(Method):
    """Does something else on every fifth batch since its reset."""

    name = "fifth"
    actions = {"step": LEARNS, "fifth": LEARNS}
    state = ("served",)

    def setup(self) -> None:
        self.served = 0

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)

    def adapt(self) -> str:
        self.served += 1
        return "step" if self.served % 5 else "fifth"


def test_work_that_only_a_long_way_meets_is_profiled_too(network, batches, clock):
    """Four batches of each of three shifts, from a reset each, never come to the fifth."""
    shifts = dict.fromkeys(("a", "b", "c"), batches[:4])
    job = job_from_python(
        network("fashion_resnet"), shifts, ["standard", Fifth], [], device="cpu", clock=clock, seeds=[1]
    )
    profile = recording.record(subject_of(job), seconds=60.0, labels=["fifth"])
    actions = {entry.action: entry for entry in profile.entries if entry.phase == "adapt"}
    assert {"step", "fifth"} <= set(actions)
    assert actions["fifth"].samples > 0, "all of its rounds, or the undisturbed ones"
    assert profile.facts["fifth"].unmet == []


def test_answers_to_groups_of_frames_and_learning_apart_have_times_of_their_own(network, frames, clock):
    """A line over the number of frames; a run that asks for it later has it recorded then."""
    camera = Deployment(fps=30, answer="at_once", batch_size=16)
    job = job_from_python(
        network("fashion_resnet"),
        {"x": frames},
        ["standard", "tent"],
        [camera],
        device="cpu",
        clock=clock,
        seeds=[1],
    )
    profile = recording.record(subject_of(job), seconds=1.0, labels=["tent"])
    kinds = {(entry.method, entry.phase, entry.action) for entry in profile.entries if entry.mode}
    assert kinds == {("standard", "predict", ""), ("tent", "predict", ""), ("tent", "adapt", "step")}
    answers = next(entry for entry in profile.entries if entry.mode and entry.phase == "predict")
    assert answers.amount == pytest.approx(5, abs=2), "of 1, 3, 6 and 16"
    assert needs(job, profile) == []
    assert needs(job, made_up(["standard", "tent"])) == ["standard", "tent"]


# -- joules and megabytes -----------------------------------------------------------------------------------


def test_power_is_that_of_predicting_and_adapting(network, batches, clock, monkeypatch):
    """By a counter of 50 W, so that what is worked is what is counted."""
    job = job_from_python(
        network("fashion_resnet"),
        {"x": batches},
        ["standard", "tent"],
        [],
        device="cpu",
        clock=clock,
        seeds=[1],
    )
    monkeypatch.setattr(recording, "mean_watts", lambda work, joules: (work(), work(), 50.0)[-1])
    facts = recording.record(subject_of(job), seconds=0.01, labels=["tent"]).facts
    assert facts["standard"].watts == facts["tent"].watts == 50.0
    assert facts["tent"].updated_parameters > 0
    assert facts["tent"].memory_bytes is None, "a processor's memory cannot be told apart"
