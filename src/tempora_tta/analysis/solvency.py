"""Break-even accuracy and computational insolvency: can any accuracy repay the time? (paper, section 4.3)"""

from __future__ import annotations

import math

import pandas as pd

from tempora_tta.analysis.below_standard import beside_standard
from tempora_tta.analysis.frames import STREAM, keys, offline, ordered, temporal
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.errors import unknown
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios.diagnosis import break_even_accuracy, diagnose

_TERMS = ("availability", "responsiveness", "served_accuracy", "frozen_accuracy", "adapt_accuracy", "cutoff")


def break_even(frame: pd.DataFrame, against: str | None = None, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """The accuracy each method would need to match a competitor: its cell's winner, or the method `against`.

    `factor` is what the deployment leaves of accuracy (availability * responsiveness), `break_even_accuracy`
    the competitor's utility divided by it, at zero covariance. Above 1 the method is `insolvent`: even
    predicting everything right it would lose. The competitor's own rows are left out.
    """
    rows = temporal(frame, cards)
    cell = keys(rows)
    if against is None:
        best = rows.sort_values("utility", kind="stable").groupby(cell, dropna=False).tail(1)
    elif (rows["method"] == against).any():
        best = rows[rows["method"] == against]
    else:
        raise unknown("method to compare with", against, rows["method"].unique())
    best = best[[*cell, "method", "utility"]]
    best = best.rename(columns={"method": "competitor", "utility": "competitor_utility"})
    rows = rows.merge(best, on=cell)
    rows = rows[(rows["method"] != rows["competitor"]) & rows["availability"].notna()]
    rows = rows[rows["responsiveness"].notna()]
    rows["factor"] = rows["availability"] * rows["responsiveness"]
    rows["break_even_accuracy"] = [
        break_even_accuracy(utility, factor)
        for utility, factor in zip(rows["competitor_utility"], rows["factor"], strict=True)
    ]
    rows["insolvent"] = rows["break_even_accuracy"] > 1
    shown = [
        "utility",
        "served_accuracy",
        "competitor",
        "competitor_utility",
        "factor",
        "break_even_accuracy",
    ]
    return ordered(rows[[*cell, "method", *shown, "insolvent"]], cards)


def findings(frame: pd.DataFrame, cards: Cards = CATALOGUE) -> pd.DataFrame:
    """What adaptation did to each cell, compared with standard inference: `mode` and a `sentence`."""
    rows = beside_standard(frame, cards)
    rows = rows[rows["method"] != STANDARD]
    cell, stream = keys(rows), [*keys(rows, STREAM), "method"]
    own = offline(frame, cards)[[*stream, "utility"]].rename(columns={"utility": "offline_accuracy"})
    rows = rows.merge(own.drop_duplicates(stream), on=stream, how="left")
    found = []
    for index, row in rows.iterrows():
        if any(math.isnan(row[term]) for term in _TERMS[:3]):
            continue
        terms = {term: None if pd.isna(row.get(term)) else float(row[term]) for term in _TERMS}
        utility = float(row["standard_utility"])
        known = row.get("standard_accuracy")
        accuracy = utility if known is None or math.isnan(known) else float(known)
        offline_accuracy = None if pd.isna(row["offline_accuracy"]) else float(row["offline_accuracy"])
        for finding in diagnose(float(row["utility"]), terms, accuracy, utility, offline_accuracy):
            found.append({"index": index, "mode": finding.mode, "sentence": finding.sentence})
    modes = pd.DataFrame(found, columns=["index", "mode", "sentence"]).set_index("index")
    shown = [*cell, *keys(rows, ["scenario"]), "method", "utility", "standard_utility"]
    return ordered(rows[shown].join(modes, how="inner"), cards)
