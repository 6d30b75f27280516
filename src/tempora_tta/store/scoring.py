"""The cells of a stored run, scored again from its passes: what a table says is what its batches give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pandas as pd

from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import SIX_TERMS, Resolved, Scenario, Score, from_record
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.integrity import AGAIN, damaged, warn
from tempora_tta.store.schema import PASS_COLUMNS
from tempora_tta.store.trace import Trace

_TOLERANCE = 1e-9
_COMPARED = ("utility", *SIX_TERMS)
_OF_THE_CELL = ("method", "model", "shift", "seed")
"""What a cell and the pass that it adapts in have in common."""


Row: TypeAlias = "Mapping[Any, Any] | pd.Series[Any]"
"""Of the table of utilities."""


class Passes(NamedTuple):
    """The batches of a cell; None where it has no others than its adapting ones."""

    adapting: Trace
    frozen: Trace | None
    fallback: Trace | None


def cards_of(folder: RunFolder, manifest: Mapping[str, Any]) -> Cards:
    """The cards in run.json, none where it has none."""
    try:
        return Cards.from_json(manifest.get("cards", {}))
    except TemporaError as error:
        raise damaged(folder.run_json, str(error)) from error


def scenarios_of(manifest: Mapping[str, Any], cards: Cards) -> list[Scenario]:
    """The scenarios of a run, as `utilities.scenario` counts them."""
    return [from_record(record, _card_of(record, cards)) for record in manifest["scenarios"]]


def _card_of(record: Mapping[str, Any], cards: Cards) -> Any:
    """The card of a user's scenario; those of ours have their own."""
    told = record.get("described")
    return cards.scenarios.get(str(told.get("protocol"))) if isinstance(told, dict) else None


def passes_of(folder: RunFolder, cell: Row, predictions: bool = True) -> Passes:
    """The passes that a cell was scored from, of one length."""
    adapting, frozen, fallback = (
        folder.trace(cell[name], predictions) if isinstance(cell[name], str) else None
        for name in PASS_COLUMNS
    )
    assert adapting is not None, "cells that are ok have a pass: plausible.check_utilities"
    for other in (frozen, fallback):
        if other is not None and other.num_batches != adapting.num_batches:
            raise TemporaError(
                f"{name_of(cell)}: its passes have {adapting.num_batches} and {other.num_batches} batches; "
                "run the same command again to make them anew"
            )
    return Passes(adapting, frozen, fallback)


def resolved_of(folder: RunFolder, scenario: Scenario, cell: Row, num_batches: int) -> Resolved:
    """The deployment of a cell, with the arrivals that its stream met."""
    identity = folder.stored(cell["adapting_pass"]).identity
    return scenario.resolve(
        num_batches=num_batches,
        baseline_ms=float(cell["baseline_ms"]),
        seed=int(identity["seed"]),
        shift=str(identity["shift"]),
    )


def name_of(cell: Row) -> str:
    return f"{cell['method']} on {cell['shift']}, {cell['label']}"


def warn_unlike(folder: RunFolder, cell: Row, what: str, found: float) -> None:
    warn(
        f"{name_of(cell)}: its batches give {what} {found:.6f}, utilities.parquet says {cell[what]:.6f}. "
        f"One of the files in {folder.path} is of another run, or was changed",
        AGAIN,
    )


def check_scores(folder: RunFolder, utilities: pd.DataFrame, manifest: Mapping[str, Any]) -> None:
    """Read the passes of every cell and score it again; warns where its batches give something else than its row."""
    scenarios = scenarios_of(manifest, cards_of(folder, manifest))
    # Cells of one method and stream share passes, of which the folder keeps the last few.
    in_turn = utilities[utilities["status"] == "ok"].sort_values(["shift", "seed", "method"], kind="stable")
    for cell in in_turn.to_dict("records"):  # rows as series would take as long as scoring them
        _check_cell(folder, scenarios, cell)
    folder.forget_traces()


def _check_cell(folder: RunFolder, scenarios: Sequence[Scenario], cell: Row) -> None:
    identity = folder.stored(cell["adapting_pass"]).identity
    for name in _OF_THE_CELL:
        if name in identity and identity[name] != cell[name]:
            warn(f"{name_of(cell)}: its pass is of {name} {identity[name]!r:.60}", AGAIN)
    adapting, frozen, fallback = passes_of(folder, cell)
    resolved = resolved_of(folder, scenarios[int(cell["scenario"])], cell, adapting.num_batches)
    score = adapting.score(resolved, frozen, fallback)
    for name in _COMPARED:
        found, told = _number(score, name), float(cell[name])
        # Both empty where there is nothing to average, such as the accuracy of frozen batches where none was.
        if not abs(found - told) <= _TOLERANCE and not (found != found and told != told):
            warn_unlike(folder, cell, name, found)


def _number(score: Score, name: str) -> float:
    value = score.utility if name == "utility" else score.terms.get(name)
    return float("nan") if value is None else float(value)
