"""Joining run folders into one: the shards of one job, its seeds, or one job begun on several machines."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tempora_tta.errors import TemporaError
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.baselines import standard_above
from tempora_tta.store.cells import utilities_frame
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.kinds import mixed_devices_note, ranked_within_kinds
from tempora_tta.store.results import Results
from tempora_tta.store.schema import ABOUT_WINNERS, CELL_COLUMNS
from tempora_tta.store.scores import non_finite_scores
from tempora_tta.store.segments import segments_frame
from tempora_tta.store.verdicts import VERDICTS

_JOB = (
    *("model", "dataset", "severity", "methods", "shifts", "batch_size", "batches", "scenarios"),
    *("clock", "shared", "stream"),
)
"""Entries of run.json that are the same in every part of one job."""
PROFILE = "profile.json"
_PASSES = ("weights", "preset", "deterministic", "version")
"""What decides every pass of a job alike."""


@dataclass(frozen=True)
class Merged:
    """A joined folder, and the cells (method, shift, seed) that no part had."""

    results: Results
    missing: list[tuple[str, str, int]]


def merge(parts: Sequence[Path | str], out: Path | str, mix_devices: bool = False) -> Merged:
    """Join run folders of one job into `out`, a new folder. `tempora run` can go on from there.

    Parts with different lambdas or kinds of device are refused: their utilities do not compare. `mix_devices` joins
    and ranks them all the same, and the manifest says so.
    """
    if len(parts) < 2:
        raise TemporaError("nothing to merge: give at least two run folders")
    folders = [RunFolder(path) for path in parts]
    manifests = [folder.manifest() for folder in folders]
    _check_one_job(folders, manifests)
    if not mix_devices:
        _check_one_lambda(folders, manifests)
    if RunFolder(out).has_manifest():
        raise TemporaError(f"{out} holds a run already: choose another folder")
    with RunFolder.for_writing(out) as target:
        for folder in folders:
            _copy_passes(folder, target)
        _copy_profile(folders, target)
        table = _joined_utilities(folders)
        target.write_utilities(table if mix_devices else ranked_within_kinds(table, target))
        seeds = sorted({seed for manifest in manifests for seed in manifest["seeds"]})
        missing = _missing({**manifests[0], "seeds": seeds}, table)
        target.write_manifest(_joined_manifest(folders, manifests, target, missing, mix_devices, seeds))
        joined = Results(target)
        target.write_segments(segments_frame(joined))
        target.seal()
    return Merged(joined, missing)


def _check_one_job(folders: Sequence[RunFolder], manifests: Sequence[Mapping[str, Any]]) -> None:
    """Refuse parts that were not made from the same network, data, methods, scenarios and version."""
    facts = [{name: manifest.get(name) for name in _JOB} for manifest in manifests]
    for folder, known in zip(folders, facts, strict=True):
        for stored in folder.passes().values():
            known |= {name: stored.identity.get(name) for name in _PASSES}
    for folder, known in zip(folders[1:], facts[1:], strict=True):
        for name, value in facts[0].items():
            if name in known and known[name] != value:
                raise TemporaError(
                    f"{folders[0].path} and {folder.path} are not parts of one job: {name} is {value!r} in the "
                    f"first and {known[name]!r} in the second; give the shards of one command, or its seeds"
                )


def _check_one_lambda(folders: Sequence[RunFolder], manifests: Sequence[Mapping[str, Any]]) -> None:
    remedy = (
        "run them again with one lambda (--set baseline_ms=...), or join them all the same with --mix-devices"
    )
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


def _joined_manifest(
    folders: Sequence[RunFolder],
    manifests: Sequence[Mapping[str, Any]],
    target: RunFolder,
    missing: Sequence[object],
    mix_devices: bool,
    seeds: Sequence[int],
) -> dict[str, Any]:
    """The first part's run.json, with what belongs to the whole worked out anew."""
    parts = [
        {
            "folder": folder.path.name,
            **{name: manifest.get(name) for name in ("shard", "machine", "baseline", "verdict")},
        }
        for folder, manifest in zip(folders, manifests, strict=True)
    ]
    together: dict[str, Any] = {**manifests[0], "shard": None, "merged_from": parts, "seeds": list(seeds)}
    if together.get("config"):
        together["config"] = {**together["config"], "seeds": list(seeds)}
    for name in ("baselines", "workers"):
        known = [manifest[name] for manifest in reversed(manifests) if manifest.get(name)]
        if known:
            together[name] = {key: value for part in known for key, value in part.items()}
    return {
        **together,
        "verdict": _worst([manifest.get("verdict") for manifest in manifests]),
        "finished": not missing and all(manifest.get("finished") for manifest in manifests),
        "standard_above_baseline": standard_above(target),
        "mixed_devices": mixed_devices_note(target, mix_devices),
        "non_finite_scores": non_finite_scores(target, target.utilities()),
    }


def _worst(verdicts: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    known = [verdict for verdict in verdicts if verdict]
    return max(known, key=lambda verdict: VERDICTS.index(verdict["status"]), default=None)
