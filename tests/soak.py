"""Runs that are killed, doubled and starved of disk, for as long as you let it: python tests/soak.py --minutes 20

Every round makes the same small run (bundled data, a recorded clock) in a folder of its own, gets in its way and lets
it finish. Nothing that was finished may be lost or changed, and what comes out is what an undisturbed run writes,
byte for byte. The counts are printed at the end; the exit status is 1 if anything was found. `--seed` repeats the
choices, not the moments at which processes were hit.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

RUN = (
    *("run", "--shifts", "clean,contrast", "--methods", "standard,tent", "--batches", "3"),
    *("--batch-size", "8", "--threads", "1", "--grid", "none", "--clock", "published:rn50_inc", "--plain"),
    *(
        "--set",
        "data.workers=0",
        "--set",
        "scenarios=[{protocol: discrete, utilisation: 1}, {protocol: amortised, budget_x: 0.25}]",
    ),
)
PREPARED = (
    *("altair", "timm", "torch.utils.data", "vl_convert", "tempora_tta.cli.app", "tempora_tta.progress"),
    *(
        "tempora_tta.data.bundled",
        "tempora_tta.engine.plan",
        "tempora_tta.engine.build",
        "tempora_tta.models.bundled",
        "tempora_tta.report.html",
    ),
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
        reading, self._writing = os.pipe()  # a file could not grow either where files may not
        self.pid = os.fork()
        if self.pid == 0:
            self._become([str(word) for word in words], most_bytes)
        os.close(self._writing)
        self.status: int | None = None
        self._said = bytearray()
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()

    def _read(self, reading: int) -> None:
        while piece := os.read(reading, 1 << 16):
            self._said += piece
        os.close(reading)

    def _become(self, words: list[str], most_bytes: int | None) -> None:
        """In the child: never returns."""
        status = 70
        try:
            os.setsid()
            os.dup2(self._writing, 1)
            os.dup2(self._writing, 2)
            # Python's own would still take them for what they were, such as a file that one can seek in.
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
            from tempora_tta.cli import main

            sys.argv = ["tempora", *words]
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def wait(self) -> int:
        """Its exit status; a finding if it hangs."""
        until = time.monotonic() + LIMIT_S
        while self.status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > until:
                self.kill()
                raise Finding(f"it hangs\n{self.said()}")
            else:
                time.sleep(0.01)
        return self.status

    def kill(self) -> bool:
        """Kill the process; return whether it was still running."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status == -signal.SIGKILL

    def said(self) -> str:
        if self.status is not None:
            self._reader.join(LIMIT_S)
        return bytes(self._said).decode(errors="replace")

    def expect(self, *statuses: int) -> None:
        found = self.wait()
        if found not in statuses or "Traceback" in self.said():
            raise Finding(f"exit status {found}, expected {statuses}\n{self.said()[-3000:]}")


def results(folder: Path) -> Files:
    """The finished files that hold results. run.json tells of the machine and its time, and differs."""
    return {
        path.name: path.read_bytes()
        for path in (*folder.glob("traces/*.parquet"), *folder.glob("utilities.parquet"))
    }


