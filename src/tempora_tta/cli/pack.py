"""`tempora pack` and `tempora open`: a run as one file to send, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora_tta.cli import completion
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import say


def pack(
    run: Annotated[Path, typer.Argument(help="A run folder.", autocompletion=completion.run_folder)],
    out: Annotated[
        Path | None, typer.Option(help="The file to write. Default: beside the folder, RUN.tempora.")
    ] = None,
    no_traces: Annotated[
        bool, typer.Option("--no-traces", help="Leave the single batches out: smaller, tables only.")
    ] = False,
) -> None:
    """Put a finished run into one checked file to send; show, report, recommend and compare open it."""
    from tempora_tta.errors import counted
    from tempora_tta.store.packs import pack as write
    from tempora_tta.store.packs import sha256_of

    target = write(run, out, traces=not no_traces)
    passes = "no traces" if no_traces else counted(len(list((run / "traces").glob("*.parquet"))), "trace")
    say(f"{target} ({target.stat().st_size / 1e6:.2f} MB, {passes}); sha256 {sha256_of(target)}")


def open_(
    file: Annotated[Path, typer.Argument(help="A pack, RUN.tempora.", autocompletion=completion.run_folder)],
    out: Annotated[
        Path | None, typer.Option(help="Also write it as a run folder, new; tempora run --out goes on there.")
    ] = None,
) -> None:
    """Check a pack and say what it holds: the run, the machine, the versions, who wins where."""
    from tempora_tta.cli.show import show_overview
    from tempora_tta.errors import TemporaError
    from tempora_tta.store import open_run, unpack
    from tempora_tta.store.packs import is_pack, sha256_of

    if not is_pack(file):
        raise TemporaError(
            f"{file} is not a pack: `tempora pack RUN` makes one; `tempora show` shows run folders"
        )
    console = new_console()
    results = open_run(file)
    machine = results.manifest.get("machine", {})
    versions = ", ".join(f"{name} {version}" for name, version in machine.get("versions", {}).items())
    commit = f"{machine.get('commit') or 'no commit'}{' (with changes)' if machine.get('dirty') else ''}"
    for line in (f"sha256 {sha256_of(file)}", f"made by {versions or 'unknown versions'}; {commit}"):
        console.print(line, markup=False, soft_wrap=True)
    show_overview(results, console)
    if out is not None:
        unpack(file, out)
        say(f"wrote {out}")
