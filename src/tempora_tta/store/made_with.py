"""What made a run's methods: their settings and the network's weights. Numbers of two runs are one history only where
these agree; where they do not, a change of numbers says nothing about the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tempora_tta.store.results import Results

_BESIDE = ("preset", "runtime", "source_images")
"""What else decides how a method works, where a pass has it."""


def made_with(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What a method is, from what identifies a pass of it: its name, the settings that it really has, and the rest.

    >>> made_with({"name": "tent", "settings": {"lr": 0.1}, "recipe": {"lr": 0.01, "every": 2}, "preset": None})
    {'name': 'tent', 'settings': {'lr': 0.1, 'every': 2}}
    """
    settings = {**(identity.get("recipe") or {}), **(identity.get("settings") or {})}
    beside = {name: identity[name] for name in _BESIDE if identity.get(name)}
    return {"name": str(identity.get("name")), "settings": settings, **beside}


def settings_of(results: Results) -> dict[str, dict[str, Any]]:
    """`made_with` of every method; nothing where run.json does not say."""
    return results.folder.record().method_settings


def differences(mine: Results, theirs: Results) -> dict[str, str]:
    """Method -> how its settings differ, of those that both runs have and know."""
    here, there = settings_of(mine), settings_of(theirs)
    return {
        method: _difference(here[method], there[method])
        for method in here
        if method in there and here[method] != there[method]
    }


def other_work(profile: Mapping[str, Any] | None, model: str, batch_size: int) -> str | None:
    """That a profile's times are those of another network or batch size, in a sentence; None: not as far as it says.

    >>> print(other_work({"model": "resnet50", "batch_size": 64}, "fashion_resnet", 64))
    Times are those of resnet50, not of fashion_resnet: what is relative to λ is an answer about that.
    """
    told = profile or {}
    differ = [
        f"{said.format(told[name])}, not of {said.format(mine)}"
        for name, said, mine in (("model", "{}", model), ("batch_size", "batches of {}", batch_size))
        if name in told and told[name] != mine
    ]
    if not differ:
        return None
    return f"Times are those of {'; '.join(differ)}: what is relative to λ is an answer about that."


def _difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """
    >>> tent = {"name": "tent", "settings": {"lr": 0.1, "every": 2}}
    >>> _difference(tent, {"name": "tent", "settings": {"lr": 10, "every": 2}})
    'lr 0.1 here and 10 there'
    """
    flat = [
        {**one["settings"], **{name: one.get(name) for name in ("name", *_BESIDE)}} for one in (here, there)
    ]
    names = [name for name in dict.fromkeys([*flat[0], *flat[1]]) if flat[0].get(name) != flat[1].get(name)]
    return "; ".join(
        f"{name} {flat[0].get(name, 'as usual')} here and {flat[1].get(name, 'as usual')} there"
        for name in names
    )
