"""Which methods keep the limits of a question: on responses, availability, energy and memory.

A percentile is that of all responses of a method, pooled over shifts and seeds. A lost batch is never answered. Every
stream has the whole budget of joules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from tempora_tta.analysis.question import RESOURCES, Question
from tempora_tta.analysis.replays import Answers
from tempora_tta.analysis.tails import FloatArray
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import percentiles
from tempora_tta.scenarios.utility import PERCENTILES


@dataclass(frozen=True)
class WithinLimits:
    """The methods that keep the limits."""

    answers: Answers
    """Of those that do."""
    missed: Mapping[str, str] = field(default_factory=dict)
    """Method -> the number that says why not."""
    percentiles_ms: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Of every method: the percentiles that were asked for."""


def within_limits(answers: Answers, question: Question) -> WithinLimits:
    """Return the answers of the methods that keep the limits; raise TemporaError where the run cannot tell."""
    for name, (column, what, _) in RESOURCES.items():
        if getattr(question, name) is not None and answers.rows[column].isna().all():
            raise TemporaError(
                f"{name}: {what} is not known in this run; its times come from a clock without it. Profile the "
                "device where a driver counts it (an NVIDIA GPU): tempora profile --out profile.json, then "
                "tempora run --clock profile.json"
            )
    missed: dict[str, str] = {}
    found: dict[str, dict[int, float]] = {}
    for method in answers.rows["method"].unique():
        pooled = np.concatenate([times for key, times in answers.response_ms.items() if key[0] == method])
        found[method] = {percent: _percentile(pooled, percent) for percent in question.limits_ms}
        rows = answers.rows[answers.rows["method"] == method]
        reason = _too_slow(found[method], question) or _too_few(pooled, question) or _too_much(rows, question)
        if reason is not None:
            missed[method] = reason
    rows = answers.rows[~answers.rows["method"].isin(list(missed))]
    return WithinLimits(replace(answers, rows=rows.reset_index(drop=True)), missed, found)


def _percentile(response_ms: FloatArray, percent: int) -> float:
    """Return a percentile of all responses; NaN where some were not timed."""
    needed = PERCENTILES[percent]
    if response_ms.size < needed:
        raise TemporaError(
            f"p{percent}: not known from {response_ms.size} responses, it takes {needed}: run more batches, shifts "
            "or seeds, or ask for a lower percentile"
        )
    answered = response_ms[~np.isposinf(response_ms)]
    value = percentiles(answered, response_ms.size)[f"response_p{percent}_ms"]
    return math.nan if value is None else value


def _too_slow(found: Mapping[int, float], question: Question) -> str | None:
    for percent, limit_ms in question.limits_ms.items():
        value = found[percent]
        if math.isnan(value):
            return f"its p{percent} is not known: its frozen batches were not timed"
        if math.isinf(value):
            return f"more than {100 - percent} % of the batches are lost, so there is no p{percent}"
        if value > limit_ms:
            return f"its p{percent} is {value:.1f} ms, above {limit_ms:g}"
    return None


def _too_few(response_ms: FloatArray, question: Question) -> str | None:
    answered = float((~np.isposinf(response_ms)).mean())
    if question.availability is None or answered >= question.availability:
        return None
    return f"its availability is {answered:.4f}, below {question.availability:g}"


def _too_much(rows: pd.DataFrame, question: Question) -> str | None:
    for name, (column, what, unit) in RESOURCES.items():
        limit = getattr(question, name)
        if limit is None:
            continue
        values = rows[column].astype(float)
        if values.isna().any():
            return f"its {what} is not known"
        if values.max() > limit:
            most = rows["shift"].iloc[int(values.to_numpy().argmax())]
            where = f" on {most}" if values.nunique() > 1 else ""
            return f"its {what} is {values.max():.4g} {unit}{where}, above {limit:g}"
    return None
