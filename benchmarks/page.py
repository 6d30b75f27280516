"""Writes docs/benchmarks.md from the committed results: `python benchmarks/page.py`.

Every number in a table comes from a file in benchmarks/results, and every file from the command named beside it.
The shares in the text are of profiles taken by hand; each says of what.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from common import RESULTS
from ratios import READERS, TOLERANCE, Table
from tempora_tta._numbers import percent

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def load(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def ratio_sections() -> list[str]:
    """Per benchmark: its ratios in every committed table, how they were taken, and what limits them."""
    tables = [Table.load(path) for path in sorted(RESULTS.glob("ratios-*.json"))]
    lines = ["Committed:", ""]
    for table in tables:
        facts = table.about
        changed = " with changes" if facts["changed_since_commit"] else ""
        lines.append(
            f"- {facts['device']}, {facts['cores']} cores, torch {facts['torch']}, Python {facts['python']}, "
            f"commit {facts['commit'][:7]}{changed}, {facts['date']}, load average {facts['load']} before it began"
        )
    for benchmark in READERS:
        lines += ["", f"### {TITLES[benchmark]}", "", *ratio_table(benchmark, tables), "", LIMITS[benchmark]]
    return [*lines, ""]


def ratio_table(benchmark: str, tables: list[Table]) -> list[str]:
    """One row per ratio: the median and the range of the repeats."""
    lines = []
    for table in tables:
        rows = [ratio for ratio in table.ratios if ratio.benchmark == benchmark]
        if rows:
            lines += [f"{table.about['device']}: `{table.commands[benchmark]}`", ""]
            lines += ["| | ratio | repeats | better | what it is |", "|---|---|---|---|---|"]
        for ratio in rows:
            repeats = f"{min(ratio.values):.3g} – {max(ratio.values):.3g}"
            cells = (ratio.name, f"{ratio.value:.3g}", repeats, ratio.better, ratio.meaning)
            lines.append(f"| {' | '.join(cells)} |")
        lines += [""] * bool(rows)
    return lines[:-1]


def methods_table(results: dict[str, Any]) -> list[str]:
    """Each method's times beside the floor for that work, in one run."""
    lines = ["| | predict ms | adapt ms | total ms | × floor | floor |", "|---|---|---|---|---|---|"]
    for row in results["rows"]:
        ratio = f"{row['ratio']:.2f}" if row.get("ratio") else ""
        lines.append(
            f"| {row['name']} | {row['predict_ms']:.2f} | {row['adapt_ms']:.2f} | {row['total_ms']:.2f} | {ratio} "
            f"| {row.get('floor') or ''} |"
        )
    return lines


def cpu_section() -> list[str]:
    """Ratios to the floor, of all methods that fit, on each of the bundled networks that were timed."""
    lines = [CPU_FLOORS]
    for name, command in ON_CPU.items():
        results = load(name)
        if results is not None:
            lines += [f"`{command}`:", "", "| | × floor | floor |", "|---|---|---|"]
            timed = [row for row in results["rows"] if row.get("ratio")]
            lines += [f"| {row['name']} | {row['ratio']:.2f} | {row['floor']} |" for row in timed]
            lines += [""]
    return lines


def engine_lines(results: dict[str, Any]) -> list[str]:
    tax = results["harness"]
    lines = [
        f"- Harness: {1000 * tax['inside_ms']:.0f} µs of every measured batch are the engine's own, "
        f"{percent(tax['inside_share'], 2)} of standard inference.",
    ]
    for name, row in results["sharing"].items():
        lines.append(
            f"- Sharing, {name}: {row['shared_passes']} passes instead of {row['unshared_passes']}, "
            f"{row['speedup']:.1f} times less time."
        )
    idle = results.get("gpu_idle")
    if idle:
        shares = ", ".join(f"{name} {percent(share, 0)}" for name, share in idle.items())
        lines.append(f"- GPU idle inside timed service: {shares}.")
    return lines


