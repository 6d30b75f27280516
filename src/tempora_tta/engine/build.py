"""The builder: from a configuration, and objects in hand where Python code gives some, to a job."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tempora_tta import models
from tempora_tta._own_code import find_function, is_own, module_of
from tempora_tta.config import RunConfig
from tempora_tta.data import StreamSettings
from tempora_tta.data.batches import open_given
from tempora_tta.data.images import Geometry
from tempora_tta.engine.arrival_times import with_times
from tempora_tta.engine.clocks import MEASURED, STEADY, clock_record, open_clock
from tempora_tta.engine.conformity import suite_of
from tempora_tta.engine.images import Given as GivenBatches
from tempora_tta.engine.images import given_streams, named_streams, source_images, stream_opener
from tempora_tta.engine.job import Job, MethodSpec, profile_threads, with_offline
from tempora_tta.engine.load_config import validated
from tempora_tta.engine.method_specs import (
    ALL,
    MethodLike,
    in_runtimes,
    made_if_it_fits,
    method_spec,
    method_specs,
    note_settings,
    with_own_times,
)
from tempora_tta.engine.observer import Notes, Observer, Together
from tempora_tta.engine.predicting import check_predict_with
from tempora_tta.engine.runtime import EAGER
from tempora_tta.engine.samples import may_be_kept, sample_pictures
from tempora_tta.errors import TemporaError, counted
from tempora_tta.methods.contract import samples
from tempora_tta.methods.guard import Misbehaved
from tempora_tta.models import Classifier
from tempora_tta.names import GRIDS
from tempora_tta.scenarios import Deployment, Scenario, from_spec, grid, to_spec
from tempora_tta.store.record import other_work
from tempora_tta.timing import choose_device, device_kind, machine_facts
from tempora_tta.timing.machine import keep_freed_memory

ScenarioLike = Scenario | str | Mapping[str, Any]

MOST_THREADS_PER_CORE = 8
"""More of them only wait for each other, and far more cannot be started, which ends the process."""
CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
"""Without this variable torch refuses matrix products under deterministic algorithms; read with the first of them."""
MOST_KEPT_BYTES = 64 << 20
"""Memory for networks of methods that wait for their first task."""


@dataclass(frozen=True)
class Given:
    """Objects that stand for what a configuration names; None: it names them."""

    model: nn.Module | None = None
    batches: GivenBatches | None = None
    methods: Sequence[MethodLike] | None = None
    scenarios: Sequence[Scenario] | None = None
    source: torch.Tensor | None = None
    named: bool = False
    """Whether the configuration names all of them too, so that the job can be made from it alone."""


def job_from_python(
    model: nn.Module | str,
    batches: GivenBatches | str,
    methods: MethodLike | Iterable[MethodLike],
    scenarios: ScenarioLike | Iterable[ScenarioLike] | None,
    *,
    seeds: Sequence[int],
    source: torch.Tensor | None = None,
    observer: Observer | None = None,
    **options: Any,
) -> Job:
    """Make the job of a call of `evaluate`: a configuration, and the objects that were given."""
    listed: list[Any] = [methods] if _is_one_method(methods) else list(methods)  # type: ignore[arg-type]
    specs = [ALL if method == ALL else method_spec(method) for method in listed]
    one: Any = [scenarios] if isinstance(scenarios, (Scenario, str, Mapping)) else scenarios
    chosen = None if one is None else [_scenario(each) for each in one]
    values = {"stream": None, **options, "seeds": list(seeds)}
    if isinstance(values["stream"], StreamSettings):
        values["stream"] = values["stream"].changed()
    plain = {name: str(value) for name, value in values.items() if isinstance(value, (Path, torch.device))}
    values |= plain
    if isinstance(model, str):
        values["model"] = model
    if isinstance(batches, str):
        values["data"] = {"batches": batches}
    if chosen is not None:
        values.setdefault("grid", "none")
    names = _names(specs, chosen or [])
    named = isinstance(model, str) and isinstance(batches, str) and source is None and names is not None
    config = validated({**values, **(names or {})} if named else values)
    given = Given(
        model=None if isinstance(model, str) else model,
        batches=None if isinstance(batches, str) else batches,
        methods=specs,
        scenarios=chosen,
        source=source,
        named=named,
    )
    return build_job(config, observer, given)


def build_job(config: RunConfig, observer: Observer | None = None, given: Given | None = None) -> Job:
    """Everything that was asked for, ready to run. Streams are opened later, one at a time.

    Python code that gives objects keeps its own settings of torch.
    """
    said = Notes()
    observer = Together(observer or Observer(), [said])
    device = choose_device(config.device)
    clock, baseline = open_clock(config.clock, device, config.baseline_ms, config.provision_x)
    check_predict_with(config.predict_with or EAGER, device, clock.name == MEASURED)
    if given is None:
        settle_torch(config, device)
        given = Given(named=True)
    elif clock.name == MEASURED:
        keep_freed_memory()
    if given.source is not None:
        samples(given.source, 0, "evaluate")  # what is no image is refused before it is hashed
    model = _network(config, given, device)
    if config.preprocessing is not None:
        images = Geometry.of(model.preprocessing)
        observer.note(
            f"images are prepared as the run says: resized to {images.resize_height} ({images.interpolation}), "
            f"cropped to {images.height}"
        )
    machine = machine_facts(device)
    specs = method_specs(config.methods if given.methods is None else given.methods, observer)
    job = Job(
        config=config,
        named=given.named,
        model=model,
        methods=in_runtimes(with_own_times([*specs], config.clock), config.runtimes, device, observer),
        scenarios=with_offline(scenarios_of(config, given.scenarios)),
        clock=clock,
        device=device,
        baseline=baseline,
        machine=machine,
        machine_kind=device_kind(machine),
        own_modules=(module_of(config.model),) if given.model is None and is_own(config.model) else (),
        **_images(config, given, model, device, observer),
    )
    if note := other_work(clock_record(clock), model.name, job.streams[0].batch_size):
        observer.note(note)
    job = with_methods_that_fit(job, observer)
    facts = dict(job.facts)
    if tuned := note_settings(job, observer):
        facts["recipes"] = tuned
    if suite := suite_of(config, model, job.streams, observer):
        facts["suite"] = suite
    return replace(job, facts=facts, scenarios=_among_classes(job), notes=tuple(said.notes))


def _among_classes(job: Job) -> tuple[Scenario, ...]:
    """The scenarios, in which random answers choose from the classes that are scored."""
    classes = job.streams[0].classes
    count = job.model.num_classes if classes is None else len(classes)
    return tuple(one.among(count) if isinstance(one, Deployment) else one for one in job.scenarios)


def _images(
    config: RunConfig, given: Given, model: Classifier, device: torch.device, observer: Observer
) -> dict[str, Any]:
    """Return what a job knows of its images: of a dataset, or of batches that Python code gives."""
    batches = given.batches
    if config.data.batches is not None:
        batches = find_function("batches", config.data.batches)()
    if batches is not None:
        return {
            "streams": tuple(given_streams(config, model, batches)),
            "open_stream": partial(open_given, device=device),
            "source": given.source if config.source is None else source_images(config, model),
        }
    streams = tuple(named_streams(config, model, observer))
    kept = may_be_kept(config.data)
    return {
        "streams": streams,
        "open_stream": stream_opener(config, model, device, observer),
        "source": source_images(config, model) if given.source is None else given.source,
        "pictures": partial(sample_pictures, config.data, streams, model.preprocessing) if kept else None,
        "facts": {"dataset": config.data.dataset, "severity": config.data.severity},
    }


def with_methods_that_fit(job: Job, observer: Observer) -> Job:
    """The job with the methods that could be made. One that does not fit says so before anything runs; one that fails
    leaves the others to go on, and says so in its cells."""
    failures, kept, made, bytes_kept = [], [], {}, 0
    for spec in job.methods:
        make = partial(job.create, spec, job.streams[0].seed)
        try:
            method = made_if_it_fits(spec.label, make, observer) if spec.if_it_fits else make()
        except Exception as error:
            if isinstance(error, TemporaError) and not isinstance(error, Misbehaved):
                raise
            named = isinstance(error, Misbehaved)  # its task fails the same way, and says so
            failures.append(str(error) if named else f"{spec.label}: {type(error).__name__}: {error}")
            kept.append(spec)
            continue
        if method is None:
            continue
        kept.append(replace(spec, if_it_fits=False))
        bytes_kept += sum(tensor.nbytes for tensor in (*method.model.parameters(), *method.model.buffers()))
        # Only where nothing is measured here, neither time nor memory; compiled parts are made again for each method.
        free = job.clock.looks_up and job.device.type == "cpu" and spec.runtime == EAGER
        if free and bytes_kept <= MOST_KEPT_BYTES:
            made[spec.label] = method
    if kept and len(failures) == len(kept):
        raise TemporaError(f"no method can be made: {'; '.join(failures)}")
    return replace(job, methods=tuple(kept), made=made)


def settle_torch(config: RunConfig, device: torch.device) -> None:
    """Threads, determinism and the allocator, before anything is timed."""
    threads = config.threads
    if threads is None and config.clock == STEADY and config.data.batches is None:
        threads = profile_threads(None, device)
    if threads is not None:
        most = MOST_THREADS_PER_CORE * (os.cpu_count() or 1)
        if threads > most:
            raise TemporaError(
                f"threads={threads}: this machine has {counted(os.cpu_count() or 1, 'core')}; use at most {most}"
            )
        torch.set_num_threads(threads)
    _set_deterministic(config.deterministic)
    if config.deterministic and device.type == "cuda":
        torch.backends.cudnn.benchmark = False
        os.environ.setdefault(*CUBLAS_WORKSPACE)
    keep_freed_memory()


def _set_deterministic(wanted: bool) -> None:
    """As torch does it, but only where that changes something: its call imports a compiler, which takes seconds."""
    warns_only = torch.is_deterministic_algorithms_warn_only_enabled()
    if (torch.are_deterministic_algorithms_enabled(), warns_only) != (wanted, False):
        torch.use_deterministic_algorithms(wanted)


def _network(config: RunConfig, given: Given, device: torch.device) -> Classifier:
    if given.model is not None:
        if config.checkpoint is not None or not config.pretrained:
            raise TemporaError(
                "checkpoint and pretrained are about a network that is named: load weights into the one that you give"
            )
        classifier = models.wrap(given.model)
        if classifier.device != device:
            classifier = copy.deepcopy(classifier).to(device)  # the caller's stays where it is
        return classifier
    options: dict[str, Any] = {}
    if config.checkpoint is not None:
        options["checkpoint"] = config.checkpoint
    if not config.pretrained:
        options["pretrained"] = False
    classifier = models.load(config.model, **options).to(device)
    if stated := config.preparation():
        _check_channels(stated, classifier)
        classifier.prepare(**stated)
    return classifier


def _check_channels(stated: Mapping[str, Any], model: Classifier) -> None:
    """Refuse means and deviations of other images than the network takes."""
    channels = model.preprocessing.image_shape[0]
    for name in ("mean", "std"):
        if len(stated.get(name, range(channels))) != channels:
            raise TemporaError(
                f"preprocessing.{name}={list(stated[name])}: {model.name} takes {counted(channels, 'channel')}; "
                "give a number for each"
            )


def scenarios_of(config: RunConfig, given: Iterable[Scenario] | None = None) -> list[Scenario]:
    """The grid, then the scenarios given one by one."""
    found = _grid(config.grid, config.rule, config.queue)
    if given is not None:
        return [*found, *given]
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


# -- what Python code gives --------------------------------------------------------------------------------------


def _is_one_method(given: Any) -> bool:
    pair = isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)
    return pair or isinstance(given, (str, type, MethodSpec))


def _scenario(given: ScenarioLike) -> Scenario:
    """A scenario as a user names it: an object, `module:Class`, or a mapping as in a configuration."""
    return given if isinstance(given, Scenario) else from_spec(with_times(given))


def _names(specs: Iterable[MethodSpec | str], scenarios: Sequence[Scenario]) -> dict[str, Any] | None:
    """Methods and scenarios as a configuration names them; None where one has no name, or is not plain data."""
    methods: list[Any] = []
    for spec in specs:
        if isinstance(spec, str):
            methods.append(spec)
            continue
        name = _name_of(spec.name)
        if name is None or spec.runtime != EAGER or spec.tuned:
            return None
        methods.append({"name": name, "label": spec.label, "times_as": spec.times_as, **spec.settings})
    if any(_name_of(type(scenario)) is None for scenario in scenarios):
        return None
    with suppress(TypeError, ValueError, TemporaError):
        found = {"methods": methods, "scenarios": [to_spec(scenario) for scenario in scenarios]}
        return dict(json.loads(json.dumps(found)))
    return None


def _name_of(kind: str | type[Any]) -> str | None:
    """`module:Class`, if that leads to this class from another process too."""
    if isinstance(kind, str):
        return kind
    module = sys.modules.get(kind.__module__)
    with suppress(AttributeError):
        if kind.__module__ != "__main__" and attrgetter(kind.__qualname__)(module) is kind:
            return f"{kind.__module__}:{kind.__qualname__}"
    return None
