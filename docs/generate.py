"""Writes the pages of the reference that come from the code: `python docs/generate.py`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import typer
import yaml
from typer.models import ArgumentInfo

from tempora_tta import methods, published
from tempora_tta.cli.app import app
from tempora_tta.cli.options import PLAIN, RUN
from tempora_tta.config import DataConfig, RunConfig, default_of
from tempora_tta.report.html.glossary import WORDS
from tempora_tta.scenarios.specs import KINDS
from tempora_tta.store.record import RunRecord
from tempora_tta.store.schema import CERTAINTY, SCHEMA_VERSION, SEGMENTS, TRACE, UTILITIES

DOCS = Path(__file__).parent
MADE = "Made by `python docs/generate.py` from the code."
KEYS = {
    field.metadata["description"] for part in (RunConfig, DataConfig) for field in dataclasses.fields(part)
}
"""Sentences of the configuration: options that have one are explained there."""


def pages() -> dict[Path, str]:
    """Every generated page and what belongs in it."""
    return {
        DOCS / "schema.md": schema(),
        DOCS / "reference" / "cli.md": cli(),
        DOCS / "reference" / "config.md": config(),
        **filled("published.md", {"setups": setups(), "inconsistencies": inconsistencies()}),
        **filled("concepts/glossary.md", {"words": words()}),
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


# -- run folders ---------------------------------------------------------------------------------------------


def schema() -> str:
    """The files of a run folder, from the tables and the record that define them."""
    lines = [
        "# What is in a run folder",
        "",
        f"{MADE} `run.json` and tables carry the schema version, now {SCHEMA_VERSION}; a file of another version is "
        "refused. A trace is named by a hash of its content, and the `run.json` of a finished run lists those of the "
        "other files: a changed file is read with a warning, impossible numbers are refused, and `tempora run` "
        "makes both again.",
        "",
        "- `run.json`: what was run, on which machine, λ, and the verdict on timing.",
        "- `profile.json`: the latencies behind the clock, where times are looked up.",
        "- `traces/*.parquet`: one file per pass. Its metadata holds what decided the pass (`identity`) and what was "
        "noticed while it was made (`facts`).",
        "- `utilities.parquet`, `segments.parquet`, `certainty.parquet`: the tables below. A field that does not "
        "apply, or is not known, is empty.",
        "- `pictures.json`: four small pictures of every shift (JPEG, base64), where the dataset may be passed on.",
        "- `report.html`: written by `tempora report`.",
        "",
        "## run.json: one object",
        "",
        *_fields({name: field.description or "" for name, field in RunRecord.model_fields.items()}),
    ]
    for title, fields in (
        ("Traces: one row per batch", TRACE),
        ("Utilities: one row per cell", UTILITIES),
        ("Segments: one row per cell and segment of a stream of many shifts", SEGMENTS),
        ("Certainty: one row per method, shift and scenario, seeds together", CERTAINTY),
    ):
        shared = fields not in (TRACE, UTILITIES)
        own = {
            name: meaning
            for name, (_, meaning) in fields.items()
            if not shared or fields[name] is not UTILITIES.get(name)
        }
        before = ["Columns that utilities has too mean the same. Besides:", ""] if shared else []
        lines += ["", f"## {title}", "", *before, *_fields(own)]
    return "\n".join(lines) + "\n"


def _fields(told: dict[str, str]) -> list[str]:
    return [f"- `{name}`: {meaning}" for name, meaning in told.items()]


# -- the command line ------------------------------------------------------------------------------------------


def cli() -> str:
    text = [
        "# Command line",
        f"{MADE} `tempora COMMAND --help` says the same and has examples; `tempora --install-completion` "
        "teaches your shell (bash, zsh, fish) commands, options and names."
        "\n\nIn parentheses: the default. Options that are a key of [the configuration](config.md#keys) are "
        "explained there. `--plain` prints lines for a log instead of a live display; RUN is a run folder or a pack."
        "\n\nExit status: 0 done; 1 a mistake that the message explains, or a check or some cells failed; "
        "2 no such command or option; 130 stopped with Ctrl-C, to be resumed by the same command. Errors and "
        "warnings go to stderr. `NO_COLOR=1` turns colours off, `FORCE_COLOR=1` on.",
        *(_command(path, function) for path, function in sorted(_commands("tempora", app))),
    ]
    return "\n\n".join(text) + "\n"


def _commands(path: str, group: typer.Typer) -> Iterator[tuple[str, Callable[..., None]]]:
    """Yield each command as Typer was told of it, which is the same in all of its versions."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield f"{path} {command.name or command.callback.__name__}", command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from _commands(f"{path} {inner.typer_instance.info.name}", inner.typer_instance)


def _command(path: str, function: Callable[..., None]) -> str:
    hints = typing.get_type_hints(function, include_extras=True)
    usage, rows, keys = [path], [], []
    for param in inspect.signature(function).parameters.values():
        kind, info = typing.get_args(hints[param.name])
        if isinstance(info, ArgumentInfo):
            required = param.default is param.empty
            usage.append(param.name.upper() if required else f"[{param.name.upper()}]")
            if info.help and info.help != RUN.help:
                rows.append(f"- `{usage[-1]}`: {info.help}{_choices(kind)}")
        elif info.help in KEYS:
            keys.append(f"`{_flags(param.name, kind, info)[0]}`{_default(param.default)}")
        elif info.help != PLAIN.help:
            names = "` / `".join(_flags(param.name, kind, info))
            rows.append(f"- `{names}`{_default(param.default)}: {info.help}{_choices(kind)}")
    if keys:
        rows.append(f"- Keys of the configuration: {', '.join(keys)}.")
    parts = [f"## {' '.join(usage)}", inspect.getdoc(function) or "", "\n".join(rows)]
    return "\n\n".join(part for part in parts if part)


