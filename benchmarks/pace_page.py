"""Writes docs/worth-deploying.md from the committed results: `python benchmarks/pace_page.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from common import RESULTS

PAGE = Path(__file__).parent.parent / "docs" / "worth-deploying.md"


def load(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def page() -> str:
    parts = [INTRODUCTION, *judged(load("pace-bundled")), *photographs(load("pace-photographs"))]
    parts += [*ablations(load("pace-ablations")), *latency(), *amortised(load("frozen-stats"))]
    return "\n".join(parts)


def judged(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return [
            "## Judged",
            "",
            "No results are committed yet: `python benchmarks/pace.py run`, then `judge`.",
            "",
        ]
    about = found["about"]
    lines = [
        "## Judged",
        "",
        f"`python benchmarks/pace.py run` and `judge`: both bundled networks, {about['batches']} batches of 64, "
        f"seeds {', '.join(map(str, about['seeds']))}, {', '.join(about['shifts'])}, {about['scenarios']} scenarios, "
        f"methods {', '.join(about['methods'])}.",
        "",
        "| criterion | | what was found |",
        "|---|---|---|",
        *(
            f"| {title} | {'holds' if found[name]['holds'] else '**fails**'} | {found[name]['sentence']} |"
            for name, title in CRITERIA.items()
        ),
        "",
        "Regret by protocol, points: "
        + ", ".join(f"{name} {percent(value)}" for name, value in found["regret"]["by_protocol"].items())
        + ".",
        "",
        ABOUT_JUDGED,
        "",
        "Mean utility in percent over shifts and seeds; the best of a row is bold.",
        "",
    ]
    for network in dict.fromkeys(row["network"] for row in found["table"]):
        rows = [row for row in found["table"] if row["network"] == network]
        names = [name for name in about["methods"] if any(row.get(name) is not None for row in rows)]
        lines += [f"| {network} | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
        for row in rows:
            best = max(row[name] for name in names if row[name] is not None)
            cells = [
                f"**{percent(row[name])}**" if row[name] == best else percent(row[name]) for name in names
            ]
            lines.append(f"| {row['label']} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def photographs(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    about = found["about"]
    return [
        PHOTOGRAPHS,
        f"`python benchmarks/photographs.py run`: {about['images']} images of {about['classes']} classes, in batches "
        "of 64, severity 5, utility in percent.",
        "",
        *by_stream(found["rows"]),
    ]


def ablations(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    about = found["about"]
    return [
        "## Parts left out, and streams that mislead",
        "",
        f"`python benchmarks/pace.py ablations`: {about['network']}, {about['batches']} batches, one seed, utility "
        "in percent. The oracle knows the best of them in each cell.",
        "",
        *by_stream(found["rows"]),
    ]


def by_stream(rows: list[dict[str, Any]]) -> list[str]:
    """Utilities in percent, a row for each stream and scenario."""
    names = [name for name in rows[0] if name not in ("shift", "label")]
    return [
        f"| stream | scenario | {' | '.join(names)} |",
        f"|---|---|{'---:|' * len(names)}",
        *(
            f"| {row['shift']} | {row['label']} | {' | '.join(percent(row[name]) for name in names)} |"
            for row in rows
        ),
        "",
    ]


def latency() -> list[str]:
    lines = ["## What a settled network costs", ""]
    for path in sorted(RESULTS.glob("pace-latency-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        said = ", ".join(
            f"{row['method']} on {row['network']} {row['ratio']:.3f}"
            for row in found["rows"]
            if row["ratio"] != 1
        )
        lines += [
            f"Time of predict() and adapt() over Standard's, in turn in one run ({found['device']}, medians of "
            f"{found['rounds']}; `python benchmarks/pace.py latency`): {said}.",
            "",
        ]
    return lines


def amortised(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    rows = [row for row in found["rows"] if row["protocol"] == "amortised" and row["utility"] is not None]
    names = list(dict.fromkeys(row["method"] for row in rows))
    lines = [
        AMORTISED,
        f"`python benchmarks/frozen_stats.py`: {found['model']}, {', '.join(found['shifts'])}, {found['batches']} "
        f"batches, clock {found['clock']}. Published / averaged, percent; in brackets the batches that adapted.",
        "",
        f"| budget | {' | '.join(names)} |",
        f"|---|{'---:|' * len(names)}",
    ]
    for label in dict.fromkeys(row["label"] for row in rows):
        cells = []
        for name in names:
            pair = {row["statistics"]: row for row in rows if (row["label"], row["method"]) == (label, name)}
            published, averaged = pair["published"], pair["averaged"]
            if published["utility"] == averaged["utility"]:
                cells.append(percent(published["utility"]))
            else:
                cells.append(
                    f"{percent(published['utility'])} / {percent(averaged['utility'])} ({published['cutoff']:.0f})"
                )
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return [*lines, "", AFTER_AMORTISED]


CRITERIA = {
    "floor": "never 0.5 points below Standard, mean over shifts",
    "regret": "regret at most 0.5 points, and better than any other single method",
    "clean": "clean images: never 0.3 points below Standard",
}
INTRODUCTION = """\
# Adaptation worth deploying: settle and pace

`settle` averages the statistics of the first batches and keeps them: from then on it costs what Standard
costs. `pace` settles, and learns where the time that it takes is worth it. Both need no labels, no tuning and
no knowledge of how long the stream is.

    tempora.deploy(model, "pace", interval_ms=33, deadline_ms=50, example=batch)

What `pace` does, in the order of `src/tempora_tta/methods/pace.py`:

