"""Measures what the tests protect: makes small mistakes in all rooms, and counts those that a test catches.

    pip install coverage
    python tests/mutants.py cover map.json              # the default suite once: which test runs which line
    python tests/mutants.py run map.json caught.json    # 200 mistakes, each against the tests that run its line
    python tests/mutants.py run map.json after.json --again caught.json   # the same ones, where they still exist

A mistake flips a comparison, moves a constant, drops a statement or swaps two arguments. Tests run from the fastest
to the slowest until one fails or `--seconds` of them are over. What other processes run is not in the map.
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tempora_tta"
PREPARED = (
    "timm",
    "torchvision",
    "pandas",
    "altair",
    "vl_convert",
    "hypothesis",
    "pytest",
    "typer",
    "pydantic",
)
"""Imported once, before forking."""
HANGS_S = 300.0
"""A mistake whose tests take longer was caught."""
OPPOSITE = [
    (ast.Lt, ast.GtE),
    (ast.Gt, ast.LtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
]
FLIPPED = {one: other for pair in OPPOSITE for one, other in (pair, pair[::-1])}

Tests = dict[str, float]
"""Names of tests, and the seconds that each takes."""


class Mutant(NamedTuple):
    """One mistake."""

    file: str
    node: int
    """Place of the changed node in `ast.walk`."""
    line: int
    change: str
    """Names it wherever it stands in the file: the code before and after, and a number among equals."""

    @property
    def room(self) -> str:
        return self.file.partition("/")[0] if "/" in self.file else "root"

    def source(self) -> str:
        tree = ast.parse((PACKAGE / self.file).read_text())
        mutate(list(ast.walk(tree))[self.node])
        return ast.unparse(tree)


def mutants() -> Iterator[Mutant]:
    """List every mistake that can be made in the package."""
    for file in sorted(PACKAGE.rglob("*.py")):
        seen: collections.Counter[str] = collections.Counter()
        for number, node in enumerate(ast.walk(ast.parse(file.read_text()))):
            other = copy.deepcopy(node)
            if mutate(other):
                was, now = (" ".join(ast.unparse(each).split())[:150] for each in (node, other))
                change = f"{was} -> {now}"
                seen[change] += 1
                name = file.relative_to(PACKAGE).as_posix()
                yield Mutant(name, number, getattr(node, "lineno", 0), f"{change} #{seen[change]}")


def mutate(node: ast.AST) -> bool:
    """Make a mistake in this node; False where none of ours can be made."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in FLIPPED:
            node.ops[0] = FLIPPED[type(op)]()
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value) | float(value)):
            node.value = value + 1
        case ast.Call(args=[ast.Name() | ast.Attribute() as one, ast.Name() | ast.Attribute() as two, *_]):
            node.args[:2] = [two, one]
        case ast.Expr(value=ast.Call(func=func)):
            node.value = func  # named, and not called
        case _:
            return False
    return True


def drawn(count: int, seed: int) -> list[Mutant]:
    """Draw mistakes from every room by its size, three at least."""
    rooms: dict[str, list[Mutant]] = collections.defaultdict(list)
    for mutant in mutants():
        rooms[mutant.room].append(mutant)
    total, draw = sum(map(len, rooms.values())), random.Random(seed)
    return [
        mutant
        for _, found in sorted(rooms.items())
        for mutant in draw.sample(found, min(len(found), max(3, round(count * len(found) / total))))
    ]


# -- which test runs which line: this file is a plugin of pytest, too --------------------------------------------


