"""Recording a profile: rounds that go through the work of all methods, with standard inference between them.

Every method goes over the same few batches of up to four shifts, from a reset at the start of each shift, one batch
per round. Reset is exact, so the same batches give the same work and the same shapes each time they come round; the
first time is a warm-up where work depends on the amount.
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempora_tta.data import Order, Stream, Streams
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.apart import COLLECTED
from tempora_tta.methods.contract import adapt_at, predict_at
from tempora_tta.methods.guard import Guard
from tempora_tta.timing import fits as fitting
from tempora_tta.timing.device import (
    energy_joules,
    held_memory_bytes,
    mean_watts,
    peak_memory_bytes,
    reset_peak_memory,
)
from tempora_tta.timing.fits import Fit
from tempora_tta.timing.machine import device_kind, keep_freed_memory, machine_facts
from tempora_tta.timing.profile import (
    PRECISE,
    STANDARD,
    Entry,
    MethodFacts,
    Profile,
    Residuals,
    Round,
    imprecision,
    profile_id,
)
from tempora_tta.timing.timer import CPU_TIME, DEVICE_TIME, RoundWatch, Timer, clean_device_rounds
from tempora_tta.timing.work import ADAPT, FROZEN, PHASES, PREDICT, Kind, Sample, work_of

FIT_SHIFTS, CHECK_SHIFTS = 3, 1
PROFILED_BATCHES = 12
"""In all, whether of one shift or of four: enough for a line over the amounts that the work comes in."""
STANDARD_EVERY = 3
"""Methods between two samples of standard inference."""
FEWEST_ROUNDS = 3
ROUNDS_OF_MISSING = 12
LOOK_BATCHES, SETTLING_BATCHES = 5, 2
"""Batches of standard inference back to back whenever recording stops to think; and uncounted ones before them, which
push out of the caches what was there."""
MOST_BLOCKS = 256
LEAST_SHARE = 0.75
"""Of the time given, for the rounds: starting and warming up take the rest of it and no more."""
MOST_WAIT = 2.0
"""Most wall time over the time given, where seconds are those of this process's processor time."""

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

STANDARD_KIND = Kind(STANDARD, PREDICT)
Progress = Callable[[float], None]
"""Called with the share of the work that is done."""


@dataclass(frozen=True)
class Subject:
    """The subject of a profile: methods of one network on one device, over the streams of a run."""

    model: str
    weights: str
    device: torch.device
    methods: Mapping[str, Callable[[int], Method]]
    """Makes each method, by its label, from a seed; Standard is among them."""
    orders: Sequence[Order]
    open_stream: Callable[[Order], Stream]
    timeout_s: float | None = None
    """Longest time of one call into a method; None: any."""
    at_once: Mapping[int, Mapping[str, Callable[[int], Method]]] = field(default_factory=dict)
    """By the number of images that they learn from: those that answer frames at once."""


@dataclass(frozen=True)
class MissingWork:
    """The way to a kind of work that a profile lacks: these batches of a stream, the last of which met it."""

    label: str
    shift: str
    seed: int
    served: tuple[int, ...]
    resets: tuple[int, ...] = ()
    """Those before which the stream resets the method."""


def record(
    subject: Subject,
    *,
    seconds: float,
    labels: Iterable[str],
    waited_s: float = 0.0,
    progress: Progress = lambda share: None,
) -> Profile:
    """Profile Standard and the methods with these labels on this machine, in this process, now.

    waited_s: how much of the `seconds` had passed before anything could be profiled.
    """
    began_s = time.monotonic() - waited_s
    warm_s = began_s + (1 - LEAST_SHARE) * seconds
    keep_freed_memory()
    timer, batches = Timer(subject.device, torch.get_num_threads()), _batches(subject)
    wanted = [label for label in labels if label != STANDARD]
    methods, facts = [], {}
    for label in wanted:
        with suppress(Exception):  # it fails again in its own task, which records why
            method, facts[label] = _ready(subject, label, batches, timer)
            method.go_far(batches, until_s=warm_s)
            methods.append(method)
    standard, facts[STANDARD] = _ready(subject, STANDARD, batches, timer)
    at_once = _at_once(subject, [STANDARD, *wanted], batches, timer)
    deadline = Deadline(seconds, time.monotonic() - began_s, by_processor=timer.what == CPU_TIME)
    timed = [*methods, *at_once]
    recording = _rounds(Recording(timer), batches, timed, standard, deadline, progress)
    methods = [method for method in methods if method in timed]
    for method in methods:
        with suppress(Exception):
            _time_far_work(recording, method, standard, batches)
    profile = _profile(subject, recording, [method.label for method in methods])
    facts |= dict.fromkeys(set(wanted) - profile.methods, MethodFacts(failed=True))
    for method in methods:
        unmet = method.unmet(profile.by_kind)
        facts[method.label] = facts[method.label].model_copy(update={"unmet": unmet})
    return profile.model_copy(update={"facts": facts})


