"""Running a job: shifts outside, methods inside, every finished pass on disk before the next one starts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from tempora.data import BatchSource
from tempora.engine.calibration import calibrate, remeasure, settle
from tempora.engine.job import STANDARD, Job, MethodSpec, StreamSource
from tempora.engine.observer import Observer
from tempora.engine.sentinel import Sentinel
from tempora.engine.split_tax import WARN_ABOVE, split_tax
from tempora.engine.task import Task
from tempora.measure import Baseline, Verdict, judge_run
from tempora.published import known_accuracy
from tempora.scenarios import to_spec
from tempora.store import Cell, Results, RunFolder, utilities_frame, utility_row


class Run:
    """One job on its way into one folder. The same job on the same folder does only what is missing."""

    def __init__(self, job: Job, folder: RunFolder, observer: Observer | None = None) -> None:
        self.job = job
        self.folder = folder
        self.observer = observer or Observer()
        self.rows: list[dict[str, Any]] = []
        self._stream: BatchSource | None = None
        self._opened: StreamSource | None = None
        self._split_tax: dict[str, float] | None = None

    def execute(self) -> Results:
        """Make every pass that is missing and write the results; raises `Stopped` when asked to stop."""
        for name in self.folder.damaged:
            self.observer.note(f"{name} was damaged; it was set aside and will be made again")
        baseline = self._baseline()
        self._write_manifest(baseline, finished=False)
        self._look_at_split_tax()
        self.observer.started(len(self.job.streams) * len(self.job.methods), 0)
        try:
            for source in self.job.streams:
                cells = self._stream_cells(source, baseline)
                self.rows += self._score(cells)
                self.folder.write_utilities(utilities_frame(self.rows))
            final_ms = self._final_median(baseline)
        finally:
            self._close_stream()
        self._compare_with_published()
        self._write_manifest(baseline, finished=True, verdict=self._verdict(baseline, final_ms))
        return Results(self.folder)

    @property
    def failed(self) -> int:
        """How many cells failed."""
        return sum(row["status"].startswith("failed") for row in self.rows)

    def _baseline(self) -> Baseline:
        """Given or recorded with the clock; else the one this folder began with; else measured now."""
        if self.job.baseline is not None:
            return self.job.baseline
        begun = self._begun_baseline()
        if begun is not None:
            return begun
        stream = self._open(self.job.streams[0])
        settle(self.job, stream, self.observer)
        return calibrate(self.job, stream, self.observer)

    def _look_at_split_tax(self) -> None:
        """Once per gradient method, where a host can queue ahead of its device: what timing in two parts costs."""
        known = self.folder.manifest().get("split_tax") or {}
        if self.job.measured and self.job.device.type == "cuda":
            for spec in self.job.methods:
                if spec.label in known:
                    continue
                method = self.job.create(spec, self.job.streams[0].seed)
                if method.family != "gradient-based" or method.time_aware:
                    continue
                tax = known[spec.label] = split_tax(method, self._open(self.job.streams[0]))
                if tax > WARN_ABOVE:
                    self.observer.note(
                        f"{spec.label}: timing predict and adapt apart costs {tax:.1%} (split tax)"
                    )
        self._split_tax = known

    def _begun_baseline(self) -> Baseline | None:
        """lambda of the run that this one resumes: from run.json or, if that was lost, from any of its passes."""
        known: list[Mapping[str, Any]] = [found.facts for found in self.folder.passes().values()]
        if self.folder.has_manifest():
            known.insert(0, self.folder.manifest())
        for facts in known:
            if facts.get("baseline"):
                return Baseline(**facts["baseline"])
        return None

    def _stream_cells(self, source: StreamSource, baseline: Baseline) -> list[Cell]:
        """All cells of one stream. The order of methods is shuffled, so that none always runs on the hot machine."""
        order = list(self.job.methods)
        random.Random(f"{source.shift} {source.seed}").shuffle(order)

        @cache  # made with the first pass: a resumed run may need none, and no stream
        def sentinel() -> Sentinel:
            standard = self.job.create(MethodSpec(STANDARD), source.seed)
            return Sentinel(standard, self._open(source), self.job.clock, baseline)

        cells = []
        for spec in order:
            self.observer.task_started(spec.label, source.shift, source.seed)
            task = Task(
                job=self.job,
                spec=spec,
                source=source,
                baseline=baseline,
                folder=self.folder,
                sentinel=sentinel if self.job.measured else None,
                observer=self.observer,
                open_stream=lambda: self._open(source),
            )
            cells += task.cells()
            self.observer.task_finished(spec.label, source.shift, source.seed)
        return cells

    def _score(self, cells: Iterable[Cell]) -> list[dict[str, Any]]:
        rows = []
        for cell in cells:
            if cell.status != "ok" or cell.adapting_pass is None:
                rows.append(utility_row(cell, None))
                continue
            frozen = self.folder.trace(cell.frozen_pass) if cell.frozen_pass else None
            rows.append(utility_row(cell, self.folder.trace(cell.adapting_pass), frozen))
        return rows

    def _open(self, source: StreamSource) -> BatchSource:
        """The stream, decoded. The one before it is let go: after, if they share a shift's pictures, else before."""
        if self._stream is None or self._opened is not source:
            if self._opened is not None and self._opened.shift != source.shift:
                self._close_stream()
            stream = source.open()
            self._close_stream()
            self._stream, self._opened = stream, source
        return self._stream

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = self._opened = None

    def _final_median(self, baseline: Baseline) -> float | None:
        if not self.job.measured or baseline.source != "measured" or self._stream is None:
            return None
        return remeasure(self.job, self._stream, self.observer)

    def _verdict(self, baseline: Baseline, final_ms: float | None) -> Verdict | None:
        if not self.job.measured:
            return None
        keys = {row[name] for row in self.rows for name in ("adapting_pass", "frozen_pass") if row[name]}
        facts = (
            self.folder.passes()[key].facts.get("verdict") for key in keys if key in self.folder.passes()
        )
        return judge_run(
            baseline, final_ms, [Verdict(fact["status"], tuple(fact["reasons"])) for fact in facts if fact]
        )

    def _standard_above(self, baseline: Baseline) -> float | None:
        """The share of Standard's batches that took longer than lambda."""
        times = [
            self.folder.trace(row["adapting_pass"]).service_ms
            for row in self.rows
            if row["method"] == STANDARD and row["protocol"] == "offline" and row["status"] == "ok"
        ]
        return float((np.concatenate(times) > baseline.baseline_ms).mean()) if times else None

    def _compare_with_published(self) -> None:
        """A Standard that is far from its known accuracy means wrong weights, preprocessing or labels."""
        dataset, severity = self.job.facts.get("dataset"), self.job.facts.get("severity")
        known = known_accuracy(self.job.model.name, str(dataset))
        rows = [row for row in self.rows if row["method"] == STANDARD and row["protocol"] == "offline"]
        shifts = {row["shift"] for row in rows if row["status"] == "ok"}
        whole = len(shifts) == 15 and severity == 5 if dataset == "imagenet_c" else len(shifts) == 1
        if known is None or not whole:
            return
        found = float(np.mean([row["utility"] for row in rows]))
        if abs(found - known) > 0.01:
            self.observer.note(
                f"Standard reaches {found:.1%} on {dataset}, its known accuracy is {known:.1%}: check the weights' "
                "tag, the normalisation and the labels"
            )

    def _write_manifest(self, baseline: Baseline, finished: bool, verdict: Verdict | None = None) -> None:
        previous = self.folder.manifest() if self.folder.has_manifest() else {}
        text = verdict.to_json() if verdict else _recorded_verdict(self.job) or previous.get("verdict")
        self.folder.write_manifest(
            {
                **self.job.facts,
                "model": self.job.model.name,
                "methods": [spec.label for spec in self.job.methods],
                "shifts": list(dict.fromkeys(source.shift for source in self.job.streams)),
                "seeds": sorted({source.seed for source in self.job.streams}),
                "batch_size": self.job.streams[0].batch_size,
                "batches": {source.shift: source.num_batches for source in self.job.streams},
                "dropped_samples": {source.shift: source.dropped for source in self.job.streams},
                "scenarios": [to_spec(scenario) for scenario in self.job.scenarios],
                "clock": self.job.clock.name,
                "shared": self.job.share,
                "baseline": baseline.to_json(),
                "provision_ms": baseline.provision_ms(self.job.streams[0].num_batches),
                "split_tax": previous.get("split_tax") if self._split_tax is None else self._split_tax,
                "standard_above_baseline": self._standard_above(baseline) if finished else None,
                "finished": finished,
                "verdict": text,
            }
        )


def _recorded_verdict(job: Job) -> dict[str, Any] | None:
    """Times that were looked up need no verdict on this machine."""
    return None if job.measured else {"status": "VALID", "reasons": [], "text": "VALID: recorded clock"}
