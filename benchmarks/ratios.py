"""The project's benchmarks as one flat table of ratios, and how two such tables compare.

Every ratio was taken within one process, so that a slow or busy machine slows both its sides. A ratio counts as
changed when its median moved by more than `TOLERANCE` and the repeats of the two tables do not overlap. By chance
alone three repeats lie wholly above three others once in twenty times; the tolerance leaves most of those out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from common import write

TOLERANCE = 0.1
Better = Literal["higher", "lower", "orientation"]
"""Orientation: seconds, for a feeling only. They are printed, and neither stored nor compared."""
Verdict = Literal["WORSE", "better", "same", "new", "gone", "other work", ""]


@dataclass(frozen=True)
class Ratio:
    """One named ratio, with its value in every repeat."""

    benchmark: str
    name: str
    better: Better
    meaning: str
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Table:
    """The ratios of one run, and what must be known to read them."""

    about: dict[str, Any]
    commands: dict[str, str]
    """How each benchmark was run: different work is not compared."""
    ratios: list[Ratio] = field(default_factory=list)

    def save(self, path: Path) -> None:
        rows = [asdict(ratio) for ratio in self.ratios if ratio.better != "orientation"]
        write({"about": self.about, "commands": self.commands, "ratios": rows}, path)

    @classmethod
    def load(cls, path: Path) -> Table:
        stored = json.loads(path.read_text(encoding="utf-8"))
        ratios = [Ratio(**{**row, "values": tuple(row["values"])}) for row in stored["ratios"]]
        return cls(stored["about"], stored["commands"], ratios)


@dataclass(frozen=True)
class Change:
    """A ratio of either table, or of both."""

    ratio: Ratio
    before: Ratio | None
    verdict: Verdict


def compare(now: Table, before: Table | None) -> list[Change]:
    """Each ratio of `now` beside the one before; last, those that its benchmarks no longer give."""
    known = {(ratio.benchmark, ratio.name): ratio for ratio in before.ratios} if before else {}
    changes = []
    for ratio in now.ratios:
        earlier = known.pop((ratio.benchmark, ratio.name), None)
        changes.append(Change(ratio, earlier, _verdict(ratio, earlier, now, before)))
    gone = [ratio for ratio in known.values() if ratio.benchmark in now.commands]
    return changes + [Change(ratio, ratio, "gone") for ratio in gone]


def _verdict(ratio: Ratio, earlier: Ratio | None, now: Table, before: Table | None) -> Verdict:
    if before is None or ratio.better == "orientation":
        return ""
    if earlier is None:
        return "new"
    if now.commands[ratio.benchmark] != before.commands[ratio.benchmark]:
        return "other work"
    moved = ratio.value - earlier.value
    overlap = min(ratio.values) <= max(earlier.values) and min(earlier.values) <= max(ratio.values)
    if overlap or abs(moved) <= TOLERANCE * abs(earlier.value):
        return "same"
    return "better" if (moved > 0) == (ratio.better == "higher") else "WORSE"


def from_repeats(benchmark: str, repeats: list[dict[str, Any]]) -> list[Ratio]:
    """The ratios of one benchmark, from the figures that it wrote in each repeat."""
    merged: dict[str, Ratio] = {}
    for figures in repeats:
        for ratio in READERS[benchmark](figures):
            earlier = merged.get(ratio.name, replace(ratio, values=()))
            merged[ratio.name] = replace(ratio, benchmark=benchmark, values=earlier.values + ratio.values)
    return list(merged.values())


def _ratio(name: str, value: float, better: Better, meaning: str) -> Ratio:
    return Ratio("", name, better, meaning, (float(value),))


def _engine(figures: dict[str, Any]) -> Iterator[Ratio]:
    for names, row in figures["sharing"].items():
        yield _ratio(
            f"sharing, {names}: speed",
            row["speedup"],
            "higher",
            "seconds of one pass per scenario over seconds with shared passes",
        )
        yield _ratio(
            f"sharing, {names}: passes",
            row["unshared_passes"] / row["shared_passes"],
            "higher",
            "passes of the naive protocol over ours",
        )
    yield _ratio(
        "harness share",
        figures["harness"]["inside_share"],
        "lower",
        "share of a standard batch's measured time that is the engine's own",
    )
    for name, share in figures.get("gpu_idle", {}).items():
        yield _ratio(
            f"GPU idle, {name}", share, "lower", "share of its timed service without a kernel running"
        )


def _methods(figures: dict[str, Any]) -> Iterator[Ratio]:
    for row in figures["rows"]:
        if "floor" in row:
            yield _ratio(row["name"], row["ratio"], "lower", f"its time over that of a bare {row['floor']}")


def _data(figures: dict[str, Any]) -> Iterator[Ratio]:
    meaning = "images per second, ours over torch's DataLoader on the same files"
    yield _ratio("first pass", figures["first_pass_ratio"], "higher", meaning + ", decoding included")
    yield _ratio("later passes", figures["later_pass_ratio"], "higher", meaning + ", which decodes again")


def _corruptions(figures: dict[str, Any]) -> Iterator[Ratio]:
    meaning = "our speed over that of imagecorruptions, geometric mean over corruptions"
    yield _ratio("speed", figures["times_faster"], "higher", meaning)
    seconds = [10 * row["ours_ms"] for row in figures["rows"].values()]
    yield _ratio(
        "10,000 images", sum(seconds) / len(seconds), "orientation", f"{figures['side']} px, mean corruption"
    )


def _serve(figures: dict[str, Any]) -> Iterator[Ratio]:
    meaning = "time per arrival of 1,000,000 arrivals over that of 10,000: 1 is linear"
    yield _ratio("linearity", figures["linearity"], "lower", meaning)
    meaning = "time of scoring a stream at 1,000 intervals over that of serving it"
    yield _ratio("score over serve", figures["score_over_serve"], "lower", meaning)


def _report(figures: dict[str, Any]) -> Iterator[Ratio]:
    for part in ("analysis", "report", "figures"):
        meaning = "its time over that of reading every pass of the run once"
        yield _ratio(f"{part} over reading", figures[f"{part}_over_read"], "lower", meaning)
        yield _ratio(part, figures[f"{part}_s"], "orientation", "of a run of the size in the command")


def _scaling(figures: dict[str, Any]) -> Iterator[Ratio]:
    for row in figures["rows"]:
        gpus = "1 GPU" if row["gpus"] == 1 else f"{row['gpus']} GPUs"
        meaning = "simulated time of the paper's grid, one pass per scenario over shared"
        yield _ratio(f"paper's grid, {gpus}", row["naive_s"] / row["shared_s"], "higher", meaning)


READERS: dict[str, Callable[[dict[str, Any]], Iterator[Ratio]]] = {
    "engine": _engine,
    "methods": _methods,
    "data": _data,
    "corruptions": _corruptions,
    "serve": _serve,
    "report": _report,
    "scaling": _scaling,
}
