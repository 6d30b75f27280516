"""A steady profile: how long each kind of work takes on one machine, from what samples, and how sure that is.

`profile.json` of a run folder is one, and `tempora profile` writes the same file. Steady times are constants per kind
and amount. What the device itself adds from batch to batch stands apart from them, as residuals.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tempora_tta._numbers import percent
from tempora_tta.config import PROVISION_X
from tempora_tta.errors import TemporaError
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.verdicts import VALID, WARN, Verdict
from tempora_tta.timing.baseline import Baseline
from tempora_tta.timing.fits import BLOCK, TAIL_SAMPLES, Fit
from tempora_tta.timing.work import ADAPT, FROZEN, PREDICT, Kind, Phase, at_once

SCHEMA_VERSION = 3
PRECISE, ROUGH = 0.01, 0.05
"""Half the 95 % interval of a method's time over Standard's: recording ends below the first, above the second its
verdict warns."""
TAIL = "tail"
GIVEN = "given"
PRIVATE = ("command", "dirty")
"""Facts that stay on the machine: a command line has paths and names in it."""
STANDARD = "standard"
STEP = "step"
ANY_ACTION = "*"
"""In a profile whose times were given: any action that has no time of its own."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Entry(_Part):
    """One kind of work and its time."""

    method: str
    phase: Phase
    mode: str = ""
    action: str = ""
    steady_ms: float = Field(ge=0)
    """At `amount`; always, where time does not follow the amount."""
    per_amount_ms: float = Field(0.0, ge=0)
    """Milliseconds more for each unit of the amount."""
    amount: float | None = None
    """The middle of the amounts that were seen."""
    wall_ms: float | None = Field(None, ge=0)
    """Median of its wall time."""
    error: float = Field(0.0, ge=0)
    """Half of the 95 % interval of `steady_ms`, as a fraction of it."""
    samples: int = Field(0, ge=0)
    check: float | None = None
    """On a shift that was kept apart: how far the times were from this, as a fraction."""
    rounds: list[int] = []
    """Numbers of the rounds that met this kind; none where the times were given."""
    ms: list[float] = []
    """Its time in each of them."""
    amounts: list[float] | None = None
    """Its amount in each of them, where time follows it."""

    @property
    def kind(self) -> Kind:
        return Kind(self.method, self.phase, self.mode, self.action)

    @cached_property
    def fit(self) -> Fit:
        return Fit(self.steady_ms, self.per_amount_ms, self.amount, self.error, self.samples)

    @property
    def numbers(self) -> str:
        """All that a latency depends on."""
        return f"{self.steady_ms!r} {self.per_amount_ms!r} {self.amount!r}"


class Round(_Part):
    """One round through all kinds of work, so that whole rounds can be drawn again."""

    shift: str
    clean: bool
    """Whether the device was ours."""
    checks: bool
    """Whether the round was kept apart from the fit."""
    standard_ms: float
    """Median of standard inference."""


