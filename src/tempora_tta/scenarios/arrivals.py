"""Arrivals of batches that do not wait: periodic, random or recorded.

Random ones are drawn from (run seed, shift) as unit times, which the mean interval then scales: every method of a
run meets the same arrivals, and another rate is the same pattern, faster or slower.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tempora_tta.errors import TemporaError, counted, unknown, wrong
from tempora_tta.scenarios import _validate as check
from tempora_tta.scenarios._validate import FloatArray


class Arrivals(ABC):
    """Arrivals that do not wait for the pipeline."""

    kind: ClassVar[str]
    """Name in a configuration: `arrivals: {poisson: {utilisation: 0.5}}`."""

    @abstractmethod
    def times(
        self, n: int, seed: int = 2025, shift: str = "", baseline_ms: float | None = None
    ) -> FloatArray:
        """Times at which the first `n` batches arrive, in ms; a utilisation needs lambda (`baseline_ms`)."""

    @abstractmethod
    def mean_interval(self, baseline_ms: float | None = None) -> float | None:
        """The mean time between arrivals in ms; None where only the times themselves are known."""

    @property
    @abstractmethod
    def label(self) -> str:
        """For tables and axes: `Poisson ρ 50 %`."""


@dataclass(frozen=True, kw_only=True)
class _Paced(Arrivals):
    """Arrivals with a mean pace, given in one of three ways."""

    interval_ms: float | None = None
    utilisation: float | None = None
    """lambda / mean interval."""
    rate_hz: float | None = None
    """Batches per second."""

    def __post_init__(self) -> None:
        pace = {"interval_ms": self.interval_ms, "utilisation": self.utilisation, "rate_hz": self.rate_hz}
        check.exactly_one(type(self).__name__, **pace)
        for name, value in pace.items():
            if value is not None:
                check.positive(name, value)

    def mean_interval(self, baseline_ms: float | None = None) -> float:
        if self.utilisation is not None:
            return check.baseline(baseline_ms, "utilisation") / self.utilisation
        if self.rate_hz is not None:
            return 1000.0 / self.rate_hz
        assert self.interval_ms is not None
        return float(self.interval_ms)

    def times(
        self, n: int, seed: int = 2025, shift: str = "", baseline_ms: float | None = None
    ) -> FloatArray:
        return self._units(check.count("n", n), seed, shift) * self.mean_interval(baseline_ms)

    @abstractmethod
    def _units(self, n: int, seed: int, shift: str) -> FloatArray:
        """Arrival times in mean intervals."""

    @property
    def _pace(self) -> str:
        if self.utilisation is not None:
            return f"ρ {check.percent(self.utilisation)}"
        return f"γ {self.interval_ms:g} ms" if self.interval_ms is not None else f"{self.rate_hz:g} Hz"


@dataclass(frozen=True, kw_only=True)
class Periodic(_Paced):
    """A batch every interval, from 0 on; with `jitter` each but the first comes up to that many intervals late.

    >>> Periodic(interval_ms=40).times(3).tolist()
    [0.0, 40.0, 80.0]
    """

    kind: ClassVar[str] = "periodic"

    jitter: float = 0.0
    """Fraction of an interval, 0 to 1; delays are uniform."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if check.non_negative("jitter", self.jitter) > 1:
            raise wrong(
                "jitter",
                self.jitter,
                "is a fraction of the interval, 0 to 1, so that batches keep their order",
            )

    @property
    def label(self) -> str:
        return self._pace + (f" ± {check.percent(self.jitter)}" if self.jitter else "")

    def _units(self, n: int, seed: int, shift: str) -> FloatArray:
        slots = np.arange(n, dtype=np.float64)
        if not self.jitter:
            return slots
        late = self.jitter * _uniform(_bits(seed, shift, "jitter"), n)
        late[:1] = 0.0
        return slots + late


