"""Every sentence about results. Plain data in, text out: nothing is computed here but the form of a number.

The data are those of `Answer.to_json()` and `analysis.overview()`, so that all of it is there as JSON, too.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tempora_tta._numbers import percent, points
from tempora_tta.errors import counted
from tempora_tta.published.methods import STANDARD

WIDTH = 80
"""Columns of a screen."""
UTILITY = "Utility: % of all images answered right; late ones count less, lost ones not."
EQUAL, UNDECIDED = "equal", "undecided"
MARKS = {EQUAL: "level", UNDECIDED: "undecided"}
"""Word behind the next method, by the verdict on the lead of the best; a sure lead has none."""
ASK_NEXT = ("--fps", "30", "--cameras", "20", "--within-ms", "200")
"""The question to `tempora recommend` that a screen ends with."""
_MOST_NAMES = 3

Told = Mapping[str, Any]


# -- names and numbers ---------------------------------------------------------------------------------------


def shift_title(shift: str) -> str:
    """Write a shift as people do.

    >>> shift_title("gaussian_noise"), shift_title("jpeg_compression"), shift_title("all")
    ('Gaussian noise', 'JPEG compression', 'All shifts')
    """
    if shift == "all":
        return "All shifts"
    words = shift.replace("_", " ")
    return "JPEG" + words[4:] if words.startswith("jpeg") else words[:1].upper() + words[1:]


def shifts_named(shifts: Sequence[str]) -> str:
    """Name a few shifts, count many.

    >>> shifts_named(["gaussian_noise", "contrast"]), shifts_named(["fog", "snow", "frost", "contrast"])
    ('Gaussian noise and contrast', '4 shifts')
    """
    if len(shifts) > _MOST_NAMES:
        return counted(len(shifts), "shift")
    titles = [shift_title(name) for name in shifts]
    return joined(
        [*titles[:1], *(title if title.isupper() else _lower(title) for title in titles[1:])], "and"
    )


def _lower(title: str) -> str:
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def joined(names: Sequence[str], last: str, most: int = _MOST_NAMES) -> str:
    """Put names in a row; of many the first three.

    >>> joined(["AdaBN", "Tent"], "or"), joined(list("abcde"), "and")
    ('AdaBN or Tent', 'a, b, c and 2 others')
    """
    shown = list(names)
    if len(shown) > most:
        shown = [*shown[:most], counted(len(shown) - most, "other")]
    return f" {last} ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def rate(images_per_s: float) -> str:
    """Write a rate with two digits that mean something.

    >>> rate(8888.9), rate(600.0), rate(37.6), rate(2.25)
    ('8,900/s', '600/s', '38/s', '2.2/s')
    """
    return f"{_two_digits(images_per_s)}/s"


def _two_digits(value: float) -> str:
    if value < 10:
        return f"{value:.1f}".removesuffix(".0")
    step = 10 ** max(0, len(f"{value:.0f}") - 2)
    return f"{round(value / step) * step:,}"


def milliseconds(value: float) -> str:
    """
    >>> milliseconds(8.98), milliseconds(107.2), milliseconds(2133.3), milliseconds(0.4)
    ('9 ms', '107 ms', '2.1 s', '0.4 ms')
    """
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 8.95 else f"{value:.1f} ms".replace(".0 ", " ")


def value(share: float | None) -> str:
    """Write a share as a number of per cent, without the sign."""
    return "–" if share is None else percent(share).removesuffix(" %")


# -- settings ------------------------------------------------------------------------------------------------

_PRESSES = {
    "interval_ms": "images arrive at",
    "threshold_ms": "value halves after",
    "budget_ms": "computing time",
}
"""Parameter -> what presses."""


def _amount(told: Told) -> str:
    if told["parameter"] == "interval_ms":
        return rate(told["images_per_s"])
    if told["parameter"] == "threshold_ms":
        return milliseconds(told["threshold_ms"])
    return percent(told["budget_share"], 0, signed=True)


def setting(told: Told) -> tuple[str, str]:
    """Say a deployment in the user's units: what presses, and how much.

    >>> setting({"reference": False, "parameter": "interval_ms", "images_per_s": 8890.0, "queue_named": False})
    ('images arrive at', '8,900/s')
    """
    if told["reference"]:
        return "unlimited time", ""
    if told["parameter"] in _PRESSES:
        queue = f", {told['queue'] or 'none'} may wait" if told.get("queue_named") else ""
        return _PRESSES[told["parameter"]], _amount(told) + queue
    if told["parameter"] and told["value"] is not None:
        return _lower(told["knob"]), f"{told['value']:g} {told['unit']}".strip()
    parts = [told["images_per_s"] and rate(told["images_per_s"])]
    parts += [told["deadline_ms"] and f"within {milliseconds(told['deadline_ms'])}"]
    parts += [told["threshold_ms"] and f"half after {milliseconds(told['threshold_ms'])}"]
    parts += [told["budget_s"] is not None and percent(told["budget_share"], 0, signed=True)]
    return _lower(told["title"]), ", ".join(filter(None, parts)) or told["label"]


def where(told: Told) -> str:
    """Say a deployment inside a sentence: `images arrive at 8,900/s`."""
    heading, amount = setting(told)
    if told["reference"]:
        return "time is unlimited"
    if told["parameter"] == "budget_ms":
        return f"adapting may add {amount.lstrip('+')} of computing time"
    return f"{heading} {amount}" if told["parameter"] in _PRESSES else f"{heading} is {amount}"


# -- one winner ----------------------------------------------------------------------------------------------


def lead(verdict: str, why: str, equal_with: Sequence[str], rivals: Sequence[str]) -> str:
    """Say how sure the first place is; empty where it is sure.

    >>> lead("undecided", "sampling", [], ["ETA", "SAR"]), lead("equal", "", ["ETA"], []), lead("holds", "", [], [])
    ('Undecided (by sampling): ETA or SAR may be better.', 'Level with ETA, within half a point.', '')
    """
    if verdict == EQUAL:
        return f"Level with {joined(equal_with, 'and')}, within half a point."
    if verdict == UNDECIDED:
        return f"Undecided (by {why}): {joined(rivals, 'or')} may be better."
    return ""


def sureness(told: Told) -> str:
    """Say how many winners of a run are sure.

    >>> counts = {"cells": 20, "holds": 16, "equal": 1, "by_sampling": 3, "by_timing": 0, "expected_wrong": 0.94}
    >>> sureness(counts)
    '16 of 20 winners are sure (95 %), 1 is level with others, 3 are undecided (by sampling); expect 0.9 to be wrong.'
    >>> sureness(counts | {"holds": 20, "equal": 0, "by_sampling": 0})
    'All 20 winners are sure (95 %).'
    """
    if not told["cells"]:
        return "There is no winner yet."
    if told["holds"] == told["cells"]:
        return (
            "The winner is sure (95 %)."
            if told["cells"] == 1
            else f"All {told['cells']} winners are sure (95 %)."
        )
    parts = [f"{told['holds']} of {counted(told['cells'], 'winner')} {_are(told['holds'])} sure (95 %)"]
    if told["equal"]:
        parts.append(f"{told['equal']} {_are(told['equal'])} level with others")
    by = [(told[f"by_{cause}"], cause) for cause in ("sampling", "timing") if told[f"by_{cause}"]]
    if not by:
        return f"{', '.join(parts)}."
    undecided = sum(count for count, _ in by)
    causes = [f"{count} by {cause}" if len(by) > 1 else f"by {cause}" for count, cause in by]
    parts.append(f"{undecided} {_are(undecided)} undecided ({', '.join(causes)})")
    return f"{', '.join(parts)}; expect {told['expected_wrong']:.1f} to be wrong."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


# -- the list of a run ---------------------------------------------------------------------------------------


def head(about: Told) -> list[str]:
    """Say what was run, on what, in two lines."""
    shifts, orders = about["shifts"], about["orders"]
    mean = "" if len(shifts) == 1 else " (mean of both)" if len(shifts) == 2 else " (mean)"
    data = f"{about['model']} on {about['dataset']}, {shifts_named(shifts)}{mean}"
    more = f" in {counted(orders, 'order')}" if orders > 1 else ""
    batches = f"{counted(about['batches'], 'batch')} of {about['batch_size']}{more}"
    sizes = f"{counted(about['methods'], 'method')}, {batches}"
    speed = f": {_images(about)} not adapting" if about["images_per_s"] else ""
    unfinished = [] if about["finished"] else ["NOT FINISHED: the same command goes on."]
    return [data, f"{sizes}; {about['machine']}{speed}", *unfinished]


def _images(about: Told) -> str:
    return f"{_two_digits(about['images_per_s'])} images/s"


def listing(answers: Sequence[Told]) -> list[str]:
    """Write the list: for each setting the best and the next method, and how sure the lead is."""
    if not answers:
        return ["No cell of this run has a result yet."]
    known = [setting(one["setting"]) for one in answers]
    left = max(len(f"{heading} {amount}".rstrip()) for heading, amount in known)
    label = max((len(row["label"]) for one in answers for row in one["ranking"][:2]), default=4)
    lines, above = [f"{'':{left + 3}}{'best':{label + 13}}next"], None
    for (heading, amount), one in zip(known, answers, strict=True):
        shown = "" if heading == above else heading
        place = f"{shown} {amount:>{left - len(shown) - 1}}" if amount else f"{heading:{left}}"
        above = heading
        best, *others = one["ranking"]
        cells = f"{best['label']:{label}} {value(best['utility']):>4} {_reach(best):4}"
        after = ""
        if others:
            mark = MARKS.get(one["verdict"], "")
            after = f"  {others[0]['label']:{label}} {value(others[0]['utility']):>4}  {mark}"
        lines.append(f"{place}   {cells} {after}".rstrip())
    return lines


def _reach(row: Told) -> str:
    lo, hi = row.get("utility_lo"), row.get("utility_hi")
    return "" if lo is None or hi is None else f"±{value((hi - lo) / 2)}"


def legend(answers: Sequence[Told]) -> list[str]:
    """Say what the numbers of the list are, and what not adapting gets."""
    without = [row["utility"] for one in answers for row in one["ranking"] if row["method"] == STANDARD]
    said = "± by other samples (95 %); leads are sure unless marked."
    if without:
        lowest, highest = value(min(without)), value(max(without))
        said += f" Not adapting: {lowest if lowest == highest else f'{lowest} to {highest}'}."
    return [UTILITY, said]


def summary(told: Told) -> list[str]:
    """Fold the list into sentences: the safest method, and what becomes of the one that is best without pressure."""
    pressed = [one for one in told["answers"] if not one["setting"]["reference"] and one["ranking"]]
    if not pressed:
        free = [one for one in told["answers"] if one["ranking"]]
        if not free:
            return []
        best = free[0]["ranking"][0]
        return [
            f"{best['label']} is most accurate, {percent(best['utility'])}. What its time costs a deployment was not "
            "evaluated: run it with a grid."
        ]
    said, name = [], told["safest"]
    own = [place for one in pressed if (place := _place(one, name))]
    label = next(row["label"] for one in pressed for row in one["ranking"] if row["method"] == name)
    if set(own) == {"first"} and len(own) == len(pressed):
        said.append(f"{label} is best in {_all(len(pressed), 'setting')} under pressure.")
    else:
        kinds = [kind for kind in ("first", "level", "undecided") if kind in own]
        of = (
            f"{len(own)} of {len(pressed)} settings" if len(own) < len(pressed) else _all(len(own), "setting")
        )
        said.append(f"{label} is {joined(kinds, 'or')} in {of} under pressure.")
    return [*said, *_favourite(told["answers"], pressed, name)]


def _place(one: Told, method: str) -> str:
    """Say whether a method is first, level with the first or undecided against it; empty where it is behind."""
    if one["method"] == method:
        return "undecided" if one["verdict"] == UNDECIDED else "first"
    return "level" if method in one["equal_with"] else "undecided" if method in one["rivals"] else ""


def _favourite(answers: Sequence[Told], pressed: Sequence[Told], safest: str) -> list[str]:
    """Say what becomes of the method that is best without pressure, in the setting that is worst for it; only what is
    sure."""
    free = [one for one in answers if one["setting"]["reference"] and one["ranking"]]
    if not free:
        return []
    name, label = free[0]["method"], free[0]["ranking"][0]["label"]
    worst: tuple[float, str] | None = None
    for one in pressed:
        rows = {row["method"]: row for row in one["ranking"]}
        own, plain = rows.get(name), rows.get(STANDARD)
        if (
            own is None
            or plain is None
            or name == STANDARD
            or None in (own["utility_hi"], plain["utility_lo"])
        ):
            continue
        gap = own["utility"] - plain["utility"]
        if own["utility_hi"] < plain["utility_lo"] and (worst is None or gap < worst[0]):
            against = f"({value(own['utility'])} against {value(plain['utility'])})"
            worst = gap, f"worse than not adapting {against} when {where(one['setting'])}"
    first = "It is also best" if name == safest else f"{label} is best"
    if worst is not None:
        return [f"{first} with time to spare, but {worst[1]}."]
    lost = [one for one in pressed if not _place(one, name)]
    if name == safest or not lost:
        return []
    behind = [
        (one["ranking"][0]["utility"] - row["utility"], one)
        for one in lost
        for row in one["ranking"]
        if row["method"] == name
    ]
    if not behind:
        return []
    gap, one = max(behind, key=lambda found: found[0])
    best = one["ranking"][0]["label"]
    return [
        f"{label} is best with time to spare, and {points(gap)} behind {best} when {where(one['setting'])}."
    ]


def stretches(told: Told) -> list[str]:
    """Say, for each kind of pressure from strict to relaxed, where one method is enough."""
    lines, above = [], None
    for one in told["stretches"]:
        heading, first = setting(one["settings"][0])
        last = setting(one["settings"][-1])[1]
        reach = first if len(one["settings"]) == 1 else f"{first} to {last}"
        shown = "" if heading == above else f"{heading}:"
        above = heading
        lines.append(f"{shown:20} {one['label']}, {reach}")
    return lines


def timing(about: Told) -> str:
    """Say whether the times are to be trusted."""
    if about["timing"] == "VALID":
        return "Timing valid."
    said = {"WARN": "Timing in doubt", "INVALID": "Timing INVALID"}.get(about["timing"], "Timing not judged")
    return f"{said}: {about['timing_text'].removeprefix(about['timing']).removeprefix(': ').rstrip('.')}."


def first_screen(told: Told, notes: Iterable[str] = (), commands: bool = True) -> list[str]:
    """Write what a run says first; `commands` ends it with what to ask next."""
    about = told["about"]
    lines = [*_wrapped(head(about)), "", *_wrapped(legend(told["answers"])), "", *listing(told["answers"])]
    sentences = " ".join(summary(told))
    lines += ["", *_wrapped([sentences])] if sentences else []
    noted = list(notes)
    lines += ["", *_wrapped(noted)] if noted else []
    if not commands:
        return [*lines, "", *_wrapped([timing(about)])]
    run = shlex.quote(about["run"])
    short = textwrap.shorten(timing(about), WIDTH, placeholder=" ...")
    lines += ["", short, f"All methods and shifts: tempora show {run}"]
    lines.append(f"Ask next: tempora recommend {run} {' '.join(ASK_NEXT)}")
    return [*lines, f"Report: {about['report']}"] if about["report"] else lines


def _wrapped(paragraphs: Iterable[str]) -> list[str]:
    return [
        line for text in paragraphs for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False) or [""]
    ]


# -- one answer ----------------------------------------------------------------------------------------------


def answer(told: Told) -> list[str]:
    """Say which method to use in one deployment, what that rests on, and what would tell more."""
    if "percent" in told["setting"]:
        return _rates(told)
    lines = [_verdict(told), *_waits(told), *_sizes(told), *_better(told), *told["notes"]]
    lines.append(_rests_on(told["about"]))
    if "scenario" in told["question"] and "situation" in told["setting"]:
        lines.insert(1, f"{told['setting']['situation']}: {told['setting']['label']}.")
    if told["follow_up"]:
        lines.append(f"To measure it: {told['follow_up']}")
    return [line for line in lines if line]


def _verdict(told: Told) -> str:
    now, rows = told["setting"], told["ranking"]
    if "images_per_s" not in now:  # patience below the time of standard inference
        return (
            f"Fits not: an answer takes {milliseconds(now['baseline_ms'])} without adapting, and after "
            f"{milliseconds(now['threshold_ms'])} it is to be worth half. A faster machine or a smaller network can."
        )
    images, limit, size = now["images_per_s"], now["machine_images_per_s"], now["batch_size"]
    if told["fits"] == "no" and images and limit and images > limit:
        text = (
            f"Fits not: {_two_digits(images)} images/s is {images / limit:.1f} times what this machine classifies "
            f"without adapting ({rate(limit)}). Adapting cannot help: more machines, a smaller network or fewer "
            "frames can."
        )
        return f"{text} {_use(told, 'Of what it can take, ')}" if rows else text
    reasons = {one["label"]: one["why"] for one in told["left_out"].values()}
    if told["fits"] == "no":
        missed = "; ".join(f"{label}: {why}" for label, why in reasons.items())
        return f"Fits not: no method keeps the limits. {missed}."
    if not rows:
        each = "; ".join(dict.fromkeys(reasons.values()))
        return f"Not known yet: this run has no exact answer for any method ({each})."
    if told["fits"] == "unknown":
        return _too_large(told)
    return f"Fits. {_use(told)} {_load(now, size)}".strip()


def _use(told: Told, start: str = "") -> str:
    now, (best, *others) = told["setting"], told["ranking"]
    right = "right in time" if now["deadline_ms"] is not None else "right" if now["reference"] else "utility"
    plain = _plain(told["ranking"])
    use = f"{start}use {best['label']}" if start else f"Use {best['label']}"
    how_many = f"answering at once, learning from {size}" if (size := now.get("at_once")) else None
    in_batches = how_many or f"in batches of {now['batch_size']}"
    text = f"{use} {in_batches}: {percent(best['utility'])} {right}"
    if best["method"] == STANDARD:
        text += " (no adaptation that has an answer here is worth its time)"
    elif plain is not None:
        text += f", not adapting {percent(plain['utility'])}"
    if not others:
        return f"{text}."
    sure = {EQUAL: "level, within half a point", UNDECIDED: f"undecided, by {told['why_undecided']}"}
    how = sure.get(told["verdict"], "surely less")
    return f"{text}. Next: {others[0]['label']}, {percent(others[0]['utility'])} ({how})."


def _load(now: Told, size: int) -> str:
    images = now["images_per_s"]
    if not images:
        return ""
    text = f"{_two_digits(images)} images/s"
    if now["fps"] and now["cameras"] > 1:
        text = f"{now['cameras']:,} cameras x {now['fps']:g} = {text}"
    limit = now["machine_images_per_s"]
    return (
        f"{text} of the {rate(limit)} that the machine classifies without adapting." if limit else f"{text}."
    )


def _too_large(told: Told) -> str:
    now = told["setting"]
    size, frames = now["batch_size"], now["frames_in_time"]
    limit, takes = milliseconds(now["deadline_ms"]), milliseconds(now["predict_ms"])
    if frames:
        text = (
            f"Not known yet: a batch of {size} takes {milliseconds(now['fill_ms'])} to fill and {takes} to answer, "
            f"so {frames} of {size} images would be in time ({percent(frames / size, 0)}). The largest batch that "
            f"can be in time is {frames}, and this run has no smaller ones."
        )
    else:
        text = (
            f"Not known yet: a batch of {size} takes {takes} to answer without adapting, later than {limit}. Smaller "
            "batches answer sooner, and this run has none."
        )
    plain = _plain(told["ranking"])
    if plain is not None and now["one_by_one"]:
        text += f" Until then: {plain['label']}, image by image, {percent(plain['right'])}."
    smaller = frames or max(1, size // 8)
    out = "" if told["factors"] else " --out NEW"
    return f"{text} Measure it: tempora run {told['about']['run']} --batch-size {smaller}{out}"


def _plain(rows: Sequence[Told]) -> Told | None:
    """Return the row of standard inference."""
    return next((row for row in rows if row["method"] == STANDARD), None)


def _waits(told: Told) -> list[str]:
    now, rows = told["setting"], told["ranking"]
    if not rows or told["fits"] == "unknown":
        return []
    best, said = rows[0], []
    plain = _plain(rows)
    if now["fps"] and best["first_wait_ms"] is not None:
        limit = f" of {now['deadline_ms']:g}" if now["deadline_ms"] is not None else ""
        rest = best["first_wait_ms"] - now["fill_ms"]
        said.append(
            f"A frame waits {best['first_wait_ms']:.0f} ms{limit}."
            if now.get("at_once")
            else f"The first image of a batch waits {best['first_wait_ms']:.0f} ms{limit}: {now['fill_ms']:.0f} to "
            f"fill the batch, {rest:.0f} to answer."
        )
    if best.get("busy") is not None:
        compared = f" (plain {percent(plain['busy'], 0)})" if plain is not None and plain is not best else ""
        said.append(f"The machine is busy {percent(best['busy'], 0)} of the time{compared}.")
    return [" ".join(said)] if said else []


def _sizes(told: Told) -> list[str]:
    """Say what other batch sizes get, and which one promises more than those that were run."""
    each = [
        f"{one['label']} {percent(one['worth'])} in batches of {one['batch_size']}" for one in told["sizes"]
    ]
    said = [f"Other sizes: {', '.join(each)}."] if each else []
    if promised := told["next_size"]:
        size, run = promised["batch_size"], told["about"]["run"]
        said.append(
            f"Batches of {size} promise {percent(promised['utility'])} ({promised['label']}): "
            f"tempora run {run} --batch-size {size}"
        )
    return said


def _better(told: Told) -> list[str]:
    names = [one["label"] for one in told["may_be_better"]]
    if not names or not told["ranking"]:
        return []
    were = "was" if len(names) == 1 else "were"
    return [f"{joined(names, 'and')} {were} not measured here and may be better."]


def _rests_on(about: Told) -> str:
    orders = f", {counted(about['orders'], 'order')} of them" if about["orders"] > 1 else ""
    return (
        f"Measured on {shifts_named(about['shifts'])} ({counted(about['batches'], 'batch')}{orders}), "
        f"{about['machine']}. {timing(about)}"
    )


def why(told: Told) -> list[str]:
    """Say what decided: the terms of best and next, the lead, which methods cannot win, which are left out."""
    said: list[str] = []
    for row in told["ranking"][:2]:
        if row.get("account"):
            said.append(f"{row['label']} {row['account']}.")
    if parts := told["factors"]:
        said.append(
            f"In batches of {told['setting']['batch_size']} it is right in {percent(parts['accuracy'])}, keeps up "
            f"with {percent(parts['keeps_up'])} of the images, and {percent(parts['in_time'])} of those are in time."
        )
    if told["lead"] is not None and len(told["ranking"]) > 1:
        mean, lo, hi = (told["lead"][name] for name in ("mean", "lo", "hi"))
        between = "" if lo is None else f" (95 % interval {100 * lo:.1f} to {100 * hi:.1f})"
        next_ = told["ranking"][1]["label"]
        said.append(
            f"The lead over {next_} is {points(mean)}{between}."
            if mean
            else f"{next_} gets exactly the same."
        )
    hopeless = [row["label"] for row in told["ranking"] if row.get("insolvent")]
    if hopeless:
        best = told["ranking"][0]["label"]
        said.append(f"Even with every prediction right, {joined(hopeless, 'and', 99)} would lose to {best}.")
    reasons: dict[str, list[str]] = {}
    for one in told["left_out"].values():
        reasons.setdefault(one["why"], []).append(one["label"])
    said += [f"Not ranked: {joined(names, 'and', 99)} ({reason})." for reason, names in reasons.items()]
    orders = told["about"].get("orders", 1)
    if orders == 1 and told["ranking"]:
        said.append("The interval covers one order of the data; --seeds runs more.")
    return said


def short_stream(shares: Mapping[str, float]) -> str:
    """Warn of a stream that ends before its queue overflows."""
    each = ", ".join(f"{label} {percent(share, 0)}" for label, share in shares.items())
    return f"The queue hides losses on these short streams. In the long run fewer are answered: {each}."


def _rates(told: Told) -> list[str]:
    now, rows = told["setting"], told["ranking"]
    if told["fits"] == "no":
        first = f"Fits not: at no rate does a method keep this. {'; '.join(_reasons(rows))}".strip()
    else:
        best = rows[0]
        limit = "" if now["bound_ms"] is None else f" within {now['bound_ms']:g} ms"
        first = (
            f"{best['label']} takes most: {_two_digits(best['images_per_s'])} images/s in batches of "
            f"{now['batch_size']}, {now['percent']:g} % of them answered{limit}. The machine classifies "
            f"{rate(now['machine_images_per_s'])} without adapting."
        )
    rest = (
        f"Batches arrive at random (Poisson), {now['queue']} may wait; {now['arrivals']:,} arrivals per rate."
    )
    about_equal = "≈: replayed as if skipping batches changed no times; ask with --rate-hz to measure a rate."
    approximate = [about_equal] if any(row["answer"] == "approximate" for row in rows) else []
    return [first, rest, *approximate, *told["notes"], _rests_on(told["about"])]


def _reasons(rows: Sequence[Told]) -> list[str]:
    return [f"{row['label']}: {row['why']}" for row in rows if row.get("why")]


def comparison(
    numbers: Mapping[str, float], changed: Sequence[tuple[str, Sequence[str], Sequence[str]]], paired: bool
) -> list[str]:
    """Say what differs between two runs; `changed`: where another method wins, and which ones here and there."""
    alike = numbers["rank_correlation"]
    ranks = f", mean rank correlation {alike:.2f}" if alike == alike else ""
    lines = [
        f"{numbers['changed']} of {counted(int(numbers['cells']), 'number')} changed for certain, "
        f"{numbers['undecided']} undecided; mean absolute difference "
        f"{100 * numbers['mean_absolute_difference']:.1f} points{ranks}."
    ]
    if not paired:
        lines.append("The runs saw different batches: differences are not paired, and their intervals wide.")
    if not changed:
        lines.append(f"The same methods win in {_all(int(numbers['scenarios']), 'setting')}.")
    return lines + [
        f"When {place}, {joined(here, 'and')} wins here and {joined(there, 'and')} there."
        for place, here, there in changed
    ]


def _all(number: int, thing: str) -> str:
    """
    >>> _all(1, "setting"), _all(3, "setting")
    ('the setting', 'all 3 settings')
    """
    return f"the {thing}" if number == 1 else f"all {counted(number, thing)}"


# -- the table of an answer ----------------------------------------------------------------------------------


def columns(told: Told) -> list[tuple[str, list[str]]]:
    """Return the columns of an answer's table that matter in its deployment: heading, and a text per method."""
    now, rows = told["setting"], told["ranking"]
    if "percent" in now:
        sign = ["≈" if row["answer"] == "approximate" else "" for row in rows]
        images = [f"{s}{row['images_per_s']:,.0f}" for s, row in zip(sign, rows, strict=True)]
        batches = [f"{s}{row['batches_per_s']:.4g}" for s, row in zip(sign, rows, strict=True)]
        shares = [("in time %", "in_time"), ("busy %", "busy")]
        found = [("images/s", images), ("batches/s", batches)]
        return found + [(title, [value(row[name]) for row in rows]) for title, name in shares]
    late, scheduled = now["deadline_ms"] is not None, not now["waits"]
    shown = [
        ("right in time %" if late else "utility %", "utility", True),
        ("answered %", "answered", scheduled),
        ("in time %", "in_time", late),
        ("value kept %", "value_kept", now["threshold_ms"] is not None),
        ("adapted %", "adapted", now["budget_s"] is not None),
        ("right %", "right", scheduled or late or now["threshold_ms"] is not None),
    ]
    found = [(title, [value(row.get(name)) for row in rows]) for title, name, wanted in shown if wanted]
    times = [("first waits ms" if now["fps"] else "waits ms", "first_wait_ms", scheduled)]
    times += [(f"p{percent_} ms", f"p{percent_}_ms", True) for percent_ in (90, 95, 99)]
    for title, name, wanted in times:
        if wanted and any(row.get(name) is not None for row in rows):
            found.append((title, [_one_decimal(row.get(name)) for row in rows]))
    if scheduled:
        found.append(("busy %", [value(row.get("busy")) for row in rows]))
    for title, name, limit in (
        ("memory MB", "memory_mb", "memory_mb"),
        ("extra J", "overhead_j", "budget_j"),
    ):
        if limit in told["question"]:
            found.append((title, [_one_decimal(row.get(name)) for row in rows]))
    return found


