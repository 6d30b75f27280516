"""The numbers of the paper from a run, or from its printed times alone, and a judgement on each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta.analysis.cells import ALL, by_shift, winners, wins_of
from tempora_tta.analysis.paper import (
    below_standard,
    buffering,
    correlation_summary,
    correlations,
    deficit,
    overhead,
    temporal_factors,
)
from tempora_tta.errors import TemporaError
from tempora_tta.published.elements import DRAWS_NOTHING, KEYS, UNEVEN, numbers
from tempora_tta.published.inconsistencies import known_inconsistencies
from tempora_tta.published.methods import STANDARD
from tempora_tta.published.profiles import profile
from tempora_tta.published.reading import OFFLINE
from tempora_tta.published.setups import Setup
from tempora_tta.scenarios import Discrete, Scenario
from tempora_tta.scenarios.grids import published_grid

EXACT, ORDER, SEEDS, TIMING = "exact", "within order", "within seeds", "within timing"
MEANS, INFERRED, GIVEN = "hidden by means", "inferred times", "given"
DERIVED, MISPRINT, DIFFERS, NOT_RUN = "derived", "known misprint", "differs", "not run"
CLASSES: Mapping[str, str] = {
    EXACT: "rounds to what is printed",
    ORDER: "within 0.02 pp (Standard 0.03): a method that draws nothing, in the published order",
    SEEDS: "within two standard deviations over the seeds of the run",
    TIMING: "a term of time, within what mean times leave open: 1 pp of α, β; 1.5 of κ; one batch of m; 2 % of ms",
    MEANS: "a term of time of a method whose times vary from batch to batch, or a spread, which printed means hide",
    INFERRED: "a term of time of a setup whose times are not printed (ImageNet-R and -V2, CIFAR-10-C)",
    DERIVED: "a winner, rank, count or correlation that differs while every utility behind it is explained",
    GIVEN: "what the clock was given: printed times, or rounded from them",
    MISPRINT: "a known inconsistency of the paper",
    DIFFERS: "not explained",
    NOT_RUN: "needs the data, or own times, which are not compared",
}
ENOUGH_SEEDS = 3
_TIME = {"availability": 0.01, "adapted_fraction": 0.01, "responsiveness": 0.015, "cutoff": 1.0}
_IN_MS = ("waitspan_ms", "response_ms", "response_sd_ms")
_PRINTED_TIMES = ("rn50_inc", "vit_inc")
_DERIVED = ("winner", "wins", "rank", "spearman_r", "losses", "mean_gap", "count", "share")

Tables = Mapping[str, pd.DataFrame]
"""Rows under the names of `published.table`, with its keys and columns."""


def from_run(cells: pd.DataFrame, batches: pd.DataFrame | None, found: Setup) -> Tables:
    """Return the paper's tables of a run on one setup, as far as it has them; `batches`: of its offline passes."""
    rows = cells.assign(
        covariance=cells.get("within_covariance", cells["covariance"]).fillna(cells["covariance"])
    )
    won = winners(by_shift(cells))
    makers: dict[str, Callable[[], pd.DataFrame]] = {
        OFFLINE: lambda: rows[rows["reference"]].assign(accuracy=rows["utility"]),
        "utility_sweeps": lambda: rows[~rows["reference"]],
        "decomposition": lambda: rows[~rows["reference"]],
        "ablation": lambda: rows[~rows["reference"]],
        "winners": lambda: won,
        "win_counts": lambda: pd.DataFrame(list(wins_of(won).items()), columns=["method", "wins"]),
        "correlation": lambda: _with_summary(correlations(cells)),
        "deficit": partial(deficit, cells),
        "below_standard": partial(below_standard, cells),
        "temporal_factors": partial(temporal_factors, cells),
        "buffering": lambda: _variants(buffering(cells)),
        **({} if batches is None else {"overhead": partial(overhead, batches, found.baseline_ms)}),
    }
    made = {}
    for name, make in makers.items():
        try:
            made[name] = make().assign(setup=found.name)
        except TemporaError:  # the run lacks what this table is about
            continue
    return made


def _with_summary(rows: pd.DataFrame) -> pd.DataFrame:
    summary = correlation_summary(rows)
    means, deviations = (summary.assign(shift=name, spearman_r=summary[name]) for name in ("mean", "std"))
    return pd.concat([rows, means, deviations], ignore_index=True)


def _variants(rows: pd.DataFrame) -> pd.DataFrame:
    """Return buffered, unbuffered and the change as rows of their own."""
    parts = []
    for variant in ("unbuffered", "buffered", "delta"):
        ends = [str(name) for name in rows if str(name).endswith(f"_{variant}")]
        names = {name: name.removesuffix(f"_{variant}") for name in ends}
        parts.append(rows[["method", *names]].rename(columns=names).assign(variant=variant))
    return pd.concat(parts, ignore_index=True)


