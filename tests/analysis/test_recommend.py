"""The recommended method: exact answers only, the others that were asked, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from made_runs import BASELINE_MS, GRID, METHODS, Pace
from made_runs import measured_run as write_run
from tempora_tta.analysis.answer import Answer
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.recommend import recommend
from tempora_tta.analysis.replays import answer
from tempora_tta.errors import TemporaError
from tempora_tta.report.tables import build
from tempora_tta.scenarios import (
    Amortised,
    Continuous,
    Deployment,
    Discrete,
    Offline,
    Poisson,
    Scenario,
)
from tempora_tta.store import Results
from tempora_tta.store.resources import Resources


def ask(run: Results, scenario: Scenario, shifts: Sequence[str] = (), **limits: float) -> Answer:
    return recommend(run, Question(scenario=scenario, shifts=tuple(shifts), **limits))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("scenario", GRID[1:], ids=lambda scenario: scenario.label)
def test_evaluated_points_are_read_not_replayed(run: Results, scenario: Scenario) -> None:
    found = ask(run, scenario)
    cells = run.utilities[run.utilities["label"] == scenario.label]
    expected = cells.groupby("method")["utility"].mean()
    assert found.ranking.set_index("method")["utility"].to_dict() == pytest.approx(expected.to_dict())
    assert set(found.ranking["answer"]) == {"evaluated"}
    assert found.method == expected.idxmax()
    assert not found.left_out


def test_a_point_is_the_same_within_rounding_only(run: Results) -> None:
    assert not ask(run, Discrete(interval_ms=10.0 * (1 + 1e-12))).left_out
    assert ask(run, Discrete(interval_ms=10.01)).left_out


def test_offline_the_most_accurate_wins(run: Results) -> None:
    found = ask(run, Offline())
    cells = run.utilities[run.utilities["protocol"] == "offline"]
    expected = cells.groupby("method")["utility"].mean()
    assert found.ranking.set_index("method")["utility"].to_dict() == pytest.approx(expected.to_dict())
    needed = found.ranking.set_index("method")["break_even_accuracy"]
    assert needed["tent"] == pytest.approx(expected["sar"])
    assert not found.ranking["insolvent"].any()


def test_any_deployment_is_read_or_replayed_or_not_answered(tmp_path: Path) -> None:
    evaluated = (
        Deployment(interval_ms=12.0, threshold_ms=30.0),
        Deployment(interval_ms=25.0, threshold_ms=30.0),
    )
    run = write_run(tmp_path, scenarios=[*GRID, *evaluated])
    read = ask(run, Deployment(utilisation=BASELINE_MS / 12, threshold_x=3.0))
    cells = run.utilities[run.utilities["label"] == evaluated[0].label].groupby("method")["utility"].mean()
    assert read.ranking.set_index("method")["utility"].to_dict() == pytest.approx(cells.to_dict())
    assert set(read.ranking["answer"]) == {"evaluated"}
    replayed = ask(run, Deployment(interval_ms=12.0, threshold_ms=33.0))
    assert set(replayed.ranking["answer"]) == {"replayed"}
    assert set(replayed.left_out) == {"tent", "sar"}, "they would skip batches"
    assert ask(run, Deployment(interval_ms=12.0, threshold_ms=30.0, queue=0)).left_out


def test_frozen_batches_that_samples_wait_for_must_have_been_timed(run: Results) -> None:
    """LAME freezes into Standard, but how long the frozen LAME takes is not how long Standard takes."""
    found = ask(run, Deployment(interval_ms=50.0, budget_ms=20.0))
    assert set(found.left_out) == {"tent", "sar", "adabn", "lame"}
    assert "how fast the model predicts when frozen" in found.left_out["lame"]
    waits = ask(run, Deployment(arrivals="on_completion", budget_ms=20.0, rule="strict"))
    assert "lame" in set(waits.ranking["method"]), "no sample waits for its frozen batches"


@pytest.mark.parametrize("threshold_ms", [11.0, 12.5, 90.0])
def test_any_patience_is_replayed_exactly_for_everybody(run: Results, threshold_ms: float) -> None:
    found = answer(run, Continuous(threshold_ms=threshold_ms))
    assert not found.unanswered
    offline = run.utilities[run.utilities["protocol"] == "offline"].set_index(["method", "shift"])
    for _, row in found.rows.iterrows():
        trace = run.trace(offline.loc[(row["method"], row["shift"])])
        score = Continuous(threshold_ms=threshold_ms).score(
            accuracy=trace.accuracy,
            predict_ms=trace.predict_ms,
            adapt_ms=trace.adapt_ms,
            baseline_ms=BASELINE_MS,
        )
        assert row["utility"] == pytest.approx(score.utility)
        assert found.streams[row["method"], row["shift"], 1].worth.mean() == pytest.approx(score.utility)


def test_skipping_is_replayed_for_history_free_methods_only(run: Results) -> None:
    found = ask(run, Discrete(interval_ms=8.0))
    assert set(found.ranking["method"]) == {"standard", "adabn", "lame"}
    assert set(found.left_out) == {"tent", "sar"}
    assert "depends on which" in found.left_out["tent"]
    offline = run.utilities[run.utilities["protocol"] == "offline"].set_index(["method", "shift"])
    trace = run.trace(offline.loc[("adabn", "fog")])
    score = Discrete(interval_ms=8.0).score(accuracy=trace.accuracy, service_ms=trace.service_ms)
    rows = answer(run, Discrete(interval_ms=8.0), ["fog"]).rows.set_index("method")
    assert rows.loc["adabn", "utility"] == pytest.approx(score.utility)
    assert score.course.evicted.size > 0


def test_an_interval_that_skips_nothing_is_answered_for_everybody(run: Results) -> None:
    found = ask(run, Discrete(interval_ms=50.0))
    offline = run.utilities[run.utilities["protocol"] == "offline"].groupby("method")["utility"].mean()
    assert found.ranking.set_index("method")["utility"].to_dict() == pytest.approx(offline.to_dict())
    assert set(found.ranking["answer"]) == {"replayed"}
    some = ask(run, Discrete(interval_ms=30.0))
    assert set(some.left_out) == {"sar"}, "41 ms do not fit into 30, 24 do"


def test_the_queue_is_part_of_the_question(run: Results) -> None:
    assert set(ask(run, Discrete(interval_ms=10.0, queue=0)).left_out) == {"tent", "sar"}


def test_budgets_that_last_are_answered_for_everybody(run: Results) -> None:
    found = ask(run, Amortised(budget_ms=5000.0))
    assert not found.left_out
    assert (found.ranking["adapted_fraction"] == 1).all()


def test_budgets_that_run_out_need_their_frozen_tail(run: Results) -> None:
    found = ask(run, Amortised(budget_ms=200.0))
    assert set(found.left_out) == {"tent", "sar"}
    assert "frozen there was not measured" in found.left_out["sar"]


def test_a_tail_frozen_at_the_same_batch_serves_other_budgets(run: Results) -> None:
    """Tent's overhead is about 14 ms a batch: 60 and 62 ms both end after four."""
    near = ask(run, Amortised(budget_ms=62.0)).ranking.set_index("method")
    evaluated = ask(run, Amortised(budget_ms=60.0)).ranking.set_index("method")
    assert near.loc["tent", "answer"] == "replayed"
    assert near.loc["tent", "utility"] == evaluated.loc["tent", "utility"]


