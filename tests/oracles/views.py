"""Stand-ins for the random parts of DeYO, CMF and SPA, so that both sides see the same images."""

from __future__ import annotations

import torch
from torch import Tensor
from torchvision.transforms.v2.functional import resized_crop


def fixed_shuffle(x: Tensor) -> Tensor:
    """The 4x4 grid of patches in one fixed other order."""
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1)).tolist()
    height, width = x.shape[-2] // 4, x.shape[-1] // 4
    out = torch.empty_like(x)
    for to, source in enumerate(order):
        out[..., to // 4 * height :, to % 4 * width :][..., :height, :width] = x[
            ..., source // 4 * height :, source % 4 * width :
        ][..., :height, :width]
    return out


def fixed_view(x: Tensor) -> Tensor:
    """One crop for all, mirrored."""
    return resized_crop(x, 3, 5, 25, 24, list(x.shape[-2:]), antialias=True).flip(-1)


def fixed_mask(x: Tensor) -> Tensor:
    """Most of the zero frequency taken out of each channel."""
    return x - 0.7 * x.mean((-1, -2), keepdim=True)


def fixed_noise(x: Tensor) -> Tensor:
    """One noise image, however many samples there are."""
    return torch.randn(x.shape[1:], generator=torch.Generator().manual_seed(9), dtype=x.dtype)