def record_missing(
    subject: Subject, missing: MissingWork, profile: Profile, progress: Progress = lambda share: None
) -> Profile:
    """The profile with the kind of work that the last of the missing work's batches meets."""
    keep_freed_memory()
    timer = Timer(subject.device, torch.get_num_threads())
    order = next(
        order for order in subject.orders if (order.shift, order.seed) == (missing.shift, missing.seed)
    )
    stream = subject.open_stream(order.head(missing.served[-1] + 1))
    method = ProfiledMethod(missing.label, subject, timer, order.seed)
    standard = ProfiledMethod(STANDARD, subject, timer, order.seed)
    method.reset()
    for index in missing.served:
        if index in missing.resets:
            method.reset()
        batch = ProfiledBatch(0, missing.shift, stream.batch(index).clone())
        if index != missing.served[-1]:
            method.serve(batch, 0)
    stream.close()
    recording = Recording(timer)
    _repeat(recording, method, standard, batch, progress)
    fitted = recording.fitted(profile.standard_ms)
    return profile.with_entries(recording.entries(fitted, [missing.label]), recording.rounds(fitted))


def back_to_back_ms(standard: Method, batches: Sequence[Tensor], timer: Timer, counted: int) -> list[float]:
    """Milliseconds of standard inference with nothing between its batches: how fast the machine is now.

    Between the methods of a round standard inference finds the caches full of their work, and takes about a tenth
    longer. That belongs into a profile, since it does so in a deployment, too; but only a look that finds the same
    things in the caches both times compares a machine's speed then and now.
    """
    for x in islice(cycle(batches), SETTLING_BATCHES):
        standard.predict(x)
    return [timer.time(partial(standard.predict, x))[1].ms for x in islice(cycle(batches), counted)]


# -- batches -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProfiledBatch:
    """One of the batches that all methods are profiled on."""

    place: int
    shift: str
    x: Tensor
    first: bool = True
    """Of its shift."""
    last: bool = True
    checks: bool = False
    """Kept apart from the fit."""


def _batches(subject: Subject) -> list[ProfiledBatch]:
    found: list[ProfiledBatch] = []
    chosen = profiled_batches(subject.orders, subject.open_stream)
    for position, (shift, batches) in enumerate(chosen.items()):
        for index, (x, _) in enumerate(batches):
            last = index == len(batches) - 1
            found.append(ProfiledBatch(len(found), shift, x, index == 0, last, checks=position >= FIT_SHIFTS))
    return found


def batches_per_shift(orders: Sequence[Order]) -> int:
    """Batches of each shift that are profiled: the more, the fewer shifts there are."""
    shifts = {segment.shift for order in orders for segment in order.segments}
    return math.ceil(PROFILED_BATCHES / min(len(shifts), FIT_SHIFTS + CHECK_SHIFTS))


