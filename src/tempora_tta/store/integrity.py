"""Are the numbers in a run folder those that were written there?

Every file carries a checksum of its contents. A file that another program, a hand or a failing disk has changed is
read with a `TemporaWarning`; numbers that no run can have (an accuracy above 1, a utility that its own terms do not
give) are a `TemporaError`.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.store.schema import SCHEMA_VERSION, arrow_schema

LOCAL = LocalFileSystem()
"""Paths are files here: Arrow would take one that begins with `a:/` for an address."""
MOST_TEXT_BYTES, MOST_ROW_BYTES = 8 << 20, 1 << 10
"""Of the texts in one column: so much anyway, and so much for every row. Real ones have a few words."""
_METADATA = b"tempora"
_KINDS = {
    "run.json": "manifest",
    "profile.json": "profile",
    "utilities.parquet": "table of utilities",
    "segments.parquet": "table of segments",
    "certainty.parquet": "table of certainty",
}
AGAIN = "run the same command again, which makes it anew"
"""What whoever has the run can do about a file; whoever was sent a pack of it cannot."""

Fields = Mapping[str, tuple[pa.DataType, str]]


def write_sealed(table: pa.Table, path: Path, about: Mapping[str, Any], rows: Mapping[str, str]) -> None:
    """Write a table with what is to be known about it, its schema version and its checksums (`rows_checksum`)."""
    told = {"schema_version": SCHEMA_VERSION, **json.loads(json.dumps(about, default=str))}
    sealed = {**told, "checksum": checksum(told), "rows_checksum": rows}
    table = table.replace_schema_metadata({_METADATA: json.dumps(sealed, sort_keys=True)})
    # Arrow verifies its pages before it decodes them: garbage is noticed and never parsed.
    pq.write_table(table, path, compression="zstd", write_page_checksum=True, filesystem=LOCAL)


def read_about(path: Path) -> dict[str, Any]:
    """What `write_sealed` was told, without the rows; empty where the file is not one of ours."""
    try:
        return _about(pq.read_schema(path, filesystem=LOCAL), path)
    except (OSError, pa.ArrowException, ValueError, RecursionError) as error:
        raise damaged(path, error) from error


def read_sealed(path: Path, fields: Fields) -> pa.Table:
    """The columns of `fields`; warns if they are not as they were written."""
    try:
        with pq.ParquetFile(path, filesystem=LOCAL) as file:
            schema, metadata = file.schema_arrow, file.metadata
        told = _about(schema, path)
        missing = [name for name in fields if schema.names.count(name) != 1]
        if missing:
            raise ValueError(f"it lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}")
        with pq.ParquetFile(
            path,
            metadata=metadata,
            read_dictionary=[name for name in fields if _is_text(schema.field(name).type)],
            page_checksum_verification=True,
            filesystem=LOCAL,
        ) as file:
            # Files are small: threads would cost more than they save.
            table = file.read(columns=list(fields), use_threads=False)
        _check_texts(table)
        table = table.select(list(fields)).cast(arrow_schema(dict(fields)))
        table.validate(full=True)
    except (OSError, pa.ArrowException, ValueError, RecursionError) as error:
        raise damaged(path, error) from error
    if not told:
        warn(
            f"{path} was not written by Tempora, or rewritten by another program: its numbers are as found there"
        )
    elif not _agree(rows_checksum(table), told.get("rows_checksum")):
        warn_changed(path)
    return table


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _check_texts(table: pa.Table) -> None:
    """Refuse texts that would fill the memory: a file keeps each once, however many rows repeat it."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            together = sum(_text_bytes(chunk) for chunk in column.chunks)
            if together > MOST_TEXT_BYTES + MOST_ROW_BYTES * table.num_rows:
                raise ValueError(f"{name} holds texts of {together} bytes, more than a run has")


def _text_bytes(chunk: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)


def _agree(found: dict[str, str], written: Any) -> bool:
    return isinstance(written, dict) and found.items() <= written.items()


def _about(schema: pa.Schema, path: Path) -> dict[str, Any]:
    sealed = json.loads((schema.metadata or {}).get(_METADATA, b"{}"))
    return opened(sealed, path) if sealed != {} else {}


def opened(sealed: Any, path: Path) -> dict[str, Any]:
    """Plain data without its checksum; warns if it is not what was written."""
    if not isinstance(sealed, dict):
        raise damaged(path, f"it holds a {type(sealed).__name__} where an object is expected")
    told = {name: value for name, value in sealed.items() if name not in ("checksum", "rows_checksum")}
    check_version(told.get("schema_version"), path)
    if sealed.get("checksum") != checksum(told):
        warn_changed(path)
    return {**told, "rows_checksum": sealed["rows_checksum"]} if "rows_checksum" in sealed else told


def checksum(plain: Any) -> str:
    """Of plain data, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:32]


def rows_checksum(table: pa.Table) -> dict[str, str]:
    """Of each column of a table; versions of the format and compression do not matter."""
    return {name: hashlib.sha256(_bytes(table[name])).hexdigest()[:32] for name in table.column_names}


def seal(rows: Any) -> str | None:
    """Which rows a file holds, in short, from its `rows_checksum`; None where another program wrote it."""
    return checksum(rows)[:12] if isinstance(rows, Mapping) else None


def _bytes(column: pa.ChunkedArray) -> bytes:
    if pa.types.is_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), -1)
        return _bytes(lengths) + _bytes(pc.list_flatten(column))
    if pa.types.is_string(column.type):
        encoded = pc.fill_null(column, "\x1e").combine_chunks().dictionary_encode()
        texts = encoded.dictionary.to_pylist()  # a few words, over and over
        return "\x1f".join([texts[place] for place in encoded.indices.to_pylist()]).encode()
    numbers = column.cast(pa.float64(), safe=False).to_numpy()
    return np.where(np.isnan(numbers), np.nan, numbers).tobytes()  # NaN has many forms; one stands for all


def check_version(version: Any, path: Path) -> None:
    """Refuse files of another schema."""
    if not isinstance(version, int):
        raise damaged(path, f"its schema version is {version!r}")
    if version != SCHEMA_VERSION:
        raise OtherVersion(
            f"{path} has schema version {version}, this Tempora reads {SCHEMA_VERSION}: run again into a new folder, "
            "or use the Tempora that wrote it"
        )


class OtherVersion(TemporaError):
    """A file of another Tempora: nothing is wrong with it."""


class Damaged(TemporaError):
    """A file that is none of ours. `what` is wrong, without what its owner can do about it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}")
        self.what = what


class FileWarning(TemporaWarning):
    """A file that can be read, but is not as it was written. `what` is wrong, without the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}" if remedy else what)
        self.what = what


def damaged(path: Path, why: object) -> TemporaError:
    kind = _KINDS.get(path.name, "trace")
    return Damaged(f"{path} is damaged or not a {kind} of ours ({why})", f"put the original back, or {AGAIN}")


def warn_changed(path: Path) -> None:
    warn(
        f"{path} was changed after Tempora wrote it, so its numbers may be wrong",
        f"put the original back, or {AGAIN}",
    )


def warn(what: str, remedy: str = "") -> None:
    warnings.warn(FileWarning(what, remedy), stacklevel=2)
