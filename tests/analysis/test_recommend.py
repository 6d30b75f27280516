"""The recommended method: exact answers only, the others that were asked, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
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
from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete, Offline, Poisson, Scenario
from tempora_tta.store import Results, open_run
from tempora_tta.store.resources import Resources


def ask(run: Results, scenario: Scenario, shifts: Sequence[str] = (), **limits: float) -> Answer:
    return recommend(run, Question(scenario=scenario, shifts=tuple(shifts), **limits))  # type: ignore[arg-type]


def of_methods(found: Answer) -> pd.DataFrame:
    return found.ranking.set_index("method")


def utilities(run: Results, scenario: Scenario) -> pd.Series:
    """Mean utilities of the cells that were evaluated."""
    cells = run.utilities[run.utilities["label"] == scenario.label]
    return cells.groupby("method")["utility"].mean()


@pytest.mark.parametrize("scenario", GRID, ids=lambda scenario: scenario.label)
def test_evaluated_points_are_read_not_replayed(run: Results, scenario: Scenario) -> None:
    found, expected = ask(run, scenario), utilities(run, scenario)
    assert of_methods(found)["utility"].to_dict() == pytest.approx(expected.to_dict())
    assert set(found.ranking["answer"]) == {"evaluated"}
    assert found.method == expected.idxmax()
    assert not found.left_out
    fog = run.utilities.query("shift == 'fog'").query("label == @scenario.label").set_index("method")
    shown = of_methods(ask(run, scenario, ["fog"]))["utility"].to_dict()
    assert shown == pytest.approx(fog["utility"].to_dict())


def test_any_deployment_is_read_or_replayed_or_not_answered(tmp_path: Path) -> None:
    evaluated = [Deployment(interval_ms=ms, threshold_ms=30.0) for ms in (12.0, 25.0)]
    run = write_run(tmp_path, scenarios=[*GRID, *evaluated])
    read = ask(run, Deployment(utilisation=BASELINE_MS / 12, threshold_x=3.0))
    assert of_methods(read)["utility"].to_dict() == pytest.approx(utilities(run, evaluated[0]).to_dict())
    assert set(read.ranking["answer"]) == {"evaluated"}
    replayed = ask(run, Deployment(interval_ms=12.0, threshold_ms=33.0))
    assert set(replayed.ranking["answer"]) == {"replayed"}
    assert set(replayed.left_out) == {"tent", "sar"}, "they would skip batches"
    assert ask(run, Deployment(interval_ms=12.0, threshold_ms=30.0, queue=0)).left_out


HEAVY = {"tent", "sar"}


@pytest.mark.parametrize(
    ("scenario", "left_out"),
    [
        (Discrete(interval_ms=10.0 * (1 + 1e-12)), set()),  # the same point, within rounding
        (Discrete(interval_ms=10.01), HEAVY),
        (Discrete(interval_ms=8.0), HEAVY),  # they skip batches, and what they are depends on which
        (Discrete(interval_ms=10.0, queue=0), HEAVY),  # the queue is part of the question
        (Discrete(interval_ms=30.0), {"sar"}),  # 41 ms do not fit into 30, 24 do
        (Discrete(interval_ms=50.0), set()),
        (Continuous(threshold_ms=12.5), set()),  # any patience
        (Amortised(budget_ms=5000.0), set()),
        (Amortised(budget_ms=200.0), HEAVY),  # what they are frozen there was not measured
        (Amortised(budget_ms=62.0), {"sar"}),  # Tent freezes where it does at 60 ms
        (Amortised(budget_ms=60.0, rule="overshoot"), HEAVY),  # the rule is part of the question
        (Deployment(interval_ms=50.0, budget_ms=20.0), {*HEAVY, "adabn", "lame"}),
        (Deployment(arrivals="on_completion", budget_ms=20.0, rule="strict"), {*HEAVY, "adabn"}),
    ],
    ids=lambda given: given.label if isinstance(given, Scenario) else None,
)
def test_only_exact_answers_are_given(run: Results, scenario: Scenario, left_out: set[str]) -> None:
    """Frozen batches that samples wait for must have been timed: how long the frozen LAME takes is not how long
    Standard takes."""
    found = ask(run, scenario)
    assert set(found.left_out) == left_out
    assert set(found.ranking["method"]) == METHODS.keys() - left_out
    assert all(found.left_out.values())


@pytest.mark.parametrize("scenario", [Continuous(threshold_ms=11.0), Discrete(interval_ms=8.0)], ids=str)
def test_a_replay_is_the_score_of_the_stored_pass(run: Results, scenario: Scenario) -> None:
    found = answer(run, scenario)
    offline = run.utilities[run.utilities["protocol"] == "offline"].set_index(["method", "shift"])
    for _, row in found.rows.iterrows():
        trace = run.trace(offline.loc[(row["method"], row["shift"])])
        times = {"predict_ms": trace.predict_ms, "adapt_ms": trace.adapt_ms, "baseline_ms": BASELINE_MS}
        score = scenario.deployment().score(accuracy=trace.accuracy, **times)
        assert row["utility"] == pytest.approx(score.utility)
        assert found.streams[row["method"], row["shift"], 1].worth.mean() == pytest.approx(score.utility)


def test_a_tail_frozen_at_the_same_batch_serves_other_budgets(run: Results) -> None:
    """Tent's overhead is about 14 ms a batch: 60 and 62 ms both end after four."""
    near, evaluated = (of_methods(ask(run, Amortised(budget_ms=ms))).loc["tent"] for ms in (62.0, 60.0))
    assert (near["answer"], near["utility"]) == ("replayed", evaluated["utility"])


