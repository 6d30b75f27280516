"""Kinds of device in one run folder: times of different kinds do not compare, so neither do ranks."""

from __future__ import annotations

import pandas as pd

from tempora_tta.store.folder import RunFolder
from tempora_tta.store.schema import CELL_COLUMNS


def device_kinds(folder: RunFolder, utilities: pd.DataFrame) -> pd.Series:
    """The kind of device behind each row; empty under a recorded clock and where nothing ran."""
    passes = folder.passes()
    return utilities["adapting_pass"].map(
        lambda key: str(passes[key].identity.get("machine", "")) if key in passes else ""
    )


def ranked_within_kinds(utilities: pd.DataFrame, folder: RunFolder) -> pd.DataFrame:
    """The same table without the ranks of cells whose methods were timed on different kinds of device."""
    kinds = device_kinds(folder, utilities)
    by_cell = kinds[kinds != ""].groupby([utilities[name] for name in CELL_COLUMNS])
    if (by_cell.nunique() <= 1).all():
        return utilities
    mixed = by_cell.transform("nunique").reindex(utilities.index, fill_value=1) > 1
    return utilities.assign(rank=utilities["rank"].astype(object).where(~mixed, None))


def mixed_devices_note(folder: RunFolder, ranked_all_the_same: bool) -> str | None:
    """A sentence about a folder whose utilities come from several kinds of device; None if there is one kind."""
    kinds = sorted(set(device_kinds(folder, folder.utilities())) - {""})
    if len(kinds) < 2:
        return None
    ranks = (
        "methods are ranked across them, as was asked for (--mix-devices)"
        if ranked_all_the_same
        else "cells that mix them have no ranks (--mix-devices would rank them all the same)"
    )
    return f"times come from {len(kinds)} kinds of device ({'; '.join(kinds)}): {ranks}"
