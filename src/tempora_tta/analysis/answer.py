"""The answer: which method to use in one deployment, how sure that is, and what would tell more.

`answers` gives one per scenario of a run, `recommend` one to a question. Terminal, page, notebook and JSON read
these; `words` says them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta import words
from tempora_tta.analysis.cells import over_all
from tempora_tta.analysis.doubt import Judgement
from tempora_tta.analysis.of_run import cells_of, judgement_of
from tempora_tta.cards import Cards
from tempora_tta.errors import counted, unknown
from tempora_tta.published.methods import order
from tempora_tta.scenarios import Scenario
from tempora_tta.scenarios.arrivals import Frames
from tempora_tta.store import Evaluated, Results
from tempora_tta.store.verdicts import verdict_of

YES, NO, UNKNOWN = "yes", "no", "unknown"
"""Verdicts on a deployment: it fits on the machine, it does not, or this run has not measured it."""

SHIPPED = ("published:", "library:")
"""Beginnings of the clocks whose name alone says whose times they have."""

_NUMBERS = {
    "utility": "utility",
    "sample_lo": "utility_lo",
    "sample_hi": "utility_hi",
    "rank": "rank",
    "p_best": "p_best",
    "availability": "answered",
    "in_time": "in_time",
    "responsiveness": "value_kept",
    "served_accuracy": "right",
    "adapted_fraction": "adapted",
    "frozen_accuracy": "right_frozen",
    "first_wait_ms": "first_wait_ms",
    "busy": "busy",
    **{f"response_p{percent}_ms": f"p{percent}_ms" for percent in (90, 95, 99)},
    "memory_mb": "memory_mb",
    "overhead_j": "overhead_j",
    "break_even_accuracy": "break_even_accuracy",
    "images_per_s": "images_per_s",
    "batches_per_s": "batches_per_s",
}
"""Columns of a ranking -> their names in JSON."""


@dataclass(frozen=True)
class Answer:
    """The methods of a run under one deployment, best first. Printed, it says which to use and why."""

    scenario: Scenario | None
    """None where only limits were asked about: the ranking then holds the highest rate of each method."""
    ranking: pd.DataFrame
    """Rows of `cells` for this deployment, best first; only methods with an exact answer that keep the limits."""
    judged: Judgement | None = None
    """Certainty of the lead: `verdict`, `why`, the methods that are equal or may be better."""
    setting: Mapping[str, Any] = field(default_factory=dict)
    """The deployment in numbers: images per second, the machine's limit, waits, patience, budget."""
    question: Mapping[str, Any] = field(default_factory=dict)
    fits: str = YES
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Method -> why it is not in the ranking: no exact answer, failed, misses a limit."""
    may_be_better: tuple[Mapping[str, Any], ...] = ()
    """Methods without an exact answer that are better at the nearest evaluated setting, or have none."""
    interval: tuple[float, float] | None = None
    """95 % interval of the utility of `method`, over other batches and times like these."""
    lead: tuple[float, float, float] | None = None
    """Of the best over the next: mean, and 95 % interval over other batches and times."""
    notes: tuple[str, ...] = ()
    follow_up: str = ""
    """One command that measures what is missing."""
    sizes: tuple[Mapping[str, Any], ...] = ()
    """Of a run at several batch sizes: the best method of each other size."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """There, accuracy, the share that `method` keeps up with, and the share of that in time."""
    next_size: Mapping[str, Any] = field(default_factory=dict)
    """There, the batch size that promises more than those that were run."""
    evaluated: Evaluated | None = None
    """Settings, preset and runtime of `method`, for `tempora.deploy(model, answer)`."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The run: shifts, batches, machine, timing."""
    cards: Cards = field(default_factory=Cards)

    @property
    def method(self) -> str | None:
        """Method to use; None where no method has an exact answer that keeps the limits."""
        return None if self.ranking.empty else str(self.ranking["method"].iloc[0])

    @property
    def why(self) -> str:
        """Reasons for the choice, in sentences."""
        return " ".join(words.why(self.to_json()))

    def could_be(self, method: str) -> bool:
        """Tell whether the method is first here, or level with the first or undecided against it."""
        judged = self.judged
        return method == self.method or (
            judged is not None and method in (*judged.equal_with, *judged.rivals)
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything that is known, as plain data that any reader of JSON takes."""
        judged = self.judged
        told = {
            "method": self.method,
            "fits": self.fits,
            "question": dict(self.question),
            "setting": dict(self.setting),
            "ranking": [self._row(row) for _, row in self.ranking.iterrows()],
            "verdict": judged.verdict if judged else "",
            "why_undecided": judged.why if judged else "",
            "equal_with": list(judged.equal_with) if judged else [],
            "rivals": list(judged.rivals) if judged else [],
            "interval": self.interval,
            "lead": None if self.lead is None else dict(zip(("mean", "lo", "hi"), self.lead, strict=True)),
            "may_be_better": [dict(one) for one in self.may_be_better],
            "left_out": {
                name: {"label": self.cards.label(name), "why": why} for name, why in self.left_out.items()
            },
            "notes": list(self.notes),
            "follow_up": self.follow_up,
            "sizes": [dict(one) for one in self.sizes],
            "factors": dict(self.factors),
            "next_size": self._next(),
            "about": dict(self.about),
        }
        return plain(told)  # type: ignore[no-any-return]

    def _next(self) -> dict[str, Any]:
        method = self.next_size.get("method")
        return {**self.next_size, "label": self.cards.label(method)} if method else {}

    def _row(self, row: pd.Series[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"method": row["method"], "label": self.cards.label(row["method"])}
        found |= {name: row[column] for column, name in _NUMBERS.items() if column in row.index}
        found |= {name: row[name] for name in ("insolvent", "answer", "why") if name in row.index}
        if self.scenario is not None:
            terms = {str(name): value for name, value in row.items()}
            found["account"] = self.cards.scenario(str(row["protocol"])).sentence(terms)
        return found

    def __str__(self) -> str:
        return "\n".join(words.answer(self.to_json()))

    __repr__ = __str__


def certainty(judged: Judgement | None, cards: Cards) -> str:
    """Say how sure the first place of a cell is; empty where it is sure, or nothing is known."""
    if judged is None:
        return ""
    equal, rivals = ([cards.label(name) for name in names] for names in (judged.equal_with, judged.rivals))
    return words.lead(judged.verdict, judged.why, equal, rivals)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: no NaN, no infinity, no types of numpy."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, str) else None if pd.isna(value) else str(value)


# -- a whole run ---------------------------------------------------------------------------------------------


def answers(results: Results, shift: str | None = None) -> list[Answer]:
    """Return one answer per scenario of a run, over all its shifts or on one; unlimited time first, then each kind of
    pressure from strict to relaxed."""
    if shift is not None and shift not in results.manifest["shifts"]:
        raise unknown("shift of this run", shift, results.manifest["shifts"])
    table = cells_of(results)
    rows = over_all(table) if shift is None else table[table["shift"] == shift]
    if rows.empty:
        return []
    about = about_run(results, [] if shift is None else [shift])
    several = rows.groupby("protocol")["queue"].nunique() > 1
    found = []
    for _, part in rows.groupby("scenario", sort=False):  # cells are ordered as people read them
        part = part.sort_values("rank", kind="stable")
        first = part.iloc[0]
        scenario = results.scenarios[int(first["scenario"])]
        setting = setting_of(results, scenario, first) | {"queue_named": bool(several[first["protocol"]])}
        found.append(
            Answer(
                scenario=scenario,
                ranking=part.reset_index(drop=True),
                judged=judgement_of(part),
                interval=(float(first["sample_lo"]), float(first["sample_hi"])),
                setting=setting,
                about=about,
                cards=results.cards,
            )
        )
    return found


def stretches(found: Sequence[Answer]) -> list[tuple[str, list[Answer]]]:
    """Fold the answers under pressure into stretches of neighbouring settings, for each kind from strict to relaxed.

    In a stretch one method is first, level with the first or undecided against it.
    """
    folded: list[tuple[str, list[Answer]]] = []
    pressed = [one for one in found if not one.setting["reference"] and one.method]
    for _, kind in groupby(pressed, key=lambda one: one.setting["kind"]):
        rest = list(kind)
        while rest:
            reach = {name: _reach(rest, name) for name in rest[0].ranking["method"] if rest[0].could_be(name)}
            method = max(reach, key=lambda name: reach[name])
            folded.append((method, rest[: reach[method]]))
            rest = rest[reach[method] :]
    return folded


def _reach(found: Sequence[Answer], method: str) -> int:
    """Count the answers from the first on in which the method could be best."""
    lost = (place for place, one in enumerate(found) if not one.could_be(method))
    return next(lost, len(found))


def safest(found: Sequence[Answer]) -> str | None:
    """Return the method that is first, level or undecided in most settings under pressure."""
    pressed = [one for one in found if not one.setting["reference"] and one.method]
    methods = sorted({str(one.method) for one in pressed}, key=order)
    if not methods:
        return None
    return max(
        methods,
        key=lambda name: (
            sum(one.could_be(name) for one in pressed),
            sum(one.method == name for one in pressed),
        ),
    )


def overview(results: Results, shift: str | None = None) -> dict[str, Any]:
    """Return the answers of a run as plain data: all that `tempora show` and a notebook say."""
    found = answers(results, shift)
    return plain(  # type: ignore[no-any-return]
        {
            "about": about_run(results, [] if shift is None else [shift]),
            "answers": [one.to_json() for one in found],
            "safest": safest(found),
            "stretches": [
                {
                    "method": name,
                    "label": results.cards.label(name),
                    "settings": [dict(one.setting) for one in part],
                }
                for name, part in stretches(found)
            ],
        }
    )


def about_run(results: Results, shifts: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the numbers of a run are about: data, sizes, machine and its limit, timing."""
    manifest = results.manifest
    batches, seeds = manifest["batches"], manifest["seeds"]
    named = list(shifts or [name for name in manifest["shifts"] if name != "clean"] or manifest["shifts"])
    size, baseline_ms = int(manifest["batch_size"]), float(manifest["baseline"]["baseline_ms"])
    verdict = verdict_of(manifest)
    return {
        "run": str(results.opened_from),
        "model": manifest.get("suite") or manifest["model"],
        "dataset": manifest.get("dataset"),
        "shifts": named,
        "methods": len(manifest["methods"]),
        "batches": sum(int(batches.get(name, 0)) for name in named),
        "orders": len(seeds),
        "batch_size": size,
        "baseline_ms": baseline_ms,
        "images_per_s": 1000.0 * size / baseline_ms if baseline_ms else None,
        "machine": machine_name(manifest),
        "clock": manifest["clock"],
        "timing": verdict.status,
        "timing_text": verdict.text,
        "finished": bool(manifest["finished"]),
        "report": str(results.path / "report.html") if (results.path / "report.html").exists() else None,
    }


def machine_name(manifest: Mapping[str, Any]) -> str:
    """Name the processor that the times are about; of a recorded clock, the clock.

    Profiles that ship have names; a file of the user's own is called like its device, since two machines may both
    keep theirs in profile.json.

    >>> machine_name({"machine": {"cpu": "Some CPU", "threads": 2, "device": "cpu"}, "clock": "measured"})
    'Some CPU, 2 threads'
    >>> told = {"config": {"clock": "profile.json"}, "clock": "recorded:1a2b"}
    >>> machine_name({**told, "profile": {"device": "Some CPU", "id": "1a2b"}})
    'clock Some CPU, profile 1a2b'
    """
    clock, told = str(manifest.get("clock", "")), manifest.get("profile")
    if not clock.startswith("recorded"):
        return processor(manifest.get("machine", {}))
    named = str((manifest.get("config") or {}).get("clock", clock))
    if told and not named.startswith(SHIPPED):
        named = f"{told['device']}, profile {told['id']}"
    return f"clock {named}"


def processor(machine: Mapping[str, Any]) -> str:
    """Name the device of a run.json, as people call it."""
    if machine.get("gpu"):
        return str(machine["gpu"])
    threads = machine.get("threads")
    count = f", {counted(threads, 'thread')}" if threads else ""
    return f"{machine.get('cpu', 'unknown machine')}{count}"


def setting_of(
    results: Results, scenario: Scenario, row: Mapping[str, Any] | pd.Series[Any]
) -> dict[str, Any]:
    """Return a deployment in the user's units; `row` is any of its cells."""
    size, baseline_ms = int(results.manifest["batch_size"]), float(row["baseline_ms"])
    card, deployment = scenario.full_card(), scenario.deployment()
    if not deployment.at_once:
        deployment = deployment.in_batches_of(size)
    schedule = deployment.schedule
    interval_ms = None if schedule is None else schedule.mean_interval(baseline_ms)
    batches = float(np.mean(list(results.manifest["batches"].values())))
    resolved = scenario.resolve(num_batches=max(1, round(batches)), batch_size=size, baseline_ms=baseline_ms)
    found = {
        "kind": scenario.protocol,
        "parameter": scenario.parameter,
        "value": row.get("value"),
        "label": scenario.label,
        "title": card.title,
        "situation": card.situation,
        "knob": card.knob,
        "unit": card.unit,
        "reference": card.reference,
        "baseline_ms": baseline_ms,
        "batch_size": size,
        # frames that are answered together take less than one by one
        "machine_images_per_s": 1000.0 * size / baseline_ms
        if baseline_ms and not deployment.at_once
        else None,
        "waits": deployment.waits,
        "queue": deployment.queue,
        "interval_ms": interval_ms,
        "images_per_s": 1000.0 * size / interval_ms if interval_ms else None,
        "deadline_ms": resolved.deadline_ms,
        "threshold_ms": resolved.threshold_ms,
        "budget_s": resolved.budget_ms / 1000.0,
        "budget_share": resolved.budget_ms / (baseline_ms * batches) if baseline_ms else None,
        "fps": deployment.fps,
        "cameras": deployment.cameras,
        "answer": deployment.answer,
        "at_once": deployment.at_once,
    }
    if isinstance(schedule, Frames):
        found["fill_ms"] = (size - 1) * schedule.gap_ms
    return plain(found)  # type: ignore[no-any-return]


def settings_of(results: Results) -> dict[str, dict[str, Any]]:
    """Return label -> the deployment in the user's units, for every scenario of a run that has a number."""
    known = results.contenders.dropna(subset=["batches"]).drop_duplicates("scenario")
    return {
        str(row["label"]): setting_of(results, results.scenarios[int(row["scenario"])], row)
        | {"queue_named": False}
        for _, row in known.iterrows()
    }
