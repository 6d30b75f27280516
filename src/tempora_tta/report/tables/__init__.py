"""Every table of the paper by name, on a terminal or ready to paste."""

from __future__ import annotations

from collections.abc import Callable

from tempora_tta._plain_text import visible
from tempora_tta.errors import unknown
from tempora_tta.report.tables.build import build, build_published
from tempora_tta.report.tables.build import names as build_names
from tempora_tta.report.tables.model import Column, Table, TableCell
from tempora_tta.report.tables.terminal import renderable, to_terminal
from tempora_tta.report.tables.text import to_csv, to_json, to_latex, to_markdown

FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": to_terminal,
    "latex": to_latex,
    "markdown": to_markdown,
    "csv": to_csv,
    "json": to_json,
}


def render(table: Table, format: str = "terminal") -> str:
    """A table as text in one of the `FORMATS`."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    text = FORMATS[format](table)
    return text if format == "terminal" else visible(text)


__all__ = [
    "FORMATS",
    "Column",
    "Table",
    "TableCell",
    "build",
    "build_names",
    "build_published",
    "render",
    "renderable",
    "to_terminal",
]
