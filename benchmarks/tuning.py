"""Does a ranking depend on tuning? Default, label-free and oracle settings of every method on the bundled benchmark.

    python benchmarks/tuning.py --model fashion_resnet --json benchmarks/results/tuning-fashion_resnet.json

Tuned on corruptions outside the fifteen, the same number of trials for every method; evaluated offline on others.
Accuracies depend on no clock, so any machine will do, with as many passes at once as it has cores (`--jobs`). Passes
that `--passes FILE` holds are not made again, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from common import Device, JsonFile, committed, console, in_percent, markdown_table, script, write
from tempora_tta import data, methods, models
from tempora_tta.config import SourceConfig
from tempora_tta.data import Stream, bundled, open_stream
from tempora_tta.engine.images import SOURCES, images_of
from tempora_tta.engine.tuning import (
    COLLAPSED,
    LABEL_FREE,
    LABELS,
    MUTUAL_INFORMATION,
    Passed,
    Trial,
    Tuned,
    atc_threshold,
    one_pass,
    plan,
    trial_of,
)
from tempora_tta.errors import TemporaError
from tempora_tta.models import Classifier
from tempora_tta.names import METHODS

DATASET = "fashion"
EVALUATED = ("gaussian_noise", "motion_blur", "frost", "contrast")
WAYS = ("default", LABELS, *LABEL_FREE)


@dataclass(frozen=True)
class Size:
    """Size of the study: network, trials, batches and device."""

    model: str
    trials: int
    batches: int
    device: str


@dataclass(frozen=True)
class Task:
    """One pass: a method with settings over a shift."""

    method: str
    settings: str
    """JSON."""
    shift: str

    @property
    def key(self) -> str:
        return f"{self.method} {self.settings} {self.shift}"


@dataclass(frozen=True)
class Given:
    """Inputs that every method is given."""

    model: Classifier
    source: torch.Tensor
    threshold: float


@cache
def given(size: Size) -> Given:
    """Made once in every process."""
    torch.set_num_threads(1)
    model = models.load(size.model).to(size.device)
    (clean,) = data.open(DATASET, shifts=["clean"]).values()
    threshold = atc_threshold(
        model, open_stream(clean, model.preprocessing, workers=0, device=size.device), size.batches
    )
    return Given(model, images_of(SourceConfig(dataset=SOURCES[DATASET]), model, workers=0), threshold)


@cache
def stream_of(shift: str, size: Size) -> Stream:
    (opened,) = data.open(DATASET, shifts=[shift]).values()
    preprocessing = given(size).model.preprocessing
    return open_stream(opened, preprocessing, limit_batches=size.batches, workers=0, device=size.device)


def made(task: Task, size: Size) -> tuple[Task, Passed]:
    ready = given(size)
    settings = json.loads(task.settings)
    method = methods.create(task.method, ready.model, recipe=False, source=ready.source, **settings)
    return task, one_pass(method, stream_of(task.shift, size), ready.threshold)


class Passes:
    """Those that were made, kept in a file of one line each."""

    def __init__(self, path: Path | None, size: Size) -> None:
        self._path, self._size = path, size
        self._about = json.dumps(asdict(size))
        self._known: dict[str, Passed] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                about, key, accuracy, scores = json.loads(line)
                if about == self._about:
                    self._known[key] = accuracy, scores

    def make(self, tasks: Iterable[Task], pool: ProcessPoolExecutor | None) -> None:
        missing = [task for task in dict.fromkeys(tasks) if task.key not in self._known]
        began = time.monotonic()
        for number, (task, passed) in enumerate(_outcomes(missing, self._size, pool), start=1):
            self._known[task.key] = passed
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([self._about, task.key, *passed]) + "\n")
            console.print(
                f"{time.monotonic() - began:6.0f} s, {number} of {len(missing)}: {task.key}", markup=False
            )

    def of(self, method: str, settings: dict[str, Any], shifts: Iterable[str]) -> list[Passed]:
        return [self._known[task.key] for task in tasks_of(method, settings, shifts)]


def tasks_of(method: str, settings: dict[str, Any], shifts: Iterable[str]) -> list[Task]:
    return [Task(method, json.dumps(settings), shift) for shift in shifts]


def _outcomes(
    tasks: list[Task], size: Size, pool: ProcessPoolExecutor | None
) -> Iterator[tuple[Task, Passed]]:
    if pool is None:
        yield from (made(task, size) for task in tasks)
        return
    for future in as_completed([pool.submit(made, task, size) for task in tasks]):
        yield future.result()


@contextmanager
def pool_of(jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    if jobs == 1:
        yield None
        return
    context = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield pool


def row_of(tuned: Tuned, passes: Passes) -> dict[str, Any]:
    """Return the settings that each way chose for a method, and their accuracy on shifts that no trial saw."""
    told: dict[str, Any] = {"method": tuned.method, "trials": len(tuned.trials)}
    for way, trial in _chosen(tuned).items():
        evaluated = trial_of(trial.settings, passes.of(tuned.method, trial.settings, EVALUATED))
        told[way] = {
            "settings": trial.settings,
            "tuned_on": trial.accuracy,
            "evaluated": evaluated.accuracy,
        }
    return told | {"worst_trial": min(trial.accuracy for trial in tuned.trials)}


def _chosen(tuned: Tuned) -> dict[str, Trial]:
    return {"default": tuned.default, **{by: tuned.chosen(by) for by in WAYS[1:]}}


def main(
    model: Annotated[str, typer.Option(help="One of the bundled networks.")] = "fashion_resnet",
    trials: Annotated[int, typer.Option(help="Per method.")] = 8,
    batches: Annotated[int, typer.Option(help="Of each shift, to tune and to evaluate on.")] = 16,
    without: Annotated[str, typer.Option(help="Methods to leave out, with commas.")] = "",
    device: Device = "cpu",
    jobs: Annotated[int, typer.Option(help="Passes at once.")] = 1,
    passes: Annotated[Path | None, typer.Option(help="Keep finished passes here.")] = None,
    json_: JsonFile = None,
) -> None:
    size = Size(model, trials, batches, device)
    left_out = {name.strip(): "takes too long" for name in without.split(",") if name.strip()}
    planned: dict[str, list[dict[str, Any]]] = {}
    for name in METHODS:
        if name in left_out:
            continue
        try:
            planned[name] = plan(name, given(size).model, trials, given(size).source)
        except TemporaError as error:  # it does not fit this network
            left_out[name] = str(error)
    kept = Passes(passes, size)
    costly_first = sorted(planned, key=lambda name: not methods.get(name).only_by_name)
    with pool_of(jobs) as pool:
        kept.make(
            (
                task
                for name in costly_first
                for settings in planned[name]
                for task in tasks_of(name, settings, bundled.TUNING)
            ),
            pool,
        )
        found = {
            name: Tuned(
                name, tuple(trial_of(one, kept.of(name, one, bundled.TUNING)) for one in planned[name])
            )
            for name in planned
        }
        kept.make(
            (
                task
                for name in costly_first
                for trial in _chosen(found[name]).values()
                for task in tasks_of(name, trial.settings, EVALUATED)
            ),
            pool,
        )
    figures = {
        **asdict(size),
        "tuned_on": list(bundled.TUNING),
        "evaluated_on": list(EVALUATED),
        "collapsed_below_standard": COLLAPSED,
        "selected_by": MUTUAL_INFORMATION,
        "left_out": left_out,
        "rows": [row_of(tuned, kept) for tuned in found.values()],
    }
    write(figures, json_)


def page() -> Iterator[str]:
    """Yield the title and the paragraphs of results/tuning.md, network by network."""
    yield "Rankings under default, label-free and oracle settings"
    for found in committed("tuning-*").values():
        yield from _of_network(found)


def _of_network(found: dict[str, Any]) -> Iterator[str]:
    rows, ways = found["rows"], ("default", MUTUAL_INFORMATION, LABELS)
    ranks = {way: _ranked({row["method"]: row[way]["evaluated"] for row in rows}) for way in ways}
    yield (
        f"**{found['model']}**: tuned on {', '.join(found['tuned_on'])}, evaluated offline on "
        f"{', '.join(found['evaluated_on'])}, {found['batches']} batches of 64 of each; ranks under default, "
        "label-free and oracle settings. The last column is the worst of a method's trials where it was tuned."
    )
    yield markdown_table(
        ["method", "trials", *(f"{way.replace('_', ' ')} %" for way in ways), "ranks", "worst trial %"],
        (
            [
                row["method"],
                row["trials"],
                *(in_percent(row[way]["evaluated"]) for way in ways),
                " → ".join(str(ranks[way][row["method"]]) for way in ways),
                in_percent(row["worst_trial"]),
            ]
            for row in sorted(rows, key=lambda row: -row["default"]["evaluated"])
        ),
    )
    yield _moved(rows, ranks, found["batches"] * 64 * len(found["evaluated_on"]))
    yield "Regret: accuracy given away to the oracle, where it was tuned, by methods with something to tune."
    tuned = [row for row in rows if row["trials"] > 1]
    standard = next(row for row in rows if row["trials"] == 1)["default"]["tuned_on"]
    regrets = []
    for by in (by for by in LABEL_FREE if by in tuned[0]):
        lost = [100 * (row[LABELS]["tuned_on"] - row[by]["tuned_on"]) for row in tuned]
        fallen = sum(row[by]["tuned_on"] < standard - found["collapsed_below_standard"] for row in tuned)
        regrets.append([by, f"{sum(lost) / len(lost):.1f}", f"{max(lost):.1f}", f"{fallen} of {len(tuned)}"])
    yield markdown_table(["chosen by", "mean regret, points", "largest", "collapses chosen"], regrets)
    yield f"Left out, as too slow or of no use on this network: {', '.join(found['left_out'])}."


def _moved(rows: list[dict[str, Any]], ranks: dict[str, dict[str, int]], samples: int) -> str:
    """Say which methods change places with other settings, and whose accuracy changes by more than chance."""
    chance = 2 * 0.5 / samples**0.5
    default, told = ranks["default"], []
    for way in (way for way in ranks if way != "default"):
        far = {name: abs(rank - default[name]) for name, rank in ranks[way].items()}
        best = ", ".join(name for name, rank in ranks[way].items() if rank == 1)
        gains = {row["method"]: row[way]["evaluated"] - row["default"]["evaluated"] for row in rows}
        sure = ", ".join(f"{name} {100 * gain:+.1f}" for name, gain in gains.items() if abs(gain) > chance)
        told.append(
            f"Chosen by {way.replace('_', ' ')}, {sum(map(bool, far.values()))} of {len(far)} change their rank, by "
            f"up to {max(far.values())} places, and {best} is first; beyond chance: {sure or 'none'}."
        )
    first = ", ".join(name for name, rank in default.items() if rank == 1)
    return (
        f"Under defaults {first} is first. Two standard errors of an accuracy of {samples:,} samples are at most "
        f"{100 * chance:.1f} points, so chance alone can explain many of these places. {' '.join(told)}"
    )


def _ranked(values: dict[str, float]) -> dict[str, int]:
    return {name: 1 + sum(other > value for other in values.values()) for name, value in values.items()}


if __name__ == "__main__":
    script(lambda: typer.run(main), page)
