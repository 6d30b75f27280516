"""What `wrap` finds out about a network: its family, its patches, and where its top begins."""

from __future__ import annotations

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from tempora_tta.models import anatomy, wrap


def test_the_top_of_a_transformer_is_a_quarter_of_its_blocks_rounded_up() -> None:
    vit = timm.models.vision_transformer.VisionTransformer
    for depth, first in ((12, "blocks.9"), (5, "blocks.3"), (2, "blocks.1")):
        network = vit(img_size=16, patch_size=8, embed_dim=8, depth=depth, num_heads=1, num_classes=3)
        model = wrap(network)
        assert (model.family, model.patch_size, model.top[0]) == ("vit", 8, first)
        assert model.in_top("network.norm")
        assert not model.in_top("network.blocks.0.norm1")
    torchvision_vit = torchvision.models.VisionTransformer(16, 8, 12, 1, 8, 16)
    assert wrap(torchvision_vit).top[0] == "encoder.layers.encoder_layer_9"
    assert wrap(torchvision_vit).in_top("network.encoder.ln")


@pytest.mark.parametrize(
    ("name", "family", "patch_size", "first_of_the_top"),
    [
        ("convit_tiny", "vit", 16, "blocks.9"),
        ("cait_xxs24_224", "vit", 16, "blocks.19"),  # 24 blocks and two for the class token
        ("xcit_nano_12_p16_224", "vit", 16, "blocks.10"),  # 12 and two
        ("pit_ti_224", "vit", 16, "transformers.2.blocks.1"),
        ("swin_tiny_patch4_window7_224", "vit", 4, "layers.2.blocks.5"),
        ("resnest14d", "cnn", None, "layer4"),
        ("resnet50_clip", "cnn", None, "stages.3"),
        ("dla34", "cnn", None, "level5"),
    ],
)
def test_timm_networks(name: str, family: str, patch_size: int | None, first_of_the_top: str) -> None:
    with torch.device("meta"):
        network = timm.create_model(name)
    assert anatomy.family(network) == family
    assert anatomy.patch_size(network, family) == patch_size
    assert anatomy.top(network, family)[0] == first_of_the_top


@pytest.mark.parametrize(
    ("name", "family", "patch_size", "top"),
    [
        ("swin_v2_t", "vit", 4, ("features.5.5", "features.6", "features.7", "norm")),
        ("convnext_tiny", "cnn", None, ("features.7", "avgpool", "classifier")),
        ("efficientnet_b0", "cnn", None, ("features.7", "features.8", "avgpool", "classifier")),
        ("vgg11_bn", "cnn", None, ()),
    ],
)
def test_torchvision_networks(name: str, family: str, patch_size: int | None, top: tuple[str, ...]) -> None:
    with torch.device("meta"):
        network = getattr(torchvision.models, name)()
    assert anatomy.family(network) == family
    assert anatomy.patch_size(network, family) == patch_size
    assert anatomy.top(network, family)[:4] == top


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
    """A ViT whose author registers the final norm before the blocks."""

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
    assert model.top == ("body.3", "body.4", "head", "norm")


@pytest.mark.parametrize("container", ["features", "layers"])
def test_layers_of_a_cnn_are_no_stages(container: str) -> None:
    network = nn.Module()
    layers = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))
    network.add_module(container, nn.Sequential(*layers))
    assert anatomy.top(network, "cnn") == ()
