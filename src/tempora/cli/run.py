"""`tempora run`: a configuration, or flags, in; a run folder out. The same command resumes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempora import names
from tempora._own_code import is_own
from tempora.cli import completion
from tempora.cli.terminal import console as new_console
from tempora.cli.terminal import is_live, say

if TYPE_CHECKING:
    from rich.console import Console

    from tempora.engine.config import RunConfig
    from tempora.store import Results


WHAT, HOW, WHERE = "What is evaluated", "How it is timed", "On several machines"
"""Headings of the options."""

Redo = Annotated[
    str | None,
    typer.Option(
        help="invalid: repeat the passes whose timing was INVALID.",
        autocompletion=completion.one_of(("invalid",)),
    ),
]
"""An option of `tempora demo` too."""


def run(
    config: Annotated[
        Path | None,
        typer.Argument(
            help="A YAML configuration (see --init, configs/), or a suite's part: tempora list suites.",
            autocompletion=completion.configuration,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder. Default: runs/NAME.", autocompletion=completion.run_folder),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value, over the configuration; may be repeated."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A name from `tempora list models`, one of timm's, or module:function.",
            autocompletion=completion.one_of(names.MODELS),
            rich_help_panel=WHAT,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="A name from `tempora list datasets`, or module:function.",
            autocompletion=completion.one_of(names.DATASETS),
            rich_help_panel=WHAT,
        ),
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Where the dataset lies.", rich_help_panel=WHAT)] = None,
    shifts: Annotated[
        str | None,
        typer.Option(
            help="Corruptions or groups, with commas; or all.",
            autocompletion=completion.some_of(completion.SHIFTS),
            rich_help_panel=WHAT,
        ),
    ] = None,
    severity: Annotated[
        int | None, typer.Option(help="Of the corruptions, 1 to 5.", rich_help_panel=WHAT)
    ] = None,
    pictures: Annotated[
        bool | None,
        typer.Option(
            "--pictures/--no-pictures",
            help="Keep four small pictures of each shift in the run folder, for its report. Default: if the "
            "dataset's licence lets them be passed on; never of your own images.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            help="single, continual, gradual, recurring, mixed, or module:function.",
            autocompletion=completion.one_of(names.STREAMS),
            rich_help_panel=WHAT,
        ),
    ] = None,
    reset: Annotated[
        str | None,
        typer.Option(
            help="never, shift, or every so many batches of the stream.",
            autocompletion=completion.one_of(("never", "shift")),
            rich_help_panel=WHAT,
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="shuffled, sorted or dirichlet:0.1, within a segment of the stream.",
            autocompletion=completion.one_of(("shuffled", "sorted", "dirichlet:0.1")),
            rich_help_panel=WHAT,
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names or module:Class, with commas; or all.",
            autocompletion=completion.some_of(("all", *names.METHODS)),
            rich_help_panel=WHAT,
        ),
    ] = None,
    recipes: Annotated[
        Path | None,
        typer.Option(help="A file of `tempora tune`, whose settings are used.", rich_help_panel=WHAT),
    ] = None,
    band: Annotated[
        bool,
        typer.Option(
            "--band",
            help="With --recipes: each method with default, label-free and oracle settings, as a band.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    grid: Annotated[
        str | None,
        typer.Option(
            help="relative, server, camera, ... from `tempora list scenarios`, none, or module:function.",
            autocompletion=completion.one_of(names.GRIDS),
            rich_help_panel=WHAT,
        ),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="One more: module:Class, or {protocol: discrete, interval_ms: 60}; may be repeated.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Whole numbers, with commas.", rich_help_panel=WHAT)
    ] = None,
    batches: Annotated[
        int | None,
        typer.Option(help="Only the first so many batches of every shift.", rich_help_panel=WHAT),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples per batch.", rich_help_panel=WHAT)] = None,
    clock: Annotated[
        str | None,
        typer.Option(
            help="steady (default), measured, a profile's file, or published:rn50_inc.",
            autocompletion=completion.clock,
            rich_help_panel=HOW,
        ),
    ] = None,
    profile_s: Annotated[
        float | None,
        typer.Option(help="Seconds that the steady clock's profile may take.", rich_help_panel=HOW),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="auto, cpu, cuda, cuda:N or mps.",
            autocompletion=completion.one_of(completion.DEVICES),
            rich_help_panel=HOW,
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of torch.", rich_help_panel=HOW)] = None,
    deterministic: Annotated[
        bool | None, typer.Option(help="Repeatable to the bit on CUDA, slower.", rich_help_panel=HOW)
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(
            help="eager, tf32, channels_last, amp, compile, or some with +; several with commas.",
            autocompletion=completion.some_of(completion.RUNTIMES),
            rich_help_panel=HOW,
        ),
    ] = None,
    predict_with: Annotated[
        str | None,
        typer.Option(
            help="tf32, amp or channels_last: faster predictions than those that are timed, where both agree.",
            autocompletion=completion.one_of(completion.PREDICTING),
            rich_help_panel=HOW,
        ),
    ] = None,
    method_timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds that one call into a method may take; one that hangs fails, the others go on.",
            rich_help_panel=HOW,
        ),
    ] = None,
    share: Annotated[
        bool | None, typer.Option(help="Share passes between scenarios.", rich_help_panel=HOW)
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            help="local, or ray: on the devices of a cluster.",
            autocompletion=completion.one_of(completion.EXECUTORS),
            rich_help_panel=WHERE,
        ),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT.", rich_help_panel=WHERE
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="i/n: only this part of the job; `tempora merge` joins the parts.", rich_help_panel=WHERE
        ),
    ] = None,
    mix_devices: Annotated[
        bool,
        typer.Option(
            "--mix-devices",
            help="Rank across different kinds of device all the same.",
            rich_help_panel=WHERE,
        ),
    ] = False,
    redo: Redo = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and an estimate, run nothing.")
    ] = False,
    init: Annotated[bool, typer.Option("--init", help="Write a commented configuration and stop.")] = False,
    log: Annotated[
        list[str] | None,
        typer.Option(
            help="Also tell mlflow, wandb or module:Class about the results; may be repeated.",
            autocompletion=completion.one_of(completion.HOOKS),
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing unless something fails.")] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines for a log instead of a live display.")
    ] = False,
) -> None:
    """Evaluate methods on shifts under deployments; what is finished is kept, the same command resumes."""
    prepare_environment()
    from tempora.engine.config import load_config

    if init:
        _write_template(config or Path("tempora.yaml"))
        return
    flags: dict[str, Any] = {
        "model": model,
        "data.dataset": dataset,
        "data.root": root,
        "data.shifts": shifts,
        "data.severity": severity,
        "data.pictures": pictures,
        "stream.kind": stream,
        "stream.reset": int(reset) if reset is not None and reset.isdecimal() else reset,
        "stream.classes": _classes(classes),
        "methods": _names(methods),
        "recipes": recipes,
        "band": band or None,
        "grid": grid,
        "scenarios": _scenarios(scenario),
        "seeds": _numbers("--seeds", seeds),
        "batches": batches,
        "batch_size": batch_size,
        "clock": clock,
        "profile_s": profile_s,
        "device": device,
        "threads": threads,
        "deterministic": deterministic,
        "runtimes": _names(runtime),
        "predict_with": predict_with,
        "share": share,
        "method_timeout_s": method_timeout,
    }
    configuration = load_config(config, set_ or (), flags)
    folder = out or Path("runs") / _run_name(config, configuration)
    execute(
        configuration,
        folder,
        executor=executor,
        address=address,
        shard=shard,
        mix_devices=mix_devices,
        dry_run=dry_run,
        redo=redo,
        log=log or (),
        quiet=quiet,
        plain=plain,
    )


def _scenarios(given: list[str] | None) -> list[Any] | None:
    """Each as YAML: a text names a class of the user's own, a mapping has settings too."""
    import yaml

    from tempora.errors import TemporaError

    if not given:
        return None
    try:
        return [text if is_own(text) and not text.startswith("{") else yaml.safe_load(text) for text in given]
    except yaml.YAMLError:
        raise TemporaError(
            f"--scenario {' '.join(given)}: write module:Class, or {{protocol: discrete, interval_ms: 60}}"
        ) from None


