"""`tempora report`: a run as one page, or as the figures of a paper."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tempora_tta.cli import options
from tempora_tta.cli.terminal import say


class FigureFormat(StrEnum):
    svg = "svg"
    pdf = "pdf"
    png = "png"


def report(
    run: Annotated[Path, options.RUN],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the page. Default: RUN/report.html.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw the paper's figures into this folder instead.")
    ] = None,
    format_: Annotated[
        list[FigureFormat] | None,
        typer.Option("--format", help="Of the figures; may be repeated. Default: svg."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
) -> None:
    """Write a run's report: one page that opens from disk, or with --figures the figures of the paper."""
    from tempora_tta.errors import TemporaError
    from tempora_tta.store import open_run

    results = open_run(run)
    if figures is not None:
        from tempora_tta.report.charts import save

        kinds = [kind.value for kind in format_ or [FigureFormat.svg]]
        for path in save(results, figures, kinds):
            say(str(path))
        return
    if format_ is not None:
        raise TemporaError("--format is about figures: say where they go with --figures DIR")
    from tempora_tta.report.html import write_report

    page = write_report(results, out)
    say(f"{page} ({page.stat().st_size / 1e6:.1f} MB); it opens in any browser, without a network")
    if open_:
        typer.launch(str(page))
