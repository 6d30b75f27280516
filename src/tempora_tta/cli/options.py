"""Options that commands share: their help, what Tab offers for them, and under which heading they stand.

Where an option is a key of a configuration, the key's sentence is its help. A command says the type and the default,
`model: Annotated[str, options.MODEL] = "fashion_resnet"`; `tempora run` takes all of `KEYS`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from tempora_tta import config, names
from tempora_tta.cli import completion

TableFormat = Literal["terminal", "latex", "markdown", "csv", "json"]
WHAT, HOW, WHERE = "What is evaluated", "How it is timed", "On several machines"
"""Headings of the options."""


def _fields(part: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    return {each.name: each for each in dataclasses.fields(part)}


_RUN, _DATA = _fields(config.RunConfig), _fields(config.DataConfig)


def _key(name: str, panel: str, complete: completion.Complete | None = None, flag: str = "") -> Any:
    """The option of a key: its sentence under a heading."""
    in_data, _, inner = name.partition(".")
    found = _DATA[inner] if inner and in_data == "data" else _RUN[in_data]
    flags = [flag] if flag else []
    return typer.Option(
        *flags, help=found.metadata["description"], autocompletion=complete, rich_help_panel=panel
    )


RUN = typer.Argument(help="A run folder or a pack.")
OUT = typer.Option(help="The run folder. Default: runs/NAME, or the one that is given.")
SET = typer.Option(
    "--set", help="key=value of the configuration (tempora run --init lists all); may be repeated."
)
MODEL = _key("model", WHAT, completion.one_of(names.MODELS))
DATASET = _key("data.dataset", WHAT, completion.one_of(names.DATASETS))
ROOT = _key("data.root", WHAT)
METHODS = _key("methods", WHAT, completion.some_of(("all", *names.METHODS)))
BATCH_SIZE = _key("batch_size", WHAT)
PROFILE_S = _key("profile_s", HOW)
DEVICE = _key("device", HOW)
KEYS: dict[str, Any] = {
    "model": MODEL,
    "data.dataset": DATASET,
    "data.root": ROOT,
    "data.shifts": _key("data.shifts", WHAT, completion.some_of(names.SHIFTS)),
    "data.severity": _key("data.severity", WHAT),
    "stream.kind": _key("stream", WHAT, completion.one_of(names.STREAMS), "--stream"),
    "methods": METHODS,
    "grid": _key("grid", WHAT, completion.one_of(names.GRIDS)),
    "scenarios": _key("scenarios", WHAT, None, "--scenario"),
    "seeds": _key("seeds", WHAT),
    "batches": _key("batches", WHAT),
    "batch_size": BATCH_SIZE,
    "clock": _key("clock", HOW),
    "profile_s": PROFILE_S,
    "device": DEVICE,
    "threads": _key("threads", HOW),
    "runtimes": _key("runtimes", HOW, None, "--runtime"),
}
"""The keys that `tempora run` takes as flags; the others by --set."""
EXECUTOR = typer.Option(
    help="local, or ray: on the devices of a cluster.",
    rich_help_panel=WHERE,
)
ADDRESS = typer.Option(
    help="Of the Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT.", rich_help_panel=WHERE
)
REPLACE = typer.Option(
    "--replace", help="Go on even where results of an earlier run leave the folder's table."
)
DRY_RUN = typer.Option("--dry-run", help="Print the plan and an estimate, run nothing.")
INIT = typer.Option("--init", help="Write a commented configuration and stop.")
LOG = typer.Option(
    help="Also tell mlflow, wandb or module:Class about the results; may be repeated.",
)
QUIET = typer.Option("--quiet", help="Say nothing unless something fails.")
PLAIN = typer.Option("--plain", help="Lines for a log instead of a live display.")


def parameters() -> Iterator[inspect.Parameter]:
    """The options of `KEYS` as parameters of a command, each None unless given."""
    hints = {
        **get_type_hints(config.RunConfig, include_extras=False),
        **{f"data.{name}": hint for name, hint in get_type_hints(config.DataConfig).items()},
    }
    for name, option in KEYS.items():
        kind = {"scenarios": list[str], "batch_size": str}.get(name) or _on_the_command_line(
            hints.get(name, str)
        )
        yield inspect.Parameter(
            parameter_name(name),
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind | None, option],
        )


def parameter_name(key: str) -> str:
    """The key's parameter: `data.dataset` is --dataset."""
    return key.removeprefix("data.").removesuffix(".kind")


def _on_the_command_line(hint: Any) -> Any:
    """A number or a path as it is, a list as a text with commas."""
    kinds = (
        [part for part in get_args(hint) if part is not type(None)] if get_origin(hint) is not list else []
    )
    kind = kinds[0] if len(kinds) == 1 else hint
    return kind if kind in (int, float, Path) else str