def _run_name(config: Path | None, configuration: RunConfig) -> str:
    from tempora.engine import suites

    if config is None:
        return f"{configuration.model}-{configuration.data.dataset}".replace(":", ".")
    return config.as_posix() if config.as_posix() in suites.names() else config.stem


def execute(
    config: RunConfig,
    folder: Path,
    *,
    executor: str = "local",
    address: str | None = None,
    shard: str | None = None,
    mix_devices: bool = False,
    dry_run: bool = False,
    redo: str | None = None,
    log: Sequence[str] = (),
    quiet: bool = False,
    plain: bool = False,
    say_how_long: bool = False,
) -> None:
    """Run a configuration into a folder with progress, then show what came out."""
    from tempora.cli.progress import LiveProgress
    from tempora.engine import Run, Stopped
    from tempora.engine.observer import Together
    from tempora.engine.plan import make_plan
    from tempora.engine.schedule import Shard
    from tempora.hooks import open_hooks
    from tempora.store import RunFolder

    console = new_console()
    part = Shard.parse(shard) if shard else None
    observer = LiveProgress(console, plain=plain, quiet=quiet)
    job, make = _job_and_executor(config, executor, address, observer)
    if dry_run or say_how_long:
        make_plan(job).show(console)
    if dry_run:
        return
    hooks = open_hooks(log, folder)
    with RunFolder.for_writing(folder) as opened, observer.watching():
        if redo is not None:
            _forget_invalid(opened, redo, observer)
        run = Run(job, opened, Together(observer, hooks), make, mix_devices, part)
        try:
            results = run.execute()
        except (Stopped, KeyboardInterrupt):
            console.print(
                f"stopped; everything finished is in {folder}. The same command goes on from there.",
                markup=False,
                soft_wrap=True,
            )
            raise typer.Exit(130) from None
    from tempora.cli.show import show_overview

    page = _write_report(results, console, drawing=is_live(console) and not quiet)
    if not quiet:
        console.print(f"report: {page}", markup=False, soft_wrap=True)
        console.print()
        show_overview(results, console)
    if run.failed:
        _show_failures(run.rows, console)
        raise typer.Exit(1)


