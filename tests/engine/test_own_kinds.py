"""A scenario and a method of the user's own, in one file that nothing else knows of, go everywhere.

They are run, resumed, tabulated, drawn, recommended, compared and reported under the names and sentences of their own
cards, and the results are read where their module cannot be imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta import data, models, names
from tempora_tta.cards import CATALOGUE, Cards, scenario_cards
from tempora_tta.cli.app import app
from tempora_tta.engine.build import scenarios_of
from tempora_tta.engine.load_config import load_config
from tempora_tta.errors import TemporaError
from tempora_tta.report import tables
from tempora_tta.report.charts import save
from tempora_tta.report.html.page import render
from tempora_tta.scenarios import Discrete, Scenario, from_spec, to_spec
from tempora_tta.store import Results, open_run
from tempora_tta.store.record import RunRecord

LAB = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tempora_tta.methods import Method
from tempora_tta.scenarios import Deployment, Scenario, ScenarioCard


@dataclass(frozen=True, kw_only=True)
class Alternating(Scenario):
    """Two intervals in turn, and answers that lose their value."""

    protocol: ClassVar[str] = "alternating"
    parameter: ClassVar[str] = "short_ms"
    card = ScenarioCard(
        title="Tick-tock",
        situation="Two cameras take turns",
        story="a short wait, then a long one",
        knob="The short wait",
        symbol="s",
        terms=("availability", "served_accuracy", "responsiveness"),
        sentences=("sees {availability:.1%} of both cameras and keeps {responsiveness:.1%} of their worth",),
        pace="sees {availability:.0%} of both cameras",
    )

    short_ms: float = 20.0
    long_ms: float = 80.0
    threshold_ms: float = 120.0

    @property
    def label(self):
        return f"s {self.short_ms:g} ms"

    def deployment(self):
        gaps = np.tile([self.short_ms, self.long_ms], 500)
        return Deployment(arrivals=np.cumsum(gaps), queue=1, threshold_ms=self.threshold_ms)


@dataclass(frozen=True, kw_only=True)
class Plain(Scenario):
    """As a class of 0.1.0 was: protocol, parameter, label and deployment, no card."""

    protocol: ClassVar[str] = "frame_rate"
    parameter: ClassVar[str] = "interval_ms"
    interval_ms: float = 60.0

    @property
    def label(self):
        return f"every {self.interval_ms:g} ms"

    def deployment(self):
        return Deployment(interval_ms=self.interval_ms)


class Mine(Method):
    name = "mine"
    label = "My Method"
    family = "gradient-based"
    colour = "#12ab9f"
    modifies = ("output",)

    def predict(self, x):
        return self.logits(x)

    def adapt(self):
        return "step"
'''
CLOCK: dict[str, Any] = {
    "baseline_ms": 40.0,
    "standard": (38.0, 0.0),
    "adabn": (42.0, 0.0),
    "mine": (45.0, 50.0),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's module, importable while runs are made."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "lab_kinds.py").write_text(LAB)
    sys.path.insert(0, str(folder))
    yield folder
    sys.modules.pop("lab_kinds", None)


@pytest.fixture(scope="module")
def given() -> dict[str, list[Any]]:
    network = models.load("fashion_resnet")
    opened = {}
    for name, shift in data.open("fashion", shifts=["contrast", "fog"]).items():
        stream = data.open_stream(shift, network.preprocessing, batch_size=8, limit_batches=8, workers=0)
        labels = [stream.labels(place) for place in range(stream.num_batches)]
        opened[name] = [(stream.batch(place), label) for place, label in enumerate(labels)]
    import torch

    return {name: [(x, torch.as_tensor(y)) for x, y in batches] for name, batches in opened.items()}


@pytest.fixture(scope="module")
def evaluate(lab: Path, given: dict[str, list[Any]]) -> Callable[[Path], Results]:
    def run(out: Path) -> Results:
        return tempora.evaluate(
            models.load("fashion_resnet"),
            given,
            ["standard", "adabn", "lab_kinds:Mine"],
            [
                Discrete(interval_ms=60.0),
                "lab_kinds:Alternating",
                {"scenario": "lab_kinds:Alternating", "short_ms": 60.0},
                {"scenario": "lab_kinds:Plain", "interval_ms": 45.0},
            ],
            clock=CLOCK,
            out=out,
        )

    return run


@pytest.fixture(scope="module")
def run(
    evaluate: Callable[[Path], Results], lab: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A finished run, in a process that can no longer import the user's module."""
    folder = tmp_path_factory.mktemp("own") / "run"
    evaluate(folder)
    before = (folder / "utilities.parquet").read_bytes()
    made = {path.name: path.stat().st_mtime_ns for path in (folder / "traces").iterdir()}
    evaluate(folder)
    assert (folder / "utilities.parquet").read_bytes() == before
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "traces").iterdir()} == made, "resumed"
    sys.path.remove(str(lab))
    del sys.modules["lab_kinds"]
    yield folder
    assert "lab_kinds" not in sys.modules, "reading a run imports nothing of the user's"
    sys.path.insert(0, str(lab))


