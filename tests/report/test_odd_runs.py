"""Runs that are not like the paper's: every table is built, or says in a sentence why it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from tempora_tta import TemporaError, published
from tempora_tta.names import TABLES
from tempora_tta.report import tables

Change = Callable[[pd.DataFrame], pd.DataFrame]


def failed(frame: pd.DataFrame, rows: pd.Series) -> pd.DataFrame:
    numbers = frame.select_dtypes("number").columns.difference(["seed", "value", "queue", "baseline_ms"])
    frame.loc[rows, numbers] = np.nan
    frame.loc[rows, "status"] = "failed: RuntimeError: <b>no</b>"
    return frame


ODD: dict[str, Change] = {
    "offline only": lambda f: f[f["protocol"] == "offline"],
    "temporal only": lambda f: f[f["protocol"] != "offline"],
    "one method": lambda f: f[f["method"] == "tent"],
    "standard only": lambda f: f[f["method"] == "standard"],
    "no standard": lambda f: f[f["method"] != "standard"],
    "one shift": lambda f: f[f["shift"] == "fog"],
    "one cell": lambda f: f.iloc[:1],
    "nothing": lambda f: f.iloc[:0],
    "a method failed": lambda f: failed(f, f["method"] == "eta"),
    "standard failed": lambda f: failed(f, f["method"] == "standard"),
    "everything failed": lambda f: failed(f, f["method"] != ""),
    "all equal": lambda f: f.assign(utility=0.5, utility_lo=0.5, utility_hi=0.5),
    "unknown methods": lambda f: f.assign(method=f["method"].map(lambda name: f"<script>{name}|&_%")),
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_or_a_sentence(name: str, change: Change) -> None:
    frame = change(published.as_utilities("rn50_inc").copy())
    with suppress(TemporaError):
        built = tables.build(name, frame)
        for format in tables.FORMATS:
            assert tables.render(built, format)
