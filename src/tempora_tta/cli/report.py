"""`tempora report`: a run as one page, or as the figures of a paper."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tempora_tta.cli.terminal import say
from tempora_tta.errors import TemporaError


class FigureFormat(StrEnum):
    svg = "svg"
    pdf = "pdf"
    png = "png"


def report(
    run: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders or packs; of several, --out DIR gets a page that links them, of several batch "
            "sizes, the run's own folder."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the page, or the pages of several runs. Default: RUN/report.html."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw the paper's figures into this folder instead.")
    ] = None,
    format_: Annotated[
        list[FigureFormat] | None,
        typer.Option("--format", help="Of the figures; may be repeated. Default: svg."),
    ] = None,
    shifts: Annotated[
        str | None, typer.Option(help="Of the figure `utility`, with commas. Default: the paper's four.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
) -> None:
    """Write a run's report: one page that opens from disk, or with --figures the figures of the paper."""
    from tempora_tta.results import open_runs
    from tempora_tta.store import of_sizes

    if out is None and len(run) == 1 and of_sizes(run[0]):
        out = run[0]
    if len(run) > 1 and (out is None or figures is not None):
        raise TemporaError(
            "several runs need a folder for their pages, --out DIR; --figures is about one run"
        )
    if figures is None and (format_ is not None or shifts is not None):
        raise TemporaError("--format and --shifts are about figures: say where they go with --figures DIR")
    runs = open_runs(run)
    first = next(iter(runs.values()))
    if figures is not None:
        from tempora_tta.config import listed
        from tempora_tta.report.charts import save

        kinds = [kind.value for kind in format_ or [FigureFormat.svg]]
        for path in save(first, figures, kinds, shifts=listed(shifts) if shifts else None):
            say(str(path))
        return
    from tempora_tta.report.html import write_report, write_reports

    page = write_report(first, out) if out is None or len(runs) == 1 else write_reports(runs, out)
    say(f"{page} ({page.stat().st_size / 1e6:.1f} MB); it opens in any browser, without a network")
    if open_:
        typer.launch(str(page))
