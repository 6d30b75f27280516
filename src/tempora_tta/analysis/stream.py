"""Streams of many shifts: where a method gains, collapses, recovers or forgets, in numbers and in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta._numbers import percent
from tempora_tta.analysis.cells import is_offline
from tempora_tta.analysis.diagnoses import how_correlated
from tempora_tta.cards import Cards
from tempora_tta.errors import counted
from tempora_tta.published.methods import STANDARD
from tempora_tta.store import Results
from tempora_tta.store.schema import COLLAPSE_BATCHES


def by_segment(segments: pd.DataFrame) -> pd.DataFrame:
    """Return utility per method and segment, the mean over seeds, in the order of the first seed's stream."""
    first = segments["seed"] == segments["seed"].min()
    places = segments[first].drop_duplicates("segment").set_index("segment")["position"]
    pooled = segments.groupby(["method", "segment"], as_index=False).agg(
        utility=("utility", "mean"),
        standard_utility=("standard_utility", "mean"),
        segment_shift=("segment_shift", "first"),
        severity=("severity", "first"),
        visit=("visit", "first"),
        batches=("batches", "sum"),
        collapsed_batches=("collapsed_batches", _sum),
        over_first_visit=("over_first_visit", "mean"),
    )
    position = pooled["segment"].map(places)
    ordered = pooled.assign(position=position.fillna(position.max() + 1))  # a stream of one's own may differ
    return ordered.sort_values(["position", "segment", "method"], ignore_index=True)


def over_the_stream(segments: pd.DataFrame) -> pd.DataFrame:
    """Return what became of each method over a stream in one scenario, one row per method.

    `gain` over standard inference; `segments_below` of `segments` in which it is below it (means over seeds);
    `seeds_collapsed` of `seeds` in which it earned less for COLLAPSE_BATCHES batches on end or more, how many such
    batches there are (the mean of those seeds) and in how many of those seeds it `recovered`, that is, left them
    behind before the last segment; `change`: the last visits to shifts against the first ones, below 0 where it
    forgot, less what standard inference changed, whose visits are as easy or hard. Empty where the run cannot say:
    without standard inference, or where the stream comes nowhere twice.
    """
    pooled = by_segment(segments)
    below = pooled["utility"] < pooled["standard_utility"]
    streams = [_one_stream(part) for _, part in segments.groupby(["method", "shift", "seed"])]
    seeds = pd.DataFrame(streams).groupby("method", as_index=False)
    found = seeds.agg(
        utility=("utility", "mean"),
        gain=("gain", "mean"),
        change=("change", "mean"),
        seeds=("utility", "size"),
    )
    collapsed = pd.DataFrame(streams).query("collapsed_batches > 0").groupby("method")
    more: dict[str, dict[Any, Any]] = {
        "segments": pooled.groupby("method").size().to_dict(),
        "segments_below": below.groupby(pooled["method"]).sum().to_dict(),
        "seeds_collapsed": collapsed.size().to_dict(),
        "seeds_recovered": collapsed["recovered"].sum().to_dict(),
        "collapsed_batches": collapsed["collapsed_batches"].mean().to_dict(),
    }
    for name, values in more.items():
        found[name] = [values.get(method, 0) for method in found["method"]]
    unknown = found["gain"].isna()
    for name in ("segments_below", "seeds_collapsed", "seeds_recovered", "collapsed_batches"):
        found[name] = found[name].astype(float).mask(unknown)
    return found


def _one_stream(part: pd.DataFrame) -> dict[str, object]:
    part = part.sort_values("position")
    share = part["batches"] / part["batches"].sum()
    collapsed = part["collapsed_batches"]
    own = part["utility"] - part["standard_utility"].fillna(0.0)
    visits = own.groupby([part["segment_shift"], part["severity"].fillna(-1)]).agg(["first", "last", "size"])
    again = visits[visits["size"] > 1]
    return {
        "method": part["method"].iloc[0],
        "utility": (share * part["utility"]).sum(),
        "gain": (share * (part["utility"] - part["standard_utility"])).sum(min_count=len(part)),
        "collapsed_batches": float(_sum(collapsed)),
        "recovered": bool(collapsed.iloc[-1] == 0),
        "change": (again["last"] - again["first"]).mean() if len(again) else np.nan,
    }


def _sum(values: pd.Series) -> float:
    """Return the sum; nothing where nothing is known, instead of 0."""
    return float(values.sum(min_count=1))


# -- sentences -----------------------------------------------------------------------------------------------

_NOTABLE = 0.01
"""A change between visits below a point is none."""


