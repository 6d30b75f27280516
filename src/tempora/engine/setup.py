"""From a configuration to a job: loads the network, opens the shifts, makes the methods and the grid."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any, cast, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError

from tempora import data, methods, models
from tempora._own_code import find_function, is_own, module_of
from tempora.data import Order, Shift, Stream, Walk, draw, open_stream
from tempora.data.contents import Progress
from tempora.data.registry import find
from tempora.engine.arrival_times import with_times
from tempora.engine.clocks import MEASURED, STEADY, open_clock
from tempora.engine.config import DataConfig, MethodConfig, RunConfig, SourceConfig
from tempora.engine.conformity import departures
from tempora.engine.job import Job, MethodSpec, may_ask_for_source, with_offline
from tempora.engine.observer import Observer
from tempora.engine.own_source import own_source
from tempora.engine.passes import Stopped
from tempora.engine.predicting import check_predict_with
from tempora.engine.runtime import EAGER, Runtime
from tempora.engine.samples import may_be_kept, sample_pictures
from tempora.engine.tuning import read_recipes
from tempora.errors import TemporaError, counted, suggestion
from tempora.measure import Clock, SteadyClock, choose_device, device_kind, machine_facts
from tempora.measure.process import keep_freed_memory
from tempora.models import Classifier
from tempora.names import GRIDS
from tempora.scenarios import Scenario, from_spec, grid

MANY_FILES = 5_000
"""Reading so many takes long enough to be announced."""
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
    models.try_on(model, model.preprocessing.input_size)
    streams = tuple(orders(config, model, observer))
    facts = machine_facts(device)
    suite = suite_of(config, model, streams, observer)
    source = source_images(config, model)
    return Job(
        model=model,
        methods=_in_runtimes(
            method_specs(config, model, observer, source), config.runtimes, device, observer
        ),
        source=source,
        scenarios=with_offline(scenarios(config)),
        streams=streams,
        open_stream=stream_opener(config, model, device, observer),
        clock=clock,
        device=device,
        preset=config.preset,
        share=config.share,
        warmup_batches=config.warmup_batches,
        tail_batches=config.tail_batches or usual_tail_batches(clock, device),
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


def usual_tail_batches(clock: Clock, device: torch.device) -> int:
    """A frozen tail's batches at once: several where no clock runs and the device has room for them."""
    return 4 if isinstance(clock, SteadyClock) and device.type != "cpu" else 1


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


SOURCES = {"fashion": "fashion_train"}
"""Datasets that ship with source samples, and where those are."""


def source_images(config: RunConfig, model: Classifier) -> torch.Tensor | None:
    """Clean images for methods that ask for some, from the dataset that the run names, or that ships with its own."""
    given = config.source
    if given is None and config.data.dataset in SOURCES and any(map(_may_ask, config.methods)):
        given = SourceConfig(dataset=SOURCES[config.data.dataset])
    if given is None:
        return None
    if (given.dataset, given.root, given.options) == (
        config.data.dataset,
        config.data.root,
        config.data.options,
    ):
        raise TemporaError(
            f"source: {given.dataset} is what the stream comes from; a method must not see its images before. "
            "Name a dataset of training images"
        )
    return images_of(given, model, config.data.workers)


def images_of(given: SourceConfig, model: Classifier, workers: int | None = None) -> torch.Tensor:
    """So many images of a dataset, normalised for the model."""
    chosen = None if given.shift is None else [given.shift]
    shifts = data.open(given.dataset, root=given.root, shifts=chosen, **given.options)
    if len(shifts) > 1:
        raise TemporaError(f"source: {given.dataset} has several shifts: say shift: {' or '.join(shifts)}")
    (shift,) = shifts.values()
    if len(shift) < given.samples:
        raise TemporaError(f"source: {given.samples} samples wanted, {given.dataset} has {len(shift)}")
    size = max(part for part in range(1, 65) if given.samples % part == 0)  # a stream has whole batches only
    images = open_stream(
        shift,
        model.preprocessing,
        batch_size=size,
        limit_batches=given.samples // size,
        workers=workers,
    )
    return torch.cat([images.batch(index) for index in range(images.num_batches)])


def _may_ask(entry: str | MethodConfig) -> bool:
    return entry == "all" or may_ask_for_source(entry.name if isinstance(entry, MethodConfig) else entry)


