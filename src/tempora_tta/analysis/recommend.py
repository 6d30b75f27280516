"""The method to use in one deployment, why, and how sure that is: worked out here, said by `Advice`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tempora_tta._numbers import percent, points
from tempora_tta.analysis.advice import Advice, Difference
from tempora_tta.analysis.cells import ALL, cells
from tempora_tta.analysis.cells import counted as counted_shifts
from tempora_tta.analysis.doubt import Judgement, Replicates, judge, leads, pooled, times_of
from tempora_tta.analysis.doubt.drawn import rescored
from tempora_tta.analysis.doubt.rescoring import Rescorer
from tempora_tta.analysis.doubt.run import Scored, together
from tempora_tta.analysis.neighbours import Neighbours, neighbours
from tempora_tta.analysis.paper import break_even
from tempora_tta.analysis.replays import MISSED_BY_A_SHORT_STREAM, Answers, answer
from tempora_tta.analysis.requirements import Kept, Requirements, check_known, kept
from tempora_tta.analysis.tails import tail_note, with_variation
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError, counted
from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios import Scenario
from tempora_tta.store import Results, evaluated
from tempora_tta.store.schema import STREAM_COLUMNS
from tempora_tta.store.verdicts import verdict_of, worst


class NoExactAnswer(TemporaError):
    """The run can say nothing exact about a deployment: it must be measured."""


def recommend(
    results: Results,
    scenario: Scenario,
    shifts: Sequence[str] | None = None,
    required: Requirements | None = None,
) -> Advice:
    """The best method of a run under `scenario`, on all its shifts or some of them, of those that keep what is
    `required` of responses, availability, energy and memory.

    Only exact answers count: cells that were evaluated, and replays that cannot go differently. Methods
    without one are named in `unanswered`, never estimated, with what their evaluated `neighbours` got.
    Percentiles have the device's own variation in them.
    """
    required = required or Requirements()
    if required.limits_ms:
        scenario = with_variation(results, scenario)
    answers = answer(results, scenario, shifts)
    if answers.rows.empty:
        reasons = "; ".join(sorted({*answers.unanswered.values(), *answers.failed.values()}))
        raise NoExactAnswer(f"{scenario.label}: this run has no exact answer for any method ({reasons})")
    cards = _with_card_of(results.cards, scenario)
    chosen = _chosen(answers, required, cards)
    answers = chosen.answers
    table = _table(answers, cards)
    for percentile in required.limits_ms:
        found = {method: values[percentile] for method, values in chosen.percentiles_ms.items()}
        table[f"response_p{percentile}_ms"] = table["method"].map(found)
    best, second = table.iloc[0], table.iloc[1] if len(table) > 1 else None
    replicates = _replicates(results, answers, scenario, list(table["method"]))
    judged = judge(replicates)
    return Advice(
        scenario=scenario,
        table=table,
        judged=judged,
        margin=None if second is None else _margin(replicates, answers.rows["seed"].nunique()),
        interval=replicates.interval_of(str(best["method"])),
        why=_why(best, second, table, cards),
        certainty=[*_certainty(results.manifest, answers, judged, cards), *_left_out(results)],
        unanswered=answers.unanswered,
        neighbours=_neighbours(results, answers, scenario, shifts),
        failed=answers.failed,
        required=required,
        excluded=chosen.excluded,
        tail=tail_note(results, max(required.limits_ms), answers.varying) if required.limits_ms else "",
        evaluated=evaluated(results, str(best["method"])),
        too_short=_too_short(answers, cards),
        cards=cards,
    )


def _left_out(results: Results) -> list[str]:
    """Who cannot be used, whatever it got."""
    oracles = [results.cards.label(name) for name in results.cards.in_order(results.ceilings["method"])]
    why = "settings chosen by labels, which no deployment has"
    return [f"Left out: {', '.join(oracles)}: {why}."] if oracles else []


def _neighbours(
    results: Results, answers: Answers, scenario: Scenario, shifts: Sequence[str] | None
) -> dict[str, Neighbours]:
    utilities = results.contenders
    cells = counted_shifts(utilities) if shifts is None else utilities[utilities["shift"].isin(shifts)]
    value = answers.rows["value"].astype(float).mean()
    known = None if math.isnan(value) else float(value)
    return neighbours(cells, scenario, known, answers.unanswered, results.cards)


def _chosen(answers: Answers, required: Requirements, cards: Cards) -> Kept:
    """Who keeps what is required; if nobody does, an error says how far each is from it."""
    check_known(answers, required)
    chosen = kept(answers, required)
    if chosen.answers.rows.empty:
        reasons = "; ".join(f"{cards.label(name)}: {why}" for name, why in chosen.excluded.items())
        raise TemporaError(f"no method has {required} here: {reasons}. Allow more, or lower the pace")
    return chosen


def _with_card_of(cards: Cards, scenario: Scenario) -> Cards:
    """The run's cards and that of the scenario that is asked for, which the run need not have."""
    return replace(cards, scenarios={scenario.protocol: scenario.full_card(), **cards.scenarios})


