"""`tempora demo`: the main job on the bundled data, no configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SHIFTS = ("gaussian_noise", "contrast", "brightness")
"""One shift that adaptation repairs well, one that it must, and one where there is little to gain."""
BATCHES = 40
THINNED = [
    {"protocol": "discrete", "utilisation": 1.0, "name": "ρ 100 %"},
    {"protocol": "discrete", "utilisation": 0.5, "name": "ρ 50 %"},
    {"protocol": "discrete", "utilisation": 0.25, "name": "ρ 25 %"},
    {"protocol": "continuous", "threshold_x": 1.25},
    {"protocol": "continuous", "threshold_x": 5.0},
    {"protocol": "continuous", "threshold_x": 25.0},
    {"protocol": "amortised", "budget_x": 0.125},
    {"protocol": "amortised", "budget_x": 0.5},
    {"protocol": "amortised", "budget_x": 1.0},
]
"""Strict, middling and relaxed settings of each protocol: enough to see who wins where."""


def demo(
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("tempora-demo"),
    network: Annotated[str, typer.Option(help="fashion_resnet, or fashion_vit.")] = "fashion_resnet",
    full: Annotated[bool, typer.Option("--full", help="15 shifts, all batches, the whole grid.")] = False,
    clock: Annotated[str, typer.Option(help="measured, or a recorded profile.")] = "measured",
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines for a log instead of a live display.")
    ] = False,
) -> None:
    """Rank the methods on real data that ships with Tempora: a few minutes on two CPU cores."""
    from tempora.cli.run import execute, prepare_environment

    prepare_environment()
    from tempora.engine.config import load_config

    flags: dict[str, object] = {"model": network, "data.dataset": "fashion", "clock": clock}
    if not full:
        flags |= {
            "data.shifts": list(SHIFTS),
            "batches": BATCHES,
            "grid": "none",
            "scenarios": THINNED,
            "calibration_batches": 300,
        }
    execute(load_config(None, flags=flags), out, plain=plain)
