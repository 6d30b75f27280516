"""Running a job: a place makes its tasks, every finished pass is on disk, and the tables follow from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tempora_tta._numbers import percent
from tempora_tta.cards import Cards, scenario_cards
from tempora_tta.engine.clocks import clock_record
from tempora_tta.engine.job import STANDARD, Job
from tempora_tta.engine.measured import calibration, judged_run
from tempora_tta.engine.observer import Notes, Observer, Together
from tempora_tta.engine.own_profile import OwnProfile, keep_given
from tempora_tta.engine.pass_maker import PassMaker
from tempora_tta.engine.places import Here
from tempora_tta.engine.predicting import summarised as predict_with_summary
from tempora_tta.engine.task import Task
from tempora_tta.errors import TemporaError
from tempora_tta.published import known_accuracy
from tempora_tta.scenarios import Offline, to_record
from tempora_tta.store import Cell, Results, RunFolder, StoredPass, Trace, utilities_frame, utility_row
from tempora_tta.store.pictures import write_pictures
from tempora_tta.store.record import RunRecord, non_finite_scores
from tempora_tta.store.schema import PASS_COLUMNS
from tempora_tta.store.segments import segments_frame
from tempora_tta.store.verdicts import VALID, Verdict
from tempora_tta.timing import Baseline, Clock, ProfileClock

MOST_ROUNDS = 3
"""How often tasks are made: again where they met work that the profile had no time for."""


class Run:
    """One job on its way into one folder. The same job on the same folder does only what is missing."""

    def __init__(
        self,
        job: Job,
        folder: RunFolder,
        observer: Observer | None = None,
        place: Callable[[Job, RunFolder, Observer], Here] = Here,
        replace: bool = False,
    ) -> None:
        self.job = job
        self.folder = folder
        self._said = Notes()
        self.observer = Together(observer or Observer(), [self._said])
        self.replace = replace
        """Whether rows of an earlier run may leave the folder's table."""
        self.rows: list[dict[str, Any]] = []
        self._earlier_notes: list[str] = []
        """Of commands that made passes which this one finds."""
        self._place = place(job, folder, self.observer)
        self._profile: OwnProfile | None = None
        """Of this machine, where that is the job's clock."""

    def execute(self, conclude: Callable[[Results], None] = lambda results: None) -> Results:
        """Make every pass that is missing and write the results; raises `Stopped` when asked to stop.

        conclude: what the caller adds to the tables before run.json names them.
        """
        self._begin()
        try:
            baseline = self._settle_times()
            self._write_manifest(baseline, looked_up_verdict(self.job.clock))
            self.observer.started(len(self.job.streams) * len(self.job.methods), 0)
            self._make(baseline)
            verdict = self._verdict()
        finally:
            self._place.close()
        compare_with_published(self.job, self.rows, self.observer)
        results = Results(self.folder)
        self.folder.write_segments(segments_frame(results))
        conclude(results)
        write_pictures(self.folder.path, {} if self.job.pictures is None else self.job.pictures())
        self._write_manifest(baseline, verdict, finished=True)
        return Results(self.folder)

    @property
    def failed(self) -> int:
        """Count the cells that failed."""
        return sum(row["status"].startswith("failed") for row in self.rows)

    def _begin(self) -> None:
        """Refuse to lose rows of an earlier run; say what was damaged and what is not known."""
        if not self.replace and (lost := "; ".join(would_lose(self.job, self.folder))):
            raise TemporaError(
                f"{self.folder.path} holds results that this run would lose ({lost}): name them too, take another "
                "folder, or give --replace"
            )
        if self.folder.has_manifest() and not self.replace:
            self._earlier_notes = self.folder.manifest()["notes"]
        keep_given(self.job, self.folder.path)
        for name in self.folder.damaged:
            self.observer.note(f"{name} was damaged; it was set aside and will be made again")
        for note in unknowns(self.job):
            self.observer.note(note)

    def _settle_times(self) -> Baseline:
        """lambda: given, of the clock's profile, the one this folder began with, or measured now."""
        job, clock = self.job, self.job.clock
        if isinstance(clock, ProfileClock) and clock.own:
            self._profile = OwnProfile(job, clock, self.folder.path, self.observer, self._place)
            steady = self._profile.ready()
            return job.baseline or steady
        begun = begun_baselines(job, self.folder)
        if job.measured:
            self.job = dataclasses.replace(job, machine_kind=self._place.kind(begun))
        return job.baseline or begun.get(self.job.machine_kind) or self._place.calibrate()

    def _make(self, baseline: Baseline) -> None:
        """Make all cells. Work without a time in the steady profile gets one afterwards, when nothing else runs, and
        the tasks that met it are made again."""
        tasks = [
            Task(PassMaker(self.job, spec, source, baseline, self.folder, self.observer, self._place.streams))
            for source in self.job.streams
            for spec in self.job.methods
        ]
        for _ in range(MOST_ROUNDS):
            self._score(cells for _, cells in self._place.each(tasks))
            untimed = {stored.key: stored for stored in self._used_passes() if "missing" in stored.facts}
            if self._profile is None or not self._profile.extend(untimed.values()):
                break
            again = {_task_of(row) for row in self.rows if any(row[name] in untimed for name in PASS_COLUMNS)}
            tasks = [task for task in tasks if task.name in again]
            self.rows = [row for row in self.rows if _task_of(row) not in again]
        for stored in untimed.values():
            self.observer.note(f"{stored.identity['shift']}: {stored.facts['verdict']['reasons'][0]}")

    def _score(self, made: Iterable[list[Cell]]) -> None:
        """Score cells as they come, and keep the table readable. A stateless method's frozen batches are Standard's,
        whose task may come later."""
        waiting: list[Cell] = []
        for cells in made:
            here = self.folder.passes().keys()
            known = [*waiting, *cells]
            waiting = [
                cell for cell in known if cell.frozen_pass is not None and cell.frozen_pass not in here
            ]
            self._add(cell for cell in known if cell.frozen_pass is None or cell.frozen_pass in here)
        if waiting:  # Standard's own cells say what went wrong
            reason = "failed: the Standard pass that holds its frozen batches failed"
            self._add([dataclasses.replace(cell, status=reason) for cell in waiting])

    def _add(self, cells: Iterable[Cell]) -> None:
        self.rows += [utility_row(cell, *self._traces(cell)) for cell in cells]
        self.folder.write_utilities(utilities_frame(self.rows))

    def _traces(self, cell: Cell) -> list[Trace | None]:
        ok = cell.status == "ok" and cell.adapting_pass is not None
        keys = (cell.adapting_pass, cell.frozen_pass, cell.fallback_pass) if ok else (None,)
        return [self.folder.trace(key) if key else None for key in keys]

    def _verdict(self) -> Verdict | None:
        if not self.job.measured:
            return looked_up_verdict(self.job.clock)
        facts = (stored.facts.get("verdict") for stored in self._used_passes())
        return judged_run(Verdict.from_json(fact) for fact in facts if fact)

    def _used_passes(self) -> list[StoredPass]:
        """Those that the table comes from."""
        passes = self.folder.passes()
        keys = {row[name] for row in self.rows for name in PASS_COLUMNS if row[name]}
        return [passes[key] for key in sorted(keys) if key in passes]

    def _write_manifest(
        self, baseline: Baseline, verdict: Verdict | None = None, finished: bool = False
    ) -> None:
        job, folder = self.job, self.folder
        cards = Cards(scenario_cards(job.scenarios), {spec.label: spec.card for spec in job.methods})
        record = RunRecord.model_validate(
            {
                **job.facts,
                "config": job.config.plain() if job.named else None,
                "machine": job.machine,
                "model": job.model.name,
                "methods": [spec.label for spec in job.methods],
                "cards": cards.to_json(),
                "weights": job.weights,
                "preprocessing": job.preprocessing,
                "method_settings": {spec.label: job.made_with(spec) for spec in job.methods},
                "profile": clock_record(job.clock),
                "shifts": list(dict.fromkeys(source.shift for source in job.streams)),
                "seeds": sorted({source.seed for source in job.streams}),
                "stream": job.streams[0].settings.changed(),
                "batch_size": job.streams[0].batch_size,
                "batches": {source.shift: source.num_batches for source in job.streams},
                "scenarios": [to_record(scenario) for scenario in job.scenarios],
                "clock": job.clock.name,
                "baseline": baseline.to_json(),
                "provision_ms": baseline.provision_ms(job.streams[0].num_batches),
                "finished": finished,
                "notes": list(dict.fromkeys([*self._earlier_notes, *job.notes, *self._said.notes])),
                "verdict": verdict.to_json() if verdict else None,
                "non_finite_scores": non_finite_scores(self._used_passes()),
                "predict_with": predict_with_summary(self._used_passes()) if finished else None,
                "baselines": {job.machine_kind: baseline.to_json()},
                **self._place.facts(),
            }
        )
        folder.write_manifest(record)


