"""What the shell offers behind Tab besides commands and options: names, and run folders.

The names are those of `names.py`, which imports nothing. Words of other rooms are written out, because the shell
must not wait for pandas; a test compares them with what there is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from tempora_tta.names import CORRUPTION_GROUPS, EXTRA_CORRUPTIONS, PROFILES, SUITES

Complete = Callable[[str], list[str]]

SHIFTS = (
    *("all", *CORRUPTION_GROUPS, "extra"),
    *(name for group in CORRUPTION_GROUPS.values() for name in group),
    *EXTRA_CORRUPTIONS,
)
CONSTANTS = ("imagenet", "cifar", "fashion")
CLOCKS = (
    *("steady", "measured", "published:rn50_inc", "published:vit_inc"),
    *(f"library:{name}" for name in PROFILES),
)
RUNTIMES = ("eager", "tf32", "channels_last", "amp", "compile")
PREDICTING = ("tf32", "amp", "channels_last")
DEVICES = ("auto", "cpu", "cuda", "mps")
EXECUTORS = ("local", "ray")
HOOKS = ("mlflow", "wandb")
SELECTORS = ("labels", "mutual_information", "confidence", "entropy", "atc")
TABLES = (
    *("winners", "offline", "discrete", "continuous", "amortised", "sweep", "overhead", "temporal-factors"),
    *(
        "correlation",
        "deficit",
        "below-standard",
        "buffering",
        "response",
        "ablation",
        "hardware",
        "segments",
        "stream",
        "regret",
        "certainty",
        "seeds",
    ),
)
FORMATS = ("terminal", "latex", "markdown", "csv", "json")
ANSWERS = ("table", "csv", "json")
LISTS = ("methods", "models", "datasets", "streams", "scenarios", "clocks", "suites")
PUBLISHED = (
    *("rn50_inc", "vit_inc", "rn50_inr", "rn50_inv2", "vit_inr", "vit_inv2"),
    *("rn18_c10c_rpi5", "rn18_c10c_rtx4080"),
)


def one_of(names: Iterable[str]) -> Complete:
    """Names that start as the word does."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def some_of(names: Iterable[str]) -> Complete:
    """The same for a list with commas: its last name is completed, the ones before it are not offered again."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in given]

    return complete


def clock(incomplete: str) -> list[str]:
    """The clocks that have names, and profiles, which are JSON files."""
    return [*one_of(CLOCKS)(incomplete), *_paths(incomplete, lambda path: path.suffix == ".json")]


def configuration(incomplete: str) -> list[str]:
    """The suites that ship with Tempora, and YAML files."""
    return [*one_of(SUITES)(incomplete), *_paths(incomplete, lambda path: path.suffix == ".yaml")]


def run_folder(incomplete: str) -> list[str]:
    """Run folders and packs, and folders that hold some; those in `runs` at once."""
    found = _paths(incomplete, _is_run)
    return [*found, *_paths("runs/", _is_run)] if incomplete == "" else found


def shift_of_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """The shifts of the run that stands on the command line already."""
    # An option that still waits for its value keeps the arguments from being parsed: they are left over in args.
    for word in filter(None, (ctx.params.get("run"), *ctx.args)):
        try:
            manifest = json.loads((Path(word) / "run.json").read_text(encoding="utf-8"))
            return one_of(map(str, manifest["shifts"]))(incomplete)
        except (KeyError, TypeError, ValueError, OSError):
            continue
    return []


def _is_run(path: Path) -> bool:
    return path.suffix == ".tempora" or (path / "run.json").is_file()


def _paths(incomplete: str, wanted: Callable[[Path], bool]) -> list[str]:
    """Paths that start as the word does and are wanted, or, then with a slash, hold a wanted one."""
    folder, slash, start = incomplete.rpartition("/")
    above = f"{folder}{slash}"
    found = []
    for path in _children(Path(above or ".").expanduser()):
        if not path.name.startswith(start):
            continue
        if wanted(path):
            found.append(f"{above}{path.name}")
        elif any(map(wanted, _children(path))):
            found.append(f"{above}{path.name}/")
    return found


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # a file, or a folder that may not be read: nothing to offer
        return []
