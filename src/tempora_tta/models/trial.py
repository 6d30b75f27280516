"""Trying a network on two blank images before a run, so that what does not fit is said at once and once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from tempora_tta.errors import TemporaError
from tempora_tta.models.classifier import Classifier
from tempora_tta.models.wrapping import inference


def try_on(model: Classifier, shape: Sequence[int]) -> None:
    """Refuse a network that cannot take float32 images of `shape` (channels, height, width)."""
    x = torch.zeros(2, *shape, device=model.device)
    with inference(model.network):
        try:
            logits = model(x)
        except Exception as error:
            raise TemporaError(f"{model.name}: {_reason(model, shape, error)}") from error
    if tuple(logits.shape) != (2, model.num_classes):
        raise TemporaError(
            f"{model.name}: gives {tuple(logits.shape)} for two images; expected (2, {model.num_classes}), one "
            "logit per class"
        )


def _reason(model: Classifier, shape: Sequence[int], error: Exception) -> str:
    """The usual mistakes in words; torch's own for the others."""
    if model.dtype != torch.float32:
        kind = str(model.dtype).removeprefix("torch.")
        return f"its weights are {kind}, but images come as float32: give network.float()"
    first = next((part for part in model.network.modules() if isinstance(part, nn.Conv2d)), None)
    if first is not None and first.in_channels != shape[0]:
        return (
            f"takes images of {first.in_channels} channels, but these have {shape[0]}: choose a network trained for "
            "such images; one of your own says what it takes by wrap(..., input_size=(channels, height, width))"
        )
    return f"fails on images of shape {tuple(shape)} ({error!s:.300})"
