"""Two sets of cells side by side; a run next to the published tables, and the printed numbers not to trust."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tempora_tta._numbers import percent
from tempora_tta.errors import TemporaError
from tempora_tta.published.inconsistencies import known_inconsistencies
from tempora_tta.published.methods import STANDARD, card_of
from tempora_tta.published.reading import table
from tempora_tta.published.setups import Setup, setup
from tempora_tta.published.utilities import as_utilities

_CELL = ["shift", "protocol", "label"]
_SCENARIO = ["protocol", "value", "baseline_ms"]
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
    """Warnings to read before the comparison, in sentences."""


def side_by_side(
    left: pd.DataFrame, right: pd.DataFrame, cell: Sequence[str], ranks: dict[str, str]
) -> pd.DataFrame:
    """Return the methods that both have in a cell, ranked among each other; `ranks`: new column -> utilities."""
    both = left.merge(right, on=[*cell, "method"])
    within = both.groupby(list(cell), dropna=False)
    return both.assign(
        **{
            rank: within[value].rank(method="min", ascending=False).astype(int)
            for rank, value in ranks.items()
        }
    )


def agreement(cells: pd.DataFrame, cell: Sequence[str], other: str) -> dict[str, float]:
    """Return how far `utility` and the column `other` agree: in points, and in the order of three methods or more."""
    correlations = [
        group["utility"].rank().corr(group[other].rank())
        for _, group in cells.groupby(list(cell), sort=False)
        if len(group) > 2
    ]
    return {
        "mean_absolute_difference": float(cells["difference"].abs().mean()),
        "rank_correlation": float(pd.Series(correlations, dtype=float).mean()),
    }


def compare(utilities: pd.DataFrame, setup_name: str) -> Comparison:
    """Put a run's utilities next to the published ones of a setup.

    Scenarios are matched by what the paper holds fixed: utilisation for Discrete, milliseconds for
    thresholds and budgets (multiples of lambda for the budgets of CIFAR-10-C). Aggregates are compared if
    the run has every shift.
    """
    found = setup(setup_name)
    ours, printed = _on_the_grid(utilities, found), _published(found)
    cells = side_by_side(printed, ours, _CELL, {"rank": "utility", "published_rank": "published"})
    if cells.empty:
        raise TemporaError(
            f"nothing to compare with {setup_name!r}: the run needs one of its methods on one of its shifts "
            f"({', '.join(found.shifts[:3])}, ...) and a scenario of its grid, such as offline"
        )
    cells.insert(list(cells).index("rank"), "difference", cells["utility"] - cells["published"])
    cells["note"] = ""
    flags = _flags(cells, utilities)
    if missing := sorted(set(printed["method"]) - set(cells["method"])):
        flags.append(f"not in the run: {', '.join(card_of(method).label for method in missing)}")
    for known in known_inconsistencies(setup_name):
        touched = known.touches(cells.assign(setup=setup_name))
        said = f"known inconsistency {known.number}: {known.what};"
        if known.table == "utility_sweeps" and touched.any():
            flags.append(f"{said} {known.expected}")
        if known.misprint and "utility" in known.columns:
            cells.loc[touched, "note"] = f"{said} expected {known.expected}"
    return Comparison(setup_name, cells, _summary(cells, ours, setup_name), flags)


def _published(found: Setup) -> pd.DataFrame:
    parts = ["aggregate"] if found.dataset == "cifar10_c" else ["shifts", "aggregate"]
    rows = pd.concat([as_utilities(found.name, part) for part in parts], ignore_index=True)
    rows = rows.rename(columns={"utility": "published"}).drop_duplicates([*_CELL, "method"])
    rows["half_unit"] = (rows["utility_hi"] - rows["utility_lo"]) / 2
    return rows[[*_CELL, "value", "method", "published", "half_unit"]]


def _on_the_grid(utilities: pd.DataFrame, found: Setup) -> pd.DataFrame:
    """Return the run's rows that stand for a published cell, averaged over seeds, with the paper's labels.

    Where the run has all shifts, their mean comes too: the streams are equally long.
    """
    rows = utilities[utilities["utility"].notna() & (utilities["queue"].isna() | (utilities["queue"] == 1))]
    labels = rows[_SCENARIO].drop_duplicates()
    labels["label"] = [_label(found, *scenario) for scenario in labels.itertuples(index=False)]
    rows = rows.drop(columns="label").merge(labels.dropna(subset="label"), on=_SCENARIO)
    apart = rows.groupby([*_CELL, "method"])["utility"].mean().reset_index()
    by_cell = apart[apart["shift"].isin(found.shifts)].groupby(["protocol", "label", "method"])["utility"]
    # One shift alone is no aggregate.
    means = by_cell.mean()[by_cell.size() == max(2, len(found.shifts))].reset_index()
    return pd.concat([apart, means.assign(shift="all")], ignore_index=True)


def _label(found: Setup, protocol: str, value: float, baseline_ms: float) -> str | None:
    """Return what the paper calls a scenario."""
    for point in found.grid:
        relative = point.protocol == "discrete" or point.label.endswith("λ")
        pressure = (
            (value / baseline_ms, point.value / found.baseline_ms) if relative else (value, point.value)
        )
        close = math.isclose(*pressure, rel_tol=_RELATIVE_TOLERANCE if relative else 1e-9)
        if point.protocol == protocol and close:
            return point.label
    return "offline" if protocol == "offline" else None


def _summary(cells: pd.DataFrame, ours: pd.DataFrame, setup_name: str) -> dict[str, float]:
    """Agreement in numbers; of the published winners, those count that took part here."""
    trusted = cells[cells["note"] == ""]
    gap = trusted["difference"].abs()
    best = ours.assign(best=ours.groupby(_CELL)["utility"].transform("max")).rename(
        columns={"method": "winner"}
    )
    winners = table("winners", setup_name)
    winners = winners[winners["winner"].isin(ours["method"])].merge(ours[_CELL].drop_duplicates(), on=_CELL)
    return {
        "numbers": len(cells),
        "known_misprints": len(cells) - len(trusted),
        "largest_difference": float(gap.max()),
        "within_rounding": int((gap <= trusted["half_unit"] + 1e-9).sum()),
        **agreement(trusted, _CELL, "published"),
        "winners_agreeing": len(winners.merge(best[best["utility"] == best["best"]], on=[*_CELL, "winner"])),
        "winners_compared": len(winners),
    }


def _flags(cells: pd.DataFrame, utilities: pd.DataFrame) -> list[str]:
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
    return flags
