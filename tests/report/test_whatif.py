"""The what-if panel: every stop is an exact answer, and what it says is what `recommend` would say."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from made_runs import GRID, METHODS, Pace, write_run
from tempora_tta.analysis.cells import ALL, cells, over_all
from tempora_tta.analysis.replays import answer
from tempora_tta.cli import app
from tempora_tta.report.html.payload import axes
from tempora_tta.report.whatif import Slider, packed, what_if
from tempora_tta.scenarios import Deployment, Discrete
from tempora_tta.store import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two seeds, clean images, two queues, a deployment with several limits, a device with variation, a failure."""
    return write_run(
        tmp_path_factory.mktemp("what if") / "run",
        methods=METHODS | {"eta": Pace(10.0, 3.0, 0.5), "cmf": Pace(10.0, 9.0, 0.5)},
        scenarios=(
            *GRID,
            Discrete(interval_ms=10.0, queue=0),
            Deployment(interval_ms=12.0, threshold_ms=30.0, budget_ms=80.0),
        ),
        shifts=("clean", "fog", "snow"),
        seeds=(1, 2),
        variation=(1.0, 1.2, 0.9),
        broken={"cmf": "out of memory"},
        facts={"eta": {"time_aware": True}},
    )


@pytest.fixture(scope="module")
def sliders(results: Results) -> list[Slider]:
    return what_if(results, axes(results))


def test_a_stop_is_the_exact_answer_or_none(results: Results, sliders: list[Slider]) -> None:
    """Of the evaluated points the cells, between them what `recommend` would say, and a reason where that is none."""
    names = axes(results)
    rows = over_all(cells(results.contenders, results.cards)).set_index(["scenario", "method"])["utility"]
    assert [slider.protocol for slider in sliders].count("discrete") == 2, "each queue is a slider of its own"
    assert {slider.protocol for slider in sliders} == {"discrete", "continuous", "amortised"}
    for slider in sliders:
        assert slider.knob is not None
        assert [bool(reason) for reason in slider.why] == np.isnan(slider.utility).ravel().tolist()
        assert len(slider.sentences) == slider.utility.shape[0] * slider.utility.shape[1]
        assert all(slider.sentences)
        between = [stop for stop, number in enumerate(slider.evaluated) if number is None]
        for stop, number in enumerate(slider.evaluated):
            for place, shift in enumerate([ALL, *names["shifts"]]):
                shown = dict(zip(names["methods"], slider.utility[place, stop], strict=True))
                known = {name: value for name, value in shown.items() if not np.isnan(value)}
                if number is not None and shift == ALL:
                    assert known == pytest.approx(rows[number].dropna().to_dict(), abs=1e-12)
                elif stop in between[:: len(between) // 3] and shift in (ALL, "fog"):
                    found = answer(results, slider.knob.at(slider.values[stop]), [shift] if place else None)
                    exact = over_all(cells(found.rows, results.cards)).set_index("method")["utility"]
                    assert known == pytest.approx(exact.to_dict(), abs=1e-12), (slider.protocol, shift)


def test_the_printed_command_asks_for_its_stop(results: Results, sliders: list[Slider]) -> None:
    names = axes(results)
    for slider in sliders:
        page, stop = packed(slider, results), len(slider.values) // 2
        assert len(page["commands"]) == len(page["values"]) == len(page["labels"])
        command = shlex.split(page["commands"][stop])
        assert command[:2] == ["tempora", "recommend"]
        told = json.loads(CliRunner().invoke(app, [*command[1:], "--format", "json"]).stdout)
        ranked = {row["method"]: row["utility"] for row in told["ranking"]}
        shown = dict(zip(names["methods"], slider.utility[0, stop], strict=True))
        assert ranked == pytest.approx({name: shown[name] for name in ranked}, abs=1e-4), command


def test_a_scenario_with_several_limits_has_no_slider_between_its_points(tmp_path: Path) -> None:
    kinds = (GRID[0], Deployment(interval_ms=12.0, threshold_ms=30.0))
    made = write_run(tmp_path / "run", scenarios=kinds, batches=8)
    assert what_if(made, axes(made)) == []


def test_a_measured_neighbour_is_not_contradicted(tmp_path: Path) -> None:
    """AdaBN has an answer at any interval; Tent has none between two intervals at which it is better."""
    scenarios = (GRID[0], Discrete(interval_ms=20.0), Discrete(interval_ms=22.0))
    methods = {name: METHODS[name] for name in ("standard", "adabn")}
    methods["tent"] = METHODS["tent"]._replace(accuracy=0.7)
    made = write_run(tmp_path / "run", methods=methods, scenarios=scenarios, shifts=("fog",))
    (slider,) = what_if(made, axes(made))
    stop = int(np.argmin(abs(slider.values - 21.0)))
    assert 20.0 < slider.values[stop] < 22.0
    assert all(part in slider.sentences[stop] for part in ("Probably Tent", "2 of 3 methods", "AdaBN"))
