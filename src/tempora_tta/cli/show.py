"""`tempora show`: what a run found, on the terminal or ready to paste."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tempora_tta import names
from tempora_tta.cli import completion, options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import plain_table, say

if TYPE_CHECKING:
    from rich.console import Console

    from tempora_tta.store import Results

OVERVIEW = ("winners", "sweep")
"""The tables that answer the first questions: who wins where, and by how much."""


def show(
    run: Annotated[Path, options.RUN],
    table: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(names.TABLES[:-1])} or {names.TABLES[-1]}; or any other protocol of the run. "
            "Default: the overview.",
            autocompletion=completion.one_of(names.TABLES),
        ),
    ] = None,
    shift: Annotated[str | None, typer.Option(help="Only this shift.")] = None,
    by_shift: Annotated[
        bool, typer.Option("--by-shift", help="A row per shift instead of the mean.")
    ] = False,
    scenario: Annotated[
        str | None, typer.Option(help="The one a table explains; default the strictest.")
    ] = None,
    format: Annotated[options.TableFormat, typer.Option(help="Of the table.")] = "terminal",
) -> None:
    """Who wins where, how sure that is, and every table of the paper for this run."""
    from tempora_tta.errors import TemporaError

    console = new_console()
    if table is None:
        if by_shift:
            from tempora_tta.report.tables import BY_SHIFT

            raise TemporaError(
                "--by-shift: the overview has no rows by shift: use --shift NAME, or --table with one of "
                f"{', '.join(BY_SHIFT)}"
            )
        for option, asked in (
            (f"--format {format}", format not in ("terminal", "json")),
            ("--scenario", scenario is not None),
        ):
            if asked:
                raise TemporaError(f"{option} is about one table: say which with --table")
        from tempora_tta.store import open_run

        if format == "json":
            from tempora_tta.analysis.answer import overview
            from tempora_tta.analysis.cells import ALL

            say(json.dumps(overview(open_run(run), shift or ALL), ensure_ascii=False, allow_nan=False))
        else:
            show_overview(open_run(run), console, shift)
        return
    from tempora_tta import words
    from tempora_tta.analysis.answer import about_run
    from tempora_tta.analysis.doubt import doubt
    from tempora_tta.report import tables
    from tempora_tta.report.frames import offline_batches
    from tempora_tta.report.stream_story import stream_story
    from tempora_tta.store import open_run

    results = open_run(run)
    about_times = table == "overhead"
    traces = offline_batches(results) if about_times else None
    built = tables.build(
        table,
        results.utilities,
        traces,
        shift=shift,
        scenario=scenario,
        by_shift=by_shift,
        cards=results.cards,
        doubt=None if about_times else doubt(results),
        segments=results.segments if table in ("segments", "stream") else None,
    )
    if format == "terminal":
        console.print(tables.renderable(built, console.width))
        console.print()
        if table in ("segments", "stream"):
            for sentence in stream_story(results):
                console.print(sentence, markup=False)
            console.print()
        if not about_times:
            say_how_sure(results, console, shift)
        _print_lines([*_notes(results), words.timing(about_run(results))], console)
    else:
        say(tables.render(built, format))


def show_first(results: Results, console: Console) -> None:
    """Print what a run says first: the list of settings, what it comes down to, and what to ask next."""
    from tempora_tta import words
    from tempora_tta.analysis.answer import overview

    _print_lines(words.first_screen(overview(results), _notes(results)), console)


def show_overview(results: Results, console: Console, shift: str | None = None) -> None:
    """Print the list of settings, where one method is enough, who wins where, and the whole sweep; on one shift, if
    given."""
    from tempora_tta import words
    from tempora_tta.analysis.answer import overview
    from tempora_tta.analysis.cells import ALL
    from tempora_tta.analysis.doubt import doubt
    from tempora_tta.errors import TemporaError, unknown
    from tempora_tta.report import tables

    # A damaged table ends it here; below, a table that cannot be built does not.
    utilities = results.utilities
    if shift is not None:
        if shift not in results.manifest["shifts"]:
            raise unknown("shift", shift, results.manifest["shifts"])
        utilities = utilities[utilities["shift"] == shift]
    told = overview(results, shift or ALL)
    _print_lines(words.first_screen(told, _notes(results), commands=False), console)
    if told["stretches"]:
        console.print()
        _print_lines(["First, level or undecided, from strict to relaxed:", *words.stretches(told)], console)
    console.print()
    for name in OVERVIEW if len(results.scenarios) > 1 else (results.scenarios[0].protocol,):
        try:
            table = tables.build(name, utilities, cards=results.cards, doubt=doubt(results))
            console.print(tables.renderable(table, console.width))
        except TemporaError as missing:
            console.print(str(missing), markup=False)
        console.print()
    _say_settings(results, console)
    say_how_sure(results, console, shift)


def _print_lines(lines: Sequence[str], console: Console) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def _notes(results: Results) -> list[str]:
    """Return what to know before the numbers are read."""
    from tempora_tta.analysis.notes import notes
    from tempora_tta.analysis.tuning import recipe_notes
    from tempora_tta.store.made_with import other_work

    manifest = results.manifest
    other = other_work(manifest.get("profile"), manifest["model"], manifest["batch_size"])
    own = [other] if other else []
    return [f"{note.rstrip('.')}." for note in (*own, *notes(results), *recipe_notes(manifest))]


def _say_settings(results: Results, console: Console) -> None:
    """Print what oracles among the settings that were tuned give."""
    from tempora_tta.analysis.tuning import ceilings

    above = ceilings(results)
    if above:
        label = results.cards.label
        oracles = [f"{label(name)} %" for name in above[0]["oracles"]]
        table = plain_table("scenario", *oracles, "best ranked %", numbers=(*oracles, "best ranked %"))
        for one in above:
            best = "–" if one["utility"] is None else f"{label(one['best'])} {100 * one['utility']:.1f}"
            table.add_row(
                one["label"], *(_percent(one["oracles"].get(name)) for name in above[0]["oracles"]), best
            )
        console.print(table)
        console.print()


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def say_how_sure(results: Results, console: Console, shift: str | None = None) -> None:
    """How many winners hold, and one command to go on with: it decides more of them, or asks the next question."""
    from tempora_tta.analysis.doubt import doubt, remedy, summarised

    if results.folder.packed_without_traces:
        console.print("How sure the winners are cannot be told without traces, which this pack leaves out.")
        return
    found = doubt(results)
    one = found.winners
    summary = found.summary if shift is None else summarised(one[one["shift"] == shift])
    sentence = summary.sentence()
    console.print(f"By shift: {sentence[:1].lower()}{sentence[1:]}", markup=False)
    command = remedy(summary, results.manifest)
    if command:
        console.print(f"More of them are decided by: {command}", markup=False, soft_wrap=True)
    elif summary.cells:
        console.print(
            f"Your numbers: tempora recommend {results.opened_from} --fps 30 --cameras 20 --within-ms 200",
            markup=False,
            soft_wrap=True,
        )
