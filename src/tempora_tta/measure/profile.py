"""Latencies that were published, given by hand, or written by Tempora before profiles were steady (steady.py).

Such a profile holds, per method, one or more times of a prediction while adapting, of a prediction while frozen, and
of each kind of adaptation (by action). One time is a constant; several are an empirical distribution, from which a
batch draws by a hash of what it is, so that the same batch gets the same time in every scenario.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from tempora_tta.errors import TemporaError, unknown
from tempora_tta.measure.steady import SCHEMA_VERSION, SteadyProfile
from tempora_tta.names import PROFILES, file_of
from tempora_tta.published import profile as published_profile
from tempora_tta.published.profiles import PROFILED
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.verdicts import Verdict

ANY_ACTION = "*"
PUBLISHED, LIBRARY = "published:", "library:"


@dataclass(frozen=True)
class MethodTimes:
    """One method's times in milliseconds."""

    predict_ms: Sequence[float]
    adapt_ms: Mapping[str, Sequence[float]]
    """By action; `*` stands for every action not listed."""
    frozen_ms: Sequence[float] = ()
    """Empty: a frozen model takes as long as standard inference."""
    reforward: bool = False
    """Recorded with `reforward=True`: a prediction holds the adaptation and a second forward."""


@dataclass(frozen=True)
class Profile:
    """Latencies of one machine, network and batch size."""

    baseline_ms: float
    methods: Mapping[str, MethodTimes]
    name: str = "given"
    machine: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    """On the times, when they were measured."""

    @property
    def fingerprint(self) -> str:
        """Changes when any of the numbers does."""
        text = json.dumps(self.to_json()["methods"], sort_keys=True) + repr(self.baseline_ms)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def predict_ms(self, method: str, frozen: bool, shift: str, seed: int, index: int) -> float:
        times = self._times(method)
        if not frozen:
            return _draw(times.predict_ms, method, "predict", shift, seed, index)
        if times.frozen_ms:
            return _draw(times.frozen_ms, method, "frozen", shift, seed, index)
        standard = self.methods.get("standard")
        return _draw(
            standard.predict_ms if standard else [self.baseline_ms], method, "frozen", shift, seed, index
        )

    def adapt_ms(self, method: str, action: str, shift: str, seed: int, index: int) -> float:
        by_action = self._times(method).adapt_ms
        times = by_action.get(action) or by_action.get(ANY_ACTION)
        if times is None:
            # An action that the profile never saw: its nearest stand-in is whatever this method usually does.
            times = [time for known in by_action.values() for time in known] or [0.0]
        return _draw(times, method, action, shift, seed, index)

    def actions(self, method: str) -> Iterable[str]:
        """The actions with times of their own."""
        return self._times(method).adapt_ms

    def _times(self, method: str) -> MethodTimes:
        if method in self.methods:
            return self.methods[method]
        raise TemporaError(
            f"the clock {self.name!r} has no times for {method!r}; it has {', '.join(sorted(self.methods))}: "
            "leave the method out, or record it with tempora profile"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "name": self.name,
            "baseline_ms": self.baseline_ms,
            "machine": dict(self.machine),
            "verdict": self.verdict.to_json(),
            "methods": {
                method: {
                    "predict_ms": list(times.predict_ms),
                    "adapt_ms": {action: list(known) for action, known in times.adapt_ms.items()},
                    "frozen_ms": list(times.frozen_ms),
                    **({"reforward": True} if times.reforward else {}),
                }
                for method, times in self.methods.items()
            },
        }

    def save(self, path: Path | str) -> None:
        text = json.dumps(self.to_json(), indent=1) + "\n"
        write_atomically(Path(path), lambda part: part.write_text(text, encoding="utf-8"))


