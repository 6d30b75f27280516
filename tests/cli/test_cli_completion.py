"""Tab: commands, options and names, asked for as a shell asks, and without waiting for torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta.cli import app


def offered(line: str) -> list[str]:
    """Return what bash offers for the last word of a line; a blank at the end starts a new one."""
    words = line.split(" ")
    asked = {"_TEMPORA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return CliRunner(env=asked).invoke(app, prog_name="tempora").output.split()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("tempora rec", ["recommend"]),
        ("tempora data f", ["fetch"]),
        ("tempora run --batch", ["--batches", "--batch-size"]),
        ("tempora run --model fashion", ["fashion_resnet", "fashion_vit", "fashion_vit_token"]),
        ("tempora run --methods te", ["tent"]),
        (
            "tempora run --methods standard,tent,s",
            [f"standard,tent,{name}" for name in ("shot_im", "sar", "spa", "settle")],
        ),
        ("tempora run --shifts noise,fo", ["noise,fog"]),
        ("tempora run --dataset imagenet_", ["imagenet_a", "imagenet_c", "imagenet_r", "imagenet_v2"]),
        ("tempora run --grid paper-r", ["paper-resnet50", "paper-resnet18"]),
        ("tempora demo --network fashion_v", ["fashion_vit"]),
        ("tempora list m", ["methods", "models"]),
        ("tempora check zero", ["zerosiam"]),
        ("tempora compare --format m", ["markdown"]),
        ("tempora show --table de", ["deficit"]),
        ("tempora data fetch cifar10_", ["cifar10_1", "cifar10_c"]),
    ],
)
def test_names_and_values_are_offered(line: str, answer: list[str]) -> None:
    assert offered(line) == answer


def test_the_names_are_those_that_there_are() -> None:
    from tempora_tta import methods, models, names
    from tempora_tta.config import checked
    from tempora_tta.data import CORRUPTIONS, EXTRA, GROUPS, datasets
    from tempora_tta.engine import suites
    from tempora_tta.report.tables import NAMES
    from tempora_tta.scenarios import GRIDS

    for room, listed, mark in (
        ("methods", names.METHODS, "register"),
        ("data", names.DATASETS, "dataset"),
    ):
        written = {
            path.stem
            for path in (Path(tempora.__file__).parent / room).glob("*.py")
            if re.search(rf"^@{mark}\b", path.read_text(encoding="utf-8"), re.MULTILINE)
        }
        places = [place.partition(":")[0].rpartition(".")[2] for place in listed.values()]
        assert written <= set(places)
    assert all(methods.get(name).name == name for name in names.METHODS)
    assert set(names.DATASETS) <= set(datasets())
    assert models.names() == tuple(names.MODELS)
    assert suites.names() == sorted(
        f"{path.parent.name}/{path.stem}" for path in suites.HERE.glob("*/*.yaml")
    )
    assert all(suites.path_of(name).is_file() for name in suites.names())
    assert ("all", *GROUPS, "extra", *CORRUPTIONS, *EXTRA) == names.SHIFTS
    assert NAMES == names.TABLES
    assert list(GRIDS) == list(names.GRIDS)
    for grid in names.GRIDS:
        checked({"grid": grid})


def test_the_shell_does_not_wait_for_torch() -> None:
    code = (
        "import atexit, sys\n"
        "heavy = {'torch', 'pandas', 'numpy', 'pyarrow'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
        "from tempora_tta.cli import app\n"
        "app(prog_name='tempora')\n"
    )
    asked = {
        "_TEMPORA_COMPLETE": "complete_bash",
        "COMP_WORDS": "tempora run --methods te",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["tent"]
    assert done.stderr.strip() == "[]"
