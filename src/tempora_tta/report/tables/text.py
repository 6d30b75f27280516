"""Tables to paste and to process: LaTeX (booktabs), Markdown, CSV and JSON."""

from __future__ import annotations

import json
import re

import pandas as pd

from tempora_tta._plain_text import no_formula
from tempora_tta.report.tables.model import Column, Table, TableCell

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
    """Text that LaTeX typesets as it is, whatever a user called things.

    >>> latex_text("a_b & 5 %")
    'a\\\\_b \\\\& 5 \\\\%'
    """
    return "".join(_LATEX.get(character, character) for character in text)


def to_latex(table: Table) -> str:
    """A `table` environment for booktabs: best bold, second underlined, ranks small and grey."""
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
    """A pipe table: best bold, second underlined, ranks in brackets."""
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
    """The numbers behind the table, one cell per row, in fractions and milliseconds."""
    return frame_to_csv(table.data)


def frame_to_csv(frame: pd.DataFrame) -> str:
    """A header and a line per row; names that a spreadsheet would calculate are defused."""
    names = {name: frame[name].map(no_formula) for name in frame.select_dtypes(exclude="number").columns}
    return frame.assign(**names).to_csv(index=False)


def to_json(table: Table) -> str:
    """The numbers behind the table as records, with its caption and notes; missing values are null."""
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
    spans: list[tuple[str, int, int]] = []
    for number, column in enumerate(table.columns):
        if spans and column.group and column.group == spans[-1][0]:
            spans[-1] = (column.group, spans[-1][1], number)
        else:
            spans.append((column.group, number, number))
    cells = [
        rf"\multicolumn{{{last - first + 1}}}{{c}}{{\textbf{{{latex_text(group)}}}}}" if group else ""
        for group, first, last in spans
    ]
    lines = [rf"\cmidrule(lr){{{first + 1}-{last + 1}}}" for group, first, last in spans if group]
    return [" & ".join(cells) + r" \\", " ".join(lines)]


def _markdown_cell(column: Column, cell: TableCell) -> str:
    text = _markdown_text(column.text(cell.value))
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(cell.mark, text) + cell.flag
    text = f"{text} {reach}" if (reach := cell.reach_text(column)) else text
    return text if cell.rank is None else f"{text} ({cell.rank})"


def _markdown_text(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|*_`\[\]])", r"\\\1", text).replace("\n", " ")
