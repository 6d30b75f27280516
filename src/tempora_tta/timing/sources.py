"""Profiles by name: constants given by hand, published latencies, the library's, and files.

Constants are times by method and phase, {"baseline_ms": 40, "tent": (41, 56), ...}, or a file that names actions:

    {"schema_version": 1, "baseline_ms": 40,
     "methods": {"tent": {"predict_ms": [41], "adapt_ms": {"step": [56], "*": [0]}, "frozen_ms": [38]}}}

`*` is every action without a time of its own; without `frozen_ms` a frozen model takes Standard's time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import PROFILES, SETUPS, file_of
from tempora_tta.published import profile as published_profile
from tempora_tta.published import profile_source
from tempora_tta.timing.profile import (
    ANY_ACTION,
    GIVEN,
    SCHEMA_VERSION,
    STANDARD,
    Entry,
    Profile,
    profile_id,
)
from tempora_tta.timing.work import ADAPT, FROZEN, PREDICT

PUBLISHED, LIBRARY = "published:", "library:"
Times = tuple[float, Mapping[str, float], float | None, bool]
"""Of one method: a prediction, an adaptation by action, a frozen prediction if it has its own time, and whether a
prediction holds the adaptation (`reforward`)."""


def load_profile(source: str | Path | Mapping[str, Any]) -> Profile:
    """A profile from a file, by name (`published:rn50_inc`, `library:h200-resnet50`), from its own JSON, or from
    constants: {"baseline_ms": 40, "tent": (41, 56), ...}."""
    if isinstance(source, Mapping):
        if source.get("schema_version") == SCHEMA_VERSION:
            return Profile.from_json(source, Path("profile"))
        return _from_constants(source, "given")
    if str(source).startswith(PUBLISHED):
        setup = str(source).removeprefix(PUBLISHED)
        if setup not in SETUPS:
            raise unknown("published profile", setup, SETUPS)
        return _from_constants(published_profile(setup), str(source), profile_source(setup))
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
        return Profile.from_json(content, path)
    return _from_json(content, path)


def clock_names() -> list[str]:
    """The profiles that ship with Tempora, as a user names them."""
    return [*(f"{PUBLISHED}{name}" for name in SETUPS), *(f"{LIBRARY}{name}" for name in PROFILES)]


def _from_constants(times: Mapping[str, Any], name: str, source: str = "") -> Profile:
    if "baseline_ms" not in times:
        raise TemporaError(f"clock {name!r}: needs baseline_ms, the latency of standard inference (lambda)")
    methods: dict[str, Times] = {}
    for method, pair in times.items():
        if method == "baseline_ms":
            continue
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise TemporaError(f"clock {name!r}: {method} must be (predict_ms, adapt_ms); got {pair!r}")
        predict_ms, adapt_ms = (_milliseconds(f"{method} of clock {name!r}", value) for value in pair)
        methods[method] = predict_ms, {ANY_ACTION: adapt_ms}, None, False
    return _given(
        name,
        _baseline(f"baseline_ms of clock {name!r}", times["baseline_ms"]),
        methods,
        {"source": source} if source else {},
    )


def _from_json(content: Any, path: Path) -> Profile:
    try:
        methods: dict[str, Times] = {
            method: (
                _only(f"predict_ms of {method} in {path}", times["predict_ms"]),
                {
                    action: _only(f"adapt_ms of {method} in {path}", known)
                    for action, known in times["adapt_ms"].items()
                },
                _only(f"frozen_ms of {method} in {path}", times["frozen_ms"])
                if times.get("frozen_ms")
                else None,
                bool(times.get("reforward", False)),
            )
            for method, times in content["methods"].items()
        }
        baseline_ms = _baseline(f"baseline_ms in {path}", content["baseline_ms"])
        machine = dict(content.get("machine") or {})
        return _given(str(content.get("name", path.stem)), baseline_ms, methods, machine)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TemporaError(
            f"{path} is not a latency profile ({error}): write one with tempora profile"
        ) from error


def _given(
    name: str, baseline_ms: float, methods: Mapping[str, Times], machine: Mapping[str, Any]
) -> Profile:
    """A profile of constants."""
    standard_ms = methods[STANDARD][0] if STANDARD in methods else baseline_ms
    entries = []
    for method, (predict_ms, adapt_ms, frozen_ms, reforward) in methods.items():
        action = ANY_ACTION if reforward else ""
        entries += [
            Entry(method=method, phase=PREDICT, action=action, steady_ms=predict_ms),
            *(Entry(method=method, phase=ADAPT, action=each, steady_ms=ms) for each, ms in adapt_ms.items()),
            Entry(method=method, phase=FROZEN, steady_ms=standard_ms if frozen_ms is None else frozen_ms),
        ]
    about = {key: machine[key] for key in ("model", "batch_size") if key in machine}
    return Profile(
        name=name,
        id=profile_id(entries, baseline_ms, ""),
        device=str(machine.get("gpu") or machine.get("cpu") or name),
        times=GIVEN,
        machine=dict(machine),
        standard_ms=standard_ms,
        given_baseline_ms=baseline_ms,
        entries=entries,
        **about,
    )


def _only(what: str, values: Any) -> float:
    """The one time in a list."""
    if not isinstance(values, list) or len(values) != 1:
        raise TemporaError(
            f"{what}: {values!r:.60} is not one time in a list, as in [38.5]: profile again for more"
        )
    return _milliseconds(what, values[0])


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
