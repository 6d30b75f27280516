"""Options that commands share: their help, what Tab offers for them, and under which heading they stand.

A command says the type and the default, `model: Annotated[str, options.MODEL] = "fashion_resnet"`.
"""

from __future__ import annotations

from typing import Literal

import typer

from tempora_tta import names
from tempora_tta.cli import completion

TableFormat = Literal["terminal", "latex", "markdown", "csv", "json"]
WHAT, HOW, WHERE = "What is evaluated", "How it is timed", "On several machines"
"""Headings of the options."""

RUN = typer.Argument(help="A run folder or a pack.")
OUT = typer.Option(help="The run folder. Default: runs/NAME.")
SET = typer.Option("--set", help="key=value, over the configuration; may be repeated.")
MODEL = typer.Option(
    help="A name from `tempora list models`, one of timm's, or module:function.",
    autocompletion=completion.one_of(names.MODELS),
    rich_help_panel=WHAT,
)
DATASET = typer.Option(
    help="A name from `tempora list datasets`, or module:function.",
    autocompletion=completion.one_of(names.DATASETS),
    rich_help_panel=WHAT,
)
ROOT = typer.Option(help="Where the dataset lies.", rich_help_panel=WHAT)
SHIFTS = typer.Option(
    help="Corruptions or groups, with commas; or all.",
    autocompletion=completion.some_of(names.SHIFTS),
    rich_help_panel=WHAT,
)
SEVERITY = typer.Option(help="Of the corruptions, 1 to 5.", rich_help_panel=WHAT)
PICTURES = typer.Option(
    "--pictures/--no-pictures",
    help="Keep four small pictures of each shift in the run folder, for its report. Default: if the "
    "dataset's licence lets them be passed on; never of your own images.",
    rich_help_panel=WHAT,
)
STREAM = typer.Option(
    help="single, continual, gradual, recurring, mixed, or module:function.",
    autocompletion=completion.one_of(names.STREAMS),
    rich_help_panel=WHAT,
)
RESET = typer.Option(
    help="never, shift, or every so many batches of the stream.",
    rich_help_panel=WHAT,
)
CLASSES = typer.Option(
    help="shuffled, sorted or dirichlet:0.1, within a segment of the stream.",
    rich_help_panel=WHAT,
)
METHODS = typer.Option(
    help="Names or module:Class, with commas; or all.",
    autocompletion=completion.some_of(("all", *names.METHODS)),
    rich_help_panel=WHAT,
)
RECIPES = typer.Option(help="A file of `tempora tune`, whose settings are used.", rich_help_panel=WHAT)
GRID = typer.Option(
    help="relative, server, camera, ... from `tempora list scenarios`, none, or module:function.",
    autocompletion=completion.one_of(names.GRIDS),
    rich_help_panel=WHAT,
)
SCENARIO = typer.Option(
    help="One more: module:Class, or {protocol: discrete, interval_ms: 60}; may be repeated.",
    rich_help_panel=WHAT,
)
SEEDS = typer.Option(help="Whole numbers, with commas.", rich_help_panel=WHAT)
BATCHES = typer.Option(help="Only the first so many batches of every shift.", rich_help_panel=WHAT)
BATCH_SIZE = typer.Option(help="Samples per batch.", rich_help_panel=WHAT)
CLOCK = typer.Option(
    help="steady (default), measured, a profile's file, or published:rn50_inc.",
    rich_help_panel=HOW,
)
PROFILE_S = typer.Option(help="Seconds that the steady clock's profile may take.", rich_help_panel=HOW)
DEVICE = typer.Option(
    help="auto, cpu, cuda, cuda:N or mps.",
    rich_help_panel=HOW,
)
THREADS = typer.Option(help="CPU threads of torch.", rich_help_panel=HOW)
DETERMINISTIC = typer.Option(help="Repeatable to the bit on CUDA, slower.", rich_help_panel=HOW)
RUNTIME = typer.Option(
    help="eager, tf32, channels_last, amp, compile, or some with +; several with commas.",
    rich_help_panel=HOW,
)
PREDICT_WITH = typer.Option(
    help="tf32, amp or channels_last: faster predictions than those that are timed, where both agree.",
    rich_help_panel=HOW,
)
METHOD_TIMEOUT = typer.Option(
    help="Seconds that one call into a method may take; one that hangs fails, the others go on.",
    rich_help_panel=HOW,
)
SHARE = typer.Option(help="Share passes between scenarios.", rich_help_panel=HOW)
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
