"""What the driver of a cluster finds in its run folder: finished passes, and the cells that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tempora_tta.data import Order
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.pass_maker import PassMaker
from tempora_tta.engine.task import OFFLINE, PassMissing, Task
from tempora_tta.store import Cell, RunFolder, StoredPass, pass_key
from tempora_tta.timing import Baseline


class Finished:
    """The tasks of a job, as far as their passes are on disk. It makes none."""

    def __init__(self, job: Job, folder: RunFolder, baseline: Callable[[str], Baseline | None]) -> None:
        self._job, self._folder = job, folder
        self._baseline = baseline
        """lambda by kind of device; None where it has yet to be measured."""
        self._jobs: dict[str, Job] = {}
        """The job as each kind of device has it."""

    def cells(self, spec: MethodSpec, source: Order) -> list[Cell] | None:
        """The cells of a task whose passes are all there; None if one is missing."""
        for kind in dict.fromkeys(stored.identity["machine"] for stored in self.passes(spec, source)):
            baseline = self._baseline(kind)
            if baseline is None:
                continue
            try:
                return self.task(spec, source, kind, baseline).cells()
            except PassMissing:
                continue
        return None

    def passes(self, spec: MethodSpec, source: Order) -> list[StoredPass]:
        """The passes of a task that were made before, all of them or not."""
        wanted = {"method": spec.label, "shift": source.shift, "seed": source.seed}
        return [found for found in self._folder.passes().values() if wanted.items() <= found.identity.items()]

    def task(self, spec: MethodSpec, source: Order, kind: str, baseline: Baseline) -> Task:
        """A task that finds passes and makes none."""

        def missing() -> Any:
            raise PassMissing

        if kind not in self._jobs:
            self._jobs[kind] = replace(self._job, machine_kind=kind) if self._job.measured else self._job
        return Task(
            PassMaker(
                job=self._jobs[kind],
                spec=spec,
                source=source,
                baseline=baseline,
                folder=self._folder,
                drift=None,
                observer=Observer(),
                open_stream=missing,
            )
        )

    def with_frozen_batches(self, source: Order, cells: list[Cell]) -> list[Cell]:
        """A stateless method's frozen batches are Standard's; what Standard predicts, it predicts on every device."""
        passes = self._folder.passes()
        kinds = sorted({stored.identity["machine"] for stored in passes.values()})
        stand_in: dict[str | None, str] = {}
        for standard in (spec for spec in self._job.methods if spec.is_standard):
            identity = self._job.identity(standard, source, OFFLINE)
            keys = [pass_key({**identity, "machine": kind}) for kind in kinds]
            there = next((key for key in keys if key in passes), None)
            stand_in |= {key: there for key in keys if key not in passes and there is not None}
        return [replace(cell, frozen_pass=stand_in.get(cell.frozen_pass, cell.frozen_pass)) for cell in cells]
