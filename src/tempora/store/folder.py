"""A run folder on disk: `run.json`, a trace file per pass, the table of utilities.

Every trace file carries what decided it (its identity) and what was noticed while it was made (its facts), so
the folder needs no index that a crash could leave half-written: passes are found by looking.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tempora.errors import TemporaError
from tempora.store.atomic import remove_leftovers, write_atomically
from tempora.store.lock import FolderLock
from tempora.store.schema import SCHEMA_VERSION, UTILITIES, arrow_schema
from tempora.store.trace import Trace

_METADATA = b"tempora"
DAMAGED = ".damaged"
_RECENT_TRACES = 16


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
        """What its method predicts on a batch does not depend on the batches before."""
        return bool(self.facts.get("history_free"))

    @property
    def stateless(self) -> bool:
        """Frozen, its method predicts what standard inference predicts."""
        return bool(self.facts.get("stateless"))

    @property
    def time_aware(self) -> bool:
        """Its method looks at the clock: had it shown something else, the pass would have gone another way."""
        return "threshold_ms" in self.identity.get("deployment", {})

    def trace(self) -> Trace:
        return Trace.from_table(pq.read_table(self.path))


class RunFolder:
    """The files of one run. `RunFolder(path)` reads; `RunFolder.for_writing(path)` also locks."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.damaged: list[str] = []
        """Files that were found broken and set aside when the folder was opened for writing."""
        self._lock: FolderLock | None = None
        self._passes: dict[str, StoredPass] | None = None
        self._recent: dict[str, Trace] = {}

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

    def manifest(self) -> dict[str, Any]:
        """What was run: configuration, machine, lambda, verdict."""
        if not self.has_manifest():
            raise TemporaError(
                f"{self.path} is not a run folder: it has no run.json (tempora run --out makes one)"
            )
        try:
            manifest = json.loads(self.run_json.read_text(encoding="utf-8"))
            version = int(manifest["schema_version"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TemporaError(
                f"{self.run_json} cannot be read ({error}): run the same command again, finished passes stay"
            ) from error
        check_version(version, self.run_json)
        return dict(manifest)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        text = json.dumps({"schema_version": SCHEMA_VERSION, **manifest}, indent=2, default=str) + "\n"
        write_atomically(self.run_json, lambda path: _write_text(path, text))

    # -- traces --------------------------------------------------------------------------------------------

    def passes(self) -> dict[str, StoredPass]:
        """Every finished pass by its key."""
        if self._passes is None:
            stored = (read_pass(path) for path in sorted((self.path / "traces").glob("*.parquet")))
            self._passes = {found.key: found for found in stored}
        return self._passes

    def trace(self, key: str) -> Trace:
        """The rows of a pass. The last few are kept, because the cells of one method share them."""
        if key not in self.passes():
            raise TemporaError(f"{self.path} lacks the pass {key}: run the same command again to make it")
        if key not in self._recent:
            while len(self._recent) >= _RECENT_TRACES:
                self._recent.pop(next(iter(self._recent)))
            self._recent[key] = self.passes()[key].trace()
        return self._recent[key]

    def write_pass(self, identity: Mapping[str, Any], trace: Trace, facts: Mapping[str, Any]) -> StoredPass:
        """Put a finished pass on disk; it is there, whole, when this returns."""
        stored = StoredPass(
            self.path / "traces" / _file_name(identity, pass_key(identity)), dict(identity), dict(facts)
        )
        about = {"schema_version": SCHEMA_VERSION, "identity": stored.identity, "facts": stored.facts}
        table = trace.to_table().replace_schema_metadata(
            {_METADATA: json.dumps(about, sort_keys=True, default=str)}
        )
        write_atomically(stored.path, lambda path: pq.write_table(table, path, compression="zstd"))
        self.passes()[stored.key] = stored
        return stored

    def remove_pass(self, key: str) -> None:
        """Forget a pass, so that it is made again."""
        self._recent.pop(key, None)
        stored = self.passes().pop(key)
        stored.path.unlink(missing_ok=True)

    # -- utilities -----------------------------------------------------------------------------------------

    def utilities(self) -> pd.DataFrame:
        """One row per cell; empty before the first shift is finished."""
        path = self.path / "utilities.parquet"
        if not path.exists():
            return pd.DataFrame(columns=list(UTILITIES))
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise TemporaError(
                f"{path} is damaged ({error}): run the same command again to write it anew"
            ) from error
        version = json.loads((table.schema.metadata or {}).get(_METADATA, b'{"schema_version": 0}'))
        check_version(int(version["schema_version"]), path)
        frame: pd.DataFrame = table.to_pandas()
        return frame

    def write_utilities(self, utilities: pd.DataFrame) -> None:
        table = pa.Table.from_pandas(
            utilities[list(UTILITIES)], schema=arrow_schema(UTILITIES), preserve_index=False
        ).replace_schema_metadata({_METADATA: json.dumps({"schema_version": SCHEMA_VERSION})})
        write_atomically(
            self.path / "utilities.parquet", lambda path: pq.write_table(table, path, compression="zstd")
        )

    def _set_damaged_aside(self) -> None:
        for path in [*sorted((self.path / "traces").glob("*.parquet")), self.path / "utilities.parquet"]:
            try:
                if path.exists():
                    pq.read_table(path)
                    if path.parent != self.path:
                        read_pass(path)
            except (OSError, pa.ArrowException, TemporaError):
                path.replace(path.with_name(path.name + DAMAGED))
                self.damaged.append(path.name)
        if self.has_manifest():
            try:
                self.manifest()
            except TemporaError:
                self.run_json.replace(self.run_json.with_name(self.run_json.name + DAMAGED))
                self.damaged.append(self.run_json.name)


def read_pass(path: Path) -> StoredPass:
    """The identity and facts of a trace file, without its rows."""
    try:
        metadata = (pq.read_schema(path).metadata or {})[_METADATA]
        about = json.loads(metadata)
        version, identity, facts = int(about["schema_version"]), dict(about["identity"]), dict(about["facts"])
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise TemporaError(
            f"{path} is damaged or not a trace of ours ({error}): the run will make it again"
        ) from error
    check_version(version, path)
    return StoredPass(path, identity, facts)


def check_version(version: int, path: Path) -> None:
    """Refuse files of a newer schema; older ones are read as they are (there is only version 1 so far)."""
    if version > SCHEMA_VERSION:
        raise TemporaError(
            f"{path} has schema version {version}, this Tempora reads up to {SCHEMA_VERSION}: update Tempora"
        )


def _file_name(identity: Mapping[str, Any], key: str) -> str:
    parts = (identity["shift"], identity["method"], identity["kind"], f"s{identity['seed']}", key)
    return "--".join(re.sub(r"[^A-Za-z0-9_.-]+", "_", str(part))[:60] for part in parts) + ".parquet"


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
