"""Standard inference back to back: how fast a machine is, apart from what else is at work on it.

Between the methods of a profile's rounds, standard inference finds the caches full of their work, and takes about a
tenth longer than by itself. That belongs into a profile, since it does so in a deployment, too. But a machine's speed
then and now are compared by one look, which finds the same things in the caches both times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice

from torch import Tensor

from tempora_tta.methods import Method
from tempora_tta.timing.timer import Timer

SETTLING = 2
"""Batches of a look that are not counted: the first ones push out what was there before."""


def back_to_back_ms(standard: Method, batches: Sequence[Tensor], timer: Timer, counted: int) -> list[float]:
    """Milliseconds of so many batches, with nothing between them, after a few that settle the caches."""
    for x in islice(cycle(batches), SETTLING):
        standard.predict(x)
    return [timer.time(partial(standard.predict, x))[1].ms for x in islice(cycle(batches), counted)]
