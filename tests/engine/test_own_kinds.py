"""A scenario and a method of the user's own, in one file that nothing else knows of, go everywhere.

They are run, resumed, tabulated, drawn, recommended, compared and reported under the names and sentences of their own
cards, and the results are read where their module cannot be imported.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import tempora_tta as tempora
from analysis.runs import frame
from report.test_html import payload_of
from tempora_tta.analysis.cells import at_strictest, ordered
from tempora_tta.cards import CATALOGUE, Cards, scenario_cards
from tempora_tta.cli.app import app
from tempora_tta.errors import TemporaError
from tempora_tta.report import tables
from tempora_tta.report.html.page import render
from tempora_tta.scenarios import Discrete, Scenario, ScenarioCard, from_record, from_spec, to_spec
from tempora_tta.store import RunFolder, open_run
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


@pytest.fixture(scope="module")
def run(
    lab: Path, network: Any, batches: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A finished run, in a process that can no longer import the user's module."""
    folder = tmp_path_factory.mktemp("own") / "run"
    tempora.evaluate(
        network("fashion_resnet"),
        {"contrast": batches, "fog": batches[::-1]},
        ["standard", "adabn", "lab_kinds:Mine"],
        [
            Discrete(interval_ms=60.0),
            "lab_kinds:Alternating",
            {"scenario": "lab_kinds:Alternating", "short_ms": 60.0},
            {"scenario": "lab_kinds:Plain", "interval_ms": 45.0},
        ],
        clock=CLOCK,
        out=folder,
    )
    sys.path.remove(str(lab))
    del sys.modules["lab_kinds"]
    yield folder
    assert "lab_kinds" not in sys.modules, "reading a run imports nothing of the user's"
    sys.path.insert(0, str(lab))


def test_every_table_names_them(run: Path) -> None:
    results = open_run(run)
    shown, rows = {}, {}
    for name in tables.names(results.utilities):
        needs = {"overhead": results.traces}.get(name)
        with contextlib.suppress(TemporaError):  # no budget, no second machine, no second queue
            built = tables.build(name, results.utilities, needs, cards=results.cards)
            shown[name], rows[name] = tables.render(built, "terminal"), tables.render(built, "csv")
    assert {"alternating", "frame_rate", "winners", "sweep", "offline", "discrete", "deficit"} <= set(shown)
    assert {"below-standard", "temporal-factors", "correlation", "overhead"} <= set(shown)
    assert all("alternating" in rows[name] for name in ("sweep", "winners", "temporal-factors"))
    for name in ("sweep", "winners", "correlation", "deficit"):
        assert all(title in shown[name] for title in ("Tick-tock", "Frame rate")), name
    assert all("My Method" in shown[name] for name in ("sweep", "overhead", "alternating"))


def test_commands_and_report_name_them(run: Path) -> None:
    assert "Tick-tock" in command("show", run)
    said = command("recommend", run, "--scenario", "s 20 ms", "--why")
    assert "Two cameras take turns" in said
    assert "of both cameras and keeps" in " ".join(said.split())
    page = render(open_run(run))
    payload = payload_of(page)
    drawn = json.dumps(payload["charts"], ensure_ascii=False)
    for text in ("Tick-tock", "Frame rate", "My Method", "#12ab9f", "The short wait s (ms)"):
        assert text in page or text in drawn, text
    kinds = {kind["protocol"]: kind for kind in payload["sliders"]}
    assert kinds["alternating"]["knob"] == "The short wait"
    assert len(kinds["alternating"]["values"]) == 2, "only what was evaluated has an answer"
    assert len(kinds["frame_rate"]["values"]) > 20, "a plain schedule has one in between"


def test_two_runs_that_call_one_method_differently_show_their_own_labels(tmp_path: Path, run: Path) -> None:
    other = open_run(run).save(tmp_path / "other")
    manifest = open_run(other).manifest
    manifest["cards"]["methods"]["mine"] |= {"label": "Another name", "family": "gradient-free"}
    manifest["cards"]["scenarios"]["alternating"]["title"] = "To and fro"
    RunFolder(other).write_manifest(RunRecord.model_validate(manifest))
    first, second = (
        tables.render(tables.build("sweep", one.utilities, cards=one.cards))
        for one in (open_run(run), open_run(other))
    )
    for words, here, there in (
        (("My Method", "Tick-tock"), first, second),
        (("Another", "To and fro"), second, first),
    ):
        assert all(word in here and word not in there for word in words)
    assert CATALOGUE.label("mine") == "mine"


def test_a_larger_value_may_be_more_pressure() -> None:
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


def test_configurations_and_the_command_line_name_classes(named: None, tmp_path: Path) -> None:
    words = "run --methods standard --shifts contrast --batches 2 --batch-size 8 --grid none --plain"
    own = ["lab_named:Plain", "{scenario: 'lab_named:Plain', interval_ms: 90}"]
    own = [word for one in own for word in ("--scenario", one)]
    command(*words.split(), *own, "--clock", "published:rn50_inc", "--out", tmp_path / "run")
    assert list(open_run(tmp_path / "run").utilities["label"]) == ["offline", "every 60 ms", "every 90 ms"]
    more = ("--clock", "published:rn50_inc", "--out", tmp_path / "run", "--replace")
    command(*words.split(), *own[:2], *more)
    assert list(open_run(tmp_path / "run").utilities["label"]) == ["offline", "every 60 ms"]
    found = from_spec({"scenario": "lab_named:Alternating", "short_ms": 33})
    assert to_spec(found) == {"scenario": "lab_named:Alternating", "short_ms": 33}


def called(protocol: str) -> Scenario:
    return type("Impostor", (type(from_spec("lab_named:Plain")),), {"protocol": protocol})()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: from_spec("lab_named:Alternatig"), "'Alternating'"),
        (lambda: from_spec("no_such_module:Kind"), "no_such_module"),
        (lambda: from_spec("json:codecs"), "tempora_tta.scenarios.Scenario"),
        (lambda: from_spec("lab_named:Mine"), "tempora_tta.scenarios.Scenario"),
        (lambda: from_spec("alternating"), "module:Class"),
        (lambda: from_spec({"scenario": "lab_named:Plain", "interval": 3}), "'interval_ms'"),
        (lambda: scenario_cards([Discrete(interval_ms=3.0), called("discrete")]), "two.*'discrete'"),
        (lambda: scenario_cards([called("overall")]), "overall"),  # a group of tables
        (lambda: from_record({"scenario": "os:system"}), "os:system"),
        *(
            (partial(from_record, {"scenario": "os:system", "described": told}), "")
            for told in (
                None,
                [],
                {"protocol": "a"},
                {"protocol": "a", "parameter": "", "label": "b", "deployment": 3},
            )
        ),
    ],
)
def test_mistakes_say_what_to_do(named: None, call: Callable[[], object], said: str) -> None:
    with pytest.raises(TemporaError, match=said):
        call()