MINE = "my_methods:Mine"


@pytest.mark.parametrize("runtime", ["", "@tf32"])
def test_stateless_methods_freeze_into_the_standard_of_their_runtime(tmp_path: Path, runtime: str) -> None:
    mine, standard = f"{MINE}{runtime}", f"standard{runtime}"
    run = write_run(
        tmp_path,
        methods={"standard": Pace(9.0, 0.0, 0.80), standard: METHODS["standard"], mine: METHODS["adabn"]},
        identity={mine: {"runtime": runtime[1:]}} if runtime else {},
        facts={mine: {"stateless": True}},
        scenarios=[Offline()],
    )
    row = answer(run, Amortised(budget_ms=5.0), ["fog"]).rows.set_index("method").loc[mine]
    cutoff = int(row["cutoff"])
    assert 0 < cutoff < 40
    offline = run.utilities[run.utilities["shift"] == "fog"].set_index("method")
    right = [run.trace(offline.loc[name]).correct for name in (mine, standard)]
    assert row["utility"] == pytest.approx((right[0][:cutoff].sum() + right[1][cutoff:].sum()) / 2000)


@pytest.mark.parametrize(
    ("facts", "scenario", "left_out"),
    [
        ({"tent": {"time_aware": True}}, Continuous(threshold_ms=20.0), {"tent"}),
        ({"adabn": {"history_free": False}}, Discrete(interval_ms=10.0), {*HEAVY, "adabn"}),
        ({"tent": {"history_free": True}}, Discrete(interval_ms=10.0), {"sar"}),
    ],
)
def test_what_a_pass_recorded_decides_not_the_name(
    tmp_path: Path, facts: dict[str, dict[str, bool]], scenario: Scenario, left_out: set[str]
) -> None:
    """Methods that look at the clock are never replayed; those that depend on their past not where they skip."""
    assert set(ask(write_run(tmp_path, facts=facts, scenarios=[Offline()]), scenario).left_out) == left_out


# -- how sure --------------------------------------------------------------------------------------------------


def test_the_lead_is_paired_by_batch_and_holds_for_all_rivals_together(run: Results) -> None:
    scenario = Continuous(threshold_ms=15.0)
    found = ask(run, scenario)
    assert found.lead is not None
    mean, lo, hi = found.lead
    streams = answer(run, scenario).streams
    best, second = (
        np.concatenate([streams[method, shift, 1].worth for shift in ("fog", "snow")])
        for method in found.ranking["method"][:2]
    )
    interval = stats.ttest_rel(best, second).confidence_interval(0.95)
    # Wider than for one rival: it holds for all of them together.
    assert lo < interval.low + 0.002
    assert hi > interval.high - 0.002
    assert hi - lo < 3 * (interval.high - interval.low)
    assert mean == pytest.approx(found.ranking["utility"][0] - found.ranking["utility"][1])


