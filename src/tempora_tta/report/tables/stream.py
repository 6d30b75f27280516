"""Streams of many shifts: what each method gets on the way, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tempora_tta import analysis
from tempora_tta.cards import Cards
from tempora_tta.report.tables.model import Column, Table, TableCell
from tempora_tta.report.tables.parts import (
    Layout,
    methods_by_measure,
    shifts_by_method,
    table_of,
    with_summary,
)
from tempora_tta.store.schema import COLLAPSE_BATCHES

COLLAPSED = "↓"
_COLLAPSE = (
    f"within {COLLAPSE_BATCHES} batches or more on end that are worth less than with standard inference"
)


def segments(rows: pd.DataFrame, cards: Cards) -> Table:
    """Utility per segment of a stream, a column per method; where a method lies in a collapse, a sign says so."""
    pooled = analysis.by_segment(rows)
    layout = shifts_by_method(analysis.with_ranks(_as_shifts(pooled, rows)), cards)
    whole = rows.assign(part=rows["utility"] * rows["batches"]).groupby("method")[["part", "batches"]].sum()
    total = pd.DataFrame({"method": whole.index, "utility": (whole["part"] / whole["batches"]).to_numpy()})
    total = analysis.with_ranks(_as_shifts(total.assign(segment="Stream"), rows))
    columns = (Column("Segment"), *layout.columns[1:])
    fallen = set(zip(*_columns(pooled[pooled["collapsed_batches"] > 0], "segment", "method"), strict=True))
    layout = layout._replace(columns=columns, rules=frozenset(), rows=_flagged(layout, pooled, fallen, cards))
    layout = with_summary(layout, shifts_by_method(total, cards), "Stream")
    notes = (f"{COLLAPSED} {_COLLAPSE}",) if fallen else ()
    return table_of("segments", _about_stream("Utility (%) per segment of", rows), layout, pooled, notes)


def stream(found: pd.DataFrame, rows: pd.DataFrame, cards: Cards) -> Table:
    """What becomes of each method over a stream: gain, collapse, recovery, and what a shift that returns meets."""
    measures = {
        "utility": Column("Utility", "percent", 2),
        "gain": Column("Over Standard", "points", 1),
        "segments_below": Column("Segments below it", "count"),
        "seeds_collapsed": Column("Seeds", "count", group="Collapsed"),
        "collapsed_batches": Column("Batches", "count", group="Collapsed"),
        "seeds_recovered": Column("Recovered", "count", group="Collapsed"),
        "change": Column("Last visit − first", "points", 1),
    }
    if found["change"].isna().all():
        del measures["change"]
    layout = methods_by_measure(found, measures, cards, {"utility": True})
    notes = (
        f"of {found['segments'].max()} segments and {found['seeds'].max()} seeds; collapsed: {_COLLAPSE}; "
        "recovered: it left them behind before the last segment",
    )
    return table_of("stream", _about_stream("What becomes of each method on", rows), layout, found, notes)


def _columns(rows: pd.DataFrame, *names: str) -> list[list[str]]:
    return [list(rows[name]) for name in names]


def _flagged(
    layout: Layout, pooled: pd.DataFrame, fallen: set[tuple[str, str]], cards: Cards
) -> tuple[tuple[TableCell, ...], ...]:
    """The cells, with a sign where the method lies in a collapse in that segment, in any seed."""
    methods, places = cards.in_order(pooled["method"]), list(pooled["segment"].unique())
    return tuple(
        (
            line[0],
            *(
                replace(cell, flag=cell.flag + COLLAPSED * ((place, method) in fallen))
                for method, cell in zip(methods, line[1:], strict=True)
            ),
        )
        for place, line in zip(places, layout.rows, strict=True)
    )


def _about_stream(what: str, rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return f"{what} the {first['shift']} stream, {first['label']}"


def _as_shifts(pooled: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Segments as shifts of one scenario, as they are ranked and drawn."""
    first = rows.iloc[0]
    return pooled.assign(
        shift=pooled["segment"],
        protocol=first["protocol"],
        label=first["label"],
        value=first["value"],
        scenario=0,
    )
