"""The tables of `tempora show`, for the page: those that the run has data for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pandas as pd

from tempora.analysis import temporal
from tempora.errors import TemporaError
from tempora.report.tables import NAMES, Column, Table, build
from tempora.report.tables.build import BY_SHIFT

_FIRST = "sweep"
"""All scenarios at a glance."""
_ELSEWHERE = ("winners",)
"""Shown in a better way already."""
_WITHOUT_PRESSURE = ("offline", "overhead")
"""Tables of a run that has offline cells only."""


def all_tables(utilities: pd.DataFrame, batches: pd.DataFrame) -> list[Table]:
    """Every table that can be built, those with a row per shift after their summaries."""
    several = utilities["shift"].nunique() > 1
    names = [_FIRST, *(name for name in NAMES if name not in (_FIRST, *_ELSEWHERE))]
    if temporal(utilities).empty:
        names = [name for name in names if name in _WITHOUT_PRESSURE]
    wanted = [(name, by_shift) for name in names for by_shift in (False, True)]
    tables = []
    for name, by_shift in wanted:
        if by_shift and not (several and name in BY_SHIFT):
            continue
        try:
            tables.append(build(name, utilities, batches, by_shift=by_shift))
        except (TemporaError, ValueError):
            # The run lacks what this table is about (a second machine, a second queue), or is too small for its
            # statistics; the page is about the rest.
            continue
    return tables


def heading_groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """The headings above neighbouring columns, and how many columns each spans."""
    return [(group, len(list(members))) for group, members in groupby(columns, lambda column: column.group)]