def method_specs(
    config: RunConfig, model: Classifier, observer: Observer, source: torch.Tensor | None = None
) -> tuple[MethodSpec, ...]:
    """The methods of the configuration; `all` means those that fit the model and are not costly."""
    specs = []
    for entry in config.methods:
        if entry == "all":
            specs += list(fitting(model, config.preset, source, observer))
        elif isinstance(entry, MethodConfig):
            specs.append(MethodSpec(entry.name, entry.settings, entry.label, times_as=entry.times_as))
        else:
            specs.append(MethodSpec(entry))
    specs = _tuned(specs, config)
    for spec in specs:
        kind = methods.get(spec.name)
        used, _ = methods.recipe_for(kind, model)
        if used not in (None, kind.name):
            observer.note(f"{spec.label} has no recipe on {model.name} and uses that of {used}")
    return tuple(specs)


def _tuned(specs: list[MethodSpec], config: RunConfig) -> list[MethodSpec]:
    """With the settings of a recipe file where the configuration gives none; for a band, with each of its choices."""
    if config.recipes is None:
        if config.band:
            raise TemporaError("band: needs recipes, a file of `tempora tune`: add --recipes FILE")
        return specs
    recipes = read_recipes(config.recipes, config.model)
    if not config.band:
        return [
            replace(spec, settings={**recipes.chosen.get(str(spec.name), {}), **spec.settings})
            for spec in specs
        ]
    return [
        replace(
            spec, settings=settings, label=f"{spec.label} ({way})", times_as=spec.times_as or str(spec.name)
        )
        if way
        else spec
        for spec in specs
        for way, settings in recipes.band(str(spec.name)).items()
    ]


def _in_runtimes(
    specs: tuple[MethodSpec, ...], runtimes: list[str], device: torch.device, observer: Observer
) -> tuple[MethodSpec, ...]:
    """Every method in every runtime: tent, tent@tf32."""
    known = dict.fromkeys(Runtime.parse(text) for text in runtimes)
    for runtime in known:
        for note in runtime.notes(device):
            observer.note(note)
    return tuple(spec.under(str(runtime)) for runtime in known for spec in specs)


def fitting(
    model: Classifier, preset: str | None, source: torch.Tensor | None, observer: Observer
) -> Iterator[MethodSpec]:
    """All methods that fit the model and are not costly."""
    for name in methods.names():
        if methods.get(name).costly:
            observer.note(f"left out {name}: it takes tens of times Standard's time; name it to run it")
            continue
        try:
            methods.create(name, model, preset=preset, source=source)
        except TemporaError as misfit:
            observer.note(f"left out {name}: {misfit}")
        else:
            yield MethodSpec(name)


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


def dataset_options(config: DataConfig) -> dict[str, Any]:
    """What is asked of this dataset alone, each of the type that its function takes."""
    card = find(config.dataset)
    wanted: dict[str, Any] = dict.fromkeys(card.settings, Any)
    with suppress(Exception):  # annotations of a user's function may name what is imported for checkers only
        wanted |= {key: hint for key, hint in get_type_hints(card.opener).items() if key in wanted}
    options = {}
    for key, value in config.options.items():
        if not wanted:
            raise TemporaError(f"data.options.{key}={value!r}: dataset {config.dataset!r} has no options")
        if key not in wanted:
            raise TemporaError(
                f"unknown key 'data.options.{key}' for {config.dataset!r}: {suggestion(key, wanted)}"
            )
        try:
            options[key] = TypeAdapter(wanted[key]).validate_python(value)
        except ValidationError as error:
            reasons = dict.fromkeys(
                each["msg"].lower().removeprefix("input should be ") for each in error.errors()
            )
            raise TemporaError(f"data.options.{key}={value!r}: must be {', or '.join(reasons)}") from None
    return options


def walk_of(config: RunConfig) -> Walk:
    """The stream that the configuration asks for. `batches` means the same here and there."""
    walk = Walk.of(config.stream)
    if config.batches is None or is_own(walk.kind):
        return walk
    if walk.batches not in (None, config.batches):
        raise TemporaError(f"batches={config.batches} and stream.batches={walk.batches}: give one of them")
    return replace(walk, batches=config.batches)


