"""Passes that a cell needs: the offline pass, a replay of it, a frozen tail, or a live pass of its own, and why.

The one place that decides it. The engine, its plan and the analysis ask `route`; passes that it lets share give the
same results to the last bit as passes of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempora_tta.scenarios.course import Course
from tempora_tta.scenarios.deployment import STANDARD, Deployment
from tempora_tta.scenarios.replaying import replay
from tempora_tta.scenarios.resolved import RANDOM, Resolved
from tempora_tta.scenarios.timeline import CHARGED, budget_cutoff

OFFLINE, REPLAY, TAIL, LIVE, UNKNOWN = "offline", "replay", "tail", "live", "unknown-yet"


@dataclass(frozen=True)
class Route:
    """The way a cell gets its batches, and a sentence that says why.

    >>> str(Route("tail", "the budget runs out", cutoff=3))
    'tail(3)'
    """

    kind: str
    """offline: the offline pass as it is. replay: its batches on another clock, some of them skipped. tail: the
    offline pass up to a batch, and the model frozen there. live: a pass of its own. unknown-yet: one of `possible`,
    which the offline pass will tell."""
    why: str
    cutoff: int | None = None
    """The first batch of a tail that the frozen model predicts."""
    possible: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({self.cutoff})" if self.cutoff is not None else self.kind


def route(
    deployment: Deployment | Resolved,
    offline: Course | None = None,
    *,
    history_free: bool = False,
    stateless: bool = False,
    time_aware: bool = False,
) -> Route:
    """Choose the way for a method's cell under a deployment, given the course of its offline pass and its promises.

    Before the offline pass is made (`offline=None`) a deployment that is not resolved yet will do; the answer then
    is what is certain, or `unknown-yet`.

    >>> from tempora_tta.scenarios import Continuous, Discrete
    >>> print(route(Continuous(threshold_ms=100).deployment()), route(Discrete(utilisation=0.5).deployment()))
    offline unknown-yet
    >>> print(route(Discrete(utilisation=0.5).deployment(), history_free=True))
    replay
    """
    if time_aware:
        return Route(LIVE, "it looks at the clock, so every deployment is a run of its own")
    if deployment.at_once:
        return Route(LIVE, "frames are answered at once, frozen, and learned from apart: a run of its own")
    if deployment.waits and not deployment.has_budget:
        return Route(OFFLINE, "the stream waits, so every batch is served in its order")
    if offline is None:
        return _beforehand(deployment, history_free, stateless)
    if not isinstance(deployment, Resolved):
        raise TypeError(
            "route needs a resolved deployment to follow the offline course: call resolve() first"
        )
    return _refined(deployment, offline, history_free, stateless)


def _beforehand(deployment: Deployment | Resolved, history_free: bool, stateless: bool) -> Route:
    """Routes that are known before the offline pass has told the times."""
    if deployment.waits:
        why = "the stream waits: the offline pass up to the batch where the budget runs out, if it does"
        return Route(UNKNOWN, why, possible=(OFFLINE, TAIL))
    if not deployment.has_budget and _replayable(deployment, history_free, stateless):
        return Route(REPLAY, "what it predicts does not depend on the batches served before")
    if deployment.has_budget:
        why = "depends on whether batches are lost and the budget runs out"
        return Route(
            UNKNOWN, why, possible=(OFFLINE, REPLAY, TAIL, LIVE) if history_free else (OFFLINE, TAIL, LIVE)
        )
    return Route(UNKNOWN, "depends on whether batches are lost", possible=(OFFLINE, LIVE))


def _refined(resolved: Resolved, offline: Course, history_free: bool, stateless: bool) -> Route:
    """Routes that follow from the times of the offline pass.

    Up to the first loss a fallback has nothing to do, so the deployment is followed without it; up to the first
    frozen batch all times are known.
    """
    course = followed(replace(resolved, fallback=None), offline)
    first_frozen = _first_frozen(resolved, offline, course)
    if first_frozen is None:
        if not course.evicted.size:
            return Route(
                OFFLINE, "nothing is lost and no budget runs out: the same batches in the same order"
            )
        if not _replayable(resolved, history_free, stateless):
            return Route(LIVE, _why_live(history_free))
        if resolved.has_budget and resolved.fallback is not None and resolved.fallback_cost == CHARGED:
            return Route(LIVE, "the fallback's turns decide on which batches the budget is spent")
        return Route(
            REPLAY, "it would skip batches, and what it predicts does not depend on those served before"
        )
    if not resolved.waits and resolved.fallback is not None:
        return Route(
            LIVE, "the budget runs out, and how fast the frozen model is decides what the fallback gets"
        )
    if (course.evicted < first_frozen).any() and not (history_free and stateless):
        return Route(
            LIVE,
            "it would skip batches before the budget runs out, and what it predicts then depends on which",
        )
    return Route(
        TAIL, "the offline pass until the budget runs out, and frozen from there", cutoff=first_frozen
    )


def _first_frozen(resolved: Resolved, offline: Course, course: Course) -> int | None:
    """The first batch that the budget leaves to the frozen model; None if it lasts."""
    if not resolved.has_budget or resolved.baseline_ms is None:
        return None
    order = np.argsort(offline.served)
    # A method that froze itself is not charged for what it predicts after that.
    charged_ms = np.where(offline.adapted, offline.predict_ms + offline.adapt_ms, 0.0)[order]
    cutoff = budget_cutoff(charged_ms[course.served], resolved.baseline_ms, resolved.budget_ms, resolved.rule)
    return int(course.served[cutoff]) if cutoff < course.served.size else None


def _replayable(deployment: Deployment | Resolved, history_free: bool, stateless: bool) -> bool:
    """Tell whether lost batches change nothing but the model that answers them.

    The state that answers for `latest` depends on what was served, unless frozen it is Standard anyway.
    """
    return history_free and (deployment.fallback in (None, STANDARD, RANDOM) or stateless)


def _why_live(history_free: bool) -> str:
    if not history_free:
        return "it would skip batches, and what it predicts then depends on which"
    return "it would skip batches, and the state that answers them (fallback latest) depends on which"


def followed(resolved: Resolved, offline: Course) -> Course:
    """The course that the times of an offline pass take under another deployment."""
    order = np.argsort(offline.served)
    predict_ms = offline.predict_ms[order]
    frozen_ms = None if resolved.untimed_tail else predict_ms
    return replay(resolved.timeline(), predict_ms, offline.adapt_ms[order], frozen_ms, offline.adapted[order])
