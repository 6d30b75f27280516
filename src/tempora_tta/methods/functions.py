"""The mathematics that several methods share. Per-sample quantities have shape (n,)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def entropy(z: Tensor) -> Tensor:
    """H = -sum p log p of the softmax of logits, in nats."""
    log_p = z.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p || q) = sum p (log p - log q)."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def cross_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    """-sum p log q."""
    return -(log_p.exp() * log_q).sum(dim=1)


def max_entropy(num_classes: int) -> float:
    """ln C, the entropy of not knowing at all."""
    return math.log(num_classes)


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Values of the host, on the device. A plain copy would wait until the device had done all it was given."""
    if values.device == device or device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def indices(mask: Tensor) -> Tensor:
    """Where a mask over samples is true. Its length must be known, so this waits for the device."""
    return mask.nonzero().squeeze(1)
