"""The methods that a configuration names, with their settings, in every runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from tempora import methods
from tempora.engine.config import MethodConfig, RunConfig
from tempora.engine.job import MethodSpec
from tempora.engine.observer import Observer
from tempora.engine.runtime import Runtime
from tempora.engine.tuning import read_recipes
from tempora.errors import TemporaError
from tempora.models import Classifier


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