def test_stateless_methods_freeze_into_standard_inference(run: Results) -> None:
    """LAME's overhead is about 1 ms a batch, so 20 ms end halfway."""
    row = answer(run, Amortised(budget_ms=20.0), ["fog"]).rows.set_index("method").loc["lame"]
    cutoff = int(row["cutoff"])
    assert 0 < cutoff < 40
    offline = run.utilities[(run.utilities["protocol"] == "offline") & (run.utilities["shift"] == "fog")]
    traces = {cell["method"]: run.trace(cell) for _, cell in offline.iterrows()}
    correct = traces["lame"].correct[:cutoff].sum() + traces["standard"].correct[cutoff:].sum()
    assert row["utility"] == pytest.approx(correct / 2000)


def test_the_rule_is_part_of_the_question(run: Results) -> None:
    assert "tent" in ask(run, Amortised(budget_ms=60.0, rule="overshoot")).left_out


def test_methods_that_look_at_the_clock_are_never_replayed(tmp_path: Path) -> None:
    found = ask(write_run(tmp_path, facts={"tent": {"time_aware": True}}), Continuous(threshold_ms=20.0))
    assert "looks at the clock" in found.left_out["tent"]
    assert "sar" in set(found.ranking["method"])


def test_a_method_that_stops_adapting_depends_on_its_past(tmp_path: Path) -> None:
    """AdaBN is history-free, AdaBN with stop_after is not: what the pass recorded decides, not the name."""
    stops = {"adabn": {"history_free": False}}
    run = write_run(tmp_path, facts=stops, scenarios=[Offline()])
    assert "adabn" in ask(run, Discrete(interval_ms=10.0)).left_out


