"""`tempora recommend`: the method to use in one deployment, in the user's units."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tempora_tta.cli import options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import plain_table, say
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from rich.console import Console

    from tempora_tta.analysis.answer import Answer

Number = float | None


def recommend(
    run: Annotated[Path, options.RUN],
    fps: Annotated[
        Number, typer.Option(help="Frames per second of each camera; frames are then counted.")
    ] = None,
    cameras: Annotated[int, typer.Option(help="How many cameras share the machine (with --fps).")] = 1,
    answer: Annotated[
        Literal["batch", "at_once"],
        typer.Option(help="With --fps: in batches, or each frame as it comes, learning apart."),
    ] = "batch",
    rate_hz: Annotated[
        Number, typer.Option(help="Images per second on average, at random (Poisson).")
    ] = None,
    interval_ms: Annotated[Number, typer.Option(help="Milliseconds between batches.")] = None,
    within_ms: Annotated[Number, typer.Option(help="An answer is worth nothing after this time.")] = None,
    patience_ms: Annotated[Number, typer.Option(help="An answer that takes this long is worth half.")] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Computing that adapting may add: seconds (0.5) or a share of plain computing (50%)."
        ),
    ] = None,
    queue: Annotated[
        int | None, typer.Option(help="Batches that may wait, with a pace. Default 1; 16 with --rate-hz.")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="Or one of the run's own scenarios, by its label, or module:Class.")
    ] = None,
    shifts: Annotated[str | None, typer.Option(help="Only these shifts, with commas between them.")] = None,
    p99_ms: Annotated[
        Number,
        typer.Option(
            help="Only methods that answer 99 % within this time. No pace: the highest rate of each."
        ),
    ] = None,
    p95_ms: Annotated[Number, typer.Option(help="The same for 95 %.")] = None,
    p90_ms: Annotated[Number, typer.Option(help="The same for 90 %.")] = None,
    availability: Annotated[
        Number, typer.Option(help="Only methods that answer at least this share (0.99).")
    ] = None,
    budget_j: Annotated[Number, typer.Option(help="Only methods whose adapting takes at most this.")] = None,
    memory_mb: Annotated[Number, typer.Option(help="Only methods that hold at most this much.")] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Add what decided, and which methods are not ranked.")
    ] = False,
    format_: Annotated[
        Literal["terminal", "json"], typer.Option("--format", help="Of the answer.")
    ] = "terminal",
) -> None:
    """Name the method for these images, answers and costs: exactly, or with the command that would tell."""
    from tempora_tta.analysis.question import Question
    from tempora_tta.results import open_run

    results = open_run(run)
    try:
        question = Question(
            fps=fps,
            cameras=cameras,
            answer=answer,
            rate_hz=rate_hz,
            interval_ms=interval_ms,
            deadline_ms=within_ms,
            threshold_ms=patience_ms,
            **_budget(budget),
            queue=queue,
            scenario=scenario,
            shifts=tuple(name.strip() for name in (shifts or "").split(",") if name.strip()),
            p99_ms=p99_ms,
            p95_ms=p95_ms,
            p90_ms=p90_ms,
            availability=availability,
            budget_j=budget_j,
            memory_mb=memory_mb,
        )
        found = results.answer(question)
    except TemporaError as error:
        raise TemporaError(_in_options(str(error))) from None
    if format_ == "json":
        say(json.dumps(found.to_json() | {"why": found.why}, ensure_ascii=False, allow_nan=False))
    else:
        show_answer(new_console(), found, why)


def _budget(text: str | None) -> dict[str, Any]:
    """Read seconds, or a share of plain computing time.

    >>> _budget("0.5"), _budget("50%")
    ({'budget_s': 0.5}, {'budget_x': 0.5})
    """

    if text is None:
        return {}
    try:
        if text.endswith("%"):
            return {"budget_x": float(text.removesuffix("%")) / 100}
        return {"budget_s": float(text)}
    except ValueError:
        raise TemporaError(
            f"--budget {text}: write seconds, as 0.5, or a share of plain computing time, as 50%"
        ) from None


_OPTIONS = {
    "deadline_ms": "--within-ms",
    "threshold_ms": "--patience-ms",
    "budget_s": "--budget",
    "budget_x": "--budget",
}
"""Knobs whose option has another name."""


def _in_options(message: str) -> str:
    """Write the knobs of a question in an error as the options that they are."""
    from dataclasses import fields

    from tempora_tta.analysis.question import Question

    names = {
        field.name: _OPTIONS.get(field.name, f"--{field.name.replace('_', '-')}")
        for field in fields(Question)
    }
    message = re.sub(rf"\b({'|'.join(names)})=", lambda found: f"{names[found[1]]} ", message)
    # The other knobs are ordinary words, too.
    alone = "|".join(name for name in names if "_" in name or name in ("fps", "cameras", "queue"))
    return re.sub(rf"(?<![-\w{{])({alone})\b(?![:-])", lambda found: names[found[1]], message)


def show_answer(console: Console, found: Answer, why: bool = False) -> None:
    """Print an answer: the verdict and what it rests on, then every method."""
    from rich.text import Text

    from tempora_tta import words

    told = found.to_json()
    first, *others = words.answer(told)
    console.print(Text(first, style="bold"))
    for line in others:
        console.print(line, soft_wrap=line.startswith("To measure it"))
    if told["ranking"]:
        columns = words.columns(told)
        headings = [heading for heading, _ in columns]
        table = plain_table("method", *headings, numbers=headings)
        for place, row in enumerate(told["ranking"]):
            table.add_row(Text(row["label"]), *(texts[place] for _, texts in columns))
        console.print()
        console.print(table)
    if why:
        console.print()
        for line in words.why(told):
            console.print(line)
    elif told["ranking"]:
        console.print()
        console.print(Text("What decided, and which methods are not ranked: --why", style="dim"))
