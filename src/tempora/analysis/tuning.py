"""How far results depend on settings: one method that a run has under several of them is a band, not a number."""

from __future__ import annotations

import pandas as pd

from tempora.store import Results

COLUMNS = ["label", "method", "variants", "lowest", "highest", "lowest_with", "highest_with", "overlaps"]


def bands(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """One row per scenario and method that the run has with several settings: the `lowest` and `highest` utility of
    its variants, who they are, and which other methods' bands it `overlaps`: there the ranking depends on tuning.

    rows: one per method and scenario (`report.frames.over_shifts`).
    """
    behind = _behind(results)
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
                }
            )
    return pd.DataFrame(found, columns=COLUMNS)


def _behind(results: Results) -> dict[str, str]:
    """What each method of the run really is, as its passes say."""
    if results.folder.packed_without_traces:
        return {}
    identities = (one.identity for one in results.folder.passes().values())
    return {str(identity.get("method")): str(identity.get("name")) for identity in identities}