def _flags(name: str, kind: Any, info: Any) -> Sequence[str]:
    given = info.param_decls or ((info.default,) if isinstance(info.default, str) else ())
    flag = name.strip("_").replace("_", "-")
    return given or ([f"--{flag}", f"--no-{flag}"] if _is_switch(kind) else [f"--{flag}"])


def _is_switch(kind: Any) -> bool:
    return kind is bool or bool in typing.get_args(kind)


def _choices(kind: Any) -> str:
    """The words that an option takes, if it takes no others."""
    found = _type(kind).removeprefix("list of ")
    return f" {found}." if found.startswith("`") else ""


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return " (required)"
    return "" if value is None or isinstance(value, bool) else f" ({value})"


# -- the configuration -----------------------------------------------------------------------------------------


def config() -> str:
    keys = [[f"`{name}`", *field] for name, field in _keys(RunConfig)]
    data = [[f"`data.{name}`", *field] for name, field in _keys(DataConfig)]
    parts = [
        "# Configuration",
        f"{MADE} A flag wins over `--set key=value`, that over the YAML file (`tempora run FILE`), that over the "
        "default. `tempora run --init` writes a file with every key, its default and its sentence.",
        "## Keys",
        markdown_table([["key", "takes (default)", "meaning"], *keys, *data]),
        "## Scenarios",
        "An entry of `scenarios` is a `protocol` with its knobs, as in `{protocol: discrete, interval_ms: 60}`. "
        "[Scenarios](../concepts/scenarios.md) explains them.",
        markdown_table([["protocol", "knobs and defaults"], *_scenario_rows()]),
        "## Settings of methods",
        "An entry of `methods` is a name or a mapping such as `{name: tent, label: tent@fast, lr: 0.002}`. A label "
        "`name@anything` takes its times from `name` under a recorded clock. A dash: the network decides, and for "
        "`stop_after`, never. In brackets: what `preset: paper` takes.",
        _method_settings(),
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
        taken = _type(hints[field.name])
        yield field.name, [taken if default is None else f"{taken} ({shown(default)})", told]


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
    """Settings that methods have in common once, then what each has of its own or sets otherwise."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in methods.names():
        kind = methods.get(name).Settings
        for field in dataclasses.fields(kind):
            rows.setdefault(tuple(_setting(field, kind)), []).append(methods.get(name).label)
    shared = sorted((row for row in rows if len(rows[row]) > 1), key=lambda row: -len(rows[row]))
    table, before = [["methods", "setting", "takes (default)"]], ""
    for row in [*shared, *(row for row in rows if len(rows[row]) == 1)]:
        of = _those(rows[row])
        table.append(["" if of == before else of, *row])
        before = of
    return markdown_table(table)


def _those(labels: list[str]) -> str:
    """Name methods, or those that are missing where these are few."""
    others = [label for name in methods.names() if (label := methods.get(name).label) not in labels]
    if len(others) < 3:
        return f"all but {', '.join(others)}" if others else "all"
    return ", ".join(labels)


def _setting(field: dataclasses.Field[Any], kind: type[methods.Settings]) -> list[str]:
    default = "–" if field.default is None else shown(field.default)
    paper = f" [{shown(kind.paper[field.name])}]" if field.name in kind.paper else ""
    above, low, high = (field.metadata.get(key) for key in ("above", "low", "high"))
    if low is not None and high is not None:
        allowed = [f"{low:g} to {high:g}"]
    else:
        limits = (("above", above), ("at least", low), ("at most", high))
        allowed = [f"{word} {limit:g}" for word, limit in limits if limit is not None]
    hint = typing.get_type_hints(kind)[field.name]
    return [f"`{field.name}`", f"{', '.join([_type(hint), *allowed])} ({default}){paper}"]


def words() -> str:
    """The words that the page of a run explains, as it explains them."""
    symbols = {"Utility": "U", "Adapted fraction": "φ", "Calibration error": "ECE"}
    rows = [[word, symbols.get(word, ""), meaning] for word, meaning in sorted(WORDS.items())]
    return markdown_table([["word", "symbol", "meaning"], *rows])


# -- the published numbers -------------------------------------------------------------------------------------


def setups() -> str:
    rows = [["setup", "network", "data", "machine", "λ ms", "shifts × batches", "scenarios"]]
    for found in map(published.setup, published.setups()):
        length = f"{len(found.shifts)} × {found.batches}"
        machine = [found.hardware, f"{found.baseline_ms:g}"]
        rows.append([f"`{found.name}`", found.model, found.dataset, *machine, length, str(len(found.grid))])
    return markdown_table(rows)


def inconsistencies() -> str:
    items = []
    for found in published.known_inconsistencies():
        everywhere = found.setups == published.setups()
        setups = "all setups" if everywhere else ", ".join(f"`{name}`" for name in found.setups)
        columns = ", ".join(f"`{column}`" for column in found.columns)
        place = f"`{found.table}` ({columns})" if found.table else found.where
        trust = {"misprint": ", *not trusted*", "rule": ", *stands*", "text": ""}[found.kind]
        items.append(f"{found.number}. {setups}, {place}{trust}: {found.what} → {found.expected}.")
    return "\n".join(["", *items, ""])


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
