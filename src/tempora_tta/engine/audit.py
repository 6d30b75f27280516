"""Auditing a run: cells picked at random are run again, unshared and live, and compared with what was stored."""

from __future__ import annotations

import random
import tempfile
from contextlib import closing
from dataclasses import replace

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


def audit(results: Results, cells: int = 5, seed: int = 0, observer: Observer | None = None) -> pd.DataFrame:
    """Re-execute random cells of a run that was made from a configuration; return their rows of `utilities`.

    `again` is the utility of today, `same_predictions` whether batches served in both were predicted alike. Under a
    recorded clock every utility and prediction must be the same, so that the cell `agrees`; measured ones must agree
    within their timing interval and `MEASURED_TOLERANCE`. `live.live` lives cells against the wall clock instead.
    """
    job = _job(results)
    scored = results.utilities[results.utilities["status"] == "ok"]
    if scored.empty:
        raise TemporaError(f"{results.path} has no finished cell to audit: let the run finish first")
    picked = scored.iloc[sorted(random.Random(seed).sample(range(len(scored)), min(cells, len(scored))))]
    observer, again, same = observer or Observer(), [], []
    with closing(Streams(job.open_stream)) as streams:  # cells are in the order of their streams
        for _, cell in picked.iterrows():
            observer.task_started(cell["method"], cell["shift"], int(cell["seed"]))
            stored, (trace, utility) = results.trace(cell), _once_more(job, results, cell, streams)
            both = stored.served & trace.served
            again.append(utility)
            same.append(bool(both.any() and (stored.predicted[both] == trace.predicted[both]).all()))
            observer.task_finished(cell["method"], cell["shift"], int(cell["seed"]))
    picked = picked.assign(again=again, same_predictions=same)
    lo, hi = picked["utility_lo"] - MEASURED_TOLERANCE, picked["utility_hi"] + MEASURED_TOLERANCE
    exact = (picked["again"] == picked["utility"]) & picked["same_predictions"]
    return picked.assign(agrees=picked["again"].between(lo, hi) if job.measured else exact)


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