@dataclass(frozen=True, kw_only=True)
class Poisson(_Paced):
    """Independent arrivals at a mean pace; the first comes after one gap.

    >>> Poisson(interval_ms=20).times(3).tolist() == (2 * Poisson(interval_ms=10).times(3)).tolist()
    True
    """

    kind: ClassVar[str] = "poisson"

    @property
    def label(self) -> str:
        return f"Poisson {self._pace}"

    def _units(self, n: int, seed: int, shift: str) -> FloatArray:
        return np.cumsum(_exponential(_bits(seed, shift, "gaps"), n))


@dataclass(frozen=True, kw_only=True)
class Bursty(_Paced):
    """Bursts and silence: Poisson arrivals at `burst` times the mean rate, in on-periods that come and go.

    On-periods last for `length` arrivals on average, off-periods (burst - 1) times as long, both exponential, so
    the mean rate is kept. `burst=1` is Poisson.
    """

    kind: ClassVar[str] = "bursty"

    burst: float = 4.0
    length: float = 8.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if check.positive("burst", self.burst) < 1:
            raise wrong(
                "burst",
                self.burst,
                "is the rate within a burst over the mean rate, 1 or above (1 is Poisson)",
            )
        check.positive("length", self.length, "it is the mean number of arrivals in a burst")

    @property
    def label(self) -> str:
        return f"bursty ×{self.burst:g} of {self.length:g}, {self._pace}"

    def _units(self, n: int, seed: int, shift: str) -> FloatArray:
        # Time that passes only while on: there the arrivals are Poisson, and each end of an on-period before an
        # arrival adds one silence to it.
        on = np.cumsum(_exponential(_bits(seed, shift, "gaps"), n)) / self.burst
        periods = _bits(seed, shift, "periods")
        starts_on = float(_uniform(periods, 1)[0]) < 1 / self.burst
        mean_on, mean_off = self.length / self.burst, (self.burst - 1) * self.length / self.burst
        drawn, ends = np.empty((0, 2)), np.empty(0)
        while not ends.size or ends[-1] <= on[-1]:
            more = _exponential(periods, 2 * max(8, n // 4)).reshape(-1, 2)
            drawn = np.concatenate([drawn, more])
            ends = np.cumsum(mean_on * drawn[:, 0])
        silences = mean_off * drawn[:, 1]
        if starts_on:
            silences = np.concatenate([[0.0], silences])
        return on + np.cumsum(silences)[np.searchsorted(ends, on, side="right")]


@dataclass(frozen=True)
class Recorded(Arrivals):
    """Arrivals as they were logged, in ms.

    >>> Recorded([0, 15, 15, 400]).times(3).tolist()
    [0.0, 15.0, 15.0]
    """

    kind: ClassVar[str] = "recorded"

    times_ms: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "times_ms", tuple(check.arrival_times(self.times_ms).tolist()))

    def times(
        self, n: int, seed: int = 2025, shift: str = "", baseline_ms: float | None = None
    ) -> FloatArray:
        if (reason := self.too_short(check.count("n", n))) is not None:
            raise TemporaError(reason)
        return np.asarray(self.times_ms, dtype=np.float64)[:n]

    def too_short(self, n: int) -> str | None:
        """Reason why a stream of this many batches cannot have these arrivals, or None."""
        known = np.size(self.times_ms)
        if known >= n:
            return None
        return (
            f"arrivals hold {counted(known, 'time')} and the stream has {counted(n, 'batch')}: record at least one "
            "time per batch"
        )

    def mean_interval(self, baseline_ms: float | None = None) -> None:
        return None

    @property
    def label(self) -> str:
        return "recorded arrivals"


@dataclass(frozen=True, kw_only=True)
class Frames(Arrivals):
    """Frames that cameras take in turn, from 0 on; a batch arrives with its last frame, which fills it.

    >>> Frames(fps=25, cameras=2, batch_size=4).times(3).tolist()
    [60.0, 140.0, 220.0]
    """

    kind: ClassVar[str] = "frames"

    fps: float
    cameras: int = 1
    batch_size: int | None = None
    """Frames that make a batch; None: not known before a run says it."""

    @property
    def gap_ms(self) -> float:
        """The time between frames."""
        return 1000.0 / (self.fps * self.cameras)

    def times(
        self, n: int, seed: int = 2025, shift: str = "", baseline_ms: float | None = None
    ) -> FloatArray:
        last = np.arange(self._size - 1, check.count("n", n) * self._size, self._size, dtype=np.float64)
        return last * self.gap_ms

    def mean_interval(self, baseline_ms: float | None = None) -> float:
        return self._size * self.gap_ms

    @property
    def waited_ms(self) -> tuple[float, ...]:
        """Time that each frame of a batch has waited when the last one comes."""
        return tuple((np.arange(self._size, dtype=np.float64)[::-1] * self.gap_ms).tolist())

    @property
    def label(self) -> str:
        return f"{self.fps:g} frames/s" if self.cameras == 1 else f"{self.cameras} × {self.fps:g} frames/s"

    @property
    def _size(self) -> int:
        if self.batch_size is None:
            raise TemporaError(
                "batch_size: needed with fps, to know when a batch is full: give the number of frames that make one "
                "(in a run it is the run's own)",
                about="batch_size",
            )
        return self.batch_size


_PACED: dict[str, type[_Paced]] = {kind.kind: kind for kind in (Periodic, Poisson, Bursty)}
KINDS = (*_PACED, Recorded.kind)


def to_plain(arrivals: Arrivals) -> dict[str, Any]:
    """As a configuration writes it.

    >>> to_plain(Poisson(utilisation=0.5))
    {'poisson': {'utilisation': 0.5}}
    """
    if isinstance(arrivals, Recorded):
        return {arrivals.kind: list(np.asarray(arrivals.times_ms).tolist())}
    if not isinstance(arrivals, _Paced):
        raise TemporaError(
            f"arrivals={arrivals!r}: a run can keep {', '.join(KINDS)}; give arrivals of your own as "
            "Recorded(times_ms)"
        )
    return {arrivals.kind: dict(_given(arrivals))}


def _given(arrivals: _Paced) -> Iterator[tuple[str, Any]]:
    for knob in fields(arrivals):
        if (value := getattr(arrivals, knob.name)) != knob.default:
            yield knob.name, value


def from_plain(plain: Mapping[str, Any]) -> Arrivals:
    """Read `{poisson: {utilisation: 0.5}}`."""
    if len(plain) != 1:
        raise TemporaError(
            f"arrivals={dict(plain)!r}: name one kind of arrivals, {', '.join(KINDS)}, as in "
            "{poisson: {utilisation: 0.5}}"
        )
    ((name, settings),) = plain.items()
    if name not in KINDS:
        raise unknown("arrivals", str(name), KINDS, about="arrivals")
    if name == Recorded.kind:
        return Recorded(settings["times_ms"] if isinstance(settings, Mapping) else settings)
    if not isinstance(settings, Mapping):
        raise TemporaError(f"arrivals: {name}={settings!r}: give its settings, as in {{utilisation: 0.5}}")
    kind = _PACED[name]
    allowed = [knob.name for knob in fields(kind)]
    for setting in settings:
        if setting not in allowed:
            raise unknown(f"{name} setting", str(setting), allowed)
    return kind(**settings)


# Uniform numbers straight from the bits of PCG64, whose stream numpy guarantees (that of its distributions it does
# not): a run opened years later finds the arrivals it was made with.


def _bits(seed: int, shift: str, what: str) -> np.random.PCG64:
    digest = hashlib.sha256(repr((int(seed), str(shift), what)).encode()).digest()
    return np.random.PCG64(int.from_bytes(digest, "big"))


def _uniform(bits: np.random.PCG64, count: int) -> FloatArray:
    """In [0, 1), 53 bits each."""
    raw = np.asarray(bits.random_raw(count), dtype=np.uint64)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _exponential(bits: np.random.PCG64, count: int) -> FloatArray:
    """With mean 1."""
    return -np.log1p(-_uniform(bits, count))
