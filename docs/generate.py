"""Writes the pages of the reference that come from the code: `python docs/generate.py`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import typer
import yaml
from typer.models import ArgumentInfo

from tempora_tta import methods, published
from tempora_tta._numbers import percent
from tempora_tta.cli.app import app
from tempora_tta.cli.examples import EXAMPLES, line
from tempora_tta.config import DataConfig, RunConfig, default_of, template
from tempora_tta.report.html.glossary import WORDS
from tempora_tta.scenarios.specs import KINDS
from tempora_tta.store.schema_page import as_markdown
from tempora_tta.timing.verdict import Limits

DOCS = Path(__file__).parent
MADE = "Made by `python docs/generate.py` from the code."


def pages() -> dict[Path, str]:
    """Every generated page and what belongs in it."""
    return {
        DOCS / "schema.md": as_markdown(),
        DOCS / "reference" / "cli.md": cli(),
        DOCS / "reference" / "config.md": config(),
        **filled("published.md", {"setups": setups(), "inconsistencies": inconsistencies()}),
        **filled("concepts/glossary.md", {"words": words()}),
        **filled("concepts/timing-and-verdict.md", {"limits": limits()}),
        **filled("tasks/tune-equally.md", {"tuning": tuning()}),
        **filled("concepts/uncertainty.md", {"coverage": coverage(), "noise": noise()}),
    }


def filled(name: str, parts: dict[str, str]) -> dict[Path, str]:
    """A page written by hand, with what stands between `<!-- generated: PART -->` and `<!-- end -->` replaced."""
    page = (DOCS / name).read_text(encoding="utf-8")
    for part, text in parts.items():
        between = re.compile(rf"(<!-- generated: {part} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, found = between.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if found != 1:
            raise ValueError(f"{name} has {found} places for {part!r}, expected 1")
    return {DOCS / name: page}


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """A table whose first row is its header; nothing for no rows."""
    header, *body = list(rows) or [[]]
    lines = [header, ["---"] * len(header), *body] if header else []
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def shown(value: Any) -> str:
    """A value as YAML writes it."""
    return f"`{yaml.safe_dump(value, default_flow_style=True).replace(chr(10) + '...', '').strip()}`"


# -- the command line ------------------------------------------------------------------------------------------


def cli() -> str:
    text = [
        "# Command line",
        f"{MADE} `tempora COMMAND --help` says the same; `tempora --install-completion` teaches your shell "
        "(bash, zsh, fish) the commands, options, and names of methods, networks and datasets."
        "\n\nExit status: 0 done; 1 a mistake that the message explains, or a check or some cells failed; "
        "2 no such command or option; 130 stopped with Ctrl-C, to be resumed by the same command. Errors and "
        "warnings go to stderr. Without a terminal there is no colour and no progress bar, but a line now and "
        "then; `NO_COLOR=1` turns colours off, `FORCE_COLOR=1` on.",
        *(_command(path, function) for path, function in sorted(_commands("tempora", app))),
    ]
    return "\n\n".join(text) + "\n"


def _commands(path: str, group: typer.Typer) -> Iterator[tuple[str, Callable[..., None]]]:
    """Commands as Typer was told of them, which says the same whatever its version."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield f"{path} {command.name or command.callback.__name__}", command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from _commands(f"{path} {inner.typer_instance.info.name}", inner.typer_instance)


def _command(path: str, function: Callable[..., None]) -> str:
    hints = typing.get_type_hints(function, include_extras=True)
    usage, rows = [path], []
    for param in inspect.signature(function).parameters.values():
        kind, info = typing.get_args(hints[param.name])
        if isinstance(info, ArgumentInfo):
            required = param.default is param.empty
            usage.append(param.name.upper() if required else f"[{param.name.upper()}]")
            rows.append([f"`{usage[-1]}`", _takes(kind), info.help or "", ""])
        else:
            names = _flags(param.name, kind, info)
            rows.append([f"`{'` / `'.join(names)}`", _takes(kind), info.help or "", _default(param.default)])
    if rows:
        usage.append("[OPTIONS]")
        rows = [["", "takes", "meaning", "default"], *rows]
    name = path.removeprefix("tempora ")
    examples = "\n".join(f"{line(name, example)}  # {example.does}" for example in EXAMPLES.get(name, ()))
    block = f"```bash\n{examples}\n```" if examples else ""
    about = inspect.getdoc(function) or ""
    parts = [f"## {path}", f"    {' '.join(usage)}", about, block, markdown_table(rows)]
    return "\n\n".join(part for part in parts if part)


