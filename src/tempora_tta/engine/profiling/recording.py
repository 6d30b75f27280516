"""The rounds of a profile, and what they say: a fit per kind of work, and the tables that a profile keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from tempora_tta.engine.job import STANDARD
from tempora_tta.engine.profiling.walker import Timed
from tempora_tta.timing import fits as fitting
from tempora_tta.timing.fits import Fit
from tempora_tta.timing.profile import Entry, Rounds
from tempora_tta.timing.timer import CPU_TIME, DEVICE_TIME, RoundWatch, clean_device_rounds
from tempora_tta.timing.work import PHASES, PREDICT, Kind, Sample

_STANDARD_KIND = Kind(STANDARD, PREDICT)

Tell = Callable[[int, float], None]
"""Told the round and the share of the time that is up."""


@dataclass
class Recording:
    """The rounds so far."""

    what: str
    """What is timed."""
    samples: list[Sample] = field(default_factory=list)
    shifts: list[str] = field(default_factory=list)
    checks: list[bool] = field(default_factory=list)
    clean: list[bool] = field(default_factory=list)
    idle_ms: list[float] = field(default_factory=list)
    back_to_back_ms: list[float] = field(default_factory=list)
    """Of standard inference, in looks between the rounds."""

    @property
    def rounds(self) -> int:
        return len(self.shifts)

    def note(self, found: Timed, shift: str, checks: bool, watch: RoundWatch) -> None:
        """One more round."""
        self.clean.append(watch.clean([elapsed for _, elapsed in found]))
        self.samples += [sample for sample, _ in found]
        self.shifts.append(shift)
        self.checks.append(checks)

    def fitted(self, standard_ms: float | None = None) -> Fitted:
        """`standard_ms`: of the profile that these rounds are added to."""
        by_round = fitting.standard_by_round(self.samples, _STANDARD_KIND)
        clean = list(self.clean)
        if self.what == DEVICE_TIME:
            clean = clean_device_rounds([by_round[number] for number in range(len(clean))])
        usable = fitting.usable_rounds(clean, robust=self.what == CPU_TIME)
        of_rounds = [by_round[number] for number in usable]
        standard = fitting.fit(of_rounds, [None] * len(of_rounds))
        samples = fitting.relative(self.samples, by_round, standard_ms or standard.ms)
        kept = [sample for sample in samples if not self.checks[sample.round]]
        fits = fitting.fit_kinds(samples, usable) | fitting.fit_kinds(kept, usable)
        fits[_STANDARD_KIND] = standard
        apart = [sample for sample in samples if self.checks[sample.round]]
        return Fitted(clean, usable, by_round, standard, fits, fitting.distances(apart, fits))

    def residuals(self, fitted: Fitted) -> list[list[float]]:
        """The device's own variation, in blocks of neighbours."""
        return fitting.residual_blocks(self.samples, fitted.fits, fitted.clean)

    def entries(self, fitted: Fitted, labels: Iterable[str]) -> list[Entry]:
        """Of the methods with these labels, in their order."""
        wall: dict[Kind, list[float]] = {}
        for sample in self.samples:
            wall.setdefault(sample.kind, []).append(sample.wall_ms)
        order = {label: position for position, label in enumerate(labels)}
        kinds = sorted(
            (kind for kind in fitted.fits if kind.method in order),
            key=lambda kind: (order[kind.method], PHASES.index(kind.phase), kind.mode, kind.action),
        )
        fits = fitted.fits
        return [
            Entry(
                method=kind.method,
                phase=kind.phase,
                mode=kind.mode,
                action=kind.action,
                steady_ms=fits[kind].ms,
                per_amount_ms=fits[kind].per_amount_ms,
                amount=fits[kind].amount,
                wall_ms=float(np.median(wall[kind])),
                error=fits[kind].error,
                samples=fits[kind].samples,
                check=fitted.checks.get(kind),
            )
            for kind in kinds
        ]

    def table(self, fitted: Fitted, entries: list[Entry]) -> Rounds:
        """The samples by entries and rounds; several of one round are their median, as Standard's are."""
        column = {entry.kind: position for position, entry in enumerate(entries)}
        gathered: list[list[list[Sample]]] = [[[] for _ in range(self.rounds)] for _ in entries]
        for sample in self.samples:
            if sample.kind in column:
                gathered[column[sample.kind]][sample.round].append(sample)
        return Rounds(
            shift=self.shifts,
            clean=fitted.clean,
            checks=self.checks,
            standard_ms=[short(fitted.by_round[number]) for number in range(self.rounds)],
            ms=[[_middle([sample.ms for sample in cell]) for cell in row] for row in gathered],
            amount=[
                None
                if entry.amount is None
                else [_middle([s.amount for s in cell if s.amount is not None]) for cell in row]
                for entry, row in zip(entries, gathered, strict=True)
            ],
        )


@dataclass(frozen=True)
class Fitted:
    """What the rounds say."""

    clean: list[bool]
    usable: list[int]
    by_round: dict[int, float]
    standard: Fit
    fits: dict[Kind, Fit]
    checks: dict[Kind, float]


def _middle(values: list[float]) -> float | None:
    return short(float(np.median(values))) if values else None


def short(value: float) -> float:
    """Six digits: more say nothing."""
    return float(f"{value:.6g}")
