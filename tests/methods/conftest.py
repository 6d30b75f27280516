"""Two tiny networks with random weights: one normalises over the batch, one over each token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from timm.models.resnet import BasicBlock, ResNet
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tempora_tta.methods.testing import sharpened
from tempora_tta.models import Classifier, wrap

HALF = (0.5, 0.5, 0.5)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny tensors: threads only cost."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(8, 3, 16, 16, generator=generator).clamp(-1, 1) for _ in range(6)]


@pytest.fixture(scope="session")
def resnet(batches: list[Tensor]) -> Classifier:
    """BatchNorm; dropout and stochastic depth are there to be left off."""
    torch.manual_seed(0)
    network = ResNet(
        BasicBlock, [1, 1, 1, 1], num_classes=10, channels=(4, 8, 8, 8), drop_rate=0.5, drop_path_rate=0.5
    )
    network.maxpool = torch.nn.Identity()
    model = wrap(network, name="tiny_resnet", mean=HALF, std=HALF, input_size=(3, 16, 16))
    return sharpened(model, batches[0])


@pytest.fixture(scope="session")
def vit(batches: list[Tensor]) -> Classifier:
    """LayerNorm."""
    torch.manual_seed(0)
    network = VisionTransformer(
        img_size=16, patch_size=4, num_classes=10, embed_dim=16, depth=3, num_heads=2, drop_rate=0.5
    )
    model = wrap(network, name="tiny_vit", mean=HALF, std=HALF, input_size=(3, 16, 16))
    return sharpened(model, batches[0])