def load_profile(source: str | Path | Mapping[str, Any]) -> Profile | SteadyProfile:
    """A profile from a file, by name (`published:rn50_inc`, `library:h200-resnet50`), or from constants:
    {"baseline_ms": 40, "tent": (41, 56), ...}."""
    if isinstance(source, Mapping):
        return _from_constants(source, "given")
    if str(source).startswith(PUBLISHED):
        setup = str(source).removeprefix(PUBLISHED)
        if setup not in PROFILED:
            raise unknown("published profile", setup, PROFILED)
        return _from_constants(published_profile(setup), str(source))
    if str(source).startswith(LIBRARY):
        name = str(source).removeprefix(LIBRARY)
        if name not in PROFILES:
            raise unknown("profile of the library", name, PROFILES)
        source = file_of(PROFILES[name])
    path = Path(source)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        allowed = ", ".join(clock_names())
        raise TemporaError(
            f"clock {str(source)!r}: no such profile; use steady, measured, {allowed}, or a file written by "
            "tempora profile"
        ) from None
    except (OSError, ValueError) as error:
        raise TemporaError(f"profile {path} cannot be read: {error}") from error
    if isinstance(content, dict) and content.get("schema_version") == SCHEMA_VERSION:
        return SteadyProfile.from_json(content, path)
    return _from_json(content, path)


def clock_names() -> list[str]:
    """The profiles that ship with Tempora, as a user names them."""
    return [*(f"{PUBLISHED}{name}" for name in PROFILED), *(f"{LIBRARY}{name}" for name in PROFILES)]


def _from_constants(times: Mapping[str, Any], name: str) -> Profile:
    if "baseline_ms" not in times:
        raise TemporaError(f"clock {name!r}: needs baseline_ms, the latency of standard inference (lambda)")
    methods = {}
    for method, pair in times.items():
        if method == "baseline_ms":
            continue
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise TemporaError(f"clock {name!r}: {method} must be (predict_ms, adapt_ms); got {pair!r}")
        predict_ms, adapt_ms = (_milliseconds(f"{method} of clock {name!r}", value) for value in pair)
        methods[method] = MethodTimes([predict_ms], {ANY_ACTION: [adapt_ms]})
    return Profile(_baseline(f"baseline_ms of clock {name!r}", times["baseline_ms"]), methods, name)


def _from_json(content: Any, path: Path) -> Profile:
    try:
        methods = {
            method: MethodTimes(
                _several(f"predict_ms of {method} in {path}", times["predict_ms"]),
                {
                    action: _several(f"adapt_ms of {method} in {path}", known)
                    for action, known in times["adapt_ms"].items()
                },
                _several(f"frozen_ms of {method} in {path}", times["frozen_ms"])
                if times.get("frozen_ms")
                else (),
                bool(times.get("reforward", False)),
            )
            for method, times in content["methods"].items()
        }
        baseline_ms = _baseline(f"baseline_ms in {path}", content["baseline_ms"])
        machine = dict(content.get("machine") or {})
        verdict = Verdict.from_json(content.get("verdict") or {})
        return Profile(baseline_ms, methods, str(content.get("name", path.stem)), machine, verdict)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TemporaError(
            f"{path} is not a latency profile ({error}): write one with tempora profile"
        ) from error


def _several(what: str, values: Any) -> list[float]:
    if not isinstance(values, list) or not values:
        raise TemporaError(f"{what}: {values!r:.60} is no list of times; give at least one, as in [38.5]")
    return [_milliseconds(what, value) for value in values]


def _baseline(what: str, value: Any) -> float:
    baseline_ms = _milliseconds(what, value)
    if baseline_ms == 0:
        raise TemporaError(f"{what}: {value!r} is no latency of standard inference (lambda): it is above 0")
    return baseline_ms


def _milliseconds(what: str, value: Any) -> float:
    is_number = not isinstance(value, bool) and isinstance(value, Real)
    if not is_number or not 0 <= value <= sys.float_info.max:
        raise TemporaError(f"{what}: {value!r:.60} is no time; times are finite milliseconds, 0 or above")
    return float(value)


def _draw(times: Sequence[float], *what: object) -> float:
    """One of `times`, always the same for the same `what`."""
    if len(times) == 1:
        return times[0]
    digest = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    return times[int.from_bytes(digest, "big") % len(times)]
