"""How fast the time model replays: `python benchmarks/serve.py`.

Serves up to a million arrivals, shows that time grows linearly, and sweeps 1,000 intervals over a stream of
781 batches (one ImageNet-C corruption at batch size 64), scored and merely served. Times are CPU times.
"""

from __future__ import annotations

import numpy as np
import typer

from common import JsonFile, console, timed, write
from tempora_tta.scenarios import Discrete, serve

ARRIVALS = (10_000, 100_000, 1_000_000)
BATCHES = 781
INTERVALS_MS = np.linspace(40, 160, 1000).tolist()


def ns_per_arrival(count: int, rng: np.random.Generator) -> float:
    """The best of a few, more of them where each is short."""
    arrivals_ms, service_ms = np.arange(count) * 40.0, rng.uniform(20, 80, count)
    repeats = 3 * round((ARRIVALS[-1] / count) ** 0.5)
    return 1e9 * min(timed(lambda: serve(service_ms, arrivals_ms))[1] for _ in range(repeats)) / count


def main(json_file: JsonFile = None) -> None:
    """Print and write nanoseconds per arrival, and what scoring adds to serving."""
    rng = np.random.default_rng(2025)
    per_arrival = {count: ns_per_arrival(count, rng) for count in ARRIVALS}
    for count, ns in per_arrival.items():
        console.print(f"serve  {count:>9,} arrivals  {ns:6.0f} ns per arrival")

    accuracy, service_ms = rng.uniform(0, 1, BATCHES), rng.uniform(90, 110, BATCHES)
    scenarios = [Discrete(interval_ms=interval_ms) for interval_ms in INTERVALS_MS]
    _, served_s = timed(lambda: [serve(service_ms, np.arange(BATCHES) * ms) for ms in INTERVALS_MS])
    _, scored_s = timed(lambda: [one.score(accuracy=accuracy, service_ms=service_ms) for one in scenarios])
    console.print(
        f"sweep  1,000 intervals over {BATCHES} batches  {scored_s:.2f} s, serving {served_s:.2f} s"
    )
    figures = {
        "ns_per_arrival": per_arrival,
        "linearity": per_arrival[ARRIVALS[-1]] / per_arrival[ARRIVALS[0]],
        "sweep_s": scored_s,
        "score_over_serve": scored_s / served_s,
    }
    write(figures, json_file)


if __name__ == "__main__":
    typer.run(main)
