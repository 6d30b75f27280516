"""The look of every command: the same tables, lists, warnings and errors, with a terminal or without one."""

from __future__ import annotations

import functools
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from tempora_tta._plain_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Entry = tuple[str, str, str]
"""A name, what it is, and a quieter line of facts."""

MOST_CHARACTERS = 10_000
"""Length of a message; a longer one holds data of the user's."""
UNBROKEN = "\u00a0"
"""A blank that `print_entries` breaks no line at, and prints as an ordinary one."""


def console(stderr: bool = False) -> Console:
    """Return the console of a command: in colour on a terminal that has it, 80 columns wide where there is none.

    Text is text: a name is neither markup nor an escape sequence.
    """
    forget_no_width()
    return _plain_console()(stderr=stderr, highlight=False, markup=False, emoji=False)


def forget_no_width() -> None:
    """Drop COLUMNS=0, which is said where no width is known: rich would print nothing in a window of no width."""
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)


@functools.cache
def _plain_console() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class PlainConsole(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
            for segment in super().render(*args, **kwargs):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

        def print(self, *args: Any, **kwargs: Any) -> None:
            try:
                super().print(*args, **kwargs)
            except OSError as error:
                from tempora_tta.store.atomic import CannotWrite

                # Progress is printed inside a pass, which did nothing wrong.
                raise CannotWrite(cannot_print(error)) from error

    return PlainConsole


def cannot_print(error: OSError) -> str:
    return (
        f"cannot write: {error.strerror}. Send the output elsewhere, or make room, and run the same command again; "
        "what was written to files before is kept"
    )


def say(text: str, nl: bool = True, err: bool = False) -> None:
    """Print a line, or output to paste and to process, as it is; `console()` wraps and colours."""
    typer.echo(visible(text), nl=nl, err=err)


def is_live(console: Console) -> bool:
    """Tell whether what was printed can be drawn over: no pipe, even one that was promised colours (FORCE_COLOR)."""
    return console.file.isatty() and not console.is_dumb_terminal


def plain_table(*headings: str, numbers: Iterable[str] = ()) -> Table:
    """Return a table with the look of every small one; `numbers` names the columns that hold them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
    for heading in headings:
        table.add_column(
            Text(heading), justify="right" if heading in set(numbers) else "left", overflow="fold"
        )
    return table


def print_entries(console: Console, entries: Iterable[Entry]) -> None:
    """Print names in bold, next to each what it is and below that, dimmed, its facts, wrapped to the window."""
    from rich.text import Text

    listed = list(entries)
    indent = max(len(name) for name, _, _ in listed) + 2
    for name, what, facts in listed:
        heading = Text(name.ljust(indent), style="bold")
        for lines, style in (
            (_wrapped(console, what, indent), ""),
            (_wrapped(console, facts, indent), "dim"),
        ):
            for line in lines:
                console.print(heading + Text(line, style=style), soft_wrap=True)
                heading = Text(" " * indent)


def _wrapped(console: Console, text: str, indent: int) -> list[str]:
    width = max(20, console.width - indent)
    lines = (
        line
        for paragraph in text.split("\n")
        for line in textwrap.wrap(paragraph, width, break_on_hyphens=False)
    )
    return [line.replace(UNBROKEN, " ") for line in lines]


@contextmanager
def resumable(out: Console, kept: str) -> Iterator[None]:
    """Let Ctrl-C end a command that goes on where it stopped; say what is kept, and the command."""
    try:
        yield
    except KeyboardInterrupt:
        out.print(f"stopped; {kept}. This goes on from there:", soft_wrap=True)
        out.print(shlex.join(["tempora", *sys.argv[1:]]), soft_wrap=True)
        raise typer.Exit(130) from None


@contextmanager
def steps(out: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Give what to call with each step: of what, how much is done, and of how much (0: not known)."""
    from tempora_tta.progress import Progress

    with Progress(out, live=is_live(out)).drawing() as progress:
        yield progress.show


def print_error(message: str) -> None:
    _print_message("error", message, "bold red")


def print_warning(message: str) -> None:
    _print_message("warning", message, "yellow")


def _print_message(kind: str, message: str, style: str) -> None:
    """Print to stderr: to a log as it is, to a terminal wrapped, but for commands, which are there to be copied."""
    from rich.text import Text

    out = console(stderr=True)
    start = Text.assemble((f"{kind}:", style), " ")
    if len(message) > MOST_CHARACTERS:
        message = f"{message[:MOST_CHARACTERS]} ... ({len(message):,} characters in all)"
    for line in message.split("\n"):
        out.print(start + Text(line), soft_wrap=not out.is_terminal or line.startswith("tempora "))
        start = Text()
