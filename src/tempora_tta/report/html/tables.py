"""The tables of `tempora show`, for the page: those that the run has data for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import pandas as pd

from tempora_tta.analysis.doubt import Doubt
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.report.tables import Column, Table
from tempora_tta.report.tables.build import BUILDERS, BY_SHIFT, build_from, names
from tempora_tta.report.tables.material import material

_FIRST = "sweep"
"""All scenarios at a glance."""
_ELSEWHERE = ("winners",)
"""Shown in a better way already."""


def all_tables(
    utilities: pd.DataFrame,
    batches: pd.DataFrame,
    cards: Cards,
    doubt: Doubt,
    segments: pd.DataFrame | None = None,
) -> list[Table]:
    """Every table that can be built, those with a row per shift after their summaries."""
    several = utilities["shift"].nunique() > 1
    shown = [_FIRST, *(name for name in names(utilities) if name not in (_FIRST, *_ELSEWHERE))]
    wanted = [(name, by_shift) for name in shown for by_shift in (False, True)]
    tables: list[Table] = []
    try:
        given = material(utilities, batches, cards=cards, doubt=doubt, segments=segments)
    except TemporaError:
        return tables  # no cell has a result
    for name, by_shift in wanted:
        if by_shift and not (several and (name in BY_SHIFT or name not in BUILDERS)):
            continue
        try:
            tables.append(build_from(name, utilities, replace(given, by_shift=by_shift)))
        except TemporaError:
            continue  # the run lacks what this table is about: a second machine, a second queue, ...
    return tables


def heading_groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """The headings above neighbouring columns, and how many columns each spans."""
    return [(group, len(list(members))) for group, members in groupby(columns, lambda column: column.group)]