class Residuals(_Part):
    """The device's own variation: clean times over their steady time, in blocks of neighbours."""

    block: int = Field(default=BLOCK, ge=1)
    factors: list[list[float]] = []
    clean_samples: int = Field(default=0, ge=0)

    def factor(self, shift: str, seed: int, index: int) -> float:
        """Of one batch: the same for all methods, and neighbours come from one block."""
        if not self.factors:
            return 1.0
        block = self.factors[_number(shift, seed, index // self.block) % len(self.factors)]
        return block[index % self.block % len(block)]


class MethodFacts(_Part):
    """Facts noticed about a method while it was profiled, besides its times."""

    made_by: str = ""
    """Hash of its settings and, if it is the user's own, its code. Empty: not known."""
    failed: bool = False
    """It failed while it was profiled, and has no times."""
    unmet: list[str] = []
    """Actions and modes that it names and that never occurred: each is profiled when a run meets it."""
    memory_bytes: int | None = Field(None, ge=0)
    """The most that it holds on the device, its network included and other methods' not. None: not known here."""
    watts: float | None = Field(None, ge=0)
    """Mean power of the device while it predicts and adapts. None: not known here."""
    updated_parameters: int = 0


class Profile(_Part):
    """Latencies of one machine, network and batch size, by kind of work."""

    schema_version: Literal[3] = 3
    name: str
    id: str
    """Of the profile as it was first recorded; kinds that are added later leave it as it is."""
    made_at: str = ""
    model: str = ""
    weights: str = ""
    batch_size: int = 0
    device: str
    """The kind of device."""
    threads: int = 0
    times: str
    """process CPU time, device time, wall time or given."""
    given_baseline_ms: float | None = Field(None, gt=0)
    """lambda, where it was given with the times."""
    own_process: bool = True
    """Recorded in a process that did nothing else."""
    machine: dict[str, Any] = {}
    standard_ms: float = Field(gt=0)
    """Steady time of standard inference."""
    standard_error: float = 0.0
    tail_x: float | None = None
    """Clean 99th percentile over median of standard inference; None: not known on this machine."""
    back_to_back_ms: float | None = Field(None, gt=0)
    """Standard inference with nothing between its batches: how fast the machine was. None: not known."""
    clean_share: float = Field(1.0, ge=0, le=1)
    cores_ours: bool = True
    entries: list[Entry]
    rounds: list[Round] = []
    """None where the times were given."""
    residuals: Residuals = Residuals()
    facts: dict[str, MethodFacts] = {}
    """By method."""

    def to_share(self) -> Profile:
        """The profile as others may have it: named by its device, network and batch size, without what is about its
        owner."""
        named = f"{self.device} {self.model} batch {self.batch_size}"
        name = re.sub(r"[^a-z0-9_]+", "-", named.lower()).strip("-")
        machine = {key: value for key, value in self.machine.items() if key not in PRIVATE}
        return self.model_copy(update={"name": name, "machine": machine})

    @cached_property
    def by_kind(self) -> Mapping[Kind, Entry]:
        return {entry.kind: entry for entry in self.entries}

    @cached_property
    def methods(self) -> frozenset[str]:
        return frozenset(entry.method for entry in self.entries)

    @cached_property
    def reforwarded(self) -> frozenset[str]:
        """Methods that were recorded with `reforward=True`: their predictions hold the adaptation."""
        return frozenset(entry.method for entry in self.entries if entry.phase == PREDICT and entry.action)

    @property
    def given(self) -> bool:
        """Its times are constants by phase and action, from the paper or from the user; nothing was recorded."""
        return self.times == GIVEN

    @property
    def relative_only(self) -> bool:
        """Its milliseconds mean little: several threads were timed, and others used the cores too."""
        return not self.cores_ours and self.times != "process CPU time"

    @property
    def baseline_ms(self) -> float:
        """lambda: given, or with the usual provision."""
        return self.given_baseline_ms or self.standard_ms * PROVISION_X

    def baseline(self, provision_x: float | str = PROVISION_X) -> Baseline:
        """lambda: given, or Standard's steady time with a provision; `tail` takes the clean 99th percentile."""
        if self.given_baseline_ms is not None:
            return Baseline(self.given_baseline_ms, source=f"recorded:{self.id}")
        if provision_x == TAIL:
            if self.tail_x is None:
                raise TemporaError(
                    f"provision_x=tail: the tail is not known on this machine, only {self.residuals.clean_samples} "
                    f"clean samples of {TAIL_SAMPLES}; give profiling more time (--profile-s), or a number like 1.03"
                )
            provision_x = self.tail_x
        times = float(provision_x)
        return Baseline(
            self.standard_ms * times,
            mean_ms=self.standard_ms,
            median_ms=self.standard_ms,
            provision=times,
            batches=len(self.rounds),
            source="steady",
        )

    @property
    def imprecision(self) -> float:
        """The largest `uncertainty` of its methods; 0 where times were given."""
        return imprecision(self.entries)

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on these times: what a reader of a number behind this profile should know."""
        reasons = []
        if self.imprecision > PRECISE:
            reasons.append(f"times are known to ±{percent(self.imprecision)}")
        if rough := self.imprecision > ROUGH:
            reasons[-1] += " (--profile-s gives profiling more time)"
        if self.relative_only:
            reasons.append(
                "the cores were not ours: only scenarios relative to λ are answered (--threads 1 mends that)"
            )
        if source := self.machine.get("source"):
            reasons.append(f"times {source}")
        status = WARN if rough or self.relative_only else VALID
        return Verdict(status, tuple(reasons), f"{status}: {'; '.join(reasons)}" if reasons else "")

    def uncertainty(self, method: str) -> float:
        """Return the relative error of a method's service times against standard inference."""
        return uncertainty(self.entries, method)

    def overheads(self) -> list[dict[str, Any]]:
        """delta, e, e - lambda, l and the slowdown by method: the rows of the paper's Table 2, of steady times."""
        rows = []
        for method in dict.fromkeys(entry.method for entry in self.entries):
            predict_ms, adapt_ms = (self._usual_ms(method, phase) for phase in (PREDICT, ADAPT))
            service_ms = predict_ms + adapt_ms
            rows.append(
                {
                    "method": method,
                    "service_ms": service_ms,
                    "predict_ms": predict_ms,
                    "intrinsic_ms": max(0.0, predict_ms - self.baseline_ms),
                    "adapt_ms": adapt_ms,
                    "error": self.uncertainty(method),
                    "slowdown": service_ms / self.baseline_ms,
                    "facts": self.facts.get(method, MethodFacts()),
                }
            )
        return rows

    def _usual_ms(self, method: str, phase: Phase) -> float:
        """Mean over what the method did in the rounds."""
        own = [
            entry
            for entry in self.entries
            if (entry.method, entry.phase) == (method, phase) and not at_once(entry.mode)
        ]
        count = sum(entry.samples for entry in own)
        return sum(entry.samples * entry.steady_ms for entry in own) / count if count else 0.0

    def substitute(self, kind: Kind) -> Entry | None:
        """Return a time for a kind without one: another mode of the same action, else a step, else the largest."""
        where = (kind.method, kind.phase, at_once(kind.mode))
        own = [entry for entry in self.entries if (entry.method, entry.phase, at_once(entry.mode)) == where]
        for wanted in (kind.action, STEP):
            alike = [entry for entry in own if entry.action == wanted]
            if alike:
                return max(alike, key=lambda entry: entry.samples)
        return max(own, key=lambda entry: entry.steady_ms, default=None)

    def with_entries(self, entries: Iterable[Entry], rounds: Sequence[Round]) -> Profile:
        """The profile with kinds that were met later, in rounds of their own. Those it had stay as they are."""
        before = len(self.rounds)
        new = [
            entry.model_copy(update={"rounds": [before + number for number in entry.rounds]})
            for entry in entries
            if entry.kind not in self.by_kind
        ]
        met = {(entry.method, word) for entry in new for word in (entry.mode, entry.action)}
        facts = {
            method: known.model_copy(
                update={"unmet": [word for word in known.unmet if (method, word) not in met]}
            )
            for method, known in self.facts.items()
        }
        return self._with(entries=[*self.entries, *new], rounds=[*self.rounds, *rounds], facts=facts)

    def with_methods(self, more: Profile) -> Profile:
        """The profile with the methods of a later recording, as if standard inference had taken what it did here.

        Those that are in both were others when this one was recorded.
        """
        again = (more.methods | set(more.facts)) - {STANDARD}
        kept = self._with(
            entries=[entry for entry in self.entries if entry.method not in again],
            facts={method: known for method, known in self.facts.items() if method not in again},
        )
        factor = self.standard_ms / more.standard_ms
        entries = [
            entry.model_copy(
                update={"steady_ms": entry.steady_ms * factor, "per_amount_ms": entry.per_amount_ms * factor}
            )
            for entry in more.entries
        ]
        joined = kept.with_entries(entries, more.rounds)
        return joined._with(facts={**more.facts, **joined.facts})

    def stamped(self, methods: Mapping[str, str]) -> Profile:
        """With the hash of what each method is (`made_by`), where there is none yet."""
        facts = {
            method: known.model_copy(update={"made_by": known.made_by or methods.get(method, "")})
            for method, known in self.facts.items()
        }
        return self._with(facts=facts)

    def changed(self, methods: Mapping[str, str]) -> set[str]:
        """Those of the methods that were others when they were profiled."""
        return {
            method
            for method, known in self.facts.items()
            if known.made_by and methods.get(method, known.made_by) != known.made_by
        }

    def _with(self, **changes: Any) -> Profile:
        """With these fields, and without what was worked out from others."""
        same = {name: getattr(self, name) for name in Profile.model_fields}
        return Profile.model_validate(same | changes)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def save(self, path: Path | str) -> None:
        text = json.dumps(self.to_json(), separators=(",", ":")) + "\n"
        write_atomically(Path(path), lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def from_json(cls, content: Any, path: Path) -> Profile:
        try:
            profile = cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise TemporaError(
                f"{path} is not a latency profile ({where}: {first['msg']}): write one with tempora profile"
            ) from error
        if Kind(STANDARD, PREDICT) not in profile.by_kind:
            raise TemporaError(
                f"{path} has no time of standard inference: write a profile with tempora profile"
            )
        return profile


def uncertainty(entries: Iterable[Entry], method: str) -> float:
    """Half the 95 % interval of a method's service time over Standard's, as a fraction of it."""
    heaviest: dict[str, Entry] = {}
    for entry in entries:
        if entry.method == method and entry.phase != FROZEN and not at_once(entry.mode):
            known = heaviest.get(entry.phase)
            if known is None or entry.samples > known.samples:
                heaviest[entry.phase] = entry
    total = sum(entry.steady_ms for entry in heaviest.values())
    square = sum((entry.error * entry.steady_ms) ** 2 for entry in heaviest.values())
    return float((square**0.5) / total) if total else 0.0


def imprecision(entries: Collection[Entry]) -> float:
    """The largest `uncertainty` among the methods of these entries, standard inference apart."""
    methods = {entry.method for entry in entries} - {STANDARD}
    return max((uncertainty(entries, method) for method in methods), default=0.0)


def profile_id(entries: Iterable[Entry], standard_ms: float, made_at: str) -> str:
    """Two recordings have two names, even if they found the same."""
    text = json.dumps([[str(entry.kind), entry.numbers] for entry in entries]) + f"{standard_ms!r} {made_at}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _number(*what: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(what).encode(), digest_size=8).digest(), "big")
