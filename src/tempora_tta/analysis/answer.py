"""The answer: which method to use in one deployment, how sure that is, and what would tell more.

`recommend` answers a question, `answers` gives one answer per scenario of a run over all its shifts. Terminal, page,
notebook and JSON read these; `words` says them.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta import words
from tempora_tta.analysis.cells import ALL, ease_sign, over_all
from tempora_tta.analysis.cells import cells as cells_of_rows
from tempora_tta.analysis.circumstances import machine_name
from tempora_tta.analysis.doubt import Judgement, Replicates, doubt, judge, leads, pooled, times_of
from tempora_tta.analysis.doubt.drawn import rescored
from tempora_tta.analysis.doubt.rescoring import Rescorer
from tempora_tta.analysis.doubt.run import Scored, together
from tempora_tta.analysis.limits import within_limits
from tempora_tta.analysis.of_run import cells_of
from tempora_tta.analysis.paper import break_even
from tempora_tta.analysis.peak import Peaks, highest_rates
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.replays import MISSED_BY_A_SHORT_STREAM, Answers, answer
from tempora_tta.analysis.tails import tail_note, with_variation
from tempora_tta.cards import Cards
from tempora_tta.published.methods import STANDARD, order
from tempora_tta.scenarios import Scenario, to_spec
from tempora_tta.scenarios.arrivals import Frames
from tempora_tta.store import Evaluated, Results, evaluated
from tempora_tta.store.schema import STREAM_COLUMNS
from tempora_tta.store.verdicts import verdict_of

YES, NO, UNKNOWN = "yes", "no", "unknown"
"""Whether a deployment fits on the machine: with the method that is advised, with none, or nobody measured it."""

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
    """Whether the lead of the best is sure: `verdict`, `why`, which methods are equal or may be better."""
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
    evaluated: Evaluated | None = None
    """How `method` was made, for `tempora.deploy(model, answer)`."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The run: shifts, batches, machine, timing."""
    cards: Cards = field(default_factory=Cards)

    @property
    def method(self) -> str | None:
        """The method to use; None where no method has an exact answer that keeps the limits."""
        return None if self.ranking.empty else str(self.ranking["method"].iloc[0])

    @property
    def why(self) -> str:
        """What decided, in sentences."""
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
            "about": dict(self.about),
        }
        return plain(told)  # type: ignore[no-any-return]

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


