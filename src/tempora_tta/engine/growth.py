"""A run folder that held a run before: which of its results stay in the table, and what is said about the others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tempora_tta import methods
from tempora_tta.data import Order
from tempora_tta.engine.code_hash import code_hash
from tempora_tta.engine.job import Job
from tempora_tta.errors import TemporaError, counted
from tempora_tta.measure import SteadyClock
from tempora_tta.published.methods import MethodCard
from tempora_tta.scenarios import Scenario, to_record
from tempora_tta.store import Results, RunFolder, StoredPass
from tempora_tta.store.schema import PASS_COLUMNS

_CONTEXT = {
    "model": "network",
    "weights": "weights",
    "network": "code of the network",
    "data": "data",
    "batch_size": "batch size",
    "stream": "stream",
    "num_batches": "number of batches",
    "clock": "clock",
    "preset": "preset",
    "predict_with": "runtime of the predictions",
    "deterministic": "deterministic setting",
    "version": "version of Tempora",
}
"""What a pass has in common with the others on its stream, whatever the method, and how people call it."""


@dataclass(frozen=True)
class Earlier:
    """What a folder's earlier run leaves to the present one."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """Cells of methods that the present run does not have, and that would come out the same in it."""
    labels: dict[str, str] = field(default_factory=dict)
    """Those methods, as tables print them."""
    cards: dict[str, MethodCard] = field(default_factory=dict)
    """What they say of themselves."""
    passes: list[StoredPass] = field(default_factory=list)
    """A pass of each."""
    notes: tuple[str, ...] = ()
    """What the user should know about the others."""

    def with_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration that has the earlier methods too: what an audit needs to make their cells again."""
        identities = [stored.identity for stored in self.passes]
        entries = [
            {"name": found["name"], "label": found["method"].partition("@")[0], **found["settings"]}
            for found in identities
        ]
        known = {entry["label"] for entry in config["methods"] if isinstance(entry, dict)}
        more = [entry for entry in entries if entry["label"] not in {*known, *config["methods"]}]
        runtimes = [found["runtime"] for found in identities if "runtime" in found]
        return {
            **config,
            "methods": [*more, *config["methods"]],
            "runtimes": list(dict.fromkeys([*config["runtimes"], *runtimes])),
        }


def earlier_results(job: Job, folder: RunFolder, baselines_ms: Mapping[str, float]) -> Earlier:
    """The methods of the folder's table that `job` does not have, as far as all their cells hold in it too."""
    if not folder.has_manifest() or (table := folder.utilities()).empty:
        return Earlier()
    manifest = folder.manifest()
    if "imported" in manifest:
        raise TemporaError(f"{folder.path} holds imported results: name another folder for this run")
    before = Results(folder)
    looked = _Looked(job, before, table, baselines_ms)
    kept: dict[str, list[dict[str, Any]]] = {}
    notes = looked.gone()
    own = {spec.label for spec in job.methods}
    for method in (name for name in manifest["methods"] if name not in own):
        try:
            kept[method] = looked.cells_of(method)
        except _NoLonger as reason:
            notes.append(f"{method} is no longer in the table: {reason}. Its passes are kept")
    if kept:
        cells = counted(sum(map(len, kept.values())), "cell")
        notes.insert(0, f"{', '.join(kept)} of the run before stay in the table ({cells}, unchanged)")
    labels = manifest.get("method_labels") or {}
    passes = [looked.pass_of(rows) for rows in kept.values()]
    return Earlier(
        rows=[row for rows in kept.values() for row in rows],
        labels={method: labels.get(method, method) for method in kept},
        cards={method: before.cards.method(method) for method in kept},
        passes=passes,
        notes=tuple(notes),
    )


class _NoLonger(Exception):
    """Why a method's earlier cells do not hold in the present run."""


