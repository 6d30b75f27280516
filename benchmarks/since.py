"""Report and analysis beside those of an earlier commit: CPU time on one run folder, made by the earlier commit.

    python benchmarks/since.py                         16 shifts x 10 methods x 17 scenarios x 781 batches
    python benchmarks/since.py --shifts 3 --methods 6 --batches 31          about the size of the demo
    python benchmarks/since.py --before COMMIT

Both trees run in processes of their own, in turns; each figure is the least of its repeats, because others on the
machine only ever add to it. `report` is the whole page. `page` is the page without what the earlier one did not have:
how sure its winners are (`doubt`, with the reading of the passes that only this needs).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from common import JsonFile, console, write

ROOT = Path(__file__).resolve().parent.parent
FIRST = "2cfb741"
"""Version 0.1.0: the last commit before cards, doubt and streams."""

MAKE = """
import sys
from pathlib import Path
from report.made_run import METHODS, Pace, make_run
from tempora_tta.published.setups import CORRUPTIONS

folder, shifts, methods, batches = Path(sys.argv[1]), *map(int, sys.argv[2:])
more = {"neo": Pace(39.0, 0.0, 0.02), "eta": Pace(42.0, 52.0, 0.2), "shot_im": Pace(42.0, 70.0, 0.17),
        "deyo": Pace(45.0, 85.0, 0.22), "cmf": Pace(42.0, 118.0, 0.24), "spa": Pace(60.0, 190.0, 0.23),
        "zerosiam": Pace(50.0, 90.0, 0.21)}
paces = dict(list({**METHODS, **more}.items())[:methods])
names = (*CORRUPTIONS, "clean")[:shifts]
make_run(folder, methods=paces, shifts={name: 0.3 + 0.02 * place for place, name in enumerate(names)},
         batches=batches, batch_size=64)
"""
"""Run with the earlier commit's own builder of folders."""

TIME = """
import gc, json, sys, time
from pathlib import Path
import tempora_tta as tempora
from tempora_tta import analysis
from tempora_tta.errors import TemporaError
from tempora_tta.report.figures import make_figures
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.html import charts, write_report
from tempora_tta.report.tables import build

folder, out = Path(sys.argv[1]), Path(sys.argv[2])
found = {}

def timed(name, work):
    gc.collect()  # of what was made before
    start = time.process_time()
    made = work()
    found[name] = time.process_time() - start
    return made

def analyse(utilities):
    cells = analysis.winners(utilities)
    analysis.win_counts(cells), analysis.headline(utilities), analysis.findings(utilities)
    analysis.correlation_summary(analysis.correlations(utilities)), analysis.break_even(utilities)
    analysis.phase_transitions(cells), analysis.pareto_front(analysis.pool(utilities))

charts.scripts()
write_report(tempora.open_run(folder), out / "page.html")  # imports, and the charts' specifications
results = tempora.open_run(folder)
timed("analysis", lambda: analyse(results.utilities))
batches = offline_batches(results)
told = {"cards": results.cards} if hasattr(results, "cards") else {}
for name in ("winners", "offline", "discrete", "continuous", "amortised", "sweep", "overhead", "temporal-factors",
             "correlation", "deficit", "below-standard", "response", "ablation"):
    timed(f"table {name}", lambda: build(name, results.utilities, batches, **told))
timed("report", lambda: write_report(tempora.open_run(folder), out / "page.html"))
found["page"] = found["report"]
try:
    from tempora_tta.analysis.doubt import doubt
except ImportError:
    pass
else:
    again = tempora.open_run(folder)
    for key in set(again.utilities["adapting_pass"].dropna()):
        again.folder.trace(key, predictions=False)  # the page shows these in any case
    timed("doubt", lambda: doubt(again))
    found["page"] -= found["doubt"]
print(json.dumps(found))
"""
"""What both versions understand."""


def run(tree: Path, program: str, *arguments: str) -> str:
    """What a program prints that runs on the package of a tree, one thread."""
    paths = os.pathsep.join([str(tree / "src"), str(tree / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def main(
    before: Annotated[str, typer.Option(help="The commit to compare with.")] = FIRST,
    shifts: Annotated[int, typer.Option(help="16: clean images, too.")] = 16,
    methods: Annotated[int, typer.Option(help="12 at most.")] = 10,
    batches: int = 781,
    repeats: int = 3,
    json_file: JsonFile = None,
) -> None:
    """Print and write the CPU seconds of both, and their ratios."""
    with tempfile.TemporaryDirectory() as scratch:
        tree, folder = Path(scratch) / "before", Path(scratch) / "run"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(tree), before], check=True, capture_output=True)
        try:
            run(tree, MAKE, str(folder), str(shifts), str(methods), str(batches))
            turns = [
                [json.loads(run(one, TIME, str(folder), scratch)) for one in (tree, ROOT)]
                for _ in range(repeats)
            ]
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True, capture_output=True)
    then, now = (
        {name: min(turn[side][name] for turn in turns) for name in turns[0][side]} for side in (0, 1)
    )
    console.print(f"{'CPU seconds':24}{before:>9}{'now':>9}{'ratio':>9}")
    figures: dict[str, Any] = {"before": before, "shifts": shifts, "methods": methods, "batches": batches}
    figures["repeats"] = repeats
    for name, seconds in now.items():
        earlier = then.get(name)
        ratio = None if earlier is None else seconds / earlier
        figures[name] = {"before_s": earlier, "now_s": seconds, "ratio": ratio}
        shown = ("", "") if earlier is None else (f"{earlier:.3f}", f"{seconds / earlier:.2f}")
        console.print(f"{name:24}{shown[0]:>9}{seconds:9.3f}{shown[1]:>9}")
    write(figures, json_file)


if __name__ == "__main__":
    typer.run(main)
