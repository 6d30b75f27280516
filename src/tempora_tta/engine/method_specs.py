"""The methods of a run: those that a configuration names or Python code gives, with settings, in each runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from tempora_tta import methods
from tempora_tta.config import MethodConfig
from tempora_tta.engine.clocks import STEADY
from tempora_tta.engine.job import MethodSpec
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.recipes import Recipes
from tempora_tta.engine.runtime import Runtime
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.gradient import USUAL_SIZE
from tempora_tta.models import Classifier

ALL = "all"
MethodLike = str | type[Method] | tuple[str | type[Method], Mapping[str, Any]] | MethodSpec


def method_spec(method: MethodLike | MethodConfig) -> MethodSpec:
    """A method as a user names it: a name, a class, or a pair of that and settings (`label` among them)."""
    if isinstance(method, MethodSpec):
        return method
    if isinstance(method, MethodConfig):
        return MethodSpec(method.name, method.settings, method.label, times_as=method.times_as)
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


def tuned(specs: Iterable[MethodSpec], recipes: Recipes | None) -> list[MethodSpec]:
    """With the settings of a recipe file where none are given. An oracle's name says that it is one."""
    return [spec if recipes is None else _with_recipe(spec, recipes) for spec in specs]


def _with_recipe(spec: MethodSpec, recipes: Recipes) -> MethodSpec:
    chosen = recipes.chosen.get(str(spec.name), {})
    if not set(chosen) - set(spec.settings):  # what is given wins
        return spec
    with_settings = replace(spec, settings={**chosen, **spec.settings})
    if not recipes.oracle:
        return with_settings
    times_as = spec.times_as or str(spec.name)
    return replace(with_settings, label=f"{spec.label} (oracle)", times_as=times_as, oracle=True)


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


def note_settings(
    specs: Sequence[MethodSpec], recipes: Recipes | None, model: Classifier, size: int, observer: Observer
) -> None:
    """Say which methods run with other settings than one might think."""
    if note := _other_size(specs, recipes, model, size):
        observer.note(note)
    for spec in specs:
        if recipes is not None and (note := _not_tuned(spec, recipes, model)):
            observer.note(note)
        kind = methods.get(spec.name)
        used, _ = methods.recipe_for(kind, model)
        if used not in (None, kind.name):
            observer.note(f"{spec.label} has no recipe on {model.name} and uses that of {used}")


def _other_size(
    specs: Iterable[MethodSpec], recipes: Recipes | None, model: Classifier, size: int
) -> str | None:
    """Note that learning rates were tuned on batches of another size."""
    tuned_on = USUAL_SIZE if recipes is None else recipes.batch_size or USUAL_SIZE
    rates = [
        spec.label
        for spec in specs
        if "lr" in {**methods.recipe_for(methods.get(spec.name), model)[1], **dict(spec.settings)}
        and "lr_scaling" not in spec.settings
    ]
    if size == tuned_on or not rates:
        return None
    return (
        f"the learning rates of {', '.join(rates)} were tuned on batches of {tuned_on}, here they have {size}: "
        f"tempora tune --batch-size {size}, or lr_scaling: linear, which suits small ones"
    )


def _not_tuned(spec: MethodSpec, recipes: Recipes, model: Classifier) -> str | None:
    """That a method with something to tune is not in the file, and what it runs with instead."""
    kind = methods.get(spec.name)
    tunable = any(field.metadata.get("search") is not None for field in dataclasses.fields(kind.Settings))
    if spec.name in recipes.chosen or spec.settings or not tunable:
        return None
    whose, usual = methods.recipe_for(kind, model)
    listed = ", ".join(f"{name} {value}" for name, value in usual.items()) or "nothing set"
    instead = f"{model.name}'s own recipe ({listed})" if whose else "its default settings"
    return (
        f"{spec.label} is not in {recipes.path.name}: it runs with {instead}, not with settings of that file"
    )


def recipe_record(
    recipes: Recipes, dataset: str, specs: Sequence[MethodSpec], shifts: Iterable[str], observer: Observer
) -> dict[str, Any]:
    """Return what run.json keeps of the recipe file, whose path alone says nothing."""
    met = recipes.met(dataset, shifts)
    if met:
        observer.note(
            f"tuned on {', '.join(met)}, which this run evaluates: these settings have seen the test; tune on other "
            "shifts (by default, tempora tune does)"
        )
    return {
        "file": str(recipes.path),
        "select": recipes.select,
        "oracle": recipes.oracle,
        "dataset": recipes.dataset,
        "tuned_on": list(recipes.shifts),
        "evaluated_too": met,
        "trials": recipes.trials,
        "settings": {spec.label: dict(spec.settings) for spec in specs if str(spec.name) in recipes.chosen},
    }
