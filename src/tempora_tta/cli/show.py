"""`tempora show`: what a run found, on the terminal or ready to paste."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempora_tta import names
from tempora_tta.cli import completion, options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import say
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from rich.console import Console

    from tempora_tta.report.tables import Table
    from tempora_tta.store import Results

OVERVIEW = ("winners", "sweep")
"""The tables that answer the first questions: who wins where, and by how much."""


def show(
    run: Annotated[
        list[Path] | None, typer.Argument(help="Run folders or packs; of several, tables get a column `run`.")
    ] = None,
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
    against: Annotated[
        str | None, typer.Option(help="solvency: compare with this method; default best, that of each cell.")
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="Only methods of this family: gradient-free or gradient-based.")
    ] = None,
    published: Annotated[
        str | None, typer.Option(help="Instead of a run, the numbers that the paper prints of this setup.")
    ] = None,
    format: Annotated[options.TableFormat, typer.Option(help="Of the table.")] = "terminal",
) -> None:
    """Show best and next in each setting, how sure that is, and every table of the paper, of one run or several."""
    from tempora_tta.results import open_runs

    console = new_console()
    if published is not None:
        _show_published(run, published, table, format, console)
        return
    if not run:
        raise TemporaError("say which run: a folder or a pack; or --published SETUP for the paper's numbers")
    if table is None:
        _refuse_for_overview(format, scenario, by_shift)
        runs = open_runs(run)
        if format == "json":
            from tempora_tta.analysis.answer import overview

            say(_json({name: overview(results, shift) for name, results in runs.items()}))
            return
        for results in _headed(runs, console):
            show_overview(results, console, shift)
        return
    runs = open_runs(run)
    built = {
        name: _of_several(runs, name, table, shift, scenario, by_shift, against, family) for name in runs
    }
    if format != "terminal":
        say(_rendered(built, format))
        return
    for results, made in zip(_headed(runs, console), built.values(), strict=True):
        _show_table(results, table, made, console, shift)


def _headed(runs: Mapping[str, Results], console: Console) -> Iterator[Results]:
    """Yield the runs; of several, each below its name."""
    for name, results in runs.items():
        if len(runs) > 1:
            console.rule(name, align="left")
        yield results


def _show_published(
    runs: list[Path] | None, setup: str, table: str | None, format: str, console: Console
) -> None:
    """Print a table of the paper's own numbers."""
    from tempora_tta.report import tables

    if runs or table is None:
        raise TemporaError("--published shows one table of the paper: give --table, and no run")
    print_table(tables.build_published(table, setup), format, console)


def print_table(table: Table, format: str, console: Console) -> None:
    """Print a table for people, or ready to paste."""
    from tempora_tta.report import tables

    if format == "terminal":
        console.print(tables.renderable(table, console.width))
    else:
        say(tables.render(table, format))


def _refuse_for_overview(format: str, scenario: str | None, by_shift: bool) -> None:
    from tempora_tta.report.tables import BY_SHIFT

    if by_shift:
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


def _json(told: Mapping[str, Any]) -> str:
    """Write what is known of several runs by name, of one without its name."""
    return json.dumps(
        told if len(told) > 1 else next(iter(told.values())), ensure_ascii=False, allow_nan=False
    )


def _of_several(runs: Mapping[str, Results], name: str, *asked: Any) -> Table:
    """Build a table of one of several runs; an error says of which."""

    try:
        return _built(runs[name], *asked)
    except TemporaError as error:
        raise error if len(runs) == 1 else TemporaError(f"{name}: {error}") from None


def _built(
    results: Results,
    table: str,
    shift: str | None,
    scenario: str | None = None,
    by_shift: bool = False,
    against: str | None = None,
    family: str | None = None,
) -> Table:
    from tempora_tta.analysis.of_run import cells_of
    from tempora_tta.report import tables
    from tempora_tta.report.frames import offline_batches

    about_times = table == "overhead"
    return tables.build(
        table,
        results.utilities,
        offline_batches(results) if about_times else None,
        shift=shift,
        scenario=scenario,
        by_shift=by_shift,
        against=None if against == "best" else against,
        family=family,
        cards=results.cards,
        certainty=None if about_times else cells_of(results),
        segments=results.segments if table in ("segments", "stream") else None,
    )


