"""`tempora recommend`: the method to use in one deployment."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempora_tta._numbers import percent
from tempora_tta.cli import options
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import plain_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tempora_tta.analysis.advice import Advice
    from tempora_tta.scenarios import Scenario
    from tempora_tta.store import Results


def recommend(
    run: Annotated[Path, options.RUN],
    interval_ms: Annotated[float | None, typer.Option(help="A batch arrives every so many ms.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frames per second of each camera.")] = None,
    cameras: Annotated[int, typer.Option(help="How many cameras share the pipeline (with --fps).")] = 1,
    threshold_ms: Annotated[
        float | None, typer.Option(help="An answer is worth half when it takes this long.")
    ] = None,
    budget_s: Annotated[float | None, typer.Option(help="Seconds of overhead that may be spent.")] = None,
    shift: Annotated[list[str] | None, typer.Option(help="Only this shift; may be repeated.")] = None,
    rate_hz: Annotated[
        float | None, typer.Option(help="So many batches per second on average, at random (Poisson).")
    ] = None,
    queue: Annotated[
        int | None,
        typer.Option(help="Batches that may wait where they come at a pace. Default 1; 16 with --rate-hz."),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="Or one of the run's own scenarios, by its label, or module:Class.")
    ] = None,
    p99_ms: Annotated[
        float | None,
        typer.Option(
            help="Only methods that answer 99 % of all batches within so many ms. Without a pace: Poisson arrivals "
            "at half of what standard inference could take."
        ),
    ] = None,
    p95_ms: Annotated[float | None, typer.Option(help="The same for 95 %.")] = None,
    p90_ms: Annotated[float | None, typer.Option(help="The same for 90 %.")] = None,
    availability: Annotated[
        float | None, typer.Option(help="Only methods that answer at least this fraction of the batches.")
    ] = None,
    budget_j: Annotated[
        float | None,
        typer.Option(help="Only methods whose overhead over a stream takes at most so many joules."),
    ] = None,
    memory_mb: Annotated[
        float | None, typer.Option(help="Only methods that hold at most so many megabytes on the device.")
    ] = None,
) -> None:
    """Which method to use at this pace, patience or budget: exactly, or with the command that would tell."""
    from tempora_tta.analysis.asked import Asked
    from tempora_tta.analysis.recommend import NoExactAnswer
    from tempora_tta.analysis.recommend import recommend as find
    from tempora_tta.analysis.requirements import Requirements
    from tempora_tta.analysis.tails import with_variation
    from tempora_tta.errors import TemporaError
    from tempora_tta.store import open_run

    required = Requirements(
        p90_ms=p90_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        availability=availability,
        budget_j=budget_j,
        memory_mb=memory_mb,
    )
    results = open_run(run)
    asked = Asked(
        interval_ms=interval_ms,
        fps=fps,
        rate_hz=rate_hz,
        threshold_ms=threshold_ms,
        budget_s=budget_s,
        scenario=scenario,
        cameras=cameras,
        queue=queue,
    ).of(results, required, spell=_as_option)
    if required.limits_ms:
        asked = with_variation(results, asked)
    try:
        found = find(results, asked, shift or None, required)
    except NoExactAnswer as error:
        raise TemporaError(f"{error}. {_how_to_measure(results, asked)}") from None
    _show(new_console(), results, found, shift)


def _as_option(knob: str) -> str:
    return f"--{knob.replace('_', '-')}"


def _show(console: Console, results: Results, found: Advice, shifts: list[str] | None) -> None:
    from rich.padding import Padding
    from rich.text import Text

    label = results.cards.label
    console.print(Text(_deployment(results, found, shifts), style="dim"))
    console.print()
    answer, *others = found.lines
    console.print(Text(answer, style="bold"))
    for line in others:
        console.print(line, markup=False)
    console.print()
    console.print(_table(results, found))
    console.print()
    console.print(Text(f"needed: the accuracy with which it would match {label(found.method)}", style="dim"))
    if found.unanswered:
        console.print()
        console.print(Text("No exact answer, and none is made up:", style="yellow"))
        for reason, methods_named in _by_reason(found.unanswered, label).items():
            console.print(Padding(Text(f"{', '.join(methods_named)}: {reason}"), (0, 0, 0, 2)))
        for method, near in found.neighbours.items():
            console.print(Padding(Text(f"{label(method)} nearby: {near.sentence()}"), (0, 0, 0, 2)))
        console.print(_how_to_measure(results, found.scenario, found.failed), markup=False, soft_wrap=True)
    if found.failed:
        console.print()
        console.print(Text("Failed in this run, so not proposed:", style="yellow"))
        for reason, methods_named in _by_reason(found.failed, label).items():
            console.print(Padding(Text(f"{', '.join(methods_named)}: {reason}"), (0, 0, 0, 2)))


def _deployment(results: Results, found: Advice, shifts: list[str] | None) -> str:
    from tempora_tta.cards import OURS

    baseline_ms = float(found.table["baseline_ms"].iloc[0])
    where = ", ".join(shifts) if shifts else "all shifts"
    text = _one_limit(found.scenario, results.manifest["batch_size"], baseline_ms)
    if text is None or found.scenario.protocol not in OURS:  # one of the user's own speaks for itself
        text = f"{found.scenario.full_card().situation}: {found.scenario.label}"
    return f"{text}; λ {baseline_ms:.1f} ms; {where}"


def _one_limit(scenario: Scenario, batch_size: int, baseline_ms: float) -> str | None:
    """A deployment that one number decides, in words."""
    deployment = scenario.deployment()
    limits = (deployment.interval_ms, deployment.threshold_ms, deployment.budget_ms)
    if sum(limit is not None for limit in limits) != 1:
        return None
    if deployment.interval_ms is not None:
        load = baseline_ms / deployment.interval_ms
        return (
            f"A batch of {batch_size} every {deployment.interval_ms:g} ms (utilisation "
            f"{percent(load, 0 if load > 0.01 else 1)}), {deployment.queue} may wait"
        )
    if deployment.threshold_ms is not None:
        return f"Answers are worth half after {deployment.threshold_ms:g} ms"
    return f"{scenario.label} of overhead, rule {deployment.rule}"


def _table(results: Results, found: Advice) -> Table:
    from rich.text import Text

    card, label = found.scenario.full_card(), results.cards.label
    terms = sorted(card.terms, key=lambda term: term != card.factor)  # what the pressure acts on comes first
    parts = {term: _HEADINGS[term] for term in terms if term in _HEADINGS}
    tails = {f"response_p{percent}_ms": f"p{percent} ms" for percent in found.required.limits_ms}
    taken = {name: text for name, text in _TAKEN.items() if found.table[name].notna().any()}
    measured = ("utility %", *parts.values(), *tails.values(), *taken.values(), "needed %")
    table = plain_table("method", *measured, "answer", numbers=measured)
    for _, row in found.table.iterrows():
        numbers = [_percent(row["utility"]), *(_percent(row[name]) for name in parts)]
        numbers += [f"{row[name]:.1f}" for name in tails]
        numbers += ["–" if row[name] != row[name] else f"{row[name]:,.1f}" for name in taken]
        needed = "never" if row["insolvent"] else _percent(row["break_even_accuracy"])
        style = "red" if row["insolvent"] else None
        table.add_row(Text(label(row["method"])), *numbers, needed, row["answer"], style=style)
    return table


_TAKEN = {"overhead_j": "extra J", "memory_mb": "memory MB"}
"""Per stream; shown where they are known. What Standard takes is in the energy of all: the rest tells them apart."""
_HEADINGS = {
    "availability": "available %",
    "served_accuracy": "right %",
    "accuracy": "right %",
    "responsiveness": "responsive %",
    "adapted_fraction": "adapted %",
    "adapt_accuracy": "right %",
    "frozen_accuracy": "frozen %",
}
"""Those terms of a card that are fractions."""


def _percent(value: float) -> str:
    return "–" if value != value else f"{100 * value:.1f}"


def _by_reason(unanswered: Mapping[str, str], label: Callable[[str], str]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for method, reason in unanswered.items():
        reasons.setdefault(reason, []).append(label(method))
    return reasons


def _how_to_measure(results: Results, scenario: Scenario, failed: Mapping[str, str] | None = None) -> str:
    """The command that would tell: the run's own configuration with one more scenario, into its own folder."""
    from tempora_tta.scenarios import to_spec

    spec = to_spec(scenario)
    config = results.manifest.get("config")
    if config is None:
        knobs = ", ".join(f"{name}={value!r}" for name, value in spec.items() if name != "protocol")
        call = f"{type(scenario).__name__}({knobs})"
        return f"To measure it, call tempora.evaluate again with {call} among its scenarios."
    wanted = _without(config, results.manifest["methods"], failed or {})
    if results.is_packed:
        folder = results.opened_from.with_suffix("")
        unpacking = shlex.join(["python", "-m", "zipfile", "-e", str(results.opened_from), str(folder)])
        return f"To measure it:\n{unpacking}\n{measuring_command(wanted, spec, folder)}"
    command = measuring_command(wanted, spec, results.path)
    return f"To measure it (what is there stays):\n{command}"


