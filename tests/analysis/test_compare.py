"""Two runs side by side: noise is called noise, changes are named, and so are the machines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from made_runs import METHODS, Pace
from made_runs import measured_run as write_run
from tempora_tta.analysis.compare import compare_runs, manifest_differences
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Continuous, Discrete, Offline
from tempora_tta.store import Results

FEW = (Offline(), Discrete(interval_ms=25.0), Continuous(threshold_ms=15.0))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return write_run(tmp_path_factory.mktemp("run"), scenarios=FEW)


def test_a_run_equals_itself(run: Results) -> None:
    found = compare_runs(run, run)
    assert set(found.cells["change"]) == {"same"}
    assert found.winners.empty
    assert found.notes == []
    assert found.paired
    nothing = dict.fromkeys(("changed", "undecided", "mean_absolute_difference", "winners_changed"), 0)
    assert found.summary == {"cells": 15, "rank_correlation": pytest.approx(1), "scenarios": 3, **nothing}
    cells = found.cells.set_index(["label", "method"])["utility"]
    expected = run.utilities.groupby(["label", "method"])["utility"].mean()
    assert cells.to_dict() == pytest.approx(expected.to_dict())


def test_a_better_method_is_a_change_and_takes_places(run: Results, tmp_path: Path) -> None:
    better = write_run(tmp_path, scenarios=FEW, methods={**METHODS, "adabn": Pace(10.5, 0.0, 0.70)})
    found = compare_runs(run, better)
    changed = found.cells[found.cells["change"] == "changed"]
    assert set(changed["method"]) == {"adabn"}
    assert set(changed["label"]) == {scenario.label for scenario in FEW}
    by_protocol = changed.set_index("protocol")["difference"]
    assert by_protocol[["offline", "discrete"]].tolist() == pytest.approx([13 / 50, 13 / 50])
    assert 0.2 < by_protocol["continuous"] < 13 / 50, "late answers are worth less"
    assert set(found.cells.loc[found.cells["method"] != "adabn", "change"]) == {"same"}
    offline = found.winners[found.winners["protocol"] == "offline"].iloc[0]
    assert (offline["winner"], offline["winner_other"]) == ("sar", "adabn")
    assert found.summary["winners_changed"] == len(found.winners)


def test_the_interval_is_paired_by_batch(run: Results, tmp_path: Path) -> None:
    other = write_run(tmp_path, scenarios=FEW, luck=1)
    cells = compare_runs(run, other).cells
    tent = cells.query("method == 'tent' and protocol == 'offline'").iloc[0]
    here, there = (
        np.concatenate([each.trace(row).accuracy for _, row in rows.iterrows()])
        for each in (run, other)
        for rows in [each.utilities.query("method == 'tent' and protocol == 'offline'").sort_values("shift")]
    )
    paired = stats.ttest_rel(there, here).confidence_interval(0.95)
    apart = stats.ttest_ind(there, here).confidence_interval(0.95)
    width = tent["hi"] - tent["lo"]
    assert width == pytest.approx(paired.high - paired.low, rel=0.35), "blocks of batches, not batches"
    assert width < 0.6 * (apart.high - apart.low)
    assert set(cells["change"]) <= {"same", "equal", "undecided", "changed"}
    assert set(cells.loc[cells["change"] == "undecided", "why"]) == {"sampling"}


def test_what_times_leave_open_is_undecided_by_timing(tmp_path: Path) -> None:
    slow = {name: (predict * 1.1, adapt * 1.1, right) for name, (predict, adapt, right) in METHODS.items()}
    runs = [
        write_run(tmp_path / name, methods=methods, scenarios=FEW, uncertainty=uncertainty)
        for name, methods, uncertainty in (
            ("here", METHODS, 0.2),
            ("there", slow, 0.2),
            ("sure", METHODS, 0.0),
            ("slow", slow, 0.0),
        )
    ]
    cells = compare_runs(runs[0], runs[1]).cells.set_index(["protocol", "method"])
    assert cells.loc[("continuous", "sar"), "why"] == "timing"
    unsure = cells["change"]
    sure = compare_runs(runs[2], runs[3]).cells.set_index(["protocol", "method"])["change"]
    assert unsure["continuous", "sar"] == "undecided"
    assert sure["continuous", "sar"] == "changed"
    assert unsure["offline", "sar"] == "same", "offline, time does not matter"


def test_streams_are_paired_where_they_are_the_same(run: Results, tmp_path: Path) -> None:
    others = {
        "seeds": {"seeds": (7, 8)},
        "more": {"seeds": (1, 2)},
        "data": {"identity": {name: {"data": "another fingerprint"} for name in METHODS}},
    }
    found = {
        name: compare_runs(run, write_run(tmp_path / name, scenarios=FEW, **more))  # type: ignore[arg-type]
        for name, more in others.items()
    }
    assert {name: one.paired for name, one in found.items()} == {"seeds": False, "more": True, "data": False}
    assert {"seeds only here: 1", "seeds only there: 7, 8"} <= set(found["seeds"].notes)
    assert (found["seeds"].cells["hi"] > found["seeds"].cells["lo"]).all()
    assert set(found["more"].cells["change"]) == {"same"}, "of several seeds the common ones count"


def test_what_else_differs_is_said(run: Results, tmp_path: Path) -> None:
    fewer = {name: METHODS[name] for name in ("standard", "tent")}
    other = write_run(
        tmp_path,
        methods=fewer,
        scenarios=[*FEW, Continuous(threshold_ms=99.0)],
        shifts=("fog",),
        verdict="WARN",
        model="other_net",
        machine={"gpu": "Big GPU", "versions": {"torch": "2.9"}},
        baseline={"baseline_ms": 4.0},
    )
    notes = " | ".join(compare_runs(run, other).notes)
    for part in (
        "machine is Some CPU, 2 threads here and Big GPU there",
        "λ is 10 ms here and 4 ms there (-60 %)",
        "model is a_net here and other_net there",
        "torch 2.6 here and 2.9 there",
        "timing there is WARN",
        "methods only here: adabn, lame, sar",
        "shifts only here: snow",
        "scenarios only there: T 99 ms",
    ):
        assert part in notes


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({"fog": 12, "snow": 12, "rain": 12, "hail": 12}, []),
        ({"fog": 12, "frost": 9}, []),
        (
            {"fog": 8, "snow": 8, "rain": 6},
            ["12 batches of fog, snow here and 8 there", "12 batches of rain here and 6 there"],
        ),
    ],
)
def test_only_shifts_of_both_runs_can_differ_in_length(there: dict[str, int], expected: list[str]) -> None:
    """A run of more shifts is not one of other batches."""
    same = {"baseline": {"baseline_ms": 10.0}}
    here = {"fog": 12, "snow": 12, "rain": 12}
    assert manifest_differences({**same, "batches": here}, {**same, "batches": there}) == expected


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        (("recorded:a", "A"), ("recorded:a", "A"), []),
        (("recorded:a", "A"), ("recorded:a", "B"), ["machine is"]),
        (("recorded:a", "A"), ("recorded:b", "A"), ["times are"]),
        (("recorded:a", "A"), ("recorded:b", "B"), ["machine is", "times are"]),
        (("steady:a", "A"), ("recorded:b", "A"), ["times are"]),
        (("steady:a", "A"), ("steady:b", "A"), []),
        (("steady:a", "A"), ("steady:a", "B"), ["machine is"]),
    ],
)
def test_machines_are_told_apart_by_more_than_the_clock_s_name(
    here: tuple[str, str], there: tuple[str, str], said: list[str]
) -> None:
    """A file's name is the same for two profiles, and one profile drives two machines."""
    mine, theirs = (
        {
            "baseline": {"baseline_ms": 10.0},
            "clock": clock,
            "config": {"clock": "mine.json"},
            "machine": {"cpu": cpu, "threads": 1},
        }
        for clock, cpu in (here, there)
    )
    assert [" ".join(one.split()[:2]) for one in manifest_differences(mine, theirs)] == said


def test_runs_without_a_common_cell_are_refused(run: Results, tmp_path: Path) -> None:
    other = write_run(tmp_path, scenarios=FEW, shifts=("frost",))
    with pytest.raises(TemporaError, match=r"fog, snow.*frost"):
        compare_runs(run, other)


def test_other_settings_and_weights_are_said(tmp_path: Path) -> None:
    """With other settings or weights, a change of the numbers is not the code's doing alone."""
    sides = [
        write_run(
            tmp_path / name,
            scenarios=(Offline(),),
            batches=8,
            identity={method: {"weights": name} for method in METHODS}
            | {"tent": {"weights": name, "settings": {"lr": rate}, "recipe": {"lr": 0.5, "every": 2}}},
        )
        for name, rate in (("mine", 0.001), ("theirs", 10))
    ]
    notes = compare_runs(*sides).notes
    assert "weights are mine here and theirs there" in notes
    assert "Tent has other settings: lr 0.001 here and 10 there" in notes
    assert not any("other settings" in note for note in compare_runs(sides[0], sides[0]).notes)
    assert "tent" not in set(compare_runs(*sides, without={"tent"}).cells["method"])