def _task_of(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["method"], row["shift"], row["seed"]


def begun_baselines(job: Job, folder: RunFolder) -> dict[str, Baseline]:
    """lambda by kind of device of the run that this one resumes: from run.json or, if that was lost, its passes.

    A run of another network or batch size in the same folder has a lambda of its own, which is no use here; nor is
    one that was given, recorded, or measured in another way.
    """
    known: dict[str, Any] = {}
    if folder.has_manifest():
        manifest = folder.manifest()
        if (manifest["model"], manifest["batch_size"]) == (job.model.name, job.streams[0].batch_size):
            known = manifest["baselines"]
    else:
        for stored in folder.passes().values():
            of = (stored.identity["model"], stored.identity["batch_size"])
            if stored.facts.get("baseline") and of == (job.model.name, job.streams[0].batch_size):
                known.setdefault(stored.identity["machine"], stored.facts["baseline"])
    found = {kind: Baseline(**facts) for kind, facts in known.items()}
    wanted = ("measured", job.config.provision, sum(calibration(job).values()))
    return {kind: one for kind, one in found.items() if (one.source, one.provision, one.batches) == wanted}


def unknowns(job: Job) -> Iterator[str]:
    """Name what was assumed about images, and code whose changes pass unseen, as its name is made at run time."""
    prepared = job.preprocessing or {"assumed": ()}
    if assumed := ", ".join(f"{name}={prepared[name]}" for name in prepared["assumed"]):
        yield (
            f"assumed for the images of {job.model.name}, since nothing states it: {assumed}. "
            "models.wrap(network, ...) takes other values"
        )
    for spec in job.methods:
        for place in job.code_hash(spec).not_followed:
            yield (
                f"{spec.label}: {place} loads code in a way that cannot be followed: if that code changes, "
                "use a new run folder"
            )


def compare_with_published(job: Job, rows: Iterable[Mapping[str, Any]], observer: Observer) -> None:
    """A Standard that is far from its known accuracy means wrong weights, preprocessing or labels."""
    dataset, severity = job.facts.get("dataset"), job.facts.get("severity")
    known = known_accuracy(job.model.name, str(dataset))
    found = [row for row in rows if row["method"] == STANDARD and row["protocol"] == Offline.protocol]
    shifts = {row["shift"] for row in found if row["status"] == "ok"}
    whole = len(shifts) == 15 and severity == 5 if dataset == "imagenet_c" else len(shifts) == 1
    if known is None or not whole:
        return
    reached = float(np.mean([row["utility"] for row in found]))
    if abs(reached - known) > 0.01:
        observer.note(
            f"Standard reaches {percent(reached)} on {dataset}, its known accuracy is {percent(known)}: check the "
            "weights' tag, the normalisation and the labels"
        )


_CONTEXT = ("model", "weights", "data", "batch_size", "num_batches", "stream", "preset")
"""Parts of an identity that all passes on a stream share."""


def would_lose(job: Job, folder: RunFolder) -> Iterator[str]:
    """Name what the folder's table has and the job does not make again."""
    if not folder.has_manifest():
        return
    manifest, table = folder.manifest(), folder.utilities()
    table = table[table["status"] == "ok"]
    streams = {(source.shift, source.seed): source for source in job.streams}
    scenarios = json.loads(json.dumps([to_record(scenario) for scenario in job.scenarios], default=str))
    before, named = dict(enumerate(manifest["scenarios"])), table[["scenario", "label"]].drop_duplicates()
    lost = {
        "method": {*table["method"]} - {spec.label for spec in job.methods},
        "shift": {*table["shift"]} - {source.shift for source in job.streams},
        "seed": {*table["seed"]} - {source.seed for source in job.streams},
        "scenario": {label for place, label in named.to_numpy() if before.get(place) not in scenarios},
    }
    for thing, names in lost.items():
        if names:
            yield f"{thing if len(names) == 1 else thing + 's'} {', '.join(sorted(map(str, names)))}"
    changed = set()
    for row in table.drop_duplicates(["shift", "seed"]).to_dict("records"):
        source, stored = streams.get((row["shift"], row["seed"])), folder.passes().get(row["adapting_pass"])
        if source is not None and stored is not None:
            now = job.identity(job.methods[0], source, "")
            changed |= {name for name in _CONTEXT if stored.identity.get(name) != now.get(name)}
    if job.baseline is not None and (table["baseline_ms"] != job.baseline.baseline_ms).any():
        changed.add("lambda")
    if not str(manifest["clock"]).startswith(job.clock.name):
        changed.add("clock")
    if changed and len(table):
        yield f"another {', '.join(sorted(changed))}"


def failures(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each reason why cells failed, once, with the method that it is about."""
    failed = [(row["method"], row["status"]) for row in rows if row["status"].startswith("failed: ")]
    reasons = dict.fromkeys((method, status.removeprefix("failed: ")) for method, status in failed)
    return [
        reason if reason.startswith(f"{method}: ") else f"{method}: {reason}" for method, reason in reasons
    ]


def looked_up_verdict(clock: Clock) -> Verdict | None:
    """Times that were looked up need no verdict on this machine: they keep the one that they were recorded with."""
    if not isinstance(clock, ProfileClock):
        return None
    kind = "steady clock" if clock.own else "recorded clock"
    recorded = clock.profile.verdict
    if not recorded.reasons:
        return Verdict(said=f"{VALID}: {kind}")
    reasons = (kind, *recorded.reasons)
    return Verdict(recorded.status, reasons, f"{recorded.status}: {'; '.join(reasons)}")
