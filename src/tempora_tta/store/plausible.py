"""What holds for every run folder that a run can leave: shapes, ranges, and the identity of utility and its terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempora_tta.scenarios import SIX_TERMS
from tempora_tta.store.calibration import BINS
from tempora_tta.store.integrity import AGAIN, damaged, warn
from tempora_tta.store.schema import CELL_COLUMNS
from tempora_tta.store.trace import PHASES
from tempora_tta.store.verdicts import ON_WINNERS, VERDICTS

_TOLERANCE = 1e-9

# -- traces --------------------------------------------------------------------------------------------------


def check_trace(table: pa.Table, num_batches: Any, path: Path) -> None:
    """Refuse rows that no pass over a stream can leave."""
    for problem in _trace_problems(table, num_batches):
        raise damaged(path, problem)


def _trace_problems(table: pa.Table, num_batches: Any) -> Iterator[str]:
    rows = table.num_rows
    if rows == 0 or num_batches not in (None, rows):
        yield f"it has {rows} rows, one per batch would be {num_batches}"
        return
    for name in ("index", "served", "correct", "total", "right", "predicted"):
        if name in table.column_names and table[name].null_count:
            yield f"{name} is empty in {table[name].null_count} rows"
            return
    index, served, correct, total = (
        table[name].to_numpy() for name in ("index", "served", "correct", "total")
    )
    if (index != np.arange(rows)).any():
        yield "its rows are not in the order of the batches, each once"
    phase = pc.fill_null(table["phase"], "")
    known, none = (pc.is_in(phase, pa.array(names)).to_numpy() for names in (PHASES[1:].tolist(), [""]))
    if not np.where(served, known, none).all():
        yield "phase is adapt, frozen or fallback where a batch was served, empty elsewhere"
    if ((correct < 0) | (correct > total) | (total < 1) | (~served & (correct != 0))).any():
        yield "correct counts samples of total, none where a batch was not served"
    for name, length in (("right", total[0]), ("predicted", total[0]), ("calibration", BINS)):
        if name in table.column_names:
            lengths = pc.fill_null(table[name].combine_chunks().value_lengths(), 0).to_numpy()
            if not np.isin(lengths, (0, length)).all():
                yield f"{name} has {lengths.max()} entries for a batch, not {length}"
    known = pc.fill_null(table["right"].combine_chunks().value_lengths(), 0).to_numpy() > 0
    if (_true_values(table["right"]) != correct)[known].any():
        yield "right has not as many true entries as correct counts"
    for name in table.column_names:
        times = table[name].to_numpy() if name.endswith("_ms") else np.zeros(1)
        if (times[~np.isnan(times)] < 0).any() or np.isinf(times).any():
            yield f"{name} is below 0 or infinite"


def _true_values(lists: pa.ChunkedArray) -> NDArray[np.int64]:
    """How many entries of each list are true."""
    each = lists.combine_chunks()
    parents, entries = each.value_parent_indices().to_numpy(), pc.fill_null(each.flatten(), False)
    return np.bincount(parents[entries.to_numpy(zero_copy_only=False)], minlength=len(each))


# -- utilities -----------------------------------------------------------------------------------------------

_FRACTIONS = (
    *("utility", "utility_lo", "utility_hi", "sample_lo", "sample_hi", "availability", "adapted_fraction"),
    *("adapt_accuracy", "frozen_accuracy", "responsiveness", "accuracy", "served_accuracy"),
    *("fallback_fraction", "fallback_accuracy", "stepped_fraction", "ece"),
)
_AMOUNTS = (
    *("baseline_ms", "cutoff", "spent_ms", "waitspan_ms", "response_ms", "response_sd_ms"),
    *("energy_j", "overhead_j", "memory_mb"),
)
_PERCENTILES = ("response_p50_ms", "response_p90_ms", "response_p95_ms", "response_p99_ms")
"""Infinite where too many batches were never answered."""
_ALWAYS = (
    *("method", "model", "shift", "seed", "protocol", "label", "queue", "status", "timing", "scenario"),
    "baseline_ms",
)
_SCORED = (
    *("utility", "utility_lo", "utility_hi", "availability", "adapted_fraction", "responsiveness"),
    *("covariance", "batches", "served_batches", "adapting_pass"),
)


def check_utilities(table: pd.DataFrame, path: Path) -> None:
    """Refuse rows that no run can write: every utility is a fraction, and the one that its six terms give."""
    for what, wrong in _utility_problems(table):
        if wrong.any():
            row = table[wrong].iloc[0]
            raise damaged(path, f"{row['method']} on {row['shift']}, {row['label']}: {what}")


def _utility_problems(table: pd.DataFrame) -> Iterator[tuple[str, pd.Series[bool]]]:
    """What would be wrong, and in which rows it is."""
    ok = table["status"] == "ok"
    for name in _ALWAYS:
        yield f"{name} is empty", table[name].isna()
    for name in _SCORED:
        yield f"{name} is empty", ok & table[name].isna()
    yield "it has a utility although it did not run", ~ok & table["utility"].notna()
    yield "the same cell stands there twice", table.duplicated(["method", *CELL_COLUMNS])
    yield f"timing is none of {', '.join(VERDICTS)}", ~table["timing"].isin(VERDICTS)
    yield (
        f"the verdict is none of {', '.join(ON_WINNERS)}",
        ~table["verdict"].isin(ON_WINNERS) & table["verdict"].notna(),
    )
    for name in _FRACTIONS:
        yield f"{name} is not between 0 and 1", ok & _outside(table[name], 0, 1)
    for name in _AMOUNTS:
        yield (
            f"{name} is below 0 or infinite",
            ok & (_outside(table[name], 0, np.inf) | np.isinf(table[name])),
        )
    for name in _PERCENTILES:
        yield f"{name} is below 0", ok & _outside(table[name], 0, np.inf)
    yield "baseline_ms is not above 0", table["baseline_ms"] <= 0
    served = table["availability"] * table["batches"]
    yield "availability is not served batches / batches", ok & _differ(served, table["served_batches"])
    lo, hi = table["utility_lo"], table["utility_hi"]
    yield (
        "utility is outside its interval",
        ok & ((lo > table["utility"] + _TOLERANCE) | (hi < table["utility"] - _TOLERANCE)),
    )
    yield "its terms do not give its utility", ok & _differ(_recomposed(table), table["utility"])


def _outside(values: pd.Series[float], lowest: float, highest: float) -> pd.Series[bool]:
    return (values < lowest - _TOLERANCE) | (values > highest + _TOLERANCE)


def _differ(one: pd.Series[float], other: pd.Series[float]) -> pd.Series[bool]:
    return ~((one - other).abs() <= _TOLERANCE)


def _recomposed(table: pd.DataFrame) -> pd.Series[float]:
    availability, adapted_fraction, adapt, frozen, responsiveness, covariance = (
        table[name].fillna(0.0) for name in SIX_TERMS
    )
    accuracy = adapted_fraction * adapt + (1 - adapted_fraction) * frozen
    return availability * (accuracy * responsiveness + covariance)


def check_cells(table: pd.DataFrame, manifest: Mapping[str, Any], path: Path) -> None:
    """Do the cells fit the run that run.json describes? One that is no scenario of it ends it, missing ones warn."""
    scenarios = len(manifest["scenarios"])
    if not table["scenario"].between(0, scenarios - 1).all():
        raise damaged(path, f"it has cells of other scenarios than the {scenarios} in run.json")
    named = table["scenario"].map(dict(enumerate(map(_protocol, manifest["scenarios"]))))
    if (table["protocol"] != named).any():
        row = table[table["protocol"] != named].iloc[0]
        raise damaged(
            path, f"{row['method']} on {row['shift']}, {row['label']}: run.json has another protocol for it"
        )
    wanted = scenarios * int(np.prod([len(manifest[name]) for name in ("methods", "shifts", "seeds")]))
    whole = manifest["finished"]
    if whole and len(table) != wanted:
        warn(
            f"{path} has {len(table)} cells and run.json names {wanted}: some are missing or another run's",
            AGAIN,
        )


def _protocol(record: Mapping[str, Any]) -> str:
    """Of a scenario in run.json: one of ours names it, a user's describes it. Text, whatever somebody wrote there."""
    told = record.get("described")
    return str(told.get("protocol") if isinstance(told, dict) else record.get("protocol"))
