"""How sure a result is: paired differences, seeds and repeats, the probability of being best."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.runs import frame
from tempora_tta import analysis
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Continuous


def test_pairing_by_batch_is_scipy_s_paired_t() -> None:
    generator = np.random.default_rng(3)
    difficulty = generator.uniform(0.2, 0.8, 200)
    left = pd.Series(difficulty + 0.02 + generator.normal(0, 0.03, 200))
    right = pd.Series(difficulty + generator.normal(0, 0.03, 200))
    found = analysis.paired_difference(left, right)
    expected = stats.ttest_rel(left, right).confidence_interval(0.95)
    assert (found.lo, found.hi) == pytest.approx((expected.low, expected.high))
    assert found.clear
    assert (found.kind, found.units) == ("within-stream", 200)
    shuffled = analysis.paired_difference(left.sample(frac=1, random_state=0), right)
    assert shuffled.mean == pytest.approx(found.mean)


def test_other_batches_cannot_be_paired() -> None:
    with pytest.raises(TemporaError, match="the same batches on both sides"):
        analysis.paired_difference(pd.Series([0.1, 0.2]), pd.Series([0.1, 0.2], index=[1, 2]))


def test_contributions_average_to_the_utility() -> None:
    accuracy, predict_ms, adapt_ms = [0.5, 0.25, 0.75, 0.5], [12.0, 11.0, 15.0, 10.0], [5.0, 30.0, 2.0, 0.0]
    score = Continuous(threshold_ms=25).score(
        accuracy=accuracy, predict_ms=predict_ms, adapt_ms=adapt_ms, baseline_ms=10
    )
    trace = pd.DataFrame(
        {
            "index": range(4),
            "served": True,
            "correct": np.multiply(accuracy, 8).astype(int),
            "total": 8,
            "arrived_ms": score.course.arrived_ms,
            "emission_ms": score.course.emission_ms,
        }
    )
    parts = analysis.contributions(trace, baseline_ms=10, threshold_ms=25)
    assert parts.mean() == pytest.approx(score.utility)
    skipped = trace.assign(served=[True, False, True, True], arrived_ms=np.nan, emission_ms=np.nan)
    assert analysis.contributions(skipped).tolist() == [0.5, 0.0, 0.75, 0.5]


def seeds(values: dict[str, list[float]], repeats: int = 1) -> pd.DataFrame:
    """One cell per seed; repeats of it differ by timing."""
    return pd.concat(
        [
            frame(
                {method: values[method][seed] + 0.001 * repeat for method in values}, seed=seed, repeat=repeat
            )
            for seed in range(len(next(iter(values.values()))))
            for repeat in range(repeats)
        ]
    )


def test_differences_across_seeds_are_paired() -> None:
    rows = seeds({"tent": [0.30, 0.41, 0.52, 0.63], "sar": [0.2, 0.3, 0.4, 0.5]})
    found = analysis.difference_across_seeds(rows, "tent", "sar").iloc[0]
    expected = stats.ttest_1samp([0.10, 0.11, 0.12, 0.13], 0).confidence_interval(0.95)
    assert found["difference"] == pytest.approx(0.115)
    assert (found["lo"], found["hi"]) == pytest.approx((expected.low, expected.high))
    assert found["kind"] == "across 4 seeds"


def test_one_seed_has_no_interval_and_says_so() -> None:
    found = analysis.difference_across_seeds(seeds({"tent": [0.3], "sar": [0.2]}), "tent", "sar").iloc[0]
    assert found["difference"] == pytest.approx(0.1)
    assert np.isnan(found["lo"])
    assert found["kind"] == "within-stream"


def test_unknown_methods_are_named() -> None:
    with pytest.raises(TemporaError, match="unknown method to compare 'tnt': did you mean 'tent'"):
        analysis.difference_across_seeds(seeds({"tent": [0.3]}), "tnt", "tent")


def test_repeats_and_seeds_are_separate_components() -> None:
    generator = np.random.default_rng(0)
    order, timing = 0.03, 0.01
    seeds, repeats = np.divmod(np.arange(1000), 5)
    rows = pd.concat([frame({"tent": 0.5})] * 1000).assign(seed=seeds, repeat=repeats)
    rows["utility"] += generator.normal(0, order, 200)[seeds] + generator.normal(0, timing, 1000)
    found = analysis.components(rows).iloc[0]
    assert found["seed_sd"] == pytest.approx(order, rel=0.15)
    assert found["repeat_sd"] == pytest.approx(timing, rel=0.1)
    assert (found["seeds"], found["repeats"], found["kind"]) == (200, 5, "across 200 seeds")


def test_a_single_measurement_has_no_components() -> None:
    found = analysis.components(frame({"tent": 0.5}, seed=1)).iloc[0]
    assert np.isnan(found["seed_sd"])
    assert np.isnan(found["repeat_sd"])
    assert found["kind"] == "within-stream"


def test_timing_noise_alone_is_not_a_seed_effect() -> None:
    rows = seeds({"tent": [0.5, 0.5, 0.5]}, repeats=4)
    found = analysis.components(rows).iloc[0]
    assert found["seed_sd"] == 0
    assert found["repeat_sd"] > 0


@pytest.mark.parametrize("count", [1, 2])
def test_no_probability_below_three_seeds(count: int) -> None:
    found = analysis.probability_best(seeds({"tent": [0.5] * count, "sar": [0.1] * count}))
    assert found["probability"].isna().all()


def test_the_probability_of_being_best() -> None:
    paired = seeds({"tent": [0.30, 0.41, 0.52], "sar": [0.295, 0.404, 0.516], "standard": [0.1, 0.1, 0.1]})
    found = analysis.probability_best(paired).set_index("method")["probability"]
    assert found.sum() == pytest.approx(1)
    # Seeds move both by 0.2, but together: paired, the half point between them is nearly certain.
    differences = np.array([0.005, 0.006, 0.004])
    above = stats.t.cdf(differences.mean() / (differences.std(ddof=1) / np.sqrt(3)), df=2)
    assert found["tent"] / (found["tent"] + found["sar"]) == pytest.approx(above, abs=0.02)
    assert analysis.probability_best(paired).equals(analysis.probability_best(paired)), "deterministic"


def test_equal_methods_share_the_probability() -> None:
    found = analysis.probability_best(seeds({"tent": [0.3, 0.4, 0.5], "sar": [0.3, 0.4, 0.5]}))
    assert found["probability"].tolist() == pytest.approx([0.5, 0.5])


def test_latency_is_read_from_offline_passes() -> None:
    traces = pd.DataFrame(
        {
            "method": ["standard", "standard", "tent", "tent", "tent"],
            "protocol": ["offline"] * 4 + ["discrete"],
            "served": True,
            "predict_ms": [38.0, 40.0, 41.0, 43.0, 900.0],
            "adapt_ms": [0.0, 0.0, 50.0, 60.0, 900.0],
        }
    )
    found = analysis.overhead(traces, baseline_ms=40.0).set_index("method")
    assert found.loc["tent", ["service_ms", "predict_ms", "adapt_ms"]].tolist() == [97.0, 42.0, 55.0]
    assert found.loc["tent", ["intrinsic_ms", "slowdown", "adapt_sd_ms"]].tolist() == [2.0, 97 / 40, 5.0]
    assert found.loc["standard", "intrinsic_ms"] == 0.0
    with pytest.raises(TemporaError, match="no timed offline batches"):
        analysis.overhead(traces.tail(1), baseline_ms=40.0)
