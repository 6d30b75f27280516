"""The answer to one question: exact, or with the command that would tell.

A percentile is that of all responses of a method, pooled over shifts and seeds. A lost batch is never answered. Every
stream has the whole budget of joules.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta import words
from tempora_tta.analysis.answer import NO, UNKNOWN, YES, Answer, about_run, setting_of
from tempora_tta.analysis.cells import ALL, cells, over_all
from tempora_tta.analysis.doubt import Replicates, judge, leads, pooled
from tempora_tta.analysis.doubt.run import Rescorer, Scored, together
from tempora_tta.analysis.paper import break_even
from tempora_tta.analysis.peak import highest_rates
from tempora_tta.analysis.question import RESOURCES, Question
from tempora_tta.analysis.replays import (
    MISSED_BY_A_SHORT_STREAM,
    Answers,
    FloatArray,
    answer,
    busy_ms,
    tail_note,
    with_variation,
)
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios import Scenario, percentiles, to_spec
from tempora_tta.scenarios.course import PERCENTILES
from tempora_tta.store import Results, evaluated
from tempora_tta.store.schema import STREAM_COLUMNS


def recommend(results: Results, question: Question) -> Answer:
    """Return the best method of a run for a question, of those that keep its limits.

    Only exact answers count: cells that were evaluated, and replays that cannot go differently. Percentiles have the
    device's own variation in them. Without a pace, limits on responses are answered by the highest rate of each
    method.
    """
    scenario = question.deployment(results)
    if scenario is None:
        return highest_rates(results, question)
    baseline_ms = float(results.manifest["baseline"]["baseline_ms"])
    if scenario.not_applicable(baseline_ms) is not None:
        limits = {"baseline_ms": baseline_ms, "threshold_ms": scenario.deployment().threshold(baseline_ms)}
        about = about_run(results, question.shifts)
        return Answer(scenario, _NOTHING, setting=limits, question=question.given, fits=NO, about=about)
    if question.limits_ms:
        scenario = with_variation(results, scenario)
    found = answer(results, scenario, question.shifts or None)
    empty = _without_ranking(results, question, scenario, found)
    if found.rows.empty:
        too_many = _fits(empty.setting) == NO
        return replace(empty, fits=NO, follow_up="") if too_many else empty
    missed, percentiles_ms = _limits(found, question)
    setting = {**empty.setting, **_in_time(empty.setting, found)}
    empty = replace(empty, setting=setting, left_out={**empty.left_out, **missed})
    rows = found.rows[~found.rows["method"].isin(list(missed))]
    if rows.empty:
        return replace(empty, fits=NO, follow_up="")
    kept = replace(found, rows=rows.reset_index(drop=True))
    ranking = _ranking(kept, setting, empty.cards)
    for percent, values in percentiles_ms.items():
        ranking[f"response_p{percent}_ms"] = ranking["method"].map(values)
    replicates = _replicates(results, kept, scenario, list(ranking["method"]))
    judged, (lo, hi) = judge(replicates), replicates.sample_interval
    p_best = [judged.p_best[name] for name in ranking["method"]]
    ranked = replace(
        empty,
        ranking=ranking.assign(sample_lo=lo, sample_hi=hi, p_best=p_best),
        judged=judged,
        fits=_fits(setting),
        interval=replicates.interval_of(judged.method),
        lead=_lead(replicates),
        notes=tuple(_notes(results, kept, question, empty.cards)),
    )
    better = _may_be_better(results, question, ranked, kept.unanswered) if ranked.fits == YES else ()
    return replace(
        ranked,
        may_be_better=better,
        follow_up=empty.follow_up if better else "",
        evaluated=evaluated(results, str(ranked.method)),
    )


_NOTHING = pd.DataFrame(columns=["method"])


def _without_ranking(results: Results, question: Question, scenario: Scenario, found: Answers) -> Answer:
    """Return what is known before methods are ranked."""
    scenarios = {scenario.protocol: scenario.full_card(), **results.cards.scenarios}
    if len(found.rows):
        row = found.rows.iloc[0]
    else:
        measured = results.contenders.dropna(subset=["batches"])
        if measured.empty:
            raise TemporaError(
                f"no method of this run has a result: {'; '.join(sorted({*found.failed.values()}))}"
            )
        row = measured.iloc[0].copy()
        row["value"] = None
    oracles = dict.fromkeys(results.ceilings["method"], "settings chosen by labels, which no deployment has")
    return Answer(
        scenario,
        _NOTHING,
        setting=setting_of(results, scenario, row),
        question=question.given,
        fits=UNKNOWN,
        left_out={**found.unanswered, **found.failed, **oracles},
        about=about_run(results, question.shifts),
        cards=replace(results.cards, scenarios=scenarios),
        follow_up=_follow_up(results, scenario, found.failed),
    )


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
    plain_ms = [one.mean_ms(one.trace.predict_ms) for one in found.of(STANDARD)]
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


# -- limits --------------------------------------------------------------------------------------------------


def _limits(found: Answers, question: Question) -> tuple[dict[str, str], dict[int, dict[str, float]]]:
    """Return which methods miss a limit, each with the number that says why, and the percentiles of every method.

    Raises TemporaError where the run cannot tell.
    """
    for name, (column, what, _) in RESOURCES.items():
        limit = getattr(question, name)
        if limit is not None and found.rows[column].isna().all():
            raise TemporaError(
                f"{name}={limit!r}: {what} is not known in this run; its times come from a clock without it. "
                "Profile the device where a driver counts it (an NVIDIA GPU): tempora profile --out profile.json, "
                "then tempora run --clock profile.json"
            )
    missed: dict[str, str] = {}
    known: dict[int, dict[str, float]] = {percent: {} for percent in question.limits_ms}
    for method in found.rows["method"].unique():
        responses_ms = _responses_ms(found, method)
        for percent in question.limits_ms:
            known[percent][method] = _percentile(responses_ms, percent)
        rows = found.rows[found.rows["method"] == method]
        slow = (_too_slow(known[p][method], p, limit_ms) for p, limit_ms in question.limits_ms.items())
        reason = (
            next(filter(None, slow), None) or _too_few(responses_ms, question) or _too_much(rows, question)
        )
        if reason is not None:
            missed[method] = reason
    return missed, known


def _responses_ms(found: Answers, method: str) -> FloatArray:
    return np.concatenate([one.response_ms for one in found.of(method)])


def _percentile(responses_ms: FloatArray, percent: int) -> float:
    """Return a percentile of all responses; NaN where some were not timed."""
    needed = PERCENTILES[percent]
    if responses_ms.size < needed:
        raise TemporaError(
            f"p{percent}: not known from {responses_ms.size} responses, it takes {needed}: run more batches, shifts "
            "or seeds, or ask for a lower percentile"
        )
    answered = responses_ms[~np.isposinf(responses_ms)]
    value = percentiles(answered, responses_ms.size)[f"response_p{percent}_ms"]
    return math.nan if value is None else value


def _too_slow(value: float, percent: int, limit_ms: float) -> str | None:
    if math.isnan(value):
        return f"its p{percent} is not known: its frozen batches were not timed"
    if math.isinf(value):
        return f"more than {100 - percent} % of the batches are lost, so there is no p{percent}"
    return f"its p{percent} is {value:.1f} ms, above {limit_ms:g}" if value > limit_ms else None


def _too_few(responses_ms: FloatArray, question: Question) -> str | None:
    answered = float((~np.isposinf(responses_ms)).mean())
    if question.availability is None or answered >= question.availability:
        return None
    return f"its availability is {answered:.4f}, below {question.availability:g}"


def _too_much(rows: pd.DataFrame, question: Question) -> str | None:
    for name, (column, what, unit) in RESOURCES.items():
        limit = getattr(question, name)
        if limit is None:
            continue
        values = rows[column].astype(float)
        if values.isna().any():
            return f"its {what} is not known"
        if values.max() > limit:
            most = rows["shift"].iloc[int(values.to_numpy().argmax())]
            where = f" on {most}" if values.nunique() > 1 else ""
            return f"its {what} is {values.max():.4g} {unit}{where}, above {limit:g}"
    return None


# -- the ranking ---------------------------------------------------------------------------------------------


def _ranking(found: Answers, setting: Mapping[str, Any], cards: Cards) -> pd.DataFrame:
    table = cells(found.rows, cards)
    table = table[table["shift"] == ALL].sort_values("rank", kind="stable", ignore_index=True)
    how = found.rows.groupby("method")["answer"].max()  # "replayed", if any stream was
    table["answer"] = table["method"].map(how)
    best = table.iloc[0]
    if best["reference"]:
        needed = pd.Series(best["utility"], index=table.index).where(table["method"] != best["method"])
    else:
        against = break_even(table, str(best["method"]), cards).set_index("method")["break_even_accuracy"]
        needed = table["method"].map(against)
    times = pd.DataFrame([_times(found, method, setting) for method in table["method"]])
    return table.assign(break_even_accuracy=needed, insolvent=needed > 1, **times)


def _times(found: Answers, method: str, setting: Mapping[str, Any]) -> dict[str, float]:
    """Return what a method's times say: share in time, mean wait of the first image, share of the time it is busy."""
    known, responses_ms = {}, _responses_ms(found, method)
    if setting["deadline_ms"] is not None:
        known["in_time"] = float((responses_ms <= setting["deadline_ms"]).mean())
    first = responses_ms.reshape(-1, setting["batch_size"] if setting["fps"] else 1)[:, 0]
    answered = first[np.isfinite(first)]
    known["first_wait_ms"] = float(answered.mean()) if answered.size else math.nan
    if setting["interval_ms"]:
        service_ms = float(
            np.nanmean([one.mean_ms(busy_ms(one.resolved, one.trace)) for one in found.of(method)])
        )
        known["busy"] = min(1.0, service_ms / setting["interval_ms"])
    return known


