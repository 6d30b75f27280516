"""Traces and results on disk: one Parquet file per pass, a table of utilities, a manifest. No torch."""

from tempora.store.cells import Cell, utilities_frame, utility_row
from tempora.store.evaluated import Evaluated, evaluated
from tempora.store.folder import RunFolder, StoredPass, pass_key, read_pass
from tempora.store.packs import pack, unpack
from tempora.store.results import Results, open_run
from tempora.store.schema import CELL_COLUMNS, KEY_COLUMNS, SCHEMA_VERSION, TRACE, UTILITIES
from tempora.store.trace import ADAPTED, FALLBACK, FROZEN, SKIPPED, Trace

__all__ = [
    "ADAPTED",
    "CELL_COLUMNS",
    "FALLBACK",
    "FROZEN",
    "KEY_COLUMNS",
    "SCHEMA_VERSION",
    "SKIPPED",
    "TRACE",
    "UTILITIES",
    "Cell",
    "Evaluated",
    "Results",
    "RunFolder",
    "StoredPass",
    "Trace",
    "evaluated",
    "open_run",
    "pack",
    "pass_key",
    "read_pass",
    "unpack",
    "utilities_frame",
    "utility_row",
]
