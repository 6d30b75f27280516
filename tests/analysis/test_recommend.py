"""Which method to use: exact answers only, who else was asked, and how sure it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from made_runs import BASELINE_MS, GRID, METHODS, Pace
from made_runs import measured_run as write_run
from tempora_tta._numbers import percent
from tempora_tta.analysis.asked import Asked
from tempora_tta.analysis.recommend import NoExactAnswer, recommend
from tempora_tta.analysis.replays import answer
from tempora_tta.analysis.requirements import Requirements
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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("scenario", GRID[1:], ids=lambda scenario: scenario.label)
def test_evaluated_points_are_read_not_replayed(run: Results, scenario: Scenario) -> None:
    found = recommend(run, scenario)
    cells = run.utilities[run.utilities["label"] == scenario.label]
    expected = cells.groupby("method")["utility"].mean()
    assert found.table.set_index("method")["utility"].to_dict() == pytest.approx(expected.to_dict())
    assert set(found.table["answer"]) == {"evaluated"}
    assert found.method == expected.idxmax()
    assert not found.unanswered


def test_a_point_is_the_same_within_rounding_only(run: Results) -> None:
    assert not recommend(run, Discrete(interval_ms=10.0 * (1 + 1e-12))).unanswered
    assert recommend(run, Discrete(interval_ms=10.01)).unanswered


def test_offline_the_most_accurate_wins(run: Results) -> None:
    found = recommend(run, Offline())
    cells = run.utilities[run.utilities["protocol"] == "offline"]
    expected = cells.groupby("method")["utility"].mean()
    assert found.table.set_index("method")["utility"].to_dict() == pytest.approx(expected.to_dict())
    assert found.why.startswith("SAR gets 56.2 % right; Tent gets 53.9 % right")
    needed = found.table.set_index("method")["break_even_accuracy"]
    assert needed["tent"] == pytest.approx(expected["sar"])
    assert not found.insolvent


def test_any_deployment_is_read_or_replayed_or_not_answered(tmp_path: Path) -> None:
    evaluated = (
        Deployment(interval_ms=12.0, threshold_ms=30.0),
        Deployment(interval_ms=25.0, threshold_ms=30.0),
    )
    run = write_run(tmp_path, scenarios=[*GRID, *evaluated])
    read = recommend(run, Deployment(utilisation=BASELINE_MS / 12, threshold_x=3.0))
    cells = run.utilities[run.utilities["label"] == evaluated[0].label].groupby("method")["utility"].mean()
    assert read.table.set_index("method")["utility"].to_dict() == pytest.approx(cells.to_dict())
    assert set(read.table["answer"]) == {"evaluated"}
    assert "AdaBN serves 100.0 % of the batches, gets 43.8 % of them right and keeps 97.5 %" in read.why
    replayed = recommend(run, Deployment(interval_ms=12.0, threshold_ms=33.0))
    assert set(replayed.table["answer"]) == {"replayed"}
    assert set(replayed.unanswered) == {"tent", "sar"}, "they would skip batches"
    assert recommend(run, Deployment(interval_ms=12.0, threshold_ms=30.0, queue=0)).unanswered


def test_frozen_batches_that_somebody_waits_for_must_have_been_timed(run: Results) -> None:
    """LAME freezes into Standard, but how long the frozen LAME takes is not how long Standard takes."""
    found = recommend(run, Deployment(interval_ms=50.0, budget_ms=20.0))
    assert set(found.unanswered) == {"tent", "sar", "adabn", "lame"}
    assert "how fast the model predicts when frozen" in found.unanswered["lame"]
    waits = recommend(run, Deployment(arrivals="on_completion", budget_ms=20.0, rule="strict"))
    assert "lame" in set(waits.table["method"]), "nobody waits for its frozen batches"


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
        assert found.worth[row["method"], row["shift"], 1].mean() == pytest.approx(score.utility)


def test_skipping_is_replayed_for_history_free_methods_only(run: Results) -> None:
    found = recommend(run, Discrete(interval_ms=8.0))
    assert set(found.table["method"]) == {"standard", "adabn", "lame"}
    assert set(found.unanswered) == {"tent", "sar"}
    assert "depends on which" in found.unanswered["tent"]
    offline = run.utilities[run.utilities["protocol"] == "offline"].set_index(["method", "shift"])
    trace = run.trace(offline.loc[("adabn", "fog")])
    score = Discrete(interval_ms=8.0).score(accuracy=trace.accuracy, service_ms=trace.service_ms)
    rows = answer(run, Discrete(interval_ms=8.0), ["fog"]).rows.set_index("method")
    assert rows.loc["adabn", "utility"] == pytest.approx(score.utility)
    assert score.course.evicted.size > 0


def test_an_interval_that_skips_nothing_is_answered_for_everybody(run: Results) -> None:
    found = recommend(run, Discrete(interval_ms=50.0))
    offline = run.utilities[run.utilities["protocol"] == "offline"].groupby("method")["utility"].mean()
    assert found.table.set_index("method")["utility"].to_dict() == pytest.approx(offline.to_dict())
    assert set(found.table["answer"]) == {"replayed"}
    some = recommend(run, Discrete(interval_ms=30.0))
    assert set(some.unanswered) == {"sar"}, "41 ms do not fit into 30, 24 do"


def test_the_queue_is_part_of_the_question(run: Results) -> None:
    assert set(recommend(run, Discrete(interval_ms=10.0, queue=0)).unanswered) == {"tent", "sar"}


def test_budgets_that_last_are_answered_for_everybody(run: Results) -> None:
    found = recommend(run, Amortised(budget_ms=5000.0))
    assert not found.unanswered
    assert (found.table["adapted_fraction"] == 1).all()
    assert "adapts to the end within the budget" in found.why


def test_budgets_that_run_out_need_their_frozen_tail(run: Results) -> None:
    found = recommend(run, Amortised(budget_ms=200.0))
    assert set(found.unanswered) == {"tent", "sar"}
    assert "frozen there was not measured" in found.unanswered["sar"]


def test_a_tail_frozen_at_the_same_batch_serves_other_budgets(run: Results) -> None:
    """Tent's overhead is about 14 ms a batch: 60 and 62 ms both end after four."""
    near = recommend(run, Amortised(budget_ms=62.0)).table.set_index("method")
    evaluated = recommend(run, Amortised(budget_ms=60.0)).table.set_index("method")
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
    assert "tent" in recommend(run, Amortised(budget_ms=60.0, rule="overshoot")).unanswered


