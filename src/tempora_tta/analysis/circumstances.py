"""In what two runs differ beside their numbers, in sentences: machines, lambda, configuration, what only one has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tempora_tta._numbers import percent
from tempora_tta.errors import counted
from tempora_tta.store import Results
from tempora_tta.store.made_with import differences, weights_of
from tempora_tta.store.verdicts import verdict_of

SHIPPED = ("published:", "library:")
"""How clocks begin whose name alone says whose times they have."""


def circumstances(run: Results, other: Results, rows: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """Everything that differs between two runs, of which these rows are compared."""
    return [
        *_differences(run.manifest, other.manifest),
        *_made_otherwise(run, other),
        *_only_in_one(rows, others),
    ]


def what_it_has(rows: pd.DataFrame) -> str:
    """The methods, shifts and scenarios of a run."""
    return "; ".join(
        f"{plural} {_short(', '.join(rows[column].unique()))}"
        for column, plural in (("method", "methods"), ("shift", "shifts"), ("label", "scenarios"))
    )


def machine_name(manifest: Mapping[str, Any]) -> str:
    """The processor that the times are about, as people call it.

    >>> machine_name({"machine": {"cpu": "Some CPU", "threads": 2, "device": "cpu"}, "clock": "measured"})
    'Some CPU, 2 threads'
    """
    clock, machine = str(manifest.get("clock", "")), manifest.get("machine", {})
    return f"clock {_recorded_by(manifest)}" if clock.startswith("recorded") else _processor(machine)


def _recorded_by(manifest: Mapping[str, Any]) -> str:
    """Whose times a recorded clock has. Profiles that ship have names; a file of the user's own is called like its
    device, since two machines may both keep theirs in profile.json.

    >>> told = {"config": {"clock": "profile.json"}, "clock": "recorded:1a2b"}
    >>> _recorded_by({**told, "profile": {"device": "Some CPU", "id": "1a2b"}})
    'Some CPU, profile 1a2b'
    """
    told = manifest.get("profile") or {}
    named = str((manifest.get("config") or {}).get("clock", manifest.get("clock", "")))
    if not told or named.startswith(SHIPPED):
        return named
    return f"{told['device']}, profile {told['id']}"


def _processor(machine: Mapping[str, Any]) -> str:
    if machine.get("gpu"):
        return str(machine["gpu"])
    threads = machine.get("threads")
    count = f", {counted(threads, 'thread')}" if threads else ""
    return f"{machine.get('cpu', 'unknown machine')}{count}"


def _differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    said = _machines(mine, theirs)
    lambdas = [float(manifest["baseline"]["baseline_ms"]) for manifest in (mine, theirs)]
    if not math.isclose(*lambdas, rel_tol=0.01):
        said.append(
            f"λ is {lambdas[0]:.4g} ms here and {lambdas[1]:.4g} ms there "
            f"({percent(lambdas[1] / lambdas[0] - 1, 0, signed=True)})"
        )
    for name in ("model", "dataset", "severity", "batch_size"):
        if mine.get(name) != theirs.get(name):
            said.append(f"{name} is {_short(mine.get(name))} here and {_short(theirs.get(name))} there")
    said += _lengths(mine.get("batches") or {}, theirs.get("batches") or {})
    configs = [manifest.get("config") or {} for manifest in (mine, theirs)]
    if configs[0].get("preset") != configs[1].get("preset"):
        said.append(f"preset is {configs[0].get('preset')} here and {configs[1].get('preset')} there")
    said += _versions(mine, theirs)
    for where, manifest in (("here", mine), ("there", theirs)):
        verdict = verdict_of(manifest)
        if verdict.doubtful:
            said.append(f"timing {where} is {verdict.text}")
    return said


def _made_otherwise(run: Results, other: Results) -> list[str]:
    """Weights and settings: where they differ, so may the numbers, whatever the code did."""
    weights = [weights_of(one) for one in (run, other)]
    said = [f"weights are {weights[0]} here and {weights[1]} there"] if None not in weights else []
    said = said if len(set(weights)) > 1 else []
    return said + [
        f"{run.cards.label(method)} has other settings: {how}"
        for method, how in differences(run, other).items()
    ]


def _lengths(mine: Mapping[str, int], theirs: Mapping[str, int]) -> list[str]:
    """Shifts of both whose streams are not equally long, those with the same two lengths together."""
    found: dict[tuple[int, int], list[str]] = {}
    for shift in mine:
        if shift in theirs and mine[shift] != theirs[shift]:
            found.setdefault((mine[shift], theirs[shift]), []).append(shift)
    return [
        f"{here} batches of {_short(', '.join(shifts))} here and {there} there"
        for (here, there), shifts in found.items()
    ]


def _machines(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Whose times, and on what the predictions were computed; a clock's name alone says neither."""
    processors = [_processor(manifest.get("machine", {})) for manifest in (mine, theirs)]
    clocks = [str(manifest.get("clock", "")) for manifest in (mine, theirs)]
    two = processors[0] != processors[1]
    if not any(clock.startswith("recorded") for clock in clocks):
        times = "their times differ before anything else does"
        return [f"two machines: {processors[0]} here, {processors[1]} there; {times}"] if two else []
    said = []
    if clocks[0] != clocks[1]:
        names = [machine_name(manifest) for manifest in (mine, theirs)]
        if names[0] == names[1]:
            names = [f"{name} ({clock})" for name, clock in zip(names, clocks, strict=True)]
        said.append(f"times of two profiles: {names[0]} here, {names[1]} there")
    if two:
        said.append(f"computed on two machines: {processors[0]} here, {processors[1]} there")
    return said


def _versions(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    known = [manifest.get("machine", {}).get("versions", {}) for manifest in (mine, theirs)]
    shared = [name for name in known[0] if name in known[1] and known[0][name] != known[1][name]]
    return [f"{name} {known[0][name]} here and {known[1][name]} there" for name in shared]


def _only_in_one(rows: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    said = []
    for column, plural in (
        ("method", "methods"),
        ("shift", "shifts"),
        ("label", "scenarios"),
        ("seed", "seeds"),
    ):
        for where, have, lack in (("here", rows, others), ("there", others, rows)):
            alone = [str(name) for name in have[column].unique() if name not in set(lack[column])]
            if alone:
                said.append(f"{plural} only {where}: {_short(', '.join(alone))}")
    return said


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
