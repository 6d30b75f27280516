"""A configuration from its file, overrides and flags; what is wrong with it is said with its line."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tempora_tta import methods
from tempora_tta.config import (
    DataConfig,
    MethodConfig,
    PreprocessingConfig,
    RunConfig,
    SourceConfig,
    checked,
    listed,
)
from tempora_tta.data.order import StreamSettings
from tempora_tta.data.registry import datasets
from tempora_tta.engine import suites
from tempora_tta.engine._config_files import put, read_yaml, set_by_text
from tempora_tta.engine.arrival_times import with_times
from tempora_tta.errors import TemporaError, suggestion
from tempora_tta.methods.settings import build
from tempora_tta.scenarios import from_spec
from tempora_tta.store import RunFolder, of_sizes

MOST_PROBLEMS = 10
"""Maximum number of problems shown at once."""
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


def load_config(
    path: Path | None, overrides: Iterable[str] = (), flags: Mapping[str, Any] | None = None
) -> RunConfig:
    """The configuration in `path` (default: all defaults), changed by `key=value` overrides and by flags.

    `path` may also name a part of a suite, `tempora-fashion-v1/resnet`, or be a run folder: then it is that run's.
    Scenarios of a flag are added to those there are.
    """
    return validated(*_values(path, overrides, flags))


def load_configs(
    path: Path | None, overrides: Iterable[str] = (), flags: Mapping[str, Any] | None = None
) -> list[RunConfig]:
    """The same for a `batch_size` that may list several: a configuration for each size, over the same images."""
    values, origin = _values(path, overrides, flags)
    before = {} if path is None else of_sizes(path)
    given = listed(values.get("batch_size"))
    sizes = list(dict.fromkeys(given)) if isinstance(given, list) else [given]
    if len(sizes) < 2 and not before:
        return [validated({**values, "batch_size": sizes[0]} if given and sizes else values, origin)]
    configs = [validated({**values, "batch_size": size}, origin) for size in sizes or [None]]
    largest = max(before, default=max(config.batch_size for config in configs))
    return [_with_images_of(config, largest) for config in configs]


def _with_images_of(config: RunConfig, size: int) -> RunConfig:
    """Numbers of batches are of this size: as many images in the batches of the configuration."""

    def count(batches: Any) -> Any:
        return max(1, batches * size // config.batch_size) if isinstance(batches, int) else batches

    stream = config.stream and {
        name: count(value) if name in ("batches", "reset") else value for name, value in config.stream.items()
    }
    return dataclasses.replace(config, batches=count(config.batches), stream=stream)


def _values(
    path: Path | None, overrides: Iterable[str], flags: Mapping[str, Any] | None
) -> tuple[dict[str, Any], _Origin]:
    """The values of a configuration, unchecked, and where each stands."""
    values, lines = _content(path)
    own_methods = values.get("methods")
    if isinstance(values.get("stream"), str):
        values["stream"] = {"kind": values["stream"]}  # so that flags can add to it
    replaced = [set_by_text(values, override) for override in overrides]
    for name, value in (flags or {}).items():
        if value is not None:
            more = [*values.get(name, []), *value] if name == "scenarios" else value
            replaced.append(put(values, name.split("."), more))
    if own_methods is not None and values["methods"] is not own_methods:
        values["methods"] = _as_in_file(listed(values["methods"]), listed(own_methods), "suite" in values)
    return values, _Origin(path, lines, replaced)


def _content(path: Path | None) -> tuple[dict[str, Any], dict[tuple[Any, ...], int]]:
    """The values in a file, a suite or a run folder, and the lines on which they stand."""
    if path is None:
        return {}, {}
    if sizes := of_sizes(path):
        values, lines = _content(sizes[max(sizes)])
        return {**values, "batch_size": list(sizes)}, lines
    if is_run(path):
        config = RunFolder(path).manifest().get("config")
        if config is None:
            raise TemporaError(
                f"{path} was made from Python with a network, batches or methods that have no names, so it has no "
                "configuration that could be run again: call tempora.evaluate with out= this folder"
            )
        return dict(config), {}
    in_suite = path.as_posix() in suites.names() and not path.exists()
    return read_yaml(suites.path_of(path.as_posix()) if in_suite else path)


def is_run(path: Path) -> bool:
    """Tell a run folder, or one of several batch sizes, from a file."""
    return RunFolder(path).has_manifest() or bool(of_sizes(path))


def validated(values: Mapping[str, Any], origin: _Origin | None = None) -> RunConfig:
    """The configuration of these values; every mistake in them is said, with its line where it has one."""
    origin = origin or _Origin(None, {}, ())
    try:
        config = checked(values)
    except ValidationError as error:
        found = error.errors()
        first = [_explain(problem, origin) for problem in found[:MOST_PROBLEMS]]
        raise _together(first, len(found)) from None
    problems = [
        *_wrong_methods(config, origin),
        *_wrong_scenarios(config, origin),
        *_wrong_stream(config, origin),
    ]
    if problems:
        raise _together(problems[:MOST_PROBLEMS], len(problems))
    return config


def _as_in_file(chosen: Any, own: Any, suite: bool) -> Any:
    """Methods chosen by name, with the settings that the file gives them; `all` means the suite's."""
    if not isinstance(chosen, list) or not isinstance(own, list):
        return chosen
    set_there = {entry.get("name"): entry for entry in own if isinstance(entry, dict)}
    found = []
    for entry in chosen:
        if entry == "all" and suite:
            found += own
        else:
            found.append(set_there.get(entry, entry) if isinstance(entry, str) else entry)
    return found


