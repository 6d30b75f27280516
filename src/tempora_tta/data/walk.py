"""How a stream goes over shifts and classes: its kind and settings, as a user writes them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tempora_tta._own_code import is_own
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import STREAMS

ORDERS = ("shuffled", "sorted")
MOST = 1_000_000
"""Of batches, slots or visits: more is a slip, and would fill the memory."""


@dataclass(frozen=True)
class Walk:
    """The settings of a stream: `stream: {kind: continual, batches: 10, reset: never, classes: shuffled}`."""

    kind: str = "single"
    """One of `names.STREAMS`, or module:function of one's own."""
    batches: int | None = None
    """Batches of every shift (at every severity, in every visit); None: all that there are."""
    reset: str | int = "never"
    """When the method returns to its initial state: never, at every new `shift`, or every so many batches."""
    classes: str | Mapping[str, float] = "shuffled"
    """The order of classes within a segment: shuffled, sorted, or {dirichlet: 0.1}."""
    slots: int | None = None
    """Parts of a segment over which `dirichlet` divides each class; None: as many as it has batches."""
    visits: int = 2
    """How often `recurring` comes to every shift."""
    by: str = "sample"
    """What `mixed` draws a shift for: every sample, or every batch."""

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
        self._check_classes()
        if is_own(self.kind):
            for name in ("batches", "classes", "slots", "visits", "by"):
                if getattr(self, name) != getattr(Walk, name):
                    raise TemporaError(
                        f"{name}={getattr(self, name)!r}: {self.kind} decides that itself; leave it out"
                    )

    @classmethod
    def of(cls, given: Walk | str | Mapping[str, Any] | None) -> Walk:
        """A walk as a user gives it: a kind, or a mapping of settings.

        >>> Walk.of("continual") == Walk.of({"kind": "continual"})
        True
        """
        if given is None or isinstance(given, Walk):
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
        """Whether one stream goes over all shifts."""
        return self.kind != "single"

    @property
    def through_severities(self) -> bool:
        return self.kind == "gradual"

    @property
    def alpha(self) -> float | None:
        """The concentration of classes in time; None: they do not follow a Dirichlet draw."""
        return None if isinstance(self.classes, str) else float(self.classes["dirichlet"])

    def settings(self) -> dict[str, Any]:
        """Kind, and whatever is not as usual: what tells this walk from others."""
        usual = Walk(self.kind)
        changed = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(usual, field.name)
        }
        return {"kind": self.kind, **changed}

    def _check_classes(self) -> None:
        if isinstance(self.classes, str) and self.classes in ORDERS:
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
