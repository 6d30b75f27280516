"""Do the files of a run folder belong together? Each may be whole, and yet be of another run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from tempora_tta.errors import TemporaError
from tempora_tta.store.folder import RunFolder, StoredPass, named_passes, read_pass
from tempora_tta.store.integrity import AGAIN, read_about, seal, warn

_LOOKED_INTO = 64
"""Passes whose rows are compared where a folder has more: whoever exchanges a table exchanges it for all of them."""


def check_belonging(folder: RunFolder, utilities: pd.DataFrame, manifest: Mapping[str, Any]) -> None:
    """Warn where a file is not that of this run.json, or the table of utilities was not scored from these passes."""
    for problem in _foreign(folder, utilities, manifest):
        warn(problem, AGAIN)
        return


def _foreign(folder: RunFolder, utilities: pd.DataFrame, manifest: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong, the worst first."""
    path = folder.utilities_parquet
    if path.exists():
        about = read_about(path)
        if manifest["finished"] and seal(about.get("rows_checksum")) != manifest.get("utilities_seal"):
            yield f"{path} is not the table that belongs to run.json: one of them is of another run"
        sealed = about.get("passes")
        sealed = sealed if isinstance(sealed, dict) else {}
        if not folder.packed_without_traces and (
            problem := _problem(folder, named_passes(utilities), sealed)
        ):
            yield f"{path} {problem}"
    if manifest["finished"]:
        yield from _other_segments(folder, manifest)
        yield from _other_profile(folder, manifest)


def _other_segments(folder: RunFolder, manifest: Mapping[str, Any]) -> Iterator[str]:
    path = folder.segments_parquet
    if folder.segments_seal() == manifest.get("segments_seal"):
        return
    if path.exists():
        yield f"{path} is not the table of segments that belongs to run.json: one of them is of another run"
    else:
        yield f"{path} is missing, and this run has one"


def _other_profile(folder: RunFolder, manifest: Mapping[str, Any]) -> Iterator[str]:
    path = folder.profile_json
    if folder.profile_seal() == manifest.get("profile_seal"):
        return
    if path.exists():
        yield f"{path} is not the profile that belongs to run.json, or was changed"
    else:
        yield f"{path} is missing, and the times of this run come from it"


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
