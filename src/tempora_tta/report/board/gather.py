"""Which runs stand on a board: those whose files verify and that are what they call themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from tempora_tta.analysis.circumstances import SHIPPED, machine_name
from tempora_tta.analysis.doubt import doubt
from tempora_tta.analysis.frames import scored
from tempora_tta.analysis.outcomes import counted, over_shifts
from tempora_tta.errors import TemporaError
from tempora_tta.store import Results, RunFolder, open_run
from tempora_tta.store.integrity import checksum
from tempora_tta.store.made_with import weights_of
from tempora_tta.store.manifest import Manifest
from tempora_tta.store.packs import check_run, is_pack
from tempora_tta.store.schema import ABOUT_WINNERS

Departures = Callable[[Results], list[str]]
"""How a run differs from the suite that it names: nothing, or a phrase for each."""

CONFIGURATION = (
    "model",
    "dataset",
    "severity",
    "shifts",
    "seeds",
    "stream",
    "batch_size",
    "batches",
    "scenarios",
)
"""What two runs have in common, as their run.json says, if one continues the history of the other; device, weights
and the runtime of the predictions come to it. Settings are compared method by method."""


_ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What a stranger's values may raise where no check foresaw them."""


class Refused(NamedTuple):
    """A run that does not stand on the board, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Entry:
    """A run that does."""

    name: str
    """Of its folder or file."""
    results: Results

    @property
    def manifest(self) -> Manifest:
        return self.results.manifest

    @property
    def network(self) -> str:
        return str(self.manifest["model"])

    @property
    def device(self) -> str:
        """Whose times these are; with the profile's id where only a path is known, which two machines may share."""
        name = machine_name(self.manifest).removeprefix("clock ")
        kind, _, profile = str(self.manifest["clock"]).partition(":")
        named = self.manifest.get("profile") or name.startswith(SHIPPED) or not profile
        return name if kind != "recorded" or named else f"{name}, profile {profile}"

    @property
    def stream(self) -> str:
        """The kind of stream, with the order of classes where it is not shuffled."""
        told = self.manifest.get("stream") or {}
        kind, classes = str(told.get("kind", "single")), told.get("classes", "shuffled")
        return kind if classes == "shuffled" else f"{kind}, classes {json.dumps(classes)}"

    @property
    def commit(self) -> str:
        """Short; a star where the tree had changes; empty where nothing is known."""
        machine = self.manifest.get("machine") or {}
        return str(machine.get("commit") or "")[:10] + ("*" if machine.get("dirty") else "")

    @property
    def commit_date(self) -> str:
        return str((self.manifest.get("machine") or {}).get("commit_date") or "")

    @property
    def configuration(self) -> str:
        """Equal for runs whose numbers may be followed from commit to commit."""
        told = {name: self.manifest.get(name) for name in CONFIGURATION}
        other = self.manifest.get("predict_with")
        told_too = [self.device, weights_of(self.results), other and other["runtime"]]
        return json.dumps([told, *told_too], sort_keys=True)

    @property
    def settings(self) -> dict[str, str]:
        """What else tells its numbers from those of other runs, as people read it."""
        manifest = self.manifest
        shifts, batches = manifest["shifts"], sorted(set(manifest["batches"].values()))
        return {
            "dataset": str(manifest.get("dataset") or "–"),
            "severity": str(manifest.get("severity") or "–"),
            "shifts": ", ".join(shifts) if len(shifts) < 3 else f"{len(shifts)} shifts",
            "batch_size": str(manifest["batch_size"]),
            "batches": "–".join(dict.fromkeys(str(count) for count in (batches[0], batches[-1]))),
            "seeds": ", ".join(map(str, manifest["seeds"])),
        }

    @property
    def has_traces(self) -> bool:
        return not self.results.folder.packed_without_traces

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row per method and scenario, over all shifts and seeds, with how sure it is."""
        rows = doubt(self.results).about(over_shifts(self.results.contenders, self.results.cards))
        return rows if self.has_traces else _as_stored(rows, self.results.contenders)

    @cached_property
    def ceilings(self) -> pd.DataFrame:
        """The same of oracles, which have no rank."""
        return over_shifts(self.results.ceilings, self.results.cards)

    def settle(self) -> None:
        """Work out `rows` and forget what they come from, which takes megabytes of every run on the board."""
        _ = self.rows, self.ceilings
        self.results.known.pop("doubt", None)
        self.results.folder.forget_traces()


class Gathered(NamedTuple):
    """What was given, sorted out."""

    entries: list[Entry]
    refused: list[Refused]
    repeated: list[Refused]
    """Runs that came before, under another name or as a pack: they stand there once."""


def gather(paths: Sequence[Path], departures: Departures) -> Gathered:
    """Open every run and pack; those that do not verify, or depart from the suite that they name, are refused."""
    found, seen = Gathered([], [], []), dict[str, str]()
    for path, name in zip(paths, _names(paths), strict=True):
        with refusing(found, path):
            entry = Entry(name, _opened(path, departures))
            first = seen.setdefault(_which(entry.results), name)
            if first != name:
                found.repeated.append(Refused(str(path), f"it is the same run as {first}"))
            else:
                found.entries.append(entry)
    check_any(found)
    return found


@contextmanager
def refusing(found: Gathered, path: Path, lies_in: Path | None = None) -> Iterator[None]:
    """Whatever one run raises is the reason why it is refused, and the others stay. `lies_in`: where the files of a
    pack are for a while, which tells nobody anything."""
    try:
        yield
    except (TemporaError, *_ODD) as error:
        reason = (
            str(error) if isinstance(error, TemporaError) else f"it holds what no run leaves ({error!r:.200})"
        )
        shown = reason if lies_in is None else reason.replace(str(lies_in), str(path))
        found.refused.append(Refused(str(path), shown))


def check_any(found: Gathered) -> None:
    """An error where nothing is left to show."""
    if not found.entries:
        reasons = "; ".join(f"{path}: {reason}" for path, reason in found.refused)
        raise TemporaError(f"none of {len(found.refused)} runs can stand on a board: {reasons}")


def _which(results: Results) -> str:
    """Equal for a run folder, its copies and its packs."""
    return checksum({name: value for name, value in results.manifest.items() if name != "traces_left_out"})


def _opened(path: Path, departures: Departures) -> Results:
    if not is_pack(path):  # which is checked when it is opened
        check_run(RunFolder(path))
    results = open_run(path)
    if not results.manifest["finished"]:
        raise TemporaError("it is not finished: let the same command go on first")
    if results.utilities["utility"].notna().sum() == 0:
        raise TemporaError("no cell of it has a utility")
    if departs := departures(results):
        raise TemporaError(f"it departs from the suite that it names: {'; '.join(departs)}")
    return results


def _as_stored(rows: pd.DataFrame, utilities: pd.DataFrame) -> pd.DataFrame:
    """Without traces: how sure the run was of each cell, where a row stands for one; of several nobody knows."""
    cells = scored(counted(utilities))
    if cells.duplicated(["method", "scenario"]).any():
        return rows
    known = cells.set_index(["method", "scenario"])[list(ABOUT_WINNERS)]
    return rows.drop(columns=list(ABOUT_WINNERS)).join(known, on=["method", "scenario"])


def _names(paths: Iterable[Path]) -> list[str]:
    """Short and distinct: the last part of each path, and a number where it comes again."""
    seen: dict[str, int] = {}
    names = []
    for path in paths:
        short = path.resolve().name.removesuffix(".tempora")
        seen[short] = seen.get(short, 0) + 1
        names.append(short if seen[short] == 1 else f"{short} ({seen[short]})")
    return names
