"""The what-if panel: utility of every method at every stop of every slider, with the sentence of each stop.

The page shows what is worked out here; it knows no rule of timing, pooling or ranking.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempora_tta import analysis, words
from tempora_tta.analysis.answer import certainty, settings_of
from tempora_tta.analysis.cells import ALL
from tempora_tta.analysis.of_run import cells_of, judgement_of
from tempora_tta.analysis.sweeps import Knob, knob_of, no_answer, sweep
from tempora_tta.cards import Cards
from tempora_tta.published.methods import STANDARD
from tempora_tta.report.html.packing import pack, pack_words
from tempora_tta.scenarios import Scenario
from tempora_tta.store import Results

FloatArray = NDArray[np.float64]
Names = Mapping[str, list[Any]]
"""Methods, shifts, seeds and scenarios, in the order of the page."""

STOPS = 41
"""Values between which nothing was evaluated."""
ABOVE_LAMBDA = 1.02
"""The strictest patience, in lambda: at lambda itself Standard would be late."""


@dataclass(frozen=True)
class Slider:
    """One knob of one protocol; another queue or rule is another slider."""

    protocol: str
    variant: str
    knob: Knob | None
    """None: only what was evaluated has an answer."""
    values: FloatArray
    evaluated: tuple[int | None, ...]
    """The scenario of the run at each value."""
    utility: FloatArray
    """(1 + shifts, values, methods), all shifts together first; NaN where no exact answer is known."""
    why: list[str]
    """The reasons, in the same order, flat."""
    sentences: list[str]
    """(1 + shifts, values), flat."""


def what_if(results: Results, names: Names) -> list[Slider]:
    """Return the sliders of a run."""
    known, cells = _Known(results, names), cells_of(results)
    return [
        known.slider(protocol, members)
        for protocol in results.cards.in_protocol_order(cells["protocol"])
        if _varies(results.cards, protocol)
        for members in known.variants(protocol)
    ]


def packed(slider: Slider, results: Results) -> dict[str, Any]:
    """Return a slider as the page holds it."""
    card = results.cards.scenario(slider.protocol)
    return {
        "protocol": slider.protocol,
        "situation": card.situation,
        "knob": card.knob,
        "unit": card.unit,
        "variant": slider.variant,
        "values": slider.values.tolist(),
        "labels": ["" if number is None else results.scenarios[number].label for number in slider.evaluated],
        "evaluated": slider.evaluated,
        "commands": [_command(results, slider, place, value) for place, value in enumerate(slider.values)],
        "utility": pack(slider.utility.ravel()),
        "why": pack_words(slider.why),
        "sentences": pack_words(slider.sentences),
    }


def _varies(cards: Cards, protocol: str) -> bool:
    card = cards.scenario(protocol)
    return bool(card.parameter) and not card.reference


def _command(results: Results, slider: Slider, place: int, value: float) -> str:
    """Return the line that asks `tempora recommend` for the same deployment."""
    number = slider.evaluated[place]
    if number is not None:
        asked = ["--scenario", results.scenarios[number].label]
    else:
        assert slider.knob is not None
        asked = {
            "interval_ms": ["--interval-ms", f"{value:.6g}"],
            "threshold_ms": ["--patience-ms", f"{value:.6g}"],
            "budget_ms": ["--budget", f"{value / 1000:.6g}"],
        }[slider.knob.name]
        if "queue" in (others := dict(slider.knob.others)):
            asked += ["--queue", str(others["queue"])]
    return shlex.join(["tempora", "recommend", str(results.opened_from), *asked])


class _Known:
    """Evaluated cells of a run, and its streams."""

    def __init__(self, results: Results, names: Names) -> None:
        self.results, self.names, self.cards = results, names, results.cards
        self.methods = list(names["methods"])
        self.shifts = [ALL, *names["shifts"]]
        self.counted = set(analysis.shift_set(names["shifts"]))
        cells, utilities = cells_of(results), results.contenders
        self.judged = {key: judgement_of(rows) for key, rows in cells.groupby(["shift", "scenario"])}
        self.settings = settings_of(results)
        self.value = utilities.groupby("scenario")["value"].mean()
        self.streams = dict(list(utilities.groupby(["method", "shift", "seed"], sort=False)))
        cell = ["shift", "scenario", "method"]
        self.utility = cells[~cells["incomplete"]].set_index(cell)["utility"]
        failed = utilities[utilities["status"] != "ok"].sort_values(
            "shift", key=lambda shifts: shifts.map(self.shifts.index), kind="stable"
        )
        failed = pd.concat([failed.assign(shift=ALL), failed]).drop_duplicates(cell)
        self.status = failed.set_index(cell)["status"]

    def variants(self, protocol: str) -> list[list[int]]:
        """Return the scenarios of a protocol with a value, cut by queue or rule, from the smallest value."""
        found: dict[str, list[int]] = {}
        for number in self.names["scenarios"]:
            scenario = self.results.scenarios[number]
            if scenario.protocol == protocol and self.value[number] > 0:
                found.setdefault(_variant(scenario), []).append(number)
        return [sorted(members, key=lambda number: self.value[number]) for members in found.values()]

    def slider(self, protocol: str, members: Sequence[int]) -> Slider:
        knobs = {knob_of(self.results.scenarios[number]) for number in members}
        knob = knobs.pop() if len(knobs) == 1 else None
        at = {float(self.value[number]): number for number in members}
        values = np.array(sorted({*at, *self._between(knob, list(at))}))
        evaluated = [at.get(float(value)) for value in values]
        shape = (len(self.shifts), len(values), len(self.methods))
        numbers = [-1 if number is None else number for number in evaluated]
        order = pd.MultiIndex.from_product([self.shifts, numbers, self.methods])
        utility = self.utility.reindex(order).to_numpy(float, copy=True).reshape(shape)
        why = self.status.reindex(order).fillna("not run yet").to_numpy(object).reshape(shape)
        why = np.where(np.isnan(utility), why, "")
        if knob is not None:
            between = np.array([number is None for number in evaluated])
            for column, method in enumerate(self.methods):
                found, reasons = self._swept(method, knob, values[between])
                utility[:, between, column] = found
                why[:, between, column] = np.where(np.isnan(found), reasons[:, None], "")
        variant = _variant(self.results.scenarios[members[0]])
        sentences = self._told(protocol, evaluated, utility, why)
        return Slider(
            protocol, variant, knob, values, tuple(evaluated), utility, why.ravel().tolist(), sentences
        )

    def _between(self, knob: Knob | None, evaluated: Sequence[float]) -> list[float]:
        if knob is None:
            return []
        lambda_ms = float(self.results.contenders["baseline_ms"].iloc[0])
        least = ABOVE_LAMBDA * lambda_ms if knob.name == "threshold_ms" else min(evaluated) / 1.5
        values = np.geomspace(least, 1.5 * max(evaluated), STOPS)
        return [float(f"{value:.4g}") for value in values]

    def _swept(self, method: str, knob: Knob, values: FloatArray) -> tuple[FloatArray, NDArray[np.object_]]:
        """Return utility (1 + shifts, values), means over streams by their batches, and why some of it is missing."""
        shape = (len(self.shifts), len(values))
        total, batches, why = np.zeros(shape), np.zeros(shape[0]), np.full(shape[0], "", dtype=object)
        for place, shift in enumerate(self.names["shifts"], 1):
            for seed in self.names["seeds"]:
                rows = self.streams.get((method, shift, seed))
                found = no_answer("not run yet") if rows is None else sweep(self.results, rows, knob, values)
                for one in (0, place) if shift in self.counted else (place,):
                    total[one] += found.batches * found.utility
                    batches[one] += found.batches
                    why[one] = why[one] or found.why
        return total / np.maximum(batches, 1)[:, None], why

    # -- words -----------------------------------------------------------------------------------------------

    def _told(
        self,
        protocol: str,
        evaluated: Sequence[int | None],
        utility: FloatArray,
        why: NDArray[np.object_],
    ) -> list[str]:
        """Return the sentence of every stop; add to the reasons what a method gets at its neighbours."""
        rising, label, sentences = self.cards.scenario(protocol).rising, self.cards.label, []
        for place, shift in enumerate(self.shifts):
            for stop, number in enumerate(evaluated):
                missing = np.flatnonzero(np.isnan(utility[place, stop]) & (number is None))
                near = []
                for column in missing:
                    found = self._nearby(utility[place, :, column], evaluated, stop, rising)
                    if found is not None:
                        near.append({"label": label(self.methods[column]), **found})
                        why[place, stop, column] += f"; {words.nearby(found)}"
                ranked = [
                    {"label": label(method), "standard": method == STANDARD, "utility": float(value)}
                    for method, value in zip(self.methods, utility[place, stop], strict=True)
                    if not np.isnan(value)
                ]
                ranked.sort(key=lambda one: -round(one["utility"], 12))
                asked = sum(not reason.startswith("failed") for reason in why[place, stop])
                sentence = words.at_stop(ranked, near, asked)
                if number is not None:
                    judged = self.judged.get((shift, number))
                    sentence = f"{sentence} {certainty(judged, self.cards)}".strip()
                sentences.append(sentence)
        return sentences

    def _nearby(
        self, utility: FloatArray, evaluated: Sequence[int | None], stop: int, rising: bool
    ) -> dict[str, Any] | None:
        """Return a method's utility at the nearest evaluated stops on either side; None where it has none there."""
        there = [
            one for one, number in enumerate(evaluated) if number is not None and not np.isnan(utility[one])
        ]
        below, above = [one for one in there if one < stop][-1:], [one for one in there if one > stop][:1]
        if not (below or above):
            return None
        numbers = [number for one in (*below, *above) if (number := evaluated[one]) is not None]
        return {
            "settings": [
                words.where(self.settings[self.results.scenarios[number].label]) for number in numbers
            ],
            "lo": float(min(utility[one] for one in (*below, *above))),
            "hi": float(max(utility[one] for one in (*below, *above))),
            # Below the strictest that was evaluated a method may lose everything at once.
            "bounded": bool(above if rising else below),
        }


def _variant(scenario: Scenario) -> str:
    """Name what sets a slider apart from others of its protocol."""
    deployment = scenario.deployment()
    rule = f", {deployment.rule}" if deployment.has_budget else ""
    return (
        deployment.rule if deployment.waits and deployment.has_budget else f"queue {deployment.queue}{rule}"
    )
