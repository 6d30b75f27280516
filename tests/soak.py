"""Runs that are killed, doubled and starved of disk, for as long as you let it: python tests/soak.py --minutes 20

Every round makes the same small run (bundled data, a recorded clock) in a folder of its own, gets in its way and lets
it finish. Nothing that was finished may be lost or changed, and what comes out is what an undisturbed run writes,
byte for byte. The counts are printed at the end; the exit status is 1 if anything was found. `--seed` repeats the
choices, not the moments at which processes were hit.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tempora_tta.cli import main as tempora

RUN = (
    *("run", "--shifts", "clean,contrast", "--methods", "standard,tent", "--batches", "3"),
    *("--batch-size", "8", "--threads", "1", "--grid", "none", "--clock", "published:rn50_inc", "--plain"),
    *("--set", "data.workers=0", "--set"),
    "scenarios=[{protocol: discrete, utilisation: 1}, {protocol: amortised, budget_x: 0.25}]",
)
PREPARED = (
    *("altair", "timm", "torch.utils.data", "vl_convert", "tempora_tta.cli.app", "tempora_tta.progress"),
    *("tempora_tta.data.bundled", "tempora_tta.engine.plan", "tempora_tta.engine.build"),
    *("tempora_tta.models.bundled", "tempora_tta.report.html"),
)
"""Imported before forking, so that a command begins at once."""
LIMIT_S = 300.0
"""A command that takes longer hangs: one takes a few seconds."""

Files = dict[str, bytes]


class Finding(Exception):
    """Something was lost, changed or ended as it must not."""


class Command:
    """`tempora ...` in a process of its own, forked from this one, which has imported everything already."""

    def __init__(self, *words: str | Path, most_bytes: int | None = None) -> None:
        # A pipe holds all that one prints; a file could not grow either where files may not.
        self._reading, writing = os.pipe()
        given = (writing, [str(word) for word in words], most_bytes)
        self._process = multiprocessing.get_context("fork").Process(target=become, args=given)
        self._process.start()
        os.close(writing)

    def kill(self) -> bool:
        """Kill the process; return whether it was still running."""
        self._process.kill()
        self._process.join()
        return self._process.exitcode == -9

    def ends(self, *statuses: int) -> str:
        """Wait for one of these exit statuses, and return what it printed."""
        self._process.join(LIMIT_S)
        hangs = self._process.is_alive() and self.kill()
        said = os.read(self._reading, 1 << 16).decode(errors="replace")
        if hangs or self._process.exitcode not in statuses or "Traceback" in said:
            raise Finding(f"exit status {self._process.exitcode}, expected {statuses}\n{said[-3000:]}")
        return " ".join(said.split()) if self._process.exitcode else ""


def become(writing: int, words: list[str], most_bytes: int | None) -> None:
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    # Python's own would still take them for what they were, such as a file that one can seek in.
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    sys.argv = ["tempora", *words]
    tempora()


def results(folder: Path) -> Files:
    """The finished files that hold results. run.json tells of the machine and its time, and differs."""
    found = (*folder.glob("traces/*.parquet"), *folder.glob("utilities.parquet"))
    return {path.name: path.read_bytes() for path in found}


class Soak:
    """Rounds against one reference."""

    def __init__(self, place: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.place = place
        for name in ("first", "second"):  # how long one takes once files are cached
            begun = time.monotonic()
            Command(*RUN, "--out", place / name).ends(0)
            self.takes_s = time.monotonic() - begun
        self.reference = results(place / "first")
        if results(place / "second") != self.reference or not self.reference:
            raise Finding("two undisturbed runs differ")

    def round(self) -> None:
        """One round of a random kind."""
        kind = self.rng.choice(KINDS)
        self.counts["rounds"] += 1
        self.counts[f"  {kind.__name__.replace('_', ' ')}"] += 1
        folder = self.place / f"round{self.counts['rounds']}"
        try:
            kind(self, folder)
        except Finding as finding:
            self.findings.append(f"round {self.counts['rounds']}, {kind.__name__}: {finding}")
            print(self.findings[-1], flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def kill(self, command: Command, within: float) -> None:
        """Kill it at some moment within a share of the time that a run takes."""
        time.sleep(self.rng.uniform(0, within * self.takes_s))
        self.counts["processes killed"] += command.kill()

    def whole(self, folder: Path, before: Files) -> Files:
        """Traces are there whole or not at all, and those of before are there still."""
        found = results(folder)
        for name, content in found.items():
            if name != "utilities.parquet" and content != self.reference.get(name):
                raise Finding(f"{name} is not what an undisturbed run writes")
        if lost := before.keys() - found.keys():
            raise Finding(f"lost: {', '.join(lost)}")
        return found

    def finish(self, folder: Path) -> None:
        """Go on with the same command: the results are those of an undisturbed run."""
        Command(*RUN, "--out", folder).ends(0)
        if results(folder) != self.reference:
            raise Finding("the finished run differs from an undisturbed one")
        left = [path.name for path in folder.rglob("*") if path.name.endswith((".part", ".damaged"))]
        if left:
            raise Finding(f"left behind: {', '.join(left)}")
        Command("show", folder).ends(0)


# -- what gets in the way --------------------------------------------------------------------------------------


def kills(soak: Soak, folder: Path) -> None:
    before: Files = {}
    for _ in range(soak.rng.randint(1, 4)):
        soak.kill(Command(*RUN, "--out", folder), 1.1)
        before = soak.whole(folder, before)
    soak.finish(folder)


def two_writers(soak: Soak, folder: Path) -> None:
    first = Command(*RUN, "--out", folder)
    time.sleep(soak.rng.uniform(0, soak.takes_s))
    refused = [said for one in (Command(*RUN, "--out", folder), first) if (said := one.ends(0, 1))]
    soak.counts["second writers refused"] += len(refused)
    if any("in use" not in said for said in refused):
        raise Finding(f"refused without saying why\n{refused}")
    soak.finish(folder)


def files_that_may_not_grow(soak: Soak, folder: Path) -> None:
    """As a quota or a full disk does it: somewhere in the run a file cannot be written to its end."""
    most = soak.rng.choice((1, 500, 5_000, 10_000, 20_000, 100_000))
    said = Command(*RUN, "--out", folder, most_bytes=most).ends(0, 1)
    soak.counts["full disks"] += bool(said)
    if said and not any(words in said for words in ("the disk is full", "cannot write", "cannot make")):
        raise Finding(f"a full disk is not said\n{said[-3000:]}")
    soak.whole(folder, {})
    soak.finish(folder)


def killed_reports(soak: Soak, folder: Path) -> None:
    shutil.copytree(soak.place / "first", folder)
    page = (folder / "report.html").read_bytes()
    soak.kill(Command("report", folder), 0.3)
    if (folder / "report.html").read_bytes() != page:
        raise Finding("report.html changed, though the run did not")
    soak.finish(folder)


def killed_merges(soak: Soak, folder: Path) -> None:
    parts = [folder / "1", folder / "2"]
    for shift, part in zip(("clean", "contrast"), parts, strict=True):
        Command(*RUN, "--shifts", shift, "--out", part).ends(0)
    before = [results(part) for part in parts]
    soak.kill(Command("merge", *parts, "--out", folder / "all"), 0.3)
    if [results(part) for part in parts] != before:
        raise Finding("a merge changed its parts")
    soak.finish(folder / "all")


KINDS: tuple[Callable[[Soak, Path], None], ...] = (
    *(kills, kills, two_writers, files_that_may_not_grow, killed_reports, killed_merges),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, help="stop after this many, if the minutes are not over before")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    for module in PREPARED:
        importlib.import_module(module)
    until = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="tempora-soak-") as place:
        soak = Soak(Path(place), given.seed)
        while time.monotonic() < until and (given.rounds is None or soak.counts["rounds"] < given.rounds):
            soak.round()
    for what, count in soak.counts.items():
        print(f"{count:6} {what}")
    print(f"{len(soak.findings)} findings" if soak.findings else "nothing lost, nothing changed")
    sys.exit(bool(soak.findings))


if __name__ == "__main__":
    main()
