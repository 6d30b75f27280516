"""Files of a run folder: tables that say what they are about, hashes of contents, and what is said of a wrong one."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.store.schema import SCHEMA_VERSION, Fields, arrow_schema

LOCAL = LocalFileSystem()
"""Paths are files here: Arrow would take one that begins with `a:/` for an address."""
MOST_TEXT_BYTES, MOST_ROW_BYTES = 8 << 20, 1 << 10
"""Of the texts in one column: so much anyway, and so much for every row. Real ones have a few words."""
PUT_BACK = "put the original back, or run the same command again, which makes it once more"
"""Advice to the owner of a run; the reader of a pack has no command to run."""
_METADATA = b"tempora"


class OtherVersion(TemporaError):
    """A file of another Tempora: nothing is wrong with it."""


class Damaged(TemporaError):
    """A file that no run leaves. `what` is wrong, without what its owner can do about it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}")
        self.what = what


class FileWarning(TemporaWarning):
    """A file that can be read, but is not as it was written. `what` is wrong, without the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}" if remedy else what)
        self.what = what


def damaged(path: Path, why: object) -> TemporaError:
    return Damaged(f"{path} is damaged, or not a file of a run ({why})", PUT_BACK)


def changed(path: Path) -> str:
    """Say of a file that it is not what was written."""
    return f"{path} was changed after Tempora wrote it, or is of another run, so its numbers may be wrong"


def warn(what: str, remedy: str = PUT_BACK) -> None:
    warnings.warn(FileWarning(what, remedy), stacklevel=2)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Everything that a file may do to its reader is one error, which names it."""
    try:
        yield
    except RecursionError as error:
        raise damaged(path, "it is nested too deeply") from error
    except (OSError, pa.ArrowException, ValueError) as error:
        raise damaged(path, error) from error


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with reading(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def check_version(version: Any, path: Path) -> None:
    """Refuse files of another schema."""
    if not isinstance(version, int):
        raise damaged(path, f"its schema version is {version!r}")
    if version != SCHEMA_VERSION:
        raise OtherVersion(
            f"{path} has schema version {version}, this Tempora reads {SCHEMA_VERSION}: run again into a new folder, "
            "or use the Tempora that wrote it"
        )


def table_bytes(table: pa.Table, about: Mapping[str, Any]) -> bytes:
    """Return the file of a table, with what is to be known about it."""
    told = json.dumps({"schema_version": SCHEMA_VERSION, **about}, sort_keys=True, default=str)
    file = pa.BufferOutputStream()
    # Arrow verifies its pages before it decodes them: garbage is noticed and never parsed.
    pq.write_table(
        table.replace_schema_metadata({_METADATA: told}), file, compression="zstd", write_page_checksum=True
    )
    return file.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_about(path: Path) -> dict[str, Any]:
    """Read what `table_bytes` was told, without the rows; empty where another program wrote the file."""
    with reading(path):
        told = json.loads((pq.read_schema(path, filesystem=LOCAL).metadata or {}).get(_METADATA, b"{}"))
    if not isinstance(told, dict):
        raise damaged(path, f"it tells a {type(told).__name__} about itself")
    if told:
        check_version(told.get("schema_version"), path)
    return told


def read_table(path: Path, fields: Fields) -> pa.Table:
    """Read the columns of `fields`."""
    read_about(path)
    with reading(path), pq.ParquetFile(path, filesystem=LOCAL) as file:
        schema, metadata = file.schema_arrow, file.metadata
        missing = [name for name in fields if schema.names.count(name) != 1]
        if missing:
            raise ValueError(f"it lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}")
    texts = [name for name in fields if _is_text(schema.field(name).type)]
    with (
        reading(path),
        pq.ParquetFile(
            path,
            metadata=metadata,
            read_dictionary=texts,
            page_checksum_verification=True,
            filesystem=LOCAL,
        ) as file,
    ):
        # Files are small: threads would cost more than they save.
        table = file.read(columns=list(fields), use_threads=False)
        _check_texts(table)
        table = table.select(list(fields)).cast(arrow_schema(fields))
        table.validate(full=True)
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