def test_methods_that_look_at_the_clock_are_never_replayed(tmp_path: Path) -> None:
    found = recommend(
        write_run(tmp_path, facts={"tent": {"time_aware": True}}), Continuous(threshold_ms=20.0)
    )
    assert "looks at the clock" in found.unanswered["tent"]
    assert "sar" in set(found.table["method"])


def test_a_method_that_stops_adapting_depends_on_its_past(tmp_path: Path) -> None:
    """AdaBN is history-free, AdaBN with stop_after is not: what the pass recorded decides, not the name."""
    stops = {"adabn": {"history_free": False}}
    run = write_run(tmp_path, facts=stops, scenarios=[Offline()])
    assert "adabn" in recommend(run, Discrete(interval_ms=10.0)).unanswered


MINE = {"standard": METHODS["standard"], "my_methods:Mine": METHODS["adabn"]}


@pytest.mark.parametrize("history_free", [True, False])
def test_own_methods_are_replayed_if_they_are_history_free(tmp_path: Path, history_free: bool) -> None:
    facts = {"my_methods:Mine": {"history_free": history_free}}
    run = write_run(tmp_path, methods=MINE, facts=facts, scenarios=[Offline()])
    found = recommend(run, Discrete(interval_ms=8.0))
    assert ("my_methods:Mine" in set(found.table["method"])) == history_free
    assert ("my_methods:Mine" in found.unanswered) != history_free


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


def test_the_margin_is_paired_by_batch_within_the_stream(run: Results) -> None:
    scenario = Continuous(threshold_ms=15.0)
    found = recommend(run, scenario)
    assert found.margin is not None
    assert found.runner_up is not None
    worth = answer(run, scenario).worth
    best, second = (
        [value for shift in ("fog", "snow") for value in worth[method, shift, 1]]
        for method in (found.method, found.runner_up)
    )
    interval = stats.ttest_rel(best, second).confidence_interval(0.95)
    # Wider than for one rival: it holds for all of them together.
    assert found.margin.lo < interval.low + 0.002
    assert found.margin.hi > interval.high - 0.002
    assert found.margin.hi - found.margin.lo < 3 * (interval.high - interval.low)
    top = found.table["utility"]
    assert found.margin.mean == pytest.approx(top[0] - top[1])
    assert found.margin.kind == "within-stream"
    assert any("says nothing about other orders" in sentence for sentence in found.certainty)


