"""A method that did nothing, and a stream too short to tell, are said where the results are shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import tempora_tta as tempora
from made_runs import BATCHES, write_run
from tempora_tta import methods
from tempora_tta.analysis.notes import notes
from tempora_tta.cli.app import app
from tempora_tta.models import Classifier
from tempora_tta.results import open_run
from tempora_tta.scenarios import Discrete, Offline
from tempora_tta.store import Results

Batches = list[tuple[Tensor, Tensor]]
NAMES = ("standard", "neo", "lame", "adabn", "tent", "eta", "promises")
CLOCK = {"baseline_ms": 40.0, **dict.fromkeys(NAMES, (40.0, 0.0))}


class Promises(methods.Method):
    """Declares a step and never takes one."""

    name = "promises"
    label = "Promises"
    actions = {"step": methods.LEARNS}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        return self.logits(x)


@pytest.fixture(scope="module")
def results(network: Callable[[str], Classifier], batches: Batches) -> Results:
    """ETA keeps samples of less entropy than no sample has."""
    chosen = ["standard", "neo", "lame", "adabn", "tent", ("eta", {"margin": 1e-9}), Promises]
    return tempora.evaluate(network("fashion_resnet"), batches, chosen, [], clock=CLOCK, progress=False)


def test_a_method_that_did_nothing_is_said_with_the_reason(results: Results) -> None:
    said = {note.partition(":")[0]: note for note in notes(results)}
    assert all(word in said["ETA"] for word in ("no step", "nothing kept", "equal to AdaBN's"))
    assert all(word in said["Promises"] for word in ("no step", "equal to Standard's"))
    assert said.keys().isdisjoint({"Standard", "NEO", "AdaBN", "Tent"})
    assert "no step" not in said.get("LAME", ""), "it never steps by design"


def test_a_stream_that_ends_before_the_queue_is_full_says_so(tmp_path: Path) -> None:
    """Tent takes 24 ms for a batch, and all 40 are answered although one comes every 20 ms."""
    hidden = write_run(tmp_path / "a", scenarios=(Offline(), Discrete(interval_ms=20.0, queue=BATCHES)))
    rows = hidden.utilities.query("method == 'tent' and protocol == 'discrete'")
    assert (rows["availability"] == 1).all()
    assert any("Tent" in note and "images arrive at" in note for note in notes(hidden))
    assert not any("AdaBN" in note for note in notes(hidden)), "it keeps the pace"
    shows = write_run(tmp_path / "b", scenarios=(Offline(), Discrete(interval_ms=20.0, queue=1)))
    assert notes(shows) == []


def test_terminal_and_notebook_say_the_same_once(tmp_path: Path) -> None:
    hidden = write_run(tmp_path / "run", scenarios=(Offline(), Discrete(interval_ms=20.0, queue=BATCHES)))
    note = next(note for note in notes(hidden) if "Tent" in note)
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["show", str(hidden.path)]).output
    for text in (shown, repr(open_run(hidden.path))):
        assert " ".join(text.split()).count(note) == 1
