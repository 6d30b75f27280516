"""Untimed frozen tails, several batches at once: only where no prediction changes by it."""

from __future__ import annotations

import torch

from tempora_tta.data import Stream
from tempora_tta.methods import Method
from tempora_tta.methods.guard import Guard

CLOSE = 1e-3
"""How far, relative to the largest, scores may differ: far above rounding, far below other batch statistics."""


def batches_at_once(method: Method, stream: Stream, wanted: int, guard: Guard) -> int:
    """`wanted`, if the frozen method predicts the stream's first batches together as it does one by one; else 1.

    A stateless method's tail is the Standard pass where sharing is on, which goes batch by batch, so it always
    does. The answer depends on the method's initial state and the stream alone: shared and unshared runs agree.
    """
    wanted = min(wanted, stream.num_batches)
    if wanted == 1 or method.stateless or method.time_aware:
        return 1
    batches = [stream.batch(index) for index in range(wanted)]
    with guard("predict"):
        method.reset()
        method.freeze()
        one_by_one = torch.cat([method.predict(x) for x in batches])
        together = method.predict(torch.cat(batches))
        method.reset()
    same_classes = torch.equal(one_by_one.argmax(1), together.argmax(1))
    close = bool((one_by_one - together).abs().max() <= CLOSE * one_by_one.abs().max())
    return wanted if same_classes and close else 1
