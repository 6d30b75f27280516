"""The output of `tempora audit --realtime`: cells lived in real time, next to what was simulated."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tempora_tta.cli.terminal import console, plain_table
from tempora_tta.errors import counted

if TYPE_CHECKING:
    from rich.text import Text

    from tempora_tta.engine import Observer
    from tempora_tta.serving.live import LivedCell


def noting() -> Observer:
    """Prints what the user should read before the table, and nothing else."""
    from rich.text import Text

    from tempora_tta.engine import Observer

    class Noting(Observer):
        def note(self, text: str) -> None:
            console().print(Text.assemble(("note", "yellow"), f": {text}"))

    return Noting()


def show_lived(cells: list[LivedCell]) -> bool:
    """A table of the cells, and what both comparisons come to; whether nothing speaks against the simulator."""
    from rich.text import Text

    numbers = ("simulated %", "lived %", "available %", "response ms")
    table = plain_table("cell", *numbers, "profile tells", numbers=numbers)
    one_shift = len({cell.shift for cell in cells}) == 1
    for cell in cells:
        interval = cell.interval()
        half = "" if interval is None else f" ±{50 * (interval[1] - interval[0]):.1f}"
        what = cell.method if one_shift else f"{cell.method}, {cell.shift}"
        table.add_row(
            Text(f"{what}\n  {cell.label}"),
            f"{100 * cell.simulated.utility:.2f}",
            f"{100 * cell.mean():.2f}{half}",
            f"{100 * cell.simulated.availability:.0f}, {100 * cell.mean('availability'):.0f}",
            f"{_ms(cell.simulated.response_p50_ms)}, {_ms(cell.mean('response_p50_ms'))}",
            _verdict(cell),
        )
    out = console()
    if one_shift:
        out.print(f"On {cells[0].shift}:\n")
    out.print(table)
    out.print(f"\n{summary(cells)}")
    if (speed := machine_speed(cells)) is not None:
        out.print(speed)
    if (others := busy_machine()) is not None:
        out.print(others, style="yellow")
    return all(cell.stands for cell in cells)


def machine_speed(cells: list[LivedCell]) -> str | None:
    """Say how fast the machine was next to its profile; None: the profile does not tell."""
    from tempora_tta.serving.live import SAME_SPEED

    speeds_x = sorted(x for cell in cells for x in cell.speeds_x)
    if not speeds_x:
        return None
    said = (
        f"Standard inference took {speeds_x[len(speeds_x) // 2]:.2f} times as long as when the machine was profiled "
        f"({speeds_x[0]:.2f} to {speeds_x[-1]:.2f}), looked at before each life."
    )
    if any(abs(x - 1) > SAME_SPEED for x in speeds_x):
        said += (
            f" A cell lived at a speed more than {100 * SAME_SPEED:.0f} % off is judged by its logic only: profile "
            "again on a quiet machine."
        )
    return said


def busy_machine() -> str | None:
    """That lived times are not this machine's own, where more wanted to run than it has cores."""
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= cores + 0.5:  # our own worker and client are part of it
        return None
    return (
        f"Other programs were at work (load {load:.1f} on {cores} cores), and the lived times hold what they took: "
        "live it again on a quiet machine before you blame the profile."
    )


def _ms(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.1f}"


def _verdict(cell: LivedCell) -> Text:
    from rich.text import Text

    if not cell.logic_agrees:
        return Text("wrong logic", "bold red")
    if cell.outside is not None:
        return Text(f"not judged:\n{cell.outside}", "dim")
    return Text("agrees", "green") if cell.clock_agrees else Text("differs", "bold red")


def summary(cells: list[LivedCell]) -> str:
    """Both comparisons in words."""
    from tempora_tta.serving.live import (
        CLOCK_TOLERANCE,
        LOGIC_TOLERANCE,
        MOST_UTILISATION,
        SHORTEST_DEADLINE_X,
    )

    lives = [life for cell in cells for life in cell.lives]
    judged = [cell for cell in cells if cell.outside is None]
    agreeing = sum(cell.clock_agrees for cell in judged)
    largest = max((abs(cell.clock_error) for cell in judged), default=0.0)
    logic = max(cell.logic_error for cell in cells)
    right = sum(cell.logic_agrees for cell in cells)
    clock = (
        f"{agreeing} of {counted(len(judged), 'cell')} agree within {100 * CLOCK_TOLERANCE:g} point (largest "
        f"difference {100 * largest:.2f})"
        if judged
        else "no cell is of the kind that a profile can be expected to tell"
    )
    return (
        f"Profile against lived: {clock}: those with a schedule of utilisation up to {MOST_UTILISATION:g}, a queue, "
        f"and no deadline below {SHORTEST_DEADLINE_X:g} λ. Not judged, and shown as they are: "
        f"{len(cells) - len(judged)}.\n"
        f"Lived times replayed against lived: {right} of {counted(len(cells), 'cell')} agree within "
        f"{100 * LOGIC_TOLERANCE:g} points (largest difference {100 * logic:.4f}).\n"
        f"lived: mean of {len(lives) // len(cells)}, ± half its 95 % interval. available and response (median): "
        "simulated, then lived."
    )