class Soak:
    """Rounds against one reference."""

    def __init__(self, place: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self._place = place
        self._reference: Files = {}
        self._takes_s = 0.0

    def begin(self) -> None:
        """The undisturbed run, twice: the second time is how long one takes once files are cached."""
        for name in ("first", "second"):
            begun = time.monotonic()
            Command(*RUN, "--out", self._place / name).expect(0)
            self._takes_s = time.monotonic() - begun
        self._reference = results(self._place / "first")
        if results(self._place / "second") != self._reference or not self._reference:
            raise Finding("two undisturbed runs differ")

    def round(self) -> None:
        """One round of a random kind."""
        kind = self.rng.choice(KINDS)
        self.counts["rounds"] += 1
        self.counts[f"  {kind.__name__.strip('_').replace('_', ' ')}"] += 1
        folder = self._place / f"round{self.counts['rounds']}"
        try:
            kind(self, folder)
        except Finding as finding:
            self.findings.append(f"round {self.counts['rounds']}, {kind.__name__}: {finding}")
            print(self.findings[-1], flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)

    # -- what is checked ---------------------------------------------------------------------------------------

    def _whole(self, folder: Path, before: Files) -> Files:
        """Traces are there whole or not at all, and those of before are there still."""
        found = results(folder)
        for name, content in found.items():
            if name != "utilities.parquet" and content != self._reference.get(name):
                raise Finding(f"{name} is not what an undisturbed run writes")
        lost = [name for name in before if name not in found]
        if lost:
            raise Finding(f"lost: {', '.join(lost)}")
        return found

    def _finish(self, folder: Path) -> None:
        """Go on with the same command: the results are those of an undisturbed run."""
        Command(*RUN, "--out", folder).expect(0)
        if results(folder) != self._reference:
            raise Finding("the finished run differs from an undisturbed one")
        left = [path.name for path in folder.rglob("*") if path.name.endswith((".part", ".damaged"))]
        if left:
            raise Finding(f"left behind: {', '.join(left)}")
        Command("show", folder).expect(0)

    # -- what gets in the way ----------------------------------------------------------------------------------

    def _kills(self, folder: Path) -> None:
        before: Files = {}
        for _ in range(self.rng.randint(1, 4)):
            command = Command(*RUN, "--out", folder)
            time.sleep(self.rng.uniform(0, 1.1 * self._takes_s))
            self.counts["processes killed"] += command.kill()
            before = self._whole(folder, before)
        self._finish(folder)

    def _two_writers(self, folder: Path) -> None:
        writers = [Command(*RUN, "--out", folder)]
        time.sleep(self.rng.uniform(0, self._takes_s))
        writers.append(Command(*RUN, "--out", folder))
        if self.rng.random() < 0.5:
            time.sleep(self.rng.uniform(0, self._takes_s))
            self.counts["processes killed"] += self.rng.choice(writers).kill()
        for writer in writers:
            if writer.status is None:
                writer.expect(0, 1)
                if writer.status == 1:
                    self.counts["second writers refused"] += 1
                    if "is in use by another run" not in " ".join(writer.said().split()):
                        raise Finding(f"refused without saying why\n{writer.said()}")
        self._whole(folder, {})
        self._finish(folder)

    def _files_that_may_not_grow(self, folder: Path) -> None:
        """As a quota does it: somewhere in the run a file cannot be written to its end."""
        before: Files = {}
        for _ in range(self.rng.randint(1, 2)):
            command = Command(
                *RUN, "--out", folder, most_bytes=self.rng.choice((1, 500, 5_000, 10_000, 20_000, 100_000))
            )
            self._expect_full(command)
            before = self._whole(folder, before)
        self._finish(folder)

    def _full_disk(self, folder: Path) -> None:
        """A real one, where this process may mount it."""
        with small_disk(folder, self.rng.choice((20, 60, 120, 200, 400))) as mounted:
            if not mounted:
                self.counts["disks that could not be mounted"] += 1
                return
            self._expect_full(Command(*RUN, "--out", folder / "run"))
            before = self._whole(folder / "run", {})
            subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True, capture_output=True)
            self._whole(folder / "run", before)
            self._finish(folder / "run")

    def _expect_full(self, command: Command) -> None:
        command.expect(0, 1)
        if command.status == 1:
            self.counts["full disks"] += 1
            said = " ".join(command.said().split())
            if not any(
                words in said for words in ("the disk is full", "cannot write", "cannot make the run folder")
            ):
                raise Finding(f"a full disk is not said\n{command.said()[-3000:]}")

    def _killed_reports(self, folder: Path) -> None:
        shutil.copytree(self._place / "first", folder)
        page = (folder / "report.html").read_bytes()
        for _ in range(3):
            command = Command("report", folder)
            time.sleep(self.rng.uniform(0, 0.3 * self._takes_s))
            self.counts["processes killed"] += command.kill()
            if (folder / "report.html").read_bytes() != page:
                raise Finding("report.html changed, though the run did not")
        Command("report", folder).expect(0)
        if list(folder.glob("*.part")):
            raise Finding("a killed report's file is still there")
        if results(folder) != self._reference:
            raise Finding("a report changed the results")

    def _killed_merges(self, folder: Path) -> None:
        parts = [folder / "1", folder / "2"]
        for shift, part in zip(("clean", "contrast"), parts, strict=True):
            Command(*RUN, "--shifts", shift, "--out", part).expect(0)
        before = [results(part) for part in parts]
        command = Command("merge", *parts, "--out", folder / "all")
        time.sleep(self.rng.uniform(0, 0.3 * self._takes_s))
        self.counts["processes killed"] += command.kill()
        if [results(part) for part in parts] != before:
            raise Finding("a merge changed its parts")
        self._finish(folder / "all")


KINDS: tuple[Callable[[Soak, Path], None], ...] = (
    *(Soak._kills, Soak._kills, Soak._two_writers, Soak._files_that_may_not_grow, Soak._full_disk),
    *(Soak._killed_reports, Soak._killed_merges),
)


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[bool]:
    """Mount a disk in memory of that many kilobytes at `folder`; yield False where it cannot be mounted."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    mounted = (
        hasattr(os, "geteuid")
        and os.geteuid() == 0
        and shutil.which("mount") is not None
        and subprocess.run(mount, capture_output=True).returncode == 0
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


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
        soak.begin()
        while time.monotonic() < until and (given.rounds is None or soak.counts["rounds"] < given.rounds):
            soak.round()
    for what, count in soak.counts.items():
        print(f"{count:6} {what}")
    print(f"{len(soak.findings)} findings" if soak.findings else "nothing lost, nothing changed")
    sys.exit(bool(soak.findings))


if __name__ == "__main__":
    main()
