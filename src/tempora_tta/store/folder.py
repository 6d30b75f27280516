"""A run folder on disk: `run.json`, a trace file per pass, the tables that follow from them.

Every trace file carries what decided it (its identity) and what was noticed while it was made (its facts), and is
named by its content, so the folder needs no index that a crash could leave half-written: passes are found by looking.
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
from filelock import FileLock, Timeout

from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.store import check, files
from tempora_tta.store.atomic import remove_leftovers, write_atomically
from tempora_tta.store.record import RunRecord
from tempora_tta.store.schema import CERTAINTY, PASS_COLUMNS, SEGMENTS, TRACE, UTILITIES, Fields, arrow_schema
from tempora_tta.store.trace import Trace

FILES = ("profile.json", "utilities.parquet", "segments.parquet", "certainty.parquet", "pictures.json")
"""Files that run.json lists, where a run has them."""
RUN_JSON, OF_SIZE = "run.json", "batch-"
"""The manifest of a run, and the beginning of the folders of a run at several batch sizes."""
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

    @property
    def key(self) -> str:
        return pass_key(self.identity)

    @property
    def history_free(self) -> bool:
        """Predictions of its method do not depend on the batches before."""
        return bool(self.facts.get("history_free"))

    @property
    def stateless(self) -> bool:
        """Frozen, its method predicts what standard inference predicts."""
        return bool(self.facts.get("stateless"))

    @property
    def time_aware(self) -> bool:
        """The method looks at the clock: had it shown something else, the pass would have gone another way."""
        return bool(self.facts.get("time_aware"))

    def trace(self, predictions: bool = True) -> Trace:
        """The rows; warns where they are not those that were written. Most of a file are its `predictions`, which
        scores do without."""
        if not check.is_as_named(self.path):
            files.warn(files.changed(self.path))
            self.check()
        fields = TRACE if predictions else {name: TRACE[name] for name in TRACE if name != "predicted"}
        return Trace.from_table(files.read_table(self.path, fields))

    def check(self) -> None:
        """Refuse rows that no pass can leave."""
        table = files.read_table(self.path, TRACE)
        check.check_trace(table, self.identity.get("num_batches"), self.path)


def of_sizes(path: Path | str) -> dict[int, Path]:
    """The run folders in a folder of one run at several batch sizes, by size; empty where it is another folder."""
    if (Path(path) / RUN_JSON).exists():
        return {}
    found = {
        one.parent.name.removeprefix(OF_SIZE): one.parent for one in Path(path).glob(f"{OF_SIZE}*/{RUN_JSON}")
    }
    return {int(size): found[size] for size in sorted(filter(str.isdecimal, found), key=int)}


class RunFolder:
    """The files of one run. `RunFolder(path)` reads; `RunFolder.for_writing(path)` also locks."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.run_json = self.path / RUN_JSON
        self.utilities_parquet = self.path / "utilities.parquet"
        self.segments_parquet = self.path / "segments.parquet"
        self.certainty_parquet = self.path / "certainty.parquet"
        self.damaged: list[str] = []
        """Files that were found broken and set aside when the folder was opened for writing."""
        self.packed_without_traces = False
        """The pack that it comes from has no traces: that they are missing is no damage."""
        self._lock: FileLock | None = None
        self._passes: dict[str, StoredPass] | None = None
        self._recent: dict[tuple[str, bool], Trace] = {}
        self._kept_bytes = 0
        self._utilities: tuple[tuple[int, ...], pd.DataFrame] | None = None
        """The table as it was last read, and which file that was."""
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
        folder._lock = _locked(folder.path)
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

    def has_manifest(self) -> bool:
        return self.run_json.exists()

    def record(self) -> RunRecord:
        """Read what was run: configuration, machine, lambda, verdict."""
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
        return self.record().model_dump(exclude={"checksum", "files"})

    def write_manifest(self, record: RunRecord) -> None:
        """Put run.json in place. That of a finished run lists the other files as they are now."""
        listed = {path.name: files.hash_of(path) for path in self.listed_files()} if record.finished else {}
        text = record.model_copy(update={"files": listed}).text()
        write_atomically(self.run_json, lambda part: part.write_text(text, encoding="utf-8"))

    def seal(self) -> None:
        """Let run.json list the files as they are now; that of a run that goes on lists none."""
        if self.record().finished:
            self.write_manifest(self.record())

    def listed_files(self) -> list[Path]:
        """Return the files that run.json of a finished run lists."""
        return [path for name in FILES if (path := self.path / name).exists()]

    # -- traces --------------------------------------------------------------------------------------------

    def trace_files(self) -> list[Path]:
        """Every trace file, in order."""
        return sorted((self.path / "traces").glob("*.parquet"))

    def passes(self) -> dict[str, StoredPass]:
        """Every finished pass by its key."""
        if self._passes is None:
            self._passes = {stored.key: stored for stored in map(read_pass, self.trace_files())}
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
        """Put a finished pass on disk, in the place of an earlier one; it is there, whole, when this returns."""
        data = files.table_bytes(trace.to_table(), {"identity": identity, "facts": facts})
        path = self.path / "traces" / _file_name(identity, data)
        stored = StoredPass(path, dict(identity), dict(facts))
        write_atomically(path, lambda part: part.write_bytes(data))
        if self.passes().get(stored.key, stored).path != path:
            self.remove_pass(stored.key)
        self.passes()[stored.key] = stored
        return stored

    def remove_pass(self, key: str) -> None:
        """Forget a pass, so that it is made again."""
        for predictions in (True, False):
            if (trace := self._recent.pop((key, predictions), None)) is not None:
                self._kept_bytes -= trace.nbytes
        stored = self.passes().pop(key)
        stored.path.unlink(missing_ok=True)

    # -- tables --------------------------------------------------------------------------------------------

    def utilities(self) -> pd.DataFrame:
        """One row per cell; empty before the first task is finished."""
        path = self.utilities_parquet
        if not path.exists():
            return pd.DataFrame(columns=list(UTILITIES))
        which = _which(path)
        if self._utilities is None or self._utilities[0] != which:
            frame: pd.DataFrame = files.read_table(path, UTILITIES).to_pandas()
            record = self.record() if self.has_manifest() else None
            if record is None or record.files.get(path.name) != files.hash_of(path):
                check.check_cells(frame, record, path)
            self._utilities = which, frame
        return self._utilities[1].copy()

    def write_utilities(self, utilities: pd.DataFrame) -> None:
        """Put the table in place. It names the contents of all traces that it was scored from."""
        keys = pd.concat([utilities[name] for name in PASS_COLUMNS]).dropna().unique()
        passes = {key: _content(self.passes()[key].path) for key in map(str, keys) if key in self.passes()}
        self._write(self.utilities_parquet, utilities, UTILITIES, {"passes": passes})

    def segments(self) -> pd.DataFrame | None:
        """One row per cell and segment; None without such a table."""
        if not self.segments_parquet.exists():
            return None
        frame: pd.DataFrame = files.read_table(self.segments_parquet, SEGMENTS).to_pandas()
        return frame

    def write_segments(self, segments: pd.DataFrame) -> None:
        """Put the table in place; none is kept where no stream has segments."""
        if segments.empty:
            self.segments_parquet.unlink(missing_ok=True)
        else:
            self._write(self.segments_parquet, segments, SEGMENTS, {})

    def certainty(self) -> pd.DataFrame | None:
        """One row per method, shift and scenario; None unless it was worked out from the present utilities."""
        path = self.certainty_parquet
        if not path.exists() or not self.utilities_parquet.exists():
            return None
        if files.read_about(path).get("utilities") != files.hash_of(self.utilities_parquet):
            return None
        frame: pd.DataFrame = files.read_table(path, CERTAINTY).to_pandas()
        return frame

    def write_certainty(self, certainty: pd.DataFrame) -> None:
        """Put the table in place. It names the table of utilities that it is about."""
        about = {"utilities": files.hash_of(self.utilities_parquet)}
        self._write(self.certainty_parquet, certainty, CERTAINTY, about)

    def _write(self, path: Path, frame: pd.DataFrame, fields: Fields, about: Mapping[str, Any]) -> None:
        table = pa.Table.from_pandas(frame[list(fields)], schema=arrow_schema(fields), preserve_index=False)
        data = files.table_bytes(table, about)
        write_atomically(path, lambda part: part.write_bytes(data))

    # -- resuming ------------------------------------------------------------------------------------------

    def _set_damaged_aside(self) -> None:
        """Set aside what would warn or fail when it is read: it is made again instead."""
        if self.has_manifest():
            self._keep_if(self.run_json, self.record)
        for path in self.trace_files():
            self._keep_if(path, partial(_look_at_trace, path))
        by_key = {path.stem.split("--")[-2]: path for path in self.trace_files()}
        for path in set(self.trace_files()) - set(by_key.values()):  # another run has made the same pass
            self._set_aside(path)
        changed = list(check.changed_files(self)) if self.has_manifest() else []
        for path, read in (
            (self.utilities_parquet, self.utilities),
            (self.segments_parquet, self.segments),
            (self.certainty_parquet, self.certainty),
        ):
            if path in changed:
                self._set_aside(path)
            elif path.exists():
                self._keep_if(path, read)

    def _keep_if(self, path: Path, readable: Callable[[], object]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", TemporaWarning)
            try:
                readable()
            except files.OtherVersion:
                raise
            except (TemporaError, TemporaWarning):
                self._set_aside(path)

    def _set_aside(self, path: Path) -> None:
        path.replace(path.with_name(path.name + DAMAGED))
        self.damaged.append(path.name)


def read_pass(path: Path) -> StoredPass:
    """The identity and facts of a trace file, without its rows; warns where it is not as it was written."""
    _look_at_trace(path)
    about = files.read_about(path)
    identity, facts = about.get("identity"), about.get("facts")
    if not isinstance(identity, dict) or not isinstance(facts, dict):
        raise files.damaged(path, "it does not say which pass it is")
    return StoredPass(path, identity, facts)


def _look_at_trace(path: Path) -> None:
    if not check.is_as_named(path):
        files.warn(files.changed(path))


def _which(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written again."""
    file = path.stat()
    return (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns)


def _file_name(identity: Mapping[str, Any], data: bytes) -> str:
    """Readable parts, the key, and the beginning of a hash of the file: a trace is named by its content."""
    parts = [identity["shift"], identity["method"], identity["kind"], f"s{identity['seed']}"]
    readable = "--".join(re.sub(r"[^A-Za-z0-9_.-]+", "_", str(part))[:50] for part in parts)
    return f"{readable}--{pass_key(identity)}--{hashlib.sha256(data).hexdigest()[:12]}.parquet"


def _content(trace: Path) -> str:
    return trace.stem.rpartition("--")[2]


def _locked(folder: Path) -> FileLock:
    """One writer per folder. The operating system drops the lock when its process ends, however it ends."""
    lock = FileLock(folder / "run.lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise TemporaError(
            f"{folder} is in use by another run: wait, stop it, or give another --out"
        ) from None
    except OSError as error:
        raise TemporaError(
            f"cannot write to {folder / 'run.lock'}: {error.strerror or error}; "
            "make it writable, or give another --out"
        ) from error
    return lock
