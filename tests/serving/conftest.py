"""A small real stream for the pipeline: bundled images, of which the bundled networks make something."""

from __future__ import annotations

import pytest
import torch

from tempora_tta import data, models


@pytest.fixture(scope="session")
def model() -> models.Classifier:
    return models.load("fashion_resnet")


@pytest.fixture(scope="session")
def batches(model: models.Classifier) -> list[torch.Tensor]:
    """Eight batches of eight corrupted images each."""
    shift = data.open("fashion", shifts=["contrast"])["contrast"]
    stream = data.open_stream(shift, model.preprocessing, batch_size=8, limit_batches=8, workers=0)
    return [stream.batch(index) for index in range(stream.num_batches)]