def grid_sections() -> list[str]:
    """The whole grid on one shift, as `python benchmarks/grid.py` wrote it."""
    lines = []
    for path in sorted(RESULTS.glob("*-grid-*.json"), key=lambda path: path.stem):
        found = json.loads(path.read_text(encoding="utf-8"))
        tasks_s = sum(row["shared_s"] for row in found["methods"].values())
        again = ", again" if path.stem.endswith("-again") else ""
        commands = f" in {found['commands']} commands" if found.get("commands", 1) > 1 else ""
        lines += [
            f"### The whole grid: {found['model']}, {found['device']}, torch {found['torch']}{again}",
            "",
            f"`python benchmarks/grid.py --device cuda --model {found['model']}`: {found['scenarios']} scenarios on "
            f"{found['batches']} batches of {found['batch_size']} images took {found['shared_wall_s']:.0f} s"
            f"{commands}, {tasks_s:.0f} s of them the methods' passes, the rest calibration, split tax and set-up. "
            f"{against_naive(found['methods'])} The verdict on the timing: {found['verdict']}.",
            "",
            "| | ms a batch | passes | one per scenario | seconds | one per scenario | GPU busy |",
            "|---|---|---|---|---|---|---|",
        ]
        for name, row in found["methods"].items():
            idle = found.get("gpu_idle", {}).get(name)
            naive = (row["naive_passes"], f"{row['naive_s']:.1f}") if row.get("naive_s") else ("", "")
            busy = "" if idle is None else percent(1 - idle, 0)
            lines.append(
                f"| {name} | {row['service_ms']:.1f} | {row['shared_passes']} | {naive[0]} | {row['shared_s']:.1f} "
                f"| {naive[1]} | {busy} |"
            )
        lines.append("")
        if found.get("doubts"):
            lines += ["Passes that are not VALID:", "", *(f"- {doubt}" for doubt in found["doubts"]), ""]
    sections = worked_out() + overhead_section() + steady_sections() + pipeline_section() + lived_section()
    return lines + sections


def overhead_section() -> list[str]:
    """Where a short run's wall time goes, as `python benchmarks/overhead.py` wrote it then and now."""
    before, now = load("h200-overhead-0.1.0"), load("h200-overhead-steady")
    if before is None or now is None:
        return []
    timing = ("profile", "lambda", "split tax", "warm-up", "sentinels")
    passes = ("timed service", "service", "frozen service")
    rows, outside = [], []
    for found in (before, now):
        seconds = found["seconds"]
        served, timed = (sum(seconds.get(part, 0.0) for part in parts) for parts in (passes, timing))
        rows.append((served, timed, *(seconds[part] for part in OUTSIDE), found["total_s"]))
        outside.append(found["total_s"] - served - timed)
    names = ("the methods' passes", "timing", *OUTSIDE, "in all")
    table = [f"| {name} | {old:.1f} | {new:.1f} |" for name, old, new in zip(names, *rows, strict=True)]
    return [
        f"### Where the time of a short run goes: {now['model']}, {now['device']}",
        "",
        f"`python benchmarks/overhead.py --device cuda --model {now['model']}`: two shifts of 78 batches of 64, "
        f"17 scenarios, {len(now['methods'])} methods; version 0.1.0 under its measured clock, and now under the "
        "steady one. Timing was lambda, split tax, warm-ups and sentinels, and is the profile, a minute at most "
        "(`--profile-s`) and a process's start. What is neither a pass nor timing took "
        f"{outside[0]:.1f} s and takes {outside[1]:.1f} s; the rest among it are fingerprints of the given "
        "batches and set-up.",
        "",
        "| seconds | 0.1.0, measured | now, steady |",
        "|---|---|---|",
        *table,
        "",
    ]


def _walls(wall_s: dict[str, float]) -> str:
    """How long the whole grid took, and what of it was the profile, which a grid of many shifts makes once."""
    steady, profile, measured = (wall_s[name] for name in ("steady", "steady_profile", "measured"))
    return (
        f"Wall time of the grid: steady {steady:.0f} s, of which {profile:.0f} s until the first pass; measured "
        f"{measured:.0f} s. Ratio {steady / measured:.2f}, and {(steady - profile) / measured:.2f} without the "
        "profile, which more shifts would not repeat."
    )