class _Origin:
    """Places of keys in their file; keys that the command line gave have none."""

    def __init__(
        self, path: Path | None, lines: Mapping[tuple[Any, ...], int], replaced: Iterable[tuple[str, ...]]
    ) -> None:
        self._path, self._lines, self._replaced = path, lines, set(replaced)

    def place(self, *where: Any) -> str:
        """` (line 3 of run.yaml)`: the line of the key, or of the nearest thing around it."""
        around = [where[:length] for length in range(len(where), 0, -1)]
        line = next((self._lines[key] for key in around if key in self._lines), None)
        if line is None or not self._replaced.isdisjoint(around):
            return ""
        return f" (line {line} of {self._path})"


def _wrong_methods(config: RunConfig, origin: _Origin) -> Iterator[str]:
    """Name what is wrong with the names of the methods and with each of their settings."""
    for position, entry in enumerate(config.methods):
        if entry == "all":
            continue
        name, settings = (entry.name, entry.settings) if isinstance(entry, MethodConfig) else (entry, {})
        key = "name"
        try:
            kind = methods.get(name)
            for key, value in settings.items():
                build(kind.Settings, {key: value}, kind.name or kind.__name__)
        except TemporaError as error:
            yield f"methods[{position}]{origin.place('methods', position, key)}: {error}"


def _wrong_scenarios(config: RunConfig, origin: _Origin) -> Iterator[str]:
    """Name what is wrong with each scenario, at the key that the message is about."""
    for position, spec in enumerate(config.scenarios):
        try:
            from_spec(with_times(spec))
        except TemporaError as error:
            yield f"scenarios[{position}]{origin.place('scenarios', position, error.about)}: {error}"


def _wrong_stream(config: RunConfig, origin: _Origin) -> Iterator[str]:
    try:
        StreamSettings.of(config.stream)
    except TemporaError as error:
        yield f"stream{origin.place('stream')}: {error}"


def _together(first: list[str], count: int) -> TemporaError:
    """Return the first problems as one error."""
    more = [f"and {count - len(first):,} more problems"] if count > len(first) else []
    return TemporaError("\n".join([*first, *more]))


def _is_choice(part: Any) -> bool:
    """Tell the name of one of several types, in pydantic's places, from a key."""
    return isinstance(part, str) and (part == "str" or part.startswith(("function-", "literal[")))


def _explain(problem: Any, origin: _Origin) -> str:
    """One validation problem as a sentence: where, what was given, what is allowed."""
    where = tuple(part for part in problem["loc"] if not _is_choice(part))
    place = origin.place(*where)
    name = ".".join(f"{part:.80}" if isinstance(part, str) else str(part) for part in where)
    if problem["type"] == "unexpected_keyword_argument":
        in_data = where[0] == "data" and len(where) > 1
        if in_data and any(where[-1] in card.settings for card in datasets().values()):
            return f"unknown key {name!r}{place}: a dataset's own settings go into options, data.options.{where[-1]}"
        inner = (
            {
                "data": DataConfig,
                "preprocessing": PreprocessingConfig,
                "source": SourceConfig,
            }
            if len(where) > 1
            else {}
        )
        keys = [each.name for each in dataclasses.fields(inner.get(str(where[0]), RunConfig))]
        return f"unknown key {name!r}{place}: {suggestion(str(where[-1]), keys)}"
    given = f"{name}={_short.repr(problem['input'])}{place}"
    if problem["type"] == "literal_error":
        allowed = [
            choice.strip("'") for choice in problem["ctx"]["expected"].replace(" or ", ", ").split(", ")
        ]
        return f"{given}: {suggestion(str(problem['input']), allowed)}"
    if problem["type"] == "missing":
        return f"{name} is missing{place}"
    if problem["type"] == "path_type":
        return f"{given}: must be a path"
    reason = problem["msg"].removeprefix("Value error, ")
    return f"{given}: {reason.lower().replace('input should be', 'must be')}"
