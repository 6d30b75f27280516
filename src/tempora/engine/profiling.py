"""Recording a steady profile: rounds that go through every method's work, with standard inference beside it.

Every method walks along the same few batches of up to four shifts, from a reset at the start of each shift, one batch
per round. Reset is exact, so the same batches give the same work and the same shapes each time they come round; the
first time is a warm-up where work depends on the amount.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempora.data import Order, Streams
from tempora.engine.job import STANDARD, Job, MethodSpec
from tempora.errors import TemporaError
from tempora.measure import SteadyProfile, device_kind, machine_facts
from tempora.measure import fits as fitting
from tempora.measure.fits import Fit
from tempora.measure.process import keep_freed_memory
from tempora.measure.settling import Cells, MethodCourse, most, moved_cells, worth_more
from tempora.measure.spent import Spent as Counters
from tempora.measure.steady import PROVISION_X, Entry, Residuals, Rounds, Spent, profile_id
from tempora.measure.timer import CPU_TIME, DEVICE_TIME, Elapsed, RoundWatch, Timer, clean_device_rounds
from tempora.measure.work import ADAPT, FROZEN, PHASES, PREDICT, Kind, Sample, work_of
from tempora.methods import Method, Moment
from tempora.methods.contract import adapt_at, predict_at
from tempora.methods.guard import Guard

FIT_SHIFTS, CHECK_SHIFTS = 3, 1
BATCHES_PER_SHIFT = 3
STANDARD_EVERY = 3
"""Methods between two samples of standard inference."""
FEWEST_ROUNDS = 3
FIRST_LOOK = 8
"""Rounds before the first look whether the profile has settled; later looks are half as many more apart."""
IDLE_S = 0.02
MOST_BLOCKS = 256
REPLAYED_ROUNDS = 12
"""Rounds for a kind of work that was met after the profile had been recorded."""

_STANDARD_KIND = Kind(STANDARD, PREDICT)
LEISURE = Moment(now_ms=0.0, arrived_ms=0.0)
HURRY = Moment(
    now_ms=0.0,
    arrived_ms=0.0,
    queued=1,
    baseline_ms=1.0,
    threshold_ms=1.0 + 1e-6,
    interval_ms=1.0,
    slack_ms=0.0,
)
"""What methods that look at the clock are told in turn, so that they show what they do in either case."""

Tell = Callable[[int, float], None]
"""Told the round and the share of the time that is up."""


@dataclass(frozen=True)
class Station:
    """One batch on the way."""

    shift: str
    x: Tensor
    first: bool
    last: bool
    checks: bool
    """Kept apart from the fit."""


@dataclass(frozen=True)
class Replay:
    """The way to a kind of work that the profile lacks: these batches of a stream, the last of which met it."""

    label: str
    shift: str
    seed: int
    served: tuple[int, ...]
    resets: tuple[int, ...] = ()
    """Those before which the stream resets the method."""


class Walker:
    """A method on its way along the stations."""

    def __init__(self, label: str, method: Method, timer: Timer, guard: Guard) -> None:
        self.label, self.method = label, method
        self._timer, self._guard = timer, guard
        self.steps = 0
        self.follows_amount = False
        self.seen: dict[int, tuple[Sample, Sample | None]] = {}
        """The latest samples at each station."""

    def step(self, station: Station, number: int) -> list[tuple[Sample, Elapsed]]:
        """Predict and adapt on one batch; frozen too, at the end of its shift."""
        if station.first:
            self.reset()
        found = self.serve(station.x, station.shift, number, HURRY if station.last else LEISURE)
        if station.last:
            with self._guard("freeze"):
                self.method.freeze()
            found.append(self._frozen(station.x, station.shift, number))
            self.reset()
        self.steps += 1
        return found

    def reset(self) -> None:
        with self._guard("reset"):
            self.method.reset()

    def serve(
        self, x: Tensor, shift: str, number: int, moment: Moment = LEISURE
    ) -> list[tuple[Sample, Elapsed]]:
        """Predict and adapt on a batch, each timed."""
        if self.method.frozen:  # it froze itself
            return [self._frozen(x, shift, number)]
        method: Any = self.method
        with self._guard("predict"):
            _, elapsed = self._timer.time(lambda: predict_at(method, x, moment))
        action = method.acted_in_predict or ""
        mode, amount = work_of(method)
        self.follows_amount |= amount is not None
        predicted = _sample(Kind(self.label, PREDICT, mode, action), number, shift, elapsed, amount)
        with self._guard("adapt"):
            did, spent = self._timer.time(lambda: adapt_at(method, moment))
        mode, amount = work_of(method)
        self.follows_amount |= amount is not None
        adapted = _sample(Kind(self.label, ADAPT, mode, did), number, shift, spent, amount)
        return [(predicted, elapsed), (adapted, spent)]

    def _frozen(self, x: Tensor, shift: str, number: int) -> tuple[Sample, Elapsed]:
        with self._guard("predict"):
            _, elapsed = self._timer.time(lambda: predict_at(self.method, x, LEISURE))
        return _sample(Kind(self.label, FROZEN), number, shift, elapsed, None), elapsed


def walker_of(job: Job, spec: MethodSpec, seed: int, timer: Timer) -> Walker:
    """A method of the job, newly made."""
    return Walker(spec.label, job.create(spec, seed), timer, job.guard(spec))


@dataclass
class Recording:
    """The rounds so far."""

    what: str
    """What is timed."""
    samples: list[Sample] = field(default_factory=list)
    shifts: list[str] = field(default_factory=list)
    checks: list[bool] = field(default_factory=list)
    clean: list[bool] = field(default_factory=list)
    idle_ms: list[float] = field(default_factory=list)

    def fitted(self, standard_ms: float | None = None) -> Fitted:
        """`standard_ms`: of the profile that these rounds are added to."""
        by_round = fitting.standard_by_round(self.samples, _STANDARD_KIND)
        clean = list(self.clean)
        if self.what == DEVICE_TIME:
            clean = clean_device_rounds([by_round[number] for number in range(len(clean))])
        usable = fitting.usable_rounds(clean, robust=self.what == CPU_TIME)
        of_rounds = [by_round[number] for number in usable]
        standard = fitting.fit(of_rounds, [None] * len(of_rounds))
        samples = fitting.relative(self.samples, by_round, standard_ms or standard.ms)
        kept = [sample for sample in samples if not self.checks[sample.round]]
        fits = fitting.fit_kinds(samples, usable) | fitting.fit_kinds(kept, usable)
        fits[_STANDARD_KIND] = standard
        apart = [sample for sample in samples if self.checks[sample.round]]
        return Fitted(clean, usable, by_round, standard, fits, fitting.distances(apart, fits))


@dataclass(frozen=True)
class Fitted:
    """What the rounds say."""

    clean: list[bool]
    usable: list[int]
    by_round: dict[int, float]
    standard: Fit
    fits: dict[Kind, Fit]
    checks: dict[Kind, float]


def record_profile(
    job: Job,
    *,
    seconds: float,
    num_batches: int,
    name: str,
    labels: Sequence[str] | None = None,
    tell: Tell = lambda number, share: None,
) -> SteadyProfile:
    """Profile the methods of a job (those with `labels`) on this machine, in this process, now."""
    began = time.monotonic()
    keep_freed_memory()
    timer = Timer(job.device, torch.get_num_threads())
    way = stations(job)
    walkers, spent = _warmed_up(job, way, timer, labels)
    standard = walker_of(job, MethodSpec(STANDARD), job.streams[0].seed, timer)
    for station in way:
        standard.serve(station.x, station.shift, 0)
    recording, look, enough = Recording(timer.what), FIRST_LOOK, False
    order = random.Random(0)
    while True:
        number = len(recording.shifts)
        up = (time.monotonic() - began) / seconds
        if number == look:
            enough = _enough(job, recording.fitted(), walkers, num_batches, up)
            look += max(1, look // 2)
        if number >= FEWEST_ROUNDS and (enough or up > 1):
            break
        _round(recording, way[number % len(way)], walkers, standard, timer, order)
        position = number % len(way)
        for walker in walkers:
            walker.seen[position] = _latest(recording.samples, walker.label)
        tell(number + 1, (time.monotonic() - began) / seconds)
    wanted = (
        [spec.label for spec in job.methods if spec.label != STANDARD] if labels is None else list(labels)
    )
    return _profile(job, recording, walkers, spent, name, num_batches, wanted, time_was_up=not enough)


def record_replay(
    job: Job, replay: Replay, profile: SteadyProfile, tell: Tell = lambda number, share: None
) -> SteadyProfile:
    """The profile with the kind of work that the last batch of a replay meets."""
    keep_freed_memory()
    timer = Timer(job.device, torch.get_num_threads())
    spec = next(spec for spec in job.methods if spec.label == replay.label)
    source = next(one for one in job.streams if (one.shift, one.seed) == (replay.shift, replay.seed))
    walker = walker_of(job, spec, source.seed, timer)
    standard = walker_of(job, MethodSpec(STANDARD), source.seed, timer)
    stream = job.open_stream(source.head(replay.served[-1] + 1))
    walker.reset()
    for index in replay.served[:-1]:
        if index in replay.resets:
            walker.reset()
        walker.serve(stream.batch(index), replay.shift, 0)
    if replay.served[-1] in replay.resets:
        walker.reset()
    x = stream.batch(replay.served[-1]).clone()
    before = walker.method.snapshot()
    recording = Recording(timer.what)
    for number in range(-1, REPLAYED_ROUNDS):  # the first warms up
        walker.method.restore(before)
        watch = RoundWatch(timer)
        found = [
            *standard.serve(x, replay.shift, number),
            *walker.serve(x, replay.shift, number, HURRY if number % 2 else LEISURE),
            *standard.serve(x, replay.shift, number),
        ]
        if number >= 0:
            _note_round(recording, found, replay.shift, False, watch)
            tell(number + 1, (number + 1) / REPLAYED_ROUNDS)
    fitted = recording.fitted(profile.standard_ms)
    entries = _entries(recording, fitted, [walker.label])
    return profile.with_entries(entries, _rounds(recording, fitted, entries))


def stations(job: Job) -> list[Station]:
    """The first batches of up to four shifts; the fourth is kept apart to check the fits on."""
    way: list[Station] = []
    for position, (shift, batches) in enumerate(profiled_batches(job).items()):
        way += [
            Station(shift, x, index == 0, index == len(batches) - 1, position >= FIT_SHIFTS)
            for index, (x, _) in enumerate(batches)
        ]
    return way


def profiled_batches(job: Job) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """The first batches of up to four shifts, spread over all of them: those next to each other are alike.

    A stream of many shifts is looked into where each of them begins.
    """
    places: dict[str, tuple[Order, int, int]] = {}
    for order in job.streams:
        for segment in order.segments:
            places.setdefault(segment.shift, (order, segment.first, segment.batches))
    shifts, most = list(places), FIT_SHIFTS + CHECK_SHIFTS
    if len(shifts) > most:
        *fitted, check, last = (shifts[round(step * (len(shifts) - 1) / (most - 1))] for step in range(most))
        shifts = [*fitted, last, check]
    found, streams = {}, Streams(job.open_stream)
    for shift in shifts:
        order, first, count = places[shift]
        stream = streams.open(order)
        found[shift] = [
            (stream.batch(index).clone(), torch.from_numpy(stream.labels(index)))
            for index in range(first, first + min(BATCHES_PER_SHIFT, count))
        ]
    streams.close()
    return found


def _warmed_up(
    job: Job, way: list[Station], timer: Timer, labels: Iterable[str] | None
) -> tuple[list[Walker], dict[str, Spent]]:
    """Every method that can be run, after it has met every shape that its work will have; and what it takes."""
    wanted = None if labels is None else set(labels)
    end = next(position for position, station in enumerate(way) if station.last) + 1
    walkers, spent = [], {}
    for spec in job.methods:
        if (spec.is_standard and spec.label == STANDARD) or (wanted is not None and spec.label not in wanted):
            continue
        try:
            walker = walker_of(job, spec, job.streams[0].seed, timer)
            with Counters(job.device) as counters:
                for station in way[:end]:
                    walker.step(station, 0)
            if walker.follows_amount:
                for station in way[end:]:
                    walker.step(station, 0)
            walker.reset()
        except Exception:  # it fails again in its own task, which records why
            continue
        joules = counters.energy_joules
        walkers.append(walker)
        spent[spec.label] = Spent(
            peak_memory_bytes=counters.peak_memory_bytes,
            energy_joules=None if joules is None else joules / end,
            updated_parameters=sum(tensor.numel() for tensor in walker.method.trainable.values()),
        )
    return walkers, spent


def _round(
    recording: Recording,
    station: Station,
    walkers: list[Walker],
    standard: Walker,
    timer: Timer,
    order: random.Random,
) -> None:
    """All methods on one batch, in an order of its own, with standard inference between them."""
    number = len(recording.shifts)
    found: list[tuple[Sample, Elapsed]] = []
    watch = RoundWatch(timer)
    for position, walker in enumerate(order.sample(walkers, len(walkers))):
        if position % STANDARD_EVERY == 0:
            found += standard.serve(station.x, station.shift, number)
        try:
            found += walker.step(station, number)
        except Exception:  # it fails again in its own task, which records why
            walkers.remove(walker)
    found += standard.serve(station.x, station.shift, number)
    _note_round(recording, found, station.shift, station.checks, watch)
    time.sleep(IDLE_S)
    after_idle = standard.serve(station.x, station.shift, number)
    recording.idle_ms.append(after_idle[0][0].ms)


def _note_round(
    recording: Recording,
    found: list[tuple[Sample, Elapsed]],
    shift: str,
    checks: bool,
    watch: RoundWatch,
) -> None:
    recording.clean.append(watch.clean([elapsed for _, elapsed in found]))
    recording.samples += [sample for sample, _ in found]
    recording.shifts.append(shift)
    recording.checks.append(checks)


def _latest(samples: list[Sample], label: str) -> tuple[Sample, Sample | None]:
    """The method's prediction and adaptation of the last round."""
    own = [
        sample
        for sample in samples[-200:]
        if sample.kind.method == label and sample.round == samples[-1].round
    ]
    adapted = next((sample for sample in own if sample.kind.phase == ADAPT), None)
    return own[0], adapted


