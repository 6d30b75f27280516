"""From a configuration to a job: every name becomes the thing that it names."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import torch

from tempora_tta import models
from tempora_tta._own_code import find_function, is_own, module_of
from tempora_tta.data import Order
from tempora_tta.engine.arrival_times import with_times
from tempora_tta.engine.clocks import MEASURED, STEADY, clock_record, open_clock
from tempora_tta.engine.config import RunConfig
from tempora_tta.engine.conformity import departures
from tempora_tta.engine.job import Job, with_offline
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.predicting import check_predict_with
from tempora_tta.engine.runtime import EAGER
from tempora_tta.engine.samples import may_be_kept, sample_pictures
from tempora_tta.engine.setup_data import orders, source_images, stream_opener
from tempora_tta.engine.setup_methods import in_runtimes, method_specs, recipe_record, with_own_times
from tempora_tta.errors import TemporaError, counted
from tempora_tta.measure import choose_device, device_kind, machine_facts
from tempora_tta.measure.process import keep_freed_memory
from tempora_tta.models import Classifier
from tempora_tta.names import GRIDS
from tempora_tta.scenarios import Scenario, from_spec, grid
from tempora_tta.store.made_with import other_work

MOST_THREADS_PER_CORE = 8
"""More of them only wait for each other, and far more cannot be started, which ends the process."""
CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
"""Without this variable torch refuses matrix products under deterministic algorithms; read with the first of them."""


def job_from_config(config: RunConfig, observer: Observer | None = None) -> Job:
    """Everything the configuration names, ready to run. Streams are opened later, one at a time."""
    observer = observer or Observer()
    device = choose_device(config.device)
    settle_torch(config, device)
    clock, baseline = open_clock(config.clock, device, config.baseline_ms, config.provision_x)
    predict_with = check_predict_with(config.predict_with or EAGER, device, clock.name == MEASURED)
    model = load_model(config).to(device)
    models.check_input(model, model.preprocessing.image_shape)
    streams = tuple(orders(config, model, observer))
    if note := other_work(clock_record(clock), model.name, config.batch_size):
        observer.note(note)
    facts = machine_facts(device)
    suite = suite_of(config, model, streams, observer)
    source = source_images(config, model)
    specs = method_specs(config, model, observer, source)
    if config.clock == STEADY:
        specs = with_own_times(specs)
    recipes = recipe_record(
        config, specs, (one.name for stream in streams for one in stream.shifts), observer
    )
    return Job(
        model=model,
        methods=in_runtimes(specs, config.runtimes, device, observer),
        source=source,
        scenarios=with_offline(scenarios(config)),
        streams=streams,
        open_stream=stream_opener(config, model, device, observer),
        clock=clock,
        device=device,
        preset=config.preset,
        share=config.share,
        warmup_batches=config.warmup_batches,
        baseline=baseline,
        calibration_batches=config.calibration_batches,
        provision=config.provision,
        profile_s=config.profile_s,
        profile_threads=profile_threads(config.threads, device),
        machine_kind=device_kind(facts),
        predict_with=predict_with,
        method_timeout_s=config.method_timeout_s,
        pictures=partial(sample_pictures, config.data, streams, model.preprocessing)
        if may_be_kept(config.data)
        else None,
        own_modules=(module_of(config.model),) if is_own(config.model) else (),
        facts={
            "config": config.model_dump(mode="json"),
            **({"suite": suite} if suite else {}),
            "dataset": config.data.dataset,
            "severity": config.data.severity,
            **({} if recipes is None else {"recipes": recipes}),
            "machine": facts,
        },
    )


def suite_of(
    config: RunConfig, model: Classifier, streams: tuple[Order, ...], observer: Observer
) -> str | None:
    """The suite that the run may be called by; None, and a note that says why, if it departs from it."""
    if config.suite is None:
        return None
    found = departures(config, model.weights_hash(), {stream.shift: stream.fingerprint for stream in streams})
    if found:
        observer.note(f"these are no results of {config.suite}: {'; '.join(found)}")
        return None
    return config.suite


def profile_threads(threads: int | None, device: torch.device) -> int | None:
    """One thread of a processor, unless more are asked for: with more, others' work changes the ratios of times."""
    return (threads or 1) if device.type == "cpu" else None


def settle_torch(config: RunConfig, device: torch.device) -> None:
    """Threads, determinism and the allocator, before anything is timed."""
    threads = config.threads
    if threads is None and config.clock == STEADY:
        threads = profile_threads(None, device)
    if threads is not None:
        most = MOST_THREADS_PER_CORE * (os.cpu_count() or 1)
        if threads > most:
            raise TemporaError(
                f"threads={threads}: this machine has {counted(os.cpu_count() or 1, 'core')}; use at most {most}"
            )
        torch.set_num_threads(threads)
    set_deterministic(config.deterministic)
    if config.deterministic and device.type == "cuda":
        torch.backends.cudnn.benchmark = False
        os.environ.setdefault(*CUBLAS_WORKSPACE)
    keep_freed_memory()


def set_deterministic(wanted: bool) -> None:
    """As torch does it, but only where that changes something: its call imports a compiler, which takes seconds."""
    warns_only = torch.is_deterministic_algorithms_warn_only_enabled()
    if (torch.are_deterministic_algorithms_enabled(), warns_only) != (wanted, False):
        torch.use_deterministic_algorithms(wanted)


def load_model(config: RunConfig) -> Classifier:
    options: dict[str, Any] = {}
    if config.checkpoint is not None:
        options["checkpoint"] = config.checkpoint
    if not config.pretrained:
        options["pretrained"] = False
    return models.load(config.model, **options)


def scenarios(config: RunConfig) -> list[Scenario]:
    """The grid, then the scenarios given one by one."""
    found = _grid(config.grid, config.rule, config.queue)
    for position, spec in enumerate(config.scenarios):
        try:
            found.append(from_spec(with_times(spec)))
        except TemporaError as error:
            raise TemporaError(f"scenarios[{position}]: {error}") from None
    return found


def _grid(name: str, rule: str, queue: int) -> list[Scenario]:
    """The scenarios of a grid of ours, or those that a user's `module:function` returns."""
    if name in GRIDS:
        return grid(name, rule, queue)
    made = list(find_function("grid", name)())
    for scenario in made:
        if not isinstance(scenario, Scenario):
            raise TemporaError(f"grid {name!r}: its function must return scenarios; got {scenario!r:.60}")
    return made
