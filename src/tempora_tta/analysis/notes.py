"""Notes on a run: what to know before its numbers are read, the same on the terminal, the page and in a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta import words
from tempora_tta.analysis.answer import settings_of
from tempora_tta.analysis.cells import is_offline
from tempora_tta.analysis.replays import MISSED_BY_A_SHORT_STREAM, lasting_share
from tempora_tta.errors import TemporaError, counted
from tempora_tta.store import ADAPTED, Results, Trace
from tempora_tta.store.record import other_work
from tempora_tta.store.schema import STREAM_COLUMNS


def notes(results: Results) -> list[str]:
    """Return what to know before the numbers are read, in sentences.

    Whose times they are, which methods gave scores that are no numbers or did nothing, whether the streams are too
    short, and where settings come from.
    """
    manifest = results.manifest
    other = other_work(manifest.get("profile"), manifest["model"], manifest["batch_size"])
    said = [*([other] if other else []), *_non_finite(manifest.get("non_finite_scores") or {})]
    if not results.folder.packed_without_traces:
        rows = results.contenders
        rows = rows[rows["status"] == "ok"]
        without_pressure = is_offline(rows, results.cards)
        said += [
            *_without_effect(results, rows[without_pressure]),
            *_too_short(results, rows[~without_pressure]),
        ]
    return [f"{note.rstrip('.')}." for note in (*said, *_recipes(manifest))]


def _without_effect(results: Results, rows: pd.DataFrame) -> list[str]:
    """Name methods that took no step in a whole offline pass, or predicted what another method predicts."""
    cards, said = results.cards, []
    in_order = cards.in_order(rows["method"])
    cells = {(str(cell["method"]), *cell[STREAM_COLUMNS]): cell for _, cell in rows.iterrows()}
    for place, method in enumerate(in_order):
        own = [cell for (name, *_), cell in cells.items() if name == method]
        still: list[str] = []
        actions: Counter[str] = Counter()
        equal: dict[str, list[str]] = {}
        for cell in own:
            if cell["stepped_fraction"] == 0 and (found := _idle_actions(results, cell)):
                still.append(str(cell["shift"]))
                actions.update(found)
            others = {other: cells.get((other, *cell[STREAM_COLUMNS])) for other in in_order[:place]}
            alike = (name for name, other in others.items() if _predict_alike(results, cell, other))
            if (twin := next(alike, None)) is not None:
                equal.setdefault(twin, []).append(str(cell["shift"]))
        why = [action.replace("_", " ") for action, _ in actions.most_common()]
        if still and results.folder.stored(own[0]["adapting_pass"]).facts.get("batch_statistics"):
            why.append("statistics only")
        parts = [f"no step{_where(still, len(own))} ({', '.join(why)})"] if still else []
        parts += [
            f"predictions equal to {cards.label(twin)}'s{_where(equal[twin], len(own))}" for twin in equal
        ]
        if parts:
            said.append(f"{cards.label(method)}: {'; '.join(parts)}")
    return said


def _where(shifts: Sequence[str], streams: int) -> str:
    """Name the shifts of some of a method's streams; nothing where it is all of them."""
    return "" if len(shifts) == streams else f" on {', '.join(dict.fromkeys(shifts))}"


def _idle_actions(results: Results, cell: pd.Series[Any]) -> list[str]:
    """Return what adapt() did, batch by batch, instead of a step; nothing for a method that never steps by design."""
    trace = _pass_of(results, cell)
    if trace is None:
        return []
    actions = [str(word) for word in trace.action[trace.phase == ADAPTED]]
    learns = results.folder.stored(cell["adapting_pass"]).facts.get("learns", False)
    return actions if learns or set(actions) != {"none"} else []


def _predict_alike(results: Results, cell: pd.Series[Any], other: pd.Series[Any] | None) -> bool:
    """Tell whether two methods predict the same class for every sample; runtimes of one method are meant to."""
    if other is None:
        return False
    one_method = cell["method"].partition("@")[0] == other["method"].partition("@")[0]
    if one_method or cell["utility"] != other["utility"]:
        return False
    own, others = _pass_of(results, cell), _pass_of(results, other)
    if own is None or others is None or (own.predicted < 0).all():
        return False
    return all(np.array_equal(getattr(own, name), getattr(others, name)) for name in ("predicted", "correct"))


def _too_short(results: Results, rows: pd.DataFrame) -> list[str]:
    """Name methods that cannot keep a pace where the queue holds to the end what they could not serve."""
    found: dict[str, dict[str, None]] = {}
    settings = settings_of(results)
    waits = [scenario.deployment().waits for scenario in results.scenarios]
    rows = rows[
        (rows["adapted_fraction"] == 1)
        & ~rows["scenario"].map(lambda number: waits[int(number)]).astype(bool)
    ]
    for _, cells in rows.groupby("adapting_pass", sort=False):
        for _, cell in cells.iterrows():
            trace = _pass_of(results, cell, predictions=False)
            if trace is None:
                continue
            seen = cell["availability"] - np.nan_to_num(cell["fallback_fraction"])
            lasting = lasting_share(results.resolved(cell, trace.num_batches), trace)
            if seen - lasting > MISSED_BY_A_SHORT_STREAM:
                found.setdefault(str(cell["method"]), {})[words.where(settings[cell["label"]])] = None
    who = [
        f"{results.cards.label(name)} when {words.joined(list(found[name]), 'or')}"
        for name in results.cards.in_order(found)
    ]
    if not who:
        return []
    return [
        f"More is lost in the long run than these short streams show, as the queue holds it: {'; '.join(who)}"
    ]


def _pass_of(results: Results, cell: pd.Series[Any], predictions: bool = True) -> Trace | None:
    """Return the adapting pass of a cell; None where it is damaged, which is said elsewhere."""
    try:
        return results.folder.trace(cell["adapting_pass"], predictions)
    except TemporaError:
        return None


def _recipes(manifest: Mapping[str, Any]) -> list[str]:
    """Say what to know of settings that were tuned."""
    told, said = manifest.get("recipes") or {}, []
    if told.get("oracle"):
        said.append(
            "Settings of methods called (oracle) were chosen by labels, which no deployment has: a ceiling, neither "
            "ranked nor recommended"
        )
    if told.get("evaluated_too"):
        shifts = ", ".join(told["evaluated_too"])
        said.append(
            f"Settings were tuned (by {told.get('select')}) on {shifts}, which is evaluated here: they have seen the "
            "test"
        )
    return said


def _non_finite(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say what to know before the table is read.

    >>> _non_finite({"tent": {"batches": 3, "passes": 1, "shifts": ["fog"]}})
    ['tent: NaN or infinite scores in 3 batches of 1 pass (fog): what it predicted there is arbitrary']
    """
    return [
        f"{method}: NaN or infinite scores in {counted(entry['batches'], 'batch')} of "
        f"{counted(entry['passes'], 'pass')} ({', '.join(entry['shifts'])}): what it predicted there is arbitrary"
        for method, entry in found.items()
    ]
