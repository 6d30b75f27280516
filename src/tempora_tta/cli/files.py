"""`tempora pack` and `tempora merge`: runs as files, one to send, several to join."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora_tta.cli.terminal import say
from tempora_tta.errors import counted


def pack(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write. Default: next to the folder, RUN.tempora.")
    ] = None,
    no_traces: Annotated[
        bool, typer.Option("--no-traces", help="Leave the single batches out: smaller, tables only.")
    ] = False,
) -> None:
    """Put a finished run into one checked file to send; show, report, recommend and compare open it."""
    from tempora_tta.store.files import hash_of
    from tempora_tta.store.packs import pack as write

    target = write(run, out, traces=not no_traces)
    passes = "no traces" if no_traces else counted(len(list((run / "traces").glob("*.parquet"))), "trace")
    say(f"{target} ({target.stat().st_size / 1e6:.2f} MB, {passes}); sha256 {hash_of(target)}")


def merge(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders of one job: its shifts, methods or seeds."),
    ],
    out: Annotated[Path, typer.Option(help="The new run folder.")],
) -> None:
    """Join the passes of run folders of one job in a new one, where the run of the whole job finds them."""
    from tempora_tta.store.merge import merge as join

    found = join(runs, out)
    say(
        f"{out} holds {counted(found, 'pass')} of {len(runs)} runs; `tempora run ... --out {out}`, with the shifts, "
        "methods and seeds of all, makes the tables from them, and what none of them has"
    )
