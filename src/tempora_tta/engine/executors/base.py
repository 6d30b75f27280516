"""What a run asks of an executor: lambda, the cells of its tasks, and what was noticed where they ran."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from tempora_tta.engine.job import Job
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.schedule import Tasks
from tempora_tta.store import Cell, RunFolder
from tempora_tta.timing import Baseline


class Executor(ABC):
    """Makes tasks. The run says which, scores their cells, and writes the tables and the manifest."""

    def __init__(self, job: Job, folder: RunFolder, observer: Observer) -> None:
        self.job = job
        self.folder = folder
        self.observer = observer
        self.baselines: dict[str, Baseline] = {}
        """lambda by kind of device."""

    @abstractmethod
    def start(self) -> Baseline:
        """lambda: given or recorded with the clock; else the one this folder began with; else measured now."""

    @abstractmethod
    def cells(self, tasks: Tasks) -> Iterator[list[Cell]]:
        """Cells of tasks as they are done, their passes on disk; those of one stream before those of the next."""

    def facts(self) -> dict[str, Any]:
        """What run.json should say about where the tasks ran."""
        return {"baselines": {kind: baseline.to_json() for kind, baseline in self.baselines.items()}}

    @abstractmethod
    def close(self) -> None:
        """Let go of streams and workers, also after an error."""


def begun_baselines(job: Job, folder: RunFolder) -> dict[str, Baseline]:
    """lambda by kind of device of the run that this one resumes: from run.json or, if that was lost, its passes.

    A run of another network or batch size in the same folder has a lambda of its own, which is no use here; nor is
    one that was given, recorded, or measured in another way.
    """
    known: dict[str, Any] = {}
    if folder.has_manifest() and "baselines" in (manifest := folder.manifest()):
        if (manifest["model"], manifest["batch_size"]) == (job.model.name, job.streams[0].batch_size):
            known = manifest["baselines"]
    else:
        for stored in folder.passes().values():
            of = (stored.identity["model"], stored.identity["batch_size"])
            if stored.facts.get("baseline") and of == (job.model.name, job.streams[0].batch_size):
                known.setdefault(stored.identity["machine"], stored.facts["baseline"])
    found = {kind: Baseline(**facts) for kind, facts in known.items()}
    wanted = ("measured", job.config.provision, job.config.calibration_batches)
    return {kind: one for kind, one in found.items() if (one.source, one.provision, one.batches) == wanted}
