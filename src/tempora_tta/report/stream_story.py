"""What became of the methods over a stream, in sentences: who gains, collapses, recovers or forgets, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tempora_tta import analysis
from tempora_tta._numbers import percent
from tempora_tta.analysis.cells import is_offline
from tempora_tta.analysis.diagnoses import how_correlated
from tempora_tta.cards import Cards
from tempora_tta.errors import counted
from tempora_tta.published.methods import STANDARD
from tempora_tta.store import Results
from tempora_tta.store.schema import COLLAPSE_BATCHES

_NOTABLE = 0.01
"""A change between visits below a point is none."""


def stream_story(results: Results) -> list[str]:
    """Sentences about the stream, offline; none for the paper's kind: single shifts, shuffled."""
    settings, cards, segments = results.manifest.get("stream") or {}, results.cards, results.segments
    told = []
    if len(segments):
        own = segments[is_offline(segments, cards)]
        found = analysis.over_the_stream(own[own["shift"] == own["shift"].iloc[0]])
        found = found[found["method"] != STANDARD].set_index("method")
        found = found.loc[cards.in_order(found.index)].reset_index()
        told = [_resets(settings), *_gains(found, cards), *_collapses(found, cards), *_visits(found, cards)]
    return [*told, *_correlated(results)]


def _resets(settings: Mapping[str, Any]) -> str:
    reset = settings.get("reset", "never")
    if reset == "never":
        return "No method is reset on this stream."
    when = "at every new shift" if reset == "shift" else f"every {counted(int(reset), 'batch')}"
    return f"Methods are reset {when}."


def _gains(found: pd.DataFrame, cards: Cards) -> list[str]:
    """Above and below standard inference over the whole stream, in points."""
    told = []
    for what, part in (("above", found[found["gain"] > 0]), ("below", found[found["gain"] < 0])):
        if len(part):
            sized = part.reindex(part["gain"].abs().sort_values(ascending=False, kind="stable").index)
            each = _points(dict(zip(sized["method"], sized["gain"], strict=True)), cards)
            told.append(f"Over all of it {what} standard inference, in points: {each}.")
    return told


def _collapses(found: pd.DataFrame, cards: Cards) -> list[str]:
    if found.empty or found["seeds_collapsed"].isna().all():
        return []
    told = []
    for _, row in found[found["seeds_collapsed"] > 0].iterrows():
        seeds, recovered = int(row["seeds_collapsed"]), int(row["seeds_recovered"])
        end = "recovers before the end" if recovered == seeds else "does not recover"
        if 0 < recovered < seeds:
            end = f"recovers in {recovered} of them"
        told.append(
            f"{cards.label(row['method'])} collapses in {seeds} of {counted(int(row['seeds']), 'seed')}: "
            f"{row['collapsed_batches']:.0f} batches lie among {COLLAPSE_BATCHES} or more on end that are worth less "
            f"than with standard inference; it {end}."
        )
    return told or [f"None collapses: no {COLLAPSE_BATCHES} batches on end are below standard inference."]


def _visits(found: pd.DataFrame, cards: Cards) -> list[str]:
    """What a shift that returns meets, against its first visit."""
    told = []
    for what, part in (
        ("better than at their first (kept or learnt)", found[found["change"] >= _NOTABLE]),
        ("worse than at their first (forgotten)", found[found["change"] <= -_NOTABLE]),
    ):
        if len(part):
            each = _points(dict(zip(part["method"], part["change"], strict=True)), cards)
            beside = "" if part["gain"].isna().all() else " beside standard inference"
            told.append(f"At their last visit shifts are {what}, in points{beside}: {each}.")
    return told


def _correlated(results: Results) -> list[str]:
    """What few classes in a batch do to those that normalise with the statistics of the batch, in points."""
    how, utilities, cards = how_correlated(results.manifest), results.contenders, results.cards
    if not how:
        return []
    done = utilities[is_offline(utilities, cards) & (utilities["status"] == "ok")]
    accuracy, passes = done.groupby("method")["utility"].mean(), results.folder.passes()
    first = done.drop_duplicates("method").set_index("method")["adapting_pass"]
    uses = {name: passes[key].facts.get("batch_statistics") for name, key in first.items()}
    concerned = [name for name in cards.in_order(accuracy.index) if uses[name]]
    if STANDARD not in accuracy or not concerned:
        return []
    gains = {name: accuracy[name] - accuracy[STANDARD] for name in concerned}
    below = {name: gain for name, gain in gains.items() if gain < 0}
    above = {name: gain for name, gain in gains.items() if gain >= 0}
    standard = f"standard inference ({percent(accuracy[STANDARD])})"
    told = [
        f"Classes are correlated in time ({how}), so that a batch holds few of them, and its statistics tell of its "
        "classes more than of the shift."
    ]
    if below:
        told.append(
            f"Methods that normalise with them fall below {standard}, in points: {_points(below, cards)}."
        )
    if above:
        who = "Others stay above it" if below else f"Methods that normalise with them stay above {standard}"
        told.append(
            f"{who}, in points: {_points(above, cards)}; what correlation costs them, tempora compare says beside a "
            "run with classes: shuffled."
        )
    return [" ".join(told)]


def _points(gains: Mapping[str, float], cards: Cards) -> str:
    return ", ".join(f"{cards.label(name)} {100 * gain:+.1f}" for name, gain in gains.items())