def _moved(job: Job, fitted: Fitted, walkers: list[Walker], num_batches: int, shrunk: float = 1.0) -> Cells:
    courses = {walker.label: _course(walker, fitted) for walker in walkers if walker.seen}
    return moved_cells(courses, job.scenarios, fitted.standard.ms * PROVISION_X, num_batches, shrunk)


def _enough(job: Job, fitted: Fitted, walkers: list[Walker], num_batches: int, up: float) -> bool:
    """Whether the error moves no cell, or what it moves cannot be settled in the rest of the time; `up`: the share of
    it that has passed."""
    now = _moved(job, fitted, walkers, num_batches)
    if most(now).little:
        return True
    tail_known = _clean_samples(fitted, walkers) >= fitting.TAIL_SAMPLES
    # Errors shrink with the root of the rounds.
    then = _moved(job, fitted, walkers, num_batches, shrunk=min(1.0, up) ** 0.5)
    return tail_known and not worth_more(now, then)


def _clean_samples(fitted: Fitted, walkers: list[Walker]) -> int:
    """About so many that the device's own variation can be told from: one of each method in each clean round."""
    return sum(fitted.clean) * len(walkers)


def _course(walker: Walker, fitted: Fitted) -> MethodCourse:
    """What the walker's batches take by the fits, and the error of that."""
    predicts, adapts, square = [], [], 0.0
    for predicted, adapted in walker.seen.values():
        known = [fitted.fits[one.kind] for one in (predicted, adapted) if one is not None]
        predicts.append(known[0].at(predicted.amount))
        adapts.append(known[1].at(adapted.amount) if adapted is not None else 0.0)
        square = max(square, sum((one.error * one.ms) ** 2 for one in known))
    frozen = fitted.fits.get(Kind(walker.label, FROZEN), fitted.standard)
    service_ms = float(np.mean(predicts) + np.mean(adapts))
    return MethodCourse(predicts, adapts, frozen.ms, square**0.5 / service_ms if service_ms else 0.0)


