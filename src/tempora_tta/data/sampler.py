"""All kinds of streams: the order of shifts, and within each segment the order of classes."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from tempora_tta import names
from tempora_tta._own_code import find_function, is_own
from tempora_tta.data.fingerprint import digest
from tempora_tta.data.order import Order, Samples, Segment, StreamSettings
from tempora_tta.data.shift import Shift
from tempora_tta.errors import TemporaError, unknown

_SHIFTS, _CLASSES, _MIX, _ROUND = 1, 2, 3, 4
"""Draws that have nothing to do with each other come from generators of their own."""


def stream_order(length: int, seed: int, order: str = "numpy") -> np.ndarray:
    """The order of `length` samples: a generator seeded with `seed` alone permutes them.

    It depends on nothing but these values, so all corruptions of one test set come in the same order. `torch` is the
    published one: that of PyTorch's shuffling loader just after `torch.manual_seed(seed)`.

    >>> stream_order(50_000, 2025, "torch")[:4].tolist()
    [4281, 44185, 44664, 48827]
    """
    if order == "numpy":
        return np.random.default_rng(seed).permutation(length)
    drawn = torch.empty(2, dtype=torch.int64).random_(generator=torch.Generator().manual_seed(seed))
    # The loader keeps the first draw for its workers and seeds its sampler with the second.
    return torch.randperm(length, generator=torch.Generator().manual_seed(int(drawn[1]))).numpy()


def draw(settings: StreamSettings, shifts: Sequence[Shift], batch_size: int, seed: int) -> list[Order]:
    """Draw the streams: one per shift if their kind is `single`, one over all shifts otherwise."""
    for shift in shifts:
        check_request(shift, batch_size, settings.batches)
    if not settings.over_many:
        return [single_stream(OrderBuilder(settings, (shift,), batch_size, seed)) for shift in shifts]
    _check_alike(settings, shifts)
    if is_own(settings.kind):
        return [_own(OrderBuilder(settings, tuple(shifts), batch_size, seed))]
    order: Order = names.found(names.STREAMS[settings.kind])(
        OrderBuilder(settings, tuple(shifts), batch_size, seed)
    )
    return [order]


def single(shift: Shift, batch_size: int = 64, seed: int = 2025, limit_batches: int | None = None) -> Order:
    """One shift in the default order."""
    check_request(shift, batch_size, limit_batches)
    return single_stream(OrderBuilder(StreamSettings(batches=limit_batches), (shift,), batch_size, seed))


def as_given(shift: Shift, batch_size: int, seed: int, dropped: int) -> Order:
    """The samples of a shift one after the other; the seed only names the stream."""
    batches = len(shift) // batch_size
    samples = np.zeros(len(shift), np.int32), np.arange(len(shift))
    segment = Segment(shift.name, 0, batches)
    return Order(
        shift.name,
        StreamSettings(),
        seed,
        batch_size,
        (shift,),
        (segment,),
        lambda _: samples,
        dropped,
        given=True,
    )


def check_request(shift: Shift, batch_size: int, limit_batches: int | None = None) -> None:
    """Refuse a stream without a single batch, before anything is decoded."""
    if batch_size < 1:
        raise TemporaError(f"batch_size={batch_size}: must be at least 1")
    if limit_batches is not None and limit_batches < 1:
        raise TemporaError(
            f"limit_batches={limit_batches}: must be at least 1; leave it out for the whole shift"
        )
    if len(shift) < batch_size:
        raise TemporaError(
            f"shift {shift.name!r} has {len(shift)} images, fewer than one batch of {batch_size}: "
            "take a smaller batch_size (--batch-size)"
        )


@dataclass(frozen=True)
class Visit:
    """`batches` batches of one shift, starting at batch `skip` of its shuffle number `round`."""

    number: int
    """The number of its shift among the order's."""
    batches: int
    skip: int = 0
    round: int = 0
    count: int = 1
    """Number of times the stream has come to this shift and severity, this time included."""


