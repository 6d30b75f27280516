"""Tables on a terminal: in colour, as wide as it is, wide ones cut between groups of columns."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from tempora_tta._plain_text import visible
from tempora_tta.report.tables.model import Column, Table, TableCell

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_STYLES = {"": "", "best": "bold", "second": "underline", "below": "dim"}
_BETWEEN = 2
"""Blanks between two columns."""


def renderable(table: Table, width: int = 80) -> Group:
    """What `rich` prints: one grid, or several below each other if one would not fit."""
    parts: list[RichTable | Text] = [Text(visible(table.caption), style="bold")]
    for columns in cut(table, width):
        parts += [Text(), _grid(table, columns)]
    if table.notes:
        parts += [Text(), *(Text(visible(note), style="dim") for note in table.notes)]
    return Group(*parts)


def to_terminal(table: Table, width: int = 80, colour: bool = False) -> str:
    """The table as text, with escape codes if `colour`."""
    console = Console(
        file=StringIO(), width=width, force_terminal=colour, color_system="truecolor" if colour else None
    )
    with console.capture() as captured:
        console.print(renderable(table, width))
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def cell_text(column: Column, cell: TableCell) -> Text:
    """`49.13±0.4¹`: the value, marked, its flag, half of its interval, and the rank small and grey."""
    text = Text(column.text(cell.value), style=_STYLES[cell.mark])
    if cell.colour:
        text.stylize(cell.colour)
    text.append(cell.flag, style="yellow not bold not underline")
    text.append(cell.reach_text(column), style="dim not bold not underline")
    if cell.rank is not None:
        text.append(str(cell.rank).translate(_SUPERSCRIPTS), style="dim not bold not underline")
    return text


def _grid(table: Table, columns: Sequence[int]) -> RichTable:
    grid = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
    headings = _headings(table, columns)
    for heading, number in zip(headings, columns, strict=True):
        left = table.columns[number].unit == "text"
        grid.add_column(Text(heading, justify="left" if left else "right"), no_wrap=True)
    cells = [_cells(table, number, heading) for heading, number in zip(headings, columns, strict=True)]
    for place, row in enumerate(zip(*cells, strict=True)):
        if place in table.rules:
            grid.add_section()
        grid.add_row(*row)
    return grid


def _headings(table: Table, columns: Sequence[int]) -> list[str]:
    """Titles, below the name of their group where a new one starts."""
    titles = [visible(table.columns[number].title) for number in columns]
    if not any(table.columns[number].group for number in columns):
        return titles
    groups = [visible(table.columns[number].group) for number in columns]
    starts = [group if place == 0 or groups[place - 1] != group else "" for place, group in enumerate(groups)]
    return [f"{start}\n{title}" for start, title in zip(starts, titles, strict=True)]


def _cells(table: Table, number: int, heading: str) -> list[Text]:
    """The texts of a column. Numbers are indented so that they align, whatever follows them."""
    column, cells = table.columns[number], [row[number] for row in table.rows]
    texts = [cell_text(column, cell) for cell in cells]
    if column.unit == "text":
        return texts
    heads = [len(column.text(cell.value)) for cell in cells]
    tails = [text.cell_len - head for text, head in zip(texts, heads, strict=True)]
    room = max(*map(len, heading.split("\n")), max(heads) + max(tails)) - max(tails)
    return [Text(" " * (room - head)) + text for text, head in zip(texts, heads, strict=True)]


def cut(table: Table, width: int) -> list[list[int]]:
    """Column numbers of each grid of that many characters: whole groups where they fit, the first column in each."""
    grids: list[list[int]] = [[0]]
    for group in _groups(table.columns):
        if len(grids[-1]) > 1 and _width(table, [*grids[-1], *group]) > width:
            grids.append([0])
        for number in group:
            if len(grids[-1]) > 1 and _width(table, [*grids[-1], number]) > width:
                grids.append([0])
            grids[-1].append(number)
    return grids


def _groups(columns: Sequence[Column]) -> list[list[int]]:
    groups: list[list[int]] = []
    for number in range(1, len(columns)):
        if groups and columns[number].group and columns[number].group == columns[number - 1].group:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _width(table: Table, columns: Sequence[int]) -> int:
    widths = [
        max(
            *map(len, heading.split("\n")),
            *(text.cell_len for text in _cells(table, number, heading)),
            0,
        )
        for heading, number in zip(_headings(table, columns), columns, strict=True)
    ]
    return sum(widths) + _BETWEEN * (len(columns) - 1)