- **Score.** The mutual information of predictions and samples, H(mean p) - mean H, as a share of the most that
  it can be: ln of the classes, or of the samples of a batch if they are fewer. It needs no labels and lies near
  the accuracy; 1 - score is the difficulty, and up to 0.2 of it a stream is taken to be known.
- **Settle.** Batches are normalised with their own statistics, which are averaged (without BatchNorm: the mean of
  the features is taken away). Where that and a comparison cost the users less than a tenth of a batch, the first
  batch is settled on at once, and half of it also predicted with the source's statistics: if they score as well,
  the source stays. Where every delay costs, the first batch is predicted plainly and looked at: what is known
  already stays as it is, at Standard's speed; else the second is settled on, and if it scores no better than the
  first did, the source stays. Statistics of one batch make a network of many classes doubt what it gets right, so
  settled scores are first spread as far as the source's are. Each further batch has to be worth what it delays. A
  budget pays for settling first, then for comparing, then for learning.
- **Learn.** A step of information maximisation on the norm layers. It is as long as would mend 6 % of the
  difficulty beyond 0.2 if the score were linear (Polyak's step, never longer than 1 % of the parameters), which
  takes the same setting for CNNs and transformers. It is made if the gain to be expected, over as many batches as
  were seen so far and at least sixteen, is more than its price: what the batches that arrive meanwhile lose by the
  deployment's own rules, from `Moment`. Where arrivals are random, the next are taken to come as the last eight did,
  and before there were any, back to back.
- **Watch.** Looking at predictions takes time, so most batches are not looked at: every fourth, or rarer where it
  delays somebody. While it learns every fourth batch is held back and predicted plainly. If two samples of a held-
  back batch are of one class more often than two of different batches, batches do not show the classes of the
  stream and nothing is learned. When the score of two batches leaves its usual range it goes back to the settled
  state, and from there to the source, to settle anew.

The score is not trusted for more than that. Optimising mutual information raises it on held-back samples too,
also where accuracy falls, so a candidate that learned is not promoted because it scores higher: what limits
the harm is that steps are short, none where the network is certain, and undone when the score falls.

Where it loses, and what is not known:

- Where every delay costs, the first batch of a shift is predicted by the source: 1/N of what settling gains.
- Batches of one class mislead statistics: settled on the first few classes, the others fare worse. That nothing is
  to be learned from them is seen when the classes change from one batch to the next; where many batches in a row
  show the same few classes (Dirichlet 0.1) it is seen too late, and learning does harm.
- Offline, with all the time there is, methods that train all features may gain more on hard shifts: it trains
  norm layers only.
- Where every delay costs, settled and plain scores are those of different batches: where they are near each other,
  chance decides whether it settles.
- In bursts that are more than the pipeline can serve, the little that it costs may lose a batch.
"""
ABOUT_JUDGED = """\
Times are those of one core of a CPU that nothing else used (`run --profile-s 180`). Predictions of Standard and Pace
were computed on a CPU under that clock (`run --methods standard,pace --jobs 2 --clock DIR`), those of the other
methods before, on an H200 (`run --device cuda --jobs 10 --clock DIR`; on fashion_vit, brightness, under the presets
on a CPU). `judge --out` takes several folders, of which the last counts.

The criterion for clean images is held against every scenario of both networks. It fails under a deadline of 1.5 λ at
full load, and in bursts. Pace does there what Standard does, and looks at a fourth of its
predictions (0.4 ms of 16); the profile's two times of that same prediction differ by 0.4 and 0.8 %, which is about
its error. At full load so little decides how many answers are late: Standard itself lies between 57 and 93 % there,
by the order of the stream.
"""
PHOTOGRAPHS = """\
## A network of 1000 classes

Most constants were chosen on the bundled networks, of ten classes. This is EfficientNet-Lite0 with its weights of
ImageNet and 224 pixels. It showed that the comparison of source and settled statistics was wrong for many classes.
How they are compared now (the spread of the scores, the margin) was chosen on it, on pictures made in the same way:
it is no unseen test of that. Images of ImageNet do not ship; these are photographs of Debian's packages, and their
labels are those of a larger network (`benchmarks/photographs.py` says how to make them). The times behind T 5λ are
those of the bundled ResNet, `run --clock`.

Statistics of 64 images harm this network where it is not much disturbed (clean, JPEG), and help it elsewhere. Settle,
AdaBN and SHOT-IM take them in any case. Pace found out which are better in all twelve cells, and learned with those
where there was time. In a hurry finding out takes one batch that is predicted with the worse: 1.2 and 1.6 points of a
stream of 14.
"""
AMORTISED = """\
## Amortised budgets, statistics as published and averaged

As published, statistics start at mean 0, variance 1 and follow each batch with momentum 0.1. A method that
freezes after m batches predicts with 0.9^m of that beginning. `frozen_stats: averaged` takes the plain mean
of the batches that were seen, which is ripe after the first, and before it the source's.
"""
AFTER_AMORTISED = """\
The order at small budgets is therefore one of statistics, not of learning: methods with dear steps freeze
early, and what they froze with was unripe. With averaged statistics a single batch that was paid for is
enough, and the methods lie within a few points of each other. The published amortised ranking holds for the
published rule and should be read as that. Averaging does not help a budget that pays for no batch: the model
is then the source's. The diagnosis in reports says `unripe statistics`, or `never adapted` where the budget
did not pay for one batch. (`settle` is missing where the clock has no times for it.)
"""

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
