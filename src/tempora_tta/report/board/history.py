"""What became of a configuration from commit to commit: numbers that changed beyond their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from tempora_tta.analysis.compare import CHANGED, RunComparison, compare_runs
from tempora_tta.errors import TemporaError
from tempora_tta.report.board.gather import Entry
from tempora_tta.store.made_with import differences


class Change(NamedTuple):
    """One commit beside the one before it."""

    before: Entry
    after: Entry
    compared: RunComparison | None
    """None where they cannot be compared, for the reason in `why_not`."""
    why_not: str = ""
    other_settings: Mapping[str, str] = {}
    """Methods that are not compared because their settings changed, and how: that says nothing about the code."""

    def beyond(self, sign: int) -> pd.DataFrame:
        """The cells that changed beyond timing noise and chance, for the worse (-1) or the better (1)."""
        assert self.compared is not None
        cells = self.compared.cells
        return cells[(cells["change"] == CHANGED) & (cells["difference"] * sign > 0)]

    def to_json(self) -> dict[str, Any]:
        label = self.after.results.cards.label
        told: dict[str, Any] = {
            "before": self.before.name,
            "after": self.after.name,
            "why_not": self.why_not,
            "other_settings": [
                {"method": label(name), "how": how} for name, how in self.other_settings.items()
            ],
        }
        if self.compared is None:
            return told
        return {
            **told,
            "cells": len(self.compared.cells),
            "mean_difference": _number(float(self.compared.cells["difference"].mean())),
            "regressions": [_cell(row, self.after) for _, row in self.beyond(-1).iterrows()],
            "gains": [_cell(row, self.after) for _, row in self.beyond(1).iterrows()],
        }


def histories(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Runs of one configuration and device at more than one commit, the oldest first.

    Commits are ordered by their dates; runs that do not know it stay in the order in which they were given.
    """
    by_configuration: dict[str, list[Entry]] = {}
    for entry in entries:
        by_configuration.setdefault(entry.configuration, []).append(entry)
    for runs in by_configuration.values():
        if len({run.commit for run in runs}) > 1:
            known = all(run.commit_date for run in runs)
            yield sorted(runs, key=lambda run: run.commit_date) if known else runs


def changes(runs: Sequence[Entry]) -> list[Change]:
    """Each run of a history beside the one before it."""
    return [_change(before, after) for before, after in pairwise(runs)]


def _change(before: Entry, after: Entry) -> Change:
    for run in (before, after):
        if not run.has_traces:
            return Change(before, after, None, f"{run.name} was packed without traces")
    others = differences(before.results, after.results)
    if others and not _same_methods(before, after) - set(others):
        return Change(before, after, None, "every method that both have has other settings", others)
    try:
        compared = compare_runs(before.results, after.results, without=others)
        return Change(before, after, compared, other_settings=others)
    except TemporaError as error:
        return Change(before, after, None, str(error), others)


def _same_methods(before: Entry, after: Entry) -> set[str]:
    return set(before.rows["method"]) & set(after.rows["method"])


def _cell(row: pd.Series[Any], entry: Entry) -> dict[str, Any]:
    numbers = ("utility", "utility_other", "difference", "lo", "hi")
    return {
        "method": entry.results.cards.label(str(row["method"])),
        "scenario": str(row["label"]),
        **{name: _number(float(row[name])) for name in numbers},
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
