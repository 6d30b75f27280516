"""The answer to one question: exact, or with the command that would tell."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta import words
from tempora_tta.analysis.answer import NO, UNKNOWN, YES, Answer, about_run, plain, setting_of
from tempora_tta.analysis.cells import ALL, cells, over_all
from tempora_tta.analysis.doubt import Replicates, judge, leads, pooled, times_of
from tempora_tta.analysis.doubt.rescoring import Rescorer, Scored
from tempora_tta.analysis.doubt.run import together
from tempora_tta.analysis.limits import WithinLimits, within_limits
from tempora_tta.analysis.paper import break_even
from tempora_tta.analysis.peak import Peaks, highest_rates
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.replays import MISSED_BY_A_SHORT_STREAM, Answers, answer
from tempora_tta.analysis.tails import tail_note, with_variation
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios import Scenario, to_spec
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
        return _by_rate(highest_rates(results, question), results, question)
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
        return empty
    chosen = within_limits(found, question)
    setting = {**empty.setting, **_in_time(empty.setting, found)}
    empty = replace(empty, setting=setting, left_out={**empty.left_out, **chosen.missed})
    if chosen.answers.rows.empty:
        return replace(empty, fits=NO, follow_up="")
    return _ranked(results, question, chosen, empty)


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
        follow_up=follow_up(results, scenario, found.failed),
    )


def _ranked(results: Results, question: Question, chosen: WithinLimits, empty: Answer) -> Answer:
    """Rank the methods that keep the limits, and judge the lead of the first."""
    assert empty.scenario is not None
    kept, fits = chosen.answers, _fits(empty.setting)
    ranking = _ranking(kept, empty.setting, empty.cards)
    for percent in question.limits_ms:
        known = {method: values[percent] for method, values in chosen.percentiles_ms.items()}
        ranking[f"response_p{percent}_ms"] = ranking["method"].map(known)
    replicates = _replicates(results, kept, empty.scenario, list(ranking["method"]))
    judged = judge(replicates)
    lo, hi = replicates.sample_interval
    p_best = [judged.p_best[name] for name in ranking["method"]]
    ranked = replace(empty, ranking=ranking.assign(sample_lo=lo, sample_hi=hi, p_best=p_best))
    better = _may_be_better(results, question, ranked, kept.unanswered) if fits == YES else ()
    return replace(
        ranked,
        judged=judged,
        fits=fits,
        may_be_better=better,
        interval=replicates.interval_of(judged.method),
        lead=_lead(replicates),
        notes=tuple(_notes(results, kept, question, empty.cards)),
        follow_up=empty.follow_up if better else "",
        evaluated=evaluated(results, str(ranked.method)),
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
    table = cells(found.rows, cards)
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
        scored = []
        for one in methods:
            worth = np.asarray(found.worth[one, shift, seed], dtype=np.float64)
            timed = rescorer.under_drawn_times(rows[one], len(worth))
            scored.append(Scored(one, worth, found.phase[one, shift, seed], timed))
        parts.append(together(scored, f"{stream['model'].iloc[0]} {shift} {seed}"))
    return pooled(parts)


def _lead(replicates: Replicates) -> tuple[float, float, float] | None:
    if len(replicates.methods) < 2:
        return None
    ahead = leads(replicates, 0)
    return float(ahead.lead[0]), float(ahead.lo[0]), float(ahead.hi[0])


def _may_be_better(
    results: Results, question: Question, ranked: Answer, unanswered: Mapping[str, str]
) -> tuple[dict[str, Any], ...]:
    """Name the methods without an exact answer whose nearest evaluated settings do not keep them below the best."""
    best, found = float(ranked.ranking["utility"].iloc[0]), []
    near = nearby(results, question, ranked)
    for method in unanswered:
        own = near.loc[near["method"] == method, "utility"]
        lo, hi = (float(own.min()), float(own.max())) if len(own) else (None, None)
        if hi is None or hi > best:
            found.append({"method": method, "label": ranked.cards.label(method), "lo": lo, "hi": hi})
    return tuple(sorted(found, key=lambda one: -(one["hi"] or 0.0)))


def nearby(results: Results, question: Question, asked: Answer) -> pd.DataFrame:
    """Return the cells at the nearest evaluated settings below and above: no answer, but none may contradict them.

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


def _by_rate(peaks: Peaks, results: Results, question: Question) -> Answer:
    """Return the highest rate of each method as an answer."""
    table, about = peaks.table, about_run(results, question.shifts)
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


def follow_up(results: Results, scenario: Scenario, failed: Mapping[str, str]) -> str:
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
