"""Networks whose logits for an image depend on more than that image are refused by the name of the cause."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import timm
import torch

import tempora_tta as tempora
from tempora_tta.engine.build import build_job
from tempora_tta.engine.load_config import load_config
from tempora_tta.errors import TemporaError
from tempora_tta.models import load, wrap

MODULE = """
import torch
from torch import nn
from torch.nn import functional
from tempora_tta import models

class Net(nn.Module):
    def __init__(self, **batch_norm):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.bn = nn.BatchNorm2d(8, **batch_norm)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        return self.fc(self.bn(self.conv(x)).relu().mean((2, 3)))

class KeptInTraining(Net):
    def train(self, mode=True):
        return super().train(True)

class BatchStatistics(Net):
    def __init__(self):
        super().__init__(track_running_stats=False)

class FunctionalBatchNorm(Net):
    def forward(self, x):
        x, bn = self.conv(x), self.bn
        x = functional.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias, training=True)
        return self.fc(x.relu().mean((2, 3)))

class FunctionalDropout(Net):
    def forward(self, x):
        return self.fc(functional.dropout(self.bn(self.conv(x)).relu().mean((2, 3))))

class OneDrawForABatch(Net):
    def forward(self, x):
        return super().forward(x + torch.rand(()))

def wrapped(kind):
    return models.wrap(kind(), mean=(0.286,), std=(0.353,), input_size=(1, 28, 28))

def kept_in_training():
    return wrapped(KeptInTraining)

def dropout():
    return wrapped(FunctionalDropout)
"""
SAID = {
    "KeptInTraining": "BatchNorm stays in training mode",
    "BatchStatistics": "BatchNorm stays in training mode",
    "FunctionalBatchNorm": "BatchNorm stays in training mode",
    "FunctionalDropout": "draws random numbers in eval mode",
    "OneDrawForABatch": "draws random numbers in eval mode",
}


@pytest.fixture
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working folder, of another name for each test, since Python keeps what it imported."""
    name = f"networks_of_{tmp_path.parent.name}_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize("kind", SAID)
def test_by_every_route_from_python(networks: str, kind: str) -> None:
    network = load(f"{networks}:{kind}").network  # its image size is unknown, so it cannot be tried yet
    images = torch.randn(4, 1, 28, 28)
    with pytest.raises(TemporaError, match=SAID[kind]):
        wrap(network, mean=(0.286,), std=(0.353,), input_size=(1, 28, 28))
    batches = [(images, torch.zeros(4, dtype=torch.int64))]
    with pytest.raises(TemporaError, match=SAID[kind]):
        tempora.evaluate(network, batches, ["standard"], [], clock="published:rn50_inc", device="cpu")
    with pytest.raises(TemporaError, match=SAID[kind]):
        tempora.deploy(network, "standard", example=images, device="cpu")


@pytest.mark.parametrize(
    ("function", "kind"), [("kept_in_training", "KeptInTraining"), ("dropout", "FunctionalDropout")]
)
def test_by_name(networks: str, function: str, kind: str) -> None:
    flags = {"model": f"{networks}:{function}", "data.shifts": "clean", "batch_size": 8, "batches": 1}
    with pytest.raises(TemporaError, match=SAID[kind]):
        build_job(load_config(None, flags={**flags, "device": "cpu"}))


def test_a_refused_network_stays_as_it_was(networks: str) -> None:
    network = load(f"{networks}:FunctionalBatchNorm").network
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(TemporaError):
        wrap(network, mean=(0.286,), std=(0.353,), input_size=(1, 28, 28))
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())


def test_random_numbers_go_on_where_they_were(networks: str) -> None:
    network = load(f"{networks}:FunctionalDropout").network
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with pytest.raises(TemporaError):
        wrap(network, mean=(0.286,), std=(0.353,), input_size=(1, 28, 28))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224", "mobilenetv3_small_050"])
def test_usual_networks_pass(name: str) -> None:
    """The check looks at what they do after eval(), not at the mode that they come in."""
    network = timm.create_model(name, num_classes=5, drop_rate=0.5)
    assert wrap(network.train()).num_classes == 5
    assert network.training