def profiled_batches(
    orders: Sequence[Order], open_stream: Callable[[Order], Stream]
) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """The first batches of up to four shifts, spread over all of them: those next to each other are alike.

    A stream of many shifts is looked into where each of them begins. The last shift checks the fits.
    """
    places: dict[str, tuple[Order, int, int]] = {}
    for order in orders:
        for segment in order.segments:
            places.setdefault(segment.shift, (order, segment.first, segment.batches))
    shifts, most = list(places), FIT_SHIFTS + CHECK_SHIFTS
    if len(shifts) > most:
        *fitted, check, last = (shifts[round(step * (len(shifts) - 1) / (most - 1))] for step in range(most))
        shifts = [*fitted, last, check]
    found, streams = {}, Streams(open_stream)
    for shift in shifts:
        order, first, count = places[shift]
        stream = streams.open(order)
        found[shift] = [
            (stream.batch(index).clone(), torch.from_numpy(stream.labels(index)))
            for index in range(first, first + min(batches_per_shift(orders), count))
        ]
    streams.close()
    return found


# -- methods -----------------------------------------------------------------------------------------------


class ProfiledMethod:
    """A method on its way over the profiled batches: every call timed, named by its kind of work."""

    def __init__(
        self, label: str, subject: Subject, timer: Timer, seed: int, at_once: int | None = None
    ) -> None:
        made = subject.methods if at_once is None else subject.at_once[at_once]
        self.label, self.method = label, made[label](seed)
        self.follows_amount = False
        self.far: dict[Kind, int] = {}
        """Kinds of work met on a way over all batches without a reset, and the first batch that met each."""
        self._timer, self._guard = timer, Guard(label, subject.timeout_s)

    def step(self, batch: ProfiledBatch, number: int) -> list[Sample]:
        """Predict and adapt on one batch; frozen too, at the end of its shift."""
        if batch.first:
            self.reset()
        found = self.serve(batch, number, HURRY if batch.last else LEISURE)
        if batch.last:
            with self._guard("freeze"):
                self.method.freeze()
            found.append(self._frozen(batch, number))
            self.reset()
        return found

    def reset(self) -> None:
        with self._guard("reset"):
            self.method.reset()

    def serve(self, batch: ProfiledBatch, number: int, moment: Moment = LEISURE) -> list[Sample]:
        """Predict and adapt on a batch, each timed."""
        if self.method.frozen:  # it froze itself
            return [self._frozen(batch, number)]
        method: Any = self.method
        with self._guard("predict"):
            _, took = self._timer.time(lambda: predict_at(method, batch.x, moment))
        kind = Kind(self.label, PREDICT, action=method.action_in_predict or "")
        mode, amount = self._work()
        predicted = Sample(kind._replace(mode=mode), number, batch.shift, *took, amount, batch.place)
        with self._guard("adapt"):
            action, took = self._timer.time(lambda: adapt_at(method, moment))
        mode, amount = self._work()
        kind = Kind(self.label, ADAPT, mode, action)
        return [predicted, Sample(kind, number, batch.shift, *took, amount, batch.place)]

    def go_far(self, batches: Sequence[ProfiledBatch], until_s: float) -> None:
        """See what work a longer way meets, if the method names any that one shift may not."""
        if not self.unmet(()):
            return
        for index, batch in enumerate(batches):
            if time.monotonic() > until_s:
                break
            for sample in self.serve(batch, 0):
                self.far.setdefault(sample.kind, index)
        self.reset()

    def unmet(self, kinds: Iterable[Kind]) -> list[str]:
        """Actions and modes that the method names, would take time, and are in none of these kinds of work."""
        met = {word for kind in kinds if kind.method == self.label for word in (kind.mode, kind.action)}
        named = dict.fromkeys((*self.method.actions, *self.method.modes))
        return [word for word in named if word not in met and word not in self.method.untimed]

    def _work(self) -> tuple[str, float | None]:
        mode, amount = work_of(self.method)
        self.follows_amount |= amount is not None
        return mode, amount

    def _frozen(self, batch: ProfiledBatch, number: int) -> Sample:
        with self._guard("predict"):
            _, took = self._timer.time(lambda: predict_at(self.method, batch.x, LEISURE))
        return Sample(Kind(self.label, FROZEN), number, batch.shift, *took, place=batch.place)


