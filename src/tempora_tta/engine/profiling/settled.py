"""Whether a profile has been recorded for long enough: what its error may still move in the cells of the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tempora_tta.engine.profiling.recording import Fitted, Recording
from tempora_tta.engine.profiling.walker import Walker
from tempora_tta.measure import settling
from tempora_tta.measure.fits import TAIL_SAMPLES
from tempora_tta.measure.profile import PROVISION_X
from tempora_tta.measure.settling import Cells, MethodCourse, Moved
from tempora_tta.measure.work import FROZEN, Kind
from tempora_tta.scenarios import Scenario


@dataclass(frozen=True)
class Question:
    """What the profile is recorded for."""

    scenarios: tuple[Scenario, ...]
    num_batches: int
    """Of the longest stream."""
    batch_size: int

    @property
    def tolerance(self) -> Moved:
        return settling.tolerance(self.num_batches, self.batch_size)

    def moved(self, fitted: Fitted, walkers: list[Walker], shrunk: float = 1.0) -> Cells:
        """What the error of the fits moves; `shrunk`: so much of that error."""
        courses = {walker.label: _course(walker, fitted) for walker in walkers if walker.seen}
        baseline_ms = fitted.standard.ms * PROVISION_X
        return settling.moved_cells(
            courses, self.scenarios, baseline_ms, self.num_batches, self.batch_size, shrunk
        )

    def enough(self, recording: Recording, walkers: list[Walker], up: float) -> bool:
        """Whether the error moves no cell, or the rest of the time would not change that; `up`: the share of it that
        has passed."""
        fitted = recording.fitted()
        now = self.moved(fitted, walkers)
        if settling.most(now).within(self.tolerance):
            return True
        if sum(map(len, recording.residuals(fitted))) < TAIL_SAMPLES:
            return False
        # Errors shrink with the root of the rounds; there are half as many more at the next look.
        soon = self.moved(fitted, walkers, shrunk=max(2 / 3, min(1.0, up)) ** 0.5)
        then = self.moved(fitted, walkers, shrunk=min(1.0, up) ** 0.5)
        return not settling.worth_more(now, soon, then, self.tolerance)


def _course(walker: Walker, fitted: Fitted) -> MethodCourse:
    """What the walker's batches take by the fits, and the error of that."""
    predicts, adapts, square = [], [], 0.0
    for predicted, adapted in walker.seen.values():
        known = [fitted.fits[one.kind] for one in (predicted, adapted) if one is not None]
        predicts.append(known[0].at(predicted.amount))
        adapts.append(known[1].at(adapted.amount) if adapted is not None else 0.0)
        square = max(square, sum((one.error * one.ms) ** 2 for one in known))
    frozen = fitted.fits.get(Kind(walker.label, FROZEN), fitted.standard)
    service_ms = float(np.mean(predicts) + np.mean(adapts))
    return MethodCourse(predicts, adapts, frozen.ms, square**0.5 / service_ms if service_ms else 0.0)
