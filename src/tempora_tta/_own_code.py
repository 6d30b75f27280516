"""Code of the user's own, named `module:name` on the command line and in configurations."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tempora_tta.errors import TemporaError, unknown

around_import: Callable[[str], AbstractContextManager[Any]] = nullcontext
"""Stands around the import of a module, given its name. Where torch is in use, `_global_state` puts back what the
module changes in it; this file serves rooms that never import torch."""


def is_own(name: str) -> bool:
    """Return whether a name means code of the user's own."""
    return ":" in name


def module_of(name: str) -> str:
    """The module that `module:name` or `file.py:name` is in.

    >>> module_of("package.nets:make"), module_of("code/nets.py:make")
    ('package.nets', 'nets')
    """
    module = name.partition(":")[0]
    return os.path.basename(module).removesuffix(".py") if module.endswith(".py") else module


def find(what: str, path: str, kind: str, fits: Callable[[Any], bool]) -> Any:
    """Import what `module:name` or `file.py:name` names; modules are looked for where Python looks and in the working
    directory.

    what: a method, a model or a dataset, for messages; kind: what it should be in its module, such as a class;
    fits: says of anything in the module whether it is such a one.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise TemporaError(f"{what} {path!r}: write the module and the {kind} with a colon between them.")
    wanted_file = os.path.realpath(module_name) if module_name.endswith(".py") else None
    if wanted_file is not None:
        folder, file = os.path.split(os.path.abspath(module_name))
        if not os.path.isfile(os.path.join(folder, file)):
            raise TemporaError(f"{what} {path!r}: there is no file {module_name!r}.")
        module_name = module_of(path)
        if folder not in sys.path:
            sys.path.append(folder)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        with around_import(module_name):
            module = importlib.import_module(module_name)
    except SystemExit as end:
        raise TemporaError(
            f"{what} {path!r}: importing {module_name} ends Python (sys.exit): put what it does as a script under "
            'if __name__ == "__main__".'
        ) from end
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise TemporaError(
            f"{what} {path!r}: there is no module {module_name!r} to import; "
            "run from the folder that holds it, or install it."
        ) from error
    if wanted_file is not None and os.path.realpath(str(module.__file__)) != wanted_file:
        raise TemporaError(f"{what} {path!r}: another module is called {module_name!r}; rename the file.")
    if not hasattr(module, name):
        raise unknown(
            f"{kind} of {module_name}", name, [key for key, one in vars(module).items() if fits(one)]
        )
    return getattr(module, name)


def find_function(what: str, path: str) -> Callable[..., Any]:
    """The same for what is only called, and may turn out to be a module or a number."""
    found = find(what, path, "function", callable)
    if not callable(found):
        raise TemporaError(f"{what} {path!r}: is a {type(found).__name__}, not a function.")
    function: Callable[..., Any] = found
    return function