def _profile(
    job: Job,
    recording: Recording,
    walkers: list[Walker],
    spent: dict[str, Spent],
    name: str,
    num_batches: int,
    labels: list[str],
    time_was_up: bool,
) -> SteadyProfile:
    fitted = recording.fitted()
    cells = _moved(job, fitted, walkers, num_batches)
    far, unsettled = most(cells), [" ".join(cell) for cell, one in cells.items() if not one.little]
    entries = _entries(recording, fitted, [STANDARD, *(walker.label for walker in walkers)])
    blocks = fitting.residual_blocks(recording.samples, fitted.fits, fitted.clean)[-MOST_BLOCKS:]
    factors = [[_short(factor) for factor in block] for block in blocks]
    facts = machine_facts(job.device)
    made_at = time.strftime("%Y-%m-%dT%H:%M:%S")
    clean_share = sum(fitted.clean) / len(fitted.clean)
    clean_samples = sum(map(len, factors))
    return SteadyProfile(
        name=name,
        id=profile_id(entries, fitted.standard.ms, made_at),
        made_at=made_at,
        model=job.model.name,
        weights=job.weights,
        batch_size=job.streams[0].batch_size,
        device=device_kind(facts),
        threads=torch.get_num_threads(),
        times=recording.what,
        machine=facts,
        standard_ms=fitted.standard.ms,
        standard_error=fitted.standard.error,
        tail_x=fitting.tail_x([factor for block in factors for factor in block]),
        after_idle_x=_short(float(np.median(recording.idle_ms)) / fitted.standard.ms),
        clean_share=clean_share,
        cores_ours=clean_share >= 0.5,
        settled=far.little,
        unsettled=unsettled,
        time_was_up=time_was_up,
        moved_points=_short(far.points),
        moved_batches=_short(far.batches),
        entries=entries,
        rounds=_rounds(recording, fitted, entries),
        residuals=Residuals(factors=factors, clean_samples=clean_samples),
        spent=spent,
        left_out=dict.fromkeys(
            (label for label in labels if label not in {walker.label for walker in walkers}), ""
        ),
        unmet={walker.label: unmet for walker in walkers if (unmet := _unmet(walker, entries))},
    )