@pytest.mark.parametrize(
    ("methods", "scenario", "uncertainty", "expected"),
    [
        # At 10.5 ms an interval, AdaBN's 10.3 ms are a knife edge; Standard's 9 are not.
        (
            {"standard": Pace(9.0, 0.0, 0.42), "adabn": Pace(10.3, 0.0, 0.44)},
            Discrete(interval_ms=10.5, queue=0),
            0.2,
            ("undecided", "timing"),
        ),
        # Names of one length get the same luck.
        (
            {"standard": METHODS["standard"], "stand-in": METHODS["standard"]},
            Continuous(threshold_ms=15.0),
            0.0,
            ("equal", ""),
        ),
        (
            {"tent": Pace(9.0, 0.0, 0.40), "adabn": Pace(9.0, 0.0, 0.40)},
            Continuous(threshold_ms=15.0),
            0.0,
            ("undecided", "sampling"),
        ),
    ],
    ids=["timing", "equal", "sampling"],
)
def test_small_margins_are_equal_or_undecided_with_the_cause(
    tmp_path: Path,
    methods: dict[str, Pace],
    scenario: Scenario,
    uncertainty: float,
    expected: tuple[str, str],
) -> None:
    judged = ask(write_run(tmp_path, methods=methods, uncertainty=uncertainty), scenario).judged
    assert (judged.verdict, judged.why) == expected
    assert len(judged.rivals + judged.equal_with) == 1


def test_insolvent_methods_would_lose_with_every_prediction_right(run: Results) -> None:
    found = ask(run, Discrete(interval_ms=10.0))
    assert found.method == "adabn"
    assert found.ranking.loc[found.ranking["insolvent"], "method"].tolist() == ["sar"]
    sar = of_methods(found).loc["sar"]
    needed = found.ranking["utility"][0] / sar["availability"]
    assert sar["break_even_accuracy"] == pytest.approx(needed)


# -- what cannot be answered -----------------------------------------------------------------------------------


def test_what_cannot_be_answered_is_said(run: Results, tmp_path: Path) -> None:
    impatient = ask(run, Continuous(threshold_ms=8.0))
    assert (impatient.fits, impatient.method) == ("no", None)
    slow = write_run(tmp_path / "slow", methods={"tent": METHODS["tent"]}, scenarios=[Offline()])
    found = ask(slow, Discrete(interval_ms=10.0))
    assert (found.fits, found.method, set(found.left_out)) == ("unknown", None, {"tent"})
    assert found.follow_up
    flooded = ask(slow, Discrete(interval_ms=1.0))
    assert (flooded.fits, flooded.method, flooded.follow_up) == ("no", None, ""), "nor could one be measured"


@pytest.mark.parametrize(
    ("shot_im", "may_be_better"), [(Pace(10.0, 14.0, 0.80), True), (Pace(10.0, 14.0, 0.30), False)]
)
def test_no_answer_contradicts_a_measured_neighbour(
    tmp_path: Path, shot_im: Pace, may_be_better: bool
) -> None:
    """AdaBN has an answer at this budget; SHOT-IM has none, but what it was at budgets near it."""
    methods = {"standard": METHODS["standard"], "adabn": METHODS["adabn"], "shot_im": shot_im}
    budgets = (Amortised(budget_ms=198.0), Amortised(budget_ms=400.0))
    run = write_run(tmp_path, methods=methods, scenarios=[Offline(), *budgets])
    found = ask(run, Amortised(budget_ms=200.5))
    assert found.method == "adabn"
    assert "shot_im" in found.left_out
    assert bool(found.follow_up) == may_be_better
    assert [near["method"] for near in found.may_be_better] == ["shot_im"] * may_be_better
    for near in found.may_be_better:
        evaluated = sorted(utilities(run, one)["shot_im"] for one in budgets)
        assert [near["lo"], near["hi"]] == pytest.approx(evaluated)
        assert near["lo"] > found.ranking["utility"].iloc[0], "measuring it would choose another method"
    assert ask(run, budgets[0]).may_be_better == (), "an evaluated point needs no neighbours"


def test_a_queue_that_holds_the_stream_is_no_proof_that_a_method_keeps_up(
    tmp_path: Path, run: Results
) -> None:
    """SAR takes 41 ms, a batch comes every 10, and all of them wait to the end of the stream."""
    few = ask(write_run(tmp_path, batches=12), Deployment(interval_ms=10.0, queue=16))
    assert (few.ranking["availability"] == 1).all()
    (note,) = few.notes
    assert "Tent 42 %, SAR 24 %" in note
    assert "Standard" not in note
    assert not ask(run, Discrete(interval_ms=10.0)).notes, "two batches more of forty are no other answer"


