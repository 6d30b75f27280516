"""Methods by name, and `create`, which makes one that is ready to run."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from tempora_tta._own_code import find, is_own
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.methods.contract import Method
from tempora_tta.methods.modules import adapter
from tempora_tta.methods.settings import Settings, build
from tempora_tta.methods.source import Source
from tempora_tta.methods.wrappers import Every, Reforward, StopAfter
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
    """Ours, in the order of `tempora_tta.names`, then those that the user's modules have registered."""
    return tuple(dict.fromkeys((*METHODS, *_methods)))


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
    if name not in _methods:
        raise unknown("method", name, names())
    return _methods[name]


def create(
    name: str | type[Method],
    model: nn.Module,
    seed: int = 2025,
    preset: str | None = None,
    *,
    recipe: bool = True,
    source: Source | None = None,
    **settings: Any,
) -> Method:
    """The method `name`, on its own copy of `model`, where `model` is; the caller's model is not touched.

    name: a registered name, `module:Class`, or a Method class.
    model: a Classifier, or a network that `tempora_tta.models.wrap` understands.
    preset: "paper" for what the published tables did differently.
    recipe: use the settings that the model recommends for this method, or for the one it is derived from;
        `method.recipe_of` says which.
    source: clean unlabelled images, normalised, for methods that ask for some: a tensor, or a function of n.
    settings: the method's own, or `every=`, `stop_after=` and `reforward=`, which all methods have.

    What was given wins over the preset, that over the recipe, that over the method's defaults. The outcome is
    `method.settings`.
    """
    kind = get(name)
    if preset is not None and preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    classifier = copy.deepcopy(wrap(model))
    cook, recommended = recipe_for(kind, classifier) if recipe else (None, {})
    values = {
        **recommended,
        **(kind.Settings.paper if preset == "paper" else {}),
        **settings,
    }
    given = {} if source is None else {"source": source}
    method = kind(classifier, build(kind.Settings, values, kind.name or kind.__name__), seed, **given)
    method.recipe_of = cook
    method.remember()
    return _wrapped(method)


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


def _wrapped(method: Method) -> Method:
    wanted = method.settings
    adapts_in_predict = type(method).adapt is Method.adapt
    if wanted.every > 1 and adapts_in_predict:
        raise TemporaError(
            f"{method.name}: every={wanted.every} has no effect, it has no separate adapt(): leave it out."
        )
    if wanted.reforward:
        method = Reforward(method)
    if wanted.every > 1:
        method = Every(method, wanted.every)
    if wanted.stop_after is not None:
        method = StopAfter(method, wanted.stop_after)
    return method


def _check(kind: Any, given: str) -> type[Method]:
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise TemporaError(
            f"method {given!r}: is not a subclass of tempora_tta.methods.Method: write class Mine(Method)."
        )
    for attribute, (fits, expected) in _DECLARED.items():
        value = getattr(kind, attribute)
        if not fits(value):
            raise TemporaError(
                f"method {given!r}: {attribute} = {value!r:.60} in its class: must be {expected}."
            )
    return kind


def _is_promise(value: Any) -> bool:
    return isinstance(value, (bool, property))


def _are_names(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(name, str) for name in value)


_DECLARED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, (str, property)), "a text"),
    "label": (lambda value: isinstance(value, (str, property)), "a text"),
    "Settings": (
        lambda value: (
            isinstance(value, property) or (isinstance(value, type) and issubclass(value, Settings))
        ),
        "a dataclass that extends tempora_tta.methods.Settings",
    ),
    "state": (_are_names, "a tuple of attributes' names"),
    "history_free": (_is_promise, "True or False"),
    "stateless": (_is_promise, "True or False"),
    "time_aware": (_is_promise, "True or False"),
}
"""What a class may declare, and how. Wrappers declare what is inside them, by properties."""
