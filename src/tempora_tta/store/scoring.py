"""The passes and the deployment that a cell of a stored run was scored from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import pandas as pd

from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Resolved, Scenario, from_record
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.integrity import AGAIN, damaged, warn
from tempora_tta.store.schema import PASS_COLUMNS
from tempora_tta.store.trace import Trace

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


def resolved_of(
    folder: RunFolder, scenario: Scenario, cell: Row, num_batches: int, batch_size: int
) -> Resolved:
    """The deployment of a cell, with the arrivals that its stream met."""
    identity = folder.stored(cell["adapting_pass"]).identity
    return scenario.resolve(
        num_batches=num_batches,
        batch_size=batch_size,
        baseline_ms=float(cell["baseline_ms"]),
        seed=int(identity["seed"]),
        shift=str(identity["shift"]),
    )


def name_of(cell: Row) -> str:
    return f"{cell['method']} on {cell['shift']}, {cell['label']}"


def warn_unlike(folder: RunFolder, cell: Row, found: float) -> None:
    warn(
        f"{name_of(cell)}: its batches give utility {found:.6f}, utilities.parquet says {cell['utility']:.6f}. "
        f"One of the files in {folder.path} is of another run, or was changed",
        AGAIN,
    )
