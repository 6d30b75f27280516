"""The batches of the offline passes, and names of scenarios, as charts and the page read them."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.cells import is_offline
from tempora_tta.store import Results
from tempora_tta.store.schema import STREAM_COLUMNS

_PASS = ("method", *STREAM_COLUMNS, "protocol", "adapting_pass")
_BATCH = ("served", "phase", "correct", "total", "predict_ms", "adapt_ms")


def scenario_titles(utilities: pd.DataFrame) -> dict[int, str]:
    """Return the title of each scenario; with its queue and its rule where a run has several."""
    rows = utilities.drop_duplicates("scenario").set_index("scenario")
    same = rows.groupby(["protocol", "label"])
    queues, rules = (same[name].transform("nunique") > 1 for name in ("queue", "rule"))
    titles = rows["label"].mask(queues, rows["label"] + rows["queue"].map(", queue {:g}".format))
    titles = titles.mask(rules, titles + ", " + rows["rule"])
    return dict(zip(rows.index.astype(int), titles, strict=True))


def offline_batches(results: Results) -> pd.DataFrame:
    """Return one row per batch of every offline pass, as `analysis.overhead` reads it."""
    utilities, folder = results.contenders, results.folder
    offline = utilities[is_offline(utilities, results.cards) & (utilities["status"] == "ok")]
    frames = []
    for _, row in offline.iterrows():
        trace = folder.trace(row["adapting_pass"], predictions=False)
        columns = {name: getattr(trace, name) for name in _BATCH}
        frames.append(pd.DataFrame({**{name: row[name] for name in _PASS}, **columns}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*_PASS, *_BATCH])
