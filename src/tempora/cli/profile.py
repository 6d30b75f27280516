"""`tempora profile`: record this machine's latencies, for reading and as a clock for later runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora import names
from tempora.cli import completion
from tempora.cli.terminal import console as new_console
from tempora.cli.terminal import plain_table


def profile(
    out: Annotated[Path, typer.Option(help="Where to write the profile (JSON).")] = Path("profile.json"),
    model: Annotated[
        str,
        typer.Option(
            help="A name from `tempora list models`, one of timm's, or module:function.",
            autocompletion=completion.one_of(names.MODELS),
        ),
    ] = "fashion_resnet",
    dataset: Annotated[
        str,
        typer.Option(
            help="A name from `tempora list datasets`, or module:function.",
            autocompletion=completion.one_of(names.DATASETS),
        ),
    ] = "fashion",
    root: Annotated[Path | None, typer.Option(help="Where the dataset lies.")] = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Names or module:Class, with commas; or all.",
            autocompletion=completion.some_of(("all", *names.METHODS)),
        ),
    ] = "all",
    batches: Annotated[int, typer.Option(help="Batches to time per method.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Samples per batch.")] = 64,
    device: Annotated[
        str,
        typer.Option(
            help="auto, cpu, cuda, cuda:N or mps.", autocompletion=completion.one_of(completion.DEVICES)
        ),
    ] = "auto",
    threads: Annotated[int | None, typer.Option(help="CPU threads of torch.")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines for a log instead of a live display.")
    ] = False,
) -> None:
    """Measure how long every method takes on this machine (the paper's Table 2) and keep it as a clock."""
    from tempora.cli.run import prepare_environment

    prepare_environment()
    from rich.text import Text

    from tempora.cli.progress import LiveProgress
    from tempora.engine.config import load_config
    from tempora.engine.profiling import record_profile
    from tempora.engine.setup import job_from_config
    from tempora.errors import TemporaError

    flags = {
        "model": model,
        "data.dataset": dataset,
        "data.root": root,
        "data.shifts": ["clean"] if dataset == "fashion" else None,
        "methods": [name.strip() for name in methods.split(",")],
        "batches": batches,
        "batch_size": batch_size,
        "device": device,
        "threads": threads,
    }
    console = new_console()
    if not out.parent.is_dir():
        raise TemporaError(f"--out {out}: there is no folder {out.parent}; make it, or give another")
    observer = LiveProgress(console, plain=plain)
    job = job_from_config(load_config(None, flags=flags), observer)
    with observer.watching(gently=False):
        recorded, table = record_profile(job, f"{model} on {job.machine_kind}", observer)
    recorded.save(out)

    times = ("δ ms", "e ms", "e − λ ms", "ℓ ms", "δ / λ", "parameters")
    shown = plain_table("method", *times, numbers=times)
    for row in table.to_dict("records"):
        shown.add_row(
            Text(row["method"]),
            f"{row['service_ms']:.1f} ± {row['service_sd_ms']:.1f}",
            f"{row['predict_ms']:.1f} ± {row['predict_sd_ms']:.1f}",
            f"{row['intrinsic_ms']:.1f}",
            f"{row['adapt_ms']:.1f} ± {row['adapt_sd_ms']:.1f}",
            f"{row['slowdown']:.2f}×",
            f"{row['updated_parameters']:,}",
        )
    console.print(f"λ = {recorded.baseline_ms:.2f} ms on {job.machine_kind}", markup=False)
    console.print(f"timing: {recorded.verdict}", markup=False)
    console.print()
    console.print(shown)
    console.print()
    console.print(f"wrote {out}; use it with: tempora run ... --clock {out}", markup=False, soft_wrap=True)
