"""The specification: what Tempora computes, in one loop with nothing clever in it.

One method meets one stream under one deployment (paper, section 3). The engine shares passes between scenarios,
resumes them and spreads them over processes; tests hold its numbers to this loop, to the bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from tempora_tta.data import Stream
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.predictions import classes_of
from tempora_tta.methods.contract import UNTOLD
from tempora_tta.scenarios import Resolved, Score


def naive(method: Calls, standard: Calls, stream: Stream, deployment: Resolved) -> Score:
    """Serve the stream batch by batch, and score what the deployment got.

    Args:
        method: Timed calls into the method, warmed up if it is told the time.
        standard: Timed calls into standard inference; a fallback takes its time, or is it.
        stream: The batches and their labels.
        deployment: Arrivals, queue, patience, budget and fallback, as numbers.
    """
    method.begin()
    timeline = deployment.timeline()  # says which batch is next, when it starts, and whether it may adapt
    right = np.zeros((stream.num_batches, stream.batch_size), dtype=float)
    states, last = [(-math.inf, method.snapshot())], -1  # after each adaptation: its end, and the state
    while (turn := timeline.next()) is not None:
        # One batch; or all frames that wait, where they are answered at once.
        index, x, stands = turn.batch, torch.cat([stream.batch(i) for i in turn.batches]), False
        slow = method.clock.residual(stream.name, stream.seed, index) if deployment.residuals else 1.0
        now = method.moment(turn.start_ms, turn, timeline, deployment)
        if turn.fallback and deployment.guesses:  # what is expected of a random answer counts
            timeline.record(0.0, 0.0)
            right[index] = deployment.chance
            continue
        if turn.fallback:  # the batch was lost: standard inference answers, or the latest finished state
            scores, predict_ms = standard.predict(index, x, UNTOLD)
            if deployment.fallback == "latest":
                finished = [state for done, state in states if done <= turn.start_ms]
                scores = _frozen_scores(method, finished[-1], x)
            stands = timeline.record(predict_ms * slow, 0.0)
        elif turn.adapting:
            before = method.snapshot()
            if stream.order.resets_between(last, turn.batches[-1]) and not method.method.frozen:
                method.reset()  # the stream's own policy
            last, froze_itself = turn.batches[-1], method.method.frozen
            scores, predict_ms = method.predict(index, x, now, froze_itself)
            mode, at_ms = method.said[0], turn.start_ms + predict_ms * slow  # the answer goes out
            action, adapt_ms = method.adapt(index, method.moment(at_ms, turn, timeline, deployment, True))
            method.count(mode, predict_ms * slow, action, adapt_ms * slow)
            stands = timeline.record(predict_ms * slow, adapt_ms * slow, adapted=not froze_itself)
            if stands:
                states.append((timeline.free_ms, method.snapshot()))
            else:  # rule strict: it would overrun the budget, so it never happened
                method.restore(before)
        if not stands:  # the budget is used up: the model is frozen from here on
            method.freeze()
            scores, predict_ms = method.predict(index, x, now, frozen=True)
            timeline.record(predict_ms * slow, 0.0, adapted=False)
        for answered, own in zip(turn.batches, scores.split(stream.batch_size), strict=True):
            right[answered] = classes_of(own, stream) == stream.labels(answered)
    return deployment.score(course := timeline.course(), right[course.served])  # utility and its six terms


def _frozen_scores(method: Calls, state: Any, x: torch.Tensor) -> torch.Tensor:
    """Scores of the method frozen in a state that it had; afterwards it is as it was."""
    present = method.snapshot()
    method.restore(state)
    method.freeze()
    scores = method.scores(x)
    method.restore(present)
    return scores
