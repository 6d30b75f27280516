"""All of the project's benchmarks in one table of ratios, beside the committed one.

    python benchmarks/all.py                          everything, on the CPU
    python benchmarks/all.py --quick --only serve,data    less work, of these two
    python benchmarks/all.py --device cuda --save     and make this the committed table of this kind of device

Each benchmark runs in a process of its own, three times, in turns. On a CPU with one thread unless OMP_NUM_THREADS
says otherwise: threads that wait for each other multiply the noise of a shared machine.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import ratios
from common import RESULTS, Device, JsonFile, console
from ratios import TOLERANCE, Change, Ratio, Table, Verdict
from tempora_tta._numbers import percent
from tempora_tta.errors import TemporaError, unknown

HERE = Path(__file__).parent
REPEATS = 3


class Work(NamedTuple):
    """A benchmark's arguments."""

    full: str
    quick: str


ANY_DEVICE = {
    "serve": Work("", ""),
    "report": Work("", "--shifts 4 --batches 200"),
    "scaling": Work("", ""),
}
WORK = {
    "cpu": {
        "engine": Work("", "--batches 20 --batch-size 16 --only standard,neo,tent"),
        "methods": Work(
            "--model fashion_resnet --pretrained --repeats 12",
            "--model fashion_resnet --pretrained --repeats 5",
        ),
        "data": Work("", "--images 1024 --repeats 3"),
        "corruptions": Work("", "--images 8"),
        **ANY_DEVICE,
    },
    "cuda": {
        "engine": Work(
            "--device cuda --model resnet50 --batches 16", "--device cuda --model resnet50 --batches 4"
        ),
        "methods": Work("--device cuda --model resnet50", "--device cuda --model resnet50 --repeats 5"),
        "data": Work("--device cuda", "--device cuda --images 1024 --repeats 1"),
        "corruptions": Work("--device cuda --images 64", "--device cuda --images 64"),
        **ANY_DEVICE,
    },
}


def chosen(device: str, quick: bool, only: str) -> dict[str, str]:
    """The arguments of each benchmark that shall run."""
    if device not in WORK:
        raise unknown("device", device, WORK)
    names = only.split(",") if only else list(WORK[device])
    for name in names:
        if name not in WORK[device]:
            raise unknown("benchmark", name, WORK[device])
    return {name: WORK[device][name].quick if quick else WORK[device][name].full for name in names}


