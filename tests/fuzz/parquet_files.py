"""Parquet files of a run folder: columns, types, values and metadata changed as other programs would, or bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mutations import misspelt, odd_value, spoil_bytes, spoil_data
from run_folders import copy_of_pristine, read

Change = Callable[[Random, pa.Table], pa.Table]


def case(rng: Random) -> None:
    folder = copy_of_pristine("run")
    traces = sorted(folder.glob("traces/*.parquet"))
    path = folder / "utilities.parquet" if rng.random() < 0.5 else rng.choice(traces)
    if rng.random() < 0.35:
        path.write_bytes(spoil_bytes(rng, path.read_bytes()))
    else:
        rewrite(rng, path)
    read(rng, folder)


def rewrite(rng: Random, path: Path) -> None:
    """Read the table, change it and write it back, with its metadata, without it, or with other metadata."""
    table = pq.read_table(path)
    metadata = table.schema.metadata
    for _ in range(rng.choice((1, 1, 2))):
        table = rng.choice(CHANGES)(rng, table)
    kept = rng.random()
    if kept < 0.7:
        table = table.replace_schema_metadata(metadata)
    elif kept < 0.85:
        table = table.replace_schema_metadata({b"tempora": _other_metadata(rng, metadata[b"tempora"])})
    pq.write_table(table, path)


def _other_metadata(rng: Random, text: bytes) -> bytes:
    if rng.random() < 0.3:
        return spoil_bytes(rng, text)
    return json.dumps(spoil_data(rng, json.loads(text))).encode()


def _without(rng: Random, table: pa.Table) -> pa.Table:
    return table.drop_columns(rng.sample(table.column_names, rng.randint(1, min(2, table.num_columns))))


def _renamed(rng: Random, table: pa.Table) -> pa.Table:
    names = list(table.column_names)
    at = rng.randrange(len(names))
    names[at] = rng.choice((misspelt(rng, names[at]), rng.choice(names)))
    return table.rename_columns(names)


def _reordered(rng: Random, table: pa.Table) -> pa.Table:
    return table.select(rng.sample(range(table.num_columns), table.num_columns))


def _another_value(rng: Random, table: pa.Table) -> pa.Table:
    """One cell, or a whole column, of another value of the same type."""
    at = rng.randrange(table.num_columns)
    values, kind = table.column(at).to_pylist(), table.schema.field(at).type
    chosen = range(len(values)) if rng.random() < 0.3 else [rng.randrange(len(values))] if values else []
    for place in chosen:
        values[place] = _value(rng, kind, values[place])
    return table.set_column(at, table.column_names[at], pa.array(values, kind))


def _value(rng: Random, kind: pa.DataType, before: Any) -> Any:
    if rng.random() < 0.2:
        return None
    if pa.types.is_boolean(kind):
        return not before
    if pa.types.is_floating(kind):
        number = 0.5 if before is None else before
        return rng.choice((number + 1e-6, number * 2, -number, 0.0, 1.0, 40.0, math.nan, math.inf, 1e300))
    if pa.types.is_integer(kind):
        return (before or 0) + rng.choice((1, -1, 1000, -1000))
    if pa.types.is_list(kind):
        return rng.choice(
            ([], [0], [*before, 0] if before else [1] * 8, [-5] * 8, list(reversed(before or [])))
        )
    return rng.choice(("", "tent", "ok", "VALID", "frozen", "adapt", "offline", "[/]", "λ\x00", "x" * 100))


def _another_type(rng: Random, table: pa.Table) -> pa.Table:
    at = rng.randrange(table.num_columns)
    values = table.column(at).to_pylist()
    kind = rng.choice(
        (
            pa.string(),
            pa.float32(),
            pa.int64(),
            pa.list_(pa.int64()),
            pa.binary(),
            pa.timestamp("us"),
            pa.null(),
        )
    )
    try:
        column = table.column(at).cast(kind)
    except pa.ArrowException:
        value = {pa.string(): "high", pa.binary(): b"\xff", pa.list_(pa.int64()): [1]}.get(kind)
        column = pa.array([value] * len(values), kind)
    return table.set_column(at, table.column_names[at], column)


def _other_rows(rng: Random, table: pa.Table) -> pa.Table:
    rows = list(range(table.num_rows))
    kind = rng.randrange(5)
    if kind == 0 and rows:
        rows.pop(rng.randrange(len(rows)))
    elif kind == 1 and rows:
        rows.append(rng.choice(rows))
    elif kind == 2:
        rng.shuffle(rows)
    elif kind == 3:
        rows = []
    else:
        rows = rows[: len(rows) // 2]
    return table.take(pa.array(rows, pa.int64()))


def _an_extra_column(rng: Random, table: pa.Table) -> pa.Table:
    name = rng.choice(("note", "", "utility", *table.column_names[:2]))
    return table.append_column(
        name, pa.array([str(odd_value(rng)).encode("utf-8", "replace").decode()] * table.num_rows)
    )


CHANGES: tuple[Change, ...] = (
    *(_another_value,) * 5,
    *(_without, _renamed, _reordered, _another_type, _other_rows, _other_rows, _an_extra_column),
)
