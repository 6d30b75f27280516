"""In what two runs differ besides their numbers, in sentences: machines, lambda, configuration, what only one has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tempora_tta._numbers import percent
from tempora_tta.errors import counted
from tempora_tta.store import Results
from tempora_tta.store.made_with import differences
from tempora_tta.store.verdicts import verdict_of

SHIPPED = ("published:", "library:")
"""How clocks begin whose name alone says whose times they have."""

_KEYS = {"method": "methods", "shift": "shifts", "label": "scenarios"}


def circumstances(run: Results, other: Results, rows: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """Say everything that differs between two runs, of which these rows are compared."""
    sides = {"here": run.manifest, "there": other.manifest}
    return [
        *manifest_differences(run.manifest, other.manifest),
        *(
            f"timing {where} is {told.text}"
            for where, one in sides.items()
            if (told := verdict_of(one)).doubtful
        ),
        *(
            f"{run.cards.label(method)} has other settings: {said}"
            for method, said in differences(run, other).items()
        ),
        *(
            f"{plural} only {where}: {_short(', '.join(map(str, alone)))}"
            for column, plural in (*_KEYS.items(), ("seed", "seeds"))
            for where, have, lack in (("here", rows, others), ("there", others, rows))
            if len(alone := have.loc[~have[column].isin(lack[column]), column].unique())
        ),
    ]


def manifest_differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Say what two run.json hold different values of; what one of them does not know is no difference."""
    here, there = _told(mine), _told(theirs)
    said = [
        f"{what} {_short(here[what])} here and {_short(there[what])} there"
        for what in here
        if here[what] != there.get(what) and None not in (here[what], there.get(what))
    ]
    lambdas = [float(one["baseline"]["baseline_ms"]) for one in (mine, theirs)]
    if not math.isclose(*lambdas, rel_tol=0.01):
        change = percent(lambdas[1] / lambdas[0] - 1, 0, signed=True)
        said.append(f"λ is {lambdas[0]:.4g} ms here and {lambdas[1]:.4g} ms there ({change})")
    batches = [pd.Series(one.get("batches") or {}, dtype=float) for one in (mine, theirs)]
    lengths = pd.concat(batches, axis=1, join="inner", sort=False)
    return said + [
        f"{first:g} batches of {_short(', '.join(shifts.index))} here and {second:g} there"
        for (first, second), shifts in lengths.groupby([0, 1], sort=False)
        if first != second
    ]


def _told(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Facts that two runs may differ in: the beginning of a sentence, and the value from run.json."""
    machine, clock = manifest.get("machine", {}), str(manifest.get("clock", ""))
    return {
        "machine is": _processor(machine),
        # A clock's name may be that of two profiles; those of a steady clock are the machine's own.
        "times are of": f"profile {clock}" if clock.startswith("recorded") else "that machine",
        "model is": manifest.get("model"),
        "dataset is": manifest.get("dataset"),
        "severity is": str(manifest.get("severity")),
        "batch_size is": manifest.get("batch_size"),
        "preset is": str((manifest.get("config") or {}).get("preset")),
        "weights are": manifest.get("weights"),
        **machine.get("versions", {}),
    }


def what_it_has(rows: pd.DataFrame) -> str:
    """The methods, shifts and scenarios of a run."""
    return "; ".join(
        f"{plural} {_short(', '.join(rows[column].unique()))}" for column, plural in _KEYS.items()
    )


def machine_name(manifest: Mapping[str, Any]) -> str:
    """The processor that the times are about, as people call it; of a recorded clock, its name.

    Profiles that ship have names; a file of the user's own is called like its device, since two machines may both
    keep theirs in profile.json.

    >>> machine_name({"machine": {"cpu": "Some CPU", "threads": 2, "device": "cpu"}, "clock": "measured"})
    'Some CPU, 2 threads'
    >>> told = {"config": {"clock": "profile.json"}, "clock": "recorded:1a2b"}
    >>> machine_name({**told, "profile": {"device": "Some CPU", "id": "1a2b"}})
    'clock Some CPU, profile 1a2b'
    """
    clock, told = str(manifest.get("clock", "")), manifest.get("profile")
    if not clock.startswith("recorded"):
        return _processor(manifest.get("machine", {}))
    named = str((manifest.get("config") or {}).get("clock", clock))
    if told and not named.startswith(SHIPPED):
        named = f"{told['device']}, profile {told['id']}"
    return f"clock {named}"


def _processor(machine: Mapping[str, Any]) -> str:
    if machine.get("gpu"):
        return str(machine["gpu"])
    threads = machine.get("threads")
    count = f", {counted(threads, 'thread')}" if threads else ""
    return f"{machine.get('cpu', 'unknown machine')}{count}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
