"""The methods that a configuration names, with their settings, in every runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from tempora_tta import methods
from tempora_tta.engine.config import MethodConfig, RunConfig
from tempora_tta.engine.job import MethodSpec
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.recipes import Recipes, read_recipes
from tempora_tta.engine.runtime import Runtime
from tempora_tta.errors import TemporaError
from tempora_tta.models import Classifier


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
    if config.recipes is not None:
        specs = _tuned(specs, config, model, observer)
    for spec in specs:
        kind = methods.get(spec.name)
        used, _ = methods.recipe_for(kind, model)
        if used not in (None, kind.name):
            observer.note(f"{spec.label} has no recipe on {model.name} and uses that of {used}")
    return tuple(specs)


def _tuned(
    specs: list[MethodSpec], config: RunConfig, model: Classifier, observer: Observer
) -> list[MethodSpec]:
    """With the settings of a recipe file where the configuration gives none. An oracle's name says that it is one."""
    assert config.recipes is not None
    recipes = read_recipes(config.recipes, config.model)
    for spec in specs:
        if note := _not_tuned(spec, recipes, model):
            observer.note(note)
    return [_with_recipe(spec, recipes) for spec in specs]


def _with_recipe(spec: MethodSpec, recipes: Recipes) -> MethodSpec:
    chosen = recipes.chosen.get(str(spec.name), {})
    if not set(chosen) - set(spec.settings):  # what is given wins
        return spec
    tuned = replace(spec, settings={**chosen, **spec.settings})
    if not recipes.oracle:
        return tuned
    return replace(
        tuned, label=f"{spec.label} (oracle)", times_as=spec.times_as or str(spec.name), oracle=True
    )


def with_own_times(specs: Sequence[MethodSpec]) -> tuple[MethodSpec, ...]:
    """Where this machine is profiled: variants of a method that the run does not have itself are profiled each."""
    labels = {spec.label for spec in specs}
    return tuple(
        replace(spec, times_as="") if spec.times_as == spec.name and spec.name not in labels else spec
        for spec in specs
    )


def _not_tuned(spec: MethodSpec, recipes: Recipes, model: Classifier) -> str | None:
    """That a method with something to tune is not in the file, and what it runs with instead."""
    kind = methods.get(spec.name)
    tunable = any(field.metadata.get("search") is not None for field in dataclasses.fields(kind.Settings))
    if spec.name in recipes.chosen or spec.settings or not tunable:
        return None
    whose, usual = methods.recipe_for(kind, model)
    instead = f"{model.name}'s own recipe ({_listed(usual)})" if whose else "its default settings"
    return (
        f"{spec.label} is not in {recipes.path.name}: it runs with {instead}, not with settings of that file"
    )


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "nothing set"


def recipe_record(
    config: RunConfig, specs: Sequence[MethodSpec], shifts: Iterable[str], observer: Observer
) -> dict[str, Any] | None:
    """What run.json keeps of the recipe file, whose path alone says nothing; None: the run has none."""
    if config.recipes is None:
        return None
    recipes = read_recipes(config.recipes, config.model)
    met = recipes.met(config.data.dataset, shifts)
    if met:
        observer.note(
            f"tuned on {', '.join(met)}, which this run evaluates: these settings have seen the test; tune on other "
            "shifts (by default, tempora tune does)"
        )
    return {
        "file": str(config.recipes),
        "select": recipes.select,
        "oracle": recipes.oracle,
        "dataset": recipes.dataset,
        "tuned_on": list(recipes.shifts),
        "evaluated_too": met,
        "trials": recipes.trials,
        "settings": {spec.label: dict(spec.settings) for spec in specs if str(spec.name) in recipes.chosen},
    }


def in_runtimes(
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
