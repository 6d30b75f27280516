"""Effects of streams of many shifts on methods, bundled data, five seeds: `python benchmarks/streams_study.py`.

It asks which methods collapse without a reset over fifteen shifts and which gain, what `reset: shift` changes, what
correlated classes do, what bursts do at the same mean rate, and what a second and third visit to a shift are worth.
Results go to benchmarks/results/streams-study.json; when it was stopped, the same command goes on.

Times are those of the profile in benchmarks/results/streams-profile.json (`--profile` takes one of this machine
first). Streams are short and batches small, so that two busy cores are enough for all of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from scipy.special import stdtrit

from common import RESULTS, committed, console, markdown_table, script, write
from tempora_tta import analysis
from tempora_tta._numbers import percent
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.run import Run
from tempora_tta.store import Results, RunFolder

PROFILE, FIGURES = RESULTS / "streams-profile.json", RESULTS / "streams-study.json"

BATCHES, BATCH_SIZE, SEEDS, RHO = 5, 16, [1, 2, 3, 4, 5], 0.25
METHODS: list[Any] = [
    *("standard", "adabn", "lame", "neo", "tent", "eta", "shot_im", "sar"),
    {"name": "rdumb", "reset_every": 25},  # its 1000 batches are longer than the stream
    *("rotta", "roid"),
]
PACES = {"periodic": {}, "poisson": {}, "bursty": {"burst": 4, "length": 8}}
"""Three ways of arriving at the same mean rate."""
CONTINUAL = {"kind": "continual", "batches": BATCHES}
STREAMS: dict[str, dict[str, Any]] = {
    "never": CONTINUAL,
    "shift": {**CONTINUAL, "reset": "shift"},
    "dirichlet": {**CONTINUAL, "classes": {"dirichlet": 0.1}},
    "recurring": {"kind": "recurring", "batches": 5, "visits": 3},
}
RECURRING = ["impulse_noise", "defocus_blur", "frost", "pixelate"]


def main(
    out: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/streams-study"),
    profile: Annotated[bool, typer.Option(help="Profile this machine first.")] = False,
) -> None:
    """Run what is missing, then write the figures."""
    clock = "steady" if profile else str(PROFILE)
    runs: dict[str, Results] = {}
    for name in STREAMS:
        console.print(f"{name} ...")
        runs[name] = _run(name, clock, out / name)
        if clock == "steady":
            clock = str(PROFILE)
            shutil.copy(out / name / "profile.json", clock)
    write(figures(runs), FIGURES)
    console.print(f"wrote {FIGURES.name}")


def _run(name: str, clock: str, folder: Path) -> Results:
    arrivals = [
        {"protocol": "deployment", "arrivals": {kind: {"utilisation": RHO, **settings}}}
        for kind, settings in PACES.items()
    ]
    flags = {
        "model": "fashion_resnet",
        "data.dataset": "fashion",
        "data.shifts": RECURRING if name == "recurring" else ["noise", "blur", "weather", "digital"],
        "stream": STREAMS[name],
        "batch_size": BATCH_SIZE,
        "seeds": SEEDS,
        "methods": METHODS,
        "grid": "none",
        "scenarios": arrivals if name == "never" else [],
        "clock": clock,
        "device": "cpu",
        "threads": 1,
    }
    with RunFolder.for_writing(folder) as opened:
        return Run(build_job(load_config(None, flags=flags)), opened).execute()


def figures(runs: dict[str, Results]) -> dict[str, Any]:
    """Everything that the page says, as plain data: fractions, each with half of its 95 % interval over seeds."""
    return {
        "batches": BATCHES,
        "batch_size": BATCH_SIZE,
        "seeds": len(SEEDS),
        "utilisation": RHO,
        "baseline_ms": float(runs["never"].utilities["baseline_ms"].iloc[0]),
        "labels": {name: runs["never"].cards.label(name) for name in _order(runs["never"])},
        "streams": {name: _stream(results) for name, results in runs.items()},
        "against_never": {name: _against(runs[name], runs["never"]) for name in ("shift", "dirichlet")},
        "bursts": _bursts(runs["never"]),
    }


def _order(results: Results) -> list[str]:
    return results.cards.in_order(results.utilities["method"])


def _offline(results: Results) -> pd.DataFrame:
    """Accuracy by method and seed."""
    rows = results.utilities[results.utilities["protocol"] == "offline"]
    return rows.pivot(index="seed", columns="method", values="utility")


def _with_reach(values: pd.Series[float]) -> list[float]:
    """The mean over seeds, and half of Student's 95 % interval."""
    half = stdtrit(len(values) - 1, 0.975) * values.std() / len(values) ** 0.5
    return [round(float(values.mean()), 6), round(float(half), 6)]


def _stream(results: Results) -> dict[str, Any]:
    segments = results.segments[results.segments["protocol"] == "offline"]
    found = analysis.over_the_stream(segments).set_index("method")
    told = ("segments_below", "segments", "seeds_collapsed", "seeds_recovered", "collapsed_batches", "change")
    accuracy = _offline(results)
    return {
        name: {
            "accuracy": _with_reach(accuracy[name]),
            "over_standard": _with_reach(accuracy[name] - accuracy["standard"]),
            **{key: None if pd.isna(found.loc[name, key]) else float(found.loc[name, key]) for key in told},
        }
        for name in _order(results)
    }


def _against(results: Results, never: Results) -> dict[str, list[float]]:
    """Return what another stream changes, seed by seed: the shifts come in the same order."""
    change = _offline(results) - _offline(never)
    return {name: _with_reach(change[name]) for name in _order(results)}