class _Looked:
    """The earlier run as the present one sees it."""

    def __init__(
        self,
        job: Job,
        before: Results,
        table: pd.DataFrame,
        baselines_ms: Mapping[str, float],
    ) -> None:
        self.job, self.folder, self.table = job, before.folder, table
        self.manifest = before.manifest
        self.labels = [scenario.label for scenario in before.scenarios]
        self.baselines_ms = baselines_ms
        """lambda by kind of device."""
        there = [_as_kept(scenario) for scenario in before.scenarios]
        wanted = [_as_kept(scenario) for scenario in job.scenarios]
        self.places = {there.index(spec): place for place, spec in enumerate(wanted) if spec in there}
        """The present place of each earlier scenario that is still there."""

    def gone(self) -> list[str]:
        """What the earlier table had and the present one will not have, whatever the method."""
        job, manifest = self.job, self.manifest
        lost: dict[str, set[Any]] = {
            "shift": set(manifest["shifts"]) - {source.shift for source in job.streams},
            "seed": set(manifest["seeds"]) - {source.seed for source in job.streams},
            "scenario": {label for place, label in enumerate(self.labels) if place not in self.places},
        }
        words = [
            f"{thing if len(names) == 1 else thing + 's'} {', '.join(sorted(map(str, names)))}"
            for thing, names in lost.items()
            if names
        ]
        notes = []
        if words:
            notes.append(
                f"no longer in the table: {'; '.join(words)}. Name them again to have them back; finished passes "
                "are kept"
            )
        own = {spec.label for spec in job.methods}
        changed = {
            reason
            for _, row in self.table[
                self.table["method"].isin(own) & (self.table["status"] == "ok")
            ].iterrows()
            if (reason := self._difference(row)) is not None
        }
        if changed:
            notes.append(
                f"the table of the run before is replaced: {'; '.join(sorted(changed))}. Its passes are kept"
            )
        return notes

    def cells_of(self, method: str) -> list[dict[str, Any]]:
        """All cells of the present run for an earlier method; raises where one is missing or would be another."""
        rows = self.table[(self.table["method"] == method) & self.table["scenario"].isin(self.places)]
        found: dict[tuple[str, int, int], dict[str, Any]] = {}
        for _, row in rows.iterrows():
            if row["status"] == "ok" and (reason := self._difference(row)) is not None:
                raise _NoLonger(reason)
            cell = {str(name): None if _is_nothing(value) else value for name, value in row.items()}
            place = self.places[int(row["scenario"])]
            found[row["shift"], int(row["seed"]), place] = {**cell, "scenario": place}
        wanted = [
            (source.shift, source.seed, place)
            for source in self.job.streams
            for place in range(len(self.job.scenarios))
        ]
        missing = [cell for cell in wanted if cell not in found]
        if missing or not (rows["status"] == "ok").any():
            what = f"{counted(len(missing), 'cell')} of this run" if missing else "a result"
            raise _NoLonger(f"it lacks {what}; name it again (--methods) to have it")
        self._check_code(method, self.pass_of([found[cell] for cell in wanted]))
        return [found[cell] for cell in wanted]

    def pass_of(self, rows: Sequence[Mapping[str, Any]]) -> StoredPass:
        key = next(row["adapting_pass"] for row in rows if row["status"] == "ok")
        return self.folder.stored(key)

    def _difference(self, row: pd.Series) -> str | None:
        """In what a cell's pass differs from those that the present run makes on the same stream."""
        source = self._source(row)
        if source is None:
            return None
        passes = self.folder.passes()
        keys = [row[name] for name in PASS_COLUMNS if isinstance(row[name], str)]
        if not all(key in passes for key in keys):
            return "passes of it are missing"
        before = passes[keys[0]].identity
        if self.job.measured and before.get("machine") not in self.baselines_ms:
            return f"it was timed on another machine ({before.get('machine')})"
        clock = self.job.clock
        if isinstance(clock, SteadyClock) and not all(
            clock.still_holds(passes[key].facts.get("times", {})) for key in keys
        ):
            return "its times were profiled anew"
        if row["baseline_ms"] not in self.baselines_ms.values():
            return f"its lambda was {row['baseline_ms']:.4g} ms"
        here = self.job.identity(self.job.methods[0], source, "")
        for name, called in _CONTEXT.items():
            was, now = before.get(name), here.get(name)
            if was != now:
                shown = f" ({was}, now {now})" if name in ("model", "batch_size", "num_batches") else ""
                return f"its {called} was another one{shown}"
        return None

    def _check_code(self, method: str, stored: StoredPass) -> None:
        """A method of the user's own that was edited since is another one."""
        if "source" not in stored.identity:
            return
        try:
            now = code_hash(methods.get(stored.identity["name"])).hash
        except (TemporaError, ImportError):
            raise _NoLonger("its code is not to be found, so it may have changed") from None
        if now != stored.identity["source"]:
            raise _NoLonger("its code was edited since; name it again (--methods) to run it") from None

    def _source(self, row: pd.Series) -> Order | None:
        wanted = (row["shift"], int(row["seed"]))
        return next((one for one in self.job.streams if (one.shift, one.seed) == wanted), None)


def _as_kept(scenario: Scenario) -> Any:
    """As run.json keeps it, so that an earlier one and a present one can be compared."""
    return json.loads(json.dumps(to_record(scenario)))


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)