def _points(clocks: dict[str, Any]) -> list[str]:
    """Measured and lived utilities against the steady ones, by scenario."""
    if not clocks:
        return []
    lines = ["Utility less the steady one, in points: mean size over methods, and the largest."]
    for clock, one in clocks.items():
        off = [abs(points) for row in one["scenarios"].values() for points in row.values()]
        lines.append(
            f"{clock.capitalize()}: {one['cells']} cells, mean {one['mean']:.2f}, largest {one['largest']:.2f}; "
            f"{sum(points <= 1 for points in off)} within 1 point."
        )
    lines = [" ".join(lines), "", f"| | {' | '.join(clocks)} |", f"|---|{'---|' * len(clocks)}"]
    for label in dict.fromkeys(label for one in clocks.values() for label in one["scenarios"]):
        cells = []
        for one in clocks.values():
            row = one["scenarios"].get(label, {})
            worst = max(row, key=lambda name: abs(row[name]), default=None)
            mean = sum(map(abs, row.values())) / max(1, len(row))
            cells.append("" if worst is None else f"{mean:.2f}; {row[worst]:+.2f} {worst}")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return [*lines, ""]


MOST_STEADY = 8
"""Methods that `python benchmarks/steady.py` takes by default."""


def steady_sections() -> list[str]:
    """The steady clock against the measured one and the wall, as `python benchmarks/steady.py` wrote it."""
    lines = []
    for path in sorted(RESULTS.glob("*-steady-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        profile = found["profile"]
        with_ = f" --predict-with {found['predict_with']}" if found.get("predict_with") else ""
        ended = (
            "settled"
            if profile["settled"]
            else "left edges"
            if not profile["time_was_up"]
            else "ran out of time"
        )
        only = f" --only {','.join(found['methods'])}" if len(found["methods"]) < MOST_STEADY else ""
        lines += [
            f"### The steady clock: {found['model']}, {found['device']}, torch {found['torch']}",
            "",
            f"`python benchmarks/steady.py --device cuda --model {found['model']} --batches {found['batches']} "
            f"--seconds {found['seconds']:g}{with_}{only} --out DIR`: {found['batches']} batches of "
            f"{found['batch_size']}, one shift. The profile took {profile['rounds']} rounds and {ended}. "
            f"{_walls(found['wall_s'])}",
            "",
            "Live service times over the profile's, from pick-up and from when the pipeline was free for the batch; "
            "measured ones; batch by batch, the middle one. Seconds of one method's grid under the measured clock:",
            "",
            "| | steady ms | live / steady | with handover | measured / steady | measured s |",
            "|---|---|---|---|---|---|",
        ]
        names = ("lived_x", "with_handover_x", "measured_x", "measured_wall_s")
        for name, row in found["methods"].items():
            numbers = (f"{row[key]:.4g}" if key in row else "" for key in ("steady_ms", *names))
            lines.append(f"| {name} | {' | '.join(numbers)} |")
        lines.append("")
        lines += _points(found["points"])
        if "replayed_off_points" in found:
            off = found["replayed_off_points"]
            lines += [
                f"Lived times through the simulator give the lived utility within {off:.2g} points.",
                "",
            ]
        left = [f"{name} ({step['end']})" for name, step in found["steps"].items() if step["end"] != "done"]
        if left:
            lines += [f"Not finished within the time: {', '.join(left)}.", ""]
    return lines


OUTSIDE = ("snapshots", "making methods", "writing", "reading back", "scoring", "rest")
"""Parts of a run that are neither passes nor timing."""


def pipeline_section() -> list[str]:
    """What the live pipeline costs, as `python benchmarks/deploy.py overhead` wrote it."""
    lines: list[str] = []
    if (found := load("h200-deploy-resnet50")) is not None:
        lines += [
            f"### The live pipeline: {found['model']}, {found['device']}",
            "",
            f"`python benchmarks/deploy.py overhead --device cuda --model {found['model']}`: a batch of "
            f"{found['batch_size']} through `tempora.deploy` against the same calls made directly.",
            "",
            "| | direct ms | pipeline ms | ratio | more µs |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {name} | {row['direct_ms']:.2f} | {row['pipeline_ms']:.2f} | {row['ratio']:.2f} "
            f"| {row['overhead_us']:.0f} |"
            for name, row in found["methods"].items()
        ]
        lines.append("")
    if (found := load("cpu-deploy")) is not None:
        ratios = ", ".join(f"{name} {row['ratio']:.3f}" for name, row in found["methods"].items())
        lines += [
            f"On one core of a CPU (`python benchmarks/deploy.py overhead`: {found['model']}, batches of "
            f"{found['batch_size']}) the ratios are: {ratios}.",
            "",
        ]
    return lines


LIVED = {
    "cpu-lived": "two cores",
    "h200-lived": "NVIDIA H200",
    "h200-lived-heavy": "NVIDIA H200, a ResNet-50 as ballast",
}


def lived_section() -> list[str]:
    """Simulated beside lived, as `python benchmarks/deploy.py lived` wrote it."""
    lines: list[str] = []
    for name, where in LIVED.items():
        if (found := load(name)) is not None:
            lines += lived_table(name, where, found)
    return lines


def lived_table(name: str, where: str, found: dict[str, Any]) -> list[str]:
    cells = found["cells"]
    judged = [cell for cell in cells if cell["not_judged"] is None]
    apart = [lived_apart(cell) for cell in judged]
    kept_up = [lived_apart(cell) for cell in judged if cell["simulated"]["availability"] == 1]
    logic = max(
        abs(one["lived"]["utility"] - one["replayed"]["utility"]) for cell in cells for one in cell["lives"]
    )
    lines = [
        f"### Simulated and lived: {found['model']}, {where}",
        "",
        f"`{found['command']} --json benchmarks/results/{name}.json`: {found['batches']} batches of "
        f"{found['batch_size']}, lambda {found['baseline_ms']:.1f} ms, every cell lived "
        f"{found['repeats']} times beside a load of {found['load']:.1f}, {found['seconds']:.0f} s in all. Of the "
        f"{len(judged)} cells with a "
        "schedule of utilisation up to 0.7, a queue and no deadline below 1.5 λ, "
        f"{sum(error <= 0.01 for error in apart)} are within 1 point of what the profile says (mean "
        f"{100 * sum(apart) / max(1, len(apart)):.2f}, largest {100 * max(apart, default=0.0):.2f}), and of the "
        f"{len(kept_up)} among them in which the method keeps up, so that nothing is lost, "
        f"{sum(error <= 0.01 for error in kept_up)} (largest {100 * max(kept_up, default=0.0):.2f}); the others are "
        f"shown as they are, with the reason. The lived times replayed differ by at most {100 * logic:.4f} points. "
        f"Handing a batch to the worker took {median(cell['handover_us'] for cell in cells):.0f} µs (median), which "
        f"no profile knows of.{speed_said(cells)}",
        "",
        "| | | simulated | lived | available | median ms | p90 ms | within 1 point |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        lines.append(lived_row(cell))
    return [*lines, ""]


def speed_said(cells: list[dict[str, Any]]) -> str:
    """How fast the machine was beside its profile, which was made up for."""
    found = sorted(x for cell in cells for x in cell.get("speeds_x", ()))
    if not found:
        return ""
    return (
        f" Before each life standard inference took {median(found):.2f} times what the profile says "
        f"({found[0]:.2f} to {found[-1]:.2f}), which was made up for where it was between 2/3 and 3/2."
    )


def lived_row(cell: dict[str, Any]) -> str:
    simulated = cell["simulated"]
    lives = sorted(one["lived"]["utility"] for one in cell["lives"])
    error = lived_mean(cell, "utility") - simulated["utility"]
    verdict = cell["not_judged"] or ("yes" if abs(error) <= 0.01 else "no")
    spread = f"{100 * lives[0]:.1f} to {100 * lives[-1]:.1f}"
    available = f"{percent(simulated['availability'], 0)}, {percent(lived_mean(cell, 'availability'), 0)}"
    responses = (
        f"{some_ms(simulated[name])}, {some_ms(lived_mean(cell, name))}"
        for name in ("response_p50_ms", "response_p90_ms")
    )
    return (
        f"| {cell['grid']}: {cell['label']} | {cell['method']} | {100 * simulated['utility']:.1f} | "
        f"{100 * lived_mean(cell, 'utility'):.1f} ({spread}) | {available} | {' | '.join(responses)} | {verdict} |"
    )


def lived_apart(cell: dict[str, Any]) -> float:
    """Of the mean lived utility from the simulated one."""
    return float(abs(lived_mean(cell, "utility") - cell["simulated"]["utility"]))


def lived_mean(cell: dict[str, Any], name: str) -> Any:
    """Of the lives; None where one of them has none."""
    values = [one["lived"][name] for one in cell["lives"]]
    return None if None in values else sum(values) / len(values)


def some_ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def against_naive(methods: dict[str, Any]) -> str:
    """What sharing saved, over all methods if all were also run one pass per scenario, else one by one."""
    compared = {name: row for name, row in methods.items() if "naive_s" in row}
    if not compared:
        return "One pass per scenario was not run again."
    if len(compared) < len(methods):
        times = ", ".join(
            f"{row['naive_s'] / row['shared_s']:.1f} ({name})" for name, row in compared.items()
        )
        return f"Of some methods, one pass per scenario took so many times longer: {times}."
    naive_s, shared_s = (sum(row[key] for row in methods.values()) for key in ("naive_s", "shared_s"))
    return f"One pass per scenario took {naive_s:.0f} s, {naive_s / shared_s:.1f} times longer."


def worked_out() -> list[str]:
    """The same work as `python benchmarks/scaling.py` works it out from times per batch."""
    found = load("h200-scaling")
    if found is None:
        return []
    rows = [
        f"| {row['model']} | {row['naive_s']:.0f} | {row['shared_s']:.0f} | {row['naive_s'] / row['shared_s']:.1f} |"
        for row in found["one_shift"]
    ]
    return [
        "### The whole grid, worked out",
        "",
        "`python benchmarks/scaling.py` works the methods' passes out from the milliseconds of the methods above, by "
        "the engine's rules, warm-ups and sentinels included. Shared, it agrees with both runs; one pass per "
        "scenario of every method on ViT-B/16, half an hour of a GPU, is here only worked out.",
        "",
        "| | seconds, one pass per scenario | seconds, shared | times less |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


METHODS = {
    "h200-methods-resnet50": "python benchmarks/methods.py --device cuda --model resnet50 --repeats 20",
    "h200-methods-resnet50-all": "python benchmarks/methods.py --device cuda --model resnet50 --repeats 6",
    "h200-methods-resnet50-views": "python benchmarks/methods.py --device cuda --model resnet50 --method rotta "
    "--method memo --method roid --method cotta --method alpha_bn --repeats 10",
    "h200-methods-vit_b_16": "python benchmarks/methods.py --device cuda --model vit_b_16 --repeats 10",
    "h200-methods-vit_b_16-all": "python benchmarks/methods.py --device cuda --model vit_b_16 --repeats 3 --warmup 1",
}
ON_CPU = {
    "cpu-methods-fashion_resnet": "python benchmarks/methods.py --model fashion_resnet "
    "--pretrained --repeats 8 --warmup 1",
    "cpu-methods-fashion_vit_token": "python benchmarks/methods.py --model fashion_vit_token "
    "--pretrained --repeats 5 --warmup 1",
}
ENGINE = {
    "h200-engine-resnet50": "python benchmarks/engine.py --device cuda --model resnet50 --batches 16 "
    "--only standard,adabn,lame,neo,tent,eta,shot_im",
}
INTRODUCTION = f"""# Benchmarks

Made by `python benchmarks/page.py` from `benchmarks/results/`. Compare ratios: they were taken within one run.
Milliseconds are from one NVIDIA H200; times on shared CPUs are left out.

## Ratios

    python benchmarks/all.py --quick          # a few minutes on two cores; without --quick more work
    python benchmarks/all.py --device cuda --save

runs every benchmark three times, each in a process of its own, in turns, and prints its ratios beside the committed
ones. A ratio is marked when its median moved by more than {percent(TOLERANCE, 0)} and the repeats of the two tables
do not overlap; `--strict` makes that an error. Different work is never compared; another machine or torch is named.
On a CPU the times are CPU times, which other work on the machine hardly changes; those of the engine and of data are
seconds on the wall, which it does.
"""
TITLES = {
    "engine": "Engine: against one pass per scenario",
    "methods": "Methods: against their floors",
    "data": "Data: against torch's DataLoader",
    "corruptions": "Corruptions: against an outside implementation",
    "serve": "Time model",
    "report": "Analysis, report and figures",
    "scaling": "The paper's grid, simulated",
}
LIMITS = {
    "engine": """\
What limits it: methods with a memory need a live pass wherever an interval skips batches, and every timed pass has
its warm-up and its sentinel. Of Tent's 17 unshared passes over 20 batches these took 17 % and 27 % of the time
(cProfile). Lambda is measured, so on a noisy CPU it is high, intervals are long, fewer batches are skipped and
sharing looks better than on a quiet machine. A ratio of 17 passes means that no method needed a live pass at all:
quote the H200's figures below, or the simulation's.""",
    "methods": """\
What limits it: the floor is the least that a method's work can cost (see below). SAR, DeYO and CMF do more than one
forward, so they lie above one by design; the others lie within about a tenth of it.""",
    "data": """\
What limits it: the first pass is Pillow's work on either side. Decoding 256 JPEG files in one process spent 46 % in
its resize and 30 % in its decoder (cProfile); starting a worker costs 0.13 s of CPU time, which short streams feel.
Later passes move memory: nearly all of their time gathers a batch, converts it to floats and normalises it.""",
    "corruptions": """\
What limits it: ours corrupts a batch with tensor operations and runs on either device; the outside takes one image at
a time. Glass blur swaps pixels in an order that matters: 2,151 steps of small gathers and scatters, each after the
last, for a batch of 224 px. Pixelate spends 60 % of its time in two matrix products (torch.profiler, one thread).""",
    "serve": """\
What limits it: a loop in Python over arrivals. About half of its time picks the next batch and a third records it
(cProfile). A batch of a long stream costs a little more than one of a short stream, with Python's garbage collector
or without; why was not looked for.""",
    "report": """\
What limits it: analysis is many small pandas calls, the largest part (40 %) being findings, which goes row by row.
Of the report a third makes tables and a quarter reads passes; of the figures half is matplotlib's drawing and saving
(cProfile, a run of 15 shifts, 12 methods and 17 scenarios). The chart library is loaded once, before the clock.""",
    "scaling": """\
What limits it: from measured times per batch, without noise. On 512 GPUs one task is the critical path
([many machines](cluster.md#how-far-it-scales)).""",
}
FLOORS = """## Methods on a GPU

The floor is the least that a method's work can cost: a bare forward (with batch statistics where the method uses
them), or a bare forward and backward of the same parameters. SAR, DeYO, CMF and SPA do more than one forward, so
their ratio is above one by design. The nine later methods are held against as many forwards and backwards as their
algorithms make: ROID one more of each for the share of samples that it keeps, CoTTA (gate closed) a forward of the
anchor and of the teacher and all weights' backward, RoTTA an update from its whole memory, MEMO (of four images) a
backward of all weights per view, FOA a forward per candidate. Synchronising between predict and adapt is part of both
sides. Weights are random; filters are opened so that every method does its full work. The second table of
ViT-B/16 has the nine; it is newer, shorter, and was taken while the machine's other cores were busy. ResNet-50 has
not been timed again with the nine.
"""
CPU_FLOORS = """## Methods on a CPU

CPU time on one core that others use too, so only ratios are shown. These networks are small: whatever a method does
for itself weighs more than on a large one.
"""
GPU_LIMITS = """
GPU busy was taken with the methods' own filters, the times beside it with filters opened (grid.py now opens both).

What limits each: on ViT-B/16 the GPU is busy for 97 % and more of every method's service. Gradient methods on
ResNet-50 leave it idle for about a tenth, CMF for a quarter; why was not profiled. Those batches of CMF on ResNet-50
that took over twice the median probably met a number of kept samples for the first time, for which cuDNN has to
choose its kernels: ViT-B/16, with a single convolution, had none. Sharing saves most where methods are history-free;
the others need a live pass wherever an interval skips batches, and every timed pass has its warm-up and sentinel.
"""


def large_report_section() -> list[str]:
    """How large the page of a large run is and how long it opens, as `python benchmarks/report.py` wrote it."""
    found = load("report-large")
    if found is None:
        return []
    counts = " x ".join(f"{found[name]:.0f} {name}" for name in ("shifts", "methods", "batches"))
    best_s, usual_s, cpu_s = (found[name] / 1000 for name in ("ready_ms", "ready_median_ms", "ready_cpu_ms"))
    command = "python benchmarks/report.py --shifts 16 --methods 21 --browser"
    return [
        "## A large report",
        "",
        f"`{command} --json benchmarks/results/report-large.json`",
        f"makes one page of {counts} x 17 scenarios:",
        "",
        f"- {found['page_mb']:.1f} MB, made in {found['report_s']:.0f} CPU seconds;",
        f"- open in Chromium after {best_s:.1f} s at best, {usual_s:.1f} s in the median of five, on two cores that",
        f"  others used, too; {cpu_s:.1f} s are the CPU time of the page itself.",
        "",
    ]


def since_section() -> list[str]:
    """Report and tables beside version 0.1.0, as `python benchmarks/since.py` wrote it."""
    found = [(size, load(f"since-{size}")) for size in ("large", "small")]
    known = [(size, one) for size, one in found if one is not None]
    if not known:
        return []
    lines = ["## Report and tables since 0.1.0", ""]
    for size, one in known:
        shape = " ".join(f"--{name} {one[name]}" for name in ("shifts", "methods", "batches", "repeats"))
        ratios = sorted(value["ratio"] for name, value in one.items() if name.startswith("table "))
        median = ratios[len(ratios) // 2]
        lines += [
            f"`python benchmarks/since.py {shape} --json benchmarks/results/since-{size}.json`:",
            f"CPU time over that of 0.1.0 (`{one['before']}`) on one run folder. Tables {ratios[0]:.2f} to "
            f"{ratios[-1]:.2f} (median {median:.2f}),",
            f"analysis {one['analysis']['ratio']:.2f}, the page without doubt {one['page']['ratio']:.2f}, with it "
            f"{one['report']['ratio']:.2f}: how sure the winners are, which 0.1.0 did not",
            f"say, takes {one['doubt']['now_s']:.1f} of the {one['report']['now_s']:.1f} s.",
            "",
        ]
    return lines


def long_stream_section() -> list[str]:
    """Memory and time over 100,000 batches, as `python benchmarks/long_stream.py` wrote it."""
    found = load("long-stream")
    if found is None:
        return []
    rows, per_row = found["rows"], found["trace_row_bytes"]
    lines = [
        "## A long stream",
        "",
        "`python benchmarks/long_stream.py --json benchmarks/results/long-stream.json`: "
        f"{found['method']} with a tiny network on a recurring",
        f"stream of {found['batches']:,} batches, one thread of two shared cores.",
        "",
        "| batches done | CPU ms per batch since the last | the same of a new, short stream then | MB grown |",
        "|---|---|---|---|",
    ]
    last = {"batches": 0, "cpu_s": 0.0}
    for row in rows:
        each_ms = 1000 * (row["cpu_s"] - last["cpu_s"]) / (row["batches"] - last["batches"])
        lines.append(
            f"| {row['batches']:,} | {each_ms:.2f} | {row['fresh_ms']:.2f} | {row['grown_bytes'] / 1e6:.1f} |"
        )
        last = row
    more = (rows[-1]["grown_bytes"] - rows[0]["grown_bytes"]) / (rows[-1]["batches"] - rows[0]["batches"])
    return [
        *lines,
        "",
        f"The trace has {per_row:.0f} bytes a row, {per_row * found['batches'] / 1e6:.0f} MB, taken at the start;",
        f"the other {more:.0f} bytes a batch are its times on the timeline, which end in the same rows. Nothing else",
        "grows. Time goes up and down with the other users of the cores, for the short stream as for the long one.",
        "",
    ]


def page() -> str:
    lines = [INTRODUCTION, *ratio_sections(), FLOORS]
    for name, command in METHODS.items():
        results = load(name)
        if results is not None:
            lines += [f"### {results['title']}", "", f"`{command}`", "", *methods_table(results), ""]
    lines += cpu_section()
    lines += large_report_section()
    lines += since_section()
    lines += long_stream_section()
    lines += ["## The engine on a GPU", ""]
    for name, command in ENGINE.items():
        results = load(name)
        if results is not None:
            what = f"{results['model']}, {results['device']}, {results['batches']} batches, 17 scenarios"
            lines += [f"{what} (`{command}`):", "", *engine_lines(results), ""]
    lines += grid_sections()
    return "\n".join(lines).rstrip() + "\n" + GPU_LIMITS


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
