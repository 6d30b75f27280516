"""A sentinel: a few batches of standard inference before and after every timed pass, to see the machine change."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tempora_tta.data import Stream
from tempora_tta.engine.calls import Calls
from tempora_tta.methods import Method
from tempora_tta.methods.contract import UNTOLD
from tempora_tta.store import Trace
from tempora_tta.timing import Baseline, Clock, judge_pass
from tempora_tta.timing.machine import ProcessorTime

SENTINEL_BATCHES = 20


class Sentinel:
    """Times Standard on the stream's own batches. What followed one pass also came before the next."""

    def __init__(self, standard: Method, stream: Stream, clock: Clock, baseline: Baseline) -> None:
        self._stream = stream
        self._standard = Calls(standard, "standard", stream, clock)
        self._reference_ms = baseline.median_ms
        """What a look is compared with. A given lambda says nothing about this machine: then it is the first look."""
        self._last_ms: list[float] | None = None
        self._standard.warm_up(5)

    def around(
        self, make: Callable[[], Trace], warm_up: Callable[[], None] = lambda: None
    ) -> tuple[Trace, dict[str, Any]]:
        """Make a pass between two looks at the machine; the pass, and what was noticed."""
        before_ms = self._last_ms or self.look()
        if self._reference_ms is None:
            self._reference_ms = float(np.median(before_ms))
        warm_up()
        processors, start = ProcessorTime.now(), time.perf_counter()
        trace = make()
        seconds = time.perf_counter() - start
        # Work on a GPU is not slowed by what the processor loses.
        on_processor = self._standard.method.model.device.type == "cpu"
        stolen_share = ProcessorTime.now().stolen_since(processors) if on_processor else 0.0
        after_ms = self._last_ms = self.look()
        medians_ms = [float(np.median(times)) for times in (before_ms, after_ms)]
        drift = max(abs(median_ms / self._reference_ms - 1) for median_ms in medians_ms)
        verdict = judge_pass(drift, trace.service_ms, trace.action, trace.page_faults, stolen_share)
        return trace, {
            "seconds": seconds,
            "sentinel_before_ms": medians_ms[0],
            "sentinel_after_ms": medians_ms[1],
            "stolen_share": stolen_share,
            "timing_uncertainty": _uncertainty(drift, trace),
            "verdict": verdict.to_json(),
        }

    def look(self) -> list[float]:
        """Milliseconds of a few batches of standard inference, now."""
        times = []
        for index in range(SENTINEL_BATCHES):
            x = self._stream.batch(index % self._stream.num_batches)
            _, elapsed_ms = self._standard.predict(index, x, UNTOLD)
            times.append(elapsed_ms)
        return times


def _uncertainty(drift: float, trace: Trace) -> float:
    """How far, relatively, the pass's times may be off: the machine's drift and the mean's own error."""
    services = trace.service_ms[~np.isnan(trace.service_ms)]
    error = float(services.std() / services.mean() / np.sqrt(services.size)) if services.size else 0.0
    return min(0.5, drift + error)
