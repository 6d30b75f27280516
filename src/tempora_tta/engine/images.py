"""The images of a run: the streams that a configuration names or Python code gives, and clean ones for methods that
ask for some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import FunctionType
from typing import Any, cast, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError

from tempora_tta import data
from tempora_tta._own_code import is_own
from tempora_tta.config import DataConfig, MethodConfig, RunConfig, SourceConfig
from tempora_tta.data import Order, Shift, Stream, StreamSettings, draw, open_stream
from tempora_tta.data.batches import given_order, given_shape, given_shift
from tempora_tta.data.registry import find
from tempora_tta.data.threads import Progress
from tempora_tta.engine.code_hash import code_hash
from tempora_tta.engine.job import may_ask_for_source
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.errors import TemporaError, suggestion
from tempora_tta.models import Classifier, check_input

Batches = Sequence[tuple[Any, Any]]
Given = Batches | Mapping[Any, Batches]
"""A stream of batches, or several by the name of their shift, or by that and its severity."""
MANY_FILES = 5_000
"""Images: reading more takes long enough to be announced."""
SOURCES = {"fashion": "fashion_train"}
"""Datasets that ship with source samples, and where those are."""


def named_streams(config: RunConfig, model: Classifier, observer: Observer) -> Iterator[Order]:
    """The streams of a dataset: shifts are the outer loop, seeds the inner one, so that each is decoded once."""
    check_input(model, model.preprocessing.image_shape)
    settings = stream_settings(config)
    shifts = open_shifts(config, settings, observer)
    for note in left_out(shifts, config.batch_size, whole=settings.batches is None):
        observer.note(note)
    for shift in shifts:
        if shift.num_classes != model.num_classes:
            raise TemporaError(
                f"{model.name} has {model.num_classes} classes and {config.data.dataset} has {shift.num_classes}: "
                "choose a network trained for this dataset"
            )
    yield from _drawn(settings, shifts, config.batch_size, config.seeds)


def given_streams(config: RunConfig, model: Classifier, batches: Given) -> Iterator[Order]:
    """The batches as they were given; with a `stream`, their samples in the order that it draws."""
    shifts = []
    for name, listed in (batches if isinstance(batches, Mapping) else {"stream": batches}).items():
        name, severity = name if isinstance(name, tuple) and len(name) == 2 else (name, None)
        shifts.append(given_shift(str(name), listed, model.num_classes, severity))
    for shape in dict.fromkeys(map(given_shape, shifts)):
        check_input(model, shape)
    if config.stream is None:
        yield from (given_order(shift, seed) for shift in shifts for seed in config.seeds)
        return
    sizes = {shift.name: given_order(shift, 0).batch_size for shift in shifts}
    if len(set(sizes.values())) > 1:
        raise TemporaError(f"batches of {sizes} samples: one stream needs batches of one size")
    yield from _drawn(stream_settings(config), shifts, next(iter(sizes.values())), config.seeds)


def _drawn(
    settings: StreamSettings, shifts: list[Shift], batch_size: int, seeds: Iterable[int]
) -> Iterator[Order]:
    drawn = [draw(settings, shifts, batch_size, seed) for seed in seeds]
    yield from (order for same_shift in zip(*drawn, strict=True) for order in same_shift)


def stream_settings(config: RunConfig) -> StreamSettings:
    """The stream that the configuration asks for. `batches` means the same here and there."""
    settings = StreamSettings.of(config.stream)
    if config.batches is None or is_own(settings.kind):
        return settings
    if settings.batches not in (None, config.batches):
        raise TemporaError(
            f"batches={config.batches} and stream.batches={settings.batches}: give one of them"
        )
    return replace(settings, batches=config.batches)


def open_shifts(config: RunConfig, settings: StreamSettings, observer: Observer) -> list[Shift]:
    """The shifts of the configuration; at every severity there is, if the stream goes through them."""
    card = find(config.data.dataset)
    if settings.through_severities and "severity" not in card.takes:
        raise TemporaError(f"stream: gradual goes through severities, and {config.data.dataset} has none")
    found = []
    for severity in range(1, 6) if settings.through_severities else (config.data.severity,):
        shifts = data.open(
            config.data.dataset,
            root=config.data.root,
            severity=severity,
            shifts=config.data.shifts,
            progress=_reading(observer),
            **dataset_options(config.data),
        )
        known = [_with_its_code(shift, config.data.dataset) for shift in shifts.values()]
        found += [replace(one, severity=severity) for one in known] if settings.through_severities else known
    if settings.through_severities:  # the uncorrupted images have no severity to go through
        found = [shift for shift in found if shift.group != "clean"]
        if not found:
            raise TemporaError(
                f"stream: gradual goes through severities, and {config.data.shifts!r} has none: name corruptions"
            )
    return found


def dataset_options(config: DataConfig) -> dict[str, Any]:
    """Return the options of this dataset alone, each of the type that its function takes."""
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
    """Name what is on disk and takes no part, once for all shifts of which it is true."""
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
    """Return the images that are asked for, normalised for the model."""
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


def _with_its_code(shift: Shift, dataset: str) -> Shift:
    """Pictures that code of the user's own makes are others when that code is edited."""
    if not is_own(dataset):
        return shift
    opener = cast(FunctionType, find(dataset).opener)  # nothing else is taken for a dataset of the user's own
    code = code_hash(opener).hash
    return replace(shift, fingerprint=f"{shift.fingerprint}+{code}") if code else shift


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
    """Show the decoding of images as a pass of `total` batches: on ImageNet it takes minutes."""
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
