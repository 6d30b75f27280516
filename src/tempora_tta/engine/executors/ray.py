"""On a Ray cluster: one worker per whole device, one task at a time each, results into the driver's run folder.

A worker is a Ray actor that holds one GPU, or a fixed number of processor cores, for as long as it lives: it loads
the network once, keeps the shift it has decoded, and never shares its device while it times. The driver hands out
tasks, longest first, and is the only one that writes. A worker that is lost costs the task it had, which goes to
another; a task that raises, or that takes several workers down, becomes failed cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tempora_tta.config import RunConfig
from tempora_tta.data import Order
from tempora_tta.engine.build import build_job
from tempora_tta.engine.executors.base import Executor, begun_baselines
from tempora_tta.engine.executors.ray_cluster import Cluster, Hand, Lost
from tempora_tta.engine.executors.ray_finished import Finished
from tempora_tta.engine.executors.worker import Done, Introduction, PassRecord, job_fingerprint
from tempora_tta.engine.job import Job
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.engine.own_profile import PROFILE_FILE, needs
from tempora_tta.engine.predicting import check_predict_with
from tempora_tta.engine.runtime import EAGER
from tempora_tta.engine.schedule import Pending, Tasks, pick, rough_cost
from tempora_tta.errors import TemporaError
from tempora_tta.store import Cell, RunFolder
from tempora_tta.timing import Baseline, Profile, ProfileClock, load_profile

MOST_LOSSES = 3
"""Workers that one task may take down before it is given up."""

Made = list[tuple[Pending, list[Cell]]]
"""Tasks that are done, or given up, with their cells."""


def driver_job(config: RunConfig, observer: Observer | None = None) -> Job:
    """The job as the driver needs it: on the processor, because devices belong to the workers."""
    job = build_job(replace(config, device="cpu", predict_with=None), observer)
    check_predict_with(config.predict_with or EAGER, None, job.measured)
    return replace(job, config=config)


class RayExecutor(Executor):
    """Hands the tasks of a run to the workers of a cluster."""

    def __init__(
        self,
        job: Job,
        folder: RunFolder,
        observer: Observer,
        *,
        config: RunConfig,
        address: str | None = None,
        cluster: Any = None,
    ) -> None:
        """`cluster`: where the workers are; default, the Ray cluster at `address`."""
        super().__init__(job, folder, observer)
        self.cluster = cluster or Cluster(config, address, observer)
        self._finished = Finished(
            job, folder, lambda kind: None if self._needs_calibration(kind) else self._baseline(kind)
        )
        self._fingerprint = job_fingerprint(job)
        self._calibrating: Hand | None = None
        self._losses: Counter[str] = Counter()
        self._pending: list[Pending] = []
        self._workers: dict[str, dict[str, Any]] = {}

    # -- what a run asks -----------------------------------------------------------------------------------

    def start(self) -> Baseline:
        if isinstance(self.job.clock, ProfileClock) and self.job.clock.own:
            # lambda belongs to the device that was profiled, whoever makes the predictions.
            steady = self._profile(self.job.clock)
            self.job = replace(self.job, baseline=self.job.baseline or steady)
        if self.job.baseline is not None:
            return self.job.baseline
        self.baselines = begun_baselines(self.job, self.folder)
        while not self.baselines:
            self._turn()
        return next(iter(self.baselines.values()))

    def _profile(self, clock: ProfileClock) -> Baseline:
        """lambda, with this folder's profile behind the clock; the first worker records it where there is none."""
        path = self.folder.path / PROFILE_FILE
        if path.exists():
            kept = load_profile(path)
            if isinstance(kept, Profile) and not needs(self.job, kept) and kept.weights == self.job.weights:
                clock.profile = kept
        while not clock.recorded:
            self._turn()
        clock.profile.save(path)
        return clock.profile.baseline(clock.provision_x)

    def cells(self, tasks: Tasks) -> Iterator[list[Cell]]:
        found: dict[Order, list[Cell]] = {}
        missing: Counter[Order] = Counter()
        for source, specs in tasks:
            found[source] = []
            for spec in specs:
                cells = self._finished.cells(spec, source)
                if cells is None:
                    self._pending.append(Pending(spec, source, rough_cost(self.job, spec, source)))
                    missing[source] += 1
                else:
                    found[source] += cells
                    self.observer.task_finished(spec.label, source.shift, source.seed)
        while True:
            for source in [source for source in found if not missing[source]]:
                yield self._finished.with_frozen_batches(source, found.pop(source))
            if not found:
                return
            for task, cells in self._turn():
                found[task.source] += cells
                missing[task.source] -= 1

    def facts(self) -> dict[str, Any]:
        before: Mapping[str, Any] = self.folder.manifest() if self.folder.has_manifest() else {}
        machines = [hand.about.machine for hand in self.cluster.hands if hand.about]
        machine = before.get("machine") if before.get("workers") else None
        return {
            **super().facts(),
            "workers": {**before.get("workers", {}), **self._workers},
            "machine": machine or (machines[0] if machines else self.job.machine),
        }

    def close(self) -> None:
        self.cluster.close()

    # -- lambda --------------------------------------------------------------------------------------------

    def _needs_calibration(self, kind: str) -> bool:
        return self.job.baseline is None and kind not in self.baselines

    def _baseline(self, kind: str) -> Baseline:
        return self.job.baseline or self.baselines.get(kind) or next(iter(self.baselines.values()))

    # -- the workers ---------------------------------------------------------------------------------------

    def _turn(self) -> Made:
        """Keep every worker busy, wait a moment, and take in what has come back."""
        if self.observer.stop_requested:
            raise Stopped
        self.cluster.hire(sum(hand.task is not None for hand in self.cluster.hands) + len(self._pending))
        for hand in self.cluster.idle():
            self._employ(hand)
        made: Made = []
        for hand, asked, answer in self.cluster.answers():
            if isinstance(answer, Lost):
                made += self._lost(hand)
            elif isinstance(answer, BaseException):
                made += self._refused(hand, asked, answer)
            else:
                made += self._take(hand, asked, answer)
        return made

    def _employ(self, hand: Hand) -> None:
        """Give an idle worker what is next for it: lambda first, then a task."""
        if isinstance(self.job.clock, ProfileClock) and not self.job.clock.recorded:
            if self._calibrating is None:
                self._calibrating = hand
                self.cluster.ask(hand, "profile")
        elif self._needs_calibration(hand.kind):
            if self._calibrating is None:
                self._calibrating = hand
                self.cluster.ask(hand, "calibrate")
        elif self._pending:
            task = hand.task = pick(self._pending, hand.open_shift)
            self._pending.remove(task)
            hand.open_shift = task.source.shift
            self.observer.task_started(
                f"{task.spec.label} on {hand.node}", task.source.shift, task.source.seed
            )
            finished = [PassRecord.of(stored) for stored in self._finished.passes(task.spec, task.source)]
            names = (task.spec.label, task.source.shift, task.source.seed)
            steady = self.job.clock.profile.to_json() if isinstance(self.job.clock, ProfileClock) else None
            self.cluster.ask(hand, "make", *names, self._baseline(hand.kind), finished, steady)

    def _take(self, hand: Hand, asked: str, answer: Any) -> Made:
        """An answer came: note it; if it is a finished task, put its passes on disk."""
        if asked == "begin":
            self._welcome(hand, answer)
        elif asked == "profile":
            assert isinstance(self.job.clock, ProfileClock)
            self._calibrating = None
            self.job.clock.profile = Profile.model_validate(answer)
        elif asked == "calibrate":
            self._calibrating = None
            self.baselines[hand.kind] = answer
        else:
            finished = self._finish(hand, answer)
            return [] if finished is None else [finished]
        return []

    def _welcome(self, hand: Hand, about: Introduction) -> None:
        if about.fingerprint != self._fingerprint:
            self._dismiss(hand, f"{about.node} has other weights, data or versions than the driver")
            return
        self._check_kind(about.kind)
        hand.about = about
        if self.job.baseline is not None:
            self.baselines[about.kind] = self.job.baseline
        self._workers[hand.node] = {"kind": about.kind, "tasks": 0}

    def _check_kind(self, kind: str) -> None:
        """Times of unlike devices do not compare. Where times are looked up, any device may predict."""
        kinds = {worker["kind"] for worker in self._workers.values()}
        if self.job.measured:
            kinds |= {stored.identity["machine"] for stored in self.folder.passes().values()} - {""}
        if not kinds - {kind}:
            return
        mixed = ", ".join(sorted(kinds | {kind}))
        if self.job.measured:
            raise TemporaError(
                f"--clock measured on unlike devices ({mixed}): their times do not compare; use --clock steady, or "
                "devices of one kind and a folder of their own"
            )
        if kind not in kinds:
            self.observer.note(
                f"passes are made by unlike devices ({mixed}), whose predictions may differ a little"
            )

    def _finish(self, hand: Hand, done: Done) -> tuple[Pending, list[Cell]] | None:
        """A task is done; None if it has to be done again."""
        task = hand.task
        assert task is not None
        hand.task = None
        if not self._take_profile(done):
            self._pending.append(task)
            return None
        for record in done.passes:
            self.folder.write_pass(record.identity, record.trace, record.facts)
        self._workers[hand.node]["tasks"] += 1
        self.observer.task_finished(f"{task.spec.label} on {hand.node}", task.source.shift, task.source.seed)
        return task, done.cells

    def _take_profile(self, done: Done) -> bool:
        """Add the kinds of work that a worker met and profiled; False if another had been quicker to do so."""
        clock = self.job.clock
        if not isinstance(clock, ProfileClock):
            return True
        if done.profile is not None:
            clock.profile = clock.profile.with_new(Profile.model_validate(done.profile), done.rounds_before)
            clock.profile.save(self.folder.path / PROFILE_FILE)
        return all(clock.still_holds(record.facts.get("times", {})) for record in done.passes)

    # -- what goes wrong -----------------------------------------------------------------------------------

    def _lost(self, hand: Hand) -> Made:
        """A worker died: its task goes to another, unless it has cost too many already."""
        self._release(hand)
        task = hand.task
        if task is None:
            self._losses["before any task"] += 1
            if self._losses["before any task"] > 2 * MOST_LOSSES:
                self.cluster.broken.append(
                    "it ends before its first task; its own output, or Ray's logs, say why"
                )
            return []
        self._losses[task.name] += 1
        if self._losses[task.name] < MOST_LOSSES:
            self.observer.note(f"lost the worker on {hand.node}; {task.name} will be made again")
            self._pending.append(task)
            return []
        return [self._give_up(hand, f"{MOST_LOSSES} workers died of it")]

    def _refused(self, hand: Hand, asked: str, cause: BaseException) -> Made:
        """A worker raised: the task is recorded as failed, or the worker is no use and is let go."""
        if asked == "make":
            return [self._give_up(hand, f"{type(cause).__name__}: {cause}")]
        self._dismiss(hand, str(cause))
        return []

    def _give_up(self, hand: Hand, reason: str) -> tuple[Pending, list[Cell]]:
        task, hand.task = hand.task, None
        assert task is not None
        self.observer.note(f"{task.name} failed: {reason}")
        self.observer.task_finished(f"{task.spec.label} on {hand.node}", task.source.shift, task.source.seed)
        made_nothing = self._finished.task(task.spec, task.source, hand.kind, self._baseline(hand.kind))
        return task, made_nothing.failed(reason)

    def _dismiss(self, hand: Hand, reason: str) -> None:
        self.observer.note(f"a worker cannot take part: {reason}")
        self.cluster.broken.append(reason)
        self._release(hand)

    def _release(self, hand: Hand) -> None:
        self.cluster.release(hand)
        if self._calibrating is hand:
            self._calibrating = None
