"""For mkdocstrings: paragraphs of doctests in docstrings become blocks of code."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Fences the doctests of functions and classes."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        fence(func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        fence(cls)


def fence(documented: griffe.Object) -> None:
    """Put every paragraph that has a doctest into a fence, from its first `>>>` on."""
    if documented.docstring is not None:
        paragraphs = documented.docstring.value.split("\n\n")
        documented.docstring.value = "\n\n".join(map(_fenced, paragraphs))


def _fenced(paragraph: str) -> str:
    before, found, example = paragraph.partition(">>> ")
    return f"{before}\n```pycon\n>>> {example.rstrip()}\n```" if found else paragraph
