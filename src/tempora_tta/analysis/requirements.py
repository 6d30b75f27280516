"""What a deployment requires besides utility: that most responses are in time, that few batches are lost, and that
neither energy nor memory runs out.

A percentile is that of all responses of a method, pooled over shifts and seeds. A lost batch is never answered. Every
stream has the whole budget of joules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from tempora_tta.analysis.replays import Answers
from tempora_tta.analysis.tails import FloatArray
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import percentiles
from tempora_tta.scenarios.utility import PERCENTILES

RESOURCES = {
    "budget_j": ("overhead_j", "overhead", "J"),
    "memory_mb": ("memory_mb", "memory", "MB"),
}
"""Limit -> the column that it is of, what that is, and its unit."""


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Limits that a method has to keep to be recommended."""

    p90_ms: float | None = None
    """So many ms within which 90 % of all batches that arrive are answered."""
    p95_ms: float | None = None
    p99_ms: float | None = None
    availability: float | None = None
    """The least fraction of the batches that is answered at all."""
    budget_j: float | None = None
    """Joules of overhead that adapting may cost over a stream."""
    memory_mb: float | None = None
    """Megabytes that the method may hold on the device, its network included."""

    def __post_init__(self) -> None:
        for percent, limit_ms in self.limits_ms.items():
            check_bound(percent, limit_ms)
        if self.availability is not None and not 0 < self.availability <= 1:
            raise TemporaError(
                f"availability={self.availability!r}: is a fraction of the batches above 0, at most 1, as in 0.99"
            )

        for name in RESOURCES:
            limit = getattr(self, name)
            if limit is not None and not 0 <= limit < math.inf:
                raise TemporaError(f"{name}={limit!r}: is a limit; give a number, 0 or above")

    @property
    def limits_ms(self) -> dict[int, float]:
        """Percentile -> ms."""
        given = {90: self.p90_ms, 95: self.p95_ms, 99: self.p99_ms}
        return {percent: limit_ms for percent, limit_ms in given.items() if limit_ms is not None}

    @property
    def given(self) -> bool:
        return self.of_responses or any(getattr(self, name) is not None for name in RESOURCES)

    @property
    def of_responses(self) -> bool:
        """Whether it asks for something that depends on when batches arrive."""
        return bool(self.limits_ms) or self.availability is not None

    def __str__(self) -> str:
        parts = [f"p{percent} at most {limit_ms:g} ms" for percent, limit_ms in self.limits_ms.items()]
        if self.availability is not None:
            parts.append(f"availability at least {self.availability:.4g}")
        for name, (_, what, unit) in RESOURCES.items():
            if (limit := getattr(self, name)) is not None:
                parts.append(f"{what} at most {limit:g} {unit}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Kept:
    """Who keeps the requirements."""

    answers: Answers
    """Of those who do."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Method -> the number that says why not."""
    percentiles_ms: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Of every method: those percentiles that were asked for."""


def kept(answers: Answers, required: Requirements) -> Kept:
    """The answers of those methods that keep what is required; an error where the responses are too few to tell."""
    excluded: dict[str, str] = {}
    found: dict[str, dict[int, float]] = {}
    for method in answers.rows["method"].unique():
        pooled = np.concatenate([times for key, times in answers.response_ms.items() if key[0] == method])
        found[method] = {percent: _percentile(pooled, percent) for percent in required.limits_ms}
        rows = answers.rows[answers.rows["method"] == method]
        reason = _too_slow(found[method], required) or _too_few(pooled, required) or _too_much(rows, required)
        if reason is not None:
            excluded[method] = reason
    rows = answers.rows[~answers.rows["method"].isin(list(excluded))]
    return Kept(replace(answers, rows=rows.reset_index(drop=True)), excluded, found)


def _too_much(rows: pd.DataFrame, required: Requirements) -> str | None:
    for name, (column, what, unit) in RESOURCES.items():
        limit = getattr(required, name)
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


def check_known(answers: Answers, required: Requirements) -> None:
    """Refuse limits on what this run knows of nobody."""
    for name, (column, what, _) in RESOURCES.items():
        if getattr(required, name) is not None and answers.rows[column].isna().all():
            raise TemporaError(
                f"{name}: {what} is not known in this run; its times come from a clock without it. Profile the "
                "device where a driver counts it (an NVIDIA GPU; energy also on a processor with RAPL that nobody "
                "else uses): tempora profile --out profile.json, then tempora run --clock profile.json"
            )


def check_bound(percent: int, limit_ms: float) -> None:
    if not 0 < limit_ms < math.inf:
        raise TemporaError(
            f"p{percent}_ms={limit_ms!r}: is the ms within which {percent} % of the batches are answered; give a "
            "number above 0"
        )


def _percentile(response_ms: FloatArray, percent: int) -> float:
    """NaN where some responses were not timed."""
    needed = PERCENTILES[percent]
    if response_ms.size < needed:
        raise TemporaError(
            f"p{percent}: not known from {response_ms.size} responses, it takes {needed}: run more batches, shifts "
            "or seeds, or ask for a lower percentile"
        )
    answered = response_ms[~np.isposinf(response_ms)]
    value = percentiles(answered, response_ms.size)[f"response_p{percent}_ms"]
    return math.nan if value is None else value


def _too_slow(found: Mapping[int, float], required: Requirements) -> str | None:
    for percent, limit_ms in required.limits_ms.items():
        value = found[percent]
        if math.isnan(value):
            return f"its p{percent} is not known: its frozen batches were not timed"
        if math.isinf(value):
            return f"more than {100 - percent} % of the batches are lost, so there is no p{percent}"
        if value > limit_ms:
            return f"its p{percent} is {value:.1f} ms, above {limit_ms:g}"
    return None


def _too_few(response_ms: FloatArray, required: Requirements) -> str | None:
    available = float((~np.isposinf(response_ms)).mean())
    if required.availability is None or available >= required.availability:
        return None
    return f"its availability is {available:.4f}, below {required.availability:g}"
