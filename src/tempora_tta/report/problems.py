"""Methods that fail under pressure: below standard inference, without effect, or without a number."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pandas as pd

from tempora_tta import analysis
from tempora_tta.analysis.diagnoses import diagnoses
from tempora_tta.analysis.of_run import cells_of
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios.diagnosis import DURABLE_GAIN, Finding
from tempora_tta.store import Results
from tempora_tta.words import shift_title


@dataclass(frozen=True)
class Problem:
    """A method, and how it fails."""

    method: str
    below: int = 0
    """Cells under pressure in which standard inference is better."""
    cells: int = 0
    mode: str = ""
    """The most frequent failure."""
    sentence: str = ""
    where: str = ""
    cell: tuple[str, int, str] | None = None
    """(shift, scenario, method) of the worst case, to link to."""
    causes: tuple[Finding, ...] = ()
    not_scored: dict[str, int] = field(default_factory=dict)
    """Reason -> number of cells without a utility."""


def problems(results: Results, batches: pd.DataFrame, without: Collection[str] = ()) -> list[Problem]:
    """Return the adapting methods that have a problem, `without` those that are recommended."""
    cells, cards, causes = cells_of(results), results.cards, diagnoses(results, batches)
    pressed = cells[cells["counts"] & ~cells["reference"] & cells["standard_utility"].notna()]
    losing = pd.DataFrame()
    if not pressed.empty:
        found = analysis.findings(pressed, cards)
        losing = found[(found["utility"] < found["standard_utility"]) & (found["mode"] != DURABLE_GAIN)]
    listed = []
    for name in cards.in_order(results.contenders["method"]):
        problem = _of(name, results, pressed, losing, tuple(causes.get(name, ())))
        if name not in (STANDARD, *without) and (problem.mode or problem.causes or problem.not_scored):
            listed.append(problem)
    return listed


def _of(
    name: str, results: Results, pressed: pd.DataFrame, losing: pd.DataFrame, causes: tuple[Finding, ...]
) -> Problem:
    own = pressed[pressed["method"] == name]
    below, utilities = int((own["utility"] < own["standard_utility"]).sum()), results.contenders
    failed = utilities[(utilities["method"] == name) & (utilities["status"] != "ok")]
    reasons = {str(reason): int(count) for reason, count in failed["status"].value_counts().items()}
    bad = losing[losing["method"] == name] if len(losing) else losing
    if bad.empty:
        return Problem(name, below, len(own), causes=causes, not_scored=reasons)
    mode = str(bad["mode"].value_counts().index[0])
    bad = bad[bad["mode"] == mode]
    worst = bad.iloc[int((bad["standard_utility"] - bad["utility"]).argmax())]
    return Problem(
        name,
        below,
        len(own),
        mode=mode,
        sentence=str(worst["sentence"]),
        where=f"{shift_title(str(worst['shift']))}, {worst['label']}",
        cell=(str(worst["shift"]), int(worst["scenario"]), name),
        causes=causes,
        not_scored=reasons,
    )