def test_with_seeds_the_margin_is_paired_by_seed(tmp_path: Path) -> None:
    run = write_run(tmp_path, seeds=(1, 2, 3))
    found = recommend(run, Discrete(interval_ms=10.0))
    assert found.margin is not None
    assert found.margin.kind == "across 3 seeds"
    assert any("probability that AdaBN is best is" in sentence for sentence in found.certainty)


def test_what_times_leave_open_is_undecided_by_timing(tmp_path: Path) -> None:
    """At 10.5 ms an interval, AdaBN's 10.5 ms are a knife edge; Standard's 9 are not."""
    scenario = Discrete(interval_ms=10.5, queue=0)
    close = {"standard": Pace(9.0, 0.0, 0.42), "adabn": Pace(10.3, 0.0, 0.44)}
    sure = recommend(write_run(tmp_path / "sure", methods=close), scenario)
    unsure = recommend(write_run(tmp_path / "unsure", methods=close, uncertainty=0.2), scenario)
    assert sure.judged.why != "timing"
    assert (unsure.judged.verdict, unsure.judged.why) == ("undecided", "timing")
    assert unsure.judged.rivals == (unsure.runner_up,)
    assert unsure.margin is not None
    assert unsure.margin.lo < 0


def test_equal_methods_tie(tmp_path: Path) -> None:
    same = {
        "standard": Pace(9.0, 0.0, 0.30),
        "stand-in": Pace(9.0, 0.0, 0.30),
    }  # names of one length get the same luck
    found = recommend(write_run(tmp_path, methods=same), Continuous(threshold_ms=15.0))
    assert (found.judged.verdict, found.judged.equal_with) == ("equal", ("stand-in",))


def test_small_margins_are_undecided_by_sampling(tmp_path: Path) -> None:
    close = {"tent": Pace(9.0, 0.0, 0.40), "adabn": Pace(9.0, 0.0, 0.40)}
    found = recommend(write_run(tmp_path, methods=close), Continuous(threshold_ms=15.0))
    assert (found.judged.verdict, found.judged.why) == ("undecided", "sampling")


def test_insolvent_methods_would_lose_with_every_prediction_right(run: Results) -> None:
    found = recommend(run, Discrete(interval_ms=10.0))
    assert found.method == "adabn"
    assert found.insolvent == ["sar"]
    needed = found.table.set_index("method")["break_even_accuracy"]
    sar = found.table.set_index("method").loc["sar"]
    assert needed["sar"] == pytest.approx(found.table["utility"][0] / sar["availability"])


def test_the_reason_is_in_the_terms(tmp_path: Path) -> None:
    methods = {name: METHODS[name] for name in ("standard", "adabn", "tent")}
    run = write_run(tmp_path, methods=methods | {"standard": Pace(9.0, 0.0, 0.04)})
    strict = recommend(run, Discrete(interval_ms=10.0))
    assert (strict.method, strict.runner_up) == ("adabn", "tent")
    assert "AdaBN serves 97.5 % of the batches" in strict.why
    assert "Being in time outweighs being less accurate" in strict.why
    relaxed = recommend(run, Continuous(threshold_ms=500.0))
    assert (relaxed.method, relaxed.runner_up) == ("tent", "adabn")
    assert "Its accuracy pays for the time it takes" in relaxed.why
    assert "points against standard inference" in relaxed.why


def test_standard_inference_may_win(tmp_path: Path) -> None:
    methods = {"standard": Pace(9.0, 0.0, 0.40), "sar": Pace(10.0, 31.0, 0.50)}
    assert "No adaptation" in recommend(write_run(tmp_path, methods=methods), Discrete(interval_ms=10.0)).why


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({}, "Timing: measured, and the passes behind this are VALID."),
        (
            {"verdict": "INVALID"},
            "10 of the 10 cells behind this are INVALID (the run: INVALID: baseline drifted",
        ),
        ({"verdict": "WARN", "judged": False}, "are WARN (the run: no verdict yet)"),
        ({"clock": "recorded:12ab", "config": {"clock": "pi.json"}}, "Timing: recorded (pi.json)"),
        ({"clock": "recorded:12ab", "config": None}, "Timing: recorded (recorded:12ab)"),
        ({"finished": False}, "The run is not finished"),
    ],
)
def test_it_says_what_it_rests_on(tmp_path: Path, about: dict[str, object], sentence: str) -> None:
    found = recommend(write_run(tmp_path, **about), Discrete(interval_ms=10.0))  # type: ignore[arg-type]
    assert any(sentence in said for said in found.certainty)