MINE = {"standard": METHODS["standard"], "my_methods:Mine": METHODS["adabn"]}


@pytest.mark.parametrize("history_free", [True, False])
def test_own_methods_are_replayed_if_they_are_history_free(tmp_path: Path, history_free: bool) -> None:
    facts = {"my_methods:Mine": {"history_free": history_free}}
    run = write_run(tmp_path, methods=MINE, facts=facts, scenarios=[Offline()])
    found = ask(run, Discrete(interval_ms=8.0))
    assert ("my_methods:Mine" in set(found.ranking["method"])) == history_free
    assert ("my_methods:Mine" in found.left_out) != history_free


@pytest.mark.parametrize("runtime", ["", "tf32"])
def test_own_methods_freeze_into_the_standard_of_their_runtime(tmp_path: Path, runtime: str) -> None:
    ending = f"@{runtime}" if runtime else ""
    methods = {f"{name}{ending}": numbers for name, numbers in MINE.items()} | {
        "standard": Pace(9.0, 0.0, 0.80)
    }
    mine, standard = f"my_methods:Mine{ending}", f"standard{ending}"
    identity = {mine: {"runtime": runtime}} if runtime else {}
    run = write_run(
        *(tmp_path,),
        methods=methods,
        identity=identity,
        facts={mine: {"stateless": True}},
        scenarios=[Offline()],
    )
    row = answer(run, Amortised(budget_ms=5.0), ["fog"]).rows.set_index("method").loc[mine]
    cutoff = int(row["cutoff"])
    assert 0 < cutoff < 40
    offline = run.utilities[run.utilities["shift"] == "fog"].set_index("method")
    right = [run.trace(offline.loc[name]).correct for name in (mine, standard)]
    assert row["utility"] == pytest.approx((right[0][:cutoff].sum() + right[1][cutoff:].sum()) / 2000)


def test_the_lead_is_paired_by_batch_and_holds_for_all_rivals_together(run: Results) -> None:
    scenario = Continuous(threshold_ms=15.0)
    found = ask(run, scenario)
    assert found.lead is not None
    mean, lo, hi = found.lead
    streams = answer(run, scenario).streams
    best, second = (
        [value for shift in ("fog", "snow") for value in streams[method, shift, 1].worth]
        for method in found.ranking["method"][:2]
    )
    interval = stats.ttest_rel(best, second).confidence_interval(0.95)
    # Wider than for one rival: it holds for all of them together.
    assert lo < interval.low + 0.002
    assert hi > interval.high - 0.002
    assert hi - lo < 3 * (interval.high - interval.low)
    top = found.ranking["utility"]
    assert mean == pytest.approx(top[0] - top[1])


def test_what_times_leave_open_is_undecided_by_timing(tmp_path: Path) -> None:
    """At 10.5 ms an interval, AdaBN's 10.5 ms are a knife edge; Standard's 9 are not."""
    scenario = Discrete(interval_ms=10.5, queue=0)
    close = {"standard": Pace(9.0, 0.0, 0.42), "adabn": Pace(10.3, 0.0, 0.44)}
    sure = ask(write_run(tmp_path / "sure", methods=close), scenario)
    unsure = ask(write_run(tmp_path / "unsure", methods=close, uncertainty=0.2), scenario)
    assert sure.judged.why != "timing"
    assert (unsure.judged.verdict, unsure.judged.why) == ("undecided", "timing")
    assert unsure.judged.rivals == (unsure.ranking["method"][1],)
    assert unsure.lead is not None
    assert unsure.lead[1] < 0


