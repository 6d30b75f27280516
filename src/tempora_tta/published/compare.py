"""A run beside the published tables: what agrees, what differs, and which printed numbers not to trust."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from tempora_tta._numbers import percent
from tempora_tta.errors import TemporaError
from tempora_tta.published.inconsistencies import known_inconsistencies
from tempora_tta.published.methods import STANDARD, card_of
from tempora_tta.published.reading import table
from tempora_tta.published.setups import Point, Setup, setup
from tempora_tta.published.utilities import as_utilities

_CELL = ["shift", "protocol", "label"]
_RELATIVE_TOLERANCE = 0.02
"""The paper's "70 %" and "25 lambda" are nominal (70.7 %, 24.7 lambda)."""


@dataclass(frozen=True)
class Comparison:
    """A run against one published setup."""

    setup: str
    cells: pd.DataFrame
    """One row per method, shift and scenario that both have: `utility`, `published`, `difference`,
    `half_unit` of the printed number, `rank` and `published_rank` among the common methods, and a `note`
    on a known misprint."""
    summary: dict[str, float]
    """Agreement in numbers; `mean_absolute_difference` leaves out known misprints."""
    flags: list[str]
    """What a reader must know before believing the comparison, in sentences."""


def compare(utilities: pd.DataFrame, setup_name: str) -> Comparison:
    """Put a run's utilities beside the published ones of a setup.

    Scenarios are matched by what the paper holds fixed: utilisation for Discrete, milliseconds for
    thresholds and budgets (multiples of lambda for the budgets of CIFAR-10-C). Aggregates are compared if
    the run has every shift.
    """
    found = setup(setup_name)
    ours = _on_the_grid(utilities, found)
    cells = _published(found).merge(ours, on=[*_CELL, "method"], how="inner")
    if cells.empty:
        raise TemporaError(
            f"nothing to compare with {setup_name!r}: the run needs one of its methods on one of its shifts "
            f"({', '.join(found.shifts[:3])}, ...) and a scenario of its grid, such as offline"
        )
    cells["difference"] = cells["utility"] - cells["published"]
    for column, value in (("rank", "utility"), ("published_rank", "published")):
        cells[column] = cells.groupby(_CELL)[value].rank(method="min", ascending=False).astype(int)
    cells["note"] = _notes(cells, setup_name)
    return Comparison(setup_name, cells, _summary(cells, ours, setup_name), _flags(cells, utilities, found))


def _published(found: Setup) -> pd.DataFrame:
    parts = ["aggregate"] if found.dataset == "cifar10_c" else ["shifts", "aggregate"]
    rows = pd.concat([as_utilities(found.name, part) for part in parts], ignore_index=True)
    rows = rows.rename(columns={"utility": "published"}).drop_duplicates([*_CELL, "method"])
    rows["half_unit"] = (rows["utility_hi"] - rows["utility_lo"]) / 2
    return rows[[*_CELL, "value", "method", "published", "half_unit"]]


def _on_the_grid(utilities: pd.DataFrame, found: Setup) -> pd.DataFrame:
    """The run's rows that stand for a published cell, averaged over seeds, with the paper's labels."""
    rows = utilities[utilities["utility"].notna() & (utilities["queue"].isna() | (utilities["queue"] == 1))]
    scenarios = rows[["protocol", "value", "baseline_ms"]].drop_duplicates()
    points = {
        (protocol, value, baseline_ms): _label_on_grid(found, protocol, value, baseline_ms)
        for protocol, value, baseline_ms in scenarios.itertuples(index=False)
        if not math.isnan(value)
    }
    labels = [
        "offline" if protocol == "offline" else points.get((protocol, value, baseline_ms))
        for protocol, value, baseline_ms in zip(
            rows["protocol"], rows["value"], rows["baseline_ms"], strict=True
        )
    ]
    rows = rows.assign(label=pd.Series(labels, index=rows.index)).dropna(subset=["label"])
    by_shift = rows.groupby([*_CELL, "method"])["utility"].mean().reset_index()
    return pd.concat([by_shift, _over_all_shifts(by_shift, found)], ignore_index=True)


