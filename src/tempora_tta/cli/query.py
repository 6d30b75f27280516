"""`tempora query`: SQL over a run's utilities, traces and passes, through DuckDB."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempora_tta._plain_text import no_formula
from tempora_tta.cli import completion, options
from tempora_tta.cli.terminal import console, plain_table, print_entries, say

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from tempora_tta.store import Results

Row = Sequence[Any]

SHUT_IN: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}
"""A query sees the views and nothing else: no file, no network, no extension, no variable of this program."""
_UNSAFE = (
    "A query reads this run and nothing else. With --unsafe it reads and writes files and loads extensions; "
    "--format csv writes an answer to where `>` says"
)


def query(
    run: Annotated[Path, options.RUN],
    sql: Annotated[str, typer.Argument(help="A query over the views utilities, traces and passes.")],
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="table, csv or json.", autocompletion=completion.one_of(completion.ANSWERS)
        ),
    ] = "table",
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Let the query read and write files and load extensions.")
    ] = False,
) -> None:
    """Ask a run in SQL: utilities (a row per cell), traces (a row per batch of every cell), passes."""
    import duckdb

    from tempora_tta.errors import TemporaError, unknown
    from tempora_tta.store import open_run

    if format_ not in FORMATS:
        raise unknown("format", format_, FORMATS)
    results = open_run(run)
    with duckdb.connect(config={} if unsafe else SHUT_IN) as connection:
        try:
            for name, view in VIEWS.items():
                if re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                    connection.register(name, view(results))
            answer = connection.execute(
                sql.encode("utf-8", "replace").decode()
            )  # a terminal may send any bytes
            if answer is None:
                raise TemporaError(
                    f'the query {sql!r} asks nothing: try "select * from utilities"\n{_help()}'
                )
            columns, rows = [column[0] for column in answer.description or []], answer.fetchall()
        except duckdb.Error as error:
            shut = not unsafe and re.search(r"by configuration|configuration has been locked", str(error))
            raise TemporaError(f"{error}\n{_UNSAFE if shut else _help()}") from None
    FORMATS[format_](columns, rows)


def _help() -> str:
    """The views and their columns, for whoever mistyped one."""
    from tempora_tta.store import KEY_COLUMNS, TRACE, UTILITIES

    columns = {"utilities": [*UTILITIES], "traces": [*KEY_COLUMNS, *TRACE], "passes": [*_PASS_COLUMNS]}
    return "\n".join(f"{view}: {', '.join(names)}" for view, names in columns.items())


# -- views: made only when the query names them ----------------------------------------------------------------


def _utilities(results: Results) -> pa.Table:
    import pyarrow as pa

    from tempora_tta.store import UTILITIES
    from tempora_tta.store.schema import arrow_schema

    return pa.Table.from_pandas(results.utilities, schema=arrow_schema(UTILITIES), preserve_index=False)


def _traces(results: Results) -> pa.Table:
    import pyarrow as pa

    from tempora_tta.store import KEY_COLUMNS, TRACE, UTILITIES
    from tempora_tta.store.schema import arrow_schema

    keys = {name: UTILITIES[name] for name in KEY_COLUMNS}
    cells = results.utilities
    tables = [arrow_schema({**keys, **TRACE}).empty_table()]
    for _, cell in cells[cells["status"] == "ok"].iterrows():
        rows = results.trace(cell).to_table()
        named = {
            name: pa.array([None if cell[name] != cell[name] else cell[name]] * len(rows), type=kind)
            for name, (kind, _) in keys.items()
        }
        tables.append(pa.table({**named, **{name: rows[name] for name in TRACE}}, schema=tables[0].schema))
    return pa.concat_tables(tables)


_PASS_COLUMNS = (
    *(
        "key",
        "kind",
        "method",
        "name",
        "model",
        "shift",
        "data",
        "seed",
        "batch_size",
        "num_batches",
        "clock",
    ),
    *(
        "machine",
        "version",
        "verdict",
        "timing_uncertainty",
        "seconds",
        "peak_memory_bytes",
        "made_at",
        "file",
    ),
)
"""What decided a pass, and what was noticed while it was made."""


def _passes(results: Results) -> pa.Table:
    import pyarrow as pa

    from tempora_tta.errors import TemporaError

    _ = results.utilities  # reading it says whether the passes are those of the cells
    columns: dict[str, list[Any]] = {name: [] for name in _PASS_COLUMNS}
    for found in results.folder.passes().values():
        facts = {**found.facts, "verdict": (found.facts.get("verdict") or {}).get("status")}
        about = {**found.identity, **facts, "key": found.key, "file": found.path.name}
        for name, values in columns.items():
            values.append(about.get(name))
    try:
        return pa.table(columns)
    except pa.ArrowException as error:
        raise TemporaError(
            f"what the passes of {results.path} say about themselves was changed and fits no table: "
            "run the same command again, which makes them anew"
        ) from error


VIEWS: dict[str, Callable[[Results], pa.Table]] = {
    "utilities": _utilities,
    "traces": _traces,
    "passes": _passes,
}


# -- what is printed -------------------------------------------------------------------------------------------


def _as_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    from rich.text import Text

    numeric = [
        name
        for place, name in enumerate(columns)
        if rows and all(isinstance(row[place], (int, float)) for row in rows if row[place] is not None)
    ]
    table = plain_table(*columns, numbers=numeric)
    for row in rows:
        table.add_row(*(Text(_text(value)) for value in row))
    out = console()
    if out.measure(table, options=out.options.update(width=10_000)).maximum <= out.width:
        out.print(table)
    else:
        _print_records(out, columns, rows)
    out.print(f"{len(rows)} row{'' if len(rows) == 1 else 's'}", style="dim")


def _print_records(out: Console, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """One value per line: what more columns than fit are read as."""
    for row in rows:
        print_entries(out, [(name, _text(value), "") for name, value in zip(columns, row, strict=True)])
        out.print()


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _as_csv(columns: Sequence[str], rows: Sequence[Row]) -> None:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([no_formula(value) for value in row] for row in (columns, *rows))
    say(text.getvalue(), nl=False)


def _as_json(columns: Sequence[str], rows: Sequence[Row]) -> None:
    import json

    names = _each_once(columns)
    records = [dict(zip(names, map(_jsonable, row), strict=True)) for row in rows]
    say(json.dumps(records, ensure_ascii=False, allow_nan=False, default=str))


def _each_once(names: Sequence[str]) -> list[str]:
    """Names of columns for an object, which has each but once: a second `utility` is `utility_1`, as in DuckDB.

    >>> _each_once(["a", "b", "a", "a_1", "a"])
    ['a', 'b', 'a_2', 'a_1', 'a_3']
    """
    found: list[str] = []
    for place, name in enumerate(names):
        count, unique = 0, name
        while unique in found or (count and unique in names[place:]):
            count += 1
            unique = f"{name}_{count}"
        found.append(unique)
    return found


def _jsonable(value: Any) -> Any:
    """Numbers that JSON has no word for are null, in lists too."""
    if isinstance(value, dict):
        return {str(name): _jsonable(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


FORMATS: dict[str, Callable[[Sequence[str], Sequence[Row]], None]] = {
    "table": _as_table,
    "csv": _as_csv,
    "json": _as_json,
}
