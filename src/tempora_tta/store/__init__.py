"""Traces and results on disk: one Parquet file per pass, a table of utilities, a manifest. No torch."""

from tempora_tta.store.cells import Cell, utilities_frame, utility_row
from tempora_tta.store.folder import OF_SIZE, RunFolder, StoredPass, of_sizes, pass_key, read_pass
from tempora_tta.store.packs import pack
from tempora_tta.store.results import Evaluated, Results, evaluated, open_run
from tempora_tta.store.schema import CELL_COLUMNS, KEY_COLUMNS, SCHEMA_VERSION, TRACE, UTILITIES
from tempora_tta.store.trace import ADAPTED, FALLBACK, FROZEN, SKIPPED, Trace

__all__ = [
    "ADAPTED",
    "CELL_COLUMNS",
    "FALLBACK",
    "FROZEN",
    "KEY_COLUMNS",
    "OF_SIZE",
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
    "of_sizes",
    "open_run",
    "pack",
    "pass_key",
    "read_pass",
    "utilities_frame",
    "utility_row",
]
