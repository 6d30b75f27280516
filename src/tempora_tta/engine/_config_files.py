"""The files of configurations, and `key=value` on the command line: YAML with the line of every key.

What YAML would silently take for something else, or read without end, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tempora_tta.engine import suites
from tempora_tta.errors import TemporaError

MOST_LINES, MOST_LEVELS, MOST_BYTES = 10_000, 30, 1 << 20
"""A configuration is far smaller; aliases (&, *) of aliases can make it endless."""


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[tuple[Any, ...], int]]:
    """The file's content, and the line on which every key of it stands."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise TemporaError(
                f"{path} has more than {MOST_BYTES >> 20} MiB: a configuration is a page of text; is it another file?"
            )
        values, lines = _parsed(content.decode("utf-8"), str(path))
        values = values or {}
    except FileNotFoundError:
        if parts := suites.parts_of(str(path)):
            raise TemporaError(f"{path} has several parts: name one, {' or '.join(parts)}") from None
        raise TemporaError(
            f"no configuration {str(path)!r}: `tempora run --init` writes one to start from, and "
            "`tempora list suites` names those that ship with Tempora"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise TemporaError(f"{path} cannot be read: {error}") from None
    except RecursionError:
        raise TemporaError(f"{path} is nested too deeply: a configuration has a few levels") from None
    except (yaml.YAMLError, ValueError) as error:
        raise TemporaError(f"{path} is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise TemporaError(f"{path}: expected keys and values such as `model: fashion_resnet`")
    return values, lines


def _parsed(text: str, place: str) -> tuple[Any, dict[tuple[Any, ...], int]]:
    """Parse the text, and keep the line of every key. Nothing is built before it is known to be small."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines = _key_lines(node, place)
        return (None if node is None else loader.construct_document(node)), lines
    finally:
        loader.dispose()


_OLD_NUMBERS = {
    "minutes and seconds": re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"),
    "an octal number": re.compile(r"[-+]?0[0-7_]+"),
}
"""What YAML 1.1 reads as other numbers than people do: 1:30 as 90, 010 as 8."""


def _check_number(node: yaml.Node, place: str) -> None:
    """Say so where a number would silently be another one."""
    if not isinstance(node, yaml.ScalarNode) or node.style is not None:
        return
    for kind, pattern in _OLD_NUMBERS.items():
        if node.tag.endswith((":int", ":float")) and pattern.fullmatch(node.value):
            raise TemporaError(
                f"{place}: {node.value:.80} (line {node.start_mark.line + 1}) is {kind} to YAML: write the number "
                "out in its unit, or put it in quotes if it is a name"
            )


def _key_lines(node: yaml.Node | None, path: str) -> dict[tuple[Any, ...], int]:
    """The line of every key and entry. A key that stands twice is an error: YAML would take the last."""
    lines: dict[tuple[Any, ...], int] = {}
    for where, line in _places(node, (), path):
        if where in lines:
            name = ".".join(map(str, where))
            raise TemporaError(
                f"{path}: {name} stands on line {lines[where]} and on line {line}: keep one of them"
            )
        lines[where] = line
        if len(lines) > MOST_LINES or len(where) > MOST_LEVELS:
            raise TemporaError(
                f"{path} has more than {MOST_LINES} entries or {MOST_LEVELS} levels (line {line}): are there aliases "
                "(&, *) that contain each other? Write them out"
            )
    return lines


def _places(
    node: yaml.Node | None, where: tuple[Any, ...], path: str
) -> Iterator[tuple[tuple[Any, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*where, str(key.value))
            yield here, key.start_mark.line + 1
            yield from _places(value, here, path)
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            yield (*where, position), value.start_mark.line + 1
            yield from _places(value, (*where, position), path)
    elif node is not None:
        _check_number(node, path)


def set_by_text(values: dict[str, Any], override: str) -> tuple[str, ...]:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise TemporaError(f"--set {override!r}: write key=value, for instance --set data.severity=3")
    try:
        value, _ = _parsed(text, f"--set {key}")
    except (yaml.YAMLError, ValueError, RecursionError):
        raise TemporaError(f"--set {override!r}: {text!r} is not a YAML value") from None
    return put(values, key.strip().split("."), value)


def put(values: dict[str, Any], keys: Sequence[str], value: Any) -> tuple[str, ...]:
    """Change one key, and say which."""
    for key in keys[:-1]:
        inner = values.setdefault(key, {})
        if not isinstance(inner, dict):
            raise TemporaError(f"{'.'.join(keys)}: {key} holds a value, not keys: write --set {key}=VALUE")
        values = inner
    values[keys[-1]] = value
    return tuple(keys)