def test_shifts_can_be_chosen(run: Results) -> None:
    fog = recommend(run, Discrete(interval_ms=10.0), ["fog"]).table.set_index("method")
    cells = run.utilities[(run.utilities["label"] == "γ 10 ms") & (run.utilities["shift"] == "fog")]
    assert fog["utility"].to_dict() == pytest.approx(cells.set_index("method")["utility"].to_dict())
    with pytest.raises(TemporaError, match="unknown shift of this run 'fgo': did you mean 'fog'"):
        recommend(run, Discrete(interval_ms=10.0), ["fgo"])


def test_what_cannot_be_answered_is_an_error(run: Results, tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match="is not above baseline_ms=10"):
        recommend(run, Continuous(threshold_ms=8.0))
    slow = write_run(tmp_path / "slow", methods={"tent": METHODS["tent"]}, scenarios=[Offline()])
    with pytest.raises(NoExactAnswer, match="γ 10 ms: this run has no exact answer for any method"):
        recommend(slow, Discrete(interval_ms=10.0))
    failed = write_run(tmp_path / "none", methods={})
    with pytest.raises(TemporaError, match="no finished shift yet"):
        recommend(failed, Discrete(interval_ms=10.0))


def test_no_answer_contradicts_a_measured_neighbour(tmp_path: Path) -> None:
    """AdaBN has an answer at this budget; SHOT-IM has none, and was better a hair's breadth beside it."""
    methods = {"standard": METHODS["standard"], "adabn": METHODS["adabn"], "shot_im": Pace(10.0, 14.0, 0.80)}
    budgets = (Amortised(budget_ms=198.0), Amortised(budget_ms=400.0))
    run = write_run(tmp_path, methods=methods, scenarios=[Offline(), *budgets])
    found = recommend(run, Amortised(budget_ms=200.5))
    assert found.method == "adabn"
    assert found.rivals == ["shot_im"]
    near = found.neighbours["shot_im"]
    cells = run.utilities[run.utilities["method"] == "shot_im"].groupby("label")["utility"].mean()
    assert near.labels == tuple(one.label for one in budgets)
    assert near.utilities == pytest.approx([cells[one.label] for one in budgets])
    assert near.lo > found.table["utility"].iloc[0], "whoever reads on would not choose AdaBN"
    assert found.probably == "shot_im"
    assert found.answer == (
        f"Probably SHOT-IM, between {percent(near.lo)} and {percent(near.hi)} at B 0.198 s and B 0.4 s; it was not "
        "measured here. Of the 2 of 3 methods with an exact answer, AdaBN is best: utility "
        f"{percent(found.table['utility'].iloc[0])}."
    )
    said = str(found)
    assert "The lead of AdaBN holds among the 2 with an answer." in said
    assert "The probability that AdaBN is best of the 2 with an answer is 100 %" in said
    evaluated = recommend(run, budgets[0])
    assert evaluated.rivals == [], "an evaluated point needs no neighbours"
    assert evaluated.answer.startswith("Use SHOT-IM: utility")
    assert "with an answer" not in str(evaluated)
    beyond = recommend(run, Amortised(budget_ms=450.0)).neighbours
    assert all(len(one.labels) == 1 for one in beyond.values())


def test_stricter_than_anything_measured_a_neighbour_promises_nothing(tmp_path: Path) -> None:
    """What a method gets with some patience it may lose with a little less."""
    methods = {"standard": METHODS["standard"], "tent": Pace(9.0, 0.0, 0.80)}
    run = write_run(
        tmp_path,
        methods=methods,
        scenarios=[Offline(), Continuous(threshold_ms=15.0)],
        facts={"tent": {"time_aware": True}},
    )
    stricter, more_relaxed = (recommend(run, Continuous(threshold_ms=ms)) for ms in (11.0, 20.0))
    near = percent(stricter.neighbours["tent"].hi)
    assert stricter.probably is None
    assert stricter.answer.endswith(f", unless Tent, {near} at T 15 ms, which is more relaxed.")
    assert more_relaxed.probably == "tent"
    assert more_relaxed.answer.startswith(f"Probably Tent, {near} at T 15 ms; it was not measured here.")


