"""Does the steady clock tell the truth, and what does it save? Within a given time.

    python benchmarks/steady.py --device cuda --model resnet50 --seconds 120 --out DIR

Random images, the relative grid, and labels that are Standard's own predictions, so that utilities are large enough
to differ. One after the other, as far as the time goes; `DIR/steady.json` is written after every step:

- steady: the whole grid under the steady clock, `--predict-with tf32` with faster predictions;
- service: every method's batches timed live, through the pipeline of `tempora.deploy`, beside the steady times;
- measured: the same grid under the measured clock, method by method, at the same lambda;
- lived: cells against the wall clock;
- naive: one measured pass per scenario, the quickest methods first.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

import tempora_tta as tempora
from common import Device, console, write
from engine import synthetic
from methods import OPEN
from tempora_tta import methods, models
from tempora_tta.engine import Observer, Stopped
from tempora_tta.engine.given import job_from_batches
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.life import live_once
from tempora_tta.engine.live import not_livable
from tempora_tta.engine.own_profile import PROFILE_FILE
from tempora_tta.errors import TemporaError
from tempora_tta.measure import Profile, load_profile
from tempora_tta.methods.testing import sharpened
from tempora_tta.scenarios import Offline, relative_grid
from tempora_tta.store import Results

METHODS = "standard,adabn,lame,neo,tent,eta,deyo,cmf"
SEED = 2025


class Watch(Observer):
    """Stops what is under way when the time is up, and knows when the first pass began."""

    def __init__(self, until: float) -> None:
        self._until = until
        self.began = time.monotonic()
        self.ready_s: float | None = None
        self.profile_s: dict[str, float] = {}
        """When profiling was asked for, and when its first round was done."""
        self.notes: list[str] = []

    @property
    def stop_requested(self) -> bool:  # type: ignore[override]
        return time.monotonic() > self._until

    def pass_started(self, kind: str, batches: int) -> None:
        if kind == "profiling":
            self.profile_s["asked"] = time.monotonic() - self.began

    def batch_done(self, trace: Any, index: int) -> None:
        if trace is None and "asked" in self.profile_s:
            self.profile_s.setdefault("first_round", time.monotonic() - self.began)

    def started(self, tasks: int, done: int) -> None:
        self.ready_s = time.monotonic() - self.began

    def note(self, text: str) -> None:
        self.notes.append(text)


class Bench:
    """The steps, what they found, and how much time is left."""

    def __init__(
        self,
        classifier: models.Classifier,
        given: list[Any],
        names: list[str],
        device: str,
        seconds: float,
        profile_s: float,
        lives: int,
        out: Path,
        figures: dict[str, Any],
    ) -> None:
        self.classifier, self.given, self.device, self.out = classifier, given, device, out
        self.specs = {name: (name, OPEN.get(name, {})) for name in names}
        self.figures = figures
        self.began = time.monotonic()
        self.until = self.began + seconds
        self.profile_s, self.lives = profile_s, lives

    @property
    def left_s(self) -> float:
        return self.until - time.monotonic()

    def step(self, name: str, work: Callable[[], None]) -> None:
        """Do it, unless the time is up; write what there is either way."""
        began, why = time.monotonic(), "done"
        try:
            if self.left_s <= 0:
                raise Stopped
            work()
        except Stopped:
            why = "time was up"
        except Exception as error:  # one step that fails must not cost the device time of the others
            why = f"failed: {type(error).__name__}: {error}"
        self.figures["steps"][name] = {"seconds": round(time.monotonic() - began, 1), "end": why}
        console.print(f"{name}: {why} after {time.monotonic() - self.began:.0f} s", markup=False)
        write(self.figures, self.out / "steady.json")

    def evaluate(self, names: list[str], clock: str, folder: str, **more: Any) -> tuple[Results, Watch]:
        watch = Watch(self.until)
        results = tempora.evaluate(
            self.classifier,
            self.given,
            [self.specs[name] for name in names],
            more.pop("scenarios", relative_grid()),
            device=self.device,
            clock=clock,
            seed=SEED,
            out=self.out / folder,
            observer=watch,
            **more,
        )
        return results, watch

    # -- the steps ---------------------------------------------------------------------------------------------

    def steady(self) -> None:
        began = time.monotonic()
        more = {"profile_s": self.profile_s, "predict_with": self.figures["predict_with"] or None}
        try:
            self.results, watch = self.evaluate(list(self.specs), "steady", "steady", **more)
            wall_s = time.monotonic() - began
        finally:
            self.tell_profile()
        found = self.results.utilities
        self.steady_utility = _by_cell(found)
        self.steady_service = {
            str(row["method"]): self.results.trace(row).service_ms
            for _, row in found[found["protocol"] == Offline.protocol].iterrows()
        }
        self.figures["notes"] = watch.notes
        self.figures["wall_s"]["steady"] = wall_s
        self.figures["wall_s"]["steady_profile"] = watch.ready_s
        self.figures["wall_s"] |= {f"steady_{name}": seconds for name, seconds in watch.profile_s.items()}
        for name, times in self.steady_service.items():
            self.row(name)["steady_ms"] = float(np.mean(times))

    def tell_profile(self) -> None:
        path = self.out / "steady" / PROFILE_FILE
        if not path.exists():
            return
        profile = load_profile(path)
        assert isinstance(profile, Profile)
        self.baseline_ms = self.figures["baseline_ms"] = profile.baseline_ms
        self.figures["profile"] = {
            "rounds": len(profile.rounds.shift),
            "clean_share": profile.clean_share,
            "settled": profile.settled,
            "time_was_up": profile.time_was_up,
            "moved_points": profile.moved_points,
            "moved_batches": profile.moved_batches,
            "unsettled": profile.unsettled,
            "tail_x": profile.tail_x,
            "after_idle_x": profile.after_idle_x,
            "errors": {method: profile.uncertainty(method) for method in self.specs},
            "lines": {
                str(entry.kind): [entry.steady_ms, entry.per_amount_ms, entry.amount]
                for entry in profile.entries
                if entry.amount is not None
            },
        }

    def service(self) -> None:
        """Live service times: the same batches through the pipeline, all methods once, then all again. From the
        instant at which the worker has a batch in hand; `with_handover_x` from the one at which it could have had."""
        job = self.job()
        stream = job.open_stream(job.streams[0])
        lives: dict[str, list[tuple[float, float]]] = {spec.label: [] for spec in job.methods}
        for _ in range(self.lives):
            for spec in job.methods:
                if self.left_s <= 0:
                    raise Stopped
                life = live_once(job, spec, stream, self.resolved(job, Offline()))
                steady_ms, service_ms = self.steady_service[spec.label], life.trace.service_ms
                lives[spec.label].append(
                    (_ratio(service_ms - life.handover_ms, steady_ms), _ratio(service_ms, steady_ms))
                )
                # The first life meets every shape for the first time, which the others do not.
                service, with_handover = zip(*lives[spec.label], strict=True)
                row = self.row(spec.label)
                row |= {"lived_each_x": list(service), "lived_x": statistics.median(service)}
                row |= {"with_handover_x": statistics.median(with_handover), "handover_ms": life.handover_ms}

    def measured(self) -> None:
        """Lambda as the measured clock takes it, then every method at the steady lambda."""
        began = time.monotonic()
        own, _ = self.evaluate(["standard"], "measured", "lambda", scenarios=[])
        self.figures["measured_baseline_ms"] = own.manifest["baseline"]["baseline_ms"]
        self.figures["wall_s"]["measured"] = time.monotonic() - began
        for name in self.specs:
            began = time.monotonic()
            found, _ = self.evaluate([name], "measured", f"measured-{name}", baseline_ms=self.baseline_ms)
            wall_s = time.monotonic() - began
            cells = found.utilities
            offline = cells[cells["protocol"] == Offline.protocol].iloc[0]
            service_ms = found.trace(offline).service_ms
            row = self.row(name)
            row |= {"measured_ms": float(np.median(service_ms)), "measured_wall_s": wall_s}
            row["measured_x"] = _ratio(service_ms, self.steady_service[name])
            self.figures["wall_s"]["measured"] += wall_s
            self.compare("measured", _by_cell(cells))
            write(self.figures, self.out / "steady.json")

    def lived(self) -> None:
        """Cells against the wall clock: one scenario after the other, all methods in each."""
        job = self.job()
        stream = job.open_stream(job.streams[0])
        for index in _spread(len(job.scenarios)):
            for spec in job.methods:
                cells = self.results.utilities
                cell = cells[(cells["method"] == spec.label) & (cells["scenario"] == index)].iloc[0]
                if not_livable(job, self.results, cell) is not None:
                    continue
                if self.left_s <= 0:
                    raise Stopped
                life = live_once(job, spec, stream, self.resolved(job, job.scenarios[index]))
                self.compare("lived", {(spec.label, str(cell["label"])): life.lived.utility})
                off = abs(life.lived.utility - life.replayed.utility)
                self.figures["replayed_off_points"] = max(
                    self.figures.get("replayed_off_points", 0.0), 100 * off
                )

    def naive(self) -> None:
        """One measured pass per scenario. The quickest first: most of them should fit into the time."""
        service = {name: float(times.sum()) / 1000 for name, times in self.steady_service.items()}
        for name in sorted(self.specs, key=service.__getitem__):
            if self.left_s < 1.2 * service[name] * len(self.results.scenarios):
                raise Stopped
            began = time.monotonic()
            self.evaluate([name], "measured", f"naive-{name}", baseline_ms=self.baseline_ms, share=False)
            self.row(name)["naive_wall_s"] = time.monotonic() - began

    # -- what they share ---------------------------------------------------------------------------------------

    def row(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.figures["methods"].setdefault(name, {})
        return found

    def job(self) -> Job:
        return job_from_batches(
            self.classifier,
            self.given,
            [MethodSpec(name, settings) for name, settings in self.specs.values()],
            relative_grid(),
            device=self.device,
            clock="measured",
            seed=SEED,
            baseline_ms=self.baseline_ms,
        )

    def resolved(self, job: Job, scenario: Any) -> Any:
        order = job.streams[0]
        return scenario.resolve(
            num_batches=order.num_batches, baseline_ms=self.baseline_ms, seed=order.seed, shift=order.shift
        )

    def compare(self, clock: str, utility: dict[tuple[str, str], float]) -> None:
        """Differences from the steady utilities, by scenario, and over all of them."""
        points = self.figures["points"].setdefault(clock, {"scenarios": {}})
        for (method, label), value in utility.items():
            if (method, label) in self.steady_utility:
                off = 100 * (value - self.steady_utility[method, label])
                points["scenarios"].setdefault(label, {})[method] = round(off, 3)
        every = [abs(off) for row in points["scenarios"].values() for off in row.values()]
        points |= {"cells": len(every), "mean": statistics.fmean(every), "largest": max(every)}


def _by_cell(frame: Any) -> dict[tuple[str, str], float]:
    scored = frame[frame["status"] == "ok"]
    return {(str(row["method"]), str(row["label"])): float(row["utility"]) for _, row in scored.iterrows()}


def _ratio(times_ms: Any, steady_ms: Any) -> float:
    """Batch by batch, the middle one."""
    return float(np.median(np.asarray(times_ms) / np.asarray(steady_ms)))


def _spread(count: int) -> list[int]:
    """Every third first, then the others: if time runs out, each protocol was looked at."""
    return [index for start in range(3) for index in range(start, count, 3)]


def main(
    out: Annotated[Path, typer.Option(help="A folder for steady.json and the runs.")],
    device: Device = "cpu",
    model: Annotated[
        str, typer.Option(help="Any name that tempora_tta.models.load takes.")
    ] = "fashion_resnet",
    seconds: Annotated[float, typer.Option(help="What does not fit is left out, and said.")] = 120.0,
    profile_s: Annotated[float, typer.Option(help="Of them, for the profile.")] = 30.0,
    lives: Annotated[int, typer.Option(help="Of every method, for its live service times.")] = 3,
    batches: int = 24,
    batch_size: int = 64,
    only: Annotated[str, typer.Option(help="Methods, with commas.")] = METHODS,
    predict_with: Annotated[str, typer.Option(help="Of the steady run: tf32, amp, channels_last.")] = "",
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    classifier = models.load(model, pretrained=False).to(device)
    given = synthetic(classifier, batches, batch_size)
    classifier = sharpened(classifier, given[0][0].to(device))
    given = [(x, predicted(classifier, x, device)) for x, _ in given]
    figures: dict[str, Any] = {
        "model": model,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "torch": torch.__version__,
        "batches": batches,
        "batch_size": batch_size,
        "seconds": seconds,
        "profile_s": profile_s,
        "predict_with": predict_with,
        "left_out": {},
        "steps": {},
        "wall_s": {},
        "methods": {},
        "points": {},
    }
    figures["left_out"] = left_out = unfit(classifier, only.split(","))
    for name, why in left_out.items():
        console.print(f"{name} is left out: {why}", markup=False)
    names = [name for name in only.split(",") if name not in left_out]
    bench = Bench(classifier, given, names, device, seconds, profile_s, lives, out, figures)
    for step in (bench.steady, bench.service, bench.measured, bench.lived, bench.naive):
        bench.step(step.__name__, step)
    show(figures)


def unfit(classifier: models.Classifier, names: list[str]) -> dict[str, str]:
    """The methods that refuse this network, and what they say."""
    found = {}
    for name in names:
        try:
            methods.create(name, classifier, **OPEN.get(name, {}))
        except TemporaError as error:
            found[name] = str(error)
    return found


@torch.no_grad()
def predicted(classifier: models.Classifier, x: torch.Tensor, device: str) -> torch.Tensor:
    return classifier(x.to(device)).argmax(dim=1).cpu()


def show(figures: dict[str, Any]) -> None:
    for name, row in figures["methods"].items():
        told = (f"{key} {value:.3f}" for key, value in row.items() if isinstance(value, float))
        console.print(f"{name}: {', '.join(told)}", markup=False, soft_wrap=True)
    for clock, found in figures["points"].items():
        console.print(
            f"{clock} against steady: {found['cells']} cells, mean {found['mean']:.2f} points, largest "
            f"{found['largest']:.2f}",
            markup=False,
        )
    console.print({name: round(value, 1) for name, value in figures["wall_s"].items()})


if __name__ == "__main__":
    typer.run(main)
