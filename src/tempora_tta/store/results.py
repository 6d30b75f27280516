"""Results of a run as data frames, from a folder or from memory."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Resolved, Scenario, from_record
from tempora_tta.store.cells import is_oracle
from tempora_tta.store.check import warn_of_problems
from tempora_tta.store.files import damaged, warn
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.packs import open_folder
from tempora_tta.store.schema import KEY_COLUMNS, PASS_COLUMNS
from tempora_tta.store.segments import segments_frame
from tempora_tta.store.trace import Trace

if TYPE_CHECKING:
    from typing import Self


class Results:
    """Results of a run. `tempora.open_run(folder)` and `tempora.evaluate(...)` return one."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        """The files; what was read of their passes is kept."""
        self.known: dict[str, object] = {}
        """Answers worked out from these results, kept for the next question."""
        self.keeps_alive: object = None
        """A temporary folder or the like, not to be cleaned up while the results are in use."""
        self.opened_from = folder.path
        """The path that the user gave: the run folder, or the pack whose files lie in a passing place."""

    @classmethod
    def opened(cls, path: Path | str) -> Self:
        """The results in a run folder or a pack, for reading; warns where a file is not as it was written."""
        folder, kept = open_folder(path)
        warn_of_problems(folder)
        results = cls(folder)
        results.keeps_alive, results.opened_from = kept, Path(path)
        return results

    @property
    def is_packed(self) -> bool:
        """They come from a pack, not from a run folder."""
        return self.opened_from != self.folder.path

    @property
    def path(self) -> Path:
        return self.folder.path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """`run.json`: configuration, machine, lambda, verdict."""
        return self.folder.manifest()

    @cached_property
    def utilities(self) -> pd.DataFrame:
        """One row per cell: method, shift, seed and scenario."""
        return self.folder.utilities()

    @property
    def contenders(self) -> pd.DataFrame:
        """`utilities` without oracles: what is ranked, drawn and recommended."""
        oracle = is_oracle(self.utilities)
        return self.utilities[~oracle] if oracle.any() else self.utilities

    @property
    def ceilings(self) -> pd.DataFrame:
        """The rows of `utilities` whose settings were chosen by labels: what a perfect choice would have given. They
        are marked no longer, so that they can be pooled like others."""
        return self.utilities[is_oracle(self.utilities)].drop(columns="oracle", errors="ignore")

    @cached_property
    def cards(self) -> Cards:
        """The words in which the run's scenarios and methods present themselves."""
        try:
            return Cards.from_json(self.manifest["cards"])
        except TemporaError as error:
            raise damaged(self.folder.run_json, str(error)) from error

    @cached_property
    def segments(self) -> pd.DataFrame:
        """One row per cell and segment, of streams of many shifts: from the table, or from the passes."""
        stored = self.folder.segments()
        return segments_frame(self) if stored is None else stored

    @cached_property
    def scenarios(self) -> list[Scenario]:
        """The scenarios of the run, as `utilities.scenario` counts them."""
        return [from_record(record, self._card_of(record)) for record in self.manifest["scenarios"]]

    def _card_of(self, record: Mapping[str, Any]) -> Any:
        """The card of a user's scenario; those of ours have their own."""
        told = record.get("described")
        return self.cards.scenarios.get(str(told.get("protocol"))) if isinstance(told, dict) else None

    def passes_of(
        self, cell: pd.Series, predictions: bool = True
    ) -> tuple[Trace, Trace | None, Trace | None]:
        """The batches that a cell was scored from, of one length: adapting ones, and where they are another pass's,
        frozen ones and those that the fallback answered."""
        adapting, frozen, fallback = (
            self.folder.trace(cell[name], predictions) if isinstance(cell[name], str) else None
            for name in PASS_COLUMNS
        )
        assert adapting is not None, "cells that are ok have a pass"
        for other in (frozen, fallback):
            if other is not None and other.num_batches != adapting.num_batches:
                raise TemporaError(
                    f"{_name_of(cell)}: its passes have {adapting.num_batches} and {other.num_batches} batches; "
                    "run the same command again to make them again"
                )
        return adapting, frozen, fallback

    def trace(self, cell: pd.Series, predictions: bool = True) -> Trace:
        """The batches of one cell (a row of `utilities`), placed on that cell's own clock; without `predictions` it
        is read faster."""
        if cell["status"] != "ok":
            raise TemporaError(f"this cell has no trace: {cell['status']}")
        adapting, frozen, fallback = self.passes_of(cell, predictions)
        resolved = self.resolved(cell, adapting.num_batches)
        # A pass of the cell's own was driven by its clock and lies on it as it is stored, undone attempts aside.
        own = cell["origin"] == "live" and frozen is None and np.isnan(adapting.attempt_predict_ms).all()
        trace = adapting if own else adapting.on_timeline(resolved, frozen, fallback)
        found = trace.utility(resolved)
        if not abs(found - cell["utility"]) <= 1e-9:
            warn(
                f"{_name_of(cell)}: its batches give utility {found:.6f}, utilities.parquet says "
                f"{cell['utility']:.6f}. One of the files in {self.path} is of another run, or was changed"
            )
        return trace

    def resolved(self, cell: pd.Series, num_batches: int) -> Resolved:
        """The deployment of a cell, with the arrivals that its stream met."""
        identity = self.folder.stored(cell["adapting_pass"]).identity
        return self.scenarios[int(cell["scenario"])].resolve(
            num_batches=num_batches,
            batch_size=int(self.manifest["batch_size"]),
            baseline_ms=float(cell["baseline_ms"]),
            seed=int(identity["seed"]),
            shift=str(identity["shift"]),
        )

    @cached_property
    def traces(self) -> pd.DataFrame:
        """The batches of every cell, one row each, with the columns that name the cell."""
        frames = [
            self.trace(cell).to_frame().assign(**{name: cell[name] for name in KEY_COLUMNS})
            for _, cell in self.utilities[self.utilities["status"] == "ok"].iterrows()
        ]
        nothing = Trace.empty(0, 0).to_frame().assign(**dict.fromkeys(KEY_COLUMNS))
        together = pd.concat(frames, ignore_index=True) if frames else nothing
        return together[[*KEY_COLUMNS, *(name for name in together.columns if name not in KEY_COLUMNS)]]

    def save(self, folder: Path | str) -> Path:
        """Copy the run folder to `folder`, which must not hold a run yet."""
        target = Path(folder)
        if (target / "run.json").exists():
            raise TemporaError(f"{target} holds a run already: choose another folder")
        shutil.copytree(
            self.path,
            target,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("run.lock", "*.damaged", "*.part"),
        )
        return target


@dataclass(frozen=True)
class Evaluated:
    """A method as a run evaluated it, in plain data, so that the same one can be made again."""

    name: str
    """A name of ours, or `module:Class`."""
    settings: Mapping[str, Any]
    runtime: str = "eager"
    preset: str | None = None


def evaluated(results: Results, method: str) -> Evaluated | None:
    """The method that a run calls by this label; None where its passes do not say, as in a pack without traces."""
    cells = results.utilities
    keys = cells.loc[(cells["method"] == method) & (cells["status"] == "ok"), "adapting_pass"]
    try:
        identity = results.folder.stored(str(keys.iloc[0])).identity
        return Evaluated(
            str(identity["name"]),
            dict(identity["settings"]),
            str(identity.get("runtime", "eager")),
            identity.get("preset"),
        )
    except (TemporaError, LookupError, TypeError, ValueError):
        return None


def open_run(path: Path | str) -> Results:
    """Open a run folder or a pack for reading."""
    return Results.opened(path)


def _name_of(cell: pd.Series) -> str:
    return f"{cell['method']} on {cell['shift']}, {cell['label']}"