def _table(answers: Answers, cards: Cards) -> pd.DataFrame:
    table = cells(answers.rows, cards)
    table = table[table["shift"] == ALL]
    how = answers.rows.groupby("method")["answer"].agg(
        lambda found: next(how for how in ("replayed", "evaluated") if how in set(found))
    )
    table["answer"] = table["method"].map(how)
    table = table.sort_values("rank", kind="stable", ignore_index=True)
    table["break_even_accuracy"] = _needed_accuracy(table, cards)
    table["insolvent"] = table["break_even_accuracy"] > 1
    return table


def _needed_accuracy(table: pd.DataFrame, cards: Cards) -> pd.Series[float]:
    """With which each would match the best; offline, where nothing else counts, that is the best's own."""
    best = table.iloc[0]
    if best["protocol"] in cards.references:
        return pd.Series(best["utility"], index=table.index).where(table["method"] != best["method"])
    needed = break_even(table, str(best["method"]), cards).set_index("method")
    return table["method"].map(needed["break_even_accuracy"])


def _replicates(results: Results, answers: Answers, scenario: Scenario, methods: Sequence[str]) -> Replicates:
    """The replicates of all streams together, `methods` in this order."""
    times, cells = times_of(results), []
    for _, stream in answers.rows.groupby(STREAM_COLUMNS, sort=False):
        rescorer = Rescorer(results, times, scenario)
        rows = {str(row["method"]): row for _, row in stream.iterrows()}
        shift, seed = str(stream["shift"].iloc[0]), int(stream["seed"].iloc[0])
        worths = {one: np.asarray(answers.worth[one, shift, seed], dtype=np.float64) for one in methods}
        drawn = [rescorer.drawn(rows[one], worths[one]) for one in methods]
        found = [
            Scored(one, worths[one], answers.phase[one, shift, seed], timed)
            for one, timed in zip(methods, rescored(drawn), strict=True)
        ]
        cells.append(together(found, f"{stream['model'].iloc[0]} {shift} {seed}"))
    return pooled(cells)


def _margin(replicates: Replicates, seeds: int) -> Difference:
    """Over the runner-up, which is the second."""
    ahead = leads(replicates, 0)
    lead, lo, hi = (float(bound[0]) for bound in (ahead.lead, ahead.lo, ahead.hi))
    kind = "within-stream" if seeds == 1 else f"across {seeds} seeds"
    return Difference(lead, lo, hi, replicates.batches, kind)


def _why(best: pd.Series[Any], second: pd.Series[Any] | None, table: pd.DataFrame, cards: Cards) -> str:
    card = cards.scenario(best["protocol"])
    sentences = [f"{cards.label(best['method'])} {card.sentence(_as_terms(best))}"]
    if second is not None:
        sentences[0] += f"; {cards.label(second['method'])} {card.sentence(_as_terms(second))}"
        sentences += _decided_by(best, second)
    standard = table[table["method"] == STANDARD]
    if best["method"] == STANDARD:
        sentences.append("No adaptation that has an answer here is worth its time")
    elif not standard.empty:
        gain = points(best["utility"] - standard["utility"].iloc[0], signed=True)
        sentences.append(f"That is {gain} against standard inference")
    return ". ".join(sentences) + "."