# -- without data --------------------------------------------------------------------------------------------


def from_times(found: Setup) -> Tables:
    """Return what follows from the printed mean times of a setup alone: its terms of time."""
    cells, queues = _cells_by_time(found), _cells_by_time(found, buffered_too=True)
    rows = queues[queues["label"] == "ρ 100 %"]
    variants = rows.assign(variant=np.where(rows["queue"] == 0, "unbuffered", "buffered"))
    both = variants.pivot(index="method", columns="variant", values="availability")
    delta = (both["buffered"] - both["unbuffered"]).rename("availability").reset_index()
    strict = {point.label for point in found.strict}
    strictest = cells[cells["label"].isin(strict)]
    factors = [
        strictest[["method", "protocol", "label"]].assign(factor=name, factor_value=strictest[name])
        for name in ("availability", "responsiveness", "cutoff")
    ]
    times = pd.DataFrame(
        [(method, *pair) for method, pair in _pairs(found).items()],
        columns=["method", "predict_ms", "adapt_ms"],
    )
    service_ms = times["predict_ms"] + times["adapt_ms"]
    whole = cells.assign(shift=ALL, served_batches=cells["served_batches"] * len(found.shifts))
    made: dict[str, pd.DataFrame] = {
        "decomposition": pd.concat([whole, *(cells.assign(shift=shift) for shift in found.shifts)]),
        "temporal_factors": pd.concat(factors),
        "buffering": pd.concat([variants.drop(columns="label"), delta.assign(variant="delta")]),
        "overhead": times.assign(
            service_ms=service_ms,
            intrinsic_ms=(times["predict_ms"] - found.baseline_ms).clip(lower=0.0),
            slowdown=service_ms / found.baseline_ms,
            adapt_over_baseline=times["adapt_ms"] / found.baseline_ms,
        ),
    }
    return {name: rows.assign(setup=found.name) for name, rows in made.items()}


def _pairs(found: Setup) -> dict[str, tuple[float, float]]:
    return {method: pair for method, pair in profile(found.name).items() if isinstance(pair, tuple)}


@cache
def _cells_by_time(found: Setup, buffered_too: bool = False) -> pd.DataFrame:
    """Return every method under every scenario, all batches alike; frozen, it takes Standard's time."""
    frozen_ms, rows = _pairs(found)["standard"][0], []
    scenarios: list[Scenario] = published_grid(found.name, "overshoot")
    if buffered_too:
        scenarios = [Discrete(interval_ms=found.baseline_ms, queue=queue, name="ρ 100 %") for queue in (0, 1)]
    for method, (predict_ms, adapt_ms) in _pairs(found).items():
        for scenario in scenarios:
            deployment = scenario.deployment()
            score = deployment.score(
                accuracy=np.ones(found.batches),
                frozen_accuracy=np.ones(found.batches),
                predict_ms=predict_ms,
                adapt_ms=adapt_ms,
                frozen_ms=frozen_ms,
                baseline_ms=found.baseline_ms,
            )
            course, terms = score.course, dict(score.terms)
            exhausted = terms["adapted_fraction"] != 1
            rows.append(
                {
                    "method": method,
                    "protocol": scenario.protocol,
                    "label": scenario.label,
                    "queue": deployment.queue,
                    **{name: terms[name] for name in ("availability", "responsiveness", "adapted_fraction")},
                    "cutoff": terms["cutoff"] if exhausted else math.nan,
                    "served_batches": course.served.size,
                    "waitspan_ms": course.waitspan_ms,
                    "response_ms": course.response_ms.mean(),
                    "response_sd_ms": course.response_ms.std(),
                }
            )
    return pd.DataFrame(rows)


def hours(found: Setup) -> float:
    """Return about how long the setup takes on the paper's machine: one offline pass, live passes, frozen tails."""
    cells = _cells_by_time(found)
    milliseconds = 0.0
    for method, (predict_ms, adapt_ms) in _pairs(found).items():
        own, service_ms = cells[cells["method"] == method], predict_ms + adapt_ms
        live = own[(own["protocol"] == Discrete.protocol) & (own["availability"] < 1)]
        tails = own[own["adapted_fraction"] < 1]
        frozen = found.batches * (1 - tails["adapted_fraction"]).sum()
        milliseconds += (found.batches + live["served_batches"].sum()) * service_ms + frozen * predict_ms
    return milliseconds * len(found.shifts) / 3.6e6


# -- judgement -----------------------------------------------------------------------------------------------


