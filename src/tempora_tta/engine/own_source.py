"""Which code of the user's own decides a result: the files behind a class, and all that they import."""

from __future__ import annotations

import ast
import hashlib
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tempora_tta.errors import TemporaError

PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class OwnSource:
    """A fingerprint of the user's own code behind something; None where there is none."""

    fingerprint: str | None
    unknown: tuple[str, ...] = ()
    """Places that load code in a way that only running them would tell: `mine.py, line 3`."""


def own_source(things: Iterable[type | FunctionType | str]) -> OwnSource:
    """The code of the user's own that these classes, functions and modules run: their files, those of base classes,
    whatever these import, and so on. What Python, the installed packages and Tempora bring along is not among it.

    What was typed at a prompt or in a notebook has no file: there, what functions do and refer to stands for it.
    """
    pending: list[str] = []
    unwritten: list[type | FunctionType] = []
    for thing in things:
        for part, module in _written_in(thing):
            if _belongs_to_others(module):
                continue
            if isinstance(part, str) or getattr(sys.modules.get(module), "__file__", None):
                pending.append(module)
            else:
                unwritten.append(part)
    files, unknown = _imported(pending)
    told = sorted(f"{name} {digest}" for name, digest in files.items())
    seen: set[int] = set()
    told += [repr(_description(part, seen)) for part in dict.fromkeys(unwritten)]
    if not told:
        return OwnSource(None)
    return OwnSource(hashlib.sha256("\n".join(told).encode()).hexdigest()[:16], tuple(dict.fromkeys(unknown)))


def _written_in(thing: type | FunctionType | str) -> Iterator[tuple[type | FunctionType | str, str]]:
    """The parts of something, each with the module that it was written in."""
    if isinstance(thing, str):
        yield thing, thing
    elif isinstance(thing, FunctionType):
        yield thing, thing.__module__ or ""
    else:
        for base in thing.__mro__:
            yield base, base.__module__
            yield from ((part, part.__module__) for part in _functions(base) if part.__module__)


def _functions(kind: type) -> Iterator[FunctionType]:
    for part in vars(kind).values():
        part = getattr(part, "__func__", getattr(part, "fget", part))
        if isinstance(part, FunctionType):
            yield part


def _imported(names: list[str]) -> tuple[dict[str, str], list[str]]:
    """The user's own modules that these import, themselves among them, by name with a digest of each file."""
    files: dict[str, str] = {}
    unknown: list[str] = []
    pending, seen = list(names), set[str]()
    while pending:
        name = pending.pop()
        path = None if name in seen else _file_of_module(name)
        seen.add(name)
        if path is None:
            continue
        content = _content(name, path)
        files[name] = hashlib.sha256(content).hexdigest()
        if path.suffix == ".py" or name == "__main__":
            found, lines = _imports(content, name, _is_package(name, path))
            pending += [other for other in found if not _belongs_to_others(other)]
            unknown += [f"{path.name}, line {line}" for line in lines]
    return files, unknown


_loaded: dict[str, tuple[ModuleSpec | None, bytes]] = {}


def _content(name: str, path: Path) -> bytes:
    """What stands in the file or, of a module that Python runs, stood there when we first looked: editing a file
    changes nothing in a process that has loaded it."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is not None and name in _loaded and _loaded[name][0] is spec:
        return _loaded[name][1]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TemporaError(
            f"{path} cannot be read ({error.strerror}), so it cannot be told whether its code has changed: make it "
            "readable"
        ) from None
    if module is not None:
        _loaded[name] = (spec, content)
    return content


def _imports(content: bytes, name: str, is_package: bool) -> tuple[set[str], list[int]]:
    """Modules that a file may import, wherever the statement stands, and lines whose imports cannot be told."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return set(), []
    package = name if is_package else name.rpartition(".")[0]
    found: set[str] = set()
    unknown = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            try:
                base = resolve_name(base, package) if node.level else base
            except ImportError:
                continue
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__", "exec", "eval"):
            given = node.args[0] if node.args else None
            if _called(node) in ("import_module", "__import__") and isinstance(given, ast.Constant):
                found.add(str(given.value))
            else:
                unknown.append(node.lineno)
    return {outer for one in found for outer in _with_packages(one)}, unknown


def _with_packages(name: str) -> Iterator[str]:
    """A module and the packages around it, whose own code runs before it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _file_of_module(name: str) -> Path | None:
    """The user's own file that a module comes from; None: there is none, or it is another's."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None) if module is not None else _unloaded(name)
    if file is None:
        return None
    path = Path(file).resolve()
    return path if path.is_file() and not _is_installed(path) else None


def _unloaded(name: str) -> str | None:
    """Where a module would be loaded from; nothing is run to find out."""
    path: Any = None
    spec: ModuleSpec | None = None
    for end, _ in enumerate(parts := name.split(".")):
        try:
            spec = PathFinder.find_spec(".".join(parts[: end + 1]), path)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec.origin if spec is not None and spec.has_location else None


def _is_package(name: str, path: Path) -> bool:
    return path.name == "__init__.py" and name != "__main__"


def _belongs_to_others(name: str) -> bool:
    top = name.partition(".")[0]
    return (
        top == "tempora_tta"
        or top in sys.builtin_module_names
        or (top in sys.stdlib_module_names and top != "__main__")
    )


def _is_installed(path: Path) -> bool:
    return any(part in ("site-packages", "dist-packages") for part in path.parts) or any(
        path.is_relative_to(folder) for folder in _folders_of_others()
    )


@cache
def _folders_of_others() -> tuple[Path, ...]:
    """Where Python and what pip installs lie."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_path(name) for name in names]
    user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return tuple(Path(folder).resolve() for folder in (*found, user) if folder)


def _description(value: Any, seen: set[int]) -> object:
    """What something without a file is and does, as far as that can be written down."""
    if isinstance(value, PLAIN):
        return repr(value)
    if id(value) in seen:
        return getattr(value, "__qualname__", "")
    seen.add(id(value))
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, (list, tuple)):
        return [_description(entry, seen) for entry in value]
    if isinstance(value, Mapping):
        return [(repr(key), _description(entry, seen)) for key, entry in value.items()]
    if isinstance(value, (classmethod, staticmethod, property)):
        return _description(getattr(value, "__func__", getattr(value, "fget", None)), seen)
    if isinstance(value, FunctionType):
        return _function(value, seen)
    if isinstance(value, type) and not _belongs_to_others(value.__module__):
        own = {name: part for name, part in vars(value).items() if not _is_housekeeping(name)}
        bases = [_description(base, seen) for base in value.__bases__]
        return value.__qualname__, bases, _description(own, seen)
    if isinstance(value, ModuleType):
        return value.__name__
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _is_housekeeping(name: str) -> bool:
    return name.startswith("__") and name not in ("__init__", "__call__", "__post_init__")


def _function(function: FunctionType, seen: set[int]) -> object:
    """Its code, defaults, closure, and what it refers to by name."""
    code = function.__code__
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    names = [name for name in _names(code) if name in function.__globals__]
    given = (function.__defaults__, function.__kwdefaults__, cells)
    return (
        _code(code),
        _description(given, seen),
        [(name, _description(function.__globals__[name], seen)) for name in names],
    )


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _names(code: CodeType) -> list[str]:
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _code(code: CodeType) -> tuple[object, ...]:
    """What a function does, without where it was written."""
    return code.co_code, code.co_names, [_constant(value) for value in code.co_consts]


def _constant(value: object) -> object:
    if isinstance(value, CodeType):
        return _code(value)
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
