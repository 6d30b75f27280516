"""A job from objects in hand: a network, batches, methods and scenarios as Python code gives them."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tempora_tta._own_code import find_function, is_own, module_of
from tempora_tta.data import Order, Walk, draw
from tempora_tta.data.batches import given_order, given_shape, given_shift, open_given
from tempora_tta.engine.clocks import open_clock
from tempora_tta.engine.job import Job, MethodSpec, with_offline
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.predicting import check_predict_with
from tempora_tta.engine.runtime import EAGER
from tempora_tta.engine.setup import profile_threads
from tempora_tta.engine.setup_methods import fitting
from tempora_tta.errors import TemporaError, wrong
from tempora_tta.measure import choose_device, device_kind, machine_facts
from tempora_tta.measure.process import keep_freed_memory
from tempora_tta.methods import Method
from tempora_tta.methods.source import samples
from tempora_tta.models import Classifier, check_input, load, wrap
from tempora_tta.scenarios import Scenario, from_spec

MethodLike = str | type[Method] | tuple[str | type[Method], Mapping[str, Any]] | MethodSpec
ScenarioLike = Scenario | str | Mapping[str, Any]
Batches = Sequence[tuple[Any, Any]]


def as_scenario(scenario: ScenarioLike) -> Scenario:
    """A scenario as a user names it: an object, `module:Class`, or a mapping as in a configuration."""
    return scenario if isinstance(scenario, Scenario) else from_spec(scenario)


def job_from_batches(
    model: nn.Module | str,
    batches: Batches | Mapping[str, Batches] | str,
    methods: MethodLike | Iterable[MethodLike],
    scenarios: ScenarioLike | Iterable[ScenarioLike],
    *,
    device: str | torch.device,
    clock: str | Path | Mapping[str, Any],
    seed: int,
    seeds: Sequence[int] | None = None,
    stream: str | Mapping[str, Any] | Walk | None = None,
    baseline_ms: float | None = None,
    provision_x: float | str = 1.03,
    threads: int = 1,
    preset: str | None = None,
    source: torch.Tensor | None = None,
    predict_with: str | None = None,
    observer: Observer | None = None,
    **timing: Any,
) -> Job:
    """A job over batches in memory; see `evaluate`."""
    if source is not None:
        samples(source, 0, "evaluate")  # what is no image is refused before it is hashed
    chosen = choose_device(device)
    classifier = _classifier(model, chosen)
    the_clock, recorded = open_clock(clock, chosen, baseline_ms, provision_x)
    if the_clock.name == "measured":
        keep_freed_memory()
    predicting = check_predict_with(predict_with or EAGER, chosen, the_clock.name == "measured")
    given_seeds = (seed,) if seeds is None else tuple(seeds)
    if len(set(given_seeds)) < len(given_seeds):
        raise wrong("seeds", list(given_seeds), "each once: the same order again is no evidence")
    walk = None if stream is None else Walk.of(stream)
    orders = tuple(_orders(_given(batches), walk, given_seeds, classifier.num_classes))
    for shape in {given_shape(shift) for order in orders for shift in order.shifts}:
        check_input(classifier, shape)
    specs = tuple(_specs(methods, classifier, preset, source, observer or Observer()))
    one = isinstance(scenarios, (Scenario, str, Mapping))
    asked: Any = [scenarios] if one else scenarios
    facts: dict[str, Any] = {"machine": machine_facts(chosen)}
    call = {
        "device": str(device),
        "clock": clock,
        "seed": seed,
        "seeds": None if seeds is None else list(seeds),
        "stream": None if walk is None else walk.settings(),
        "baseline_ms": baseline_ms,
        "preset": preset,
        "provision_x": provision_x,
        "threads": threads,
        "predict_with": predict_with,
        **timing,
    }
    if source is None and (named := _named(model, batches, specs, call)) is not None:
        facts["evaluate"] = named
    return Job(
        model=classifier,
        methods=specs,
        scenarios=with_offline([as_scenario(each) for each in asked]),
        streams=orders,
        open_stream=partial(open_given, device=chosen),
        clock=the_clock,
        device=chosen,
        preset=preset,
        baseline=recorded,
        machine_kind=device_kind(facts["machine"]),
        profile_threads=profile_threads(threads, chosen),
        source=source,
        predict_with=predicting,
        own_modules=(module_of(model),) if isinstance(model, str) and is_own(model) else (),
        facts=facts,
        **timing,
    )


def _classifier(model: nn.Module | str, device: torch.device) -> Classifier:
    classifier = load(model) if isinstance(model, str) else wrap(model)
    if classifier.device != device:
        classifier = copy.deepcopy(classifier).to(device)  # the caller's stays where it is
    return classifier


def _specs(
    given: MethodLike | Iterable[MethodLike],
    model: Classifier,
    preset: str | None,
    source: torch.Tensor | None,
    observer: Observer,
) -> Iterator[MethodSpec]:
    listed: Any = [given] if _is_one(given) else given
    for method in listed:
        if method == "all":
            yield from fitting(model, preset, source, observer)
        else:
            yield method_spec(method)


def _is_one(given: MethodLike | Iterable[MethodLike]) -> bool:
    pair = isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)
    return pair or isinstance(given, (str, type, MethodSpec))


def _given(batches: Batches | Mapping[str, Batches] | str) -> Batches | Mapping[str, Batches]:
    return find_function("batches", batches)() if isinstance(batches, str) else batches


def _named(
    model: object, batches: object, specs: Sequence[MethodSpec], given: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The call as plain data, from which an audit makes the job again; None where something has no name. Its
    scenarios are in run.json anyway."""
    names = [_name_of(spec.name) for spec in specs]
    if not isinstance(model, str) or not isinstance(batches, str) or None in names:
        return None
    methods = [
        {**{knob: getattr(spec, knob) for knob in ("label", "runtime", "times_as")}, "name": name}
        | {"settings": dict(spec.settings)}
        for name, spec in zip(names, specs, strict=True)
    ]
    with suppress(TypeError, ValueError):
        return dict(json.loads(json.dumps({**given, "model": model, "batches": batches, "methods": methods})))
    return None


