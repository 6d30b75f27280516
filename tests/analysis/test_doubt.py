"""Doubt by consequence: which winners hold, which are equal, which are undecided and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

from made_runs import GRID
from made_runs import measured_run as write_run
from tempora_tta.analysis.doubt import (
    EQUAL,
    HOLDS,
    SAMPLING,
    TIMING,
    UNDECIDED,
    doubt,
    judge,
    leads,
    pooled,
    replicate,
    with_doubt,
)
from tempora_tta.analysis.doubt.blocks import Blocks, choose_blocks
from tempora_tta.analysis.doubt.timing import ADAPT, PREDICT, Kind, Rounds, Steady, rounds_of
from tempora_tta.analysis.of_run import Summary, cells_of, keep_doubt, remedy, summary_of, winners_of
from tempora_tta.errors import TemporaWarning
from tempora_tta.store import Results, open_run

FloatArray = NDArray[np.float64]


def stream(*means: float, batches: int = 400, luck: float = 0.02, seed: int = 0) -> FloatArray:
    """Batches that are easy or hard for all methods, and a little luck of each."""
    generator = np.random.default_rng(seed)
    hard = 0.1 * generator.standard_normal((batches, 1))
    found = hard + luck * generator.standard_normal((batches, len(means)))
    return np.asarray(means) + found - found.mean(axis=0)


# -- verdicts --------------------------------------------------------------------------------------------------


def same(worth: FloatArray) -> FloatArray:
    """The same with one method more, equal to the first in every batch."""
    return np.concatenate([worth, worth[:, [0]]], axis=1)


@pytest.mark.parametrize(
    ("worth", "verdict", "why", "others"),
    [
        (stream(0.60, 0.58, 0.50), HOLDS, "", ()),
        (stream(0.5), HOLDS, "", ()),  # alone
        (stream(0.6000, 0.5999, 0.50, luck=0.01), EQUAL, "", ("b",)),  # surely within half a point
        (same(stream(0.6, 0.5)), EQUAL, "", ("c",)),
        (np.stack([stream(0.6)[:, 0], stream(0.6)[::-1, 0]], axis=1), EQUAL, "", ("b",)),  # by other batches
        (same(stream(0.600, 0.598, luck=0.05)), UNDECIDED, SAMPLING, ("b",)),  # and equal to c
        (stream(0.600, 0.599, luck=0.2, batches=50), UNDECIDED, SAMPLING, ("b",)),
        (np.array([[0.9, 0.1]]), UNDECIDED, SAMPLING, ("b",)),  # too short to vary
        (np.array([[0.5, 0.5]]), EQUAL, "", ("b",)),
    ],
)
def test_a_winner_holds_is_equal_or_is_undecided(
    worth: FloatArray, verdict: str, why: str, others: tuple[str, ...]
) -> None:
    judged = judge(replicate("abc"[: worth.shape[1]], worth))
    assert (judged.method, judged.verdict, judged.why) == ("a", verdict, why)
    assert (judged.equal_with if verdict == EQUAL else judged.rivals) == others


def test_ranks_and_chances_to_be_best_are_those_of_the_draws() -> None:
    judged = judge(replicate("abc", stream(0.60, 0.58, 0.50)))
    assert judged.p_best["a"] == 1
    assert judged.rank_lo == judged.rank_hi == {"a": 1, "b": 2, "c": 3}
    equal = judge(replicate("abc", same(stream(0.6, 0.5))))
    assert equal.p_best == {"a": 1.0, "b": 0.0, "c": 1.0}, "equal methods are both best"
    assert np.isnan(judge(replicate("ab", np.array([[0.9, 0.1]]))).p_best["a"])


def test_batches_that_are_hard_for_all_say_nothing_against_a_lead() -> None:
    """Utilities vary by half a point here; their difference, batch by batch, hardly at all."""
    cell = replicate("ab", stream(0.600, 0.596, luck=0.004))
    lo, hi = cell.sample_interval
    assert hi[1] > lo[0], "unpaired, the intervals overlap"
    assert judge(cell).verdict == HOLDS


def test_the_cause_that_leaves_more_open_is_the_reason() -> None:
    worth = stream(0.600, 0.595, luck=0.03)
    paces = np.random.default_rng(1).normal(1, 0.05, (40, 1))
    shaken = worth.mean(axis=0) * np.concatenate([paces, np.ones_like(paces)], axis=1)
    assert judge(replicate("ab", worth)).why in ("", SAMPLING)
    by_timing = judge(replicate("ab", worth, shaken))
    assert (by_timing.verdict, by_timing.why) == (UNDECIDED, TIMING)


def test_bounds_for_all_rivals_together_are_wider_than_for_one() -> None:
    worth = stream(*([0.6] + [0.59] * 9), luck=0.05)
    alone, among = leads(replicate("ab", worth[:, :2]), 0), leads(replicate("abcdefghij", worth), 0)
    assert among.lower[0] < alone.lower[0]


def test_where_a_budget_ran_out_is_not_chance() -> None:
    """A method that falls when it freezes falls by decision: only what varies before and after is drawn."""
    worth = stream(0.6, 0.45, batches=100)
    worth[:50, 1] += 0.1
    worth[50:, 1] -= 0.1
    phases = np.ones(worth.shape, dtype=np.int8)
    phases[50:, 1] = 2
    told, untold = replicate("ab", worth, phases=phases), replicate("ab", worth)
    assert told.sampled[:, 1].std() < 0.7 * untold.sampled[:, 1].std()
    assert judge(told).verdict == HOLDS


# -- pooling ---------------------------------------------------------------------------------------------------


def test_more_seeds_decide_more() -> None:
    cells = [
        replicate("ab", stream(0.600, 0.596, batches=60, luck=0.03, seed=seed), stream=str(seed))
        for seed in range(12)
    ]
    assert judge(cells[0]).verdict == UNDECIDED
    together = pooled(cells)
    assert judge(together).verdict == HOLDS
    assert together.utility == pytest.approx([0.600, 0.596])


def test_pooling_weighs_by_batches_and_drops_who_failed_somewhere() -> None:
    long, short = stream(0.6, 0.4, 0.2, batches=300), stream(0.3, 0.1, batches=100)
    together = pooled([replicate("abc", long), replicate("ab", short)])
    assert together.methods == ("a", "b")
    assert together.utility == pytest.approx([0.525, 0.325])


def test_one_draw_of_the_times_is_one_draw_for_all_shifts() -> None:
    """Errors of a profile do not average out over shifts, those of batches do."""
    paces = np.random.default_rng(0).normal(1, 0.1, (40, 1))
    cells = [
        replicate("a", worth, worth.mean() * paces, stream=str(seed))
        for seed, worth in enumerate(stream(0.5, seed=seed) for seed in range(8))
    ]
    together = pooled(cells)
    assert together.timed.std() == pytest.approx(cells[0].timed.std(), rel=0.01)
    assert together.sampled.std() == pytest.approx(cells[0].sampled.std() / np.sqrt(8), rel=0.15)


# -- blocks ----------------------------------------------------------------------------------------------------


def test_single_batches_have_the_textbook_error() -> None:
    worth = stream(0.5, batches=200)
    blocks = Blocks((200,), (1,))
    error = np.sqrt((blocks.sums(worth) ** 2).sum())
    assert error == pytest.approx(worth.std(ddof=1) / np.sqrt(200), rel=1e-9)
    assert blocks.freedom == 199
    cell = replicate("a", worth, replicates=20_000)
    around = stats.t.interval(0.95, cell.freedom[0], scale=np.sqrt(cell.variance[0]))
    assert np.quantile(cell.sampled, [0.025, 0.975]) == pytest.approx(around, rel=0.04)


def test_methods_that_share_their_batches_are_drawn_together() -> None:
    """Draws have the covariance of the block sums, and equal methods get the same to the digit."""
    first, hard = stream(0.5, batches=300), stream(0.0, batches=300, seed=5)
    worth = np.concatenate([first + hard, 0.1 + hard, first + hard], axis=1)
    drawn = replicate("abc", worth, replicates=20_000).sampled
    assert np.abs(drawn[:, 0] - drawn[:, 2]).max() < 1e-14
    assert np.corrcoef(drawn[:, :2].T)[0, 1] == pytest.approx(np.corrcoef(worth[:, :2].T)[0, 1], abs=0.1)


def test_blocks_keep_what_neighbours_share() -> None:
    """Ten equal neighbours are one observation: blocks of forty see that, single batches do not."""
    worth = np.repeat(np.random.default_rng(0).standard_normal((50, 1)), 10, axis=0)
    single, blocks = (np.sqrt((Blocks((500,), (length,)).sums(worth) ** 2).sum()) for length in (1, 40))
    assert blocks > 2.5 * single


def test_segments_are_drawn_each_for_itself() -> None:
    """Every draw has as much of each segment, because their differences are known, not chance."""
    worth = np.repeat([[0.2], [0.8]], 100, axis=0)
    assert np.abs(Blocks((100, 100), (5, 7)).sums(worth)).max() < 1e-12


def test_correlated_streams_get_longer_blocks() -> None:
    independent = stream(0.5, 0.4, batches=700)
    correlated = np.cumsum(0.2 * stream(0.0, 0.0, batches=700), axis=0) % 1
    short, long = (choose_blocks(worth).lengths[0] for worth in (independent, correlated))
    assert short < 8 < long <= 175
    assert choose_blocks(np.full((100, 2), 0.5)).lengths == (1,), "nothing varies"
    assert choose_blocks(independent, [2, 698]).segments == (700,), "a segment too short to cut"


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_intervals_hold_the_truth_about_as_often_as_they_say(correlation: float) -> None:
    """In small, what `benchmarks/interval_coverage.py` shows at length."""
    generator = np.random.default_rng(7)
    inside = together = 0.0
    for number in range(200):
        noise = generator.standard_normal((150, 4))
        for batch in range(1, 150):
            noise[batch] = correlation * noise[batch - 1] + np.sqrt(1 - correlation**2) * noise[batch]
        cell = replicate(
            "abc", 0.5 + 0.05 * (noise[:, :3] + noise[:, 3:]), stream=str(number), replicates=400
        )
        lo, hi = cell.sample_interval
        ahead = leads(cell, 0)
        inside += ((lo <= 0.5) & (hi >= 0.5)).mean() / 200
        together += ((ahead.lo <= 0) & (ahead.hi >= 0)).all() / 200
    assert 0.91 < inside < 0.98
    assert 0.90 < together < 0.99


def test_the_interval_of_a_number_does_not_depend_on_its_neighbours() -> None:
    """The same answers had ±1.6 in one column and ±2.1 in the next, because others there were correlated."""
    own, other = stream(0.5, batches=60), stream(0.4, batches=60)
    slow = 0.3 + 0.1 * np.sin(np.arange(60) / 9)[:, None]
    cells = [replicate("ab", np.concatenate([own, rival], axis=1), stream="one") for rival in (other, slow)]
    (lo, hi), (other_lo, other_hi) = (cell.sample_interval for cell in cells)
    assert (lo[0], hi[0]) == (other_lo[0], other_hi[0])
    drawn = np.quantile(cells[0].sampled[:, 0], [0.025, 0.975])
    assert hi[0] - lo[0] == pytest.approx(drawn[1] - drawn[0], rel=0.15), "it is the drawn one without chance"


# -- times -----------------------------------------------------------------------------------------------------


def a_profile(noise: float = 0.1, apart: float = 0.0) -> Rounds:
    """Twenty rounds: a noise that all kinds share, and one of each kind."""
    generator = np.random.default_rng(3)
    shared = np.exp(noise * generator.standard_normal(20))
    kinds = [Kind("standard", PREDICT), Kind("tent", PREDICT), Kind("tent", ADAPT, "", "step")]
    times = {kind: shared * np.exp(apart * generator.standard_normal(20)) for kind in kinds}
    return Rounds(times[kinds[0]], times)


def test_an_error_of_standard_s_moves_lambda_and_all_methods_together() -> None:
    drawn = Steady(a_profile(), 40)
    assert drawn.baseline.std() > 0.01
    assert drawn.factor(Kind("tent", PREDICT)) == pytest.approx(drawn.baseline)
    assert drawn.factor(Kind("tent", ADAPT, "", "step")) == pytest.approx(drawn.baseline)
    apart = Steady(a_profile(apart=0.1), 40)
    assert np.abs(apart.factor(Kind("tent", PREDICT)) / apart.baseline - 1).max() > 0.01


def test_a_kind_that_was_not_timed_takes_what_is_nearest() -> None:
    drawn = Steady(a_profile(apart=0.1), 40)
    step = drawn.factor(Kind("tent", ADAPT, "", "step"))
    assert drawn.factor(Kind("tent", ADAPT, "small", "recovered")).tolist() == step.tolist()
    assert drawn.factor(Kind("tent", "frozen")).tolist() == drawn.baseline.tolist()


def test_rounds_of_a_profile_are_those_that_were_clean_and_fitted_on() -> None:
    rounds = [*range(9), 10]
    standard = {"method": "standard", "phase": "predict", "steady_ms": 10.0}
    step = {"method": "deyo", "phase": "adapt", "action": "step", "steady_ms": 20.0, "per_amount_ms": 1.0}
    clean = {"clean": True, "checks": False, "standard_ms": 10.0}
    profile = {
        "standard_ms": 10.0,
        "entries": [
            {**standard, "rounds": list(range(11)), "ms": [10.0] * 11},
            {**step, "amount": 5.0, "rounds": rounds, "ms": [*[22.0] * 9, 1.0], "amounts": [*[7.0] * 9, 1.0]},
        ],
        "rounds": [*[clean] * 9, {**clean, "clean": False}, {**clean, "checks": True}],
    }
    found = rounds_of(profile)
    assert found is not None
    assert found.standard.tolist() == [1.0] * 9
    assert found.kinds[Kind("deyo", ADAPT, "", "step")].tolist() == [1.0] * 9, "its amounts explain its times"
    assert rounds_of({"methods": {}}) is None


# -- a run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shaky(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two seeds of a clock that is 20 % off: nothing is kept yet."""
    return write_run(tmp_path_factory.mktemp("shaky"), seeds=(1, 2), uncertainty=0.2)


