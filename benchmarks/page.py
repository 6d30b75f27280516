"""Writes docs/benchmarks.md from the committed results: `python benchmarks/page.py`.

Every number on the page comes from a file in benchmarks/results, and every file from the command named beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "benchmarks.md"


def load(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


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


def ratios_table(results: dict[str, Any]) -> list[str]:
    """Only the ratios: absolute times of a shared CPU say nothing."""
    rows = [row for row in results["rows"] if row.get("ratio")]
    return [
        "| | × floor | floor |",
        "|---|---|---|",
        *(f"| {row['name']} | {row['ratio']:.2f} | {row['floor']} |" for row in rows),
    ]


def engine_lines(results: dict[str, Any]) -> list[str]:
    tax = results["harness"]
    lines = [
        f"- Harness: {1000 * tax['inside_ms']:.0f} µs of every measured batch are the engine's own, "
        f"{tax['inside_share']:.2%} of standard inference.",
    ]
    for name, row in results["sharing"].items():
        lines.append(
            f"- Sharing, {name}: {row['shared_passes']} passes instead of {row['unshared_passes']}, "
            f"{row['speedup']:.1f} times less time."
        )
    idle = results.get("gpu_idle")
    if idle:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in idle.items())
        lines.append(f"- GPU idle inside timed service: {shares}.")
    return lines


METHODS = {
    "h200-methods-resnet50": "python benchmarks/methods.py --device cuda --model resnet50 --repeats 20",
    "h200-methods-vit_b_16": "python benchmarks/methods.py --device cuda --model vit_b_16 --repeats 10",
    "cpu-methods-fashion_resnet": "OMP_NUM_THREADS=1 python benchmarks/methods.py --device cpu "
    "--model fashion_resnet --pretrained --repeats 12",
}
ENGINE = {
    "h200-engine-resnet50": "python benchmarks/engine.py --device cuda --model resnet50 --batches 16 "
    "--only standard,adabn,lame,neo,tent,eta,shot_im",
}
INTRODUCTION = """# Benchmarks

Made by `python benchmarks/page.py` from `benchmarks/results/`. Compare ratios: they were taken within one run.
Milliseconds are from one NVIDIA H200; times on shared CPUs are left out.

## Methods beside their floors

The floor is the least that a method's work can cost: a bare forward (with batch statistics where the method uses
them), or a bare forward and backward of the same parameters. SAR, DeYO, CMF and SPA do more than one forward, so
their ratio is above one by design. Synchronising between predict and adapt is part of both sides. Weights are random;
filters are opened so that every method does its full work.
"""
LIMITS = """
What limits each: gradient methods on ResNet-50 leave the GPU idle for about a tenth of their service; why was not
profiled. Sharing saves most where methods are history-free; the others need a live pass wherever an interval skips
batches, and every timed pass has its warm-up and sentinel.
"""


def page() -> str:
    lines = [INTRODUCTION]
    for name, command in METHODS.items():
        results = load(name)
        if results is not None:
            table = methods_table(results) if name.startswith("h200") else ratios_table(results)
            lines += [f"### {results['title']}", "", f"`{command}`", "", *table, ""]
    lines += ["## The engine", ""]
    for name, command in ENGINE.items():
        results = load(name)
        if results is not None:
            what = f"{results['model']}, {results['device']}, {results['batches']} batches, 17 scenarios"
            lines += [f"{what} (`{command}`):", "", *engine_lines(results), ""]
    return "\n".join(lines).rstrip() + "\n" + LIMITS


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
