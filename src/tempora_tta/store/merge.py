"""Join the passes of runs of one job, its shifts, methods or seeds, run apart on several machines."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tempora_tta.errors import TemporaError
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.results import Results

_JOB = ("model", "dataset", "severity", "batch_size", "scenarios", "clock", "stream", "weights")
"""Entries of run.json that are the same in every part of one job."""
_BY_NAME = ("batches", "method_settings")
"""Entries of which each part has its own, and parts that share one agree about it."""
_PASSES = ("preset", "deterministic", "version", "machine")
"""Parts of a pass's identity that all passes of a job share; no machine is behind one whose times were looked up."""


def merge(parts: Sequence[Path | str], out: Path | str) -> int:
    """Copy the passes of run folders of one job into `out`, a new folder, and return how many there are.

    The run of the whole job into it makes the tables from them.

    Parts with different lambdas or kinds of device are refused: their utilities do not compare.
    """
    if len(parts) < 2:
        raise TemporaError("nothing to merge: give at least two run folders")
    opened = [Results(RunFolder(path)) for path in parts]
    _check_one_job(opened)
    if RunFolder(out).has_manifest():
        raise TemporaError(f"{out} holds a run already: choose another folder")
    with RunFolder.for_writing(out) as target:
        for part in reversed(opened):
            for stored in part.folder.passes().values():
                _copy(stored.path, target.path / "traces" / stored.path.name)
        # Parts that met kinds of work which the others did not have added them to the profile that they share.
        profiles = [path for part in opened if (path := part.path / "profile.json").exists()]
        if profiles:
            _copy(max(profiles, key=lambda path: path.stat().st_size), target.path / "profile.json")
    return len(RunFolder(out).passes())


def _check_one_job(parts: Sequence[Results]) -> None:
    """Refuse parts that were not made from the same network, data, methods, scenarios, times and version."""
    facts = [_facts(part) for part in parts]
    for (one, first), (other, second) in itertools.combinations(zip(parts, facts, strict=True), 2):
        for name in (name for name in first if name in second and first[name] != second[name]):
            raise TemporaError(
                f"{one.path} and {other.path} are not parts of one job: {name} is {first[name]!r} in the "
                f"first and {second[name]!r} in the second; give runs that differ in shifts, methods or seeds alone, "
                "all with the profile of one device (tempora profile, then tempora run --clock profile.json)"
            )


def _facts(part: Results) -> dict[str, Any]:
    """Return what parts of one job must agree about, as far as they know it."""
    told = {name: part.manifest[name] for name in _JOB}
    told["lambda"] = part.manifest["baseline"]["baseline_ms"]
    told |= {f"{name} of {key}": value for name in _BY_NAME for key, value in part.manifest[name].items()}
    for stored in part.folder.passes().values():
        told |= {name: value for name in _PASSES if (value := stored.identity.get(name)) != ""}
    return told


def _copy(source: Path, target: Path) -> None:
    write_atomically(target, partial(shutil.copyfile, source))
