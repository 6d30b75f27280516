"""What figures and the report read of a run: pooled cells, the batches of the offline passes, names."""

from __future__ import annotations

import pandas as pd

from tempora import analysis
from tempora.analysis.frames import is_offline
from tempora.cards import Cards
from tempora.store import Results
from tempora.store.schema import SCENARIO_NAME, STREAM_COLUMNS

_PASS = ("method", *STREAM_COLUMNS, "protocol", "adapting_pass")
_BATCH = ("served", "phase", "correct", "total", "predict_ms", "adapt_ms")


def over_seeds(utilities: pd.DataFrame, cards: Cards) -> pd.DataFrame:
    """The scored rows, one per method, shift and scenario."""
    rows = analysis.scored(utilities).assign(queue=lambda frame: frame["queue"].fillna(1))
    numbers = rows[[*SCENARIO_NAME, "scenario"]].drop_duplicates(SCENARIO_NAME)
    if rows["seed"].nunique() > 1:
        rows = analysis.pool(rows, over="seed", cards=cards).merge(numbers, on=SCENARIO_NAME)
    return analysis.ordered(rows, cards)


def over_shifts(utilities: pd.DataFrame, cards: Cards) -> pd.DataFrame:
    """One row per method and scenario, of methods that were scored on every shift.

    A budget relative to the stream has other milliseconds on every shift and is one scenario all the same: its
    `value` here is their mean.
    """
    rows = over_seeds(utilities, cards)
    rows = rows.assign(value=rows.groupby("scenario")["value"].transform("mean"))
    numbers = rows[[*SCENARIO_NAME, "scenario"]].drop_duplicates(SCENARIO_NAME)
    shifts = rows.groupby(["scenario", "method"])["shift"].transform("nunique")
    rows = rows[shifts == rows["shift"].nunique()]
    return analysis.ordered(analysis.pool(rows, cards=cards).merge(numbers, on=SCENARIO_NAME), cards)


def scenario_titles(utilities: pd.DataFrame) -> dict[int, str]:
    """What each scenario is called; its queue and its rule are told where a run has several."""
    rows = utilities.drop_duplicates("scenario").set_index("scenario")
    same = rows.groupby(["protocol", "label"])
    queues, rules = (same[name].transform("nunique") > 1 for name in ("queue", "rule"))
    titles = rows["label"].mask(queues, rows["label"] + rows["queue"].map(", queue {:g}".format))
    titles = titles.mask(rules, titles + ", " + rows["rule"])
    return dict(zip(rows.index.astype(int), titles, strict=True))


def offline_batches(results: Results) -> pd.DataFrame:
    """One row per batch of every offline pass, with the columns that name it: what `analysis.overhead` reads."""
    utilities, folder = results.utilities, results.folder
    offline = utilities[is_offline(utilities, results.cards) & (utilities["status"] == "ok")]
    frames = []
    for _, row in offline.iterrows():
        trace = folder.trace(row["adapting_pass"], predictions=False)
        columns = {name: getattr(trace, name) for name in _BATCH}
        frames.append(pd.DataFrame({**{name: row[name] for name in _PASS}, **columns}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*_PASS, *_BATCH])
