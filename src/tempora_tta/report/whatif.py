"""The what-if panel: utility of every method at every stop of every slider, with the sentence of each stop.

The page shows what is worked out here; it knows no rule of timing, pooling or ranking.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempora_tta import analysis, words
from tempora_tta.analysis.answer import certainty
from tempora_tta.analysis.cells import ALL
from tempora_tta.analysis.of_run import cells_of, judgement_of
from tempora_tta.analysis.sweeps import Knob, Sweeps, knob_of
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
        "rising": card.rising,
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
    """The line that asks `tempora recommend` for the same deployment."""
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
    return shlex.join(["tempora", "recommend", str(results.opened_from), *asked])


class _Known:
    """What a run evaluated, and its streams."""

    def __init__(self, results: Results, names: Names) -> None:
        self.results, self.names, self.cards = results, names, results.cards
        self.sweeps = Sweeps(results)
        self.methods = list(names["methods"])
        self.shifts = [ALL, *names["shifts"]]
        cells = cells_of(results)
        self.judged = {key: judgement_of(rows) for key, rows in cells.groupby(["shift", "scenario"])}
        cells = cells[~cells["incomplete"]]
        places = zip(cells["shift"], cells["scenario"].astype(int), cells["method"], strict=True)
        self.utility = dict(zip(places, cells["utility"].astype(float), strict=True))
        utilities = results.contenders
        self.value = utilities.groupby("scenario")["value"].mean()
        self.streams = dict(list(utilities.groupby(["method", "shift", "seed"], sort=False)))
        failed = utilities[utilities["status"] != "ok"]
        self.status = {
            (row["shift"], int(row["scenario"]), row["method"]): str(row["status"])
            for _, row in failed.iterrows()
        }

    def variants(self, protocol: str) -> list[list[int]]:
        """Scenarios of a protocol with a value, cut by queue or rule, from the smallest value."""
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
        evaluated = tuple(at.get(float(value)) for value in values)
        utility, why = self._evaluated(evaluated)
        if knob is not None:
            self._add_between(knob, values, evaluated, utility, why)
        sentences = self._told(protocol, values, evaluated, utility, why)
        flat = [reason for shift in why for stop in shift for reason in stop]
        return Slider(
            protocol, _variant(self.results.scenarios[members[0]]), knob, values, evaluated, utility, flat, sentences
        )  # fmt: skip

    def _between(self, knob: Knob | None, evaluated: Sequence[float]) -> list[float]:
        if knob is None:
            return []
        lambda_ms = float(self.results.contenders["baseline_ms"].iloc[0])
        least = ABOVE_LAMBDA * lambda_ms if knob.name == "threshold_ms" else min(evaluated) / 1.5
        values = np.geomspace(least, 1.5 * max(evaluated), STOPS)
        return [float(f"{value:.4g}") for value in values]

    def _evaluated(self, evaluated: Sequence[int | None]) -> tuple[FloatArray, list[list[list[str]]]]:
        """Utility at each stop that was evaluated, and the reasons of those that have none."""
        utility = np.full((len(self.shifts), len(evaluated), len(self.methods)), np.nan)
        why = [[[""] * len(self.methods) for _ in evaluated] for _ in self.shifts]
        for place, shift in enumerate(self.shifts):
            for stop, number in enumerate(evaluated):
                for column, method in enumerate(self.methods):
                    if number is None:
                        continue
                    found = self.utility.get((shift, number, method), np.nan)
                    utility[place, stop, column] = found
                    if np.isnan(found):
                        why[place][stop][column] = self._status(shift, number, method)
        return utility, why

    def _status(self, shift: str, number: int, method: str) -> str:
        shifts = self.names["shifts"] if shift == ALL else [shift]
        found = (self.status.get((one, number, method)) for one in shifts)
        return next((status for status in found if status), "not run yet")

    def _add_between(
        self,
        knob: Knob,
        values: FloatArray,
        evaluated: Sequence[int | None],
        utility: FloatArray,
        why: list[list[list[str]]],
    ) -> None:
        """Fill in the stops between those that were evaluated: means over streams, by their batches."""
        between = np.array([number is None for number in evaluated])
        counted = set(analysis.shift_set(self.names["shifts"]))
        for column, method in enumerate(self.methods):
            total, weight, reason = np.zeros(between.sum()), 0, ""
            for place, shift in enumerate(self.names["shifts"], 1):
                own, batches, missing = self._on_shift(method, shift, knob, values[between])
                utility[place, between, column] = own / max(batches, 1)
                _name(why[place], evaluated, column, np.isnan(own), missing)
                if shift in counted:
                    total, weight, reason = total + own, weight + batches, reason or missing
            utility[0, between, column] = total / max(weight, 1)
            _name(why[0], evaluated, column, np.isnan(total), reason)

    def _on_shift(
        self, method: str, shift: str, knob: Knob, values: FloatArray
    ) -> tuple[FloatArray, int, str]:
        """Utility times batches, summed over seeds; the batches; and a reason, where an answer is missing."""
        total, weight, reason = np.zeros(len(values)), 0, ""
        for seed in self.names["seeds"]:
            rows = self.streams.get((method, shift, seed))
            if rows is None:
                return np.full(len(values), np.nan), 0, "not run yet"
            found = self.sweeps.of(rows, knob, values)
            total, weight = total + found.batches * found.utility, weight + found.batches
            reason = reason or found.why
        return total, weight, reason

    # -- words -----------------------------------------------------------------------------------------------

    def _told(
        self,
        protocol: str,
        values: FloatArray,
        evaluated: Sequence[int | None],
        utility: FloatArray,
        why: list[list[list[str]]],
    ) -> list[str]:
        """The sentence of every stop; adds to the reasons what a method gets at its neighbours."""
        rising, label, sentences = self.cards.scenario(protocol).rising, self.cards.label, []
        for place, shift in enumerate(self.shifts):
            for stop, number in enumerate(evaluated):
                missing = np.flatnonzero(np.isnan(utility[place, stop]) & (number is None))
                near = []
                for column in missing:
                    found = self._nearby(utility[place, :, column], evaluated, stop, rising)
                    if found is not None:
                        near.append({"label": label(self.methods[column]), **found})
                        why[place][stop][column] += f"; {words.nearby(found)}"
                ranked = [
                    {"label": label(method), "standard": method == STANDARD, "utility": float(value)}
                    for method, value in zip(self.methods, utility[place, stop], strict=True)
                    if not np.isnan(value)
                ]
                ranked.sort(key=lambda one: -round(one["utility"], 12))
                asked = sum(not reason.startswith("failed") for reason in why[place][stop])
                sentence = words.at_stop(ranked, near, asked)
                if number is not None:
                    judged = self.judged.get((shift, number))
                    sentence = f"{sentence} {certainty(judged, self.cards)}".strip()
                sentences.append(sentence)
        return sentences

    def _nearby(
        self, utility: FloatArray, evaluated: Sequence[int | None], stop: int, rising: bool
    ) -> dict[str, Any] | None:
        """What a method gets at the nearest evaluated stops on either side; None where it has no utility there."""
        there = [
            one for one, number in enumerate(evaluated) if number is not None and not np.isnan(utility[one])
        ]
        below, above = [one for one in there if one < stop][-1:], [one for one in there if one > stop][:1]
        if not (below or above):
            return None
        numbers = [evaluated[one] for one in (*below, *above)]
        return {
            "settings": [self.results.scenarios[number].label for number in numbers if number is not None],
            "lo": float(min(utility[one] for one in (*below, *above))),
            "hi": float(max(utility[one] for one in (*below, *above))),
            # Below the strictest that was evaluated a method may lose everything at once.
            "bounded": bool(above if rising else below),
        }


def _variant(scenario: Scenario) -> str:
    """What sets a slider apart from others of its protocol."""
    deployment = scenario.deployment()
    rule = f", {deployment.rule}" if deployment.has_budget else ""
    return (
        deployment.rule if deployment.waits and deployment.has_budget else f"queue {deployment.queue}{rule}"
    )


def _name(
    why: list[list[str]],
    evaluated: Sequence[int | None],
    column: int,
    missing: NDArray[np.bool_],
    reason: str,
) -> None:
    """Write the reason at the stops in between that have no answer."""
    between = [stop for stop, number in enumerate(evaluated) if number is None]
    for stop, lacks in zip(between, missing, strict=True):
        if lacks:
            why[stop][column] = reason