def _unmet(walker: Walker, entries: Iterable[Entry]) -> list[str]:
    """Actions and modes that the method names, would take time, and that no round met."""
    method = walker.method
    met = {word for entry in entries if entry.method == walker.label for word in (entry.mode, entry.action)}
    named = dict.fromkeys((*method.actions, *method.modes))
    return [word for word in named if word not in met and word not in method.free]


def _entries(recording: Recording, fitted: Fitted, labels: Iterable[str]) -> list[Entry]:
    wall: dict[Kind, list[float]] = {}
    for sample in recording.samples:
        wall.setdefault(sample.kind, []).append(sample.wall_ms)
    order = {label: position for position, label in enumerate(labels)}
    kinds = sorted(
        (kind for kind in fitted.fits if kind.method in order),
        key=lambda kind: (order[kind.method], PHASES.index(kind.phase), kind.mode, kind.action),
    )
    fits = fitted.fits
    return [
        Entry(
            method=kind.method,
            phase=kind.phase,  # type: ignore[arg-type]
            mode=kind.mode,
            action=kind.action,
            steady_ms=fits[kind].ms,
            per_amount_ms=fits[kind].per_amount_ms,
            amount=fits[kind].amount,
            wall_ms=float(np.median(wall[kind])),
            error=fits[kind].error,
            samples=fits[kind].samples,
            check=fitted.checks.get(kind),
        )
        for kind in kinds
    ]