class Recorder:
    """Asks coverage which lines each test runs, and notes how long it takes."""

    def __init__(self, out: str) -> None:
        from coverage import Coverage

        self.out = Path(f"{out}.{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
        self.coverage = Coverage(data_file=f"{self.out}.lines", source=[str(PACKAGE)], config_file=False)
        self.seconds: Tests = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.passed:
            self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {
            Path(name).relative_to(PACKAGE).as_posix(): data.contexts_by_lineno(name)
            for name in data.measured_files()
        }
        self.out.write_text(json.dumps({"lines": lines, "seconds": self.seconds}))


def pytest_configure(config: Any) -> None:
    if os.environ.get("MUTANTS_MAP"):
        recorder = Recorder(os.environ["MUTANTS_MAP"])
        config.pluginmanager.register(recorder)
        recorder.coverage.start()


def cover(out: Path) -> None:
    """Run the default suite once and write which test runs which line."""
    paths = [str(ROOT / "tests"), str(ROOT / "src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MUTANTS_MAP": str(out)}
    subprocess.run([sys.executable, "-m", "pytest", "-p", "mutants"], cwd=ROOT, env=environment, check=False)
    lines: dict[str, dict[str, list[str]]] = {}
    seconds: Tests = {}
    for part in out.parent.glob(f"{out.name}.gw?"):
        found = json.loads(part.read_text())
        seconds |= found["seconds"]
        for file, tests in found["lines"].items():
            for line, names in tests.items():
                lines.setdefault(file, {}).setdefault(line, []).extend(filter(None, names))
    out.write_text(json.dumps({"lines": lines, "seconds": seconds}))


# -- running the tests of a line against a mistake in it ------------------------------------------------------------


class Noted:
    """Writes the name of the test that fails."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.file.write_text(report.nodeid)


def killer(mutant: Mutant, tests: list[str]) -> str:
    """Run tests against the package with this mistake in it, forked from this process; name the one that fails."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder, "tempora_tta")
        shutil.copytree(PACKAGE, copied, copy_function=os.symlink)
        (copied / mutant.file).unlink()
        (copied / mutant.file).write_text(mutant.source())
        noted = Path(folder, "noted")
        child = os.fork()
        if child == 0:
            os.setsid()
            os.chdir(ROOT)
            os.environ["PYTHONPATH"] = folder
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            sys.path.insert(0, folder)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1), os.dup2(quiet, 2)
            import pytest

            status = pytest.main([*tests, "-x", "-n", "0", "-p", "no:cacheprovider"], plugins=[Noted(noted)])
            os._exit(int(status != 0))
        until = time.monotonic() + HANGS_S
        while time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return noted.read_text() if noted.exists() else "collection" if status else ""
            time.sleep(0.05)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "it hangs"


def tests_of(mutant: Mutant, covered: dict[str, Any], seconds: float) -> list[str]:
    """Name the tests that run its line, from the fastest on, until they take too long.

    Lines that only an import runs are tried by the tests of the file; a file of constants by those of its room.
    """
    lines, known = covered["lines"].get(mutant.file, {}), covered["seconds"]
    names = lines.get(str(mutant.line)) or [name for names in lines.values() for name in names]
    names = names or [name for name in known if name.startswith(f"tests/{mutant.room}/")]
    chosen, left = [], seconds
    for name in sorted(set(names), key=known.get):
        left -= known[name]
        if chosen and left < 0:
            break
        chosen.append(name)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["cover", "run"])
    parser.add_argument("map", type=Path)
    parser.add_argument("out", type=Path, nargs="?", help="of run: what is there already is not done again")
    parser.add_argument("--again", type=Path, help="mistakes drawn before, as far as they still can be made")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2025)
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests against each mistake")
    asked = parser.parse_args()
    if asked.command == "cover":
        cover(asked.map)
        return
    for name in PREPARED:
        importlib.import_module(name)
    covered = json.loads(asked.map.read_text())
    results = json.loads(asked.out.read_text()) if asked.out.exists() else []
    done = {(entry["file"], entry["change"]) for entry in results}
    mistakes = drawn(asked.count, asked.seed)
    if asked.again:
        before = {(entry["file"], entry["change"]) for entry in json.loads(asked.again.read_text())}
        mistakes = [mutant for mutant in mutants() if (mutant.file, mutant.change) in before]
    random.Random(asked.seed).shuffle(mistakes)  # so that a part of them says as much of every room
    for mutant in mistakes:
        if (mutant.file, mutant.change) in done:
            continue
        tests = tests_of(mutant, covered, asked.seconds)
        found = killer(mutant, tests) if tests else ""
        results.append({**mutant._asdict(), "room": mutant.room, "tests": len(tests), "caught": found})
        print(f"{found or 'NOT CAUGHT'}: {mutant.file}:{mutant.line} {mutant.change}", flush=True)
        asked.out.write_text(json.dumps(results, indent=1))
    rooms = collections.Counter(entry["room"] for entry in results)
    alive = collections.Counter(entry["room"] for entry in results if not entry["caught"])
    for room, count in rooms.items():
        print(f"{room:12} {count - alive[room]:4} of {count}")
    print(f"{'all':12} {len(results) - alive.total():4} of {len(results)}")


if __name__ == "__main__":
    main()
