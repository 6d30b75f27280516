"""Join run folders of one job into one: its shifts, methods or seeds, run apart on several machines."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pandas as pd

from tempora_tta.errors import TemporaError
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.cells import utilities_frame
from tempora_tta.store.check import warn_of_problems
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.record import RunRecord, non_finite_scores
from tempora_tta.store.results import Results
from tempora_tta.store.schema import ABOUT_WINNERS, CELL_COLUMNS, PASS_COLUMNS
from tempora_tta.store.segments import segments_frame
from tempora_tta.store.verdicts import VERDICTS

_JOB = ("model", "dataset", "severity", "batch_size", "scenarios", "clock", "stream", "weights")
"""Entries of run.json that are the same in every part of one job."""
_BY_NAME = ("batches", "method_settings")
"""Entries of which each part has its own, and parts that share one agree about it."""
_PASSES = ("preset", "deterministic", "version", "machine")
"""Parts of a pass's identity that all passes of a job share; no machine is behind one whose times were looked up."""


@dataclass(frozen=True)
class Merged:
    """A joined folder, and the cells (method, shift, seed) that no part had."""

    results: Results
    missing: list[tuple[str, str, int]]


def merge(parts: Sequence[Path | str], out: Path | str) -> Merged:
    """Join run folders of one job into `out`, a new folder. `tempora run` can go on from there.

    Parts with different lambdas or kinds of device are refused: their utilities do not compare.
    """
    if len(parts) < 2:
        raise TemporaError("nothing to merge: give at least two run folders")
    opened = [Results(RunFolder(path)) for path in parts]
    for part in opened:
        warn_of_problems(part.folder)
    _check_one_job(opened)
    if RunFolder(out).has_manifest():
        raise TemporaError(f"{out} holds a run already: choose another folder")
    with RunFolder.for_writing(out) as target:
        passes = {key: stored for part in reversed(opened) for key, stored in part.folder.passes().items()}
        for stored in passes.values():
            _copy(stored.path, target.path / "traces" / stored.path.name)
        # Parts that met kinds of work which the others did not have added them to the profile that they share.
        profiles = [path for part in opened if (path := part.path / "profile.json").exists()]
        if profiles:
            _copy(max(profiles, key=lambda path: path.stat().st_size), target.path / "profile.json")
        table = _joined_utilities(opened)
        target.write_utilities(table)
        record = _joined_record([part.manifest for part in opened])
        missing = _missing(record, table)
        record["finished"] = not missing and all(part.manifest["finished"] for part in opened)
        used = {*table[PASS_COLUMNS].to_numpy().ravel()}
        record["non_finite_scores"] = non_finite_scores(passes[key] for key in passes.keys() & used)
        target.write_manifest(RunRecord.model_validate(record))
        joined = Results(target)
        target.write_segments(segments_frame(joined))
        target.seal()
    return Merged(joined, missing)


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


def _joined_utilities(parts: Sequence[Results]) -> pd.DataFrame:
    """Return all cells, ranked again; where two parts have a cell, the one that worked. Verdicts on the winners of a
    part are not about the whole: they are left to be worked out again."""
    table = pd.concat([part.utilities for part in parts], ignore_index=True)
    worked_first = table.assign(worked=table["status"] != "ok").sort_values("worked", kind="stable")
    unique = worked_first.drop_duplicates(["method", *CELL_COLUMNS])
    rows: list[dict[str, Any]] = unique.drop(columns=["worked", *ABOUT_WINNERS]).to_dict("records")  # type: ignore[assignment]
    return utilities_frame(rows)


def _missing(record: dict[str, Any], table: pd.DataFrame) -> list[tuple[str, str, int]]:
    there = set(zip(table["method"], table["shift"], table["seed"].astype(int), strict=True))
    wanted = itertools.product(record["methods"], record["shifts"], record["seeds"])
    return [cell for cell in wanted if cell not in there]


def _joined_record(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The run.json of the whole: made where the first part was, judged as the worst, in a suite if all parts are."""
    joined: dict[str, Any] = reduce(_joined, parts)
    verdicts = [part["verdict"] for part in parts if part["verdict"]]
    return {
        **joined,
        "seeds": sorted(joined["seeds"]),
        "machine": parts[0]["machine"],
        "verdict": max(verdicts, key=lambda verdict: VERDICTS.index(verdict["status"]), default=None),
        "suite": parts[0]["suite"] if len({part["suite"] for part in parts}) == 1 else None,
        "config": joined["config"] if all(part["config"] for part in parts) else None,
    }


def _joined(first: Any, second: Any) -> Any:
    """Entries of both: of objects by name, of lists each once; of anything else the first.

    >>> _joined({"seeds": [1], "batches": {"fog": 4}}, {"seeds": [1, 2], "batches": {"snow": 5}})
    {'seeds': [1, 2], 'batches': {'fog': 4, 'snow': 5}}
    """
    if isinstance(first, dict) and isinstance(second, dict):
        both = {name: _joined(first[name], second[name]) for name in first if name in second}
        return {**first, **second, **both}
    if isinstance(first, list) and isinstance(second, list):
        return first + [entry for entry in second if entry not in first]
    return first
