"""What became of the methods over a stream, in sentences: who gains, collapses, recovers or forgets, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from tempora import analysis
from tempora.analysis.frames import is_offline
from tempora.cards import Cards
from tempora.errors import counted
from tempora.published.methods import STANDARD
from tempora.store import Results
from tempora.store.schema import COLLAPSE_BATCHES

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
    return [*told, *_correlated(results, settings)]


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
            each = (
                f"{cards.label(name)} {100 * gain:+.1f}"
                for name, gain in zip(sized["method"], sized["gain"], strict=True)
            )
            told.append(f"Over all of it {what} standard inference, in points: {', '.join(each)}.")
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
            each = (
                f"{cards.label(name)} {100 * change:+.1f}"
                for name, change in zip(part["method"], part["change"], strict=True)
            )
            beside = "" if part["gain"].isna().all() else " beside standard inference"
            told.append(f"At their last visit shifts are {what}, in points{beside}: {', '.join(each)}.")
    return told


def _correlated(results: Results, settings: Mapping[str, Any]) -> list[str]:
    """What few classes in a batch do to those that normalise with the statistics of the batch."""
    classes, utilities, cards = settings.get("classes", "shuffled"), results.utilities, results.cards
    if classes == "shuffled":
        return []
    done = utilities[is_offline(utilities, cards) & (utilities["status"] == "ok")]
    accuracy, passes = done.groupby("method")["utility"].mean(), results.folder.passes()
    first = done.drop_duplicates("method").set_index("method")["adapting_pass"]
    uses = {name: passes[key].facts.get("batch_statistics") for name, key in first.items()}
    concerned = [name for name in cards.in_order(accuracy.index) if uses[name]]
    if STANDARD not in accuracy or not concerned:
        return []
    standard = accuracy[STANDARD]
    below = [name for name in concerned if accuracy[name] < standard]
    above = [name for name in concerned if accuracy[name] >= standard]
    how = "sorted" if classes == "sorted" else f"Dirichlet {classes['dirichlet']:g}"
    told = (
        f"Classes are correlated in time ({how}), so that a batch holds few of them, and its statistics tell of its "
        "classes more than of the shift. Methods that normalise with them pay for that: "
    )
    named = f"standard inference ({standard:.1%})"
    parts = [f"{_listed(below, accuracy, cards)} fall below {named}"] if below else []
    if above:
        parts.append(f"{_listed(above, accuracy, cards)} stay above {'it' if below else named}")
    told += ", ".join(parts) + "."
    if above:
        told += " What correlation costs them is the difference to the same stream with classes: shuffled."
    return [told]


def _listed(names: Iterable[str], accuracy: pd.Series[float], cards: Cards) -> str:
    return ", ".join(f"{cards.label(name)} ({accuracy[name]:.1%})" for name in names)
