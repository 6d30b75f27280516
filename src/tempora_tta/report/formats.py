"""Tables in every format: in colour on a terminal, as LaTeX (booktabs) or Markdown to paste, as CSV or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from io import StringIO

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from tempora_tta._plain_text import no_formula, visible
from tempora_tta.errors import unknown
from tempora_tta.report.table import Column, Table, TableCell

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_STYLES = {"": "", "best": "bold", "second": "underline", "below": "dim"}
_BETWEEN = 2
"""Blanks between two columns."""


def renderable(table: Table, width: int = 80) -> Group:
    """Return what `rich` prints: one grid, or several below each other if one would not fit."""
    parts: list[RichTable | Text] = [Text(visible(table.caption), style="bold")]
    for columns in cut(table, width):
        parts += [Text(), _grid(table, columns)]
    if table.notes:
        parts += [Text(), *(Text(visible(note), style="dim") for note in table.notes)]
    return Group(*parts)


def to_terminal(table: Table, width: int = 80, colour: bool = False) -> str:
    """Return the table as text, with escape codes if `colour`."""
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
    """Return the texts of a column; numbers are indented so that they align, with or without signs."""
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


_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "ρ": r"$\rho$",
    "λ": r"$\lambda$",
    "γ": r"$\gamma$",
    "±": r"$\pm$",
    "→": r"$\to$",
    "↓": r"$\downarrow$",
    "−": r"$-$",
    "×": r"$\times$",
    "≈": r"$\approx$",
    "–": "--",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def latex_text(text: str) -> str:
    """Return text that LaTeX typesets as it is.

    >>> latex_text("a_b & 5 %")
    'a\\\\_b \\\\& 5 \\\\%'
    """
    return "".join(_LATEX.get(character, character) for character in text)


def to_latex(table: Table) -> str:
    """Return a `table` environment for booktabs: best bold, second underlined, ranks small and grey."""
    body = []
    for place, row in enumerate(table.rows):
        if place in table.rules:
            body.append(r"\midrule")
        cells = [_latex_cell(column, cell) for column, cell in zip(table.columns, row, strict=True)]
        body.append(" & ".join(cells) + r" \\")
    titles = " & ".join(rf"\textbf{{{latex_text(column.title)}}}" for column in table.columns) + r" \\"
    alignment = "".join(
        "l" if column.unit == "text" and column.title != "rank" else "r" for column in table.columns
    )
    notes = [rf"\\ \footnotesize {latex_text('; '.join(table.notes))}"] if table.notes else []
    return "\n".join(
        [
            "% needs \\usepackage{booktabs,xcolor}",
            r"\begin{table}[t]",
            rf"\caption{{{latex_text(table.caption)}.}}",
            rf"\label{{table:{table.name}}}",
            r"\centering",
            r"\small",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            *_latex_groups(table),
            titles,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def to_markdown(table: Table) -> str:
    """Return a pipe table: best bold, second underlined, ranks in brackets."""
    titles = [column.whole_title for column in table.columns]
    lines = [
        f"**{_markdown_text(table.caption)}**",
        "",
        "| " + " | ".join(map(_markdown_text, titles)) + " |",
        "| " + " | ".join("---" if column.unit == "text" else "---:" for column in table.columns) + " |",
    ]
    for row in table.rows:
        cells = [_markdown_cell(column, cell) for column, cell in zip(table.columns, row, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(_markdown_text(note) for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def to_csv(table: Table) -> str:
    """Return the numbers behind the table, one cell per row, in fractions and milliseconds."""
    return frame_to_csv(table.data)


def frame_to_csv(frame: pd.DataFrame) -> str:
    """Return a header and a line per row; names that a spreadsheet would calculate are defused."""
    names = {name: frame[name].map(no_formula) for name in frame.select_dtypes(exclude="number").columns}
    return frame.assign(**names).to_csv(index=False)


def to_json(table: Table) -> str:
    """Return the numbers behind the table as records, with its caption and notes; missing values are null."""
    records = json.loads(table.data.to_json(orient="records", double_precision=15))
    content = {"table": table.name, "caption": table.caption, "notes": list(table.notes), "rows": records}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _latex_cell(column: Column, cell: TableCell) -> str:
    text = latex_text(column.text(cell.value))
    text = f"$-${text[1:]}" if re.fullmatch(r"-[\d.]+", text) else text
    text = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}.get(cell.mark, text)
    text += latex_text(cell.flag)
    if reach := cell.reach_text(column):
        text += rf"{{\scriptsize\,{latex_text(reach)}}}"
    return text if cell.rank is None else rf"{text}~{{\scriptsize\color{{gray}}({cell.rank})}}"


def _latex_groups(table: Table) -> list[str]:
    """Headings that span columns, with a line under each."""
    if not any(column.group for column in table.columns):
        return []
    cells, lines, first = [], [], 1
    for group, count in table.groups:
        if group:
            cells.append(rf"\multicolumn{{{count}}}{{c}}{{\textbf{{{latex_text(group)}}}}}")
            lines.append(rf"\cmidrule(lr){{{first}-{first + count - 1}}}")
        else:
            cells += [""] * count
        first += count
    return [" & ".join(cells) + r" \\", " ".join(lines)]


def _markdown_cell(column: Column, cell: TableCell) -> str:
    text = _markdown_text(column.text(cell.value))
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(cell.mark, text) + cell.flag
    text = f"{text} {reach}" if (reach := cell.reach_text(column)) else text
    return text if cell.rank is None else f"{text} ({cell.rank})"


def _markdown_text(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|*_`\[\]])", r"\\\1", text).replace("\n", " ")


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": to_terminal,
    "latex": to_latex,
    "markdown": to_markdown,
    "csv": to_csv,
    "json": to_json,
}


def render(table: Table, format: str = "terminal") -> str:
    """Return a table as text in one of the `FORMATS`."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    text = FORMATS[format](table)
    return text if format == "terminal" else visible(text)
