"""`tempora demo`: the main job on the bundled data, no configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora_tta.cli import completion, options
from tempora_tta.cli.execute import execute, prepare_environment
from tempora_tta.cli.terminal import say
from tempora_tta.errors import TemporaError

USUAL = {
    "data.shifts": ["gaussian_noise", "contrast"],
    "batches": 100,
    "calibration_batches": 300,
    "profile_s": 30.0,
}
"""One shift that adaptation repairs well and one that it must, over as many batches as tell most methods apart:
half a minute of profiling, and a minute of passes on two cores."""
QUICK = {
    "data.shifts": ["contrast"],
    "batches": 10,
    "calibration_batches": 50,
    "profile_s": 10.0,
}
"""Enough for a ranking and a report in half a minute, too little for a verdict on anything."""
METHODS = {
    "fashion_resnet": [
        *("standard", "settle", "adabn", "lame", "neo"),
        *("tent", "shot_im"),
    ],
    "fashion_vit": [
        *("standard", "settle", "lame", "neo"),
        *("tent", "shot_im", "zerosiam"),
    ],
}
"""Some of every kind: two minutes cannot tell the others of the paper from these, or are not enough for them."""
QUICK_METHODS = {
    "fashion_resnet": ["standard", "adabn", "lame", "neo", "tent"],
    "fashion_vit": ["standard", "lame", "neo", "tent", "zerosiam"],
}
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
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "--network",
            help="fashion_resnet or fashion_vit.",
            autocompletion=completion.one_of(METHODS),
        ),
    ] = "fashion_resnet",
    quick: Annotated[
        bool, typer.Option("--quick", help="One shift, five methods, few batches: does it work here?")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="15 shifts, all batches, the whole grid.")] = False,
    clock: Annotated[
        str,
        typer.Option(help="steady, measured, a profile's file, or published:rn50_inc."),
    ] = "steady",
    profile_s: Annotated[float | None, options.PROFILE_S] = None,
    plain: Annotated[bool, options.PLAIN] = False,
) -> None:
    """Rank the methods on real data that ships with Tempora: two minutes on two CPU cores."""
    prepare_environment()
    from tempora_tta.engine.load_config import load_config
    from tempora_tta.published.setups import CORRUPTIONS

    if quick and full:
        raise TemporaError("--quick and --full contradict each other: give one of them, or neither")
    flags: dict[str, object] = {"model": model, "data.dataset": "fashion", "clock": clock}
    if full:
        flags["data.shifts"] = list(CORRUPTIONS)
    else:
        flags |= {"grid": "none", "scenarios": THINNED, **(QUICK if quick else USUAL)}
    if profile_s is not None:
        flags["profile_s"] = profile_s
    if not full and model in METHODS:
        flags["methods"] = with_times((QUICK_METHODS if quick else METHODS)[model], clock)
    if execute(load_config(None, flags=flags), out, replace=True, plain=plain, say_how_long=full):
        raise typer.Exit(1)


def with_times(methods: list[str], clock: str) -> list[str]:
    """Those of the methods that the clock has times for: a recorded one knows some, this machine's own all."""
    from tempora_tta.engine.clocks import MEASURED, STEADY
    from tempora_tta.timing import load_profile

    if clock in (STEADY, MEASURED):
        return methods
    known = load_profile(clock).methods
    if left_out := [method for method in methods if method not in known]:
        say(f"left out {', '.join(left_out)}: {clock} has no times for it")
    return [method for method in methods if method in known]
