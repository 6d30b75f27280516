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
    """Places at which a mask over samples is true. Their number must be known, so this waits for the device."""
    return mask.nonzero().squeeze(1)


def score(z: Tensor) -> Tensor:
    """H(mean p) - mean H of a batch (or of each) of logits, over the most that it can be: 1 where predictions are
    certain and differ."""
    log_p = z.log_softmax(dim=-1)
    p = log_p.exp()
    certainty = (p * log_p).sum(dim=-1).mean(dim=-1)
    return (entropy_of(p.mean(dim=-2)) + certainty) / most_information(*z.shape[-2:])


def spread_of(z: Tensor) -> Tensor:
    """Spread of the scores of classes in a batch (or in each): the certainty of a network, right or not."""
    return z.std(dim=-1).mean(dim=-1).clamp_min(torch.finfo(z.dtype).tiny)


def without_doubt(z: Tensor, spread: Tensor | float) -> Tensor:
    """The scores of a batch, at least so far apart."""
    return z * (spread / spread_of(z)).clamp_min(1.0)


def entropy_of(p: Tensor) -> Tensor:
    """-sum p log p, in nats."""
    return -(p * (p + torch.finfo(p.dtype).eps).log()).sum(dim=-1)


def most_information(samples: int, classes: int) -> float:
    """The most that predictions can tell about samples, in nats."""
    return math.log(max(2, min(samples, classes)))