def _one_decimal(number: float | None) -> str:
    return "–" if number is None else f"{number:,.1f}"


# -- the what-if panel ---------------------------------------------------------------------------------------


def nearby(told: Told) -> str:
    """Say what a method gets at the nearest evaluated settings.

    >>> nearby({"settings": ["it is 90/s", "it is 60/s"], "lo": 0.74, "hi": 0.766, "bounded": True})
    'between 74.0 % and 76.6 % when it is 90/s and when it is 60/s'
    >>> nearby({"settings": ["value halves after 15 ms"], "lo": 0.74, "hi": 0.74, "bounded": False})
    '74.0 % when value halves after 15 ms, which is more relaxed'
    """
    several = len(told["settings"]) > 1
    reach = f"between {percent(told['lo'])} and {percent(told['hi'])}" if several else percent(told["hi"])
    relaxed = "" if told["bounded"] else ", which is more relaxed"
    return f"{reach} when {' and when '.join(told['settings'])}{relaxed}"


def at_stop(ranked: Sequence[Told], near: Sequence[Told], asked: int) -> str:
    """Say which method to use at one stop of a slider, and which others may be better there.

    `ranked` have an exact answer, best first; `near` have neighbours only; `asked` methods did not fail.
    """
    if not ranked:
        return "No method has an exact answer here; the reasons are below."
    best = ranked[0]
    better = sorted((one for one in near if one["hi"] > best["utility"]), key=lambda one: -one["hi"])
    sure = [one for one in better if one["bounded"] and one["lo"] > best["utility"]]
    among = f"the {len(ranked)} of {asked} methods with an exact answer" if len(ranked) < asked else ""
    if sure:
        first = max(sure, key=lambda one: one["lo"])
        return (
            f"Probably {first['label']}, {nearby(first)}; it was not measured here. Of {among}, {best['label']} is "
            f"best{_ahead(ranked)}."
        )
    unless = "" if not better else f", unless {better[0]['label']}, {nearby(better[0])}"
    return f"Use {best['label']}{among and f', best of {among}'}{_ahead(ranked)}{unless}."


def _ahead(ranked: Sequence[Told]) -> str:
    best, *rest = ranked
    if best["standard"]:
        return f": {percent(best['utility'])}; no adaptation that has an answer pays here"
    text = f": {percent(best['utility'])}"
    for one in rest:
        if one["standard"]:
            text += f", {points(best['utility'] - one['utility'])} above not adapting"
    equal = [one["label"] for one in rest if round(one["utility"], 12) == round(best["utility"], 12)]
    if equal:
        return f"{text}; level with {joined(equal, 'and')}"
    if rest and not rest[0]["standard"]:
        text += f", {points(best['utility'] - rest[0]['utility'])} ahead of {rest[0]['label']}"
    return text