def _name_of(method: str | type[Method]) -> str | None:
    """`module:Class`, if that leads to this class from another process too."""
    if isinstance(method, str):
        return method
    module = sys.modules.get(method.__module__)
    with suppress(AttributeError):
        if method.__module__ != "__main__" and attrgetter(method.__qualname__)(module) is method:
            return f"{method.__module__}:{method.__qualname__}"
    return None


def method_spec(method: MethodLike) -> MethodSpec:
    """A method as a user names it: a name, a class, or a pair of that and settings (`label` among them)."""
    if isinstance(method, MethodSpec):
        return method
    if isinstance(method, tuple):
        if len(method) != 2 or not isinstance(method[1], Mapping):
            raise TemporaError(f"method {method!r}: give (name, settings), settings being a dict")
        settings = dict(method[1])
        label, times_as = (str(settings.pop(name, "")) for name in ("label", "times_as"))
        return MethodSpec(method[0], label=label, times_as=times_as, settings=settings)
    if not isinstance(method, (str, type)):
        raise TemporaError(f"method {method!r:.60}: give a name, a class, or (name, settings)")
    return MethodSpec(method)


def _orders(
    batches: Batches | Mapping[Any, Batches], walk: Walk | None, seeds: Sequence[int], num_classes: int
) -> Iterator[Order]:
    """The batches as they were given; with a `walk`, their samples in the order that it draws."""
    named = batches if isinstance(batches, Mapping) else {"stream": batches}
    shifts = []
    for key, given in named.items():
        name, severity = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        shifts.append(given_shift(str(name), given, num_classes, severity))
    if walk is None:
        yield from (given_order(shift, seed) for shift in shifts for seed in seeds)
        return
    sizes = {shift.name: len(given_order(shift, 0).labels(0)) for shift in shifts}
    if len(set(sizes.values())) > 1:
        raise TemporaError(f"batches of {sizes} samples: one stream needs batches of one size")
    drawn = [draw(walk, shifts, next(iter(sizes.values())), seed) for seed in seeds]
    yield from (order for orders in zip(*drawn, strict=True) for order in orders)
