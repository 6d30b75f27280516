"""Runs to their end: `tempora.evaluate`, and the doubt about winners that a finished run keeps."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tempora_tta.analysis.of_run import keep_doubt
from tempora_tta.config import RunConfig
from tempora_tta.engine.build import ScenarioLike, job_from_python
from tempora_tta.engine.images import Given
from tempora_tta.engine.method_specs import MethodLike
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.run import Run, failures
from tempora_tta.errors import TemporaError, TemporaWarning, counted, unknown
from tempora_tta.progress import watched
from tempora_tta.results import Results
from tempora_tta.store import RunFolder

_GIVEN = {
    "suite",
    "model",
    "preprocessing",
    "data",
    "source",
    "methods",
    "scenarios",
    "seeds",
    "deterministic",
}
"""Keys of a configuration for which Python has arguments, objects or settings of its own."""
OPTIONS = [each.name for each in fields(RunConfig) if each.name not in {*_GIVEN, "batches", "batch_size"}]
"""Keys of a configuration that `evaluate` takes too; an object may stand for a name."""


def evaluate(
    model: nn.Module | str,
    batches: Given | str,
    methods: MethodLike | Iterable[MethodLike] = "all",
    scenarios: ScenarioLike | Iterable[ScenarioLike] | None = None,
    *,
    seed: int = 2025,
    seeds: Sequence[int] | None = None,
    source: torch.Tensor | None = None,
    out: Path | str | None = None,
    observer: Observer | None = None,
    progress: bool = True,
    **options: Any,
) -> Results:
    """Run methods over batches under scenarios, and say what each deployment got.

    Args:
        model: a Classifier, any network that `tempora_tta.models.wrap` understands, or the name of one for
            `tempora_tta.models.load`.
        batches: (x normalised float32, y int64) pairs, each x its own tensor, a dict of shift name (or
            (name, severity)) to such a list, or `module:function`, which returns either. A run whose model,
            batches, methods and scenarios all have names can be audited, and run again by `tempora run`.
        methods: names, classes, or (name, settings); one or several; default "all", every method that fits
            the model.
        scenarios: one or several: objects, "module:Class", or {"protocol": ..., knobs} as in a
            configuration; default, the relative grid. Offline is always run.
        seeds: several seeds instead of one, none of them twice; each is run.
        source: clean unlabelled images, normalised, for methods that ask for some (EATA, FOA); never the
            stream's.
        out: a run folder, which the same call resumes (except for passes of code typed in a notebook, which
            has no file); default, a temporary one that lives as long as the results.
        observer: is told what the run does.
        progress: without an observer, a line on the terminal or in the notebook that says where the run is
            and about how long it will take.
        **options: keys of a configuration, as in YAML, with the same defaults. The clock is "steady" unless
            given (this machine is profiled first, for at most `profile_s` seconds), "measured", a profile's
            path, "published:rn50_inc", or {"baseline_ms": 40, "tent": (41, 56), ...}; a stream is an order
            of the samples such as {"kind": "continual", "reset": "shift"}, by default as the batches are
            given.

    Cells that fail say why in `utilities.status`, and warn; if all of them do, that is an error.
    """
    for name in options:
        if name not in OPTIONS:
            raise unknown("option of evaluate", name, OPTIONS)
    with watched(observer, progress) as watching:
        job = job_from_python(
            model,
            batches,
            methods,
            scenarios,
            seeds=[seed] if seeds is None else seeds,
            source=source,
            observer=watching,
            **options,
        )
        temporary = None
        if out is None:
            temporary = tempfile.TemporaryDirectory(prefix="tempora-")
            out = temporary.name
        with RunFolder.for_writing(out) as folder:
            run = Run(job, folder, watching)
            results = finished(run)
    results.keeps_alive = temporary
    _complain(run.rows)
    return results


def finished(run: Run) -> Results:
    """Execute a run to its end, with the doubt about winners in its tables; return its results."""
    run.execute(keep_doubt)
    results = Results(run.folder)
    run.observer.finished(results)
    return results


def _complain(rows: list[dict[str, Any]]) -> None:
    """A table full of empty cells looks like a result."""
    failed = [row for row in rows if row["status"].startswith("failed")]
    if not failed:
        return
    text = f"{len(failed)} of {counted(len(rows), 'cell')} failed: {'; '.join(failures(rows))}"
    if all(row["status"] != "ok" for row in rows):
        raise TemporaError(text)
    warnings.warn(text, TemporaWarning, stacklevel=3)
