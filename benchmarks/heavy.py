"""A network that takes a GPU as long as a real one, with labels that mean something: the bundled ResNet, which also
carries a ResNet-50 at 448 pixels whose outputs count nothing.

    python benchmarks/deploy.py lived --device cuda --model benchmarks/heavy.py:fashion_heavy

The bundled networks take a GPU about a millisecond, most of it launching kernels: what is timed is a CPU, and a
handover of a tenth of a millisecond decides a deadline. Images of ImageNet do not ship.
"""

from __future__ import annotations

import timm
import torch
from torch import Tensor, nn

from tempora_tta import models
from tempora_tta.models.bundled import MEAN, STD, ResNet8
from tempora_tta.models.wrapping import wrap

SIDE = 448


class Heavy(nn.Module):
    """The scores of `light`, for the price of both."""

    def __init__(self, light: ResNet8) -> None:
        super().__init__()
        self.ballast = timm.create_model("resnet50", pretrained=False, num_classes=0)
        self.light = light
        self.fc = light.fc
        light.fc = nn.Identity()

    def forward_features(self, x: Tensor) -> Tensor:
        large = nn.functional.interpolate(x, size=(SIDE, SIDE)).expand(-1, 3, -1, -1)
        # Multiplied by 0 and added: computed, differentiated, and without a say.
        return self.light.forward_features(x) + 0 * self.ballast(large).mean(dim=1, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.forward_features(x))
        return scores


def fashion_heavy() -> models.Classifier:
    torch.manual_seed(0)
    light = models.load("fashion_resnet")
    network = Heavy(light.network)
    return wrap(
        network,
        features=network.forward_features,
        mean=MEAN,
        std=STD,
        name="fashion_heavy",
        input_size=(1, 28, 28),
        crop_pct=1.0,
        interpolation="bilinear",
        recipe=light.recipe,
    ).eval()
