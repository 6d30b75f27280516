"""`tempora show`: what a run found, on the terminal or ready to paste."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
            (f"--format {format}", format != "terminal"),
            ("--scenario", scenario is not None),
        ):
            if asked:
                raise TemporaError(f"{option} is about one table: say which with --table")
        from tempora_tta.store import open_run

        show_overview(open_run(run), console, shift)
        return
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
        _say_timing(results, console)
    else:
        say(tables.render(built, format))


def show_overview(results: Results, console: Console, shift: str | None = None) -> None:
    """The verdict and the machine, the headline, who wins where, and the whole sweep; on one shift, if given."""
    from rich.text import Text

    from tempora_tta.analysis import guidance, headline
    from tempora_tta.analysis.doubt import doubt
    from tempora_tta.analysis.of_run import cells_of
    from tempora_tta.errors import TemporaError, unknown
    from tempora_tta.report import tables

    # A damaged table ends it here; below, a table that cannot be built does not.
    utilities = results.utilities
    if shift is not None:
        if shift not in results.manifest["shifts"]:
            raise unknown("shift", shift, results.manifest["shifts"])
        utilities = utilities[utilities["shift"] == shift]
    console.print(describe(results.manifest), markup=False)
    console.print()
    cards, found = results.cards, doubt(results)
    cells = cells_of(results)
    if shift is not None:
        cells = cells[cells["shift"] == shift]
    answer = guidance(cells, found, cards)
    if answer is not None:
        console.print(Text(answer.sentence(cards), style="bold"))
        console.print()
    for name in OVERVIEW if len(results.scenarios) > 1 else (results.scenarios[0].protocol,):
        try:
            table = tables.build(name, utilities, cards=cards, doubt=found)
            console.print(tables.renderable(table, console.width))
        except TemporaError as missing:
            console.print(str(missing), markup=False)
        console.print()
    _say_settings(results, console)
    with suppress(TemporaError):  # a run of one protocol has nothing to set beside it
        console.print(headline(cells, cards).sentence(cards))
        console.print()
    _say_timing(results, console)
    say_how_sure(results, console, shift)


def _say_settings(results: Results, console: Console) -> None:
    """What settings that were tuned mean for the numbers, and what oracles among them give."""
    from rich.text import Text

    from tempora_tta.analysis.tuning import ceilings, recipe_notes

    notes, above = recipe_notes(results.manifest), ceilings(results)
    for note in notes:
        console.print(Text(note, style="yellow"))
    if notes:
        console.print()
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


def describe(manifest: Mapping[str, Any]) -> str:
    """One paragraph: what was run, where, with which lambda."""
    from tempora_tta.analysis.cells import shift_words
    from tempora_tta.analysis.circumstances import machine_name
    from tempora_tta.errors import counted

    where = machine_name(manifest)
    ways = {"measured": "measured on", "steady": "profiled on"}
    timing = f"{ways.get(str(manifest['clock']).partition(':')[0], 'times from the')} {where}"
    name = manifest.get("suite") or manifest["model"]
    batches = sorted(set(manifest["batches"].values()))
    sizes = counted(batches[-1], "batch") if len(batches) == 1 else f"{batches[0]} to {batches[-1]} batches"
    what = f"{counted(len(manifest['methods']), 'method')} on {shift_words(manifest['shifts'])}"
    return (
        f"{name}: {what} of {sizes} of {manifest['batch_size']}; "
        f"λ = {manifest['baseline']['baseline_ms']:.2f} ms, {timing}"
        + ("" if manifest["finished"] else "; NOT FINISHED: the same command goes on")
    )


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
    console.print(f"Cell by cell: {sentence[:1].lower()}{sentence[1:]}", markup=False)
    command = remedy(summary, results.manifest)
    if command:
        console.print(f"More of them are decided by: {command}", markup=False, soft_wrap=True)
    elif summary.cells:
        console.print(
            f"For your own deployment: tempora recommend {results.opened_from} --fps 30",
            markup=False,
            soft_wrap=True,
        )


def _say_timing(results: Results, console: Console) -> None:
    """Print the notes on the run, and the verdict on the times behind everything that is shown."""
    from rich.text import Text

    from tempora_tta.analysis.notes import notes
    from tempora_tta.store.made_with import other_work
    from tempora_tta.store.verdicts import verdict_of

    manifest = results.manifest
    if note := other_work(manifest.get("profile"), manifest["model"], manifest["batch_size"]):
        console.print(Text(note, style="yellow"))
    for sentence in notes(results):
        console.print(Text(sentence, style="yellow"))
    verdict = verdict_of(results.manifest)
    styles = {"VALID": "green", "WARN": "yellow", "INVALID": "bold red", "UNKNOWN": "dim"}
    console.print(Text(verdict.text, style=styles[verdict.status]))