def test_failed_and_missing_passes_are_said(run: Results) -> None:
    some = open_run(run.path)
    cells = some.utilities
    cells.loc[(cells["method"] == "sar") & (cells["protocol"] == "offline"), "status"] = "failed: memory"
    cells.loc[(cells["method"] == "tent") & (cells["label"] == "γ 10 ms"), "status"] = "failed: disk"
    some.utilities = cells[(cells["method"] != "lame") | (cells["shift"] != "snow")]
    left_out = ask(some, Continuous(threshold_ms=33.0)).left_out
    assert "offline" in left_out["sar"]
    assert "snow" in left_out["lame"]
    found = ask(some, Discrete(interval_ms=10.0))
    assert found.left_out["tent"] == "failed: disk"
    assert "tent" not in set(found.ranking["method"])


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Results]:
    """Runs without a result and without a method."""
    place, one = tmp_path_factory.mktemp("without"), {"tent": METHODS["tent"]}
    broken = {"tent": "RuntimeError: no"}
    return {
        "results": write_run(place / "broken", methods=one, broken=broken, batches=8),
        "methods": write_run(place / "none", methods={}),
    }


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda run, _: ask(run, Discrete(interval_ms=10.0), ["fgo"]), ["fgo", "fog"]),
        (lambda run, _: ask(run, Discrete(interval_ms=50.0), p99_ms=9.0), ["p99", "80 responses", "299"]),
        (
            lambda run, _: ask(run, Discrete(interval_ms=50.0), ["fog"], p95_ms=9.0),
            ["p95", "40 responses", "59"],
        ),
        (lambda run, _: ask(run, Offline(), budget_j=20.0), ["tempora profile"]),
        (lambda run, _: ask(run, Offline(), memory_mb=20.0), ["memory"]),
        (lambda _, without: ask(without["results"], Offline()), ["RuntimeError: no"]),
        (lambda _, without: ask(without["methods"], Offline()), ["finished"]),
        (lambda *_: Question(p99_ms=0.0), ["p99_ms=0.0", "above 0"]),
        (lambda *_: Question(p90_ms=float("nan")), ["p90_ms=nan"]),
        (lambda *_: Question(availability=99.0), ["availability=99.0", "at most 1"]),
        (lambda *_: Question(budget_j=-1), ["budget_j=-1"]),
        (lambda run, _: Question().deployment(run), ["interval_ms"]),
    ],
)
def test_mistakes_say_what_was_given_and_what_is_needed(
    run: Results, without: dict[str, Results], call: Callable[..., object], parts: list[str]
) -> None:
    with pytest.raises(TemporaError) as caught:
        call(run, without)
    assert all(part in str(caught.value) for part in parts), caught.value


# -- what is required besides utility ----------------------------------------------------------------------------


