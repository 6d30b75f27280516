"""A steady profile: how long each kind of work takes on one machine, from what samples, and how sure that is.

`profile.json` of a run folder is one, and `tempora profile` writes the same file. Steady times are constants per kind
and amount. What the device itself adds from batch to batch stands apart from them, as residuals.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tempora_tta._numbers import percent
from tempora_tta.errors import TemporaError
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.verdicts import VALID, WARN, Verdict
from tempora_tta.timing.baseline import Baseline
from tempora_tta.timing.fits import BLOCK, TAIL_SAMPLES, Fit
from tempora_tta.timing.work import FROZEN, PREDICT, Kind, Phase

SCHEMA_VERSION = 2
PRECISE, ROUGH = 0.01, 0.05
"""Half the 95 % interval of a method's time over Standard's: recording ends below the first, above the second its
verdict warns."""
PROVISION_X = 1.03
"""lambda over the steady time of standard inference: what the published mean and lambda give on ResNet-50."""
TAIL = "tail"
GIVEN = "given"
PRIVATE = ("command", "dirty")
"""Facts about a machine that nobody else needs: a command line has paths and names in it."""
STANDARD = "standard"
STEP = "step"
ANY_ACTION = "*"
"""In a profile whose times were given: whatever adapt() did that has no time of its own."""


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
    """Median of the wall time beside it."""
    error: float = Field(0.0, ge=0)
    """Half of the 95 % interval of `steady_ms`, as a fraction of it."""
    samples: int = Field(0, ge=0)
    check: float | None = None
    """On a shift that was kept apart: how far the times were from this, as a fraction."""
    made_by: str = ""
    """Which method that was: a hash of its settings and, if it is the user's own, its code. Empty: nobody knows."""

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


class Rounds(_Part):
    """The samples, round by round, so that whole rounds can be drawn again; none where the times were given."""

    shift: list[str] = []
    """That each round was on."""
    clean: list[bool] = []
    """Whether the device was ours in each round."""
    checks: list[bool] = []
    """Whether the round was kept apart from the fit."""
    standard_ms: list[float] = []
    """Median of standard inference in each round."""
    ms: list[list[float | None]] = []
    """Per entry and round; null where the round did not meet this kind."""
    amount: list[list[float | None] | None] = []
    """The same for the amounts; null for entries whose time follows none."""


