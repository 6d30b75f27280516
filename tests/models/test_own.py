"""Networks of the user's own, named `module:function`, and networks that do not fit their images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta.cli.app import app
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.observer import Observer
from tempora_tta.errors import TemporaError
from tempora_tta.models import load, wrap

MODULE = """
import torch
from torch import nn
from tempora_tta import models

classes = 10
broken = nn.Linear(2, 2)

class Net(nn.Module):
    def __init__(self, channels=1):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(channels, 8, 3, stride=2)
        self.bn = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        return self.fc(self.bn(self.conv(x)).relu().mean((2, 3)))

def network():
    return Net()

def classifier(channels=1):
    return models.wrap(
        Net(channels), mean=(0.286,), std=(0.353,), input_size=(1, 28, 28), crop_pct=1.0, name="mine"
    )

def three_channels():
    return classifier(3)

def double():
    return models.wrap(Net().double(), mean=(0.286,), std=(0.353,), input_size=(1, 28, 28), crop_pct=1.0)

def sizeless():
    return models.wrap(Net(), mean=(0.286,), std=(0.353,))

def needs(width):
    return Net()

def nothing():
    return None
"""


@pytest.fixture
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module in the working folder; each test has one of another name, since Python keeps what it imported."""
    name = f"own_networks_{tmp_path.parent.name}_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_function_that_returns_a_network_or_a_classifier(networks: str, tmp_path: Path) -> None:
    bare, wrapped = load(f"{networks}:network"), load(f"{networks}:classifier")
    assert (bare.name, bare.num_classes, bare.training) == (f"{networks}:network", 10, False)
    assert (wrapped.name, wrapped.preprocessing.input_size) == ("mine", (1, 28, 28))
    assert load(f"{networks}:Net").weights_hash() == bare.weights_hash()  # a class is called like a function
    other = {key: torch.ones_like(value) for key, value in bare.network.state_dict().items()}
    torch.save(other, tmp_path / "w.pt")
    filled = load(f"{networks}:classifier", checkpoint=tmp_path / "w.pt")
    assert (filled.network.fc.weight == 1).all()


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("{}:netwrok", r"unknown function of .* 'netwrok': did you mean 'network'"),
        ("{}:classes", "is a int; expected a function that returns a network"),
        ("{}:broken", "is a Linear; expected a function"),
        ("{}:needs", r"required arguments \(width\): give each a default"),
        ("{}:nothing", "returned a NoneType; expected a network or a Classifier"),
        ("nowhere:network", "there is no module 'nowhere'"),
        ("{}:", "with a colon between them"),
        ("resnet51", "unknown model 'resnet51'.*or module:function"),
    ],
)
def test_mistakes_are_named(networks: str, name: str, match: str) -> None:
    with pytest.raises(TemporaError, match=match):
        load(name.format(networks))
    with pytest.raises(TemporaError, match=r"num_classes=3: .* has 10 classes"):
        load(f"{networks}:network", num_classes=3)


def test_on_the_command_line(networks: str, tmp_path: Path) -> None:
    words = [
        "run",
        "--model",
        f"{networks}:classifier",
        "--methods",
        "standard,adabn",
        "--shifts",
        "contrast",
    ]
    words += [
        "--batches",
        "2",
        "--batch-size",
        "8",
        "--grid",
        "none",
        "--clock",
        "published:rn50_inc",
        "--plain",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    found = tempora.open_run(tmp_path / "runs" / f"{networks}.classifier-fashion")
    assert set(found.utilities["model"]) == {"mine"}


@pytest.mark.parametrize(
    ("function", "match"),
    [
        ("three_channels", "mine: takes images of 3 channels, but these have 1"),
        ("double", "its weights are float64, but images come as float32: give network.float()"),
        ("sizeless", "image size .* unknown.* input_size="),
        ("network", "preprocessing is unknown.* mean="),
    ],
)
def test_what_does_not_fit_its_images_is_said_before_the_run(
    networks: str, function: str, match: str
) -> None:
    flags = {"model": f"{networks}:{function}", "data.shifts": "clean", "batch_size": 8, "batches": 1}
    with pytest.raises(TemporaError, match=match):
        build_job(load_config(None, flags={**flags, "device": "cpu"}))


def test_check_says_so_as_well(networks: str) -> None:
    result = CliRunner().invoke(app, ["check", "tent", "--model", f"{networks}:three_channels"])
    assert "takes images of 3 channels, but these have 1" in str(result.exception)


class _Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x.flatten(1))


@pytest.mark.parametrize(
    ("network", "shape", "match"),
    [
        (_Flat().double(), (3, 2, 2), "its weights are float64"),
        (_Flat().half(), (3, 2, 2), "its weights are float16"),
        (_Flat(), (3, 5, 5), r"fails on images of shape \(3, 5, 5\)"),
        (nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten(), nn.Linear(8, 4)), (1, 2, 2), "3 channels.* have 1"),
        (_Flat(), (3, 2, 2), r"gives \(2, 4\) for two images; expected \(2, 7\)"),
    ],
)
def test_from_python_too(network: nn.Module, shape: tuple[int, ...], match: str) -> None:
    model = wrap(network, num_classes=7 if "gives" in match else None)
    batches = [(torch.zeros(4, *shape), torch.zeros(4, dtype=torch.int64))]
    with pytest.raises(TemporaError, match=match):
        tempora.evaluate(model, batches, ["standard"], [], clock="published:rn50_inc", device="cpu")


class _Notes(Observer):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def note(self, text: str) -> None:
        self.heard.append(text)


def test_what_is_assumed_about_images_is_said_once_and_kept() -> None:
    """torchvision's networks do not say how they were trained."""
    network, notes = torchvision.models.shufflenet_v2_x0_5(num_classes=3), _Notes()
    batches = [(torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.int64)) for _ in range(2)]

    def found(model: nn.Module) -> Any:
        options = {"clock": "published:rn50_inc", "device": "cpu", "observer": notes}
        return tempora.evaluate(model, batches, ["standard"], [], **options).manifest["preprocessing"]

    guessed = found(network)
    assert guessed["input_size"] == [3, 224, 224]
    assert {"mean", "std", "input_size"} < set(guessed["assumed"])
    assert len(notes.heard) == 1
    assert all(name in notes.heard[0] for name in guessed["assumed"])

    stated = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "input_size": (3, 32, 32), "crop_pct": 1.0}
    assert found(wrap(network, **stated, interpolation="bilinear"))["assumed"] == []
    assert len(notes.heard) == 1