def test_methods_that_answer_too_late_are_excluded_with_their_percentile(seeds: Results) -> None:
    server = Deployment(arrivals=Poisson(rate_hz=30.0), queue=40)
    bound = ask(seeds, server, p99_ms=60.0)
    assert (ask(seeds, server).method, bound.method) == ("sar", "adabn")
    assert set(bound.left_out) == HEAVY
    responses = []
    for row in seeds.utilities.query("protocol == 'offline' and method == 'tent'").itertuples():
        resolved = server.resolve(num_batches=40, seed=int(row.seed), shift=str(row.shift))
        responses.append(seeds.folder.trace(str(row.adapting_pass)).course(resolved).response_ms)
    p99 = np.sort(np.concatenate(responses))[-(-99 * 320 // 100) - 1]
    assert f" {p99:.1f} ms, above 60" in bound.left_out["tent"]
    assert (bound.ranking["response_p99_ms"] <= 60.0).all()
    assert not bound.notes, "measured times hold the device's own variation, and SAR is not ranked"
    assert not ask(seeds, Discrete(interval_ms=50.0), p99_ms=1000.0).left_out
    none = ask(seeds, Discrete(interval_ms=50.0), p90_ms=5.0)
    assert (none.fits, none.method) == ("no", None)


def test_a_lost_batch_is_never_answered(seeds: Results) -> None:
    strict = Discrete(interval_ms=10.0)
    assert "5 %" in ask(seeds, strict, p95_ms=1000.0).left_out["sar"]
    some = ask(seeds, strict, availability=0.9)
    answered = of_methods(ask(seeds, strict))["availability"]
    assert set(some.left_out) == set(answered.index[answered < 0.9])
    assert f"{answered['sar']:.4f}, below 0.9" in some.left_out["sar"]


def test_the_tail_has_the_device_s_own_variation_or_is_called_queueing_only(tmp_path: Path) -> None:
    """Factors that a clock keeps apart count where the tail is asked for, and nowhere else."""
    asked, found = Deployment(interval_ms=40.0), {}
    for name, variation in (("quiet", [1.0]), ("shaken", [1.0, 1.0, 1.0, 2.0])):
        one = {"standard": METHODS["standard"]}
        run = write_run(tmp_path / name, variation=variation, scenarios=[Offline(), asked], methods=one)
        found[name] = ask(run, asked, p90_ms=1000.0)
        assert set(ask(run, asked).ranking["answer"]) == {"evaluated"}
        assert set(found[name].ranking["answer"]) == {"replayed"}, "it was evaluated without them"
    quiet, shaken = (found[name].ranking["response_p90_ms"].iloc[0] for name in ("quiet", "shaken"))
    assert shaken > 1.8 * quiet
    assert any("queueing only" in note for note in found["quiet"].notes)
    assert not found["shaken"].notes


@pytest.mark.parametrize("residuals", [False, True])
def test_whether_batches_are_lost_is_decided_by_the_times_with_variation(
    tmp_path: Path, residuals: bool
) -> None:
    """24 ms fit into 30, twice that does not: a replay of Tent is exact without the device's variation only."""
    run = write_run(tmp_path, scenarios=[Offline()], variation=[1.0, 2.0])
    found = ask(run, Deployment(interval_ms=30.0, queue=0, residuals=residuals))
    assert ("tent" in found.left_out) == residuals


# -- joules and megabytes ------------------------------------------------------------------------------------

WATTS = {"standard": 100.0, "adabn": 100.0, "lame": 90.0, "sar": 160.0, "tent": 150.0}
MEGABYTES = {"standard": 200, "adabn": 210, "lame": 205, "sar": 900, "tent": 700}


@pytest.fixture(scope="module")
def powered(tmp_path_factory: pytest.TempPathFactory) -> Results:
    facts = {name: Resources(WATTS[name], 100.0, MEGABYTES[name] * 10**6).to_facts() for name in WATTS}
    return write_run(tmp_path_factory.mktemp("powered"), facts=facts, seeds=(1, 2))


def test_methods_that_take_too_many_joules_or_megabytes_are_left_out_and_told_by_how_much(
    powered: Results,
) -> None:
    free = ask(powered, Offline())
    assert free.method == "sar"
    offline = powered.utilities[powered.utilities["protocol"] == "offline"]
    energy_j = offline.groupby("method")["energy_j"].mean()
    assert of_methods(free)["energy_j"].to_dict() == pytest.approx(energy_j.to_dict())
    assert energy_j["sar"] == pytest.approx(160.0 * 41 * 40 / 1000, rel=0.02), "40 batches of 41 ms at 160 W"
    bound = ask(powered, Offline(), memory_mb=800)
    assert bound.method == "tent"
    assert bound.left_out.keys() == {"sar"}
    assert "900 MB, above 800" in bound.left_out["sar"]
    bound = ask(powered, Offline(), budget_j=20.0, memory_mb=800)
    assert set(bound.left_out) == HEAVY
    overhead_j = offline[offline["method"] == "tent"].groupby("shift")["overhead_j"].max()
    assert f"{overhead_j.max():.4g} J on {overhead_j.idxmax()}, above 20" in bound.left_out["tent"]


def test_energy_follows_what_is_served_in_replays_too(powered: Results) -> None:
    keys = ["method", "shift", "seed"]
    lost = answer(powered, Discrete(interval_ms=8.0)).rows.set_index(keys).loc[("adabn", "fog", 1)]
    offline = powered.utilities[powered.utilities["protocol"] == "offline"].set_index(keys)
    whole = offline.loc[("adabn", "fog", 1)]
    assert lost["served_batches"] < whole["served_batches"]
    share = lost["served_batches"] / whole["served_batches"]
    assert lost["energy_j"] == pytest.approx(share * whole["energy_j"], rel=0.02)


def test_limits_on_energy_and_memory_alone_are_asked_of_a_stream_that_waits(run: Results) -> None:
    assert Question(memory_mb=1).deployment(run) == Offline()
    assert Question(memory_mb=1, p99_ms=50).deployment(run) is None, "the highest rate of each method"


def test_the_table_of_costs_has_joules_per_batch_and_megabytes_where_they_are_known(
    powered: Results, run: Results
) -> None:
    costs, without = (build("overhead", each.utilities, each.traces) for each in (powered, run))
    titles = [column.title for column in costs.columns]
    assert titles[-2:] == ["energy (J)", "memory (MB)"]
    assert [column.title for column in without.columns] == titles[:-2]
    found = costs.data.set_index("method")
    assert found.loc["sar", "energy_j"] == pytest.approx(160.0 * 41 / 1000, rel=0.02)
    assert found.loc["sar", "memory_mb"] == 900