def answers(results: Results, shift: str = ALL) -> list[Answer]:
    """Return one answer per scenario of a run, over all its shifts or on one; unlimited time first, then each kind of
    pressure from strict to relaxed."""
    table = cells_of(results)
    rows = over_all(table) if shift == ALL else table[table["shift"] == shift]
    if rows.empty:
        return []
    known, about = doubt(results), about_run(results, [] if shift == ALL else [shift])
    rows = rows.assign(ease=rows["value"].fillna(0.0) * ease_sign(rows["protocol"], results.cards))
    rows["place"] = [results.cards.protocol_order(name) for name in rows["protocol"]]
    several = rows.groupby("protocol")["queue"].nunique() > 1
    found = []
    for _, part in rows.groupby(["place", "ease", "queue", "scenario"], sort=True):
        part = part.sort_values(["rank", "method"], key=lambda s: s.map(order) if s.name == "method" else s)
        first = part.iloc[0]
        scenario = results.scenarios[int(first["scenario"])]
        setting = setting_of(results, scenario, first) | {"queue_named": bool(several[first["protocol"]])}
        judged = known.judgement(first)
        found.append(
            Answer(
                scenario=scenario,
                ranking=part.drop(columns=["ease", "place"]).reset_index(drop=True),
                judged=judged,
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


def overview(results: Results, shift: str = ALL) -> dict[str, Any]:
    """Return the answers of a run as plain data: all that `tempora show` and a notebook say."""
    found = answers(results, shift)
    return plain(  # type: ignore[no-any-return]
        {
            "about": about_run(results, [] if shift == ALL else [shift]),
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


def setting_of(
    results: Results, scenario: Scenario, row: Mapping[str, Any] | pd.Series[Any]
) -> dict[str, Any]:
    """Return a deployment in the user's units; `row` is any of its cells."""
    size, baseline_ms = int(results.manifest["batch_size"]), float(row["baseline_ms"])
    card, deployment = scenario.full_card(), scenario.deployment().in_batches_of(size)
    schedule = deployment.schedule
    interval_ms = None if schedule is None else schedule.mean_interval(baseline_ms)
    batches = float(row["batches"]) / max(1.0, float(row.get("shifts") or 1) * float(row.get("seeds") or 1))
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
        "machine_images_per_s": 1000.0 * size / baseline_ms if baseline_ms else None,
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


# -- one question --------------------------------------------------------------------------------------------


def recommend(results: Results, question: Question) -> Answer:
    """Return the best method of a run for a question, of those that keep its limits.

    Only exact answers count: cells that were evaluated, and replays that cannot go differently. Percentiles have the
    device's own variation in them. Without a pace, limits on responses are answered by the highest rate of each
    method.
    """
    scenario = question.deployment(results)
    about = about_run(results, question.shifts)
    if scenario is None:
        return _by_rate(highest_rates(results, question), results, question, about)
    baseline_ms = float(results.manifest["baseline"]["baseline_ms"])
    if scenario.not_applicable(baseline_ms) is not None:
        limits = {"baseline_ms": baseline_ms, "threshold_ms": scenario.deployment().threshold(baseline_ms)}
        nothing = pd.DataFrame(columns=["method"])
        return Answer(scenario, nothing, setting=limits, question=question.given, fits=NO, about=about)
    if question.limits_ms:
        scenario = with_variation(results, scenario)
    found = answer(results, scenario, question.shifts or None)
    cards = replace(
        results.cards, scenarios={scenario.protocol: scenario.full_card(), **results.cards.scenarios}
    )
    setting = setting_of(results, scenario, _any_row(results, found))
    left_out = {**found.unanswered, **found.failed}
    for name in results.ceilings["method"].unique():
        left_out[str(name)] = "settings chosen by labels, which no deployment has"
    empty = Answer(
        scenario,
        pd.DataFrame(columns=["method"]),
        setting=setting,
        question=question.given,
        fits=UNKNOWN,
        left_out=left_out,
        about=about,
        cards=cards,
        follow_up=follow_up(results, scenario, found.failed),
    )
    if found.rows.empty:
        return empty
    chosen = within_limits(found, question)
    setting |= _in_time(setting, found)
    kept = chosen.answers
    left_out |= chosen.missed
    if kept.rows.empty:
        return replace(empty, fits=NO, setting=setting, left_out=left_out, follow_up="")
    ranking = _ranking(kept, setting, cards)
    for percent in question.limits_ms:
        known = {method: values[percent] for method, values in chosen.percentiles_ms.items()}
        ranking[f"response_p{percent}_ms"] = ranking["method"].map(known)
    replicates = _replicates(results, kept, scenario, list(ranking["method"]))
    judged = judge(replicates)
    lo, hi = replicates.sample_interval
    ranking = ranking.assign(
        sample_lo=lo, sample_hi=hi, p_best=[judged.p_best[name] for name in ranking["method"]]
    )
    fits = _fits(setting)
    better = _may_be_better(results, question, scenario, setting, ranking, found.unanswered, cards)
    better = better if fits == YES else ()
    return replace(
        empty,
        ranking=ranking,
        judged=judged,
        setting=setting,
        fits=fits,
        left_out=left_out,
        may_be_better=better,
        interval=replicates.interval_of(str(ranking["method"].iloc[0])),
        lead=_lead(replicates),
        notes=tuple(_notes(results, kept, question, cards)),
        follow_up=empty.follow_up if better else "",
        evaluated=evaluated(results, str(ranking["method"].iloc[0])),
    )


def _any_row(results: Results, found: Answers) -> pd.Series[Any]:
    if len(found.rows):
        return found.rows.iloc[0]
    row: pd.Series[Any] = results.contenders.dropna(subset="batches").iloc[0].copy()
    row["value"] = None
    return row


def _fits(setting: Mapping[str, Any]) -> str:
    images, limit = setting["images_per_s"], setting["machine_images_per_s"]
    if images and limit and images > limit * (1 + 1e-6):
        return NO
    in_time = setting.get("frames_in_time")
    return UNKNOWN if in_time is not None and in_time < setting["batch_size"] else YES


def _in_time(setting: Mapping[str, Any], found: Answers) -> dict[str, Any]:
    """Count the frames of a batch that can be in time at all, when nothing is adapted and nothing waits."""
    if not setting["fps"] or setting["deadline_ms"] is None:
        return {}
    plain_ms = [times[0] for key, times in found.mean_ms.items() if key[0] == STANDARD]
    predict_ms = float(np.nanmean(plain_ms)) if plain_ms else setting["baseline_ms"]
    gap_ms = 1000.0 / (setting["fps"] * setting["cameras"])
    spare_ms = setting["deadline_ms"] - predict_ms
    frames = 0 if spare_ms < 0 else math.floor(spare_ms / gap_ms + 1e-9) + 1
    fast = predict_ms <= min(setting["deadline_ms"], gap_ms)
    return {
        "predict_ms": predict_ms,
        "frames_in_time": min(frames, setting["batch_size"]),
        "one_by_one": fast,
    }


def _ranking(found: Answers, setting: Mapping[str, Any], cards: Cards) -> pd.DataFrame:
    table = cells_of_rows(found.rows, cards)
    table = table[table["shift"] == ALL].sort_values("rank", kind="stable", ignore_index=True)
    how = found.rows.groupby("method")["answer"].agg(
        lambda own: "replayed" if "replayed" in set(own) else "evaluated"
    )
    table["answer"] = table["method"].map(how)
    best = table.iloc[0]
    if best["reference"]:
        needed = pd.Series(best["utility"], index=table.index).where(table["method"] != best["method"])
    else:
        against = break_even(table, str(best["method"]), cards).set_index("method")["break_even_accuracy"]
        needed = table["method"].map(against)
    table = table.assign(break_even_accuracy=needed, insolvent=needed > 1)
    for name, own in _times(found, setting).items():
        table[name] = table["method"].map(own)
    return table


def _times(found: Answers, setting: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return what each method's responses and times say: share in time, wait of the first image, how busy it is."""
    known: dict[str, dict[str, float]] = {"in_time": {}, "first_wait_ms": {}, "busy": {}}
    frames = setting["batch_size"] if setting["fps"] else 1
    for method in found.rows["method"].unique():
        responses = np.concatenate([times for key, times in found.response_ms.items() if key[0] == method])
        if setting["deadline_ms"] is not None:
            known["in_time"][method] = float((responses <= setting["deadline_ms"]).mean())
        first = responses.reshape(-1, frames)[:, 0]
        answered = first[np.isfinite(first)]
        known["first_wait_ms"][method] = float(answered.mean()) if answered.size else math.nan
        if setting["interval_ms"]:
            service = np.nanmean([times[1] for key, times in found.mean_ms.items() if key[0] == method])
            known["busy"][method] = min(1.0, float(service) / setting["interval_ms"])
    return {name: own for name, own in known.items() if own}


def _replicates(results: Results, found: Answers, scenario: Scenario, methods: Sequence[str]) -> Replicates:
    """Return the replicates of all streams together, `methods` in this order."""
    times, parts = times_of(results), []
    for _, stream in found.rows.groupby(STREAM_COLUMNS, sort=False):
        rescorer = Rescorer(results, times, scenario)
        rows = {str(row["method"]): row for _, row in stream.iterrows()}
        shift, seed = str(stream["shift"].iloc[0]), int(stream["seed"].iloc[0])
        worths = {one: np.asarray(found.worth[one, shift, seed], dtype=np.float64) for one in methods}
        drawn = [rescorer.drawn(rows[one], worths[one]) for one in methods]
        scored = [
            Scored(one, worths[one], found.phase[one, shift, seed], timed)
            for one, timed in zip(methods, rescored(drawn), strict=True)
        ]
        parts.append(together(scored, f"{stream['model'].iloc[0]} {shift} {seed}"))
    return pooled(parts)


def _lead(replicates: Replicates) -> tuple[float, float, float] | None:
    if len(replicates.methods) < 2:
        return None
    ahead = leads(replicates, 0)
    return float(ahead.lead[0]), float(ahead.lo[0]), float(ahead.hi[0])


def _may_be_better(
    results: Results,
    question: Question,
    scenario: Scenario,
    setting: Mapping[str, Any],
    ranking: pd.DataFrame,
    unanswered: Mapping[str, str],
    cards: Cards,
) -> tuple[dict[str, Any], ...]:
    """Name the methods without an exact answer whose nearest evaluated settings do not keep them below the best."""
    best, found = float(ranking["utility"].iloc[0]), []
    near = nearby(results, question, scenario, setting)
    for method in unanswered:
        own = near[near["method"] == method]
        told: dict[str, Any] = {"method": method, "label": cards.label(method), "lo": None, "hi": None}
        if len(own):
            told |= {"lo": float(own["utility"].min()), "hi": float(own["utility"].max())}
        if not len(own) or told["hi"] > best:
            found.append(told)
    return tuple(sorted(found, key=lambda one: -(one["hi"] or 0.0)))


def nearby(
    results: Results, question: Question, scenario: Scenario, setting: Mapping[str, Any]
) -> pd.DataFrame:
    """Return the cells at the nearest evaluated settings below and above, which are no answer but may not contradict
    one. A deployment of several knobs is compared at its pace, without its other limits."""
    rows = results.contenders
    rows = rows[rows["shift"].isin(question.shifts)] if question.shifts else rows
    table = over_all(cells_of_rows(rows, results.cards))
    deployment = scenario.deployment()
    if scenario.parameter:
        alike, value = table["protocol"] == scenario.protocol, setting["value"]
    else:
        alike, value = table["parameter"] == "interval_ms", setting["interval_ms"]
    if not deployment.waits:
        alike &= table["queue"] == deployment.queue
    if deployment.has_budget:
        alike &= table["rule"] == deployment.rule
    if value is None:
        return table.head(0)
    table = table[alike & table["value"].notna()]
    below, above = table.loc[table["value"] <= value, "value"], table.loc[table["value"] >= value, "value"]
    return table[table["value"].isin([below.max(), above.min()])]


def _notes(results: Results, found: Answers, question: Question, cards: Cards) -> list[str]:
    said = []
    if question.limits_ms and (tail := tail_note(results, max(question.limits_ms), found.varying)):
        said.append(f"Percentiles: {tail}.")
    rows = found.rows
    lasting = [
        found.sustained[one, shift, int(seed)]
        for one, shift, seed in zip(rows["method"], rows["shift"], rows["seed"], strict=True)
    ]
    means = rows.assign(lasting=lasting).groupby("method", sort=False)[["availability", "lasting"]].mean()
    means = means[means["availability"] - means["lasting"] > MISSED_BY_A_SHORT_STREAM]
    if len(means):
        shares = {cards.label(str(name)): float(share) for name, share in means["lasting"].items()}
        said.append(words.short_stream(shares))
    if not results.manifest.get("finished", True):
        said.append("The run is not finished: shifts are missing.")
    return said


# -- rates and commands --------------------------------------------------------------------------------------


def _by_rate(peaks: Peaks, results: Results, question: Question, about: Mapping[str, Any]) -> Answer:
    """Return the highest rate of each method as an answer."""
    table = peaks.table
    known = table[table["rate_hz"].notna()].rename(columns={"rate_hz": "batches_per_s"})
    known = known.rename(columns={"samples_per_s": "images_per_s", "share": "in_time", "utilisation": "busy"})
    unknown = table[table["rate_hz"].isna()]
    setting = {
        "percent": peaks.percent,
        "bound_ms": peaks.bound_ms,
        "queue": peaks.queue,
        "arrivals": peaks.arrivals,
        "batch_size": about["batch_size"],
        "machine_images_per_s": about["images_per_s"],
    }
    fits = YES if len(known) and known["batches_per_s"].max() > 0 else NO
    return Answer(
        None,
        known.reset_index(drop=True),
        setting=plain(setting),
        question=question.given,
        fits=fits,
        left_out=dict(zip(unknown["method"], unknown["why"], strict=True)),
        notes=(f"Percentiles: {peaks.tail}.",) if peaks.tail else (),
        about=about,
        cards=results.cards,
    )


def follow_up(results: Results, scenario: Scenario, failed: Mapping[str, str] = {}) -> str:
    """Return the one command that measures a scenario: the run's own configuration with one more scenario."""
    spec = to_spec(scenario)
    if results.manifest.get("config") is None:
        knobs = ", ".join(f"{name}={value!r}" for name, value in spec.items() if name != "protocol")
        return f"tempora.evaluate(..., scenarios=[..., {type(scenario).__name__}({knobs})])"
    folder = results.opened_from.with_suffix("") if results.is_packed else results.opened_from
    command = ["tempora", "run", str(folder), "--scenario", _flow(spec)]
    if failed:
        methods = [name for name in results.manifest["methods"] if name not in failed]
        command += ["--methods", ",".join(methods)]
    said = shlex.join(command)
    if results.is_packed:
        said = f"{shlex.join(['python', '-m', 'zipfile', '-e', str(results.opened_from), str(folder)])} && {said}"
    return said


def _flow(spec: Any) -> str:
    """Write plain data as YAML on one line.

    >>> _flow({"protocol": "discrete", "interval_ms": 10.0})
    '{protocol: discrete, interval_ms: 10.0}'
    """
    if isinstance(spec, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(value)}" for name, value in spec.items()) + "}"
    if isinstance(spec, (list, tuple)):
        return "[" + ", ".join(map(_flow, spec)) + "]"
    return str(spec).lower() if isinstance(spec, bool) else str(spec)
