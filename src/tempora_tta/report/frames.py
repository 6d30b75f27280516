"""What figures and the report read of a run: the batches of the offline passes, names."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pandas as pd

from tempora_tta.analysis.frames import is_offline
from tempora_tta.scenarios import Deployment, Scenario
from tempora_tta.store import Results
from tempora_tta.store.schema import STREAM_COLUMNS

USUAL_QUEUE = 1
_PASS = ("method", *STREAM_COLUMNS, "protocol", "adapting_pass")
_BATCH = ("served", "phase", "correct", "total", "predict_ms", "adapt_ms")


def scenario_titles(utilities: pd.DataFrame) -> dict[int, str]:
    """What each scenario is called; its queue and its rule are told where a run has several."""
    rows = utilities.drop_duplicates("scenario").set_index("scenario")
    same = rows.groupby(["protocol", "label"])
    queues, rules = (same[name].transform("nunique") > 1 for name in ("queue", "rule"))
    titles = rows["label"].mask(queues, rows["label"] + rows["queue"].map(", queue {:g}".format))
    titles = titles.mask(rules, titles + ", " + rows["rule"])
    return dict(zip(rows.index.astype(int), titles, strict=True))


def full_titles(results: Results) -> dict[int, str]:
    """The same for whoever sets scenarios of many runs side by side: queue and rule are told wherever they are not
    the usual ones."""
    titles = scenario_titles(results.utilities)
    for number, scenario in enumerate(results.scenarios):
        deployment, title = scenario.deployment(), titles.get(number)
        if title is None:
            continue
        if not deployment.waits and deployment.queue != USUAL_QUEUE and "queue" not in title:
            title += f", queue {deployment.queue}"
        if (
            deployment.has_budget
            and deployment.rule != _usual_rule(scenario)
            and deployment.rule not in title
        ):
            title += f", {deployment.rule}"
        titles[number] = title
    return titles


def _usual_rule(scenario: Scenario) -> object:
    """Of this kind of scenario; of one without a rule of its own, any deployment's."""
    kinds = [kind for kind in (scenario, Deployment) if is_dataclass(kind)]
    rules = (one.default for kind in kinds for one in fields(kind) if one.name == "rule")
    return next(rules)


def offline_batches(results: Results) -> pd.DataFrame:
    """One row per batch of every offline pass, with the columns that name it: what `analysis.overhead` reads."""
    utilities, folder = results.contenders, results.folder
    offline = utilities[is_offline(utilities, results.cards) & (utilities["status"] == "ok")]
    frames = []
    for _, row in offline.iterrows():
        trace = folder.trace(row["adapting_pass"], predictions=False)
        columns = {name: getattr(trace, name) for name in _BATCH}
        frames.append(pd.DataFrame({**{name: row[name] for name in _PASS}, **columns}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*_PASS, *_BATCH])
