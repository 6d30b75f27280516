"""`tempora run`: a configuration, or flags, in; a run folder out. The same command resumes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempora_tta._own_code import is_own
from tempora_tta.cli import options
from tempora_tta.cli.execute import execute, prepare_environment
from tempora_tta.cli.terminal import say

if TYPE_CHECKING:
    from tempora_tta.engine.config import RunConfig


def run(
    config: Annotated[
        Path | None,
        typer.Argument(
            help="A YAML configuration (see --init, configs/), or a suite's part: tempora list suites.",
        ),
    ] = None,
    out: Annotated[Path | None, options.OUT] = None,
    set_: Annotated[list[str] | None, options.SET] = None,
    model: Annotated[str | None, options.MODEL] = None,
    dataset: Annotated[str | None, options.DATASET] = None,
    root: Annotated[Path | None, options.ROOT] = None,
    shifts: Annotated[str | None, options.SHIFTS] = None,
    severity: Annotated[int | None, options.SEVERITY] = None,
    pictures: Annotated[bool | None, options.PICTURES] = None,
    stream: Annotated[str | None, options.STREAM] = None,
    reset: Annotated[str | None, options.RESET] = None,
    classes: Annotated[str | None, options.CLASSES] = None,
    methods: Annotated[str | None, options.METHODS] = None,
    recipes: Annotated[Path | None, options.RECIPES] = None,
    grid: Annotated[str | None, options.GRID] = None,
    scenario: Annotated[list[str] | None, options.SCENARIO] = None,
    seeds: Annotated[str | None, options.SEEDS] = None,
    batches: Annotated[int | None, options.BATCHES] = None,
    batch_size: Annotated[int | None, options.BATCH_SIZE] = None,
    clock: Annotated[str | None, options.CLOCK] = None,
    profile_s: Annotated[float | None, options.PROFILE_S] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    threads: Annotated[int | None, options.THREADS] = None,
    deterministic: Annotated[bool | None, options.DETERMINISTIC] = None,
    runtime: Annotated[str | None, options.RUNTIME] = None,
    predict_with: Annotated[str | None, options.PREDICT_WITH] = None,
    method_timeout: Annotated[float | None, options.METHOD_TIMEOUT] = None,
    share: Annotated[bool | None, options.SHARE] = None,
    executor: Annotated[str, options.EXECUTOR] = "local",
    address: Annotated[str | None, options.ADDRESS] = None,
    replace: Annotated[bool, options.REPLACE] = False,
    dry_run: Annotated[bool, options.DRY_RUN] = False,
    init: Annotated[bool, options.INIT] = False,
    log: Annotated[list[str] | None, options.LOG] = None,
    quiet: Annotated[bool, options.QUIET] = False,
    plain: Annotated[bool, options.PLAIN] = False,
) -> None:
    """Evaluate methods on shifts under deployments; what is finished is kept, the same command resumes."""
    prepare_environment()
    from tempora_tta.engine.load_config import load_config

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
        replace=replace,
        dry_run=dry_run,
        log=log or (),
        quiet=quiet,
        plain=plain,
    )


def _scenarios(given: list[str] | None) -> list[Any] | None:
    """Each as YAML: a text names a class of the user's own, a mapping has settings too."""
    import yaml

    from tempora_tta.errors import TemporaError

    if not given:
        return None
    try:
        return [text if is_own(text) and not text.startswith("{") else yaml.safe_load(text) for text in given]
    except yaml.YAMLError:
        raise TemporaError(
            f"--scenario {' '.join(given)}: write module:Class, or {{protocol: discrete, interval_ms: 60}}"
        ) from None


def _run_name(config: Path | None, configuration: RunConfig) -> str:
    from tempora_tta.engine import suites

    if config is None:
        return f"{configuration.model}-{configuration.data.dataset}".replace(":", ".")
    return config.as_posix() if config.as_posix() in suites.names() else config.stem


def _write_template(path: Path) -> None:
    from tempora_tta.engine.config import template
    from tempora_tta.errors import TemporaError

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
    from tempora_tta.errors import TemporaError

    try:
        return None if text is None else [int(number) for number in text.split(",")]
    except ValueError:
        raise TemporaError(f"{option} {text!r}: give whole numbers, with commas between them") from None
