"""How far results depend on settings: one method that a run has under several of them is a band, not a number; one
whose settings were chosen by labels is a ceiling, not a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tempora_tta.analysis.outcomes import over_shifts
from tempora_tta.store import Results

COLUMNS = [
    *("label", "method", "variants", "lowest", "highest", "lowest_with", "highest_with", "overlaps"),
    "settings",
]


def bands(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """One row per scenario and method that the run has with several settings: the `lowest` and `highest` utility of
    its variants, who they are, which other methods' bands it `overlaps` (there the ranking depends on tuning), and by
    name of the `settings` the utility of each.

    rows: one per method and scenario (`analysis.outcomes.over_shifts`); oracles, which those leave out, come to them.
    """
    behind = _behind(results)
    rows = pd.concat([rows, _ceiling_rows(results)], ignore_index=True)
    rows = rows[rows["method"].isin(list(behind))].assign(base=lambda frame: frame["method"].map(behind))
    several = rows.groupby("base")["method"].nunique()
    if not (several > 1).any():
        return pd.DataFrame(columns=COLUMNS)
    found = []
    for _, cell in rows.groupby("scenario", sort=False):
        spans = cell.groupby("base")["utility"].agg(["min", "max"])
        for base, part in cell.groupby("base", sort=False):
            if several[base] < 2:
                continue
            in_order = part.sort_values("utility", kind="stable")
            low, high = in_order.iloc[0], in_order.iloc[-1]
            near = (spans["min"] <= high["utility"]) & (spans["max"] >= low["utility"])
            found.append(
                {
                    "label": low["label"],
                    "method": str(base),
                    "variants": len(part),
                    "lowest": float(low["utility"]),
                    "highest": float(high["utility"]),
                    "lowest_with": low["method"],
                    "highest_with": high["method"],
                    "overlaps": ", ".join(str(other) for other in spans.index[near] if other != base),
                    "settings": {
                        _settings_name(str(method), str(base)): float(utility)
                        for method, utility in zip(part["method"], part["utility"], strict=True)
                    },
                }
            )
    return pd.DataFrame(found, columns=COLUMNS)


def ceilings(results: Results) -> list[dict[str, Any]]:
    """Per scenario, over all shifts: `label`, the `oracles` (method -> utility), and the best that is ranked beside
    them, `best` with `utility`. Empty where no settings were chosen by labels."""
    above = _ceiling_rows(results)
    if above.empty:
        return []
    ranked = over_shifts(results.contenders, results.cards)
    best = ranked[ranked["rank"] == 1].drop_duplicates("scenario").set_index("scenario")
    return [
        {
            "label": str(rows["label"].iloc[0]),
            "oracles": dict(zip(rows["method"], rows["utility"].astype(float), strict=True)),
            "best": str(best["method"][scenario]) if scenario in best.index else None,
            "utility": float(best["utility"][scenario]) if scenario in best.index else None,
        }
        for scenario, rows in above.groupby("scenario", sort=False)
    ]


def recipe_notes(manifest: Mapping[str, Any]) -> list[str]:
    """What a reader must know of the recipe file that a run's settings come from, in sentences.

    >>> recipe_notes({"recipes": {"select": "entropy", "oracle": False, "evaluated_too": ["fog"]}})
    ['Settings were tuned (by entropy) on fog, which is evaluated here: they have seen the test.']
    """
    told = manifest.get("recipes") or {}
    said = []
    if told.get("oracle") or told.get("band"):
        said.append(
            "Settings of methods called (oracle) were chosen by labels, which no deployment has: a ceiling, neither "
            "ranked nor recommended."
        )
    if told.get("evaluated_too"):
        shifts = ", ".join(told["evaluated_too"])
        by = told.get("select")
        said.append(
            f"Settings were tuned (by {by}) on {shifts}, which is evaluated here: they have seen the test."
        )
    return said


def _ceiling_rows(results: Results) -> pd.DataFrame:
    """One row per oracle and scenario, over all shifts."""
    return over_shifts(results.ceilings, results.cards).drop(columns="rank", errors="ignore")


def _settings_name(method: str, base: str) -> str:
    """What tells a variant from the others of its method.

    >>> _settings_name("tent (label-free)", "tent"), _settings_name("mine", "tent")
    ('label-free', 'mine')
    """
    own = method.removeprefix(f"{base} (")
    return own.removesuffix(")") if own != method else method


def _behind(results: Results) -> dict[str, str]:
    """What each method of the run really is, as its passes say."""
    if results.folder.packed_without_traces:
        return {}
    identities = (one.identity for one in results.folder.passes().values())
    return {str(identity.get("method")): str(identity.get("name")) for identity in identities}
