"""Reading the logs that the paper's authors published.

One JSON file per run: `arguments` (strings) say the method, data and deployment, `results` hold per distribution
(shift) the counts and a `batch_summaries` row per batch, all zero for a skipped one. Times, intervals, thresholds
and budgets are milliseconds. The logs count correct predictions and do not name the predicted classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempora_tta.errors import TemporaError, unknown
from tempora_tta.published.methods import METHODS
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline, Scenario

FloatArray = NDArray[np.float64]

RENAMED = {"basic": "standard", "shot": "shot_im", "eta_no_reset": "eta_star", "shot_norm": "shot_im_star"}
"""The authors' names where they are not ours."""

_UNSET = ("", "none", "null", "nan", "inf")
_COLUMNS = (
    "num_samples",
    "num_correct",
    "prediction_time",
    "adaptation_time",
    "start_timestamp",
    "queue_wait_time",
)
_REQUIRED = _COLUMNS[:4]
_WHOLE_DATASETS = ("imagenet_r", "imagenet_v2")
"""Data sets that are one shift, which then has their name."""


@dataclass(frozen=True)
class Log:
    """One file: a method under one deployment, with the columns of its batches by shift."""

    path: Path
    method: str
    model: str
    dataset: str
    seed: int
    batch_size: int
    scenario: Scenario
    shifts: dict[str, dict[str, FloatArray]]

    @property
    def setup(self) -> tuple[str, str, int]:
        return self.model, self.dataset, self.batch_size


def read_logs(folder: Path, progress: Callable[[int, int], None] | None) -> Iterator[Log]:
    """Every log below `folder`; JSON files that are something else are passed over."""
    paths = sorted(folder.rglob("*.json"))
    found = 0
    for number, path in enumerate(paths, start=1):
        log = _read(path)
        if log is not None:
            found += 1
            yield log
        if progress is not None:
            progress(number, len(paths))
    if not found:
        raise TemporaError(
            f"no logs of the authors in {folder}: expected *.json files with `arguments` and `results`"
        )


def _read(path: Path) -> Log | None:
    """One log, or None for a JSON file that is something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TemporaError(f"{path} cannot be read ({error}): fetch it again, or leave it out") from error
    if not (isinstance(content, dict) and {"arguments", "results"} <= content.keys()):
        return None
    try:
        arguments = {str(name): str(value) for name, value in content["arguments"].items()}
        dataset = snake(arguments["dataset_name"])
        return Log(
            path=path,
            method=_method(arguments["method"]),
            model=arguments["model_arch"],
            dataset=dataset,
            seed=int(arguments["seed"]),
            batch_size=int(arguments["batch_size"]),
            scenario=_scenario(arguments),
            shifts={
                _shift(name, dataset, len(content["results"])): _batches(
                    name, found, int(arguments["batch_size"])
                )
                for name, found in content["results"].items()
            },
        )
    except TemporaError as error:
        raise TemporaError(f"{path}: {error}") from None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise TemporaError(f"{path}: not a log as the authors publish them ({what})") from error


def _method(name: str) -> str:
    method = RENAMED.get(name, name)
    if method not in METHODS:
        raise unknown(
            "method", name, [*RENAMED, *(known for known in METHODS if known not in RENAMED.values())]
        )
    return method


def _scenario(arguments: Mapping[str, str]) -> Scenario:
    """Which protocol a log ran: the one whose knob is set. Offline sets none of them."""
    knobs = {name: _number(arguments, name) for name in ("interval", "response_budget", "overhead_budget")}
    given = {name: value for name, value in knobs.items() if value is not None}
    if len(given) > 1:
        raise TemporaError(f"sets {' and '.join(given)}: a log of the paper sets one of them")
    if "interval" in given:
        queue = _number({"queue_size": "1", **arguments}, "queue_size")
        return Discrete(interval_ms=given["interval"], queue=int(queue or 0))
    if "response_budget" in given:
        return Continuous(threshold_ms=given["response_budget"])
    if "overhead_budget" in given:
        # The published budgets adapt on the batch that crosses them.
        return Amortised(budget_ms=given["overhead_budget"], rule="overshoot")
    return Offline()


def _number(arguments: Mapping[str, str], name: str) -> float | None:
    """A knob's value; None where it is not set, however that is written."""
    text = arguments.get(name, "").strip().lower()
    if text in _UNSET:
        return None
    value = float(text)
    return value if value > 0 else None


def _shift(name: str, dataset: str, distributions: int) -> str:
    return dataset if distributions == 1 and dataset in _WHOLE_DATASETS else snake(name)


def snake(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _batches(shift: str, found: Mapping[str, Any], batch_size: int) -> dict[str, FloatArray]:
    """The batches of one shift as columns, one entry per batch of the stream, skipped ones included."""
    rows = _in_stream_order(shift, found)
    columns = {
        name: np.array([row[name] if name in _REQUIRED else row.get(name, 0.0) for row in rows], float)
        for name in _COLUMNS
    }
    for name in (*_REQUIRED, "queue_wait_time"):
        impossible = ~(columns[name] >= 0) | np.isinf(columns[name])
        if impossible.any():
            raise ValueError(f"{name} is {columns[name][impossible][0]:g} in a batch of {shift}")
    if (columns["num_correct"] > columns["num_samples"]).any():
        raise ValueError(f"a batch of {shift} has more correct than samples")
    if columns["num_correct"].sum() != int(found["num_correct"]):
        raise ValueError(
            f"num_correct is {found['num_correct']}, its batches add up to {columns['num_correct'].sum():.0f}"
        )
    if (columns["num_samples"] > batch_size).any():
        raise ValueError(f"a batch has more than batch_size={batch_size} samples")
    return columns


def _in_stream_order(shift: str, found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The rows of a shift, each at its batch's place. Rows of skipped batches, where they are there at all, are all
    zero, their index too: the places that the served ones leave are theirs."""
    rows: Sequence[Mapping[str, Any]] = found["batch_summaries"]
    if not rows:
        raise ValueError("batch_summaries is empty")
    count, skipped = int(found["num_batches"]), int(found.get("num_skipped") or 0)
    served = [(place, row) for place, row in enumerate(rows) if row["num_samples"]]
    if len(rows) > count or (len(rows) < count and len(served) + skipped != count):
        raise TemporaError(
            f"{shift} says num_batches {count} and num_skipped {skipped}, its batch_summaries hold {len(rows)} "
            f"batches, {len(served)} of them served: the log is not whole, so fetch it again or leave it out"
        )
    whole = len(rows) == count
    indices = [int(row.get("index", place) if whole else row["index"]) for place, row in served]
    if whole and len({index - place for index, (place, _) in zip(indices, served, strict=True)}) <= 1:
        return rows
    if len(set(indices)) < len(indices) or not all(0 <= index < count for index in indices):
        raise ValueError(f"the indices of {shift}'s batches are not different numbers from 0 to {count - 1}")
    placed: list[Mapping[str, Any]] = [dict.fromkeys(_COLUMNS, 0.0)] * count
    for index, (_, row) in zip(indices, served, strict=True):
        placed[index] = row
    return placed
