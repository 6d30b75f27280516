"""`tempora run`: a configuration, or flags, in; a run folder out. The same command resumes."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tempora_tta._own_code import is_own
from tempora_tta.cli import options
from tempora_tta.cli.execute import execute, prepare_environment
from tempora_tta.cli.terminal import say
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from tempora_tta.config import RunConfig


def run(
    config: Annotated[
        Path | None,
        typer.Argument(
            help="A YAML configuration (see --init, configs/), a suite's part (tempora list suites), or a run "
            "folder, whose configuration is run again.",
        ),
    ] = None,
    out: Annotated[Path | None, options.OUT] = None,
    set_: Annotated[list[str] | None, options.SET] = None,
    executor: Annotated[str, options.EXECUTOR] = "local",
    address: Annotated[str | None, options.ADDRESS] = None,
    replace: Annotated[bool, options.REPLACE] = False,
    dry_run: Annotated[bool, options.DRY_RUN] = False,
    init: Annotated[bool, options.INIT] = False,
    log: Annotated[list[str] | None, options.LOG] = None,
    quiet: Annotated[bool, options.QUIET] = False,
    plain: Annotated[bool, options.PLAIN] = False,
    **keys: Any,
) -> None:
    """Evaluate methods on shifts under deployments; what is finished is kept, the same command resumes. Several
    methods, shifts or seeds are written with commas."""
    prepare_environment()
    from tempora_tta.engine.load_config import load_configs

    if init:
        _write_template(config or Path("tempora.yaml"))
        return
    flags = {key: keys.get(options.parameter_name(key)) for key in options.KEYS}
    flags["scenarios"] = _scenarios(flags["scenarios"])
    configurations = load_configs(config, set_ or (), flags)
    failed = False
    for folder, configuration in _folders(out or _folder(config, configurations[0]), configurations):
        failed |= execute(
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
    if failed:
        raise typer.Exit(1)


def _take_keys() -> None:
    """Let Typer see an option for every key: after --set, in the order of the configuration."""
    hints = get_type_hints(run, include_extras=True)
    known = [
        one.replace(kind=one.KEYWORD_ONLY, annotation=hints[one.name])
        for one in inspect.signature(run).parameters.values()
        if one.kind is not one.VAR_KEYWORD
    ]
    after = 1 + [one.name for one in known].index("set_")
    together = [*known[:after], *options.parameters(), *known[after:]]
    run.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in together} | {"return": None}


_take_keys()


def _scenarios(given: list[str] | None) -> list[Any] | None:
    """Each as YAML: a text names a class of the user's own, a mapping has settings too."""
    import yaml

    if not given:
        return None
    try:
        return [text if is_own(text) and not text.startswith("{") else yaml.safe_load(text) for text in given]
    except yaml.YAMLError:
        raise TemporaError(
            f"--scenario {' '.join(given)}: write module:Class, or {{protocol: discrete, interval_ms: 60}}"
        ) from None


def _folder(config: Path | None, configuration: RunConfig) -> Path:
    """The folder that is given, or runs/NAME."""
    from tempora_tta.engine import suites
    from tempora_tta.engine.load_config import is_run

    if config is None:
        return Path("runs") / f"{configuration.model}-{configuration.data.dataset}".replace(":", ".")
    if is_run(config):
        return config
    return Path("runs") / (config.as_posix() if config.as_posix() in suites.names() else config.stem)


def _folders(folder: Path, configurations: list[RunConfig]) -> list[tuple[Path, RunConfig]]:
    """The folder of each configuration: of several batch sizes, one for each inside."""
    from tempora_tta.store import OF_SIZE, RunFolder, of_sizes

    if len(configurations) == 1 and not of_sizes(folder):
        return [(folder, configurations[0])]
    if RunFolder(folder).has_manifest():
        raise TemporaError(
            f"{folder} holds a run at one batch size: take another folder (--out) for several, or one size"
        )
    return [(folder / f"{OF_SIZE}{one.batch_size}", one) for one in configurations]


def _write_template(path: Path) -> None:
    from tempora_tta.config import template

    if path.exists():
        raise TemporaError(f"{path} is there already: name another file, or delete it")
    path.write_text(template(), encoding="utf-8")
    say(f"wrote {path}; edit it, then: tempora run {path}")