def _replicates(results: Results, found: Answers, scenario: Scenario, methods: list[str]) -> Replicates:
    """Return the replicates of all streams together, `methods` in this order."""
    parts = []
    for _, stream in found.rows.groupby(STREAM_COLUMNS, sort=False):
        rescorer = Rescorer(results, scenario)
        rows = {str(row["method"]): row for _, row in stream.iterrows()}
        model, shift, seed = stream[STREAM_COLUMNS].iloc[0]
        scored = []
        for one in methods:
            replay = found.streams[one, shift, int(seed)]
            timed = rescorer.under_drawn_times(rows[one], len(replay.worth))
            scored.append(Scored(one, replay.worth, replay.trace.phase, timed))
        parts.append(together(scored, f"{model} {shift} {seed}"))
    return pooled(parts)


def _lead(replicates: Replicates) -> tuple[float, float, float] | None:
    if len(replicates.methods) < 2:
        return None
    ahead = leads(replicates, 0)
    return float(ahead.lead[0]), float(ahead.lo[0]), float(ahead.hi[0])


# -- what else to know ---------------------------------------------------------------------------------------


def _may_be_better(
    results: Results, question: Question, ranked: Answer, unanswered: Mapping[str, str]
) -> tuple[dict[str, Any], ...]:
    """Name the methods without an exact answer whose nearest evaluated settings do not keep them below the best."""
    best, found = float(ranked.ranking["utility"].iloc[0]), []
    near = _nearby(results, question, ranked)
    for method in unanswered:
        own = near.loc[near["method"] == method, "utility"]
        lo, hi = (float(own.min()), float(own.max())) if len(own) else (None, None)
        if hi is None or hi > best:
            found.append({"method": method, "label": ranked.cards.label(method), "lo": lo, "hi": hi})
    return tuple(sorted(found, key=lambda one: -(one["hi"] or 0.0)))


def _nearby(results: Results, question: Question, asked: Answer) -> pd.DataFrame:
    """Return the cells at the nearest evaluated settings below and above: an indication, not a bound.

    A deployment of several knobs is compared at its pace, without its other limits.
    """
    scenario, setting = asked.scenario, asked.setting
    assert scenario is not None
    rows = results.contenders
    rows = rows[rows["shift"].isin(question.shifts)] if question.shifts else rows
    table = over_all(cells(rows, results.cards))
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
        said.append(tail)
    shares = {}
    for method in found.rows["method"].unique():
        lasting = float(np.mean([one.lasting_share for one in found.of(method)]))
        seen = found.rows.loc[found.rows["method"] == method, "availability"].mean()
        if seen - lasting > MISSED_BY_A_SHORT_STREAM:
            shares[cards.label(method)] = lasting
    if shares:
        said.append(words.short_stream(shares))
    if not results.manifest.get("finished", True):
        said.append("The run is not finished: shifts are missing.")
    return said


def _follow_up(results: Results, scenario: Scenario, failed: Mapping[str, str]) -> str:
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