def _show_table(results: Results, name: str, table: Table, console: Console, shift: str | None) -> None:
    from tempora_tta import words
    from tempora_tta.analysis.answer import about_run
    from tempora_tta.analysis.notes import notes
    from tempora_tta.analysis.stream import stream_story
    from tempora_tta.report import tables

    console.print(tables.renderable(table, console.width))
    console.print()
    if name in ("segments", "stream"):
        _print_lines([*stream_story(results), ""], console)
    if name != "overhead":
        say_how_sure(results, console, shift)
    _print_lines([*notes(results), words.timing(about_run(results))], console)


def _rendered(built: Mapping[str, Table], format: str) -> str:
    """Render the same table of one run, or of several with a column `run` where it is to be processed."""
    from tempora_tta.report import tables

    if len(built) == 1 or format in ("latex", "markdown"):
        return "\n".join(tables.render(table, format) for table in built.values())
    if format == "json":
        return _json({name: json.loads(tables.render(table, format)) for name, table in built.items()})
    from tempora_tta.analysis import stack
    from tempora_tta.report.formats import frame_to_csv

    return frame_to_csv(stack({name: table.data for name, table in built.items()}))


def show_first(results: Results, console: Console) -> None:
    """Print what a run says first: the list of settings, what it comes down to, and what to ask next."""
    from tempora_tta import words
    from tempora_tta.analysis.answer import overview
    from tempora_tta.analysis.notes import notes

    _print_lines(words.first_screen(overview(results), notes(results)), console, heading=True)


def show_overview(results: Results, console: Console, shift: str | None = None) -> None:
    """Print the list of settings, where one method is enough, who wins where, and the whole sweep; on one shift, if
    given."""
    from tempora_tta import words
    from tempora_tta.analysis.answer import overview
    from tempora_tta.analysis.notes import notes
    from tempora_tta.report import tables

    told = overview(results, shift)
    _print_lines(words.first_screen(told, notes(results), commands=False), console, heading=True)
    if told["stretches"]:
        console.print()
        _print_lines(["First, level or undecided, from strict to relaxed:", *words.stretches(told)], console)
    console.print()
    shown = OVERVIEW if len(results.scenarios) > 1 else (results.scenarios[0].protocol,)
    for name in shown if results.ceilings.empty else (*shown, "settings"):
        try:
            console.print(tables.renderable(_built(results, name, shift), console.width))
        except TemporaError as missing:
            console.print(str(missing), markup=False)
        console.print()
    say_how_sure(results, console, shift)


def _print_lines(lines: Sequence[str], console: Console, heading: bool = False) -> None:
    for place, line in enumerate(lines):
        console.print(line, soft_wrap=True, style="bold" if heading and not place else None)


def say_how_sure(results: Results, console: Console, shift: str | None = None) -> None:
    """Print how many winners are sure, and one command: it decides more of them, or asks the next question."""
    from tempora_tta import words
    from tempora_tta.analysis.of_run import remedy, summary_of

    summary = summary_of(results, shift)
    if not summary.cells and results.folder.packed_without_traces:
        console.print("How sure the winners are cannot be told without traces, which this pack leaves out.")
        return
    console.print(f"By shift: {words.sureness(vars(summary))}", markup=False)
    command = remedy(summary, results)
    if command:
        console.print(f"To settle more of them: {command}", markup=False, soft_wrap=True)
    elif summary.cells:
        ask = ["tempora", "recommend", str(results.opened_from), *words.ASK_NEXT]
        console.print(f"Ask next: {shlex.join(ask)}", markup=False, soft_wrap=True)