class AtOnce(ProfiledMethod):
    """A method that answers frames at once: groups of a few sizes, and learning."""

    def __init__(
        self, label: str, subject: Subject, timer: Timer, size: int, batches: Sequence[ProfiledBatch]
    ) -> None:
        super().__init__(label, subject, timer, subject.orders[0].seed, at_once=size)
        self._frames = torch.cat(list(islice(cycle(batch.x for batch in batches), size)))
        self._sizes = sorted({round(size ** (step / 3)) for step in range(4)})

    def step(self, batch: ProfiledBatch, number: int) -> list[Sample]:
        """Answer a group, of another size at the next place, and learn from as many frames as it takes."""
        if batch.first or self.method.frozen:  # it may have frozen itself
            self.reset()
        group = self._frames[: self._sizes[batch.place % len(self._sizes)]]
        with self._guard("predict"):
            predict_at(self.method, self._frames, LEISURE)
        timed = self.serve(replace(batch, x=group), number)
        return [sample for sample in timed if sample.kind.action != COLLECTED]  # it learns nothing


def _at_once(
    subject: Subject, labels: Iterable[str], batches: list[ProfiledBatch], timer: Timer
) -> list[ProfiledMethod]:
    """Methods that answer frames at once, each warmed up."""
    found: list[ProfiledMethod] = []
    for size, label in product(subject.at_once, labels):
        with suppress(Exception):  # it fails again in its own task, which records why
            method = AtOnce(label, subject, timer, size, batches)
            for batch in batches[:4]:
                method.step(batch, 0)
            found.append(method)
    return found


def _ready(
    subject: Subject, label: str, batches: list[ProfiledBatch], timer: Timer
) -> tuple[ProfiledMethod, MethodFacts]:
    """Make a method, take it through every shape that its work will have, and look at what it takes besides time."""
    held_bytes = held_memory_bytes(subject.device)
    reset_peak_memory(subject.device)
    method = ProfiledMethod(label, subject, timer, subject.orders[0].seed)
    if label == STANDARD:
        for batch in batches:
            method.serve(batch, 0)
    else:
        _warm_up(method, batches)
    peak_bytes, following = peak_memory_bytes(subject.device), cycle(batches)

    def work() -> None:
        batch = next(following)
        if batch.first:
            method.reset()
        method.serve(batch, 0)

    watts = mean_watts(work, partial(energy_joules, subject.device))
    method.reset()
    return method, MethodFacts(
        memory_bytes=None if peak_bytes is None else peak_bytes - held_bytes,
        watts=watts,
        updated_parameters=sum(tensor.numel() for tensor in method.method.trainable.values()),
    )


def _warm_up(method: ProfiledMethod, batches: list[ProfiledBatch]) -> None:
    """A few steps show every shape, unless the amount of work decides them: then all batches."""
    end = next(position for position, batch in enumerate(batches) if batch.last)
    for batch in (*batches[: min(2, end)], batches[end]):
        method.step(batch, 0)
    if method.follows_amount:
        for batch in batches:
            method.step(batch, 0)
    method.reset()


# -- rounds ------------------------------------------------------------------------------------------------


class Deadline:
    """The seconds that rounds have; those of this process's processor time, if that is what is recorded."""

    def __init__(self, seconds: float, waited_s: float, by_processor: bool) -> None:
        used_s = min(waited_s, (1 - LEAST_SHARE) * seconds)
        self._seconds, self._by_processor = seconds, by_processor
        self._wall_s, self._processor_s = time.monotonic() - used_s, time.process_time() - used_s

    @property
    def up(self) -> float:
        """The share that has passed; above 1, the time is up."""
        wall = (time.monotonic() - self._wall_s) / self._seconds
        if not self._by_processor:
            return wall
        return max((time.process_time() - self._processor_s) / self._seconds, wall / MOST_WAIT)


