"""Checks of a run folder: are its files those of one run, as it wrote them, and can their numbers be true?

Files are compared by names and hashes alone. Rows are looked at where a hash does not vouch for them: those of a file
that was changed, of a run that goes on, and of a pack, whose hashes a stranger wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tempora_tta.errors import counted
from tempora_tta.scenarios import SIX_TERMS
from tempora_tta.store.files import changed, damaged, hash_of, read_about, warn
from tempora_tta.store.schema import CELL_COLUMNS
from tempora_tta.store.trace import BINS, PHASES
from tempora_tta.store.verdicts import ON_WINNERS, VERDICTS

if TYPE_CHECKING:
    from tempora_tta.store.folder import RunFolder
    from tempora_tta.store.record import RunRecord

TRACE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,240}--(?P<key>[0-9a-f]{16})--(?P<content>[0-9a-f]{12})\.parquet")
_TOLERANCE = 1e-9


# -- by names and hashes -------------------------------------------------------------------------------------


def is_as_named(trace: Path) -> bool:
    """Compare a trace with what its name says."""
    name = TRACE_NAME.fullmatch(trace.name)
    return name is not None and hash_of(trace).startswith(name["content"])


def problems(folder: RunFolder) -> Iterator[str]:
    """Say what is not as one run left it. No row is read, and no trace is opened."""
    for path in (folder.path / name for name in folder.record().files):
        if not path.exists():
            yield f"{path} is missing, and this run has one"
    yield from map(changed, changed_files(folder))
    names = [TRACE_NAME.fullmatch(path.name) for path in folder.trace_files()]
    there = {f"{name['key']} {name['content']}" for name in names if name}
    if len({entry.split()[0] for entry in there}) < len(there):
        yield f"{folder.path / 'traces'} has traces of another run, too"
    if folder.utilities_parquet.exists() and not folder.packed_without_traces:
        wanted = read_about(folder.utilities_parquet).get("passes")
        if not isinstance(wanted, dict):
            yield changed(folder.utilities_parquet)
        elif lacking := {f"{key} {content}" for key, content in wanted.items()} - there:
            traces = counted(len(lacking), "trace")
            yield f"{folder.utilities_parquet} refers to {traces} that are missing, renamed or of another run"


def warn_of_problems(folder: RunFolder) -> None:
    for problem in problems(folder):
        warn(problem)


def changed_files(folder: RunFolder) -> Iterator[Path]:
    """Yield the files that run.json of a finished run lists otherwise, or not."""
    record = folder.record()
    for path in folder.listed_files() if record.finished else ():
        if record.files.get(path.name) != hash_of(path):
            yield path


# -- by rows -------------------------------------------------------------------------------------------------


def check_trace(table: pa.Table, num_batches: Any, path: Path) -> None:
    """Refuse rows that no pass over a stream can leave."""
    for problem in _impossible_batches(table, num_batches):
        raise damaged(path, problem)


def _impossible_batches(table: pa.Table, num_batches: Any) -> Iterator[str]:
    rows = table.num_rows
    if rows == 0 or num_batches not in (None, rows):
        yield f"it has {rows} rows, one per batch would be {num_batches}"
        return
    for name in ("index", "served", "correct", "total", "right", "predicted"):
        if table[name].null_count:
            yield f"{name} is empty in {table[name].null_count} rows"
            return
    served, correct, total = (table[name].to_numpy() for name in ("served", "correct", "total"))
    if (table["index"].to_numpy() != np.arange(rows)).any():
        yield "its rows are not in the order of the batches, each once"
    phase = pc.fill_null(table["phase"], "")
    known, none = (pc.is_in(phase, pa.array(names)).to_numpy() for names in (PHASES[1:].tolist(), [""]))
    if not np.where(served, known, none).all():
        yield "phase is adapt, frozen or fallback where a batch was served, empty elsewhere"
    if ((correct < 0) | (correct > total) | (total < 1) | (~served & (correct != 0))).any():
        yield "correct counts samples of total, none where a batch was not served"
    for name, length in (("right", total[0]), ("predicted", total[0]), ("calibration", BINS)):
        lengths = pc.fill_null(table[name].combine_chunks().value_lengths(), 0).to_numpy()
        if not np.isin(lengths, (0, length)).all():
            yield f"{name} has {lengths.max()} entries for a batch, not {length}"
    right = table["right"].combine_chunks()
    parents, entries = right.value_parent_indices().to_numpy(), pc.fill_null(right.flatten(), False)
    true = np.bincount(parents[entries.to_numpy(zero_copy_only=False)], minlength=rows)
    if (true != correct)[right.value_lengths().to_numpy() > 0].any():
        yield "right has not as many true entries as correct counts"
    for name in table.column_names:
        times = table[name].to_numpy() if name.endswith("_ms") else np.zeros(1)
        if (times < 0).any() or np.isinf(times).any():
            yield f"{name} is below 0 or infinite"


_FRACTION, _AMOUNT, _ANY_TIME = (0.0, 1.0), (0.0, np.finfo(float).max), (0.0, np.inf)
_LIMITS = {
    **dict.fromkeys(("utility", "utility_lo", "utility_hi", "sample_lo", "sample_hi"), _FRACTION),
    **dict.fromkeys(("availability", "adapted_fraction", "fallback_fraction", "stepped_fraction"), _FRACTION),
    **dict.fromkeys(("adapt_accuracy", "frozen_accuracy", "fallback_accuracy", "accuracy"), _FRACTION),
    **dict.fromkeys(("served_accuracy", "responsiveness", "ece"), _FRACTION),
    **dict.fromkeys(("baseline_ms", "cutoff", "spent_ms", "waitspan_ms"), _AMOUNT),
    **dict.fromkeys(("response_ms", "response_sd_ms", "energy_j", "overhead_j", "memory_mb"), _AMOUNT),
    # Infinite where too many batches were never answered.
    **dict.fromkeys((f"response_p{percent}_ms" for percent in (50, 90, 95, 99)), _ANY_TIME),
}
_ALWAYS = (
    *("method", "model", "shift", "seed", "protocol", "label", "queue", "status", "timing", "scenario"),
    "baseline_ms",
)
_SCORED = (
    *("utility", "utility_lo", "utility_hi", "availability", "adapted_fraction", "responsiveness"),
    *("covariance", "batches", "served_batches", "adapting_pass"),
)


def check_cells(table: pd.DataFrame, record: RunRecord | None, path: Path) -> None:
    """Refuse rows that no run can write: every utility is a fraction, and the one that its six terms give."""
    for what, wrong in _impossible_cells(table, record):
        if wrong.any():
            row = table[wrong].iloc[0]
            raise damaged(path, f"{row['method']} on {row['shift']}, {row['label']}: {what}")


def _impossible_cells(table: pd.DataFrame, record: RunRecord | None) -> Iterator[tuple[str, pd.Series[bool]]]:
    """Say what would be wrong, and in which rows it is."""
    ok = table["status"] == "ok"
    for name in _ALWAYS:
        yield f"{name} is empty", table[name].isna()
    for name in _SCORED:
        yield f"{name} is empty", ok & table[name].isna()
    yield "it has a utility although it did not run", ~ok & table["utility"].notna()
    yield "the same cell stands there twice", table.duplicated(["method", *CELL_COLUMNS])
    for name, words in (("timing", VERDICTS), ("verdict", ON_WINNERS)):
        yield f"{name} is none of {', '.join(words)}", ~table[name].isin(words) & table[name].notna()
    for name, (lowest, highest) in _LIMITS.items():
        wrong = (table[name] < lowest - _TOLERANCE) | (table[name] > highest + _TOLERANCE)
        yield f"{name} is not between {lowest:g} and {highest:g}", wrong
    yield "baseline_ms is 0", table["baseline_ms"] == 0
    served = table["availability"] * table["batches"]
    yield "availability is not served batches / batches", ok & _differ(served, table["served_batches"])
    below, above = table["utility"] - table["utility_lo"], table["utility_hi"] - table["utility"]
    yield "utility is outside its interval", ok & ((below < -_TOLERANCE) | (above < -_TOLERANCE))
    yield "its terms do not give its utility", ok & _differ(_recomposed(table), table["utility"])
    if record is not None:
        named = table["scenario"].map(dict(enumerate(map(_protocol, record.scenarios))))
        yield "run.json has another scenario in its place, or none", table["protocol"] != named


def _differ(one: pd.Series[float], other: pd.Series[float]) -> pd.Series[bool]:
    return ~((one - other).abs() <= _TOLERANCE)


def _recomposed(table: pd.DataFrame) -> pd.Series[float]:
    availability, adapted_fraction, adapt, frozen, responsiveness, covariance = (
        table[name].fillna(0.0) for name in SIX_TERMS
    )
    accuracy = adapted_fraction * adapt + (1 - adapted_fraction) * frozen
    return availability * (accuracy * responsiveness + covariance)


def _protocol(scenario: dict[str, Any]) -> str:
    """Of a scenario in run.json: one of ours names it, a user's describes it. Text, even where it is none."""
    told = scenario.get("described")
    return str(told.get("protocol") if isinstance(told, dict) else scenario.get("protocol"))
