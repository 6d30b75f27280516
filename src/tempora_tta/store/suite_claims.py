"""May stored results be called by the name of a suite? Read from the suite's own file and pins, without torch.

`engine.conformity` asks the same of a run before it begins, and knows the defaults too; here is what a stranger's
run.json and passes can be asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from tempora_tta.names import SUITES, file_of
from tempora_tta.scenarios import Offline, from_spec, grid, to_record
from tempora_tta.store.folder import named_passes
from tempora_tta.store.results import Results

FREE = (
    *("device", "threads", "deterministic", "share", "clock", "methods"),
    *("data.workers", "data.cache_dir", "data.root", "data.pictures"),
)
"""What a run of a suite may choose: the machine, the clock (results say which), and methods of one's own."""


_OF_ONES_OWN = ("source", "network", "times_as", "runtime", "predict_with")
"""What the identity of a pass has where its method, network or way to run is not as it ships."""


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
    found += _other_run(results.manifest, suite)
    found += _other_passes(results, suite, pins)
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


def _other_run(manifest: Mapping[str, Any], suite: Mapping[str, Any]) -> list[str]:
    """What was run, whatever the configuration beside it says."""
    stream = _stream(suite)
    single = stream["kind"] == "single"
    shifts = suite["data"]["shifts"] if single else [stream["kind"]]
    wanted = {
        "model": suite["model"],
        "shifts": shifts,
        "seeds": sorted(suite["seeds"]),
        "batch_size": suite["batch_size"],
        "scenarios": _scenarios(suite),
        **({"batches": dict.fromkeys(shifts, stream["batches"])} if single else {}),
    }
    found = [f"it ran other {name}" for name, value in wanted.items() if manifest.get(name) != value]
    return found + (["it ran another stream"] if _unlike(manifest.get("stream"), stream) else [])


def _scenarios(suite: Mapping[str, Any]) -> list[Any]:
    """As run.json holds them."""
    given = map(from_spec, suite.get("scenarios", ()))
    made = (Offline(), *grid(suite["grid"], suite["rule"], suite["queue"]), *given)
    records: list[Any] = json.loads(json.dumps([to_record(scenario) for scenario in made], default=str))
    return records


def _stream(suite: Mapping[str, Any]) -> dict[str, Any]:
    told = suite.get("stream")
    return dict(told) if told else {"kind": "single", "batches": suite["batches"]}


def _unlike(given: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether settings of a stream are not the suite's. A run says only what is not as usual, so that others of the
    suite may be missing; kind, length and order of classes may not."""
    if not isinstance(given, dict):
        return True
    settings = {name: value for name, value in given.items() if name != "drawn"}
    always = {name for name in ("kind", "batches", "classes") if name in wanted}
    return not always <= settings.keys() or any(
        name not in wanted or wanted[name] != value for name, value in settings.items()
    )


def _other_passes(results: Results, suite: Mapping[str, Any], pins: Mapping[str, Any]) -> list[str]:
    """Weights, images and settings: every pass says what they were. A pack without traces cannot be asked."""
    if results.folder.packed_without_traces:
        return []
    wanted, found = dict(map(_method, suite["methods"])), set()
    for stored in map(results.folder.stored, named_passes(results.utilities)):
        found |= set(_other_inputs(stored.identity, suite, pins, results.manifest["batches"]))
        method = stored.identity.get("method")
        if isinstance(method, str) and method in wanted and not _is_set_to(stored.identity, wanted[method]):
            found.add(f"{method} ran with other settings")
    return sorted(found)


def _other_inputs(
    identity: Mapping[str, Any], suite: Mapping[str, Any], pins: Mapping[str, Any], batches: Mapping[str, int]
) -> Iterator[str]:
    model, shift = str(suite["model"]), str(identity.get("shift"))
    if identity.get("weights") != pins["weights"][model]:
        yield f"{model} has other weights"
    if identity.get("data") != pins["data"].get(shift):
        yield f"{shift} has other images"
    if identity.get("seed") not in suite["seeds"]:
        yield f"{shift} ran in the order of seed {identity.get('seed')!r:.40}"
    if identity.get("batch_size") != suite["batch_size"] or identity.get("num_batches") != batches.get(shift):
        yield f"{shift} ran in other batches"
    if "stream" in identity and _unlike(identity["stream"], _stream(suite)):
        yield f"{shift} ran as another stream"


def _is_set_to(identity: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a pass is of the method as the suite has it: its settings, its own code, nothing beside it."""
    settings = {name: value for name, value in wanted.items() if name not in ("name", "label")}
    return (
        identity.get("name") == wanted["name"]
        and identity.get("settings") == settings
        and identity.get("preset") is None
        and not any(name in identity for name in _OF_ONES_OWN)
    )
