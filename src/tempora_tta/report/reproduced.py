"""The paper's tables as it lays them out, with our numbers or its own, and the page that says what was reproduced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tempora_tta.analysis.reproduction import CLASSES, DIFFERS, NOT_RUN
from tempora_tta.cards import CATALOGUE
from tempora_tta.published.elements import KEYS
from tempora_tta.report.table import Column, Table, TableCell
from tempora_tta.words import shift_title

MANY_SHIFTS = 5
"""Shifts from which on a table has a row for each; with fewer, or none, it has a row per method."""
MOST_SHOWN = 60
OURS, PAPER, BOTH = "ours", "paper", "both"


def laid_out(label: str, rows: pd.DataFrame, numbers: str = OURS) -> Table:
    """Lay out an element from its rows of `compared`: our numbers, the paper's, or ours with the paper's behind."""
    rows = rows[rows["element"] == label]
    by = "shift" if rows["shift"].nunique() >= MANY_SHIFTS else "method"
    counts = rows[rows["table"] == "win_counts"]
    rows = rows.drop(counts.index)
    varying = [key for key in (*KEYS, "column") if key not in (by, "protocol") and rows[key].nunique() > 1]
    lines: dict[str, dict[tuple[str, ...], str]] = {}
    for row in rows.to_dict("records"):
        place = tuple(_word(key, row[key]) for key in varying)
        lines.setdefault(str(row[by]), {})[place] = _text(row, numbers)
    places = list(dict.fromkeys(place for line in lines.values() for place in line))
    columns = [
        Column(place[-1] if place else "", group=", ".join(filter(None, place[:-1]))) for place in places
    ]
    cells = tuple(
        (TableCell(_word(by, name)), *(TableCell(line.get(place)) for place in places))
        for name, line in lines.items()
    )
    wins = ", ".join(
        f"{_word('method', row['method'])} {_text(row, numbers)}" for row in counts.to_dict("records")
    )
    table = Table("", "", (Column(by.capitalize()), *columns), cells, rows.drop(columns="misprint"))
    return table.called(label.partition(":")[2], label, (f"wins: {wins}",) if wins else ())


def _word(key: str, value: Any) -> str:
    if value != value:
        return ""
    if key == "method":
        return CATALOGUE.label(str(value))
    return shift_title(str(value)) if key == "shift" else str(value).replace("_", " ")


def _text(row: Mapping[Any, Any], numbers: str) -> str:
    """Write a number in the paper's unit, with as many digits."""
    found, text = row["found"], str(row["text"])
    if row["column"] == "winner":
        text, found = _word("method", text), _word("method", found) or None
    if numbers == PAPER:
        return text
    if found is None or found != found:
        ours = "–"
    elif isinstance(found, str):
        ours = found
    else:
        digits = len(text.partition(".")[2])
        ours = f"{float(found) / (2 * row['half_unit'] * 10**digits):.{digits}f}"
    return f"{ours} ({text})" if numbers == BOTH else ours


def state(rows: pd.DataFrame) -> str:
    """Say in classes what became of the numbers of an element."""
    counts = rows["verdict"].value_counts()
    return ", ".join(f"{counts[name]} {name}" for name in CLASSES if name in counts)


def page(rows: pd.DataFrame, states: Mapping[str, tuple[str, str]], notes: list[str]) -> str:
    """Write the page: what every class means, how many numbers it has, every element, and what differs."""
    counts = rows["verdict"].value_counts()
    classes = [[name, f"{counts.get(name, 0):,}", about] for name, about in CLASSES.items()]
    differing = rows[rows["verdict"] == DIFFERS]
    where = ("shift", "method", "label", "column")
    shown = [
        [
            row["element"],
            row["setup"],
            *(_word(key, row[key]) for key in where),
            _text(row, OURS),
            row["text"],
        ]
        for row in differing.head(MOST_SHOWN).to_dict("records")
    ]
    known = len(rows) - int(counts.get(NOT_RUN, 0))
    parts = [
        "# The paper, reproduced",
        f"{known:,} of the {len(rows):,} printed numbers have one of ours next to them; {len(differing)} differ "
        "unexplained.",
        *notes,
        _markdown([["class", "numbers", "meaning"], *classes]),
        "## Elements",
        _markdown([["element", "command", "state"], *([name, *told] for name, told in states.items())]),
    ]
    if shown:
        heads = ["element", "setup", "shift", "method", "scenario", "column", "ours", "paper"]
        parts += ["## What differs", _markdown([heads, *shown])]
    return "\n\n".join(parts) + "\n"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])
