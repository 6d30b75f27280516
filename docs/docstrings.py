"""For mkdocstrings: our docstrings describe parameters as `name: meaning` lines; pages show
those as lists, and examples as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DESCRIBED = re.compile(r"^(\w+(?:, \w+)*): (.+)$")


class OurDocstrings(griffe.Extension):
    """Turns the lines of a docstring that describe parameters or fields into list items, doctests into code."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        if func.docstring is not None:
            names = {parameter.name for parameter in func.parameters}
            func.docstring.value = as_markdown(func.docstring.value, names)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.docstring is not None:
            parameters = cls.members["__init__"].parameters if "__init__" in cls.members else ()
            cls.docstring.value = as_markdown(
                cls.docstring.value, {*cls.members, *(p.name for p in parameters)}
            )


def as_markdown(text: str, names: set[str]) -> str:
    """
    >>> as_markdown("Load it.\\n\\nname: which one\\n    of them", {"name"})
    'Load it.\\n\\n- `name`: which one\\n    of them'
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(_code(part) if ">>> " in part else _list(part, names) for part in paragraphs)


def _code(paragraph: str) -> str:
    before, example = paragraph.split(">>> ", 1)
    return f"{before}\n```pycon\n>>> {example.rstrip()}\n```"


def _list(paragraph: str, names: set[str]) -> str:
    lines = []
    for line in paragraph.splitlines():
        found = _DESCRIBED.match(line)
        if found and set(found[1].split(", ")) <= names:
            words = ", ".join(f"`{name}`" for name in found[1].split(", "))
            line = f"- {words}: {found[2]}"
        lines.append(line)
    return "\n".join(lines)
