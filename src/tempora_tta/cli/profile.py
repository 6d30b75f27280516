"""`tempora profile`: record this machine's latencies, for reading and as a clock for later runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tempora_tta import names
from tempora_tta._numbers import percent
from tempora_tta.cli import completion, options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import is_live, plain_table
from tempora_tta.config import PROVISION_X, DataConfig, RunConfig
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tempora_tta.timing import Profile


def profile(
    out: Annotated[
        Path | None, typer.Option(help="Where to write the profile (JSON). Default: profile.json.")
    ] = None,
    model: Annotated[str, options.MODEL] = RunConfig.model,
    dataset: Annotated[str, options.DATASET] = DataConfig.dataset,
    root: Annotated[Path | None, options.ROOT] = None,
    methods: Annotated[str, options.METHODS] = "all",
    shifts: Annotated[
        str | None,
        typer.Option(
            help="Corruptions or groups, with commas; the first three are fitted on, the fourth checks.",
            autocompletion=completion.some_of(names.SHIFTS),
            rich_help_panel=options.WHAT,
        ),
    ] = None,
    profile_s: Annotated[
        float,
        typer.Option(help="Seconds that it may take; it ends when it is good.", rich_help_panel=options.HOW),
    ] = RunConfig.profile_s,
    batch_size: Annotated[int, options.BATCH_SIZE] = RunConfig.batch_size,
    device: Annotated[str, options.DEVICE] = RunConfig.device,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads; one unless more are given.", rich_help_panel=options.HOW)
    ] = None,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="Write it ready to contribute: named by device, network and batch size, without your command line. "
            "--out is then the folder that it goes to.",
        ),
    ] = False,
    plain: Annotated[bool, options.PLAIN] = False,
) -> None:
    """Record how long every method's work takes on this machine (the paper's Table 2) and keep it as a clock."""
    from tempora_tta.cli.execute import prepare_environment

    prepare_environment()
    from tempora_tta.engine.build import build_job
    from tempora_tta.engine.load_config import load_config
    from tempora_tta.engine.own_profile import needs
    from tempora_tta.engine.profile_child import profile_job
    from tempora_tta.progress import Progress

    place = _folder_for(out, share)
    usual = ["gaussian_noise", "contrast", "brightness", "fog"] if dataset == "fashion" else None
    flags = {
        "model": model,
        "data.dataset": dataset,
        "data.root": root,
        "data.shifts": usual if shifts is None else shifts,
        "methods": [name.strip() for name in methods.split(",")],
        "batch_size": batch_size,
        "device": device,
        "threads": threads,
        "profile_s": profile_s,
    }
    console = new_console()
    observer = Progress(console, live=is_live(console) and not plain)
    job = build_job(load_config(None, flags=flags), observer)
    with observer.watching():
        recorded = profile_job(job, observer, labels=needs(job, None)).stamped(job.made_by_label)
    if share:
        recorded = recorded.to_share()
    file = place / f"{recorded.name}.json" if share else out or Path("profile.json")
    recorded.save(file)
    _show(recorded, console)
    console.print(f"wrote {file}; use it with: tempora run ... --clock {file}", markup=False, soft_wrap=True)
    if share:
        console.print(
            "To contribute it: put it into src/tempora_tta/timing/library, and its name into PROFILES of "
            "src/tempora_tta/names.py",
            soft_wrap=True,
        )


def _folder_for(out: Path | None, share: bool) -> Path:
    """Return the folder that the profile goes to, before anything is measured."""

    place = Path(".") if out is None else out if share else out.parent
    if not place.is_dir():
        raise TemporaError(f"--out {out}: there is no folder {place}; make it, or give another")
    return place


def _overheads(recorded: Profile) -> Table:
    """The paper's Table 2."""
    from rich.text import Text

    times = ("δ ms", "e ms", "e − λ ms", "ℓ ms", "±", "δ / λ", "memory", "energy", "parameters")
    shown = plain_table("method", *times, numbers=times)
    for row in recorded.overheads():
        facts = row["facts"]
        shown.add_row(
            Text(row["method"]),
            f"{row['service_ms']:.1f}",
            f"{row['predict_ms']:.1f}",
            f"{row['intrinsic_ms']:.1f}",
            f"{row['adapt_ms']:.1f}",
            f"{percent(row['error'])}",
            f"{row['slowdown']:.2f}×",
            "–" if facts.memory_bytes is None else f"{facts.memory_bytes / 1e6:,.0f} MB",
            "–" if facts.watts is None else f"{facts.watts * row['service_ms'] / 1000:.2f} J",
            f"{facts.updated_parameters:,}",
        )
    return shown


def _show(recorded: Profile, console: Console) -> None:
    """λ, the tail, how good the profile is, and what every method takes."""
    console.print(
        f"λ = {recorded.baseline_ms:.2f} ms on {recorded.device}: {PROVISION_X} × {recorded.standard_ms:.2f} ms of "
        f"{recorded.times}",
        markup=False,
        soft_wrap=True,
    )
    console.print(_tail(recorded), markup=False, soft_wrap=True)
    console.print(
        f"{len(recorded.rounds)} rounds, {percent(recorded.clean_share, 0)} clean; {recorded.verdict}",
        markup=False,
    )
    console.print()
    console.print(_overheads(recorded))
    unmet = {method: facts.unmet for method, facts in recorded.facts.items() if facts.unmet}
    if unmet:
        told = "; ".join(f"{method}: {', '.join(words)}" for method, words in unmet.items())
        console.print(
            f"never met, so without a time (each is profiled when a run here meets it): {told}",
            markup=False,
            soft_wrap=True,
        )
    console.print()


def _tail(recorded: Profile) -> str:
    """Say what is known of this machine's slow batches."""
    if recorded.tail_x is None:
        samples = recorded.residuals.clean_samples
        return f"tail: not known on this machine ({samples} clean samples; 299 would tell)"
    return f"tail: clean 99th percentile / median is {recorded.tail_x:.2f} (provision_x: tail uses it)"