def _rounds(recording: Recording, fitted: Fitted, entries: list[Entry]) -> Rounds:
    """The samples as a table of entries by rounds; several of one round are their median, as Standard's are."""
    count = len(recording.shifts)
    column = {entry.kind: position for position, entry in enumerate(entries)}
    gathered: list[list[list[Sample]]] = [[[] for _ in range(count)] for _ in entries]
    for sample in recording.samples:
        if sample.kind in column:
            gathered[column[sample.kind]][sample.round].append(sample)
    return Rounds(
        shift=recording.shifts,
        clean=fitted.clean,
        checks=recording.checks,
        standard_ms=[_short(fitted.by_round[number]) for number in range(count)],
        ms=[[_middle([sample.ms for sample in cell]) for cell in row] for row in gathered],
        amount=[
            None
            if entry.amount is None
            else [_middle([s.amount for s in cell if s.amount is not None]) for cell in row]
            for entry, row in zip(entries, gathered, strict=True)
        ],
    )


def _middle(values: list[float]) -> float | None:
    return _short(float(np.median(values))) if values else None


def _short(value: float) -> float:
    """Six digits: more say nothing."""
    return float(f"{value:.6g}")


def _sample(kind: Kind, number: int, shift: str, elapsed: Elapsed, amount: float | None) -> Sample:
    return Sample(kind, number, shift, elapsed.ms, elapsed.wall_ms, amount)


