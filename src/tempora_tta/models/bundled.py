"""Three small networks for Fashion-MNIST that ship with the package, so that everything runs offline.

`fashion_resnet` normalises over the batch, `fashion_vit` over each token, and `fashion_vit_token` classifies by a
class token, which FOA needs: between them every method has a network it fits. `recipes/train_fashion.py` trained
them on the first 50,000 training images.
"""

from __future__ import annotations

import json
from importlib.resources import files

import safetensors.torch
import torch
from torch import Tensor, nn

from tempora_tta.errors import unknown
from tempora_tta.models.classifier import Classifier
from tempora_tta.models.wrapping import wrap

NAMES = ("fashion_resnet", "fashion_vit", "fashion_vit_token")

INPUT_SIZE = 28
NUM_CLASSES = 10
MEAN = (0.286,)  # of the training images' pixels in [0, 1]
STD = (0.353,)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut; the names are torchvision's."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out: Tensor = self.relu(y + self.downsample(x))
        return out


class ResNet8(nn.Module):
    """One block in each of three stages of width 16, 32 and 64; `layer3` is the last stage."""

    def __init__(self, width: int = 16, num_classes: int = NUM_CLASSES) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.layer1 = nn.Sequential(BasicBlock(width, width, stride=1))
        self.layer2 = nn.Sequential(BasicBlock(width, 2 * width, stride=2))
        self.layer3 = nn.Sequential(BasicBlock(2 * width, 4 * width, stride=2))
        self.fc = nn.Linear(4 * width, num_classes)

    def forward_features(self, x: Tensor) -> Tensor:
        """Return the input of the classifier `fc`: one vector per image."""
        x = self.relu(self.bn1(self.conv1(x)))
        features: Tensor = self.layer3(self.layer2(self.layer1(x))).mean(dim=(2, 3))
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.forward_features(x))
        return logits


def architecture(name: str) -> nn.Module:
    """Build the untrained network of that name."""
    if name == "fashion_resnet":
        return ResNet8()
    if name in ("fashion_vit", "fashion_vit_token"):
        from timm.models.vision_transformer import VisionTransformer  # a second that the others need not wait

        by_token = name == "fashion_vit_token"
        return VisionTransformer(
            img_size=INPUT_SIZE,
            patch_size=4,
            in_chans=1,
            num_classes=NUM_CLASSES,
            embed_dim=64,
            depth=4,
            num_heads=4,
            mlp_ratio=2,
            class_token=by_token,
            global_pool="token" if by_token else "avg",
            fc_norm=False,  # the final norm stays before the pooling, under its usual name
            weight_init="jax",  # timm's usual one is made for wider networks
        )
    raise unknown("bundled network", name, NAMES)


def load(name: str, pretrained: bool = True) -> Classifier:
    """Load the network of that name, in eval mode, with the settings that recipes/tune_fashion.py found for it."""
    network = architecture(name)
    folder = files("tempora_tta.models")
    if pretrained:
        weights = folder / "weights" / f"{name}.safetensors"
        network.load_state_dict(safetensors.torch.load(weights.read_bytes()))
    recipes = json.loads((folder / "recipes.json").read_text())
    network.to(memory_format=torch.channels_last)  # convolutions on a CPU take about half the time so
    return wrap(
        network,
        features=network.forward_features if isinstance(network, ResNet8) else None,
        mean=MEAN,
        std=STD,
        name=name,
        input_size=(1, INPUT_SIZE, INPUT_SIZE),
        crop_pct=1.0,
        interpolation="bilinear",
        recipe=recipes.get(name, {}),
    ).eval()