def _as_terms(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _decided_by(best: pd.Series[Any], second: pd.Series[Any]) -> list[str]:
    """Whether time or accuracy tips the scales."""
    in_time, other_in_time = (row["availability"] * row["responsiveness"] for row in (best, second))
    if best["accuracy"] < second["accuracy"] and in_time > other_in_time:
        return ["Being in time outweighs being less accurate"]
    if best["accuracy"] > second["accuracy"] and in_time < other_in_time:
        return ["Its accuracy pays for the time it takes"]
    return []


def _certainty(manifest: Mapping[str, Any], answers: Answers, judged: Judgement, cards: Cards) -> list[str]:
    rows = answers.rows
    said = [_timing(manifest, rows), _data(rows)]
    chance = judged.p_best[judged.method]
    if len(judged.p_best) > 1 and not math.isnan(chance):
        of = f" of the {rows['method'].nunique()} with an answer" if answers.unanswered else ""
        said.append(
            f"The probability that {cards.label(judged.method)} is best{of} is {percent(chance, 0)}, over other "
            "batches and times like these."
        )
    if not manifest.get("finished", True):
        said.append("The run is not finished: shifts are missing.")
    return said


def _data(rows: pd.DataFrame) -> str:
    streams = rows[["shift", "seed", "batches"]].drop_duplicates(["shift", "seed"])
    seeds = sorted(int(seed) for seed in rows["seed"].unique())
    shifts = rows["shift"].nunique()
    data = f"{counted(shifts, 'shift')}, {counted(int(streams['batches'].sum()), 'batch')}"
    if len(seeds) > 1:
        return f"Data: {data}, {len(seeds)} orders of them."
    return (
        f"Data: {data}, one order of them (seed {seeds[0]}): the interval is within-stream and says nothing about "
        "other orders; run more seeds for that."
    )


def _too_short(answers: Answers, cards: Cards) -> str:
    """Who is too slow for the pace and was hardly seen losing batches, because the queue held them to the end."""
    rows = answers.rows
    lasting = rows.assign(
        lasting=[
            answers.sustained[one, shift, int(seed)]
            for one, shift, seed in zip(rows["method"], rows["shift"], rows["seed"], strict=True)
        ]
    )
    means = lasting.groupby("method", sort=False)[["availability", "lasting"]].mean()
    means = means[means["availability"] - means["lasting"] > MISSED_BY_A_SHORT_STREAM]
    if means.empty:
        return ""
    shares = ", ".join(
        f"{cards.label(str(method))} {percent(share, 0)}" for method, share in means["lasting"].items()
    )
    batches = counted(int(rows["batches"].max()), "batch")
    return (
        f"The stream is too short to tell: in {batches} the queue holds what comes too fast to be served. In the "
        f"long run these methods serve fewer: {shares}. Run more batches, or allow fewer to wait."
    )


def _timing(manifest: Mapping[str, Any], rows: pd.DataFrame) -> str:
    status = worst(rows["timing"])
    if str(manifest.get("clock", "")).startswith("recorded"):
        source = (manifest.get("config") or {}).get("clock", manifest["clock"])
        return f"Timing: recorded ({source}), so it repeats exactly and is as good as that profile."
    if str(manifest.get("clock", "")).startswith("steady"):
        return f"Timing: this machine's own profile, kept beside the run ({verdict_of(manifest).text})."
    if status == "VALID":
        return "Timing: measured, and the passes behind this are VALID."
    count = int((rows["timing"] == status).sum())
    text = verdict_of(manifest).text
    return f"Timing: {count} of the {len(rows)} cells behind this are {status} (the run: {text})."