def overhead_rows(profile: SteadyProfile) -> list[dict[str, Any]]:
    """delta, e, e - lambda, l and the slowdown by method: the rows of the paper's Table 2, of steady times."""
    rows = []
    for method in dict.fromkeys(entry.method for entry in profile.entries):
        predict_ms, adapt_ms = (_usual(profile, method, phase) for phase in (PREDICT, ADAPT))
        service_ms = predict_ms + adapt_ms
        rows.append(
            {
                "method": method,
                "service_ms": service_ms,
                "predict_ms": predict_ms,
                "intrinsic_ms": max(0.0, predict_ms - profile.baseline_ms),
                "adapt_ms": adapt_ms,
                "error": profile.uncertainty(method),
                "slowdown": service_ms / profile.baseline_ms,
                "spent": profile.spent.get(method, Spent()),
            }
        )
    return rows


def _usual(profile: SteadyProfile, method: str, phase: str) -> float:
    """Mean over what the method did in the rounds."""
    own = [entry for entry in profile.entries if (entry.method, entry.phase) == (method, phase)]
    count = sum(entry.samples for entry in own)
    return sum(entry.samples * entry.steady_ms for entry in own) / count if count else 0.0


def needs(job: Job, profile: SteadyProfile | None) -> list[str]:
    """The methods of a job that have yet to be profiled."""
    known: frozenset[str] = frozenset()
    if profile is not None:
        known = profile.methods | set(profile.left_out)
        known -= profile.changed(job.made_by_label)
    own = [spec.label for spec in job.methods if not spec.times_as]
    for spec in job.methods:
        if spec.times_as and spec.times_as not in known and spec.times_as not in own:
            raise TemporaError(
                f"times_as={spec.times_as!r} of {spec.label!r}: the profile of this machine has the methods of the "
                f"run; add {spec.times_as!r} to them, or use a clock that has its times"
            )
    return [label for label in own if label not in known]
