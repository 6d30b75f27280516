"""Three tiny classifiers of the kinds the methods know, in float64, and a shifted stream for them.

They are trained for a moment on ten synthetic classes, so that some predictions are confident and some
are not. Five classes are plain colours and five are arrangements of patches: shuffling patches hurts
only the second kind, so DeYO's second filter has something to decide.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache, partial

import torch
from timm.layers import GroupNorm
from timm.models.resnet import BasicBlock, ResNet
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

CLASSES = 10
SIDE = 32
# Full batches, then the ragged ones that streams end with, then a full one again.
BATCH_SIZES = (16, 16, 16, 16, 16, 16, 9, 1, 3, 16)


def build(kind: str) -> nn.Module:
    """An untrained network; its dropout and stochastic depth must stay off in every method."""
    torch.manual_seed(7)
    if kind == "vit":
        vit = VisionTransformer(
            img_size=SIDE, patch_size=8, embed_dim=24, depth=5, num_heads=3, mlp_ratio=2.0,
            num_classes=CLASSES, drop_rate=0.1, drop_path_rate=0.1,
        ).double().eval()  # fmt: skip
        vit.pos_embed.data *= 50  # the usual tiny start takes thousands of steps to learn where a patch is
        return vit
    norm = {"bn": nn.BatchNorm2d, "gn": partial(GroupNorm, num_groups=4)}[kind]
    return ResNet(
        BasicBlock, (1, 1, 1, 1), num_classes=CLASSES, channels=(8, 8, 16, 16),
        stem_type="deep", stem_width=4, output_stride=16, norm_layer=norm, drop_rate=0.1, drop_path_rate=0.1,
    ).double().eval()  # fmt: skip


def prototypes() -> Tensor:
    """One image per class: colours for the first five, arrangements of the same 16 tiles for the others."""
    generator = torch.Generator().manual_seed(11)
    colours = torch.rand(5, 3, 1, 1, generator=generator, dtype=torch.float64).expand(5, 3, SIDE, SIDE)
    tiles = torch.rand(3, 16, generator=generator, dtype=torch.float64)
    orders = [torch.randperm(16, generator=generator) for _ in range(5)]
    mosaics = torch.stack([tiles[:, order].view(3, 4, 4) for order in orders])
    mosaics = mosaics.repeat_interleave(SIDE // 4, -1).repeat_interleave(SIDE // 4, -2)
    return torch.cat([colours, mosaics]) * 2 - 1


def draw(n: int, generator: torch.Generator, noise: float) -> tuple[Tensor, Tensor]:
    """n labelled images: the prototype of a random class, faded at random, under noise."""
    labels = torch.randint(CLASSES, (n,), generator=generator)
    fade = torch.rand(n, 1, 1, 1, generator=generator, dtype=torch.float64) * 0.8 + 0.2
    images = fade * prototypes()[labels]
    return images + noise * torch.randn(images.shape, generator=generator, dtype=torch.float64), labels


@cache
def _trained(kind: str) -> nn.Module:
    network = build(kind)
    generator = torch.Generator().manual_seed(3)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2 if kind == "gn" else 3e-3)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train()
    for _ in range(100):
        x, y = draw(32, generator, noise=0.3)
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimiser.step()
    network.eval().requires_grad_(False)
    while median_entropy(network(x)) > 0.8:
        sharpen(network, 1.1)
    return network


def median_entropy(z: Tensor) -> float:
    return float(-(z.softmax(-1) * z.log_softmax(-1)).sum(-1).median())


def sharpen(network: nn.Module, factor: float) -> nn.Module:
    """Make every prediction more confident, the same class staying on top."""
    head = network.get_classifier()
    head.weight *= factor
    head.bias *= factor
    return network


def widen(network: nn.Module, classes: int) -> nn.Module:
    """The same network with further classes in its head that never come out on top."""
    head = network.get_classifier()
    extra = classes - head.out_features
    head.weight = nn.Parameter(torch.cat([head.weight, head.weight.new_zeros(extra, head.in_features)]))
    head.bias = nn.Parameter(torch.cat([head.bias, head.bias.new_full((extra,), -8.0)]))
    head.out_features = network.num_classes = classes
    return network


def trained(kind: str) -> nn.Module:
    """A fresh copy of the trained network: "bn", "gn" or "vit"; half its predictions have H below 0.8."""
    return copy.deepcopy(_trained(kind))


def stream(sizes: Sequence[int] = BATCH_SIZES, seed: int = 5) -> list[Tensor]:
    """Batches whose brightness, contrast and noise change from one to the next."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for index, n in enumerate(sizes):
        x, _ = draw(n, generator, noise=0.2 + 0.1 * (index % 4))
        batches.append((x * (1.0 - 0.06 * (index % 5)) + 0.1 * (index % 3 - 1)).clamp(-1, 1))
    return batches
