"""The methods of a run: those that a configuration names or Python code gives, with settings, in each runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from tempora_tta import methods
from tempora_tta.config import MethodConfig, TunedConfig
from tempora_tta.engine.clocks import STEADY
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.runtime import Runtime
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.gradient import USUAL_SIZE

ALL = "all"
MethodLike = str | type[Method] | tuple[str | type[Method], Mapping[str, Any]] | MethodSpec


def method_spec(method: MethodLike | MethodConfig) -> MethodSpec:
    """A method as a user names it: a name, a class, or a pair of that and settings (`label` among them)."""
    if isinstance(method, MethodSpec):
        return method
    if isinstance(method, MethodConfig):
        label, times_as = method.label, method.times_as
        if method.tuned is not None and method.tuned.oracle:
            label, times_as = f"{label or method.name} (oracle)", times_as or method.name
        return MethodSpec(method.name, method.settings, label, times_as=times_as, tuned=method.tuned)
    if isinstance(method, tuple):
        if len(method) != 2 or not isinstance(method[1], Mapping):
            raise TemporaError(f"method {method!r}: give (name, settings), settings being a dict")
        settings = dict(method[1])
        label, times_as = (str(settings.pop(name, "")) for name in ("label", "times_as"))
        return MethodSpec(method[0], label=label, times_as=times_as, settings=settings)
    if not isinstance(method, (str, type)):
        raise TemporaError(f"method {method!r:.60}: give a name, a class, or (name, settings)")
    return MethodSpec(method)


def method_specs(named: Iterable[MethodLike | MethodConfig], observer: Observer) -> Iterator[MethodSpec]:
    """The methods by their names; `all` means those that are not costly, where they fit the network."""
    for entry in named:
        if entry != ALL:
            yield method_spec(entry)
            continue
        for name in methods.names():
            if methods.get(name).only_by_name:
                observer.note(f"left out {name}: it takes tens of times Standard's time; name it to run it")
            else:
                yield MethodSpec(name, if_it_fits=True)


def made_if_it_fits(label: str, make: Callable[[], Method], observer: Observer) -> Method | None:
    """A method of `all`; None, and a note, where it does not fit the network."""
    try:
        return make()
    except TemporaError as misfit:
        observer.note(f"left out {label}: {misfit}")
        return None


def with_own_times(specs: Sequence[MethodSpec], clock: object) -> Sequence[MethodSpec]:
    """Profile each variant of a method that the run does not have itself, where this machine is profiled."""
    if clock != STEADY:
        return specs
    labels = {spec.label for spec in specs}
    return [
        replace(spec, times_as="") if spec.times_as == spec.name and spec.name not in labels else spec
        for spec in specs
    ]


def in_runtimes(
    specs: Sequence[MethodSpec], runtimes: Iterable[str], device: torch.device, observer: Observer
) -> tuple[MethodSpec, ...]:
    """Every method in every runtime: tent, tent@tf32."""
    known = dict.fromkeys(Runtime.parse(text) for text in runtimes)
    for runtime in known:
        for note in runtime.notes(device):
            observer.note(note)
    return tuple(spec.under(str(runtime)) for runtime in known for spec in specs)


def note_settings(job: Job, observer: Observer) -> dict[str, Any] | None:
    """Say which methods run with other settings than one might think; return what run.json keeps of tuning."""
    specs = [spec for spec in job.methods if spec.runtime == job.methods[0].runtime]
    for size, rates in _other_sizes(specs, job).items():
        observer.note(
            f"the learning rates of {', '.join(rates)} were tuned on batches of {size}, here they have "
            f"{job.streams[0].batch_size}: tempora tune --batch-size {job.streams[0].batch_size}, or lr_scaling: "
            "linear, which suits small ones"
        )
    for spec in specs:
        kind = methods.get(spec.name)
        used, _ = methods.recipe_for(kind, job.model)
        if used not in (None, kind.name):
            observer.note(f"{spec.label} has no recipe on {job.model.name} and uses that of {used}")
    return _tuned([spec.tuned for spec in specs if spec.tuned is not None], job, observer)


def _other_sizes(specs: Iterable[MethodSpec], job: Job) -> dict[int, list[str]]:
    """Methods whose learning rates were tuned on batches of another size, by that size."""
    found: dict[int, list[str]] = {}
    for spec in specs:
        size = USUAL_SIZE if spec.tuned is None else spec.tuned.batch_size
        settings = {**methods.recipe_for(methods.get(spec.name), job.model)[1], **spec.settings}
        scaled = "lr_scaling" in spec.settings
        if size != job.streams[0].batch_size and "lr" in settings and not scaled:
            found.setdefault(size, []).append(spec.label)
    return found


def _tuned(tuned: list[TunedConfig], job: Job, observer: Observer) -> dict[str, Any] | None:
    """Refuse settings of another network; say which of the shifts they have seen."""
    if not tuned:
        return None
    if others := {one.model for one in tuned} - {job.model.name}:
        raise TemporaError(
            f"methods: settings were tuned on {', '.join(sorted(others))}, this run has {job.model.name}: tune on it "
            "first"
        )
    dataset = job.config.data.dataset
    evaluated = dict.fromkeys(one.name for stream in job.streams for one in stream.shifts)
    seen = {shift for one in tuned for shift in one.shifts if one.dataset == dataset}
    if met := [shift for shift in evaluated if shift in seen]:
        observer.note(
            f"tuned on {', '.join(met)}, which this run evaluates: these settings have seen the test; tune on other "
            "shifts (by default, tempora tune does)"
        )
    return {
        "select": ", ".join(sorted({one.by for one in tuned})),
        "oracle": any(one.oracle for one in tuned),
        "tuned_on": sorted({shift for one in tuned for shift in one.shifts}),
        "evaluated_too": met,
    }
