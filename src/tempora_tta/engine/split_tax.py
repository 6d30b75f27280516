"""What it costs to look: timing prediction and adaptation apart stops a GPU's host from queueing ahead.

The same service is timed with one synchronisation at its end, batch by batch in turn with the split way, and the
difference is reported as the split tax.
"""

from __future__ import annotations

import time

import numpy as np

from tempora_tta.data import Stream
from tempora_tta.measure.device import synchroniser
from tempora_tta.methods import Method
from tempora_tta.methods.contract import adapt_at, predict_at

SPLIT_TAX_BATCHES = 50
WARN_ABOVE = 0.02


def split_tax(method: Method, stream: Stream) -> float:
    """Relative increase of the median service time that the synchronisation in its middle causes."""
    wait = synchroniser(method.model.device)
    services_ms: dict[bool, list[float]] = {True: [], False: []}
    method.reset()
    for number in range(2 * SPLIT_TAX_BATCHES):
        split = number % 2 == 0
        x = stream.batch(number // 2 % stream.num_batches)
        wait()
        start = time.perf_counter_ns()
        predict_at(method, x)
        if split:
            wait()
        adapt_at(method)
        wait()
        services_ms[split].append((time.perf_counter_ns() - start) / 1e6)
    method.reset()
    return float(np.median(services_ms[True]) / np.median(services_ms[False]) - 1)
