"""Predictions of a batch from its scores: the classes, how many are right, and how sure the method was."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempora_tta.data import Stream
from tempora_tta.store import Trace
from tempora_tta.store.trace import gaps


def classes_of(scores: Tensor, stream: Stream) -> NDArray[np.int64]:
    """The classes with the best scores, among those that the stream has."""
    return _classes_and_confidence(scores, stream)[0]


def note_predictions(trace: Trace, index: int, scores: Tensor, stream: Stream) -> None:
    """Write them into a batch's row; after the clock has stopped."""
    predicted, confidence = _classes_and_confidence(scores, stream)
    right = predicted == stream.labels(index)
    trace.predicted[index] = predicted
    trace.right[index] = right
    trace.correct[index] = int(right.sum())
    trace.confidence[index] = confidence.mean()
    trace.calibration[index] = gaps(confidence, right)


def _classes_and_confidence(scores: Tensor, stream: Stream) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """With one copy from the device."""
    chosen = scores if stream.classes is None else scores[:, stream.classes]
    best = chosen.argmax(dim=1, keepdim=True)
    both = torch.cat([best.double(), _probabilities(chosen).gather(1, best)], dim=1).cpu().numpy()
    classes = both[:, 0].astype(np.int64)
    return classes if stream.classes is None else np.asarray(stream.classes)[classes], both[:, 1]


def _probabilities(scores: Tensor) -> Tensor:
    """Scores that are probabilities already are taken as they are, others go through softmax. What a method declares
    does not tell: LAME gives probabilities, and frozen, Standard's logits. What is not a number is no confidence."""
    finite = scores.double().nan_to_num(nan=-torch.inf)
    sums_to_one = (finite >= 0).all() & ((finite.sum(dim=1) - 1).abs() < 1e-3).all()
    return torch.where(sums_to_one, finite, finite.softmax(dim=1)).nan_to_num(nan=0.0)
