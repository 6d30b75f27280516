"""A worker: holds one device, rebuilds the job from its configuration, and makes tasks for a driver elsewhere.

Nothing here knows about Ray: a worker is asked to introduce itself, to measure standard inference, and to make
tasks; it answers with plain records.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tempora_tta.config import checked
from tempora_tta.data import Streams
from tempora_tta.engine.build import build_job
from tempora_tta.engine.job import Job
from tempora_tta.engine.measured import Drift, calibrate, warm_up_all
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.own_profile import OwnProfile, profiled_device, recorded_alone
from tempora_tta.engine.pass_maker import PassMaker
from tempora_tta.engine.task import Task
from tempora_tta.store import Cell, RunFolder, StoredPass, Trace, pass_key
from tempora_tta.timing import Baseline, Profile, ProfileClock
from tempora_tta.timing.record import MissingWork


@dataclass(frozen=True)
class PassRecord:
    """A finished pass on its way between machines."""

    identity: dict[str, Any]
    facts: dict[str, Any]
    trace: Trace

    @classmethod
    def of(cls, stored: StoredPass) -> PassRecord:
        return cls(stored.identity, stored.facts, stored.trace())


@dataclass(frozen=True)
class Introduction:
    """Who a worker is."""

    node: str
    """Its host and process, as people look for it."""
    kind: str
    """Of device: what lambda belongs to."""
    machine: dict[str, Any]
    fingerprint: str
    """Of the job as this worker sees it: other weights or data on its disk show here."""


@dataclass(frozen=True)
class Done:
    """A task's cells, and the passes that were made for them."""

    cells: list[Cell]
    passes: list[PassRecord]
    profile: dict[str, Any] | None = None
    """With the kinds of work that were met, if there were new ones."""
    rounds_before: int = 0
    """Rounds of the profile as it was handed to the worker."""


class Worker:
    """One device's worth of a run."""

    def __init__(self, config: Mapping[str, Any], profile: bytes | None) -> None:
        """`profile`: what the clock looks times up in, if it does."""
        with tempfile.TemporaryDirectory(prefix="tempora-") as folder:
            if profile is not None:  # the driver's disk need not be ours
                path = Path(folder) / "clock.json"
                path.write_bytes(profile)
                config = {**config, "clock": str(path)}
            self._job = build_job(checked(config))
        self._streams = Streams(self._job.open_stream)

    def introduce(self) -> Introduction:
        return Introduction(
            node=f"{socket.gethostname()}/{os.getpid()}",
            kind=self._job.machine_kind,
            machine=dict(self._job.machine),
            fingerprint=job_fingerprint(self._job),
        )

    def calibrate(self) -> Baseline:
        """lambda of this kind of device."""
        stream = self._streams.open(self._job.streams[0])
        warm_up_all(self._job, stream, Observer())
        return calibrate(self._job, stream, Observer())

    def profile(self) -> dict[str, Any]:
        """The steady profile of this device, recorded in a process of its own."""
        return recorded_alone(self._job, Observer()).to_json()

    def make(
        self,
        label: str,
        shift: str,
        seed: int,
        baseline: Baseline,
        finished: Sequence[PassRecord],
        profile: Mapping[str, Any] | None = None,
    ) -> Done:
        """One method on one stream, into a folder of its own; `finished` passes are not made again.

        `profile`: the steady one that drives the passes, of this device or another.
        """
        job = self._job
        given = None
        if isinstance(job.clock, ProfileClock) and profile is not None:
            given = job.clock.profile = Profile.model_validate(profile)
        spec = next(spec for spec in job.methods if spec.label == label)
        source = next(found for found in job.streams if (found.shift, found.seed) == (shift, seed))

        @cache
        def drift() -> Drift:
            return Drift(job, self._streams.open(source), baseline)

        with tempfile.TemporaryDirectory(prefix="tempora-") as place, RunFolder.for_writing(place) as folder:
            known = {
                folder.write_pass(record.identity, record.trace, record.facts).key for record in finished
            }
            task = Task(
                PassMaker(
                    job=job,
                    spec=spec,
                    source=source,
                    baseline=baseline,
                    folder=folder,
                    drift=drift if job.measured else None,
                    observer=Observer(),
                    open_stream=lambda: self._streams.open(source),
                    learn=self._learns(given, folder),
                )
            )
            cells = task.cells()
            made = [PassRecord.of(stored) for key, stored in folder.passes().items() if key not in known]
        if given is None or not isinstance(job.clock, ProfileClock) or job.clock.profile is given:
            return Done(cells, made)
        return Done(cells, made, job.clock.profile.to_json(), len(given.rounds))

    def _learns(self, profile: Profile | None, folder: RunFolder) -> Callable[[MissingWork], None] | None:
        """How to add a kind of work to the profile; None where it is another device's."""
        clock = self._job.clock
        if profile is None or not isinstance(clock, ProfileClock) or not clock.own:
            return None
        own = OwnProfile(self._job, clock, folder.path, Observer())
        return own.learn if profile.device == profiled_device(self._job) else None


def job_fingerprint(job: Job) -> str:
    """Of everything that decides the passes of a job except the device they are timed on."""
    identities = [
        {**job.identity(spec, source, "any"), "machine": ""} for spec in job.methods for source in job.streams
    ]
    keys = json.dumps([pass_key(identity) for identity in identities])
    return hashlib.sha256(keys.encode()).hexdigest()[:16]