@dataclass(frozen=True)
class OrderBuilder:
    """Turns visits into an order."""

    settings: StreamSettings
    shifts: tuple[Shift, ...]
    batch_size: int
    seed: int

    def order(self, name: str, visits: Sequence[Visit], severities: bool = False) -> Order:
        segments, first = [], 0
        for visit in visits:
            shift = self.shifts[visit.number]
            severity = shift.severity if severities else None
            segments.append(Segment(shift.name, first, visit.batches, severity, visit.count))
            first += visit.batches
        return self.of_segments(name, segments, lambda number: self.samples(visits[number]))

    def of_segments(
        self, name: str, segments: Sequence[Segment], samples_of: Callable[[int], Samples], drawn: str = ""
    ) -> Order:
        return Order(
            shift=name,
            settings=self.settings,
            seed=self.seed,
            batch_size=self.batch_size,
            shifts=self.shifts,
            segments=tuple(segments),
            samples_of=samples_of,
            dropped=sum(len(shift) % self.batch_size for shift in self.shifts),
            drawn=drawn,
        )

    def of_batches(self, batches: Samples, names: Sequence[str], drawn: str = "") -> Order:
        """An order of given batches, one per row; consecutive batches of one name form a segment."""
        segments: list[Segment] = []
        visits: dict[str, int] = {}
        for i, name in enumerate(names):
            if segments and segments[-1].shift == name:
                segments[-1] = replace(segments[-1], batches=segments[-1].batches + 1)
            else:
                visits[name] = visits.get(name, 0) + 1
                segments.append(Segment(name, i, 1, visit=visits[name]))

        def samples_of(number: int) -> Samples:
            rows = slice(segments[number].first, segments[number].first + segments[number].batches)
            which, samples = batches
            return which[rows].reshape(-1), samples[rows].reshape(-1)

        return self.of_segments(self.settings.kind, segments, samples_of, drawn)

    def samples(self, visit: Visit) -> Samples:
        """Draw the samples of a visit, in the order of the round and then of the classes."""
        shift = self.shifts[visit.number]
        if visit.round == 0:
            round_order = stream_order(len(shift), self.seed, self.settings.order)
        else:
            round_order = self.rng(_ROUND, visit.round).permutation(len(shift))
        start = visit.skip * self.batch_size
        chosen = round_order[start : start + visit.batches * self.batch_size]
        place = zlib.crc32(shift.name.encode("utf-8", "surrogatepass"))
        rng = self.rng(_CLASSES, place, shift.severity or 0, visit.count)
        chosen = chosen[by_class(self.settings, shift.labels[chosen], visit.batches, rng)]
        return np.full(len(chosen), visit.number, np.int32), chosen

    def rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *purpose])

    def batches_of(self, shift: Shift, times: int = 1) -> int:
        """Count the batches that each of `times` visits in one round gets of a shift."""
        there = len(shift) // self.batch_size // times
        wanted = self.settings.batches
        if there == 0 or (wanted is not None and wanted > there):
            what = f"{wanted} batches" if wanted else "one batch"
            raise TemporaError(
                f"shift {shift.name!r} has {len(shift)} images, too few for {what} of {self.batch_size}"
                + (f" at each of {times} steps" if times > 1 else "")
                + (f": stream.batches may be {there} at most" if there else ": take a smaller batch_size")
            )
        return wanted or there


def by_class(
    settings: StreamSettings, labels: np.ndarray, batches: int, rng: np.random.Generator
) -> np.ndarray:
    """Order samples with these labels: positions, a permutation.

    `dirichlet` divides the samples of each class over slots by a Dirichlet draw; slots follow each other, each
    shuffled. The smaller the concentration, the fewer slots hold most of a class.
    """
    positions = np.arange(len(labels))
    if settings.classes == "shuffled":
        return positions
    if settings.alpha is None:
        return np.argsort(labels, kind="stable")
    slots = settings.slots or batches
    of_slot = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        own = positions[labels == label]
        ends = np.cumsum(rng.dirichlet(np.full(slots, settings.alpha))) * len(own)
        of_slot[own] = np.searchsorted(ends[:-1], np.arange(len(own)) + 0.5)
    shuffled = rng.permutation(len(labels))
    return shuffled[np.argsort(of_slot[shuffled], kind="stable")]


def single_stream(builder: OrderBuilder) -> Order:
    """One shift (the paper)."""
    (shift,) = builder.shifts
    there = len(shift) // builder.batch_size
    return builder.order(shift.name, [Visit(0, min(builder.settings.batches or there, there))])


def continual(builder: OrderBuilder) -> Order:
    """One shift after the other, in an order of the seed's."""
    turns = builder.rng(_SHIFTS).permutation(len(builder.shifts))
    return builder.order(
        "continual", [Visit(int(number), builder.batches_of(builder.shifts[number])) for number in turns]
    )


def gradual(builder: OrderBuilder) -> Order:
    """Severity 1 .. 5 .. 1 of every shift, every step with other pictures, then the next."""
    shifts = list(dict.fromkeys(shift.name for shift in builder.shifts))
    visits = []
    for turn in builder.rng(_SHIFTS).permutation(len(shifts)):
        numbers = [number for number, shift in enumerate(builder.shifts) if shift.name == shifts[turn]]
        rising = sorted(numbers, key=lambda number: builder.shifts[number].severity or 0)
        if len(rising) < 2:
            raise TemporaError(
                f"stream: gradual goes through severities, and {shifts[turn]!r} has none to go through: choose "
                "continual, or data with severities"
            )
        ramp = [*rising, *rising[-2::-1]]
        for place, number in enumerate(ramp):
            batches = builder.batches_of(builder.shifts[number], times=len(ramp))
            visits.append(Visit(number, batches, skip=place * batches, count=1 + (place >= len(rising))))
    return builder.order("gradual", visits, severities=True)