def _bursts(results: Results) -> dict[str, dict[str, list[float]]]:
    """Utility and availability under each way of arriving."""
    rows = results.utilities[results.utilities["protocol"] == "deployment"]
    found: dict[str, dict[str, list[float]]] = {}
    for name in _order(results):
        own = rows[rows["method"] == name]
        by_pace = {
            pace: own[own["label"].str.lower().str.startswith(start)] for pace, start in LABELS.items()
        }
        found[name] = {
            pace: [*_with_reach(part["utility"]), round(float(part["availability"].mean()), 6)]
            for pace, part in by_pace.items()
        }
    return found


def page() -> Iterator[str]:
    (found,) = committed("streams-study").values()
    labels, streams = found["labels"], found["streams"]
    yield "What streams do to methods"
    yield INTRODUCTION.format(methods=len(labels), **found)
    yield "\n".join(_in_short(found))
    yield "## Without a reset, and with one"
    yield _compared(found, "never", "shift", "`reset: shift` changes")
    yield "## Correlated classes: Dirichlet 0.1"
    yield _compared(found, "dirichlet", "dirichlet", "against shuffled")
    yield "## Bursts at the same mean rate"
    yield BURSTS.format(**found, rho=percent(found["utilisation"], 0))
    yield markdown_table(
        ("", *(f"{pace}, utility (served)" for pace in PACES)),
        (
            (labels[name], *(f"{_share(row[pace][:2])} ({percent(row[pace][2], 0)})" for pace in PACES))
            for name, row in found["bursts"].items()
        ),
    )
    yield "## Shifts that return"
    yield "Impulse noise, defocus blur, frost and pixelate, five batches each, three times around, never reset."
    yield markdown_table(
        ("", "accuracy", "over Standard", "last visit − first, over Standard's"),
        (
            (labels[name], *_row(row), "" if name == "standard" else f"{100 * row['change']:+.1f}")
            for name, row in streams["recurring"].items()
        ),
    )


def _compared(found: dict[str, Any], stream: str, change: str, head: str) -> str:
    """Return a table of one stream, with what a change adds to the stream that is never reset."""
    rows = (
        (
            found["labels"][name],
            *_row(row),
            f"{row['seeds_collapsed']:.0f}",
            _points(found["against_never"][change][name]),
        )
        for name, row in found["streams"][stream].items()
    )
    return markdown_table(("", "accuracy", "over Standard", "seeds collapsed", head), rows)


def _row(row: dict[str, Any]) -> tuple[str, str]:
    return _share(row["accuracy"]), _points(row["over_standard"])


def _in_short(found: dict[str, Any]) -> list[str]:
    """The answers, as far as the intervals of the figures allow them."""
    never, labels, changes = found["streams"]["never"], found["labels"], found["against_never"]
    fallen = [labels[name] for name, row in never.items() if row["seeds_collapsed"]]
    gains = {name: row["over_standard"] for name, row in never.items() if name != "standard"}
    bursts = {name: [row["bursty"][0] - row["periodic"][0], 0.0] for name, row in found["bursts"].items()}
    return [
        f"- Without a reset over the fifteen shifts {', '.join(fallen) or 'no method'} collapses.",
        f"- Above standard inference: {_beyond(gains, labels, 1)}; below it: {_beyond(gains, labels, -1)}.",
        f"- `reset: shift` helps {_beyond(changes['shift'], labels, 1)} and costs "
        f"{_beyond(changes['shift'], labels, -1)}.",
        "- Correlated classes cost those that normalise with the batch: "
        f"{_beyond(changes['dirichlet'], labels, -1)}; they help {_beyond(changes['dirichlet'], labels, 1)}.",
        f"- Bursts at the same mean rate cost, in utility against equal intervals: {_beyond(bursts, labels, -1)}.",
    ]


def _beyond(values: dict[str, list[float]], labels: dict[str, str], sign: int) -> str:
    """Those whose whole interval lies on one side of 0, the largest first, in points."""
    found = {name: value for name, (value, reach) in values.items() if sign * value > reach}
    ordered = sorted(found, key=lambda name: -abs(found[name]))
    return ", ".join(f"{labels[name]} {100 * found[name]:+.1f}" for name in ordered) or "none"


def _share(value: list[float]) -> str:
    return f"{100 * value[0]:.1f} ± {100 * value[1]:.1f}"


def _points(value: list[float]) -> str:
    return f"{100 * value[0]:+.1f} ± {100 * value[1]:.1f}"


LABELS = {"periodic": "ρ", "poisson": "poisson", "bursty": "bursty"}
"""First words of the scenarios' labels."""
INTRODUCTION = """\
`python benchmarks/streams_study.py`: the bundled `fashion_resnet` on the fifteen corruptions at severity 5,
{batches} batches of {batch_size} images of each, {methods} methods with the settings that were tuned on
single streams (RDumb resets every 25 batches, since its usual 1000 are longer than the stream), {seeds}
seeds. A seed is an order of the shifts and of the images. Numbers are percent of the images, ± half of
Student's 95 % interval over seeds; changes are taken seed by seed. A collapse is 20 consecutive batches or
more that are each worth less than with standard inference. Streams are short: a method that does not collapse
here may do so later."""
BURSTS = """\
Each at ρ = {rho} of what standard inference could serve (λ = {baseline_ms:.2f} ms, one thread of a CPU),
queue 1, never reset: at equal intervals, Poisson, and in bursts of four times the mean rate that average
eight arrivals, with silence between them. Utility is accuracy times what was served."""


if __name__ == "__main__":
    script(lambda: typer.run(main), page)
