"""May stored results be called by the name of a suite? Read from the suite's own file and pins, without torch.

`engine.conformity` asks the same of a run before it begins, and knows the defaults too; here is what a stranger's
run.json and passes can be asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tempora.names import SUITES, file_of
from tempora.store.results import Results

FREE = (
    *("device", "threads", "deterministic", "share", "tail_batches", "clock", "methods"),
    *("data.workers", "data.cache_dir", "data.root", "data.pictures"),
)
"""What a run of a suite may choose: the machine, the clock (results say which), and methods of one's own."""


def departures_of(results: Results) -> list[str]:
    """How stored results differ from the suite that they name: nothing, or a phrase for each."""
    config = results.manifest.get("config")
    config = config if isinstance(config, dict) else {}
    name = results.manifest.get("suite") or config.get("suite")
    if name is None:
        return []
    if name not in SUITES:
        return [f"there is no suite {name!r} in this Tempora"]
    path = file_of(SUITES[str(name)])
    suite: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    pins = json.loads((path.parent / "pins.json").read_text(encoding="utf-8"))
    given = _flat(config)
    found = [
        f"{key} is {given.get(key)!r} instead of {wanted!r}"
        for key, wanted in _flat(suite).items()
        if key not in FREE and given.get(key) != wanted
    ]
    found += _other_settings(config.get("methods"), suite["methods"])
    found += _other_inputs(results, str(suite["model"]), pins)
    if results.manifest.get("suite") is None and not found:
        found.append("in a setting that the suite leaves at its default")
    return found


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    data = config.get("data")
    inner = {f"data.{name}": value for name, value in data.items()} if isinstance(data, dict) else {}
    return {name: value for name, value in config.items() if name != "data"} | inner


def _other_settings(given: Any, suite: Iterable[Any]) -> list[str]:
    wanted = dict(map(_method, suite))
    entries = [_method(entry) for entry in given] if isinstance(given, list) else []
    return [f"{name} has other settings" for name, value in entries if wanted.get(name, value) != value]


def _method(entry: Any) -> tuple[str, dict[str, Any]]:
    """What a method is called, and what it is set to."""
    settings = dict(entry) if isinstance(entry, dict) else {"name": entry}
    filled = {name: value for name, value in settings.items() if value not in ("", None)}
    return str(filled.get("label") or filled.get("name")), filled


def _other_inputs(results: Results, model: str, pins: Mapping[str, Any]) -> list[str]:
    """Weights and images, of which every pass says what they were. A pack without traces cannot be asked."""
    if results.folder.packed_without_traces:
        return []
    found = set()
    for stored in results.folder.passes().values():
        if stored.identity.get("weights") != pins["weights"][model]:
            found.add(f"{model} has other weights")
        shift = stored.identity.get("shift")
        if stored.identity.get("data") != pins["data"].get(shift):
            found.add(f"{shift} has other images")
    return sorted(found)
