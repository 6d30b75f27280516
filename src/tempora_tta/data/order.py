"""An order: which sample of which shift stands in which batch, and where a method is reset.

Pure and cheap: it holds no picture. The samples of a segment are drawn when they are asked for, so that a stream
may be as long as one likes.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tempora_tta._own_code import is_own
from tempora_tta.data.fingerprint import digest
from tempora_tta.data.shift import Shift
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import STREAMS

CLASSES = ("shuffled", "sorted")
ORDERS = ("numpy", "torch")
MOST = 1_000_000
"""Batches, slots or visits: larger values are refused, since they would exhaust memory."""

Samples = tuple[np.ndarray, np.ndarray]
"""Arrays with an entry per sample: the number of its shift among the order's, and its index there."""


@dataclass(frozen=True)
class StreamSettings:
    """The settings of a stream: `stream: {kind: continual, batches: 10, reset: never, classes: shuffled}`."""

    kind: str = "single"
    """One of `names.STREAMS`, or module:function of one's own."""
    batches: int | None = None
    """Batches of every shift (at every severity, in every visit); None: all that there are."""
    reset: str | int = "never"
    """Return of the method to its initial state: never, at every new `shift`, or after this number of batches."""
    classes: str | Mapping[str, float] = "shuffled"
    """The order of classes within a segment: shuffled, sorted, or {dirichlet: 0.1}."""
    slots: int | None = None
    """Parts of a segment over which `dirichlet` divides each class; None: as many as it has batches."""
    visits: int = 2
    """Visits of `recurring` to every shift."""
    by: str = "sample"
    """`mixed` draws a shift for every sample, or for every batch."""
    order: str = "numpy"
    """Generator that shuffles the samples of a shift: numpy's, or torch's as in the published results."""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or (not is_own(self.kind) and self.kind not in STREAMS):
            raise unknown("kind of stream", str(self.kind), [*STREAMS, "module:function"])
        _check_count("batches", self.batches, optional=True)
        _check_count("slots", self.slots, optional=True)
        _check_count("visits", self.visits)
        if self.reset not in ("never", "shift"):
            if isinstance(self.reset, str):
                raise TemporaError(f"reset={self.reset!r}: must be never, shift, or a number of batches")
            _check_count("reset", self.reset)
        if self.by not in ("sample", "batch"):
            raise TemporaError(f"by={self.by!r}: must be sample or batch")
        if self.order not in ORDERS:
            raise TemporaError(f"order={self.order!r}: must be numpy or torch")
        self._check_classes()
        if is_own(self.kind):
            for name in ("batches", "classes", "slots", "visits", "by", "order"):
                if getattr(self, name) != getattr(StreamSettings, name):
                    raise TemporaError(
                        f"{name}={getattr(self, name)!r}: {self.kind} decides that itself; leave it out"
                    )

    @classmethod
    def of(cls, given: StreamSettings | str | Mapping[str, Any] | None) -> StreamSettings:
        """Settings as a user gives them: a kind, or a mapping.

        >>> StreamSettings.of("continual") == StreamSettings.of({"kind": "continual"})
        True
        """
        if given is None or isinstance(given, StreamSettings):
            return given or cls()
        if isinstance(given, str):
            return cls(given)
        if not isinstance(given, Mapping):
            raise TemporaError(f"stream={given!r}: expected a kind, or settings such as {{kind: continual}}")
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                raise unknown("setting of a stream", str(name), known)
        return cls(**given)

    @property
    def over_many(self) -> bool:
        """Tell whether one stream goes over all shifts."""
        return self.kind != "single"

    @property
    def through_severities(self) -> bool:
        return self.kind == "gradual"

    @property
    def alpha(self) -> float | None:
        """The concentration of classes in time; None: they do not follow a Dirichlet draw."""
        return None if isinstance(self.classes, str) else float(self.classes["dirichlet"])

    def changed(self) -> dict[str, Any]:
        """The kind, and the settings that differ from its defaults."""
        usual = StreamSettings(self.kind)
        changed = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(usual, field.name)
        }
        return {"kind": self.kind, **changed}

    def _check_classes(self) -> None:
        if isinstance(self.classes, str) and self.classes in CLASSES:
            return
        if isinstance(self.classes, Mapping) and list(self.classes) == ["dirichlet"]:
            alpha = self.classes["dirichlet"]
            number = isinstance(alpha, (int, float)) and not isinstance(alpha, bool)
            if number and math.isfinite(alpha) and 1e-3 <= alpha <= 1e3:
                return
            raise TemporaError(f"classes: dirichlet={alpha!r}: must be a number from 0.001 to 1000")
        raise TemporaError(f"classes={self.classes!r}: must be shuffled, sorted or {{dirichlet: 0.1}}")


def _check_count(name: str, value: Any, optional: bool = False) -> None:
    if optional and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise TemporaError(f"{name}={value!r}: must be a whole number from 1 to {MOST:,}")


@dataclass(frozen=True)
class Segment:
    """Batches that follow each other, of one shift at one severity."""

    shift: str
    first: int
    """The number of its first batch in the stream."""
    batches: int
    severity: int | None = None
    """Set in streams that go through severities."""
    visit: int = 1
    """Number of times the stream has come to this shift and severity, this time included."""

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
    """Name in tables: the shift's, or the kind of a stream of many shifts."""
    settings: StreamSettings
    seed: int
    batch_size: int
    shifts: tuple[Shift, ...]
    segments: tuple[Segment, ...]
    samples_of: Callable[[int], Samples]
    """The samples of a segment, by its number."""
    dropped: int = 0
    """Samples that make no whole batch and are left out."""
    given: bool = False
    """In the order in which the user gave them: the seed decides nothing."""
    drawn: str = ""
    """A hash of the samples, where a function of the user's own chose them."""

    @cached_property
    def num_batches(self) -> int:
        return sum(segment.batches for segment in self.segments)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the data, independent of its order."""
        if len(self.shifts) == 1:
            return self.shifts[0].fingerprint
        return digest(*(f"{one.name} {one.severity} {one.fingerprint}" for one in self.shifts))

    @property
    def stream(self) -> str:
        """The kind of stream."""
        return self.settings.kind

    @property
    def classes(self) -> np.ndarray | None:
        """The classes that scores are restricted to; None: all."""
        return self.shifts[0].classes

    def identity(self) -> dict[str, Any]:
        """Settings that a pass depends on besides data, seed and sizes; empty for the default order."""
        changed = self.settings.changed()
        if self.given or (changed.keys() <= {"kind", "batches"} and self._is_the_papers):
            return {}
        return {"stream": {**changed, **({"drawn": self.drawn} if self.drawn else {})}}

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
        """Tell whether a method that adapts is reset before batch `i`. Every pass starts from a reset anyway."""
        if i == 0 or self.settings.reset == "never":
            return False
        if self.settings.reset != "shift":
            return i % int(self.settings.reset) == 0
        number = self.segment_of(i)
        here = self.segments[number]
        return here.first == i and here.shift != self.segments[number - 1].shift

    def resets_between(self, last: int, i: int) -> bool:
        """Tell whether there is a reset after batch `last` and up to batch `i`, those between having been skipped."""
        return self.settings.reset != "never" and any(self.resets_at(j) for j in range(last + 1, i + 1))

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
        return not self.settings.over_many and not self.shifts[0].normalised

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