def test_timing_marks_what_it_can_change_and_nothing_else(
    run: Results, shaky: Results, tmp_path: Path
) -> None:
    recorded = write_run(tmp_path, uncertainty=0.2, clock="recorded:given", scenarios=GRID[:3])
    for exact in (run, recorded):
        assert not (winners_of(exact)["why"] == TIMING).any()
    winners = winners_of(shaky)
    assert (winners["why"] == TIMING).any()
    offline = winners["protocol"] == "offline"
    assert not (winners.loc[offline, "why"] == TIMING).any(), "offline, nothing depends on time"


def test_a_run_says_how_many_of_its_winners_hold(run: Results) -> None:
    summary, winners = summary_of(run), winners_of(run)
    assert summary.cells == len(winners) == 12
    assert summary.holds == (winners["verdict"] == HOLDS).sum()
    assert summary.expected_wrong == pytest.approx((1 - winners["p_best"]).sum())


def test_pooled_rows_get_pooled_doubt(shaky: Results) -> None:
    rows = cells_of(shaky).query("shift == 'all'")
    assert rows["verdict"].isin([HOLDS, EQUAL, UNDECIDED]).all()
    one = doubt(shaky).about(shaky.utilities)
    width = (rows["sample_hi"] - rows["sample_lo"]).mean()
    assert width < 0.75 * (one["sample_hi"] - one["sample_lo"]).mean(), "four streams say more than one"


