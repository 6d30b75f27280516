"""`tempora import`: results of others as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora_tta.cli import bar
from tempora_tta.cli.terminal import console, say

import_app = typer.Typer(name="import", help="Results of others as a run folder.", no_args_is_help=True)


@import_app.callback()
def _import() -> None:
    """Results of others as a run folder, for every table and question that a run of your own answers."""


@import_app.command()
def authors(
    folder: Annotated[Path, typer.Argument(help="The folder that the authors' JSON logs were unpacked in.")],
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    model: Annotated[str | None, typer.Option(help="Only logs of this network (model_arch).")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only logs of this dataset (dataset_name).")] = None,
    baseline_ms: Annotated[
        float | None, typer.Option(help="λ. Default: from the logs of standard inference.")
    ] = None,
) -> None:
    """The logs that the paper's authors published: its tables from its own batches."""
    from functools import partial

    from tempora_tta.store.authors import import_authors

    with bar.progress(console()) as show:
        results = import_authors(
            folder,
            out,
            model=model,
            dataset=dataset,
            baseline_ms=baseline_ms,
            progress=partial(show, "reading logs"),
        )
    from tempora_tta.errors import counted

    cells = results.utilities
    manifest = results.manifest
    say(
        f"{counted(manifest['imported']['files'], 'log')} of {manifest['model']} on {manifest['dataset']}: "
        f"{counted(len(cells), 'cell')}, "
        f"λ {manifest['baseline']['baseline_ms']:.2f} ms, in {out}"
    )
    if retimed := manifest["imported"]["retimed_passes"]:
        say(
            f"{counted(retimed, 'discrete pass')} served less than their times allow; recorded starts decided instead"
        )
    if own_skips := manifest["imported"]["own_skips_passes"]:
        say(
            f"{counted(own_skips, 'discrete pass')} skipped other batches than the times and starts say; "
            "what the log says was served is scored, and not replayed"
        )
    without = cells[cells["status"] != "ok"]
    for status, count in without["status"].value_counts().items():
        say(f"no result for {counted(int(count), 'cell')}: {status}")