def test_equal_methods_tie(tmp_path: Path) -> None:
    same = {
        "standard": Pace(9.0, 0.0, 0.30),
        "stand-in": Pace(9.0, 0.0, 0.30),
    }  # names of one length get the same luck
    found = ask(write_run(tmp_path, methods=same), Continuous(threshold_ms=15.0))
    assert (found.judged.verdict, found.judged.equal_with) == ("equal", ("stand-in",))


def test_small_margins_are_undecided_by_sampling(tmp_path: Path) -> None:
    close = {"tent": Pace(9.0, 0.0, 0.40), "adabn": Pace(9.0, 0.0, 0.40)}
    found = ask(write_run(tmp_path, methods=close), Continuous(threshold_ms=15.0))
    assert (found.judged.verdict, found.judged.why) == ("undecided", "sampling")


def test_insolvent_methods_would_lose_with_every_prediction_right(run: Results) -> None:
    found = ask(run, Discrete(interval_ms=10.0))
    assert found.method == "adabn"
    assert found.ranking.loc[found.ranking["insolvent"], "method"].tolist() == ["sar"]
    needed = found.ranking.set_index("method")["break_even_accuracy"]
    sar = found.ranking.set_index("method").loc["sar"]
    assert needed["sar"] == pytest.approx(found.ranking["utility"][0] / sar["availability"])


def test_standard_inference_may_win(tmp_path: Path) -> None:
    methods = {"standard": Pace(9.0, 0.0, 0.40), "sar": Pace(10.0, 31.0, 0.50)}
    assert ask(write_run(tmp_path, methods=methods), Discrete(interval_ms=10.0)).method == "standard"


def test_shifts_can_be_chosen(run: Results) -> None:
    fog = ask(run, Discrete(interval_ms=10.0), ["fog"]).ranking.set_index("method")
    cells = run.utilities[(run.utilities["label"] == "γ 10 ms") & (run.utilities["shift"] == "fog")]
    assert fog["utility"].to_dict() == pytest.approx(cells.set_index("method")["utility"].to_dict())
    with pytest.raises(TemporaError, match="unknown shift of this run 'fgo': did you mean 'fog'"):
        ask(run, Discrete(interval_ms=10.0), ["fgo"])


def test_what_cannot_be_answered_is_said(run: Results, tmp_path: Path) -> None:
    impatient = ask(run, Continuous(threshold_ms=8.0))
    assert (impatient.fits, impatient.method) == ("no", None)
    slow = write_run(tmp_path / "slow", methods={"tent": METHODS["tent"]}, scenarios=[Offline()])
    found = ask(slow, Discrete(interval_ms=10.0))
    assert (found.fits, found.method, set(found.left_out)) == ("unknown", None, {"tent"})
    assert found.follow_up
    flooded = ask(slow, Discrete(interval_ms=1.0))
    assert (flooded.fits, flooded.method, flooded.follow_up) == ("no", None, ""), (
        "no method could be measured into it"
    )
    one = {"tent": METHODS["tent"]}
    broken = write_run(tmp_path / "broken", methods=one, broken={"tent": "RuntimeError: no"})
    with pytest.raises(TemporaError, match="no method of this run has a result: failed: RuntimeError: no"):
        ask(broken, Discrete(interval_ms=10.0))
    failed = write_run(tmp_path / "none", methods={})
    with pytest.raises(TemporaError, match="no finished shift yet"):
        ask(failed, Discrete(interval_ms=10.0))