def _flags(name: str, kind: Any, info: Any) -> Sequence[str]:
    given = info.param_decls or ((info.default,) if isinstance(info.default, str) else ())
    flag = name.strip("_").replace("_", "-")
    return given or ([f"--{flag}", f"--no-{flag}"] if _is_switch(kind) else [f"--{flag}"])


def _is_switch(kind: Any) -> bool:
    return kind is bool or bool in typing.get_args(kind)


def _takes(kind: Any) -> str:
    if _is_switch(kind):
        return ""
    return _type(kind).replace("list of ", "repeatable: ")


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    return "" if value is None or isinstance(value, bool) else f"`{value}`"


# -- the configuration -----------------------------------------------------------------------------------------


def config() -> str:
    keys = [[f"`{name}`", *field] for name, field in _keys(RunConfig)]
    data = [[f"`data.{name}`", *field] for name, field in _keys(DataConfig)]
    parts = [
        "# Configuration",
        f"{MADE} A run is described by a YAML file (`tempora run FILE`), by flags, or by both: a flag wins over "
        "`--set key=value`, that over the file, that over the default. Unknown keys are errors that name the line.",
        "## Keys",
        markdown_table([["key", "takes", "default", "meaning"], *keys, *data]),
        "## Scenarios",
        "An entry of `scenarios` is a `protocol` with its knobs, as in `{protocol: discrete, interval_ms: 60}`. "
        "Knobs without a unit are relative to λ; [Scenarios](../concepts/scenarios.md) explains them.",
        markdown_table([["protocol", "knobs and defaults"], *_scenario_rows()]),
        "## Settings of methods",
        "An entry of `methods` is a name or a mapping such as `{name: tent, label: tent@fast, lr: 0.002}`. A label "
        "`name@anything` takes its times from `name` under a recorded clock. A dash: the network decides, and for "
        "`stop_after`, never.",
        _method_settings(),
        "## The template",
        "What `tempora run --init` writes:",
        f"```yaml\n{template()}```",
    ]
    return "\n\n".join(parts) + "\n"


def _keys(part: type[Any]) -> Iterator[tuple[str, list[str]]]:
    """Every key of a configuration: what it takes, its default and its sentence."""
    hints = typing.get_type_hints(part)
    for field in dataclasses.fields(part):
        if field.name == "data":
            continue
        default = default_of(field)
        told = field.metadata["description"]
        yield field.name, [_type(hints[field.name]), "" if default is None else shown(default), told]


