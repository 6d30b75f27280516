"""Running a job: an executor makes its tasks, every finished pass is on disk, and the tables follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tempora_tta._numbers import percent
from tempora_tta.analysis.doubt import contested, keep_doubt
from tempora_tta.cards import Cards, scenario_cards
from tempora_tta.engine.clocks import clock_record
from tempora_tta.engine.ends import Contested, Ends
from tempora_tta.engine.executors import Executor, LocalExecutor
from tempora_tta.engine.growth import Earlier, earlier_results
from tempora_tta.engine.job import STANDARD, Job
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.own_profile import keep_given
from tempora_tta.engine.predicting import summarised as predict_with_summary
from tempora_tta.engine.schedule import Shard
from tempora_tta.engine.shard_profile import take_profile
from tempora_tta.measure import Baseline, RecordedClock, SteadyClock, Verdict, judge_baseline, judge_run
from tempora_tta.published import known_accuracy
from tempora_tta.scenarios import Offline, to_record
from tempora_tta.store import Cell, Results, RunFolder, StoredPass, utilities_frame, utility_row
from tempora_tta.store.baselines import standard_above
from tempora_tta.store.kinds import mixed_devices_note, ranked_within_kinds
from tempora_tta.store.made_with import made_with
from tempora_tta.store.pictures import write_pictures
from tempora_tta.store.schema import PASS_COLUMNS
from tempora_tta.store.scores import non_finite_scores
from tempora_tta.store.segments import segments_frame
from tempora_tta.store.verdicts import VALID, worst


class Run:
    """One job on its way into one folder. The same job on the same folder does only what is missing."""

    def __init__(
        self,
        job: Job,
        folder: RunFolder,
        observer: Observer | None = None,
        executor: Callable[[Job, RunFolder, Observer], Executor] = LocalExecutor,
        mix_devices: bool = False,
        shard: Shard | None = None,
    ) -> None:
        self.job = job
        self.folder = folder
        self.observer = observer or Observer()
        self.mix_devices = mix_devices
        """Rank methods against each other even where they ran on different kinds of device."""
        self.shard = shard
        """Only these tasks of the job; None: all."""
        self.rows: list[dict[str, Any]] = []
        self._earlier = Earlier()
        self._ends: list[dict[str, Any]] = []
        self._baseline_verdict: Verdict | None = None
        self._executor = executor(job, folder, self.observer)

    def execute(self) -> Results:
        """Make every pass that is missing and write the results; raises `Stopped` when asked to stop."""
        if self.shard is not None and isinstance(self.job.clock, SteadyClock) and self.job.clock.own:
            take_profile(self.job, self.folder.path, self.shard)
        keep_given(self.job, self.folder.path)
        for name in self.folder.damaged:
            self.observer.note(f"{name} was damaged; it was set aside and will be made again")
        tasks = (self.shard or Shard(1, 1)).of(self.job)
        try:
            self._say_what_is_not_known()
            baseline = self._executor.start()
            self._look_at_earlier()
            self._write_manifest(baseline, finished=False)
            self.observer.started(sum(len(specs) for _, specs in tasks), 0)
            for cells in self._executor.cells(tasks):
                self.rows += self._score(cells)
                self._write_utilities()
            verdict = self._verdict(baseline)
        finally:
            self._executor.close()
        self._compare_with_published()
        judged = Results(self.folder)
        keep_doubt(judged)
        self._look_at_both_ends(judged, baseline)
        self._write_manifest(baseline, finished=True, verdict=verdict)
        results = Results(self.folder)
        if self._ends:
            keep_doubt(results)
        else:
            results.known |= judged.known  # doubt takes a while to work out
        self.folder.write_segments(segments_frame(results))
        self.folder.seal()
        write_pictures(self.folder.path, {} if self.job.pictures is None else self.job.pictures())
        self.observer.finished(results)
        return results

    def _say_what_is_not_known(self) -> None:
        """What was assumed about images; and which code, loaded by a name made up at run time, changes unseen."""
        prepared = self.job.preprocessing or {"assumed": ()}
        if assumed := ", ".join(f"{name}={prepared[name]}" for name in prepared["assumed"]):
            self.observer.note(
                f"assumed for the images of {self.job.model.name}, since nothing states it: {assumed}. "
                "models.wrap(network, ...) takes other values"
            )
        for spec in self.job.methods:
            for place in self.job.own_source(spec).unknown:
                self.observer.note(
                    f"{spec.label}: {place} loads code in a way that cannot be followed: if that code changes, "
                    "use a new run folder"
                )

    def _look_at_both_ends(self, judged: Results, baseline: Baseline) -> None:
        """Methods with a history, where timing leaves the winner open; on the device that made the other passes."""
        clock = self.job.clock
        own = isinstance(clock, SteadyClock) and clock.own and self._executor.here
        if own and self.shard is None:  # a shard knows nothing about winners
            ends = Ends(self.job, self.folder, baseline, self.observer)
            self._ends = ends.made(Contested(*cell) for cell in contested(judged))

    def _look_at_earlier(self) -> None:
        """What the folder's table held before. A shard's has its own part and nothing else."""
        if self.shard is not None:
            before = self.folder.manifest().get("shard") if self.folder.has_manifest() else None
            if before not in (None, str(self.shard)):
                self.observer.note(
                    f"{self.folder.path} held shard {before}: its passes are kept, its cells leave the table. Give "
                    "each shard a folder of its own, and join them with `tempora merge`"
                )
        else:
            baselines_ms = {kind: one.baseline_ms for kind, one in self._executor.baselines.items()}
            self._earlier = earlier_results(self.job, self.folder, baselines_ms)
            for note in self._earlier.notes:
                self.observer.note(note)

    @property
    def failed(self) -> int:
        """How many cells failed."""
        return sum(row["status"].startswith("failed") for row in self.rows)

    def _score(self, cells: Iterable[Cell]) -> list[dict[str, Any]]:
        rows = []
        for cell in cells:
            if cell.frozen_pass is not None and cell.frozen_pass not in self.folder.passes():
                # A stateless method's frozen batches are Standard's, whose own cells say what went wrong.
                cell = replace(cell, status="failed: the Standard pass that holds its frozen batches failed")
            if cell.status != "ok" or cell.adapting_pass is None:
                rows.append(utility_row(cell, None))
                continue
            frozen, fallback = (
                self.folder.trace(key) if key else None for key in (cell.frozen_pass, cell.fallback_pass)
            )
            rows.append(utility_row(cell, self.folder.trace(cell.adapting_pass), frozen, fallback))
        return rows

    def _write_utilities(self) -> None:
        frame = utilities_frame([*self._earlier.rows, *self.rows])
        if not self.mix_devices:
            frame = ranked_within_kinds(frame, self.folder)
        self.folder.write_utilities(frame)

    def _verdict(self, baseline: Baseline) -> Verdict | None:
        if not self.job.measured:
            return None
        facts = (stored.facts.get("verdict") for stored in self._used_passes())
        self._baseline_verdict = judge_baseline(baseline, self._executor.final_median(baseline))
        own = judge_run(
            self._baseline_verdict,
            [Verdict.from_json(fact) for fact in facts if fact],
            remedy="--redo invalid repeats them",
        )
        devices = self._executor.verdict()
        return Verdict(worst([own.status, devices.status]), (*own.reasons, *devices.reasons))

    def _used_passes(self) -> list[StoredPass]:
        """Those that the table comes from."""
        rows, passes = [*self._earlier.rows, *self.rows], self.folder.passes()
        keys = {row[name] for row in rows for name in PASS_COLUMNS if row[name]}
        return [passes[key] for key in sorted(keys) if key in passes]

    def _compare_with_published(self) -> None:
        """A Standard that is far from its known accuracy means wrong weights, preprocessing or labels."""
        dataset, severity = self.job.facts.get("dataset"), self.job.facts.get("severity")
        known = known_accuracy(self.job.model.name, str(dataset))
        rows = [row for row in self.rows if row["method"] == STANDARD and row["protocol"] == Offline.protocol]
        shifts = {row["shift"] for row in rows if row["status"] == "ok"}
        whole = len(shifts) == 15 and severity == 5 if dataset == "imagenet_c" else len(shifts) == 1
        if known is None or not whole:
            return
        found = float(np.mean([row["utility"] for row in rows]))
        if abs(found - known) > 0.01:
            self.observer.note(
                f"Standard reaches {percent(found)} on {dataset}, its known accuracy is {percent(known)}: check the "
                "weights' tag, the normalisation and the labels"
            )

    def _cards(self) -> Cards:
        methods = {spec.label: spec.card for spec in self.job.methods}
        return Cards(scenario_cards(self.job.scenarios), {**self._earlier.cards, **methods})

    def _settings(self) -> dict[str, dict[str, Any]]:
        earlier = {str(one.identity["method"]): made_with(one.identity) for one in self._earlier.passes}
        return {**earlier, **{spec.label: self.job.made_with(spec) for spec in self.job.methods}}

    def _write_manifest(self, baseline: Baseline, finished: bool, verdict: Verdict | None = None) -> None:
        previous: Mapping[str, Any] = self.folder.manifest() if self.folder.has_manifest() else {}
        judged = verdict or _recorded_verdict(self.job)
        facts = dict(self.job.facts)
        if self._earlier.rows and "config" in facts:
            facts["config"] = self._earlier.with_config(facts["config"])
        self.folder.write_manifest(
            {
                **facts,
                "model": self.job.model.name,
                "methods": [*self._earlier.labels, *(spec.label for spec in self.job.methods)],
                "method_labels": {
                    **self._earlier.labels,
                    **{spec.label: spec.shown_as for spec in self.job.methods},
                },  # what 0.1.0 reads
                "cards": self._cards().to_json(),
                "weights": self.job.weights,
                "preprocessing": self.job.preprocessing,
                "method_settings": self._settings(),
                "profile": clock_record(self.job.clock),
                "shifts": list(dict.fromkeys(source.shift for source in self.job.streams)),
                "seeds": sorted({source.seed for source in self.job.streams}),
                "stream": self.job.streams[0].walk.settings(),
                "batch_size": self.job.streams[0].batch_size,
                "batches": {source.shift: source.num_batches for source in self.job.streams},
                "dropped_samples": {source.shift: source.dropped for source in self.job.streams},
                "scenarios": [to_record(scenario) for scenario in self.job.scenarios],
                "clock": self.job.clock.name,
                "shared": self.job.share,
                "baseline": baseline.to_json(),
                "baseline_verdict": self._baseline_verdict.to_json() if self._baseline_verdict else None,
                "provision_ms": baseline.provision_ms(self.job.streams[0].num_batches),
                "split_tax": previous.get("split_tax"),
                "ends": self._ends,
                "standard_above_baseline": standard_above(self.folder) if finished else None,
                "shard": str(self.shard) if self.shard else None,
                "finished": finished,
                "verdict": judged.to_json() if judged else previous.get("verdict"),
                "non_finite_scores": non_finite_scores(self.folder, self.folder.utilities()),
                "mixed_devices": mixed_devices_note(self.folder, self.mix_devices),
                "predict_with": predict_with_summary(self._used_passes()) if finished else None,
                **self._executor.facts(),
            }
        )


def failures(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each reason why cells failed, once, with the method that it is about."""
    failed = [(row["method"], row["status"]) for row in rows if row["status"].startswith("failed: ")]
    reasons = dict.fromkeys((method, status.removeprefix("failed: ")) for method, status in failed)
    return [
        reason if reason.startswith(f"{method}: ") else f"{method}: {reason}" for method, reason in reasons
    ]


def _recorded_verdict(job: Job) -> Verdict | None:
    """Times that were looked up need no verdict on this machine: they keep the one that they were recorded with."""
    if not isinstance(job.clock, (RecordedClock, SteadyClock)):
        return None
    kind = "steady clock" if isinstance(job.clock, SteadyClock) and job.clock.own else "recorded clock"
    recorded = job.clock.profile.verdict
    if not recorded.reasons:
        return Verdict(said=f"{VALID}: {kind}")
    reasons = (kind, *recorded.reasons)
    said = "" if isinstance(job.clock, RecordedClock) else f"{recorded.status}: {'; '.join(reasons)}"
    return Verdict(recorded.status, reasons, said)
