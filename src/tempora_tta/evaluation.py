"""Runs to their end: `tempora.evaluate`, and the doubt about winners that a finished run keeps."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tempora_tta.analysis.doubt import keep_doubt
from tempora_tta.data import Walk
from tempora_tta.engine.given import Batches, MethodLike, ScenarioLike, job_from_batches
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.one_line import watched
from tempora_tta.engine.run import Run, failures
from tempora_tta.errors import TemporaError, TemporaWarning, counted
from tempora_tta.results import Results
from tempora_tta.scenarios import relative_grid
from tempora_tta.store import RunFolder


def evaluate(
    model: nn.Module | str,
    batches: Batches | Mapping[str, Batches] | str,
    methods: MethodLike | Iterable[MethodLike] = "all",
    scenarios: ScenarioLike | Iterable[ScenarioLike] | None = None,
    *,
    device: str | torch.device = "auto",
    clock: str | Path | Mapping[str, Any] = "steady",
    seed: int = 2025,
    seeds: Sequence[int] | None = None,
    stream: str | Mapping[str, Any] | Walk | None = None,
    baseline_ms: float | None = None,
    profile_s: float = 60.0,
    provision_x: float | str = 1.03,
    threads: int = 1,
    calibration_batches: int = 700,
    provision: float = 6.0,
    warmup_batches: int = 5,
    preset: str | None = None,
    share: bool = True,
    source: torch.Tensor | None = None,
    predict_with: str | None = None,
    method_timeout_s: float | None = None,
    out: Path | str | None = None,
    observer: Observer | None = None,
    progress: bool = True,
) -> Results:
    """Run methods over batches under scenarios, and say what each deployment got.

    model: a Classifier, any network that `tempora_tta.models.wrap` understands, or the name of one for
        `tempora_tta.models.load`.
    batches: (x normalised float32, y int64) pairs, each x its own tensor, a dict of shift name (or (name,
        severity)) to such a list, or `module:function`, which returns either. A run whose model, batches and methods
        all have names can be audited.
    methods: names, classes, or (name, settings); one or several; default "all", every method that fits the model.
    scenarios: one or several: objects, "module:Class", or {"protocol": ..., knobs} as in a configuration; default,
        the relative grid. Offline is always run.
    clock: "steady" (profile this machine first, for at most `profile_s` seconds, on so many `threads` of a CPU),
        "measured", a profile's path, "published:rn50_inc", or {"baseline_ms": 40, "tent": (41, 56), ...}.
    provision_x: steady: lambda over Standard's steady time, or "tail". provision, calibration_batches,
        warmup_batches: measured.
    source: clean unlabelled images, normalised, for methods that ask for some (EATA, FOA); never the stream's.
    method_timeout_s: how long one call into a method may take before its cells fail.
    predict_with: tf32, amp or channels_last: predictions in that runtime, where it agrees with the one that is
        timed; steady and recorded clocks only.
    seeds: several seeds instead of one, none of them twice; each is run.
    stream: an order of the samples, such as {"kind": "continual", "reset": "shift"}; default, batches as given.
    out: a run folder, which the same call resumes (except for passes of code typed in a notebook, which has no file);
        default, a temporary one that lives as long as the results.
    observer: is told what the run does. progress: without an observer, a line on the terminal or in the notebook that
        says where the run is and about how long it will take.

    Cells that fail say why in `utilities.status`, and warn; if all of them do, that is an error.
    """
    with watched(observer, progress) as watching:
        job = job_from_batches(
            model,
            batches,
            methods,
            relative_grid() if scenarios is None else scenarios,
            device=str(device),
            clock=str(clock) if isinstance(clock, Path) else clock,
            seed=seed,
            seeds=seeds,
            stream=stream,
            baseline_ms=baseline_ms,
            profile_s=profile_s,
            provision_x=provision_x,
            threads=threads,
            calibration_batches=calibration_batches,
            provision=provision,
            warmup_batches=warmup_batches,
            preset=preset,
            share=share,
            source=source,
            predict_with=predict_with,
            method_timeout_s=method_timeout_s,
            observer=watching,
        )
        temporary = None
        if out is None:
            temporary = tempfile.TemporaryDirectory(prefix="tempora-")
            out = temporary.name
        with RunFolder.for_writing(out) as folder:
            run = Run(job, folder, watching)
            run.execute()
            results = finished(folder, watching)
    results.keeps_alive = temporary
    _complain(run.rows)
    return results


def finished(folder: RunFolder, observer: Observer) -> Results:
    """Keep the doubt about winners in the tables of a run that has ended; return its results."""
    results = Results(folder)
    keep_doubt(results)
    observer.finished(results)
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