def test_a_queue_that_holds_the_stream_is_no_proof_that_a_method_keeps_up(tmp_path: Path) -> None:
    """SAR takes 41 ms, a batch comes every 10, and all of them wait to the end of the stream."""
    scenario = Deployment(interval_ms=10.0, queue=16)
    few = recommend(write_run(tmp_path / "few", batches=12), scenario)
    assert (few.table["availability"] == 1).all()
    assert few.lines[1].startswith("The stream is too short to tell: in 12 batches the queue holds")
    assert "Tent 42 %, SAR 24 %" in few.too_short
    assert "Standard" not in few.too_short
    evaluated = [Offline(), Deployment(interval_ms=10.0, queue=1)]
    many = recommend(write_run(tmp_path / "many", scenarios=evaluated), evaluated[1])
    assert many.too_short == "", "two batches more of forty are no other answer"


def test_failed_and_missing_passes_are_said(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    cells = run.utilities
    offline = (cells["method"] == "sar") & (cells["protocol"] == "offline")
    cells.loc[offline, "status"] = "failed: out of memory"
    strict = (cells["method"] == "tent") & (cells["label"] == "γ 10 ms")
    cells.loc[strict, "status"] = "failed: disk"
    assert "no offline pass" in recommend(run, Continuous(threshold_ms=33.0)).unanswered["sar"]
    found = recommend(run, Discrete(interval_ms=10.0))
    assert found.failed == {"tent": "failed: disk"}
    assert "tent" not in found.unanswered
    gone = (cells["method"] == "lame") & (cells["shift"] == "snow")
    run.utilities = cells[~gone]
    assert "no cell of it on snow" in recommend(run, Continuous(threshold_ms=33.0)).unanswered["lame"]


# -- what is required besides utility ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two shifts in four orders of 40 batches: 320 arrivals, enough for a 99th percentile."""
    return write_run(tmp_path_factory.mktemp("seeds"), seeds=(1, 2, 3, 4))


def test_methods_that_answer_too_late_are_excluded_with_their_percentile(seeds: Results) -> None:
    server = Deployment(arrivals=Poisson(rate_hz=30.0), queue=40)
    free, bound = recommend(seeds, server), recommend(seeds, server, required=Requirements(p99_ms=60.0))
    assert free.method == "sar"
    assert bound.method == "adabn"
    assert set(bound.excluded) == {"tent", "sar"}
    responses = []
    for row in seeds.utilities[
        (seeds.utilities["protocol"] == "offline") & (seeds.utilities["method"] == "tent")
    ].itertuples():
        trace = seeds.folder.trace(str(row.adapting_pass))
        resolved = server.resolve(num_batches=40, seed=int(row.seed), shift=str(row.shift))
        responses.append(trace.course(resolved).response_ms)
    p99 = np.sort(np.concatenate(responses))[-(-99 * 320 // 100) - 1]
    assert bound.excluded["tent"] == f"its p99 is {p99:.1f} ms, above 60"
    assert (bound.table["response_p99_ms"] <= 60.0).all()
    assert bound.tail == "", "measured times hold the device's own variation"


def test_a_lost_batch_is_never_answered(seeds: Results) -> None:
    found = recommend(seeds, Discrete(interval_ms=10.0), required=Requirements(p95_ms=1000.0))
    assert found.excluded["sar"] == "more than 5 % of the batches are lost, so there is no p95"
    some = recommend(seeds, Discrete(interval_ms=10.0), required=Requirements(availability=0.9))
    lost = recommend(seeds, Discrete(interval_ms=10.0)).table.set_index("method")["availability"]
    assert set(some.excluded) == set(lost.index[lost < 0.9])
    assert some.excluded["sar"] == f"its availability is {lost['sar']:.4f}, below 0.9"


@pytest.mark.parametrize(("percent", "needed"), [(99, 299), (95, 59)])
def test_too_few_responses_are_no_answer(run: Results, seeds: Results, percent: int, needed: int) -> None:
    required = Requirements(**{f"p{percent}_ms": 1000.0})
    shifts = ["fog"] if percent == 95 else None
    with pytest.raises(
        TemporaError, match=f"p{percent}: not known from {40 if shifts else 80} responses, it takes {needed}"
    ):
        recommend(run, Discrete(interval_ms=50.0), shifts, required)
    assert not recommend(seeds, Discrete(interval_ms=50.0), required=required).excluded


def test_nobody_keeps_what_cannot_be_kept(seeds: Results) -> None:
    with pytest.raises(TemporaError, match=r"no method has p90 at most 5 ms here: .*Standard: its p90 is 9"):
        recommend(seeds, Discrete(interval_ms=50.0), required=Requirements(p90_ms=5.0))


def test_the_tail_has_the_device_s_own_variation_or_is_called_queueing_only(tmp_path: Path) -> None:
    """Factors that a clock keeps apart count where the tail is asked for, and nowhere else."""
    asked, required = Deployment(interval_ms=40.0), Requirements(p90_ms=1000.0)
    given = {"scenarios": [Offline(), asked], "methods": {"standard": METHODS["standard"]}}
    found = {}
    for name, variation in (("quiet", [1.0]), ("shaken", [1.0, 1.0, 1.0, 2.0])):
        results = write_run(tmp_path / name, variation=variation, **given)  # type: ignore[arg-type]
        found[name] = recommend(results, asked, required=required)
        assert set(recommend(results, asked).table["answer"]) == {"evaluated"}
        assert set(found[name].table["answer"]) == {"replayed"}, "it was evaluated without them"
    quiet, shaken = (found[name].table["response_p90_ms"].iloc[0] for name in ("quiet", "shaken"))
    assert shaken > 1.8 * quiet
    assert found["quiet"].tail.startswith("queueing only")
    assert found["shaken"].tail == ""


def test_whether_batches_are_lost_is_decided_by_the_times_with_variation(tmp_path: Path) -> None:
    """24 ms fit into 30, twice that does not: a replay of Tent is exact without the device's variation only."""
    results = write_run(tmp_path, scenarios=[Offline()], variation=[1.0, 2.0])
    assert "tent" in set(
        recommend(results, Deployment(interval_ms=30.0, queue=0, residuals=False)).table["method"]
    )
    assert "tent" in recommend(results, Deployment(interval_ms=30.0, queue=0)).unanswered


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"p99_ms": 0.0}, "p99_ms=0.0: .*give a number above 0"),
        ({"p90_ms": float("nan")}, "p90_ms=nan"),
        ({"availability": 99.0}, "availability=99.0: is a fraction of the batches above 0, at most 1"),
    ],
)
def test_limits_that_make_no_sense(limit: dict[str, float], message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        Requirements(**limit)


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
    free = recommend(run, Offline())
    assert free.method == "sar"
    offline = run.utilities[run.utilities["protocol"] == "offline"]
    energy_j = offline.groupby("method")["energy_j"].mean()
    found = free.table.set_index("method")
    assert found["energy_j"].to_dict() == pytest.approx(energy_j.to_dict())
    assert energy_j["sar"] == pytest.approx(160.0 * 41 * 40 / 1000, rel=0.02), "40 batches of 41 ms at 160 W"

    bound = recommend(run, Offline(), required=Requirements(memory_mb=800))
    assert bound.method == "tent"
    assert bound.excluded == {"sar": "its memory is 900 MB, above 800"}
    bound = recommend(run, Offline(), required=Requirements(budget_j=20.0, memory_mb=800))
    assert set(bound.excluded) == {"sar", "tent"}
    overhead_j = offline[offline["method"] == "tent"].set_index("shift")["overhead_j"]
    assert (
        bound.excluded["tent"]
        == f"its overhead is {overhead_j.max():.4g} J on {overhead_j.idxmax()}, above 20"
    )
    assert str(bound.required) == "overhead at most 20 J, memory at most 800 MB"


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
        recommend(run, Offline(), required=Requirements(budget_j=20.0))
    with pytest.raises(TemporaError, match="memory is not known in this run"):
        recommend(run, Offline(), required=Requirements(memory_mb=20.0))
    some = recommend(powered(tmp_path, without=("tent",)), Offline(), required=Requirements(memory_mb=800))
    assert some.excluded["tent"] == "its memory is not known"


def test_limits_on_energy_and_memory_alone_are_asked_of_a_stream_that_waits(
    tmp_path: Path, run: Results
) -> None:
    assert Asked().of(run, Requirements(memory_mb=1)) == Offline()
    assert isinstance(Asked().of(run, Requirements(memory_mb=1, p99_ms=50)), Deployment)
    with pytest.raises(TemporaError, match="no deployment given"):
        Asked().of(run, Requirements())
    with pytest.raises(TemporaError, match="budget_j=-1"):
        Requirements(budget_j=-1)


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
