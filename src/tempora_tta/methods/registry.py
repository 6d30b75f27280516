"""Methods by name, and `create`, which makes one that is ready to run."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

from torch import nn

from tempora_tta._global_state import unchanged_by_import
from tempora_tta._own_code import find, is_own
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.methods.apart import Apart
from tempora_tta.methods.contract import Method, Source
from tempora_tta.methods.modules import adapter
from tempora_tta.methods.schedule import Scheduled
from tempora_tta.methods.settings import Settings, build
from tempora_tta.models import Classifier, wrap
from tempora_tta.names import METHODS, found

PRESETS = ("paper",)

_methods: dict[str, type[Method]] = {}
_M = TypeVar("_M", bound=type[Method])


def register(method: _M) -> _M:
    """Class decorator: makes a method known under its `name`."""
    if not method.name:
        raise TemporaError(f"{method.__name__} has no name: write `name = ...` in the class.")
    taken_by = METHODS.get(method.name, "").partition(":")[0]
    if not taken_by and method.name in _methods:
        taken_by = _methods[method.name].__module__
    if taken_by and taken_by != method.__module__:
        raise TemporaError(f"there is already a method {method.name!r}: choose another name.")
    _methods[method.name] = method
    return method


def names() -> tuple[str, ...]:
    """Ours, in the order of `tempora_tta.names`, those of installed packages, and those that modules registered."""
    return tuple(dict.fromkeys((*METHODS, *_installed(), *_methods)))


def _installed() -> dict[str, EntryPoint]:
    """Methods that other packages offer, by name."""
    return {one.name: one for one in entry_points(group="tempora_tta.methods")}


def get(name: str | type[Method]) -> type[Method]:
    """The class behind a registered name or `module:Class`; a class is its own answer.

    `module:function` and `file.py:function` name a function that makes an adapting module (see `from_module`).
    """
    if isinstance(name, type):
        return _check(name, name.__name__)
    if is_own(name):
        own = find("method", name, "class", lambda one: isinstance(one, type))
        return adapter(own, name) if inspect.isfunction(own) else _check(own, name)
    if name in METHODS:
        return _check(found(METHODS[name]), name)
    if name in _methods:
        return _methods[name]
    if name in (installed := _installed()):
        with unchanged_by_import(installed[name].module):
            return _check(installed[name].load(), name)
    raise unknown("method", name, names())


def create(
    name: str | type[Method],
    model: nn.Module,
    seed: int = 2025,
    preset: str | None = None,
    *,
    recipe: bool = True,
    source: Source | None = None,
    at_once: int | None = None,
    **settings: Any,
) -> Method:
    """Make the method `name` on its own copy of `model`, where `model` is; the caller's model is not touched.

    Args:
        name: a registered name, `module:Class`, or a Method class.
        model: a Classifier, or a network that `tempora_tta.models.wrap` understands.
        preset: "paper" for what the published tables did differently.
        recipe: use the settings that the model recommends for this method, or for the one it is derived
            from; `method.recipe_of` says which.
        source: clean unlabelled images, normalised, for methods that ask for some: a tensor, or a function
            of n.
        at_once: answer frames frozen, and learn from this many together; None: as the method does.
        **settings: the method's own, or `every=`, `stop_after=` and `reforward=`, which all methods have.

    What was given wins over the preset, that over the recipe, that over the method's defaults. The outcome is
    `method.settings`.
    """
    kind = get(name)
    if preset is not None and preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    classifier = copy.deepcopy(wrap(model))
    cook, recommended = recipe_for(kind, classifier) if recipe else (None, {})
    values = {
        # what the batches to learn from showed is what the frames between them are normalised with
        **({"frozen_stats": "averaged"} if at_once and _has(kind, "frozen_stats") else {}),
        **recommended,
        **(kind.Settings.paper if preset == "paper" else {}),
        **settings,
    }
    given = {} if source is None else {"source": source}
    method = kind(classifier, build(kind.Settings, values, kind.name or kind.__name__), seed, **given)
    method.recipe_of = cook
    method.save_initial()
    scheduled = _scheduled(method)
    if at_once is not None:
        return cast(Method, Apart(scheduled, at_once))
    return scheduled if kind.apart is None else cast(Method, Apart(scheduled, *kind.apart))


def _has(kind: type[Method], setting: str) -> bool:
    return setting in {field.name for field in dataclasses.fields(kind.Settings)}


def recipe_for(kind: type[Method], model: Classifier) -> tuple[str | None, dict[str, Any]]:
    """The recipe that a method gets on a network: its own, else that of the nearest method it is derived from.

    Whose it is comes first. Of a base's recipe only what the method itself can be set to is taken.
    """
    for base in kind.__mro__:
        name = vars(base).get("name", "")
        if name in model.recipe:
            known = {field.name for field in dataclasses.fields(kind.Settings)} if base is not kind else None
            recommended = model.recipe[name].items()
            return name, {key: value for key, value in recommended if known is None or key in known}
    return None, {}


def _scheduled(method: Method) -> Method:
    """The method under its settings that say when it adapts, if any is set."""
    every, stop_after = method.settings.every, method.settings.stop_after
    if every > 1 and type(method).adapt is Method.adapt:
        raise TemporaError(
            f"{method.name}: every={every} has no effect, it has no separate adapt(): leave it out."
        )
    scheduled = every > 1 or stop_after is not None or method.settings.reforward
    return cast(Method, Scheduled(method)) if scheduled else method


def _check(kind: Any, given: str) -> type[Method]:
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise TemporaError(
            f"method {given!r}: is not a subclass of tempora_tta.methods.Method: write class Mine(Method)."
        )
    for attribute, expected in _DECLARED.items():
        value = getattr(kind, attribute)
        if not isinstance(value, expected) or (expected is type and not issubclass(value, Settings)):
            raise TemporaError(
                f"method {given!r}: {attribute} = {value!r:.60} in its class: must be {_EXPECTED[expected]}."
            )
    return kind


_DECLARED: dict[str, Any] = {
    **dict.fromkeys(("name", "label"), str),
    **dict.fromkeys(("history_free", "stateless", "time_aware"), (bool, property)),
    "Settings": type,
    "state": (tuple, list),
    "actions": Mapping,
}
_EXPECTED: dict[Any, str] = {
    str: "a text",
    (bool, property): "True or False",
    type: "a dataclass that extends tempora_tta.methods.Settings",
    (tuple, list): "a tuple of attributes' names",
    Mapping: "words of adapt() with what they mean, {'step': LEARNS}",
}
