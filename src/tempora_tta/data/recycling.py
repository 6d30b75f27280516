"""Host memory for batches, used again once nobody looks at it."""

from __future__ import annotations

import weakref

import numpy as np
import torch


class RecycledTensors:
    """Float32 tensors of one shape whose memory comes back when the last tensor or view over it is gone.

    A fresh batch of photographs is tens of megabytes, which the operating system hands out page by page: that
    takes longer than filling it. A batch that somebody still holds is never touched.
    """

    _KEPT = 2  # one batch in use, the next being made

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._free: list[np.ndarray] = []

    def take(self) -> torch.Tensor:
        """A tensor with arbitrary contents."""
        # New memory comes from torch, which aligns it better than numpy does.
        memory = self._free.pop() if self._free else torch.empty(self._shape).numpy()
        lent = memory[:]  # the tensor's storage holds this view, and nothing else does
        weakref.finalize(lent, self._give_back, memory).atexit = False
        return torch.from_numpy(lent)

    def _give_back(self, memory: np.ndarray) -> None:
        if len(self._free) < self._KEPT:
            self._free.append(memory)