def command(*words: object) -> str:
    done = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_cards_are_in_run_json(run: Path) -> None:
    cards = json.loads((run / "run.json").read_text(encoding="utf-8"))["cards"]
    assert cards["scenarios"]["alternating"]["title"] == "Tick-tock"
    assert cards["scenarios"]["frame_rate"]["title"] == "Frame rate", "made from the protocol"
    assert cards["methods"]["mine"] == {
        "label": "My Method",
        "family": "gradient-based",
        "colour": "#12ab9f",
        "modifies": ["output"],
    }
    assert Cards.from_json(cards) == open_run(run).cards


def test_scenarios_are_read_as_they_were(run: Path) -> None:
    results = open_run(run)
    rows = results.utilities[results.utilities["protocol"] == "alternating"]
    assert sorted(rows["value"].unique()) == [20.0, 60.0]
    assert set(rows["parameter"]) == {"short_ms"}
    assert (rows["status"] == "ok").all()
    assert rows["availability"].min() < 1
    assert rows["responsiveness"].min() < 1
    for _, cell in rows.iterrows():
        results.trace(cell)  # warns where the batches give another utility
    assert [scenario.label for scenario in results.scenarios[2:]] == ["s 20 ms", "s 60 ms", "every 45 ms"]


@pytest.mark.parametrize("format_", tables.FORMATS)
def test_every_table_names_them(run: Path, format_: str) -> None:
    results = open_run(run)
    shown = {}
    for name in tables.names(results.utilities):
        needs = {"overhead": results.traces}.get(name)
        try:
            built = tables.build(name, results.utilities, needs, cards=results.cards)
        except TemporaError:
            continue  # no budget, no second machine, no second queue
        shown[name] = tables.render(built, format_)
    own = {"alternating", "frame_rate"}
    assert own | {"winners", "sweep", "offline", "discrete", "deficit", "below-standard"} <= set(shown)
    assert {"temporal-factors", "correlation", "overhead"} <= set(shown)
    if format_ in ("csv", "json"):
        assert all("alternating" in shown[name] for name in ("sweep", "winners", "temporal-factors"))
        return
    for name in ("sweep", "winners", "correlation", "deficit"):
        assert all(title in shown[name] for title in ("Tick-tock", "Frame rate")), name
    for name in ("sweep", "overhead", "alternating"):
        assert "My Method" in shown[name], name
    assert "at s 20 ms" in shown["alternating"]
    assert "responsiveness" in shown["alternating"]


def test_the_command_line_names_them(run: Path, tmp_path: Path) -> None:
    assert "Tick-tock" in command("show", run)
    assert "My Method" in command("show", run, "--table", "alternating", "--by-shift")
    said = command("recommend", run, "--scenario", "s 20 ms", "--why")
    assert "Two cameras take turns: s 20 ms" in said
    assert "of both cameras and keeps" in " ".join(said.split())
    assert "answered %" in said
    # Between the evaluated points only the history-free have an exact answer.
    assert "Use " in command("recommend", run, "--interval-ms", "45")
    other = tmp_path / "other"
    open_run(run).save(other)
    assert "Tick-tock: utility (%) and rank of both runs" in command("compare", run, other)


def test_every_figure_has_them(run: Path, tmp_path: Path) -> None:
    made = {path.stem: path.read_text(encoding="utf-8") for path in save(open_run(run), tmp_path)}
    assert {"winners", "timelines", "utility", "protocols", "latency"} <= set(made)
    for name in ("winners", "timelines", "utility"):
        assert all(title in made[name] for title in ("Tick-tock", "Frame rate")), name
    assert "a short wait, then a long one" in made["timelines"]
    assert "My Method" in made["latency"]


def test_the_report_and_what_if_explain_them(run: Path) -> None:
    from report.test_html import payload_of

    page = render(open_run(run))
    for text in ("Two cameras take turns", "Tick-tock", "My Method", "#12ab9f"):
        assert text in page or text in json.dumps(payload_of(page), ensure_ascii=False), text
    payload = payload_of(page)
    kinds = {kind["protocol"]: kind for kind in payload["sliders"]}
    assert kinds["alternating"]["knob"] == "The short wait"
    assert len(kinds["alternating"]["values"]) == 2, "only what was evaluated has an answer"
    assert len(kinds["frame_rate"]["values"]) > 20, "a plain schedule has one in between"
    assert (
        payload["charts"]["curves_alternating"]["layer"][1]["encoding"]["x"]["title"]
        == "The short wait s (ms)"
    )
    titles = [one["title"] for one in payload["scenarios"]]
    assert [title for title in titles if title.startswith("s ")] == ["s 20 ms", "s 60 ms"]


