"""Ten thousand spoilt inputs by one command: python tests/fuzz/run.py --cases 10000 [--seed S] [--target T]

Never a traceback for a user's mistake, never a hang, never a wrong result without a warning. Every failure prints the
line that reproduces it; the exit status is 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator

import command_lines
import configurations
import image_files
import packs
import parquet_files
import run_folders
import schedules
from cases import Failure, Target, run_case

TARGETS: dict[str, tuple[Target, int]] = {
    "configurations": (configurations.case, 30),
    "command_lines": (command_lines.case, 20),
    "run_folders": (run_folders.case, 15),
    "parquet_files": (parquet_files.case, 15),
    "image_files": (image_files.case, 15),
    "packs": (packs.case, 10),
    "schedules": (schedules.case, 20),
}
"""Each with its share among the cases. A new kind of input is a file with a function `case(rng)`, and a line here."""
MOST_MEMORY_BYTES = 8 << 30
"""Bytes that a case may ask for: a spoilt number made it ask for more."""


def plan(cases: int, seed: int = 0, only: str | None = None) -> Iterator[tuple[str, int]]:
    """Yield the cases: `cases` from `seed` on, of one target or of all by their shares."""
    if only is not None:
        yield from ((only, number) for number in range(seed, seed + cases))
        return
    shares = sum(share for _, share in TARGETS.values())
    for name, (_, share) in TARGETS.items():
        yield from ((name, number) for number in range(seed, seed + max(1, cases * share // shares)))


def run(cases: list[tuple[str, int]], progress: bool = False) -> list[Failure]:
    """Run the cases; the failures."""
    failures: list[Failure] = []
    spent: Counter[str] = Counter()
    shown = 0.0
    for done, (name, seed) in enumerate(cases):
        if progress and time.monotonic() > shown + 10:
            shown = time.monotonic()
            print(f"{done}/{len(cases)}: {name} {seed}, {len(failures)} failed", file=sys.stderr, flush=True)
        begin = time.perf_counter()
        failure = run_case(name, TARGETS[name][0], seed)
        spent[name] += time.perf_counter() - begin
        if failure is not None:
            failures.append(failure)
            if progress:
                print(f"{failure}\n", flush=True)
    if progress:
        counts = Counter(name for name, _ in cases)
        failed = Counter(failure.target for failure in failures)
        for name, count in counts.items():
            print(f"{name:15} {count:6} cases {spent[name]:7.1f} s {failed[name]:4} failed")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first case's number")
    parser.add_argument("--target", choices=TARGETS)
    given = parser.parse_args()
    import resource  # not on every system that runs the tests

    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    failures = run(list(plan(given.cases, given.seed, given.target)), progress=True)
    print(
        f"{len(failures)} of {given.cases} cases failed" if failures else f"{given.cases} cases, none failed"
    )
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
