"""Settings of a recipe file in the results: those chosen by labels give a ceiling, not a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tempora_tta.analysis.cells import cells, over_all
from tempora_tta.analysis.of_run import cells_of
from tempora_tta.store import Results


def ceilings(results: Results) -> list[dict[str, Any]]:
    """Per scenario, over all shifts: `label`, the `oracles` (method -> utility), and the best that is ranked beside
    them, `best` with `utility`. Empty where no settings were chosen by labels."""
    above = _ceiling_rows(results)
    if above.empty:
        return []
    ranked = over_all(cells_of(results))
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
    if told.get("oracle"):
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
    return over_all(cells(results.ceilings, results.cards)).drop(columns="rank")