def _rounds(
    recording: Recording,
    batches: list[ProfiledBatch],
    methods: list[ProfiledMethod],
    standard: ProfiledMethod,
    deadline: Deadline,
    progress: Progress,
) -> Recording:
    """Record rounds until every method's time is known, or the time is up. A method that fails leaves the list."""
    order, inputs = random.Random(0), [batch.x for batch in batches]
    look, precise = len(batches), False
    while True:
        if recording.count == look:  # first when every batch was met, then after half as many more
            recording.look(standard.method, inputs)
            fitted = recording.fitted()
            labels = [STANDARD, *(method.label for method in methods)]
            precise = imprecision(recording.entries(fitted, labels)) <= PRECISE
            look += max(1, look // 2)
        if recording.count >= FEWEST_ROUNDS and (precise or deadline.up > 1):
            recording.look(standard.method, inputs)
            return recording
        _round(recording, batches[recording.count % len(batches)], methods, standard, order)
        progress(deadline.up)


def _round(
    recording: Recording,
    batch: ProfiledBatch,
    methods: list[ProfiledMethod],
    standard: ProfiledMethod,
    order: random.Random,
) -> None:
    """All methods on one batch, in an order of its own, with standard inference between them."""
    number, watch = recording.count, RoundWatch(recording.timer)
    timed: list[Sample] = []
    for position, method in enumerate(order.sample(methods, len(methods))):
        if position % STANDARD_EVERY == 0:
            timed += standard.serve(batch, number)
        try:
            timed += method.step(batch, number)
        except Exception:  # it fails again in its own task, which records why
            methods.remove(method)
    timed += standard.serve(batch, number)
    recording.add(timed, batch, watch)


def _time_far_work(
    recording: Recording, method: ProfiledMethod, standard: ProfiledMethod, batches: list[ProfiledBatch]
) -> None:
    """Rounds of the work that a method only met on its long way."""
    for kind, last in method.far.items():
        if kind not in {sample.kind for sample in recording.samples}:
            method.reset()
            for batch in batches[:last]:
                method.serve(batch, 0)
            _repeat(recording, method, standard, batches[last])


def _repeat(
    recording: Recording,
    method: ProfiledMethod,
    standard: ProfiledMethod,
    batch: ProfiledBatch,
    progress: Progress = lambda share: None,
) -> None:
    """Rounds of one batch, each from the state in which the method is now."""
    before = method.method.snapshot()
    for turn in range(-1, ROUNDS_OF_MISSING):  # the first warms up
        method.method.restore(before)
        number, watch = recording.count, RoundWatch(recording.timer)
        timed = [
            *standard.serve(batch, number),
            *method.serve(batch, number, HURRY if turn % 2 else LEISURE),
            *standard.serve(batch, number),
        ]
        if turn >= 0:
            recording.add(timed, batch, watch)
            progress((turn + 1) / ROUNDS_OF_MISSING)


@dataclass(frozen=True)
class Fitted:
    """Fits and checks from the rounds."""

    clean: list[bool]
    standard_ms: dict[int, float]
    """By round."""
    fits: dict[Kind, Fit]
    checks: dict[Kind, float]

    @property
    def standard(self) -> Fit:
        return self.fits[STANDARD_KIND]


@dataclass
class Recording:
    """The rounds so far."""

    timer: Timer
    samples: list[Sample] = field(default_factory=list)
    back_to_back_ms: list[float] = field(default_factory=list)
    """Of standard inference, in looks between the rounds."""
    _batches: list[ProfiledBatch] = field(default_factory=list)
    _clean: list[bool] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self._batches)

    def add(self, timed: list[Sample], batch: ProfiledBatch, watch: RoundWatch) -> None:
        """Add one round, on this batch."""
        self._clean.append(watch.clean(timed))
        self._batches.append(batch)
        self.samples += timed

    def look(self, standard: Method, inputs: list[Tensor]) -> None:
        self.back_to_back_ms += back_to_back_ms(standard, inputs, self.timer, LOOK_BATCHES)

    def fitted(self, standard_ms: float | None = None) -> Fitted:
        """`standard_ms`: of the profile that these rounds are added to."""
        by_round = fitting.standard_by_round(self.samples, STANDARD_KIND)
        clean = list(self._clean)
        if self.timer.what == DEVICE_TIME:
            clean = clean_device_rounds([by_round[number] for number in range(self.count)])
        usable = fitting.usable_rounds(clean, robust=self.timer.what == CPU_TIME)
        of_rounds = [by_round[number] for number in usable]
        standard = fitting.fit(of_rounds, [None] * len(of_rounds))
        samples = fitting.relative(self.samples, by_round, standard_ms or standard.ms)
        kept = [sample for sample in samples if not self._batches[sample.round].checks]
        apart = [sample for sample in samples if self._batches[sample.round].checks]
        fits = fitting.fit_kinds(samples, usable) | fitting.fit_kinds(kept, usable)
        fits[STANDARD_KIND] = standard
        return Fitted(clean, by_round, fits, fitting.distances(apart, fits))

    def entries(self, fitted: Fitted, labels: Iterable[str]) -> list[Entry]:
        """Of the methods with these labels, in their order."""
        by_kind: dict[Kind, list[Sample]] = defaultdict(list)
        for sample in self.samples:
            by_kind[sample.kind].append(sample)
        order = {label: position for position, label in enumerate(labels)}
        kinds = sorted(
            (kind for kind in fitted.fits if kind.method in order),
            key=lambda kind: (order[kind.method], PHASES.index(kind.phase), kind.mode, kind.action),
        )
        return [_entry(kind, by_kind[kind], fitted) for kind in kinds]

    def rounds(self, fitted: Fitted) -> list[Round]:
        return [
            Round(
                shift=batch.shift,
                clean=clean,
                checks=batch.checks,
                standard_ms=_short(fitted.standard_ms[number]),
            )
            for number, (batch, clean) in enumerate(zip(self._batches, fitted.clean, strict=True))
        ]


