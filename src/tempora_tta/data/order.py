"""An order: which sample of which shift stands in which batch, and where a method is reset.

Pure and cheap: it holds no picture. The samples of a segment are drawn when they are asked for, so that a stream
may be as long as one likes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tempora_tta.data.fingerprint import digest
from tempora_tta.data.shift import Shift
from tempora_tta.data.walk import Walk

Samples = tuple[np.ndarray, np.ndarray]
"""Of every sample: the number of its shift among the order's, and its index there."""


@dataclass(frozen=True)
class Segment:
    """Batches that follow each other, of one shift at one severity."""

    shift: str
    first: int
    """The number of its first batch in the stream."""
    batches: int
    severity: int | None = None
    """Where the stream goes through severities."""
    visit: int = 1
    """How often the stream has come to this shift and severity, this time included."""

    @property
    def name(self) -> str:
        """
        >>> Segment("fog", 0, 10).name, Segment("fog", 70, 10, severity=3, visit=2).name
        ('fog', 'fog severity 3 visit 2')
        """
        severity = "" if self.severity is None else f" severity {self.severity}"
        return f"{self.shift}{severity}{f' visit {self.visit}' if self.visit > 1 else ''}"


@dataclass(frozen=True, eq=False, repr=False)
class Order:
    """Samples of one or several shifts, cut into batches. `draw` in `sampler` makes all kinds."""

    shift: str
    """Its name in tables: the shift's, or the kind of a stream of many shifts."""
    walk: Walk
    seed: int
    batch_size: int
    shifts: tuple[Shift, ...]
    segments: tuple[Segment, ...]
    samples_of: Callable[[int], Samples]
    """The samples of a segment, by its number."""
    dropped: int = 0
    """Samples that make no whole batch and are left out."""
    given: bool = False
    """In the order in which somebody gave them: the seed decides nothing."""
    drawn: str = ""
    """A hash of the samples, where a function of the user's own chose them."""

    @cached_property
    def num_batches(self) -> int:
        return sum(segment.batches for segment in self.segments)

    @cached_property
    def fingerprint(self) -> str:
        """Which data this is, whatever its order."""
        if len(self.shifts) == 1:
            return self.shifts[0].fingerprint
        return digest(*(f"{one.name} {one.severity} {one.fingerprint}" for one in self.shifts))

    @property
    def stream(self) -> str:
        """The kind of stream."""
        return self.walk.kind

    @property
    def classes(self) -> np.ndarray | None:
        """The classes that scores are restricted to; None: all."""
        return self.shifts[0].classes

    def identity(self) -> dict[str, Any]:
        """What a pass depends on besides data, seed and sizes; nothing where the order is the usual one."""
        settings = self.walk.settings()
        if self.given or (settings.keys() <= {"kind", "batches"} and self._is_the_papers):
            return {}
        return {"stream": {**settings, **({"drawn": self.drawn} if self.drawn else {})}}

    def samples(self, i: int) -> Samples:
        """The samples of batch `i`."""
        number = self.segment_of(i)
        start = (i - self.segments[number].first) * self.batch_size
        which, samples = self._drawn(number)
        return which[start : start + self.batch_size], samples[start : start + self.batch_size]

    def labels(self, i: int) -> np.ndarray:
        """The int64 labels of batch `i`: for scoring, never for a method."""
        which, samples = self.samples(i)
        labels = np.empty(len(which), np.int64)
        for number in np.unique(which):
            chosen = which == number
            labels[chosen] = self.shifts[number].labels[samples[chosen]]
        return labels

    def segment_of(self, i: int) -> int:
        """The number of the segment that batch `i` belongs to."""
        if not 0 <= i < self.num_batches:
            raise IndexError(f"batch {i} of {self.shift!r}: it has {self.num_batches}")
        return bisect_right(self._firsts, i) - 1

    def resets_at(self, i: int) -> bool:
        """Whether a method that adapts is reset before batch `i`. Every pass starts from a reset anyway."""
        if i == 0 or self.walk.reset == "never":
            return False
        if self.walk.reset != "shift":
            return i % int(self.walk.reset) == 0
        number = self.segment_of(i)
        here = self.segments[number]
        return here.first == i and here.shift != self.segments[number - 1].shift

    def resets_between(self, last: int, i: int) -> bool:
        """Whether there is a reset after batch `last` and up to batch `i`, those between having been skipped."""
        return self.walk.reset != "never" and any(self.resets_at(j) for j in range(last + 1, i + 1))

    def head(self, num_batches: int) -> Order:
        """The first few batches of this order."""
        kept = [
            replace(one, batches=min(one.batches, num_batches - one.first))
            for one in self.segments
            if one.first < num_batches
        ]
        return replace(self, segments=tuple(kept))

    @property
    def _is_the_papers(self) -> bool:
        return not self.walk.over_many and not self.shifts[0].normalised

    @cached_property
    def _firsts(self) -> list[int]:
        return [segment.first for segment in self.segments]

    @cached_property
    def _latest(self) -> dict[int, Samples]:
        return {}

    def _drawn(self, number: int) -> Samples:
        if number not in self._latest:
            self._latest.clear()
            self._latest[number] = self.samples_of(number)
        return self._latest[number]
