"""Times as they might have been: what is drawn depends on how they came about.

Under `steady` whole rounds of the profile are drawn again: Standard's time in a round goes with those of all others,
so that an error of Standard's moves lambda and every method together. Under `measured` each method's times are off
by one factor, as far as its passes say. Recorded times are exact: they are what the deployment is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri, stdtrit

from tempora_tta.analysis.doubt.blocks import CONFIDENCE, FloatArray
from tempora_tta.published.methods import STANDARD
from tempora_tta.store import FROZEN as FROZEN_PHASE
from tempora_tta.store import StoredPass, Trace

PREDICT, ADAPT, FROZEN = "predict", "adapt", "frozen"
_FEWEST_CLEAN = 8
_MET_ONCE = 0.5
"""Standard deviation, as a fraction, that is assumed of a time measured only once."""


class Kind(NamedTuple):
    """Kind of work that a time is of."""

    method: str
    phase: str
    """predict, adapt or frozen."""
    mode: str = ""
    action: str = ""


class Factors(NamedTuple):
    """Factors on the times of one pass in each draw: (draws, batches) or (draws, 1)."""

    predict: FloatArray
    adapt: FloatArray


class Measured:
    """Times that were measured while the passes were made: a factor per method, common to all its passes.

    Its spread is what each pass says about itself: the drift around it and the error of its mean. Lambda stays, as
    drift is told against it.
    """

    def __init__(self, draws: int) -> None:
        self.draws = draws
        self.baseline = np.ones(draws)
        """Factor on lambda in each draw: (draws,)."""
        self._normal: dict[str, FloatArray] = {}

    def factors(self, stored: StoredPass, trace: Trace) -> Factors | None:
        """Return what a pass's times are multiplied by; None where these are exact."""
        spread = float(stored.facts.get("timing_uncertainty") or 0.0)
        if spread == 0:
            return None
        factor = np.exp(spread * self._drawn(str(stored.identity.get("method"))))[:, None]
        return Factors(factor, factor)

    def _drawn(self, method: str) -> FloatArray:
        if method not in self._normal:
            self._normal[method] = _generator(method).standard_normal(self.draws)
        return self._normal[method]


@dataclass(frozen=True)
class Rounds:
    """Rounds of a steady profile: the time of each kind of work, round by round, over its steady time."""

    standard: FloatArray
    """(rounds,) Standard's time in each round over its steady time."""
    kinds: Mapping[Kind, FloatArray]
    """(rounds,) the same of every kind, the amount of work allowed for; NaN where a round did not meet the kind."""


def rounds_of(profile: Mapping[str, Any]) -> Rounds | None:
    """Return the rounds in a `profile.json`, those that its steady times were fitted on; None if it holds none."""
    told = profile.get("rounds")
    if not told:
        return None
    clean, checks = (np.array([row[name] for row in told], dtype=bool) for name in ("clean", "checks"))
    used = clean & ~checks
    if used.sum() < _FEWEST_CLEAN:
        used = ~checks if (~checks).any() else np.ones(len(clean), dtype=bool)
    standard_ms = np.array([row["standard_ms"] for row in told], dtype=np.float64)[used]
    kinds = {}
    for entry in profile["entries"]:
        ms, steady_ms = np.full(len(told), np.nan), np.full(len(told), float(entry["steady_ms"]))
        ms[entry["rounds"]] = entry["ms"]
        if entry.get("amounts") is not None:
            more = np.asarray(entry["amounts"], dtype=np.float64) - float(entry["amount"])
            steady_ms[entry["rounds"]] += float(entry["per_amount_ms"]) * more
        kind = Kind(entry["method"], entry["phase"], entry.get("mode", ""), entry.get("action", ""))
        relative = np.where(steady_ms > 0, ms / np.where(steady_ms > 0, steady_ms, 1.0), 1.0)
        kinds[kind] = relative[used]
    return Rounds(standard_ms / float(profile["standard_ms"]), kinds)


class Steady:
    """Times looked up in a profile whose rounds are drawn again."""

    def __init__(self, rounds: Rounds, draws: int, seed: int = 0) -> None:
        self.draws = draws
        count = len(rounds.standard)
        self._chosen = np.random.default_rng(seed).integers(0, count, (draws, count))
        self._rounds = rounds
        self.baseline = self._drawn(rounds.standard, "baseline")
        """Standard's own error: lambda follows it, and so does everything that is told relative to it."""
        self._relative: dict[Kind, FloatArray] = {}

    def factors(self, stored: StoredPass, trace: Trace) -> Factors | None:
        method = str(stored.identity.get("method"))
        if method not in {kind.method for kind in self._rounds.kinds}:
            method = str(stored.identity.get("name"))
        predict = np.ones((self.draws, trace.num_batches))
        adapt = np.ones((self.draws, trace.num_batches))
        frozen = np.equal(trace.phase, FROZEN_PHASE)
        works = np.stack([trace.mode, trace.action], axis=1)
        for work_mode, action in np.unique(works, axis=0):
            same = (works == (work_mode, action)).all(axis=1)
            predict[:, same & ~frozen] = self.factor(Kind(method, PREDICT, work_mode, action))[:, None]
            predict[:, same & frozen] = self.factor(Kind(method, FROZEN))[:, None]
            adapt[:, same] = self.factor(Kind(method, ADAPT, work_mode, action))[:, None]
        return Factors(predict, adapt)

    def factor(self, kind: Kind) -> FloatArray:
        """Return the factors on the times of one kind of work: (draws,)."""
        known = self._known(kind)
        if known is None or known == Kind(STANDARD, PREDICT):
            return self.baseline
        if known not in self._relative:
            ratios = self._rounds.kinds[known] / self._rounds.standard
            self._relative[known] = self._drawn(ratios, str(known))
        return self.baseline * self._relative[known]

    def _known(self, kind: Kind) -> Kind | None:
        """Return the kind itself or what stands in for it: the action in another mode, any work of the phase."""
        alike = [one for one in self._rounds.kinds if (one.method, one.phase) == (kind.method, kind.phase)]
        candidates = (
            [one for one in alike if (one.mode, one.action) == (kind.mode, kind.action)],
            [one for one in alike if one.mode == kind.mode and not one.action],
            [one for one in alike if one.action == kind.action],
            alike,
        )
        found = next((some[0] for some in candidates if some), None)
        if found is None and kind.phase == FROZEN:
            return Kind(STANDARD, PREDICT)
        return found

    def _drawn(self, relative: FloatArray, name: str) -> FloatArray:
        """Return the median of the drawn rounds over that of all, widened where rounds are few: (draws,)."""
        met = int(np.isfinite(relative).sum())
        if met < 2:
            return np.exp(_MET_ONCE * _generator(name).standard_normal(self.draws))
        drawn = relative[self._chosen]
        missed = np.isnan(drawn).all(axis=1)
        drawn[missed] = np.nanmedian(relative)
        ratio = np.nanmedian(drawn, axis=1) / np.nanmedian(relative)
        reach = (1 + CONFIDENCE) / 2
        widening = float(stdtrit(met - 1, reach) / ndtri(reach))
        return np.asarray(np.exp(widening * np.log(ratio)), dtype=np.float64)


Times: TypeAlias = Measured | Steady
"""Draws of the times of a run."""


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))
