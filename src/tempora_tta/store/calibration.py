"""Expected calibration error: how far confidence is from accuracy, over any batches of a trace.

Samples are sorted into bins by confidence, the probability given to the predicted class. Of each batch a trace keeps,
by bin, the sum of confidences less the number of samples that were right: sums over batches give the error of any set
of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BINS = 15
"""Of equal width, as is usual."""

FloatArray = NDArray[np.float64]


def gaps(confidence: FloatArray, right: NDArray[np.bool_]) -> FloatArray:
    """By bin, confidence less accuracy of a batch, as sums.

    >>> gaps(np.array([0.9, 0.9, 0.4]), np.array([True, False, True])).round(2).tolist()[5:7]
    [0.0, -0.6]
    """
    places = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    return np.bincount(places, confidence - right, minlength=BINS).astype(np.float64)


def expected_error(calibration: FloatArray, samples: int) -> float | None:
    """The error over batches, (batches, BINS), that hold so many samples; None where it is not known."""
    if samples == 0 or np.isnan(calibration).any():
        return None
    return float(np.abs(calibration.sum(axis=0)).sum()) / samples
