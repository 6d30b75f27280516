"""Where in a stream of many shifts a method gains, collapses, recovers or forgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def by_segment(segments: pd.DataFrame) -> pd.DataFrame:
    """Utility per method and segment, the mean over seeds, in the order in which the first seed's stream goes."""
    first = segments["seed"] == segments["seed"].min()
    places = segments[first].drop_duplicates("segment").set_index("segment")["position"]
    pooled = segments.groupby(["method", "segment"], as_index=False).agg(
        utility=("utility", "mean"),
        standard_utility=("standard_utility", "mean"),
        segment_shift=("segment_shift", "first"),
        severity=("severity", "first"),
        visit=("visit", "first"),
        batches=("batches", "sum"),
        collapsed_batches=("collapsed_batches", _sum),
        over_first_visit=("over_first_visit", "mean"),
    )
    position = pooled["segment"].map(places)
    ordered = pooled.assign(position=position.fillna(position.max() + 1))  # a stream of one's own may differ
    return ordered.sort_values(["position", "segment", "method"], ignore_index=True)


def over_the_stream(segments: pd.DataFrame) -> pd.DataFrame:
    """What became of each method over a stream, in one scenario: one row per method.

    `gain` over standard inference; `segments_below` of `segments` in which it is below it (means over seeds);
    `seeds_collapsed` of `seeds` in which it earned less for COLLAPSE_BATCHES batches on end or more, how many such
    batches there are (the mean of those seeds) and in how many of those seeds it `recovered`, that is, left them
    behind before the last segment; `change`: the last visits to shifts against the first ones, below 0 where it
    forgot, less what standard inference changed, whose visits are as easy or hard. Empty where the run cannot say:
    without standard inference, or where the stream comes nowhere twice.
    """
    pooled = by_segment(segments)
    below = pooled["utility"] < pooled["standard_utility"]
    streams = [_one_stream(part) for _, part in segments.groupby(["method", "shift", "seed"])]
    seeds = pd.DataFrame(streams).groupby("method", as_index=False)
    found = seeds.agg(
        utility=("utility", "mean"),
        gain=("gain", "mean"),
        change=("change", "mean"),
        seeds=("utility", "size"),
    )
    collapsed = pd.DataFrame(streams).query("collapsed_batches > 0").groupby("method")
    more: dict[str, dict[Any, Any]] = {
        "segments": pooled.groupby("method").size().to_dict(),
        "segments_below": below.groupby(pooled["method"]).sum().to_dict(),
        "seeds_collapsed": collapsed.size().to_dict(),
        "seeds_recovered": collapsed["recovered"].sum().to_dict(),
        "collapsed_batches": collapsed["collapsed_batches"].mean().to_dict(),
    }
    for name, values in more.items():
        found[name] = [values.get(method, 0) for method in found["method"]]
    unknown = found["gain"].isna()
    for name in ("segments_below", "seeds_collapsed", "seeds_recovered", "collapsed_batches"):
        found[name] = found[name].astype(float).mask(unknown)
    return found


def _one_stream(part: pd.DataFrame) -> dict[str, object]:
    part = part.sort_values("position")
    share = part["batches"] / part["batches"].sum()
    collapsed = part["collapsed_batches"]
    own = part["utility"] - part["standard_utility"].fillna(0.0)
    visits = own.groupby([part["segment_shift"], part["severity"].fillna(-1)]).agg(["first", "last", "size"])
    again = visits[visits["size"] > 1]
    return {
        "method": part["method"].iloc[0],
        "utility": (share * part["utility"]).sum(),
        "gain": (share * (part["utility"] - part["standard_utility"])).sum(min_count=len(part)),
        "collapsed_batches": float(_sum(collapsed)),
        "recovered": bool(collapsed.iloc[-1] == 0),
        "change": (again["last"] - again["first"]).mean() if len(again) else np.nan,
    }


def _sum(values: pd.Series) -> float:
    """Nothing where nothing is known, instead of 0."""
    return float(values.sum(min_count=1))