@pytest.mark.filterwarnings("error")
def test_a_folder_keeps_what_would_be_worked_out(shaky: Results) -> None:
    """Also once its passes are gone; but not for other utilities."""
    worked_out = cells_of(open_run(shaky.path))
    table = with_doubt(shaky)
    assert (table["sample_lo"] <= table["utility"] + 1e-12).all()
    assert (table["sample_hi"] >= table["utility"] - 1e-12).all()
    assert (table.groupby(["shift", "seed", "scenario"])["verdict"].nunique() == 1).all()
    keep_doubt(shaky)
    assert open_run(shaky.path).utilities["verdict"].tolist() == table["verdict"].tolist()
    kept = cells_of(open_run(shaky.path))
    pd.testing.assert_frame_equal(kept, worked_out, check_dtype=False, check_like=True)
    for trace in shaky.path.glob("traces/*.parquet"):
        trace.unlink()
    with pytest.warns(TemporaWarning):
        gone = open_run(shaky.path)
    assert cells_of(gone)["verdict"].tolist() == worked_out["verdict"].tolist()
    gone.folder.write_utilities(gone.utilities.assign(utility=gone.utilities["utility"] / 2))
    assert gone.folder.certainty() is None


UNSURE, UNTIMED = Summary(9, 5, 0, 3, 1, 1.0), Summary(9, 5, 0, 1, 3, 1.0)


@pytest.mark.parametrize(
    ("summary", "clock", "config", "options"),
    [
        (UNSURE, "measured", {"batches": None}, "--seeds 1,2,3"),
        (UNSURE, "measured", {"batches": 20}, "--batches 80 --replace"),
        (UNTIMED, "measured", {"batches": 20}, "--clock steady --replace"),
        (UNTIMED, "steady:ab", {"profile_s": 30}, "--profile-s 120"),
    ],
)
def test_one_command_decides_more(
    run: Results, summary: Summary, clock: str, config: dict[str, object], options: str
) -> None:
    asked = open_run(run.path)
    asked.manifest |= {"clock": clock, "config": config}
    assert remedy(summary, asked) == f"tempora run {run.path} {options}"
    assert remedy(Summary(9, 9, 0, 0, 0, 0.0), asked) is None


def test_a_damaged_pass_is_said_where_doubt_would_have_needed_it(tmp_path: Path) -> None:
    results = write_run(tmp_path, scenarios=GRID[:2])
    stored = results.folder.stored(results.utilities.iloc[0]["adapting_pass"])
    stored.path.write_bytes(stored.path.read_bytes()[:-50])
    with pytest.warns(TemporaWarning):
        winners_of(open_run(results.path))
