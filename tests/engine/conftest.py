"""Small real streams for the engine: the bundled networks on batches of bundled images."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tempora_tta import data, models


@pytest.fixture(scope="session")
def network() -> Callable[[str], models.Classifier]:
    return models.load


@pytest.fixture(scope="session")
def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Eight batches of eight corrupted images each."""
    shift = data.open("fashion", shifts=["contrast"])["contrast"]
    preprocessing = models.load("fashion_resnet").preprocessing
    stream = data.open_stream(shift, preprocessing, batch_size=8, limit_batches=8, workers=0)
    return [(stream.batch(i), torch.from_numpy(stream.labels(i))) for i in range(stream.num_batches)]


@pytest.fixture(scope="session")
def frames(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The same images, one by one."""
    return [pair for x, y in batches for pair in zip(x.split(1), y.split(1), strict=True)]
