"""How fast the time model replays: `python benchmarks/serve.py`.

Serves up to a million arrivals, shows that time grows linearly, and sweeps 1,000 intervals over a stream of
781 batches (one ImageNet-C corruption at batch size 64).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from tempora.scenarios import Discrete, serve


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(2025)
    for count in (125_000, 250_000, 500_000, 1_000_000):
        arrivals_ms, service_ms = np.arange(count) * 40.0, rng.uniform(20, 80, count)
        elapsed = min(seconds(partial(serve, service_ms, arrivals_ms)) for _ in range(3))
        print(f"serve  {count:>9,} arrivals  {elapsed:6.3f} s  {1e9 * elapsed / count:6.0f} ns per arrival")

    accuracy, service_ms = rng.uniform(0, 1, 781), rng.uniform(90, 110, 781)

    def sweep() -> None:
        for interval_ms in np.linspace(40, 160, 1000):
            Discrete(interval_ms=float(interval_ms)).score(accuracy=accuracy, service_ms=service_ms)

    print(f"sweep  1,000 intervals over 781 batches  {seconds(sweep):.2f} s")


if __name__ == "__main__":
    main()
