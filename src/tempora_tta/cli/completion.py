"""Names that the shell offers behind Tab, from `names.py`. Typer offers the words of closed sets by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Complete = Callable[[str], list[str]]


def one_of(names: Iterable[str]) -> Complete:
    """Complete a word with the names that start like it."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def some_of(names: Iterable[str]) -> Complete:
    """Complete the last name of a list with commas; the ones before it are not offered again."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in given]

    return complete
