"""Causes: why a method is worse than standard inference, as far as a run shows it.

`scenarios.diagnosis` says which term of a utility gave way; this says what was behind it. One function per
cause, from a `Case` to a `Finding` or None; `DIAGNOSES` lists them. A new cause is a function and its place there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta.analysis.cells import over_all
from tempora_tta.analysis.doubt.blocks import FloatArray
from tempora_tta.analysis.of_run import cells_of
from tempora_tta.analysis.paper import findings
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError, counted
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios.diagnosis import DURABLE_GAIN, Finding
from tempora_tta.store import Results
from tempora_tta.store.schema import COLLAPSE_BATCHES
from tempora_tta.words import shift_title

FEW_SAMPLES = 16
"""Batch size up to which a batch says little about the mean and variance of a channel."""


@dataclass(frozen=True)
class Case:
    """One method of a run, and what there is to look at."""

    method: str
    offline: Mapping[str, float]
    """Accuracy of every method without pressure, over all shifts together."""
    batches: pd.DataFrame
    """One row per batch of the offline passes of this method and of standard inference, in order."""
    batch_size: int
    batch_alone: frozenset[str]
    """Methods whose predictions depend on the statistics of the batch at hand and on nothing else."""
    batch_statistics: frozenset[str]
    """Methods that normalise with the statistics of the batch at hand."""
    classes: str
    """Correlation of classes in time, in words; empty where they are shuffled."""
    cards: Cards

    @property
    def harmed(self) -> bool:
        return self.offline.get(self.method, 1.0) < self.offline.get(STANDARD, 0.0)

    def lost(self, method: str) -> float:
        """Return what a method loses against standard inference without any pressure."""
        return self.offline[STANDARD] - self.offline[method]


def too_small_batches(case: Case) -> Finding | None:
    """Statistics of a few samples (batches of 1 or 16 under BatchNorm), shown by a method that uses nothing else."""
    if case.batch_size > FEW_SAMPLES or not case.harmed or case.method not in case.batch_statistics:
        return None
    losses = {name: case.lost(name) for name in case.batch_alone if name in case.offline}
    shown = max(losses, key=lambda name: (losses[name], name), default=case.method)
    lost = case.lost(shown)
    if lost <= 0:
        return None
    who = "it" if shown == case.method else f"{case.cards.label(shown)}, which uses nothing else,"
    return Finding(
        "too small batches",
        f"the statistics of {counted(case.batch_size, 'sample')} are worse than the network's own: {who} loses "
        f"{100 * lost:.1f} points without any pressure; use batches of {4 * FEW_SAMPLES}",
        {"batch_size": case.batch_size, "lost": lost},
    )


def correlated_classes(case: Case) -> Finding | None:
    """A batch of few classes has their statistics, not those of the shift."""
    if not case.classes or not case.harmed or case.method not in case.batch_statistics:
        return None
    lost = case.lost(case.method)
    return Finding(
        "correlated classes",
        f"classes come together ({case.classes}), and the statistics of a batch are those of its few classes: it "
        f"loses {100 * lost:.1f} points to standard inference without any pressure",
        {"lost": lost},
    )


def collapse(case: Case) -> Finding | None:
    """It was no worse than standard inference at first, and then is so for good."""
    found = []
    for (shift, seed), stream in case.batches.groupby(["shift", "seed"], sort=False):
        accuracy = {
            method: (part["correct"] / part["total"]).to_numpy() for method, part in stream.groupby("method")
        }
        if {case.method, STANDARD} <= accuracy.keys():
            lasted = _below_at_the_end(accuracy[case.method], accuracy[STANDARD])
            if COLLAPSE_BATCHES <= lasted < len(accuracy[STANDARD]):
                found.append((lasted, len(accuracy[STANDARD]) - lasted, f"{shift}, seed {seed}"))
    if not found:
        return None
    lasted, first, where = max(found)
    more = f", and on {len(found) - 1} more streams" if len(found) > 1 else ""
    return Finding(
        "collapse",
        f"below standard inference from batch {first} to the end, {lasted} batches ({where}{more})",
        {"first_batch": float(first), "batches": float(lasted)},
    )


def _below_at_the_end(own: FloatArray, standard: FloatArray) -> int:
    """Count the batches up to the last one that are all below standard inference."""
    no_worse = np.flatnonzero(own >= standard)
    return len(own) if not len(no_worse) else int(len(own) - 1 - no_worse[-1])


DIAGNOSES: tuple[Callable[[Case], Finding | None], ...] = (
    too_small_batches,
    correlated_classes,
    collapse,
)
"""In the order in which they are said."""


def diagnoses(results: Results, batches: pd.DataFrame) -> dict[str, list[Finding]]:
    """Method -> the causes that were found. `batches` are those of the offline passes, in order."""
    cards = results.cards
    rows = over_all(cells_of(results))
    rows = rows[rows["reference"]]
    offline = {str(name): float(value) for name, value in zip(rows["method"], rows["utility"], strict=True)}
    alone, statistics = _by_batch(results, cards)
    classes = how_correlated(results.manifest)
    found = {}
    for method in cards.in_order(results.contenders["method"]):
        if method == STANDARD:
            continue
        case = Case(
            method,
            offline,
            batches[batches["method"].isin([method, STANDARD])],
            int(results.manifest["batch_size"]),
            alone,
            statistics,
            classes,
            cards,
        )
        causes = [cause for look in DIAGNOSES if (cause := look(case)) is not None]
        if causes:
            found[method] = causes
    return found


def how_correlated(manifest: Mapping[str, Any]) -> str:
    """Say how classes follow each other on the streams of a run, by its settings; empty where they are shuffled.

    >>> how_correlated({"stream": {"classes": {"dirichlet": 0.1}}}), how_correlated({})
    ('Dirichlet 0.1', '')
    """
    classes = (manifest.get("stream") or {}).get("classes", "shuffled")
    if isinstance(classes, Mapping):
        return f"Dirichlet {classes['dirichlet']:g}"
    return "" if classes == "shuffled" else str(classes)


def _by_batch(results: Results, cards: Cards) -> tuple[frozenset[str], frozenset[str]]:
    """Methods that look at nothing but the batch's statistics, and all that normalise with them."""
    alone, statistics = set(), set()
    try:
        passes = results.folder.passes().values()
    except TemporaError:  # a damaged pass is an error where its batches are needed
        return frozenset(), frozenset()
    for stored in passes:
        method = str(stored.identity.get("method"))
        modifies = set(cards.method(method).modifies)
        if stored.history_free and "activations" in modifies:
            alone.add(method)
        if stored.facts.get("batch_statistics"):
            statistics.add(method)
    return frozenset(alone), frozenset(statistics)


# -- methods with a problem ----------------------------------------------------------------------------------


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
        found = findings(pressed, cards)
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
