"""Share of the 95 % intervals that hold the truth: `python benchmarks/interval_coverage.py`.

Streams of six methods are made up whose true utilities are known: a batch is easy or hard for all methods, each
method has luck of its own, and both go on from batch to batch (AR(1)) or not. Where times are drawn too, a profile
of twenty rounds is made up around true times, and patience turns times into worth. Of every kind and length:

- interval: the share of utilities inside their own interval (`sample_lo`, `sample_hi`; with times, both together);
- leads: the share of streams in which all leads of the best method are inside their simultaneous intervals;
- lower: the same for the simultaneous lower bounds, which decide whether a winner holds;
- wrong: the share of streams in which a winner was said to hold that is not the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from common import JsonFile, committed, console, markdown_table, script, write
from tempora_tta._numbers import percent
from tempora_tta.analysis.doubt import HOLDS, Replicates, judge, leads, replicate
from tempora_tta.analysis.doubt.blocks import CONFIDENCE, FloatArray
from tempora_tta.analysis.doubt.judgement import DRAWS
from tempora_tta.analysis.doubt.timing import PREDICT, Kind, Rounds, Steady
from tempora_tta.scenarios import decay

LENGTHS = (40, 78, 200, 700, 1500)
CORRELATIONS = (0.0, 0.5, 0.8)
METHODS = tuple("abcdef")
UTILITIES = 0.5 - np.array([0.0, 0.003, 0.006, 0.02, 0.05, 0.1])
"""Close ones and far ones; all distances are between a third of a point and ten points."""
HARD, LUCK = 0.06, 0.04
"""Standard deviations: of a batch, for all methods; of a method on a batch, for itself."""
SERVICE_X, PATIENCE_X, NOISE, ROUNDS = (1.0, 1.3, 1.6, 2.0, 2.5, 3.0), 5.0, 0.05, 20
"""True times over lambda, the threshold over lambda, and the noise of a round."""
SHARES = ("interval", "leads", "lower", "wrong")
ENOUGH = 700
"""Batches from which on the intervals promise to hold."""


def main(
    simulations: Annotated[int, typer.Option(help="Streams of every kind and length.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the made-up streams.")] = 2025,
    json_file: JsonFile = None,
) -> None:
    """Print the table, and write it."""
    rows = []
    for timed in (False, True):
        for correlation in CORRELATIONS if not timed else CORRELATIONS[:2]:
            for batches in LENGTHS:
                generator = np.random.default_rng([seed, batches, int(100 * correlation), timed])
                rows.append(covered(batches, correlation, timed, simulations, generator))
                console.print(_line(rows[-1]))
    console.print(_table(rows))
    write({"simulations": simulations, "seed": seed, "rows": rows}, json_file)


def covered(
    batches: int, correlation: float, timed: bool, simulations: int, generator: np.random.Generator
) -> dict[str, Any]:
    """One row of the table."""
    counts = np.zeros(4)
    for number in range(simulations):
        truth, cell = simulated(batches, correlation, timed, generator, str(number))
        lo, hi = interval(cell)
        ahead, true_lead = leads(cell, 0), truth[0] - truth[1:]
        judged = judge(cell)
        counts += (
            ((lo <= truth) & (truth <= hi)).mean(),
            ((ahead.lo <= true_lead) & (true_lead <= ahead.hi)).all(),
            (ahead.lower <= true_lead).all(),
            judged.verdict == HOLDS and judged.method != METHODS[int(np.argmax(truth))],
        )
    shares = dict(zip(SHARES, (counts / simulations).round(4).tolist(), strict=True))
    return {"batches": batches, "correlation": correlation, "times": "drawn" if timed else "exact", **shares}


def simulated(
    batches: int, correlation: float, timed: bool, generator: np.random.Generator, name: str
) -> tuple[FloatArray, Replicates]:
    """The true utilities of one made-up stream, and its replicates."""
    hard = HARD * _noise(batches, 1, correlation, generator)
    accuracy = UTILITIES + hard + LUCK * _noise(batches, len(METHODS), correlation, generator)
    if not timed:
        return UTILITIES, replicate(METHODS, accuracy, stream=name)
    # What the profile found: medians over rounds in which all times go up and down together, and each a little more.
    true_x = np.array(SERVICE_X)
    together = np.exp(NOISE * generator.standard_normal((ROUNDS, 1)))
    rounds_x = true_x * together * np.exp(NOISE * generator.standard_normal((ROUNDS, len(METHODS))))
    relative = rounds_x / rounds_x[:, [0]]
    found_x = np.median(relative, axis=0)
    kinds = {Kind(method, PREDICT): rounds_x[:, place] for place, method in enumerate(METHODS)}
    drawn = Steady(Rounds(rounds_x[:, 0], kinds), DRAWS, seed=int(generator.integers(2**31)))
    factors = np.stack([drawn.factor(Kind(method, PREDICT)) / drawn.baseline for method in METHODS], axis=1)
    factors[:, 0] = 1.0  # the first is standard inference, which the others are told against
    worth = accuracy * _value(found_x)
    timed = np.stack([(accuracy * _value(found_x * factor)).mean(axis=0) for factor in factors])
    return UTILITIES * _value(true_x), replicate(METHODS, worth, timed, stream=name)


def _value(service_x: FloatArray) -> FloatArray:
    return decay(service_x, PATIENCE_X, 1.0)


def _noise(batches: int, columns: int, correlation: float, generator: np.random.Generator) -> FloatArray:
    """AR(1) noise of variance 1 that has gone on for ever."""
    found = generator.standard_normal((batches, columns))
    fresh = np.sqrt(1 - correlation**2)
    for batch in range(1, batches if correlation else 0):
        found[batch] = correlation * found[batch - 1] + fresh * found[batch]
    return found


def interval(cell: Replicates) -> tuple[FloatArray, FloatArray]:
    """Of each utility: by its own batches, or, where times are drawn, by batches and times together."""
    if not cell.timed.any():
        return cell.sample_interval
    lo, hi = np.quantile(cell.utilities, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return lo, hi


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['batches']:>5} batches  correlation {row['correlation']:.1f}  times {row['times']}:  interval "
        f"{percent(row['interval'])}  leads {percent(row['leads'])}  lower {percent(row['lower'])}  "
        f"wrong {percent(row['wrong'])}"
    )


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(*rows[0], title=f"95 % intervals; from {ENOUGH} batches on they are to hold 93 to 97 %")
    for row in rows:
        table.add_row(*(percent(row[name], 1) if name in SHARES else str(row[name]) for name in row))
    return table


def page() -> Iterator[str]:
    """Yield the title and the paragraphs of results/interval_coverage.md."""
    found = committed("coverage")["coverage"]
    yield "How often the 95 % intervals hold the truth"
    yield (
        f"{found['simulations']:,} streams of each kind with known truth (`--seed {found['seed']}`), of six methods. "
        "*interval*: of one utility. *leads*: all five leads of the best method inside their intervals at once. "
        "*lower*: all above their lower bounds. *wrong*: a winner was said to hold that is not the best."
    )
    rows = (
        [row["batches"], row["correlation"], row["times"], *(percent(row[name]) for name in SHARES)]
        for row in found["rows"]
    )
    yield markdown_table(["batches", "correlation", "times", *SHARES], rows)


if __name__ == "__main__":
    script(lambda: typer.run(main), page)
