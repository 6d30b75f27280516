"""A run folder on disk: `run.json`, a trace file per pass, the table of utilities.

Every trace file carries what decided it (its identity) and what was noticed while it was made (its facts), so
the folder needs no index that a crash could leave half-written: passes are found by looking.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.store import integrity
from tempora_tta.store.atomic import remove_leftovers, write_atomically
from tempora_tta.store.lock import FolderLock
from tempora_tta.store.plausible import check_trace, check_utilities
from tempora_tta.store.record import RunRecord
from tempora_tta.store.schema import CERTAINTY, PASS_COLUMNS, SEGMENTS, TRACE, UTILITIES, arrow_schema
from tempora_tta.store.trace import Trace

DAMAGED = ".damaged"
_KEPT_BYTES = 256_000_000
"""Traces that stay in memory: a report reads each of them several times."""


def pass_key(identity: Mapping[str, Any]) -> str:
    """A short name for everything that decides a pass's result.

    >>> pass_key({"method": "tent", "seed": 1}) == pass_key({"seed": 1, "method": "tent"})
    True
    """
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class StoredPass:
    """A finished pass: where it is, what decided it, what was noticed while it was made."""

    path: Path
    identity: dict[str, Any]
    facts: dict[str, Any]
    seal: str | None
    """Which rows it holds (`integrity.seal`)."""

    @property
    def key(self) -> str:
        return pass_key(self.identity)

    @property
    def history_free(self) -> bool:
        """What its method predicts on a batch does not depend on the batches before."""
        return bool(self.facts.get("history_free"))

    @property
    def stateless(self) -> bool:
        """Frozen, its method predicts what standard inference predicts."""
        return bool(self.facts.get("stateless"))

    @property
    def time_aware(self) -> bool:
        """Its method looks at the clock: had it shown something else, the pass would have gone another way."""
        return bool(self.facts.get("time_aware"))

    def trace(self, predictions: bool = True) -> Trace:
        """The rows; warns where they are not those that were written. Most of a file are its `predictions`, which
        scores do without."""
        fields = TRACE if predictions else {name: TRACE[name] for name in TRACE if name != "predicted"}
        table = integrity.read_sealed(self.path, fields)
        check_trace(table, self.identity.get("num_batches"), self.path)
        return Trace.from_table(table)


class RunFolder:
    """The files of one run. `RunFolder(path)` reads; `RunFolder.for_writing(path)` also locks."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.damaged: list[str] = []
        """Files that were found broken and set aside when the folder was opened for writing."""
        self.packed_without_traces = False
        """The pack that it comes from has no traces: that they are missing is no damage."""
        self._lock: FolderLock | None = None
        self._passes: dict[str, StoredPass] | None = None
        self._recent: dict[tuple[str, bool], Trace] = {}
        self._kept_bytes = 0
        self._utilities: tuple[tuple[int, ...], pd.DataFrame] | None = None
        """The table as it was last read and found plausible, and which file that was."""
        self._record: tuple[tuple[int, ...], RunRecord] | None = None
        """run.json, likewise."""

    @classmethod
    def for_writing(cls, path: Path | str) -> RunFolder:
        """Open a folder, new or begun, for one writer. Broken files are set aside and will be made again."""
        folder = cls(path)
        try:
            (folder.path / "traces").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TemporaError(
                f"cannot make the run folder {folder.path}: {error.strerror or error}"
            ) from error
        folder._lock = FolderLock(folder.path)
        for place in (folder.path, folder.path / "traces"):
            remove_leftovers(place)
        folder._set_damaged_aside()
        return folder

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- run.json ------------------------------------------------------------------------------------------

    @property
    def run_json(self) -> Path:
        return self.path / "run.json"

    def has_manifest(self) -> bool:
        return self.run_json.exists()

    def record(self) -> RunRecord:
        """What was run: configuration, machine, lambda, verdict."""
        if not self.has_manifest():
            raise TemporaError(
                f"{self.path} is not a run folder: it has no run.json (tempora run --out makes one)"
            )
        which = _which(self.run_json)
        if self._record is None or self._record[0] != which:
            self._record = which, RunRecord.read(self.run_json)
        return self._record[1]

    def manifest(self) -> dict[str, Any]:
        """The same as plain data."""
        return self.record().model_dump(exclude={"checksum"})

    def write_manifest(self, record: RunRecord) -> None:
        """Put run.json in place. That of a finished run says which tables and which profile belong to it."""
        seals = {
            "utilities_seal": self.utilities_seal,
            "segments_seal": self.segments_seal,
            "profile_seal": self.profile_seal,
        }
        belongs = {name: seal() if record.finished else None for name, seal in seals.items()}
        text = record.model_copy(update=belongs).text()
        write_atomically(self.run_json, lambda part: part.write_text(text, encoding="utf-8"))

    def seal(self) -> None:
        """Let run.json name the files as they are now; one of a run that goes on names none."""
        if self.record().finished:
            self.write_manifest(self.record())

    # -- traces --------------------------------------------------------------------------------------------

    def passes(self) -> dict[str, StoredPass]:
        """Every finished pass by its key."""
        if self._passes is None:
            stored = (read_pass(path) for path in sorted((self.path / "traces").glob("*.parquet")))
            self._passes = {found.key: found for found in stored}
        return self._passes

    def stored(self, key: str) -> StoredPass:
        """One finished pass."""
        if key not in self.passes() and self.packed_without_traces:
            raise TemporaError(
                "this run was packed without traces: ask for a pack with them to see single batches"
            )
        if key not in self.passes():
            raise TemporaError(f"{self.path} lacks the pass {key}: run the same command again to make it")
        return self.passes()[key]

    def trace(self, key: str, predictions: bool = True) -> Trace:
        """The rows of a pass. The last ones are kept, because many cells share them."""
        wanted = (key, predictions)
        if wanted not in self._recent:
            trace = self.stored(key).trace(predictions)
            self._kept_bytes += trace.nbytes
            while self._recent and self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= self._recent.pop(next(iter(self._recent))).nbytes
            self._recent[wanted] = trace
        return self._recent[wanted]

    def write_pass(self, identity: Mapping[str, Any], trace: Trace, facts: Mapping[str, Any]) -> StoredPass:
        """Put a finished pass on disk; it is there, whole, when this returns."""
        table = trace.to_table()
        rows = integrity.rows_checksum(table)
        path = self.path / "traces" / _file_name(identity, pass_key(identity))
        stored = StoredPass(path, dict(identity), dict(facts), integrity.seal(rows))
        about = {"identity": stored.identity, "facts": stored.facts}
        write_atomically(path, lambda part: integrity.write_sealed(table, part, about, rows))
        self.passes()[stored.key] = stored
        return stored

    def remove_pass(self, key: str) -> None:
        """Forget a pass, so that it is made again."""
        for predictions in (True, False):
            if (trace := self._recent.pop((key, predictions), None)) is not None:
                self._kept_bytes -= trace.nbytes
        stored = self.passes().pop(key)
        stored.path.unlink(missing_ok=True)

    # -- utilities -----------------------------------------------------------------------------------------

    @property
    def utilities_parquet(self) -> Path:
        return self.path / "utilities.parquet"

    def utilities(self) -> pd.DataFrame:
        """One row per cell; empty before the first shift is finished. `Results.utilities` also asks whether they are
        this run's."""
        path = self.utilities_parquet
        if not path.exists():
            return pd.DataFrame(columns=list(UTILITIES))
        which = _which(path)
        if self._utilities is None or self._utilities[0] != which:
            self._utilities = which, self._read_utilities(path)
        return self._utilities[1].copy()

    def _read_utilities(self, path: Path) -> pd.DataFrame:
        frame: pd.DataFrame = integrity.read_sealed(path, UTILITIES).to_pandas()
        check_utilities(frame, path)
        return frame

    def utilities_seal(self) -> str | None:
        """Which rows the table on disk holds; None without a table, or for one of another program."""
        return _rows_seal(self.utilities_parquet)

    def write_utilities(self, utilities: pd.DataFrame) -> None:
        """Put the table in place. It names the rows of every pass that it was scored from."""
        table = pa.Table.from_pandas(
            utilities[list(UTILITIES)], schema=arrow_schema(UTILITIES), preserve_index=False
        )
        passes = {key: self.passes()[key].seal for key in named_passes(utilities) if key in self.passes()}
        write_atomically(
            self.utilities_parquet,
            lambda part: integrity.write_sealed(
                table, part, {"passes": passes}, integrity.rows_checksum(table)
            ),
        )

    # -- segments ------------------------------------------------------------------------------------------

    @property
    def segments_parquet(self) -> Path:
        return self.path / "segments.parquet"

    def segments(self) -> pd.DataFrame | None:
        """One row per cell and segment; None without such a table."""
        if not self.segments_parquet.exists():
            return None
        frame: pd.DataFrame = integrity.read_sealed(self.segments_parquet, SEGMENTS).to_pandas()
        return frame

    def write_segments(self, segments: pd.DataFrame) -> None:
        """Put the table in place; none is kept where no stream has segments."""
        if segments.empty:
            self.segments_parquet.unlink(missing_ok=True)
            return
        table = pa.Table.from_pandas(
            segments[list(SEGMENTS)], schema=arrow_schema(SEGMENTS), preserve_index=False
        )
        write_atomically(
            self.segments_parquet,
            lambda part: integrity.write_sealed(table, part, {}, integrity.rows_checksum(table)),
        )

    def segments_seal(self) -> str | None:
        """Which rows the table on disk holds; None without a table."""
        return _rows_seal(self.segments_parquet)

    # -- certainty -----------------------------------------------------------------------------------------

    @property
    def certainty_parquet(self) -> Path:
        return self.path / "certainty.parquet"

    def certainty(self) -> pd.DataFrame | None:
        """One row per method, shift and scenario; None unless it was worked out from the present utilities."""
        path = self.certainty_parquet
        if not path.exists() or integrity.read_about(path).get("utilities") != self.utilities_seal():
            return None
        frame: pd.DataFrame = integrity.read_sealed(path, CERTAINTY).to_pandas()
        return frame

    def write_certainty(self, certainty: pd.DataFrame) -> None:
        """Put the table in place. It names the table of utilities that it is about."""
        table = pa.Table.from_pandas(
            certainty[list(CERTAINTY)], schema=arrow_schema(CERTAINTY), preserve_index=False
        )
        about = {"utilities": self.utilities_seal()}
        write_atomically(
            self.certainty_parquet,
            lambda part: integrity.write_sealed(table, part, about, integrity.rows_checksum(table)),
        )

    # -- the profile ---------------------------------------------------------------------------------------

    @property
    def profile_json(self) -> Path:
        return self.path / "profile.json"

    def profile_seal(self) -> str | None:
        """Which profile lies on disk; None without one."""
        if not self.profile_json.exists():
            return None
        return hashlib.sha256(self.profile_json.read_bytes()).hexdigest()[:32]

    def _set_damaged_aside(self) -> None:
        """Whatever would warn or fail when it is read is made again instead."""
        for path in sorted((self.path / "traces").glob("*.parquet")):
            self._keep_if(path, partial(_read_trace, path))
        self._keep_if(self.utilities_parquet, self.utilities)
        self._keep_if(self.segments_parquet, self.segments)
        self._keep_if(self.certainty_parquet, self.certainty)
        if self.has_manifest():
            self._keep_if(self.run_json, self.record)

    def _keep_if(self, path: Path, readable: Callable[[], object]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", TemporaWarning)
            try:
                readable()
            except integrity.OtherVersion:
                raise
            except (TemporaError, TemporaWarning):
                path.replace(path.with_name(path.name + DAMAGED))
                self.damaged.append(path.name)


def read_pass(path: Path) -> StoredPass:
    """The identity and facts of a trace file, without its rows."""
    about = integrity.read_about(path)
    identity, facts = about.get("identity"), about.get("facts")
    if not isinstance(identity, dict) or not isinstance(facts, dict):
        raise integrity.damaged(path, "it does not say which pass it is")
    return StoredPass(path, identity, facts, integrity.seal(about.get("rows_checksum")))


def _which(path: Path) -> tuple[int, ...]:
    """What changes when a file is written again."""
    file = path.stat()
    return (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns)


def named_passes(utilities: pd.DataFrame) -> list[str]:
    """The keys of the passes that cells of the table refer to, each once."""
    named = pd.concat([utilities[name] for name in PASS_COLUMNS]).dropna()
    return sorted(map(str, named.unique()))


def _read_trace(path: Path) -> Trace:
    return read_pass(path).trace()


def _file_name(identity: Mapping[str, Any], key: str) -> str:
    parts = (identity["shift"], identity["method"], identity["kind"], f"s{identity['seed']}", key)
    return "--".join(re.sub(r"[^A-Za-z0-9_.-]+", "_", str(part))[:60] for part in parts) + ".parquet"


def _rows_seal(table: Path) -> str | None:
    if not table.exists():
        return None
    return integrity.seal(integrity.read_about(table).get("rows_checksum"))
