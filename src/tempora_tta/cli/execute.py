"""A configuration run into a folder, with progress, and what came out: for `tempora run`, `demo` and others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import is_live, print_warning, resumable
from tempora_tta.errors import TemporaError, counted, unknown

if TYPE_CHECKING:
    from rich.console import Console

    from tempora_tta.config import RunConfig
    from tempora_tta.store import Results


def prepare_environment() -> None:
    """Before torch is imported: idle OpenMP threads sleep instead of spinning on the cores that are timed."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def execute(
    config: RunConfig,
    folder: Path,
    *,
    executor: str = "local",
    address: str | None = None,
    replace: bool = False,
    dry_run: bool = False,
    log: Sequence[str] = (),
    quiet: bool = False,
    plain: bool = False,
    say_how_long: bool = False,
) -> bool:
    """Run a configuration into a folder with progress, then show what came out; True if cells failed."""
    from tempora_tta.engine import Run, Stopped
    from tempora_tta.engine.observer import Together
    from tempora_tta.engine.plan import make_plan
    from tempora_tta.evaluation import finished
    from tempora_tta.hooks import open_hooks
    from tempora_tta.progress import Progress
    from tempora_tta.report import check_docstrings
    from tempora_tta.store import RunFolder

    console = new_console()
    observer = Progress(console, live=is_live(console) and not plain, quiet=quiet, warn=print_warning)
    job, place = _job_and_place(config, executor, address, observer)
    if dry_run or say_how_long:
        make_plan(job).show(console)
    if dry_run:
        return False
    check_docstrings()  # the report at the end could not be written
    hooks = open_hooks(log, folder)
    with (
        resumable(console, f"everything finished is in {folder}"),
        RunFolder.for_writing(folder) as opened,
        observer.watching(),
    ):
        run = Run(job, opened, Together(observer, hooks), place, replace)
        try:
            results = finished(run)
        except Stopped:
            raise KeyboardInterrupt from None
    from tempora_tta.cli.show import show_first

    _write_report(results, console, drawing=is_live(console) and not quiet)
    if not quiet:
        show_first(results, console)
    if run.failed:
        _show_failures(run.rows, console)
    return run.failed > 0


def _job_and_place(config: RunConfig, executor: str, address: str | None, observer: Any) -> tuple[Any, Any]:
    """The job as this process needs it, and where its tasks are made."""
    from functools import partial

    from tempora_tta.engine.build import build_job
    from tempora_tta.engine.places import Here, OnCores, cores_for

    if executor == "ray":
        from tempora_tta.engine.on_ray import OnRay, driver_job

        return driver_job(config, observer), partial(OnRay, address=address)
    if executor != "local":
        raise unknown("--executor", executor, ["local", "ray"])
    if address is not None:
        raise TemporaError(f"--address {address}: only with --executor ray")
    job = build_job(config, observer)
    processes = cores_for(job)
    return job, partial(OnCores, processes=processes) if processes > 1 else Here


def _show_failures(rows: list[dict[str, Any]], console: Console) -> None:
    """Print how many cells failed, and each reason once."""
    from rich.text import Text

    from tempora_tta.engine.run import failures

    failed = [row for row in rows if row["status"].startswith("failed")]
    console.print(Text(f"{len(failed)} of {counted(len(rows), 'cell')} failed:", style="red"))
    for reason in failures(rows):
        console.print(Text(f"  {reason}"))


def _write_report(results: Results, console: Console, drawing: bool) -> None:
    from tempora_tta.report.html import write_report

    with console.status("writing the report") if drawing else nullcontext():
        write_report(results)