def test_no_answer_contradicts_a_measured_neighbour(tmp_path: Path) -> None:
    """AdaBN has an answer at this budget; SHOT-IM has none, but was better at one a hair's breadth below."""
    methods = {"standard": METHODS["standard"], "adabn": METHODS["adabn"], "shot_im": Pace(10.0, 14.0, 0.80)}
    budgets = (Amortised(budget_ms=198.0), Amortised(budget_ms=400.0))
    run = write_run(tmp_path, methods=methods, scenarios=[Offline(), *budgets])
    found = ask(run, Amortised(budget_ms=200.5))
    assert found.method == "adabn"
    (near,) = found.may_be_better
    assert near["method"] == "shot_im"
    cells = run.utilities[run.utilities["method"] == "shot_im"].groupby("label")["utility"].mean()
    evaluated = sorted(cells[one.label] for one in budgets)
    assert [near["lo"], near["hi"]] == pytest.approx(evaluated)
    assert near["lo"] > found.ranking["utility"].iloc[0], "measuring it would choose another method"
    assert found.follow_up
    assert ask(run, budgets[0]).may_be_better == (), "an evaluated point needs no neighbours"


def test_a_method_that_its_neighbours_keep_below_the_best_is_not_mentioned(tmp_path: Path) -> None:
    methods = {"standard": METHODS["standard"], "adabn": METHODS["adabn"], "tent": Pace(10.0, 14.0, 0.30)}
    run = write_run(tmp_path, methods=methods, scenarios=[Offline(), Amortised(budget_ms=198.0)])
    found = ask(run, Amortised(budget_ms=200.5))
    assert "tent" in found.left_out
    assert not found.may_be_better
    assert not found.follow_up


def test_a_queue_that_holds_the_stream_is_no_proof_that_a_method_keeps_up(tmp_path: Path) -> None:
    """SAR takes 41 ms, a batch comes every 10, and all of them wait to the end of the stream."""
    scenario = Deployment(interval_ms=10.0, queue=16)
    few = ask(write_run(tmp_path / "few", batches=12), scenario)
    assert (few.ranking["availability"] == 1).all()
    (note,) = few.notes
    assert "Tent 42 %, SAR 24 %" in note
    assert "Standard" not in note
    evaluated = [Offline(), Deployment(interval_ms=10.0, queue=1)]
    many = ask(write_run(tmp_path / "many", scenarios=evaluated), evaluated[1])
    assert not many.notes, "two batches more of forty are no other answer"


