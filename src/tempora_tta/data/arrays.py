"""Reading .npy files that others wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempora_tta.data.registry import LayoutError


def load_npy(path: Path, dtype: type[np.generic] | None, shape: tuple[int | None, ...]) -> np.ndarray:
    """The array in `path`, memory-mapped, of the right type (None: integers) and shape (None: any length)."""
    if not path.is_file():
        raise LayoutError(f"{path} is missing")
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy raises whatever it trips over in a damaged header
        raise LayoutError(f"{path} cannot be read ({error}): it is truncated or no .npy file") from error
    right_type = array.dtype.kind in "iu" if dtype is None else array.dtype == dtype
    right_shape = array.ndim == len(shape) and all(
        expected in (None, found) for expected, found in zip(shape, array.shape, strict=True)
    )
    if not (right_type and right_shape):
        wanted = "integers" if dtype is None else np.dtype(dtype).name
        lengths = ", ".join("any" if n is None else str(n) for n in shape)
        raise LayoutError(
            f"{path} holds {array.dtype} of shape {array.shape}: expected {wanted} of shape ({lengths})"
        )
    return array