def recurring(builder: OrderBuilder) -> Order:
    """A cycle of the shifts as given, several times.

    Every visit goes on where the last one ended; a shift that is used up is shuffled again.
    """
    batches = [builder.batches_of(shift) for shift in builder.shifts]
    fitting = [len(s) // builder.batch_size // each for s, each in zip(builder.shifts, batches, strict=True)]
    visits = [
        Visit(number, each, skip=visit % fits * each, round=visit // fits, count=visit + 1)
        for visit in range(builder.settings.visits)
        for number, (each, fits) in enumerate(zip(batches, fitting, strict=True))
    ]
    return builder.order("recurring", visits)


def mixed(builder: OrderBuilder) -> Order:
    """Every sample (or batch) of a shift of its own, drawn from all."""
    visits = [Visit(number, builder.batches_of(shift)) for number, shift in enumerate(builder.shifts)]
    if builder.settings.by == "sample":
        segment = Segment("mixed", 0, sum(visit.batches for visit in visits))
        return builder.of_segments("mixed", [segment], lambda _: _mixed_by_sample(builder, visits))
    which, samples = (np.concatenate(half) for half in zip(*map(builder.samples, visits), strict=True))
    turn = builder.rng(_MIX).permutation(len(which) // builder.batch_size)
    which, samples = (half.reshape(-1, builder.batch_size)[turn] for half in (which, samples))
    return builder.of_batches((which, samples), [builder.shifts[number].name for number in which[:, 0]])


def _mixed_by_sample(builder: OrderBuilder, visits: Sequence[Visit]) -> Samples:
    """Drawn from all that is left, sample by sample; classes are put in order once all is mixed."""
    shuffled = replace(builder, settings=replace(builder.settings, classes="shuffled"))
    which, samples = (np.concatenate(half) for half in zip(*map(shuffled.samples, visits), strict=True))
    turn = builder.rng(_MIX).permutation(len(which))
    which, samples = which[turn], samples[turn]
    labels = np.empty(len(which), np.int64)
    for number, shift in enumerate(builder.shifts):
        labels[which == number] = shift.labels[samples[which == number]]
    turn = by_class(builder.settings, labels, len(which) // builder.batch_size, builder.rng(_CLASSES))
    return which[turn], samples[turn]


def _own(builder: OrderBuilder) -> Order:
    """The order that a user's `module:function(seed, shifts)` gives: pairs (shift, sample) per batch, and names."""
    kind = builder.settings.kind
    function = find_function("stream", kind)
    shifts = {shift.name: shift for shift in builder.shifts}
    given = function(builder.seed, shifts)
    try:
        batches, names = given
        batches, names = [list(batch) for batch in batches], [str(name) for name in names]
    except (TypeError, ValueError):
        raise TemporaError(
            f"stream {kind!r}: returned {given!r:.80}; expected two lists, batches of (shift, sample) pairs and the "
            "segment of each batch"
        ) from None
    if not batches or len(batches) != len(names):
        raise TemporaError(
            f"stream {kind!r}: {len(batches)} batches and {len(names)} names of segments: expected as many, at least "
            "one"
        )
    numbers = {name: number for number, name in enumerate(shifts)}
    which = np.empty((len(batches), builder.batch_size), np.int32)
    samples = np.empty((len(batches), builder.batch_size), np.int64)
    for i, batch in enumerate(batches):
        where = f"stream {kind!r}: batch {i}"
        if len(batch) != builder.batch_size:
            raise TemporaError(
                f"{where} has {len(batch)} samples: expected {builder.batch_size} (--batch-size) in every batch"
            )
        for j, pair in enumerate(batch):
            which[i, j], samples[i, j] = _pair(where, pair, numbers, shifts)
    drawn = digest(which, samples, "\n".join(names))
    return builder.of_batches((which, samples), names, drawn)


def _pair(where: str, pair: Any, numbers: dict[str, int], shifts: dict[str, Shift]) -> tuple[int, int]:
    try:
        name, sample = pair
        sample = operator.index(sample)
    except (TypeError, ValueError):
        raise TemporaError(f"{where} holds {pair!r:.60}: expected pairs (shift, sample)") from None
    if name not in numbers:
        raise TemporaError(f"{where}: {unknown('shift', str(name), list(numbers))}")
    if not 0 <= sample < len(shifts[name]):
        raise TemporaError(f"{where}: {name} has no sample {sample}: expected 0 to {len(shifts[name]) - 1}")
    return numbers[name], sample


def _check_alike(settings: StreamSettings, shifts: Sequence[Shift]) -> None:
    """Refuse to put shifts of different classes into one stream: scores are restricted for all batches alike."""
    first = shifts[0]
    for shift in shifts[1:]:
        same = shift.num_classes == first.num_classes and (
            np.array_equal(shift.classes, first.classes)
            if shift.classes is not None and first.classes is not None
            else shift.classes is first.classes
        )
        if not same:
            raise TemporaError(
                f"stream: {settings.kind} needs shifts with the same classes, {first.name!r} and {shift.name!r} have "
                "others: run them by themselves"
            )