def _type(annotation: Any) -> str:
    """A type in words for people who write YAML."""
    words = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path"}
    arguments = [part for part in typing.get_args(annotation) if part is not type(None)]
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{choice.value}`" for choice in annotation)
    if typing.get_origin(annotation) is list:
        return f"list of {_type(arguments[0])}"
    if arguments and typing.get_origin(annotation) is not dict:
        return " or ".join(_type(part) for part in arguments)
    return words.get(annotation, "mapping")


def _scenario_rows() -> Iterator[list[str]]:
    for protocol, kind in KINDS.items():
        knobs = [
            f"`{knob.name}`" + ("" if knob.default is None else f" ({knob.default})")
            for knob in dataclasses.fields(kind)
        ]
        yield [f"`{protocol}`", ", ".join(knobs) or "none"]


def _method_settings() -> str:
    common = {field.name for field in dataclasses.fields(methods.Settings)}
    rows = [["all", *_setting(field, methods.Settings)] for field in dataclasses.fields(methods.Settings)]
    for name in methods.names():
        kind = methods.get(name).Settings
        own = [field for field in dataclasses.fields(kind) if field.name not in common]
        rows += [
            [methods.get(name).label if not number else "", *_setting(field, kind)]
            for number, field in enumerate(own)
        ]
    return markdown_table([["method", "setting", "default", "preset `paper`", "takes"], *rows])


def _setting(field: dataclasses.Field[Any], kind: type[methods.Settings]) -> list[str]:
    default = "–" if field.default is None else shown(field.default)
    paper = shown(kind.paper[field.name]) if field.name in kind.paper else ""
    limits = {"above": "above {:g}", "low": "at least {:g}", "high": "at most {:g}"}
    allowed = [
        text.format(field.metadata[key])
        for key, text in limits.items()
        if field.metadata.get(key) is not None
    ]
    hint = typing.get_type_hints(kind)[field.name]
    return [f"`{field.name}`", default, paper, ", ".join([_type(hint), *allowed])]


# -- the verdict -----------------------------------------------------------------------------------------------


def coverage() -> str:
    """What `benchmarks/interval_coverage.py` found."""
    found = json.loads((DOCS.parent / "benchmarks" / "results" / "coverage.json").read_text(encoding="utf-8"))
    shares = ("interval", "leads", "lower", "wrong")
    lines = [
        "| batches | correlation | times | " + " | ".join(shares) + " |",
        "|---:|---:|---|---:|---:|---:|---:|",
    ]
    for row in found["rows"]:
        numbers = " | ".join(percent(row[name]) for name in shares)
        lines.append(f"| {row['batches']} | {row['correlation']} | {row['times']} | {numbers} |")
    return "\n".join(lines)


def tuning() -> str:
    """What `benchmarks/tuning.py` found, network by network."""
    paths = sorted((DOCS.parent / "benchmarks" / "results").glob("tuning-*.json"))
    if not paths:
        return "It has yet to be run on this version."
    return "\n\n".join(_tuned(json.loads(path.read_text(encoding="utf-8"))) for path in paths)


def _tuned(found: dict[str, Any]) -> str:
    rows, ways = found["rows"], ("default", "mutual_information", "labels")
    standard = next(row for row in rows if row["trials"] == 1)["default"]["tuned_on"]
    ranks = {way: _ranked({row["method"]: row[way]["evaluated"] for row in rows}) for way in ways}
    table = [["method", "trials", *(f"{way.replace('_', ' ')} %" for way in ways), "ranks", "worst trial %"]]
    for row in sorted(rows, key=lambda row: -row["default"]["evaluated"]):
        table.append(
            [
                row["method"],
                str(row["trials"]),
                *(f"{100 * row[way]['evaluated']:.1f}" for way in ways),
                " → ".join(str(ranks[way][row["method"]]) for way in ways),
                f"{100 * row['worst_trial']:.1f}",
            ]
        )
    tuned = [row for row in rows if row["trials"] > 1]
    regrets = [["chosen by", "mean regret, points", "largest", "collapses chosen"]]
    for by in (by for by in ("mutual_information", "confidence", "entropy", "atc") if by in tuned[0]):
        lost = [100 * (row["labels"]["tuned_on"] - row[by]["tuned_on"]) for row in tuned]
        fallen = sum(row[by]["tuned_on"] < standard - found["collapsed_below_standard"] for row in tuned)
        regrets.append([by, f"{sum(lost) / len(lost):.1f}", f"{max(lost):.1f}", f"{fallen} of {len(tuned)}"])
    about = (
        f"**{found['model']}**: tuned on {', '.join(found['tuned_on'])}, evaluated offline on "
        f"{', '.join(found['evaluated_on'])}, {found['batches']} batches of 64 of each; ranks under default, "
        "label-free and oracle settings. The last column is the worst of a method's trials where it was tuned."
    )
    regret = (
        "Regret: accuracy given away to the oracle, where it was tuned, by methods with something to tune."
    )
    moved = _moved(rows, ranks, found["batches"] * 64 * len(found["evaluated_on"]))
    left_out = "; ".join(
        f"{name}, which {_first_words(name, why)}" for name, why in found["left_out"].items()
    )
    parts = (about, markdown_table(table), moved, regret, markdown_table(regrets), f"Left out: {left_out}.")
    return "\n\n".join(parts)


def _first_words(name: str, why: str) -> str:
    """The first sentence of a reason, without the method that it is about."""
    return why.removeprefix(name).lstrip(": ").partition(". ")[0].partition("; ")[0].rstrip(".")


def _moved(rows: list[dict[str, Any]], ranks: dict[str, dict[str, int]], samples: int) -> str:
    """Who changes places with other settings, and whose accuracy changes by more than chance would."""
    chance = 2 * 0.5 / samples**0.5
    default, told = ranks["default"], []
    for way in (way for way in ranks if way != "default"):
        far = {name: abs(rank - default[name]) for name, rank in ranks[way].items()}
        best = ", ".join(name for name, rank in ranks[way].items() if rank == 1)
        gains = {row["method"]: row[way]["evaluated"] - row["default"]["evaluated"] for row in rows}
        sure = ", ".join(f"{name} {100 * gain:+.1f}" for name, gain in gains.items() if abs(gain) > chance)
        told.append(
            f"Chosen by {way.replace('_', ' ')}, {sum(map(bool, far.values()))} of {len(far)} change their rank, by "
            f"up to {max(far.values())} places, and {best} is first; beyond chance: {sure or 'nobody'}."
        )
    first = ", ".join(name for name, rank in default.items() if rank == 1)
    return (
        f"Under defaults {first} is first. Two standard errors of an accuracy of {samples:,} samples are at most "
        f"{100 * chance:.1f} points, so many of these places are chance's. {' '.join(told)}"
    )


def _ranked(values: dict[str, float]) -> dict[str, int]:
    return {name: 1 + sum(other > value for other in values.values()) for name, value in values.items()}


def noise() -> str:
    """What `benchmarks/noise.py` found."""
    path = DOCS.parent / "benchmarks" / "results" / "noise.json"
    if not path.exists():
        return "It has yet to be run on this version."
    found = json.loads(path.read_text(encoding="utf-8"))
    runs = [["run", "beside it", "wall time", "λ ms", "winners", "hold", "equal", "undecided"]]
    for run in found["runs"]:
        counts = (*(run[name] for name in ("cells", "holds", "equal")), run["by_sampling"] + run["by_timing"])
        times = f"{run['wall_s']:.0f} s", f"{run['baseline_ms']:.2f}"
        beside = "nothing" if run["name"] == "alone" else "busy loops"
        runs.append([run["name"], beside, *times, *map(str, counts)])
    pairs = [
        ["runs", "hold in one", "lost in the other", "utilities", "mean", "largest", "beyond the intervals"]
    ]
    for pair in found["pairs"]:
        points = [f"{pair[name]:.1f}" for name in ("mean_points", "largest_points", "largest_beyond_points")]
        counted = (pair["winners_held"], len(pair["winners_lost"]), pair["utilities"])
        pairs.append([" and ".join(pair["of"]), *map(str, counted), *points])
    about = f"`{found['command']}` on {found['cores']} cores ({found['machine']}):"
    return "\n\n".join([about, markdown_table(runs), "Distances in points:", markdown_table(pairs)])


def limits() -> str:
    """Where a measurement is worth a warning, and where it is invalid."""
    given, whole, plain = Limits(), partial(percent, digits=0), "{:g}".format
    rows = [["observed", "WARN above", "INVALID above"]]
    for what, bounds, written in (
        ("drift: the sentinel's median against the baseline's", given.drift, whole),
        ("outliers: batches that took more than twice their method's median", given.outliers, whole),
        ("processor time that the hypervisor took", given.stolen, whole),
        ("page faults per batch, median", given.faults, plain),
        ("dispersion: λ / median of standard inference", given.dispersion, plain),
    ):
        rows.append([what, *map(written, bounds)])
    return markdown_table(rows)


def words() -> str:
    """The words that the page of a run explains, as it explains them."""
    symbols = {"Utility": "U", "Adapted fraction": "φ", "Calibration error": "ECE"}
    rows = [[word, symbols.get(word, ""), meaning] for word, meaning in sorted(WORDS.items())]
    return markdown_table([["word", "symbol", "meaning"], *rows])


# -- the published numbers -------------------------------------------------------------------------------------


def setups() -> str:
    rows = [["setup", "network", "data", "machine", "λ ms", "batches", "shifts", "scenarios"]]
    for found in map(published.setup, published.setups()):
        counts = [found.batches, len(found.shifts), len(found.grid)]
        machine = [found.hardware, f"{found.baseline_ms:g}"]
        rows.append([f"`{found.name}`", found.model, found.dataset, *machine, *map(str, counts)])
    return markdown_table(rows)


def inconsistencies() -> str:
    rows = [["", "setups", "table", "rows", "what is printed", "what to expect", "the numbers"]]
    for found in published.known_inconsistencies():
        everywhere = found.setups == published.setups()
        rows.append(
            [
                str(found.number),
                "all" if everywhere else ", ".join(f"`{name}`" for name in found.setups),
                f"`{found.table}`: {', '.join(f'`{column}`' for column in found.columns)}",
                str(len(found.cells())),
                found.what,
                found.expected,
                "not trusted" if found.misprint else "stand, under another rule",
            ]
        )
    return markdown_table(rows)


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