def stream_story(results: Results) -> list[str]:
    """Return sentences about the stream, offline; none for the paper's kind: single shifts, shuffled."""
    cards, segments, told = results.cards, results.segments, []
    if len(segments):
        own = segments[is_offline(segments, cards)]
        found = over_the_stream(own[own["shift"] == own["shift"].iloc[0]]).set_index("method")
        found = found.loc[[name for name in cards.in_order(found.index) if name != STANDARD]]
        told = [_reset(results.manifest), *_gains(found, cards), *_collapses(found, cards)]
        told += _visits(found, cards)
    return [*told, *_correlated(results)]


def _reset(manifest: Mapping[str, Any]) -> str:
    reset = (manifest.get("stream") or {}).get("reset", "never")
    if reset == "never":
        return "No method is reset on this stream."
    when = "at every new shift" if reset == "shift" else f"every {counted(int(reset), 'batch')}"
    return f"Methods are reset {when}."


def _gains(found: pd.DataFrame, cards: Cards) -> list[str]:
    """Return what is above and below standard inference over the whole stream, in points."""
    gains = found["gain"].sort_values(key=abs, ascending=False, kind="stable")
    return [
        f"Over all of it {side} standard inference, in points: {_points(part, cards)}."
        for side, part in (("above", gains[gains > 0]), ("below", gains[gains < 0]))
        if len(part)
    ]


def _collapses(found: pd.DataFrame, cards: Cards) -> list[str]:
    if found["seeds_collapsed"].isna().all():
        return []
    told = []
    for method, row in found[found["seeds_collapsed"] > 0].iterrows():
        seeds, recovered = int(row["seeds_collapsed"]), int(row["seeds_recovered"])
        end = "recovers before the end" if recovered == seeds else "does not recover"
        if 0 < recovered < seeds:
            end = f"recovers in {recovered} of them"
        told.append(
            f"{cards.label(str(method))} collapses in {seeds} of {counted(int(row['seeds']), 'seed')}: "
            f"{row['collapsed_batches']:.0f} batches lie among {COLLAPSE_BATCHES} or more on end that are worth less "
            f"than with standard inference; it {end}."
        )
    return told or [f"None collapses: no {COLLAPSE_BATCHES} batches on end are below standard inference."]


def _visits(found: pd.DataFrame, cards: Cards) -> list[str]:
    """Return what a shift that returns meets, against its first visit."""
    told, change = [], found["change"]
    for result, part in (
        ("better than at their first (kept or learnt)", found[change >= _NOTABLE]),
        ("worse than at their first (forgotten)", found[change <= -_NOTABLE]),
    ):
        if len(part):
            compared = "" if part["gain"].isna().all() else " more than standard inference"
            each = _points(part["change"], cards)
            told.append(f"At their last visit shifts are {result}, in points{compared}: {each}.")
    return told


def _correlated(results: Results) -> list[str]:
    """Return what few classes in a batch do to methods that normalise with the statistics of the batch, in points."""
    how, utilities, cards = how_correlated(results.manifest), results.contenders, results.cards
    if not how:
        return []
    done = utilities[is_offline(utilities, cards) & (utilities["status"] == "ok")]
    accuracy, passes = done.groupby("method")["utility"].mean(), results.folder.passes()
    first = done.drop_duplicates("method").set_index("method")["adapting_pass"]
    concerned = [
        name for name in cards.in_order(first.index) if passes[first[name]].facts.get("batch_statistics")
    ]
    if STANDARD not in accuracy or not concerned:
        return []
    gains = accuracy[concerned] - accuracy[STANDARD]
    below, above = gains[gains < 0], gains[gains >= 0]
    standard = f"standard inference ({percent(accuracy[STANDARD])})"
    told = [
        f"Classes are correlated in time ({how}), so that a batch holds few of them, and its statistics tell of its "
        "classes more than of the shift."
    ]
    if len(below):
        told.append(
            f"Methods that normalise with them fall below {standard}, in points: {_points(below, cards)}."
        )
    if len(above):
        who = (
            "Others stay above it"
            if len(below)
            else f"Methods that normalise with them stay above {standard}"
        )
        told.append(
            f"{who}, in points: {_points(above, cards)}; what correlation costs them, tempora compare says next to a "
            "run with classes: shuffled."
        )
    return [" ".join(told)]


def _points(gains: pd.Series[float], cards: Cards) -> str:
    return ", ".join(f"{cards.label(str(name))} {100 * gain:+.1f}" for name, gain in gains.items())