def open_shifts(config: RunConfig, walk: Walk, observer: Observer) -> list[Shift]:
    """The shifts of the configuration; at every severity there is, if the stream goes through them."""
    card = find(config.data.dataset)
    if walk.through_severities and "severity" not in card.takes:
        raise TemporaError(f"stream: gradual goes through severities, and {config.data.dataset} has none")
    found = []
    for severity in range(1, 6) if walk.through_severities else (config.data.severity,):
        shifts = data.open(
            config.data.dataset,
            root=config.data.root,
            severity=severity,
            shifts=config.data.shifts,
            progress=_reading(observer),
            **dataset_options(config.data),
        )
        known = [_with_its_code(shift, config.data.dataset) for shift in shifts.values()]
        found += [replace(one, severity=severity) for one in known] if walk.through_severities else known
    if walk.through_severities:  # the uncorrupted images have no severity to go through
        found = [shift for shift in found if shift.group != "clean"]
        if not found:
            raise TemporaError(
                f"stream: gradual goes through severities, and {config.data.shifts!r} has none: name corruptions"
            )
    return found


def orders(config: RunConfig, model: Classifier, observer: Observer) -> Iterator[Order]:
    """The streams: shifts are the outer loop, seeds the inner one, so that each shift is decoded once."""
    walk = walk_of(config)
    shifts = open_shifts(config, walk, observer)
    for note in left_out(shifts, config.batch_size, whole=walk.batches is None):
        observer.note(note)
    for shift in shifts:
        if shift.num_classes != model.num_classes:
            raise TemporaError(
                f"{model.name} has {model.num_classes} classes and {config.data.dataset} has {shift.num_classes}: "
                "choose a network trained for this dataset"
            )
    drawn = [draw(walk, shifts, config.batch_size, seed) for seed in config.seeds]
    yield from (order for same_shift in zip(*drawn, strict=True) for order in same_shift)


def stream_opener(
    config: RunConfig, model: Classifier, device: torch.device, observer: Observer
) -> Callable[[Order], Stream]:
    """Decodes what an order needs, and shows how far it is."""
    return lambda order: open_stream(
        order,
        model.preprocessing,
        device=device,
        workers=config.data.workers,
        cache_dir=config.data.cache_dir,
        progress=_decoding(observer, config.batch_size),
    )


def left_out(shifts: Iterable[Shift], batch_size: int, whole: bool) -> Iterator[str]:
    """What there is on disk and takes no part, said once for all shifts of which it is true."""
    found: dict[str, list[str]] = {}
    for shift in shifts:
        for note in shift.notes:
            found.setdefault(note, []).append(shift.name)
        odd = len(shift) % batch_size
        if odd and whole:
            note = f"the last {odd} of {len(shift)} images are left out: they make no batch of {batch_size}"
            found.setdefault(note, []).append(shift.name)
    for note, names in found.items():
        yield f"{', '.join(names) if len(names) < 4 else f'{len(names)} shifts'}: {note}"


def _with_its_code(shift: Shift, dataset: str) -> Shift:
    """Pictures that code of the user's own makes are others when that code is edited."""
    if not is_own(dataset):
        return shift
    opener = cast(FunctionType, find(dataset).opener)  # nothing else is taken for a dataset of the user's own
    source = own_source([opener]).fingerprint
    return replace(shift, fingerprint=f"{shift.fingerprint}+{source}") if source else shift


def _reading(observer: Observer) -> Progress:
    """Say why a large dataset that was never seen before takes a while to open."""
    said = False

    def show(files: int, of: int) -> None:
        nonlocal said
        if of > MANY_FILES and not said:
            observer.note(
                f"reading {of} files to know their content; it is remembered while they do not change"
            )
            said = True

    return show


def _decoding(observer: Observer, batch_size: int) -> Progress:
    """Show images that are decoded as a pass of so many batches: on ImageNet it takes minutes."""
    begun = False

    def show(images: int, of: int) -> None:
        nonlocal begun
        if not begun:  # what lies in the cache is not decoded, and not shown
            observer.pass_started("decoding", of // batch_size)
            begun = True
        observer.batch_done(None, images // batch_size - 1)
        if observer.stop_requested:
            raise Stopped

    return show