def test_failed_and_missing_passes_are_said(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    cells = run.utilities
    offline = (cells["method"] == "sar") & (cells["protocol"] == "offline")
    cells.loc[offline, "status"] = "failed: out of memory"
    strict = (cells["method"] == "tent") & (cells["label"] == "γ 10 ms")
    cells.loc[strict, "status"] = "failed: disk"
    assert "no offline pass" in ask(run, Continuous(threshold_ms=33.0)).left_out["sar"]
    found = ask(run, Discrete(interval_ms=10.0))
    assert found.left_out["tent"] == "failed: disk"
    assert "tent" not in set(found.ranking["method"])
    gone = (cells["method"] == "lame") & (cells["shift"] == "snow")
    run.utilities = cells[~gone]
    assert "no cell of it on snow" in ask(run, Continuous(threshold_ms=33.0)).left_out["lame"]


# -- what is required besides utility ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two shifts in four orders of 40 batches: 320 arrivals, enough for a 99th percentile."""
    return write_run(tmp_path_factory.mktemp("seeds"), seeds=(1, 2, 3, 4))


def test_methods_that_answer_too_late_are_excluded_with_their_percentile(seeds: Results) -> None:
    server = Deployment(arrivals=Poisson(rate_hz=30.0), queue=40)
    free, bound = ask(seeds, server), ask(seeds, server, p99_ms=60.0)
    assert free.method == "sar"
    assert bound.method == "adabn"
    assert set(bound.left_out) == {"tent", "sar"}
    responses = []
    for row in seeds.utilities[
        (seeds.utilities["protocol"] == "offline") & (seeds.utilities["method"] == "tent")
    ].itertuples():
        trace = seeds.folder.trace(str(row.adapting_pass))
        resolved = server.resolve(num_batches=40, seed=int(row.seed), shift=str(row.shift))
        responses.append(trace.course(resolved).response_ms)
    p99 = np.sort(np.concatenate(responses))[-(-99 * 320 // 100) - 1]
    assert bound.left_out["tent"] == f"its p99 is {p99:.1f} ms, above 60"
    assert (bound.ranking["response_p99_ms"] <= 60.0).all()
    assert not bound.notes, "measured times hold the device's own variation, and SAR is not ranked"


def test_a_lost_batch_is_never_answered(seeds: Results) -> None:
    found = ask(seeds, Discrete(interval_ms=10.0), p95_ms=1000.0)
    assert found.left_out["sar"] == "more than 5 % of the batches are lost, so there is no p95"
    some = ask(seeds, Discrete(interval_ms=10.0), availability=0.9)
    lost = ask(seeds, Discrete(interval_ms=10.0)).ranking.set_index("method")["availability"]
    assert set(some.left_out) == set(lost.index[lost < 0.9])
    assert some.left_out["sar"] == f"its availability is {lost['sar']:.4f}, below 0.9"


@pytest.mark.parametrize(("percent", "needed"), [(99, 299), (95, 59)])
def test_too_few_responses_are_no_answer(run: Results, seeds: Results, percent: int, needed: int) -> None:
    required = {f"p{percent}_ms": 1000.0}
    shifts = ["fog"] if percent == 95 else []
    with pytest.raises(
        TemporaError, match=f"p{percent}: not known from {40 if shifts else 80} responses, it takes {needed}"
    ):
        ask(run, Discrete(interval_ms=50.0), shifts, **required)
    assert not ask(seeds, Discrete(interval_ms=50.0), **required).left_out


def test_no_method_keeps_a_promise_that_cannot_be_kept(seeds: Results) -> None:
    found = ask(seeds, Discrete(interval_ms=50.0), p90_ms=5.0)
    assert (found.fits, found.method) == ("no", None)
    assert found.left_out["standard"].startswith("its p90 is 9")


def test_the_tail_has_the_device_s_own_variation_or_is_called_queueing_only(tmp_path: Path) -> None:
    """Factors that a clock keeps apart count where the tail is asked for, and nowhere else."""
    asked = Deployment(interval_ms=40.0)
    given = {"scenarios": [Offline(), asked], "methods": {"standard": METHODS["standard"]}}
    found = {}
    for name, variation in (("quiet", [1.0]), ("shaken", [1.0, 1.0, 1.0, 2.0])):
        results = write_run(tmp_path / name, variation=variation, **given)  # type: ignore[arg-type]
        found[name] = ask(results, asked, p90_ms=1000.0)
        assert set(ask(results, asked).ranking["answer"]) == {"evaluated"}
        assert set(found[name].ranking["answer"]) == {"replayed"}, "it was evaluated without them"
    quiet, shaken = (found[name].ranking["response_p90_ms"].iloc[0] for name in ("quiet", "shaken"))
    assert shaken > 1.8 * quiet
    assert any("queueing only" in note for note in found["quiet"].notes)
    assert not found["shaken"].notes


def test_whether_batches_are_lost_is_decided_by_the_times_with_variation(tmp_path: Path) -> None:
    """24 ms fit into 30, twice that does not: a replay of Tent is exact without the device's variation only."""
    results = write_run(tmp_path, scenarios=[Offline()], variation=[1.0, 2.0])
    assert "tent" in set(
        ask(results, Deployment(interval_ms=30.0, queue=0, residuals=False)).ranking["method"]
    )
    assert "tent" in ask(results, Deployment(interval_ms=30.0, queue=0)).left_out


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"p99_ms": 0.0}, "p99_ms=0.0: .*a number above 0"),
        ({"p90_ms": float("nan")}, "p90_ms=nan"),
        ({"availability": 99.0}, "availability=99.0: is a share above 0, at most 1"),
    ],
)
def test_limits_that_make_no_sense(limit: dict[str, float], message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        Question(**limit)


# -- joules and megabytes ------------------------------------------------------------------------------------

WATTS = {"standard": 100.0, "adabn": 100.0, "lame": 90.0, "tent": 150.0, "sar": 160.0}
MEGABYTES = {"standard": 200, "adabn": 210, "lame": 205, "tent": 700, "sar": 900}


def powered(folder: Path, without: tuple[str, ...] = ()) -> Results:
    facts = {
        name: Resources(watts, WATTS["standard"], MEGABYTES[name] * 10**6).to_facts()
        for name, watts in WATTS.items()
        if name not in without
    }
    return write_run(folder, facts=facts)


def test_methods_that_take_too_many_joules_or_megabytes_are_left_out_and_told_by_how_much(
    tmp_path: Path,
) -> None:
    run = powered(tmp_path)
    free = ask(run, Offline())
    assert free.method == "sar"
    offline = run.utilities[run.utilities["protocol"] == "offline"]
    energy_j = offline.groupby("method")["energy_j"].mean()
    found = free.ranking.set_index("method")
    assert found["energy_j"].to_dict() == pytest.approx(energy_j.to_dict())
    assert energy_j["sar"] == pytest.approx(160.0 * 41 * 40 / 1000, rel=0.02), "40 batches of 41 ms at 160 W"

    bound = ask(run, Offline(), memory_mb=800)
    assert bound.method == "tent"
    assert bound.left_out == {"sar": "its memory is 900 MB, above 800"}
    bound = ask(run, Offline(), budget_j=20.0, memory_mb=800)
    assert set(bound.left_out) == {"sar", "tent"}
    overhead_j = offline[offline["method"] == "tent"].set_index("shift")["overhead_j"]
    assert (
        bound.left_out["tent"]
        == f"its overhead is {overhead_j.max():.4g} J on {overhead_j.idxmax()}, above 20"
    )


def test_energy_follows_what_is_served_in_replays_too(tmp_path: Path) -> None:
    run = powered(tmp_path)
    rows = answer(run, Discrete(interval_ms=8.0)).rows.set_index(["method", "shift"])
    offline = run.utilities[run.utilities["protocol"] == "offline"].set_index(["method", "shift"])
    lost, all_of_it = rows.loc[("adabn", "fog")], offline.loc[("adabn", "fog")]
    assert lost["served_batches"] < all_of_it["served_batches"]
    share = lost["served_batches"] / all_of_it["served_batches"]
    assert lost["energy_j"] == pytest.approx(share * all_of_it["energy_j"], rel=0.02)


def test_what_is_not_known_is_said_and_never_kept(tmp_path: Path, run: Results) -> None:
    with pytest.raises(TemporaError, match=r"overhead is not known in this run.*tempora profile"):
        ask(run, Offline(), budget_j=20.0)
    with pytest.raises(TemporaError, match="memory is not known in this run"):
        ask(run, Offline(), memory_mb=20.0)
    some = ask(powered(tmp_path, without=("tent",)), Offline(), memory_mb=800)
    assert some.left_out["tent"] == "its memory is not known"


def test_limits_on_energy_and_memory_alone_are_asked_of_a_stream_that_waits(
    tmp_path: Path, run: Results
) -> None:
    assert Question(memory_mb=1).deployment(run) == Offline()
    assert Question(memory_mb=1, p99_ms=50).deployment(run) is None, "the highest rate of each method"
    with pytest.raises(TemporaError, match="no deployment given"):
        Question().deployment(run)
    with pytest.raises(TemporaError, match="budget_j=-1"):
        Question(budget_j=-1)


def test_the_table_of_costs_has_joules_per_batch_and_megabytes_where_they_are_known(tmp_path: Path) -> None:
    known, unknown = powered(tmp_path / "known"), write_run(tmp_path / "unknown")
    costs = build("overhead", known.utilities, known.traces)
    titles = [column.title for column in costs.columns]
    assert titles[-2:] == ["energy (J)", "memory (MB)"]
    found = costs.data.set_index("method")
    assert found.loc["sar", "energy_j"] == pytest.approx(160.0 * 41 / 1000, rel=0.02)
    assert found.loc["sar", "memory_mb"] == 900
    without = build("overhead", unknown.utilities, unknown.traces)
    assert [column.title for column in without.columns] == titles[:-2]


def test_joules_per_batch_are_the_same_from_one_seed_and_from_two(tmp_path: Path) -> None:
    facts = {"tent": Resources(150.0, 100.0, 7).to_facts()}
    two = write_run(tmp_path, facts=facts, seeds=(1, 2), shifts=("fog",))
    found = build("overhead", two.utilities, two.traces).data.set_index("method")
    assert found.loc["tent", "energy_j"] == pytest.approx(150.0 * 24 / 1000, rel=0.02)
    assert np.isnan(found.loc["sar", "energy_j"])