def run(name: str, arguments: str, device: str) -> dict[str, Any]:
    """The figures that one benchmark writes."""
    environment = os.environ if device == "cuda" else {"OMP_NUM_THREADS": "1", **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "figures.json"
        command = [sys.executable, str(HERE / f"{name}.py"), *shlex.split(arguments), "--json", str(written)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise TemporaError((done.stderr.strip().splitlines() or ["no message"])[-1])
        figures: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
        return figures


def run_all(work: dict[str, str], device: str) -> tuple[list[Ratio], dict[str, str]]:
    """The ratios of those that worked, and what the others said."""
    figures: dict[str, list[dict[str, Any]]] = {name: [] for name in work}
    failed: dict[str, str] = {}
    for turn in range(REPEATS):
        for name in [name for name in work if name not in failed]:
            start = time.perf_counter()
            try:
                figures[name].append(run(name, work[name], device))
            except TemporaError as error:
                failed[name] = str(error)
            seconds = time.perf_counter() - start
            console.print(f"turn {turn + 1} of {REPEATS}: {name} ({seconds:.0f} s)", style="dim")
    worked = [name for name in work if name not in failed]
    return [ratio for name in worked for ratio in ratios.from_repeats(name, figures[name])], failed


def about(device: str, quick: bool, load: float) -> dict[str, Any]:
    """What a reader of the table needs to know; nothing that names the machine or its folders."""
    import torch

    from tempora_tta.measure.machine import device_kind, machine_facts

    if device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    facts = machine_facts(torch.device(device))
    return {
        "device": device_kind(facts),
        "cores": facts["cores"],
        "torch": torch.__version__,
        "python": facts["python"],
        "commit": facts["commit"],
        "changed_since_commit": facts["dirty"],
        "date": datetime.date.today().isoformat(),
        "load": load,
        "quick": quick,
    }


def committed(device: str, facts: dict[str, Any]) -> Path:
    """Where the committed table of this kind of device is: one for all CPUs, one for each GPU."""
    kind = "cpu" if device == "cpu" else facts["device"].lower().replace("nvidia", "").strip()
    return RESULTS / f"ratios-{kind.replace(' ', '-')}.json"


STYLES: dict[Verdict, str] = {"WORSE": "bold red", "better": "green", "gone": "red"}


def show(changes: list[Change], now: Table, before: Table | None) -> None:
    """One line per ratio, under what it means."""
    console.print(f"  {'':31}{'now':>8}  {'repeats':16}{'committed':>9}{'change':>8}", style="bold")
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(heading(change.ratio), []).append(change)
    for title, members in groups.items():
        console.print(title)
        for change in members:
            console.print(line(change), style=STYLES.get(change.verdict, ""), soft_wrap=True)
    if before is None:
        console.print("Nothing is committed for this kind of device yet: --save makes this the first table.")
        return
    console.print(
        f"Marked are medians that moved by over {percent(TOLERANCE, 0)} with repeats that do not overlap."
    )
    for key in ("device", "cores", "torch", "python"):
        then, here = before.about[key], now.about[key]
        if then != here:
            console.print(f"Committed with {key} {then}, here {here}: a change may be that.", style="yellow")


def heading(ratio: Ratio) -> str:
    direction = "seconds, orientation only" if ratio.better == "orientation" else f"{ratio.better} is better"
    return f"[bold]{ratio.benchmark}[/]: {ratio.meaning} ({direction})"


def line(change: Change) -> str:
    ratio, before, verdict = change.ratio, change.before, change.verdict
    repeats = f"{min(ratio.values):.3g} – {max(ratio.values):.3g}"
    found = "" if verdict == "gone" else f"{ratio.value:8.3g}  {repeats}"
    then = f"{before.value:.3g}" if before else ""
    moved = ""
    if before and before.value and verdict in ("WORSE", "better", "same"):
        moved = f"{ratio.value / before.value - 1:+.0%}"
    mark = "" if verdict == "same" else verdict
    return f"  {ratio.name:31}{found:26}{then:>9}{moved:>8}  {mark}".rstrip()


def main(
    device: Device = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Less work: a few minutes on two cores.")] = False,
    only: Annotated[str, typer.Option(help="Benchmarks, with commas; default all.")] = "",
    save: Annotated[bool, typer.Option("--save", help="Make this the committed table.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a ratio got worse or lost.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Run the benchmarks and print their ratios beside the committed ones."""
    try:
        work = chosen(device, quick, only)
    except TemporaError as error:
        raise typer.BadParameter(str(error)) from None
    if save and only:
        raise typer.BadParameter("a committed table holds every benchmark: leave out --only or --save")
    load = round(os.getloadavg()[0], 1)  # of others: ours has not begun
    rows, failed = run_all(work, device)
    facts = about(device, quick, load)
    commands = {
        name: f"python benchmarks/{name}.py {arguments}".strip()
        for name, arguments in work.items()
        if name not in failed
    }
    now, path = Table(facts, commands, rows), committed(device, facts)
    before = Table.load(path) if path.exists() else None
    changes = ratios.compare(now, before)
    show(changes, now, before)
    if json_file is not None:
        now.save(json_file)
    for name, message in failed.items():
        console.print(f"{name} failed: {message}", style="red")
    if failed:
        raise typer.Exit(1)
    if save:
        now.save(path)
        console.print(f"Saved as benchmarks/results/{path.name}; python benchmarks/page.py shows it in docs.")
    if strict and any(change.verdict in ("WORSE", "gone") for change in changes):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
