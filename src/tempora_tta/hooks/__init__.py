"""Hooks: observers that tell another program about a run, `tempora run --log NAME`. Each is one file.

A hook is an `Observer` that is made with the run folder and closed by `finished`. Packages that a hook needs are
imported when it is made, so Tempora runs without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from tempora_tta._own_code import find_function, is_own
from tempora_tta.engine.observer import Observer
from tempora_tta.errors import TemporaError, unknown

HOOKS = {"mlflow": "MlflowHook", "wandb": "WandbHook"}
"""Name -> class in the file of that name."""


def open_hooks(names: Iterable[str], folder: Path) -> list[Observer]:
    """Return the hooks by name, or `module:Class` of the user's own, ready to observe a run into `folder`."""
    return [_open(name, folder) for name in names]


def _made(name: str, make: Callable[..., Any], folder: Path) -> Any:
    """Make a hook from the user's own class and the run folder."""
    try:
        return make(folder)
    except Exception as error:
        raise TemporaError(
            f"--log {name}: cannot be made with the run folder ({type(error).__name__}: {error}); hooks are made as "
            "Class(folder): give it __init__(self, folder)"
        ) from error


def _open(name: str, folder: Path) -> Observer:
    if is_own(name):
        made = _made(name, find_function("hook", name), folder)
        if not isinstance(made, Observer):
            raise TemporaError(f"--log {name}: is no tempora_tta.engine.Observer; derive it from that class")
        return made
    if name not in HOOKS:
        raise unknown("hook", name, HOOKS)
    hook: type[Observer] = getattr(import_module(f"tempora_tta.hooks.{name}"), HOOKS[name])
    try:
        return hook(folder)  # type: ignore[call-arg]  # hooks are made with the folder
    except ImportError as error:
        raise TemporaError(
            f"--log {name}: needs the package {error.name or name}: pip install 'tempora-tta[{name}]'"
        ) from error
