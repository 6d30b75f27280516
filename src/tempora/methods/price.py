"""What being busy costs the users of a deployment, from its `Moment`: in batches' worth of right answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, cycle, islice

from tempora.methods.contract import Moment

LOOK_AHEAD = 8
"""Arrivals that the price of being busy is looked for among. Where nothing is known of them they are taken to come
back to back."""


def affords(moment: Moment, service_ms: float) -> bool:
    """Whether a budget, if there is one, pays for a batch that takes so long."""
    if moment.budget_left_ms is None or moment.baseline_ms is None:
        return True
    return service_ms - moment.baseline_ms <= moment.budget_left_ms


def price(
    moment: Moment,
    before_ms: float,
    after_ms: float,
    plain_ms: float | None = None,
    emitted: bool = False,
    gaps_ms: Sequence[float] = (),
) -> float:
    """How many batches' worth is lost if this one takes so much longer, before and after its prediction is out.

    `plain_ms` is what a plain prediction takes, which is over where the prediction is out already (`emitted`).
    `gaps_ms` are those between the latest arrivals: where they are random, the next are taken to be like them.
    """
    if moment.baseline_ms is None:
        return 0.0  # nobody waits
    if plain_ms is None:
        plain_ms = moment.baseline_ms
    before_ms, after_ms = max(0.0, before_ms), max(0.0, after_ms)
    waited_ms = moment.now_ms - moment.arrived_ms + plain_ms
    own = 0.0 if emitted else _worth(moment, waited_ms) - _worth(moment, waited_ms + before_ms)
    if moment.interval_ms is None:
        return own + _worth(moment, plain_ms) - _worth(moment, plain_ms + after_ms)
    busy_ms = 0.0 if emitted else plain_ms
    arrivals = [*[0.0] * moment.queued, *_to_come(moment, gaps_ms or [plain_ms])]
    return (
        own
        + _served(moment, arrivals, plain_ms, busy_ms)
        - _served(moment, arrivals, plain_ms, busy_ms + before_ms + after_ms)
    )


def _worth(moment: Moment, response_ms: float) -> float:
    """What a response is worth after so long; near a deadline less and less, for work may take longer than it did."""
    late_ms = max(0.0, response_ms - (moment.baseline_ms or 0.0))
    if moment.deadline_ms is not None:
        room_ms = max(0.0, moment.deadline_ms - (moment.baseline_ms or 0.0))
        return 1 - (late_ms / room_ms) ** 4 if late_ms < room_ms else float(late_ms == 0.0)
    if moment.threshold_ms is None or moment.baseline_ms is None:
        return 1.0
    return 1 / (1 + late_ms / (moment.threshold_ms - moment.baseline_ms))


def _to_come(moment: Moment, gaps_ms: Sequence[float]) -> list[float]:
    """From now on, when the next batches arrive."""
    interval_ms = moment.interval_ms or 0.0
    if moment.slack_ms is not None:
        return [moment.slack_ms + interval_ms * later for later in range(LOOK_AHEAD)]
    since_ms = moment.now_ms - moment.arrived_ms
    return [max(0.0, at_ms - since_ms) for at_ms in accumulate(islice(cycle(gaps_ms), LOOK_AHEAD))]


def _served(moment: Moment, arrivals: list[float], plain_ms: float, busy_ms: float) -> float:
    """What these arrivals are worth to a pipeline that is busy for so long: one of them may wait, the next pushes it
    out."""
    room, free_ms, total = max(1, moment.queued), busy_ms, 0.0
    for position, arrived_ms in enumerate(arrivals):
        start_ms = max(free_ms, arrived_ms)
        pushed_out = position + room < len(arrivals) and arrivals[position + room] < start_ms
        if not pushed_out:
            total += _worth(moment, start_ms - arrived_ms + plain_ms)
            free_ms = start_ms + plain_ms
    return total
