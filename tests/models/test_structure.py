"""Family, patches and top of a network, as `wrap` finds them."""

from __future__ import annotations

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from tempora_tta.models import structure, wrap


def test_the_top_of_a_transformer_is_a_quarter_of_its_blocks_rounded_up() -> None:
    vit = timm.models.vision_transformer.VisionTransformer
    for depth, first in ((12, "blocks.9"), (5, "blocks.3"), (2, "blocks.1")):
        network = vit(img_size=16, patch_size=8, embed_dim=8, depth=depth, num_heads=1, num_classes=3)
        model = wrap(network)
        assert (model.family, model.patch_size) == ("vit", 8)
        assert model.top[0].startswith(first)
        assert model.in_top("network.norm")
        assert not model.in_top("network.blocks.0.norm1")
    torchvision_vit = torchvision.models.VisionTransformer(16, 8, 12, 1, 8, 16)
    assert wrap(torchvision_vit).top[0] == "encoder.layers.encoder_layer_9.ln_1"
    assert wrap(torchvision_vit).in_top("network.encoder.ln")


@pytest.mark.parametrize(
    ("name", "family", "patch_size", "first_of_the_top"),
    [
        ("convit_tiny", "vit", 16, "blocks.9"),
        ("cait_xxs24_224", "vit", 16, "blocks.18"),
        ("xcit_nano_12_p16_224", "vit", 16, "blocks.10"),
        ("swin_tiny_patch4_window7_224", "vit", 4, "layers.2.blocks.5"),
        ("resnest14d", "cnn", None, "layer4"),
        ("resnet50_clip", "cnn", None, "stages.3"),
        ("dla34", "cnn", None, "level5"),
    ],
)
def test_timm_networks(name: str, family: str, patch_size: int | None, first_of_the_top: str) -> None:
    with torch.device("meta"):
        network = timm.create_model(name)
    assert structure.family(network) == family
    assert structure.patch_size(network, family) == patch_size
    assert structure.top(network, family)[0].startswith(first_of_the_top)


@pytest.mark.parametrize(
    ("name", "family", "patch_size", "first_of_the_top"),
    [
        ("resnet18", "cnn", None, "layer4"),
        ("vit_b_16", "vit", 16, "encoder.layers.encoder_layer_9"),
        ("swin_v2_t", "vit", 4, None),
        ("vgg11_bn", "cnn", None, None),
    ],
)
def test_torchvision_networks(
    name: str, family: str, patch_size: int | None, first_of_the_top: str | None
) -> None:
    with torch.device("meta"):
        network = getattr(torchvision.models, name)()
    assert structure.family(network) == family
    assert structure.patch_size(network, family) == patch_size
    top = structure.top(network, family)
    assert top[0].startswith(first_of_the_top) if first_of_the_top else top == ()


class Block(nn.Module):
    """Attention without a class of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return x + self.out(nn.functional.scaled_dot_product_attention(q, k, v))


class HandWritten(nn.Module):
    """A ViT with names of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 8, 4, 4)
        self.pos_embed = nn.Parameter(torch.zeros(1, 16, 8))
        self.norm_pre = nn.LayerNorm(8)
        self.norm = nn.LayerNorm(8)
        self.body = nn.ModuleList(Block(8) for _ in range(5))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm_pre(self.patch_embed(x).flatten(2).mT + self.pos_embed)
        for block in self.body:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def test_a_hand_written_transformer() -> None:
    model = wrap(HandWritten())
    assert (model.family, model.patch_size) == ("vit", 4)
    assert model.top == ()
    told = wrap(HandWritten(), top=["body.3", "body.4", "norm"])
    assert told.in_top("network.body.4.norm")
    assert not told.in_top("network.body.0.norm")
