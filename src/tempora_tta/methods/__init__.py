"""Standard inference and ways to adapt it, one file per method, behind one small contract.

method = tempora_tta.methods.create("tent", model)
scores = method.predict(x)
method.adapt()
"""

from typing import Any

from tempora_tta.methods.contract import LEARNS, NO_OP, UNTIMED, Method, Moment
from tempora_tta.methods.modules import from_module
from tempora_tta.methods.registry import create, get, names, recipe_for, register
from tempora_tta.methods.settings import LogRange, Range, Settings, by_classes, by_family, setting
from tempora_tta.names import METHODS, found

__all__ = [
    "LEARNS",
    "NO_OP",
    "UNTIMED",
    "LogRange",
    "Method",
    "Moment",
    "Range",
    "Settings",
    "by_classes",
    "by_family",
    "create",
    "from_module",
    "get",
    "names",
    "recipe_for",
    "register",
    "setting",
]
_OURS = {path.partition(":")[2]: path for path in METHODS.values()}


def __getattr__(name: str) -> Any:
    """The classes of our methods, `tempora_tta.methods.Tent`: each is imported when first used."""
    if name in _OURS:
        return found(_OURS[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