def _without(
    config: Mapping[str, Any], methods: Sequence[str], failed: Mapping[str, str]
) -> Mapping[str, Any]:
    """The configuration without the methods that failed, whether it names them or says `all`."""
    if not failed:
        return config
    named = list(config.get("methods") or [])
    if any(isinstance(one, str) and one not in methods for one in named):
        named = list(methods)
    return {**config, "methods": [one for one in named if one not in failed]}


def measuring_command(config: Mapping[str, Any], spec: Mapping[str, Any], folder: Path) -> str:
    """A `tempora run` of `config` with the scenario `spec` added to its own."""
    from tempora_tta.config import RunConfig

    defaults = RunConfig().plain()
    words = ["tempora", "run"]
    for key, value in _changed({**config, "scenarios": [*config.get("scenarios", []), dict(spec)]}, defaults):
        flag = _FLAGS.get(key)
        if flag is None or isinstance(value, bool) or _nested(value):
            words += ["--set", f"{key}={_yaml(value)}"]
        else:
            words += [flag, ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return shlex.join([*words, "--out", str(folder)])


_FLAGS = {
    "data.dataset": "--dataset",
    "data.root": "--root",
    "data.shifts": "--shifts",
    **{
        name: f"--{name}"
        for name in ("model", "methods", "grid", "seeds", "batches", "clock", "device", "threads")
    },
    "batch_size": "--batch-size",
}


def _changed(
    config: Mapping[str, Any], defaults: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        default = defaults.get(name)
        if isinstance(value, dict) and isinstance(default, dict):
            yield from _changed(value, default, f"{above}{name}.")
        elif value != default:
            yield f"{above}{name}", value


def _nested(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(entry, (dict, list)) for entry in value)


def _yaml(value: Any) -> str:
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return str(text).removesuffix("...\n").strip()