def test_two_runs_that_call_one_method_differently_show_their_own_labels(tmp_path: Path, run: Path) -> None:
    other = open_run(run).save(tmp_path / "other")
    from tempora_tta.store import RunFolder

    manifest = open_run(other).manifest
    manifest["cards"]["methods"]["mine"] |= {"label": "Another name", "family": "gradient-free"}
    manifest["cards"]["scenarios"]["alternating"]["title"] = "To and fro"
    RunFolder(other).write_manifest(RunRecord.model_validate(manifest))
    first, second = open_run(run), open_run(other)

    def sweep(results: Results) -> str:
        return tables.render(tables.build("sweep", results.utilities, cards=results.cards))

    both = sweep(first), sweep(second)
    assert "My Method" in both[0]
    assert "Tick-tock" in both[0]
    assert "Another" not in both[0]
    assert "Another name" in both[1]
    assert "To and fro" in both[1]
    assert "My Method" not in both[1]
    assert sweep(first) == both[0], "reading the second run changed nothing"
    assert CATALOGUE.label("mine") == "mine"


def test_a_larger_value_may_be_more_pressure() -> None:
    import pandas as pd

    from analysis.runs import frame
    from tempora_tta.analysis.cells import at_strictest, ordered
    from tempora_tta.scenarios import ScenarioCard

    cards = Cards(scenarios={"rate": ScenarioCard.of("rate", "rate_hz", ScenarioCard(rising=True))})
    rows = pd.concat(
        [
            frame({"standard": 0.5}, protocol="rate", parameter="rate_hz", value=value, label=f"{value:g} Hz")
            for value in (10.0, 30.0, 20.0)
        ],
        ignore_index=True,
    )
    assert list(ordered(rows, cards)["value"]) == [30.0, 20.0, 10.0]
    assert list(rows.loc[at_strictest(rows, cards), "value"]) == [30.0]


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same module under a name that stays importable."""
    (tmp_path / "lab_named.py").write_text(LAB)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lab_named", raising=False)


@pytest.mark.usefixtures("named")
class TestNaming:
    """`module:Class` in YAML, on the command line and from Python."""

    def test_configurations_name_classes(self, tmp_path: Path) -> None:
        path = tmp_path / "run.yaml"
        path.write_text(
            "grid: none\nscenarios:\n  - lab_named:Alternating\n"
            "  - {scenario: 'lab_named:Alternating', short_ms: 33}\n"
        )
        found = scenarios_of(load_config(path))
        assert [scenario.label for scenario in found] == ["s 20 ms", "s 33 ms"]
        assert to_spec(found[1]) == {"scenario": "lab_named:Alternating", "short_ms": 33}

    def test_the_command_line_runs_them(self, tmp_path: Path) -> None:
        words = "run --methods standard,adabn --shifts contrast --batches 4 --batch-size 8 --grid none"
        own = [
            "--scenario",
            "lab_named:Plain",
            "--scenario",
            "{scenario: 'lab_named:Plain', interval_ms: 90}",
        ]
        command(*words.split(), *own, "--clock", "published:rn50_inc", "--plain", "--out", tmp_path / "run")
        labels = list(open_run(tmp_path / "run").utilities["label"].unique())
        assert labels == ["offline", "every 60 ms", "every 90 ms"]

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("lab_named:Alternatig", "did you mean 'Alternating'"),
            ("no_such_module:Kind", "there is no module"),
            ("json:codecs", "is not a subclass"),
            ("lab_named:Mine", "is not a subclass of tempora_tta.scenarios.Scenario"),
            ("alternating", "write module:Class"),
            ({"scenario": "lab_named:Plain", "interval": 3}, "did you mean 'interval_ms'"),
        ],
    )
    def test_mistakes_say_what_to_do(self, spec: Any, message: str) -> None:
        with pytest.raises(TemporaError, match=message):
            from_spec(spec)

    def test_two_kinds_under_one_name_are_refused(self) -> None:
        class Impostor(type(from_spec("lab_named:Plain"))):  # type: ignore[misc]
            protocol = "discrete"

        with pytest.raises(TemporaError, match="two kinds of scenarios call themselves 'discrete'"):
            scenario_cards([Discrete(interval_ms=3.0), Impostor()])

    def test_groups_of_tables_are_no_protocols(self) -> None:
        class Everything(type(from_spec("lab_named:Plain"))):  # type: ignore[misc]
            protocol = "overall"

        with pytest.raises(TemporaError, match="tables use this word"):
            scenario_cards([Everything()])


def test_a_run_that_does_not_say_what_a_scenario_stands_for_is_refused() -> None:
    from tempora_tta.scenarios import from_record

    with pytest.raises(TemporaError, match="does not say what it stands for"):
        from_record({"scenario": "os:system"})
    for told in (
        None,
        [],
        {"protocol": "a"},
        {"protocol": "a", "parameter": "", "label": "b", "deployment": 3},
    ):
        with pytest.raises(TemporaError):
            from_record({"scenario": "os:system", "described": told})


def test_every_name_of_the_list_is_there() -> None:
    for listed in (names.METHODS, names.MODELS, names.DATASETS, names.GRIDS):
        for name, path in listed.items():
            assert callable(names.found(path)), name
    assert isinstance(from_spec(to_spec(names.found(names.GRIDS["relative"])()[0])), Scenario)
