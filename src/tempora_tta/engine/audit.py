"""Auditing a run: cells picked at random are run again, unshared and live, and compared with what was stored."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tempora_tta.data import Order, Streams
from tempora_tta.engine.build import build_job
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.load_config import validated
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.own_profile import PROFILE_FILE
from tempora_tta.engine.pass_maker import PassMaker
from tempora_tta.engine.task import Task
from tempora_tta.errors import TemporaError
from tempora_tta.store import Results, RunFolder, Trace, utility_row
from tempora_tta.timing import Baseline, Profile, ProfileClock, load_profile

MEASURED_TOLERANCE = 0.02
"""How far a utility may move when a measured cell is run again, beyond its own timing interval."""


@dataclass(frozen=True)
class AuditedCell:
    """One cell, stored and run again."""

    method: str
    shift: str
    seed: int
    label: str
    origin: str
    stored: float
    again: float
    same_predictions: bool
    """Whether batches served in both were predicted alike."""
    agrees: bool


def audit(
    results: Results, cells: int = 5, seed: int = 0, observer: Observer | None = None
) -> list[AuditedCell]:
    """Re-execute random cells of a run that was made from a configuration.

    Under a recorded clock every utility and prediction must be the same; measured ones must agree within their timing
    interval and `MEASURED_TOLERANCE`. `live.live` lives cells against the wall clock, which checks the simulated one.
    """
    job = _job(results)
    scored = results.utilities[results.utilities["status"] == "ok"]
    if scored.empty:
        raise TemporaError(f"{results.path} has no finished cell to audit: let the run finish first")
    picked = scored.iloc[sorted(random.Random(seed).sample(range(len(scored)), min(cells, len(scored))))]
    observer = observer or Observer()
    found = []
    streams = Streams(job.open_stream)  # cells are in the order of their streams
    try:
        for _, cell in picked.iterrows():
            observer.task_started(cell["method"], cell["shift"], int(cell["seed"]))
            found.append(_audit_cell(job, results, cell, streams))
            observer.task_finished(cell["method"], cell["shift"], int(cell["seed"]))
    finally:
        streams.close()
    return found


def _job(results: Results) -> Job:
    config = results.manifest.get("config")
    if config is None:
        raise TemporaError(
            f"{results.path} was made from Python with a network, batches or methods that have no names, so they are "
            "not at hand: only runs of `tempora run` and `tempora demo` can be audited, and those of "
            'tempora.evaluate("NAME", "module:function", ...)'
        )
    try:
        job = build_job(validated(config))
        if isinstance(job.clock, ProfileClock) and job.clock.own:
            profile = load_profile(results.path / PROFILE_FILE)
            if isinstance(profile, Profile):
                job.clock.profile = profile
        return job
    except TemporaError as error:
        raise TemporaError(
            f"the configuration in {results.path / 'run.json'} cannot be run: {error}"
        ) from error


def _found(job: Job, results: Results, cell: pd.Series) -> tuple[MethodSpec, Order]:
    spec = next((spec for spec in job.methods if spec.label == cell["method"]), None)
    source = _source(job, cell)
    if spec is None or source is None:
        raise TemporaError(
            f"{cell['method']} on {cell['shift']}, seed {cell['seed']}, is not in the configuration of "
            f"{results.path / 'run.json'}: another run's files are in the folder, or it was edited"
        )
    return spec, source


def _audit_cell(job: Job, results: Results, cell: pd.Series, streams: Streams) -> AuditedCell:
    stored = results.trace(cell)
    again, utility = _once_more(job, results, cell, streams)
    same = _same_predictions(stored, again)
    return AuditedCell(
        method=cell["method"],
        shift=cell["shift"],
        seed=int(cell["seed"]),
        label=cell["label"],
        origin=cell["origin"],
        stored=float(cell["utility"]),
        again=utility,
        same_predictions=same,
        agrees=_agrees(cell, utility) if job.measured else utility == cell["utility"] and same,
    )


def _once_more(job: Job, results: Results, cell: pd.Series, streams: Streams) -> tuple[Trace, float]:
    """The cell's pass, made as by a run of this cell alone that shares nothing; and its utility."""
    spec, source = _found(job, results, cell)
    baseline = Baseline(float(cell["baseline_ms"]), source="given")
    scenario = results.scenarios[int(cell["scenario"])]
    alone = replace(job, scenarios=(scenario,), config=replace(job.config, share=False))
    with tempfile.TemporaryDirectory(prefix="tempora-") as place, RunFolder.for_writing(place) as folder:
        passes = PassMaker(
            job=alone,
            spec=spec,
            source=source,
            baseline=baseline,
            folder=folder,
            observer=Observer(),
            streams=streams,
        )
        (made,) = Task(passes).cells()
        if made.status != "ok":
            raise TemporaError(f"{cell['method']} on {cell['shift']}, {cell['label']}: {made.status}")
        trace = folder.trace(str(made.adapting_pass))
        return trace, float(utility_row(made, trace)["utility"])


def _source(job: Job, cell: pd.Series) -> Order | None:
    wanted = (cell["shift"], int(cell["seed"]))
    return next((source for source in job.streams if (source.shift, source.seed) == wanted), None)


def _agrees(cell: pd.Series, utility: float) -> bool:
    return bool(cell["utility_lo"] - MEASURED_TOLERANCE <= utility <= cell["utility_hi"] + MEASURED_TOLERANCE)


def _same_predictions(stored: Trace, again: Trace) -> bool:
    both = stored.served & again.served
    return bool((stored.predicted[both] == again.predicted[both]).all()) and bool(np.any(both))
