"""Hash of the user's own code behind a result: the files of its classes and functions, and the files these import."""

from __future__ import annotations

import hashlib
import re
import secrets
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from modulefinder import ModuleFinder
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

_STDLIB, _TEMPORA = Path(sysconfig.get_path("stdlib")).resolve(), Path(__file__).resolve().parents[1]
_NOT_FOLLOWED = re.compile(
    rb"(?<!def )(?<![\w.])(?:exec|eval|__import__)\(|\b(?:import_module|exec_module)\("
)


class CodeHash(NamedTuple):
    """Hash of the user's own code; None where all of the code is Python's, Tempora's or an installed package's."""

    hash: str | None
    not_followed: tuple[str, ...]
    """Lines that load code by a name made at run time: `mine.py, line 3`."""


def code_hash(*things: type | FunctionType | str) -> CodeHash:
    """Hash the user's own code that classes, functions and modules (by name) run.

    A loaded file counts as it was at the first look: editing it changes nothing in a process that has loaded it. The
    hash of code without a file, as in a notebook, is random in every call: what it calls may have been typed again.
    """
    written_in = [{thing} if isinstance(thing, str) else _modules_of(thing) for thing in things]
    names = {name for name in set[str]().union(*written_in) if not _is_others(name)}
    files, not_followed = _with_imports(names)
    at_a_prompt = "__main__" in names and hasattr(sys, "ps1")  # which may go on where a script ended
    if at_a_prompt or not names <= files.keys() & sys.modules.keys():
        return CodeHash(secrets.token_hex(8), not_followed)
    lines = "\n".join(f"{name} {digest}" for name, digest in sorted(files.items()))
    return CodeHash(hashlib.sha256(lines.encode()).hexdigest()[:16] if files else None, not_followed)


def _modules_of(thing: type | FunctionType) -> set[str]:
    """Names of the modules that define a class, its bases and the functions in them."""
    bases = getattr(thing, "__mro__", (thing,))
    kinds = (FunctionType, classmethod, staticmethod, type)
    parts = (part for base in bases for part in vars(base).values() if isinstance(part, kinds))
    named = {getattr(part, "__module__", "") for part in parts}
    return {base.__module__ for base in bases} | (
        named & sys.modules.keys()
    )  # generated code names what it likes


def _is_others(name: str) -> bool:
    """Tell whether a module is Python's, Tempora's or an installed package's."""
    top = name.partition(".")[0]
    file = _look_up(name)[0] or _look_up(top)[0]  # compiled code makes modules without a file
    return top != "__main__" and (top in sys.stdlib_module_names if file is None else not _is_users(file))


def _is_users(file: str) -> bool:
    path = Path(file).resolve()
    others = path.is_relative_to(_STDLIB) or path.is_relative_to(_TEMPORA)
    return not others and {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def _with_imports(names: set[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Digest the user's files among these modules and all that they import; list the lines that are not followed."""
    files: dict[str, str] = {}
    not_followed: list[str] = []
    seen = {""}
    while names := names - seen:
        seen |= names
        imported: list[str] = []
        for name in sorted(names):
            imported.append(name.rpartition(".")[0])  # a package runs before its modules
            file, _, package = _look_up(name)
            if file is not None and _is_users(file):
                with suppress(OSError):
                    content = _content(name, file)
                    files[name] = hashlib.sha256(content).hexdigest()
                    found, lines = _scan(content, package or "")
                    imported += found
                    not_followed += [f"{Path(file).name}, line {line}" for line in lines]
        names = set(imported)
    return files, tuple(not_followed)


def _look_up(name: str) -> tuple[str | None, Any, str | None]:
    """Return file, search path and package of a module as loaded, else as Python would find it; run nothing."""
    if (module := sys.modules.get(name)) is not None:
        file, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
        return file, folders, getattr(module, "__package__", None)
    outer = name.rpartition(".")[0]
    with suppress(ImportError, KeyError, ValueError):  # KeyError: a namespace in a package that is not loaded
        if spec := PathFinder.find_spec(name, (_look_up(outer)[1] or ()) if outer else None):
            return spec.origin if spec.has_location else None, spec.submodule_search_locations, spec.parent
    return None, None, None


_loaded: dict[str, tuple[object, object, bytes]] = {}


def _content(name: str, file: str) -> bytes:
    """Read a file; return what a loaded one held at the first look."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)  # reloading replaces it
    known = _loaded.get(name)
    if module is None or known is None or known[0] is not module or known[1] is not spec:
        known = _loaded[name] = module, spec, Path(file).read_bytes()
    return known[2]


@cache
def _scan(content: bytes, package: str) -> tuple[list[str], list[int]]:
    """Find the modules that a file may import, in functions too, and the lines that are not followed."""
    lines = [n for n, line in enumerate(content.splitlines(), 1) if _NOT_FOLLOWED.search(line)]
    with warnings.catch_warnings(), suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        warnings.simplefilter("ignore")  # shown when the user's code was imported
        return list(_imports(compile(content, "", "exec", dont_inherit=True), package)), lines
    return [], lines


def _imports(code: CodeType, package: str) -> Iterator[str]:
    """Names of modules that code may import, and of what else it takes from them."""
    for kind, found in ModuleFinder().scan_opcodes(code):
        if kind != "store":
            *level, names, base = found  # an absolute import has no level
            with suppress(ImportError):  # a relative one above the top
                base = resolve_name("." * sum(level) + base, package)
                yield from (base, *(f"{base}.{name}" for name in names or ()))
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _imports(part, package)
