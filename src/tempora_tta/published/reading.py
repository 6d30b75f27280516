"""The published tables: as printed, as numbers in our names and units, and how precisely they are printed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from importlib import resources

import pandas as pd

from tempora_tta.errors import unknown
from tempora_tta.published.setups import point, setup

OFFLINE = "offline"
TABLES = (
    OFFLINE,
    "overhead",
    "utility_sweeps",
    "decomposition",
    "winners",
    "win_counts",
    "correlation",
    "deficit",
    "below_standard",
    "buffering",
    "ablation",
    "temporal_factors",
)

_RENAMED = {
    "lambda_ms": "baseline_ms",
    "delta_ms": "service_ms",
    "e_ms": "predict_ms",
    "l_ms": "adapt_ms",
    "l_over_lambda": "adapt_over_baseline",
    "mean_gap_pp": "mean_gap",
    "share_percent": "share",
    "waitspan_s": "waitspan_ms",
    "scenario": "protocol",
}

_PERCENT = frozenset(
    {
        "accuracy",
        "utility",
        "availability",
        "served_accuracy",
        "responsiveness",
        "adapted_fraction",
        "adapt_accuracy",
        "frozen_accuracy",
        "mean_gap",
        "share",
    }
)

_FACTORS = {"alpha_percent": "availability", "kappa_percent": "responsiveness", "m_batches": "cutoff"}

_KEYS = (
    "setup",
    "model",
    "dataset",
    "hardware",
    "shift",
    "method",
    "protocol",
    "parameter",
    "value",
    "label",
)
_WORDS = ("winner", "group", "variant", "factor", "source")


def printed(name: str, setup: str | None = None) -> pd.DataFrame:
    """Return a published table as text, exactly as the paper prints it: percent, seconds, trailing zeros and all."""
    return _of_setup(_read(_known(name)), setup)


def table(name: str, setup: str | None = None) -> pd.DataFrame:
    """Return a published table in the names and units of our own files.

    Percentages become fractions, seconds milliseconds, a printed parameter (`rho_percent` 100) becomes the
    `protocol`, `parameter`, `value` and `label` of `utilities.parquet` (`interval_ms` 39.9). A dash is NaN.
    `printed` keeps the text, `half_unit` how far the printed number may be from the measured one.

    >>> float(table("offline", "rn50_inc").loc[0, "accuracy"])
    0.03
    """
    return _of_setup(_table(_known(name)), setup)


def half_unit(name: str, setup: str | None = None) -> pd.DataFrame:
    """Return half a unit in the last printed place of every number of `table(name, setup)`, in the same units.

    >>> float(half_unit("offline", "rn50_inc").loc[0, "accuracy"])
    5e-05
    """
    return _of_setup(_half_unit(_known(name)), setup)


def _known(name: str) -> str:
    if name not in TABLES:
        raise unknown("published table", name, TABLES)
    return name


def _of_setup(rows: pd.DataFrame, name: str | None) -> pd.DataFrame:
    if name is None:
        return rows.copy()
    return rows[rows["setup"] == setup(name).name].reset_index(drop=True)


@cache
def _read(name: str) -> pd.DataFrame:
    path = resources.files("tempora_tta.published") / "tables" / f"{name}.csv"
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file, dtype=str, keep_default_na=False)


@cache
def _table(name: str) -> pd.DataFrame:
    # Decimal, because 0.1816 must be the nearest float to the printed number and not 18.16 * 0.01.
    return _converted(name, lambda text, unit: float(Decimal(text) * unit))


@cache
def _half_unit(name: str) -> pd.DataFrame:
    return _converted(name, lambda text, unit: float(_half_a_unit(Decimal(text)) * unit))


def _half_a_unit(number: Decimal) -> Decimal:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), f"printed numbers are finite, not {number}"
    return Decimal((0, (5,), exponent - 1))


def _converted(name: str, number: Callable[[str, Decimal], float]) -> pd.DataFrame:
    rows = _in_our_names(_read(name))
    columns = [column for column in rows.columns if column not in (*_KEYS, *_WORDS)]
    return rows.assign(
        **{
            column: [
                number(text, _unit(meaning)) if text else float("nan")
                for text, meaning in zip(rows[column], _meaning(rows, column), strict=True)
            ]
            for column in columns
        }
    )


def _in_our_names(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.rename(columns=_RENAMED)
    if "factor" in rows:
        rows["factor"] = rows["factor"].map(_FACTORS)
    if "parameter" not in rows:
        return rows
    points = [
        point(setup_name, parameter, value) if parameter else None
        for setup_name, parameter, value in zip(rows["setup"], rows["parameter"], rows["value"], strict=True)
    ]
    rows["protocol"] = [at.protocol if at else "offline" for at in points]
    rows["parameter"] = [at.parameter if at else "" for at in points]
    rows["value"] = [at.value if at else float("nan") for at in points]
    rows["label"] = [at.label if at else "offline" for at in points]
    return rows


def _meaning(rows: pd.DataFrame, column: str) -> list[str]:
    """Return what each number of a column measures: the column's name, or the row's factor in temporal_factors."""
    return list(rows["factor"]) if column == "factor_value" else [column] * len(rows)


def _unit(meaning: str) -> Decimal:
    if meaning in _PERCENT:
        return Decimal("0.01")
    return Decimal(1000) if meaning == "waitspan_ms" else Decimal(1)