def _job_and_executor(
    config: RunConfig, executor: str, address: str | None, observer: Any
) -> tuple[Any, Any]:
    """The job as this process needs it, and what makes its tasks."""
    from functools import partial

    from tempora.engine.executors import LocalExecutor
    from tempora.engine.setup import job_from_config
    from tempora.errors import TemporaError, unknown

    if executor == "ray":
        from tempora.engine.executors.ray import RayExecutor, driver_job

        return driver_job(config, observer), partial(RayExecutor, config=config, address=address)
    if executor != "local":
        raise unknown("--executor", executor, ["local", "ray"])
    if address is not None:
        raise TemporaError(f"--address {address}: only with --executor ray")
    from tempora.engine.executors.processes import ProcessExecutor, cores_for

    job = job_from_config(config, observer)
    processes = cores_for(config, job)
    if processes > 1:
        return job, partial(ProcessExecutor, config=config, processes=processes)
    return job, LocalExecutor


def _show_failures(rows: list[dict[str, Any]], console: Console) -> None:
    """How many cells failed, and each reason once."""
    from rich.text import Text

    from tempora.engine.run import failures
    from tempora.errors import counted

    failed = [row for row in rows if row["status"].startswith("failed")]
    console.print(Text(f"{len(failed)} of {counted(len(rows), 'cell')} failed:", style="red"))
    for reason in failures(rows):
        console.print(Text(f"  {reason}"))


def _write_report(results: Results, console: Console, drawing: bool) -> Path:
    from tempora.report.html import write_report

    with console.status("writing the report") if drawing else nullcontext():
        return write_report(results)


def prepare_environment() -> None:
    """Before torch is imported: idle OpenMP threads sleep instead of spinning on the cores that are timed."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _forget_invalid(folder: Any, redo: str, observer: Any) -> None:
    from tempora.errors import counted, unknown

    if redo != "invalid":
        raise unknown("--redo", redo, ["invalid"])
    bad = [
        key
        for key, found in folder.passes().items()
        if found.facts.get("verdict", {}).get("status") == "INVALID"
    ]
    for key in bad:
        folder.remove_pass(key)
    observer.note(f"{counted(len(bad), 'invalid pass')} will be made again")
    manifest = folder.manifest() if folder.has_manifest() else {}
    if (manifest.get("baseline_verdict") or {}).get("status") == "INVALID":
        folder.write_manifest({**manifest, "baselines": {}, "finished": False})
        observer.note("lambda will be measured again, and whatever depends on it")


def _write_template(path: Path) -> None:
    from tempora.engine.config import template
    from tempora.errors import TemporaError

    if path.exists():
        raise TemporaError(f"{path} is there already: name another file, or delete it")
    path.write_text(template(), encoding="utf-8")
    say(f"wrote {path}; edit it, then: tempora run {path}")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _classes(text: str | None) -> str | dict[str, float] | None:
    """`dirichlet:0.1` as a configuration writes it."""
    kind, colon, number = (text or "").partition(":")
    if text is None or kind != "dirichlet" or not colon:
        return text
    try:
        return {"dirichlet": float(number)}
    except ValueError:
        return text


def _numbers(option: str, text: str | None) -> list[int] | None:
    from tempora.errors import TemporaError

    try:
        return None if text is None else [int(number) for number in text.split(",")]
    except ValueError:
        raise TemporaError(f"{option} {text!r}: give whole numbers, with commas between them") from None