def _entry(kind: Kind, samples: list[Sample], fitted: Fitted) -> Entry:
    """A kind of work and its time; several samples of one round are their median, as Standard's are."""
    fit = fitted.fits[kind]
    by_round: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_round[sample.round].append(sample)
    return Entry(
        **kind._asdict(),
        steady_ms=fit.ms,
        per_amount_ms=fit.per_amount_ms,
        amount=fit.amount,
        wall_ms=float(np.median([sample.wall_ms for sample in samples])),
        error=fit.error,
        samples=fit.samples,
        check=fitted.checks.get(kind),
        rounds=list(by_round),
        ms=[_median([sample.ms for sample in row]) for row in by_round.values()],
        amounts=[
            _median([fit.amount if s.amount is None else s.amount for s in row]) for row in by_round.values()
        ]
        if fit.per_amount_ms and fit.amount is not None
        else None,
    )


def _profile(subject: Subject, recording: Recording, labels: list[str]) -> Profile:
    fitted = recording.fitted()
    entries = recording.entries(fitted, [STANDARD, *labels])
    blocks = fitting.residual_blocks(recording.samples, fitted.fits, fitted.clean)[-MOST_BLOCKS:]
    factors = [[_short(factor) for factor in block] for block in blocks]
    facts = machine_facts(subject.device)
    made_at = time.strftime("%Y-%m-%dT%H:%M:%S")
    clean_share = sum(fitted.clean) / len(fitted.clean)
    device = device_kind(facts)
    return Profile(
        name=f"{subject.model} on {device}",
        id=profile_id(entries, fitted.standard.ms, made_at),
        made_at=made_at,
        model=subject.model,
        weights=subject.weights,
        batch_size=subject.orders[0].batch_size,
        device=device,
        threads=torch.get_num_threads(),
        times=recording.timer.what,
        machine=facts,
        standard_ms=fitted.standard.ms,
        standard_error=fitted.standard.error,
        tail_x=fitting.tail_x([factor for block in factors for factor in block]),
        back_to_back_ms=_median(recording.back_to_back_ms),
        clean_share=clean_share,
        cores_ours=clean_share >= 0.5,
        entries=entries,
        rounds=recording.rounds(fitted),
        residuals=Residuals(factors=factors, clean_samples=sum(map(len, factors))),
    )


def _median(values: list[float]) -> float:
    return _short(float(np.median(values)))


def _short(value: float) -> float:
    """Six digits: more say nothing."""
    return float(f"{value:.6g}")