class Residuals(_Part):
    """The device's own variation: clean times over their steady time, in blocks of neighbours."""

    block: int = Field(default=BLOCK, ge=1)
    factors: list[list[float]] = []
    clean_samples: int = Field(default=0, ge=0)

    @property
    def tail_known(self) -> bool:
        """Enough clean samples to know the 99th percentile on this machine."""
        return self.clean_samples >= TAIL_SAMPLES

    def factor(self, shift: str, seed: int, index: int) -> float:
        """Of one batch: the same for all methods, and neighbours come from one block."""
        if not self.factors:
            return 1.0
        block = self.factors[_number(shift, seed, index // self.block) % len(self.factors)]
        return block[index % self.block % len(block)]


class Spent(_Part):
    """What a method takes besides time. None: nobody counts it here."""

    peak_memory_bytes: int | None = None
    """The most that it holds on the device, its network included and other methods' not."""
    watts: float | None = Field(None, ge=0)
    """Energy per busy second while it predicts and adapts: of the GPU, or of the whole processor."""
    energy_joules: float | None = None
    """Per batch, predicted and adapted to."""
    updated_parameters: int = 0


class Profile(_Part):
    """Latencies of one machine, network and batch size, by kind of work."""

    schema_version: Literal[2] = 2
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
    after_idle_x: float | None = None
    """Standard inference after a pause over its steady time."""
    back_to_back_ms: float | None = Field(None, gt=0)
    """Standard inference with nothing between its batches: how fast the machine was, for who wants to know how fast
    it is now. None: nobody looked."""
    clean_share: float = Field(1.0, ge=0, le=1)
    cores_ours: bool = True
    entries: list[Entry]
    rounds: Rounds = Rounds()
    residuals: Residuals = Residuals()
    spent: dict[str, Spent] = {}
    left_out: dict[str, str] = {}
    """Methods that failed while they were profiled, as `made_by` of entries says it."""
    unmet: dict[str, list[str]] = {}
    """Actions and modes that a method names and that never occurred: each is profiled when a run meets it."""

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
            batches=len(self.rounds.standard_ms),
            source="steady",
        )

    @property
    def imprecision(self) -> float:
        """The largest `uncertainty` of its methods; 0 where times were given."""
        return imprecision(self.entries)

    @property
    def verdict(self) -> Verdict:
        """What a reader of a number behind this profile should know."""
        reasons = []
        if self.imprecision > PRECISE:
            reasons.append(f"times are known to ±{percent(self.imprecision)}")
        if rough := self.imprecision > ROUGH:
            reasons[-1] += " (--profile-s gives profiling more time)"
        if self.relative_only:
            reasons.append(
                "the cores were not ours: only scenarios relative to λ are answered (--threads 1 mends that)"
            )
        status = WARN if rough or self.relative_only else VALID
        return Verdict(status, tuple(reasons), f"{status}: {'; '.join(reasons)}" if reasons else "")

    def uncertainty(self, method: str) -> float:
        """How far, relatively, the service times of a method may be off against standard inference."""
        return uncertainty(self.entries, method)

    def substitute(self, kind: Kind) -> Entry | None:
        """What a kind without a time costs: another mode of the same action, else a step, else the most there is."""
        own = [entry for entry in self.entries if (entry.method, entry.phase) == (kind.method, kind.phase)]
        for wanted in (kind.action, STEP):
            alike = [entry for entry in own if entry.action == wanted]
            if alike:
                return max(alike, key=lambda entry: entry.samples)
        return max(own, key=lambda entry: entry.steady_ms, default=None)

    def with_entries(self, entries: Iterable[Entry], rounds: Rounds) -> Profile:
        """The profile with kinds that were met later. Those it had stay exactly as they are."""
        new = [entry for entry in entries if entry.kind not in self.by_kind]
        met = {(entry.method, word) for entry in new for word in (entry.mode, entry.action)}
        left = {
            method: [word for word in words if (method, word) not in met]
            for method, words in self.unmet.items()
        }
        return self.model_copy(
            update={
                "entries": [*self.entries, *new],
                "rounds": _joined(self, rounds, list(entries), new),
                "unmet": {method: words for method, words in left.items() if words},
            }
        )._fresh()

    def stamped(self, methods: Mapping[str, str]) -> Profile:
        """With what each method is beside its entries, where nothing is yet."""
        entries = [
            entry
            if entry.made_by or entry.method not in methods
            else entry.model_copy(update={"made_by": methods[entry.method]})
            for entry in self.entries
        ]
        left_out = {method: known or methods.get(method, "") for method, known in self.left_out.items()}
        return self.model_copy(update={"entries": entries, "left_out": left_out})._fresh()

    def changed(self, methods: Mapping[str, str]) -> set[str]:
        """Those of the methods that were others when they were profiled."""
        before = [*((entry.method, entry.made_by) for entry in self.entries), *self.left_out.items()]
        return {method for method, known in before if known and methods.get(method, known) != known}

    def without(self, methods: Collection[str]) -> Profile:
        """Without the times of these methods; standard inference stays."""
        gone = set(methods) - {STANDARD}
        kept = [place for place, entry in enumerate(self.entries) if entry.method not in gone]
        rounds = self.rounds.model_copy(
            update={
                "ms": [self.rounds.ms[place] for place in kept],
                "amount": [self.rounds.amount[place] for place in kept],
            }
        )
        update = {
            "entries": [self.entries[place] for place in kept],
            "rounds": rounds,
            **{
                name: {method: one for method, one in getattr(self, name).items() if method not in gone}
                for name in ("spent", "left_out", "unmet")
            },
        }
        return self.model_copy(update=update)._fresh()

    def with_new(self, other: Profile, rounds_before: int) -> Profile:
        """With the kinds that somebody else added to this profile when it had `rounds_before` rounds."""
        new = [position for position, entry in enumerate(other.entries) if entry.kind not in self.by_kind]
        rounds = Rounds(
            shift=other.rounds.shift[rounds_before:],
            clean=other.rounds.clean[rounds_before:],
            checks=other.rounds.checks[rounds_before:],
            standard_ms=other.rounds.standard_ms[rounds_before:],
            ms=[other.rounds.ms[position][rounds_before:] for position in new],
            amount=[
                None if (amounts := other.rounds.amount[position]) is None else amounts[rounds_before:]
                for position in new
            ],
        )
        return self.with_entries([other.entries[position] for position in new], rounds) if new else self

    def _fresh(self) -> Profile:
        """Without what was worked out for another list of entries."""
        return Profile.model_validate(self.model_dump())

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
        if entry.method == method and entry.phase != FROZEN:
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


def _joined(profile: Profile, more: Rounds, given: list[Entry], new: list[Entry]) -> Rounds:
    """The rounds of a profile and those of the kinds that are added to it, in columns of the same entries."""
    had = profile.rounds
    before, after = len(had.shift), len(more.shift)
    column = {entry.kind: position for position, entry in enumerate(given)}

    def rows(old: list[Any], added: list[Any], always: bool) -> list[Any]:
        joined = []
        for position, entry in enumerate([*profile.entries, *new]):
            left = old[position] if position < len(old) else None
            right = added[column[entry.kind]] if position >= len(old) else None
            nothing = left is None and right is None and not always
            joined.append(None if nothing else [*(left or [None] * before), *(right or [None] * after)])
        return joined

    return Rounds(
        shift=[*had.shift, *more.shift],
        clean=[*had.clean, *more.clean],
        checks=[*had.checks, *more.checks],
        standard_ms=[*had.standard_ms, *more.standard_ms],
        ms=rows(list(had.ms), list(more.ms), always=True),
        amount=rows(list(had.amount), list(more.amount), always=False),
    )


def _number(*what: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(what).encode(), digest_size=8).digest(), "big")
