"""The published tables in the shape of a run's `utilities.parquet`, so that one analysis serves both."""

from __future__ import annotations

import pandas as pd

from tempora_tta.errors import TemporaError, unknown
from tempora_tta.published.reading import half_unit, table
from tempora_tta.published.setups import Setup, setup
from tempora_tta.scenarios import SIX_TERMS

PARTS = ("shifts", "aggregate", "buffering", "ablation")
CELL = ["shift", "protocol", "parameter", "value", "label", "queue", "rule"]
_KEY = ["shift", "protocol", "parameter", "value", "label", "method"]
_TERMS = [*SIX_TERMS, "accuracy", "served_accuracy"]
_FIXED = {
    "offline": {"availability": 1.0, "adapted_fraction": 1.0, "responsiveness": 1.0, "covariance": 0.0},
    "discrete": {"adapted_fraction": 1.0, "responsiveness": 1.0, "covariance": 0.0},
    "continuous": {"availability": 1.0, "adapted_fraction": 1.0},
    "amortised": {"availability": 1.0, "responsiveness": 1.0, "covariance": 0.0},
}
"""The terms that a protocol fixes; the others are as printed, or missing where the paper prints none."""

SEED = 2025


def as_utilities(setup_name: str, part: str = "shifts") -> pd.DataFrame:
    """Return one published setup as a utilities frame.

    The paper prints by shift only offline accuracy and the strictest point of each protocol, and the whole
    grid only aggregated over shifts. So there are parts, which must not be mixed:

    - `shifts`: one row per method, shift and scenario that is printed by shift;
    - `aggregate`: the whole grid, with `shift` "all" (or the one shift that ImageNet-R and -V2 are);
    - `buffering`: utilisation 100 % with queue 0 and 1, with their `waitspan_ms`, `response_ms` and
      `response_sd_ms`;
    - `ablation`: ETA*, SHOT-IM* and their originals at a budget of 1 s.

    `utility_lo` and `utility_hi` are the printed number minus and plus half a unit in its last place.
    """
    found = setup(setup_name)
    parts = {"shifts": _by_shift, "aggregate": _aggregate, "buffering": _buffering, "ablation": _ablation}
    if part not in parts:
        raise unknown("part of the published tables", part, PARTS)
    rows = parts[part](found)
    if rows.empty:
        raise TemporaError(
            f"published setup {setup_name!r} prints nothing for part {part!r}: "
            "CIFAR-10-C is printed aggregated (part 'aggregate'), buffering and ablation for rn50_inc only"
        )
    return _finished(rows.reset_index(drop=True), found)


def _by_shift(found: Setup) -> pd.DataFrame:
    rows = _scores(found.name)
    return rows[rows["shift"] != "all"]


def _aggregate(found: Setup) -> pd.DataFrame:
    rows = _scores(found.name)
    return rows[rows["shift"] == "all"] if len(found.shifts) > 1 else rows


def _scores(name: str) -> pd.DataFrame:
    """Offline, sweeps and decompositions; a strict cell takes its utility where more digits are printed."""
    offline = _with_half_units("offline", name, "accuracy")
    offline = offline.assign(
        protocol="offline", parameter="", value=float("nan"), label="offline", utility=offline["accuracy"]
    )
    sweeps = _with_half_units("utility_sweeps", name, "utility")[[*_KEY, "utility", "half_unit"]]
    strict = _with_half_units("decomposition", name, "utility")
    temporal = sweeps.merge(
        strict[[*_KEY, *_TERMS, "served_batches", "utility", "half_unit"]],
        on=_KEY,
        how="outer",
        suffixes=("", "_strict"),
        sort=False,
    )
    for column in ("utility", "half_unit"):
        temporal[column] = temporal[column].fillna(temporal[f"{column}_strict"])
    return pd.concat(
        [
            offline[[*_KEY, "accuracy", "utility", "half_unit"]],
            temporal.drop(columns=["utility_strict", "half_unit_strict"]),
        ],
        ignore_index=True,
    )


def _buffering(found: Setup) -> pd.DataFrame:
    rows = _with_half_units("buffering", found.name, "utility")
    rows = rows[rows["variant"] != "delta"]
    strictest = found.strict[0]
    return rows.assign(
        **strictest._asdict(),
        shift="all",
        queue=rows["variant"].map({"unbuffered": 0, "buffered": 1}),
        served_accuracy=rows["utility"] / rows["availability"],
    )


def _ablation(found: Setup) -> pd.DataFrame:
    return _with_half_units("ablation", found.name, "utility")


def _with_half_units(name: str, setup_name: str, column: str) -> pd.DataFrame:
    return table(name, setup_name).assign(half_unit=half_unit(name, setup_name)[column])


def _finished(rows: pd.DataFrame, found: Setup) -> pd.DataFrame:
    """Add the terms that follow from the protocol, and what the paper says once for a whole setup."""
    rows = _with_implied_terms(
        rows.reindex(columns=list(dict.fromkeys([*rows.columns, *_TERMS, "queue", "served_batches"])))
    )
    aggregate = bool((rows["shift"] == "all").all())
    rows = rows.assign(
        setup=found.name,
        model=found.model,
        hardware=found.hardware,
        seed=SEED,
        queue=rows["queue"].where(rows["queue"].notna() | (rows["protocol"] != "discrete"), 1),
        rule=rows["protocol"].map({"amortised": "overshoot"}).fillna(""),
        status="ok",
        origin="published",
        baseline_ms=found.baseline_ms,
        batches=found.batches * (len(found.shifts) if aggregate else 1),
        cutoff=found.batches * rows["availability"] * rows["adapted_fraction"],
        utility_lo=rows["utility"] - rows["half_unit"],
        utility_hi=rows["utility"] + rows["half_unit"],
    )
    rows["rank"] = rows.groupby(CELL, dropna=False)["utility"].rank(method="min", ascending=False).astype(int)
    extra = [column for column in ("waitspan_ms", "response_ms", "response_sd_ms") if column in rows]
    return rows[[*_COLUMNS, *extra]]


def _with_implied_terms(rows: pd.DataFrame) -> pd.DataFrame:
    amortised = rows["protocol"] == "amortised"
    for protocol, terms in _FIXED.items():
        for term, value in terms.items():
            rows.loc[(rows["protocol"] == protocol) & rows[term].isna(), term] = value
    # All served on time: utility is accuracy. Nothing frozen: so is the accuracy while adapting.
    accuracy = rows["served_accuracy"].fillna(rows["accuracy"]).where(~amortised, rows["utility"])
    return rows.assign(
        accuracy=accuracy,
        served_accuracy=accuracy,
        adapt_accuracy=rows["adapt_accuracy"].where(amortised, accuracy),
    )


_COLUMNS = [
    *("setup", "hardware", "method", "model", "shift", "seed", *CELL[1:], "status", "origin"),
    *("utility", "utility_lo", "utility_hi", "rank", "baseline_ms", "batches"),
    *_TERMS,
    *("cutoff", "served_batches"),
]
