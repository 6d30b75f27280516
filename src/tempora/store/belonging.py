"""Do the files of a run folder belong together? Each may be whole, and yet be of another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from tempora.errors import TemporaError
from tempora.store.folder import RunFolder, StoredPass, named_passes, read_pass
from tempora.store.integrity import read_about, seal, warn

_LOOKED_INTO = 64
"""Passes whose rows are compared where a folder has more: whoever exchanges a table exchanges it for all of them."""


def check_belonging(folder: RunFolder, utilities: pd.DataFrame, manifest: Mapping[str, Any]) -> None:
    """Warn where the table of utilities is not that of this run.json, or was not scored from these passes."""
    path = folder.utilities_parquet
    if not path.exists():
        return
    about = read_about(path)
    written, found = manifest.get("utilities_seal"), seal(about.get("rows_checksum"))
    if manifest["finished"] and written is not None and found != written:
        warn(
            f"{path} is not the table that belongs to run.json: one of them is of another run. "
            "Run the same command again to make it anew"
        )
        return
    if folder.packed_without_traces:
        return
    sealed = about.get("passes")
    sealed = sealed if isinstance(sealed, dict) else {}
    if problem := _problem(folder, named_passes(utilities), sealed):
        warn(f"{path} {problem}: run the same command again to make what is missing or another run's")


def _problem(folder: RunFolder, named: Sequence[str], sealed: Mapping[str, Any]) -> str | None:
    """What is wrong between a table and the passes beside it; None where they fit."""
    files = {path.stem.rpartition("--")[2]: path for path in folder.path.glob("traces/*.parquet")}
    few = named[:: max(1, -(-len(named) // _LOOKED_INTO))]
    if files.keys() >= set(named) and all(_fits(files[key], key, sealed) for key in few):
        return None
    # Files may have been renamed: what they say about themselves counts, and is read only where names do not fit.
    stored = {one.key: one for one in map(_readable, files.values()) if one is not None}
    missing = [key for key in named if key not in stored]
    others = [key for key in named if key in stored and sealed.get(key) not in (None, stored[key].seal)]
    if missing:
        passes = "1 pass that is" if len(missing) == 1 else f"{len(missing)} passes that are"
        return f"has cells of {passes} not in {folder.path / 'traces'}, or damaged there"
    return f"was not scored from the passes in {folder.path / 'traces'}" if others else None


def _fits(path: Path, key: str, sealed: Mapping[str, Any]) -> bool:
    stored = _readable(path)
    return stored is not None and stored.key == key and sealed.get(key) in (None, stored.seal)


def _readable(path: Path) -> StoredPass | None:
    """A pass; None where it is damaged, which is an error for whoever needs its batches."""
    with suppress(TemporaError):
        return read_pass(path)
    return None
