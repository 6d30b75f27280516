"""Join run folders of one job into one: its shifts, methods or seeds, run apart on several machines."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tempora_tta.errors import TemporaError
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.cells import utilities_frame
from tempora_tta.store.check import warn_of_problems
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.record import RunRecord
from tempora_tta.store.results import Results
from tempora_tta.store.schema import ABOUT_WINNERS, CELL_COLUMNS
from tempora_tta.store.scores import non_finite_scores
from tempora_tta.store.segments import segments_frame
from tempora_tta.store.verdicts import VERDICTS

_JOB = ("model", "dataset", "severity", "batch_size", "scenarios", "clock", "stream")
"""Entries of run.json that are the same in every part of one job."""
_LISTS = ("methods", "shifts", "seeds")
_BY_NAME = ("batches", "method_settings")
"""Entries of which each part has its own, and parts that share one agree about it."""
PROFILE = "profile.json"
_PASSES = ("weights", "preset", "deterministic", "version")
"""What decides every pass of a job alike."""


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
    folders = [RunFolder(path) for path in parts]
    for folder in folders:
        warn_of_problems(folder)
    manifests = [folder.manifest() for folder in folders]
    _check_one_job(folders, manifests)
    _check_one_lambda(folders, manifests)
    if RunFolder(out).has_manifest():
        raise TemporaError(f"{out} holds a run already: choose another folder")
    with RunFolder.for_writing(out) as target:
        for folder in folders:
            _copy_passes(folder, target)
        _copy_profile(folders, target)
        table = _joined_utilities(folders)
        target.write_utilities(table)
        together = _joined_manifest(manifests)
        missing = _missing(together, table)
        target.write_manifest(
            RunRecord.model_validate(
                {
                    **together,
                    "finished": not missing and all(manifest["finished"] for manifest in manifests),
                    "non_finite_scores": non_finite_scores(target, target.utilities()),
                }
            )
        )
        joined = Results(target)
        target.write_segments(segments_frame(joined))
        target.seal()
    return Merged(joined, missing)


def _check_one_job(folders: Sequence[RunFolder], manifests: Sequence[Mapping[str, Any]]) -> None:
    """Refuse parts that were not made from the same network, data, methods, scenarios and version."""
    facts = [
        {name: manifest.get(name) for name in _JOB}
        | {f"{name} of {key}": value for name in _BY_NAME for key, value in manifest.get(name, {}).items()}
        for manifest in manifests
    ]
    for folder, known in zip(folders, facts, strict=True):
        for stored in folder.passes().values():
            known |= {name: stored.identity.get(name) for name in _PASSES}
    for (folder, first), (other, second) in itertools.combinations(zip(folders, facts, strict=True), 2):
        for name in (name for name in first if name in second and first[name] != second[name]):
            raise TemporaError(
                f"{folder.path} and {other.path} are not parts of one job: {name} is {first[name]!r} in the first "
                f"and {second[name]!r} in the second; give runs that differ in shifts, methods or seeds alone"
            )


def _check_one_lambda(folders: Sequence[RunFolder], manifests: Sequence[Mapping[str, Any]]) -> None:
    remedy = "profile one device (tempora profile), and run every part with --clock profile.json"
    kinds = {
        str(stored.identity.get("machine", "")) for folder in folders for stored in folder.passes().values()
    }
    if len(kinds - {""}) > 1:
        raise TemporaError(
            f"the parts were timed on different devices ({'; '.join(sorted(kinds))}): {remedy}"
        )
    baselines = {
        folder.path.name: manifest["baseline"]["baseline_ms"]
        for folder, manifest in zip(folders, manifests, strict=True)
    }
    if len(set(baselines.values())) > 1:
        found = ", ".join(f"{name} {value:.4g} ms" for name, value in baselines.items())
        raise TemporaError(f"the parts have different lambdas ({found}): {remedy}")


def _copy_passes(source: RunFolder, target: RunFolder) -> None:
    for stored in source.passes().values():
        place = target.path / "traces" / stored.path.name
        write_atomically(place, partial(_copy, stored.path))


def _copy_profile(folders: Sequence[RunFolder], target: RunFolder) -> None:
    """The longest: parts that met kinds of work which the others did not have added them to the one they share."""
    found = [path for folder in folders if (path := folder.path / PROFILE).exists()]
    if found:
        longest = max(found, key=lambda path: path.stat().st_size)
        write_atomically(target.path / PROFILE, partial(_copy, longest))


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def _joined_utilities(folders: Sequence[RunFolder]) -> pd.DataFrame:
    """All cells, ranked anew; where two parts have a cell, the one that worked. What was said about winners among the
    methods of a part is not about the whole: it is left to be worked out again."""
    table = pd.concat([Results(folder).utilities for folder in folders], ignore_index=True)
    worked_first = table.assign(worked=table["status"] != "ok").sort_values("worked", kind="stable")
    unique = worked_first.drop_duplicates(["method", *CELL_COLUMNS])
    rows: list[dict[str, Any]] = unique.drop(columns=["worked", *ABOUT_WINNERS]).to_dict("records")  # type: ignore[assignment]
    return utilities_frame(rows)


def _missing(manifest: Mapping[str, Any], table: pd.DataFrame) -> list[tuple[str, str, int]]:
    there = set(zip(table["method"], table["shift"], table["seed"].astype(int), strict=True))
    wanted = itertools.product(manifest["methods"], manifest["shifts"], manifest["seeds"])
    return [cell for cell in wanted if cell not in there]


def _joined_manifest(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The first part's run.json, with what belongs to the whole."""
    together = dict(manifests[0])
    together |= {name: _each_once(manifest[name] for manifest in manifests) for name in _LISTS}
    together["seeds"].sort()
    for name in (*_BY_NAME, "baselines", "workers"):
        known = [manifest[name] for manifest in reversed(manifests) if manifest.get(name)]
        if known:
            together[name] = {key: value for part in known for key, value in part.items()}
    if cards := [manifest["cards"] for manifest in manifests if manifest.get("cards")]:
        together["cards"] = {
            kind: {key: value for part in cards for key, value in part[kind].items()} for kind in cards[0]
        }
    configs = [manifest["config"] for manifest in manifests if manifest.get("config")]
    if len(configs) == len(manifests):
        together["config"] = {
            **configs[0],
            **{name: _each_once(config[name] for config in configs) for name in ("methods", "seeds")},
            "data": {
                **configs[0]["data"],
                "shifts": _each_once(config["data"]["shifts"] for config in configs),
            },
        }
    return {**together, "verdict": _worst([manifest.get("verdict") for manifest in manifests])}


def _each_once(lists: Iterable[Iterable[Any]]) -> list[Any]:
    found: list[Any] = []
    for entry in itertools.chain.from_iterable(lists):
        if entry not in found:
            found.append(entry)
    return found


def _worst(verdicts: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    known = [verdict for verdict in verdicts if verdict]
    return max(known, key=lambda verdict: VERDICTS.index(verdict["status"]), default=None)
