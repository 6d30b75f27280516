"""Tensors from outside: only dense ones of ordinary numbers reach a network."""

from __future__ import annotations

import torch
from torch import Tensor

_NUMBERS = frozenset(
    {
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
        *(torch.bool, torch.uint8, torch.uint16, torch.uint32),
        *(torch.int8, torch.int16, torch.int32, torch.int64),
    }
)
"""Types that convert to float32 or int64 without loss of meaning. uint64 does not, and 8-bit floats need a scale."""


def is_plain(x: Tensor) -> bool:
    """Tell dense numbers in memory from sparse, nested, mkldnn and quantised tensors and those without values."""
    return x.layout == torch.strided and not x.is_nested and not x.is_meta and x.dtype in _NUMBERS


def described(x: Tensor) -> str:
    """Shape, type, layout and device of a tensor, for an error about it."""
    shape = "nested" if x.is_nested else f"of shape {tuple(x.shape)}"
    layout = "" if x.layout == torch.strided else f" {x.layout}"
    return f"{shape}, {x.dtype}{layout} on {x.device.type}"
