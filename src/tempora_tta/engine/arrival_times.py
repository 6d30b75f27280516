"""Recorded arrivals that a configuration keeps elsewhere: in a file, or made by a function of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tempora_tta._own_code import find_function, is_own
from tempora_tta.errors import TemporaError


def with_times(spec: Mapping[str, Any] | str) -> Mapping[str, Any] | str:
    """A scenario whose `arrivals: {recorded: FILE}` or `{recorded: "module:function"}` holds the times themselves.

    A file has one time in ms per line (or several, with spaces or commas); a function takes nothing and returns them.
    """
    if isinstance(spec, str):
        return spec  # a class of the user's own, without settings
    arrivals = spec.get("arrivals")
    named = arrivals.get("recorded") if isinstance(arrivals, Mapping) and len(arrivals) == 1 else None
    if not isinstance(named, str):
        return spec
    times = _made(named) if is_own(named) and not Path(named).exists() else _read(Path(named))
    return {**spec, "arrivals": {"recorded": times}}


def _read(path: Path) -> list[float]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TemporaError(
            f"arrivals={str(path)!r}: cannot be read ({error}); give a file of times in ms, or module:function"
        ) from None
    words = [word for line in text.splitlines() for word in line.partition("#")[0].replace(",", " ").split()]
    times = []
    for word in words:
        try:
            times.append(float(word))
        except ValueError:
            raise TemporaError(
                f"arrivals={str(path)!r}: {word[:40]!r} is no number; it holds arrival times in ms, one per line"
            ) from None
    return times


def _made(name: str) -> list[float]:
    times = find_function("arrivals", name)()
    try:
        return [float(time) for time in np.asarray(times, dtype=np.float64)]
    except (TypeError, ValueError):
        raise TemporaError(f"arrivals={name!r}: must return arrival times in ms; got {times!r:.80}") from None
