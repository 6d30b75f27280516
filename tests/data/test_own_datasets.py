"""A user's own data set, named `module:function`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tempora_tta.data as data
from tempora_tta.cli import app
from tempora_tta.data import registry
from tempora_tta.errors import TemporaError
from tempora_tta.store import open_run

MODULE = """
from pathlib import Path

import numpy as np

from tempora_tta.data import LayoutError, array_shift, dataset

number = 3


def shifts(severity, root=None):
    images = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
    dim = (images * (1 - 0.15 * severity)).astype(np.uint8)
    labels = np.arange(40) % 10
    made = {name: array_shift(name, x, labels, 10) for name, x in (("clean", images), ("dim", dim))}
    return made if root is None else {"here": array_shift("here", images, labels, 10)}


def placed(root):
    raise LayoutError(f"{root / 'images.npy'} is missing")


@dataset("carded", what="w", size="s", licence="l", source="where", folder="", layout="carded/\\n  images.npy")
def carded(root):
    return placed(root)


def asks(root, colour):
    return {}


def nothing():
    return {}


def a_list():
    return [1, 2]


def numbers():
    return {"one": 1}


def misnamed():
    return {"other": shifts(1)["dim"]}
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_data.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("my_data", None)
    registry._DATASETS.pop("carded", None)


def test_shifts_are_opened_and_chosen_like_any(tmp_path: Path) -> None:
    assert list(data.open("my_data:shifts")) == ["clean", "dim"]
    assert list(data.open("my_data:shifts", shifts="dim")) == ["dim"]
    assert list(data.open("my_data:shifts", root=tmp_path)) == ["here"]
    weak, strong = (data.open("my_data:shifts", severity=s)["dim"].fingerprint for s in (1, 5))
    assert weak != strong


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:shifts", "dataset 'nowhere:shifts': there is no module 'nowhere' to import; run from"),
        ("my_data:shift", r"unknown function of my_data 'shift': did you mean 'shifts'\?"),
        ("my_data:", "write the module and the function with a colon between them"),
        (":shifts", "write the module and the function with a colon between them"),
        ("my_data:number", "is a int; expected a function that returns shifts by name"),
        ("my_data:placed", "'my_data:placed' has no fixed place: say root="),
        ("my_data:asks", "has no fixed place"),
        ("my_data:nothing", r"its function returned \{\}; expected shifts by name"),
        ("my_data:a_list", r"its function returned \[1, 2\]; expected shifts by name"),
        ("my_data:numbers", "its shift 'one' is a int; expected a Shift"),
        ("my_data:misnamed", "its shift 'other' calls itself 'dim'; use one name"),
    ],
)
def test_what_is_wrong_with_it_is_said(name: str, message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        data.open(name)


def test_what_the_function_misses_is_said(tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match=r"images.npy is missing$"):
        data.open("my_data:placed", root=tmp_path)
    with pytest.raises(
        TemporaError, match=r"missing\ncarded is expected like this \(see where\):\n  carded/"
    ):
        data.open("my_data:carded", root=tmp_path)
    with pytest.raises(TemporaError, match=r"required arguments \(colour\): give each a default"):
        data.open("my_data:asks", root=tmp_path)


def test_the_command_line_and_configurations_take_it(tmp_path: Path) -> None:
    flags = ["--methods", "standard", "--grid", "none", "--batch-size", "20", "--clock", "published:rn50_inc"]
    command = ["run", "--dataset", "my_data:shifts", *flags, "--plain"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    run = open_run(tmp_path / "runs" / "fashion_resnet-my_data.shifts")
    assert run.manifest["dataset"] == "my_data:shifts"
    assert set(run.utilities["shift"]) == {"clean", "dim"}
    config = tmp_path / "mine.yaml"
    config.write_text("data: {dataset: 'my_data:shifts'}\nmethods: [standard]\ngrid: none\nbatch_size: 20\n")
    again = CliRunner().invoke(app, ["run", str(config), "--clock", "published:rn50_inc", "--plain"])
    assert again.exit_code == 0, again.output
    assert open_run(tmp_path / "runs" / "mine").utilities["utility"].equals(run.utilities["utility"])
