"""What being busy costs the users of a deployment, from its `Moment`: in batches' worth of right answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, cycle, islice

from tempora_tta.methods.contract import Moment

LOOK_AHEAD = 8
"""Arrivals that the price of being busy is looked for among. Where nothing is known of them they are taken to come
back to back."""
MADE_GOOD_WITHIN, SURE_OF = 16, 0.95
"""Arrivals within which pauses make a delay good, and the share of the time between two that can be counted on."""


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
    served = _served(moment, arrivals, plain_ms, busy_ms)
    served_later = _served(moment, arrivals, plain_ms, busy_ms + before_ms + after_ms)
    return own + served - served_later + _for_good(moment, before_ms + after_ms, plain_ms)


def _for_good(moment: Moment, delay_ms: float, plain_ms: float) -> float:
    """What a delay costs that no pause makes good. At full load it stays, and a deadline is that much nearer for all
    that follow."""
    if moment.deadline_ms is None or moment.interval_ms is None:
        return 0.0
    pause_ms = max(0.0, SURE_OF * moment.interval_ms - plain_ms)
    left_ms = max(0.0, delay_ms - MADE_GOOD_WITHIN * pause_ms)
    return left_ms / room_ms if (room_ms := _room_ms(moment)) else float(left_ms > 0)


def _room_ms(moment: Moment) -> float:
    """How late a response may be and still be in time."""
    return max(0.0, (moment.deadline_ms or 0.0) - (moment.baseline_ms or 0.0))


def _worth(moment: Moment, response_ms: float) -> float:
    """What a response is worth after so long; near a deadline less and less, for work may take longer than it did."""
    late_ms = max(0.0, response_ms - (moment.baseline_ms or 0.0))
    if moment.deadline_ms is not None:
        room_ms = _room_ms(moment)
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
    """What these arrivals are worth to a pipeline that is busy for so long."""
    may_wait, free_ms, total = _may_wait(moment), busy_ms, 0.0
    for position, arrived_ms in enumerate(arrivals):
        start_ms = max(free_ms, arrived_ms)
        pushed_out = position + may_wait < len(arrivals) and arrivals[position + may_wait] < start_ms
        if not pushed_out:
            total += _worth(moment, start_ms - arrived_ms + plain_ms)
            free_ms = start_ms + plain_ms
    return total


def _may_wait(moment: Moment) -> int:
    """How many may wait. One that may not is answered by the fallback, if there is one: it counts as if it might."""
    return max(1, moment.queued if moment.queue is None else moment.queue)
