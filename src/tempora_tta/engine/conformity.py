"""Departures of a run from the suite that its configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tempora_tta.config import MethodConfig, RunConfig
from tempora_tta.data import Order
from tempora_tta.engine import suites
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.observer import Observer
from tempora_tta.errors import unknown
from tempora_tta.models import Classifier

FREE = (
    *("device", "threads", "deterministic", "share", "clock", "methods"),
    *("data.workers", "data.cache_dir", "data.root", "data.pictures"),
)
"""Settings that a run of a suite may choose: machine, clock (results say which), and methods of the user's own."""


def suite_of(
    config: RunConfig, model: Classifier, streams: tuple[Order, ...], observer: Observer
) -> str | None:
    """The suite that the run may be called by; None, and a note that says why, if it departs from it."""
    if config.suite is None:
        return None
    found = departures(config, model.weights_hash(), {stream.shift: stream.fingerprint for stream in streams})
    if found:
        observer.note(f"these are no results of {config.suite}: {'; '.join(found)}")
        return None
    return config.suite


def departures(config: RunConfig, weights: str, fingerprints: Mapping[str, str]) -> list[str]:
    """Name each difference of a run from the suite that its configuration names."""
    if config.suite not in suites.names():
        raise unknown("suite", str(config.suite), suites.names())
    suite = load_config(suites.path_of(config.suite))
    given, pins = _flat(config), suites.pins_of(config.suite)
    found = [
        f"{name} is {given[name]!r} instead of {wanted!r}"
        for name, wanted in _flat(suite).items()
        if name not in FREE and given[name] != wanted
    ]
    settings = {_name(method): method for method in suite.methods}
    found += [
        f"{_name(method)} has other settings"
        for method in config.methods
        if settings.get(_name(method), method) != method
    ]
    if weights != pins["weights"].get(config.model):
        found.append(f"{config.model} has other weights")
    found += [
        f"{shift} has other images"
        for shift, fingerprint in fingerprints.items()
        if fingerprint != pins["data"].get(shift)
    ]
    return found


def _flat(config: RunConfig) -> dict[str, Any]:
    values = config.plain()
    data: dict[str, Any] = values.pop("data")
    return values | {f"data.{name}": value for name, value in data.items()}


def _name(method: str | MethodConfig) -> str:
    return method if isinstance(method, str) else method.label or method.name