def compared(
    made: Mapping[str, Tables], deviations: Mapping[str, pd.DataFrame] | None = None, own_times: bool = False
) -> pd.DataFrame:
    """Put every printed number next to ours: `found` and its `verdict`, one of `CLASSES`.

    Args:
        made: by setup, the tables that there are.
        deviations: by setup, `utility_sd` over three seeds or more, by shift, method, protocol and label.
        own_times: terms of time are those of another machine, and not compared.
    """
    rows, parts = numbers(), []
    for (name, table_name), part in rows.groupby(["setup", "table"], sort=False):
        ours = made.get(str(name), {}).get(str(table_name))
        spread = (deviations or {}).get(str(name))
        parts.append(
            part.assign(
                found=np.nan if ours is None else _looked_up(part, ours),
                utility_sd=np.nan if spread is None else _looked_up(part.assign(column="utility_sd"), spread),
            )
        )
    rows = pd.concat(parts).sort_index()
    rows["misprint"] = _misprinted(rows)
    rows["verdict"] = [_verdict(row, own_times) for row in rows.to_dict("records")]
    return _with_derived(rows)


def _looked_up(part: pd.DataFrame, ours: pd.DataFrame) -> pd.Series[Any]:
    """Return our value for each printed number, by the keys that both have."""
    shared = [key for key in KEYS if key in ours and ours[key].notna().any() and part[key].notna().any()]
    ours = ours.drop_duplicates(shared)
    found = {
        column: ours.set_index(shared)[column].to_dict()
        for column in part["column"].unique()
        if column in ours
    }
    places = part[shared].itertuples(index=False, name=None)
    keys = [place if len(shared) > 1 else place[0] for place in places]
    values = [
        found.get(column, {}).get(key, np.nan) for column, key in zip(part["column"], keys, strict=True)
    ]
    return pd.Series(values, part.index, dtype=object)


def _misprinted(rows: pd.DataFrame) -> pd.Series[bool]:
    wrong = pd.Series(False, index=rows.index)
    for known in known_inconsistencies():
        if known.misprint:
            cells = known.touches(rows) & (rows["table"] == known.table)
            wrong |= cells & rows["column"].isin(known.columns)
    return wrong


def _verdict(row: Mapping[Hashable, Any], own_times: bool) -> str:
    ours, column, half = row["found"], row["column"], row["half_unit"]
    meaning = row["factor"] if column == "factor_value" else column
    overheads = row["table"] == "overhead"
    timed = overheads or meaning in (*_TIME, *_IN_MS, "served_batches")
    if ours is None or ours != ours or (timed and own_times):
        return NOT_RUN
    if column == "winner":
        return EXACT if ours == row["printed"] else DIFFERS
    distance = abs(float(ours) - float(row["printed"])) - half - 1e-9
    if overheads:
        return GIVEN
    if distance <= 0:
        return EXACT
    if row["misprint"]:
        return MISPRINT
    if timed:
        return _of_time(row, distance, meaning)
    if row["method"] in DRAWS_NOTHING and distance <= (0.0003 if row["method"] == STANDARD else 0.0002):
        return ORDER
    return SEEDS if distance <= 2 * row["utility_sd"] else DIFFERS


def _of_time(row: Mapping[Hashable, Any], distance: float, meaning: str) -> str:
    """Judge a term of time that does not round to what is printed, under printed mean times."""
    if distance <= _TIME.get(meaning, 0.02 * float(row["printed"])):
        return TIMING
    if row["setup"] not in _PRINTED_TIMES:
        return INFERRED
    return MEANS if row["method"] in UNEVEN or meaning == "response_sd_ms" else DIFFERS


def deviations(utilities: pd.DataFrame) -> pd.DataFrame | None:
    """Return `utility_sd` over the seeds of a run, by shift and over all; None of fewer than three seeds."""
    if utilities["seed"].nunique() < ENOUGH_SEEDS:
        return None
    cell = ["method", "protocol", "label"]
    whole = utilities.groupby([*cell, "seed"])["utility"].mean().reset_index().assign(shift=ALL)
    both = pd.concat([utilities, whole], ignore_index=True)
    return both.groupby(["shift", *cell])["utility"].std(ddof=1).rename("utility_sd").reset_index()


def _with_derived(rows: pd.DataFrame) -> pd.DataFrame:
    """Explain what follows from other numbers where all those are explained."""
    derived = rows["column"].isin(_DERIVED) & (rows["verdict"] == DIFFERS)
    doubtful = set(rows.loc[(rows["verdict"] == DIFFERS) & ~derived, "setup"])
    explained = derived & ~rows["setup"].isin(doubtful)
    return rows.assign(verdict=rows["verdict"].where(~explained, DERIVED))