def _label_on_grid(found: Setup, protocol: str, value: float, baseline_ms: float) -> str | None:
    for point in found.grid:
        if point.protocol == protocol and _same_pressure(point, found, value, baseline_ms):
            return point.label
    return None


def _same_pressure(point: Point, found: Setup, value: float, baseline_ms: float) -> bool:
    if point.protocol == "discrete" or point.label.endswith("λ"):
        relative, published = value / baseline_ms, point.value / found.baseline_ms
        return math.isclose(relative, published, rel_tol=_RELATIVE_TOLERANCE)
    return math.isclose(value, point.value)


def _over_all_shifts(by_shift: pd.DataFrame, found: Setup) -> pd.DataFrame:
    """Means over shifts (the streams are equally long), where the run has all of them."""
    if len(found.shifts) == 1:
        return by_shift.head(0)
    rows = by_shift[by_shift["shift"].isin(found.shifts)]
    means = rows.groupby(["protocol", "label", "method"], as_index=False).agg(
        utility=("utility", "mean"), shifts=("shift", "nunique")
    )
    return means[means["shifts"] == len(found.shifts)].drop(columns="shifts").assign(shift="all")


def _notes(cells: pd.DataFrame, setup_name: str) -> list[str]:
    notes = pd.Series("", index=cells.index)
    keyed = cells.assign(setup=setup_name)
    for known in known_inconsistencies(setup_name):
        if known.misprint and "utility" in known.columns:
            notes[known.touches(keyed)] = (
                f"known inconsistency {known.number}: {known.what}; expected {known.expected}"
            )
    return list(notes)


def _summary(cells: pd.DataFrame, ours: pd.DataFrame, setup_name: str) -> dict[str, float]:
    trusted = cells[cells["note"] == ""]
    gap = trusted["difference"].abs()
    correlations = [
        group["utility"].corr(group["published"], method="spearman")
        for _, group in trusted.groupby(_CELL)
        if len(group) > 2
    ]
    agreeing, compared = _winners(ours, setup_name)
    return {
        "numbers": len(cells),
        "known_misprints": len(cells) - len(trusted),
        "mean_absolute_difference": float(gap.mean()),
        "largest_difference": float(gap.max()),
        "within_rounding": int((gap <= trusted["half_unit"] + 1e-9).sum()),
        "rank_correlation": float(pd.Series(correlations, dtype=float).mean()),
        "winners_agreeing": agreeing,
        "winners_compared": compared,
    }


def _winners(ours: pd.DataFrame, setup_name: str) -> tuple[int, int]:
    """How many of the published winners win here too, of those that took part here."""
    published = table("winners", setup_name)
    took_part = published[published["winner"].isin(ours["method"])]
    best = ours.groupby(_CELL)["utility"].transform("max")
    first = ours[ours["utility"] == best]
    cells = took_part.merge(ours[_CELL].drop_duplicates(), on=_CELL)
    agreeing = cells.merge(first, left_on=[*_CELL, "winner"], right_on=[*_CELL, "method"])
    return len(agreeing), len(cells)


def _flags(cells: pd.DataFrame, utilities: pd.DataFrame, found: Setup) -> list[str]:
    flags = []
    standard = cells[(cells["method"] == STANDARD) & (cells["protocol"] == "offline")]
    far = standard[standard["difference"].abs() > 0.01]
    if not far.empty:
        worst = far.sort_values("difference", key=abs).iloc[-1]
        flags.append(
            f"Standard offline is {percent(worst['utility'])} on {worst['shift']}, published "
            f"{percent(worst['published'])}: other weights, preprocessing or data; "
            "until that is explained nothing below is comparable"
        )
    if (utilities.loc[utilities["protocol"] == "amortised", "rule"] == "strict").any():
        flags.append(
            "the run uses rule 'strict'; the published budgets follow 'overshoot' (known inconsistency 5), "
            "which adapts on one batch more"
        )
    missing = sorted(set(_published(found)["method"]) - set(cells["method"]))
    if missing:
        flags.append(f"not in the run: {', '.join(card_of(method).label for method in missing)}")
    for known in known_inconsistencies(found.name):
        if known.table == "utility_sweeps" and known.touches(cells.assign(setup=found.name)).any():
            flags.append(f"known inconsistency {known.number}: {known.what}; {known.expected}")
    return flags
