"""Corrupted pictures of a shift, made when they are read, at the size that the model takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from tempora_tta.data.corruptions.constants import CONSTANTS, SIZES, VERSION
from tempora_tta.data.corruptions.core import corrupt_at
from tempora_tta.data.fingerprint import digest
from tempora_tta.data.geometry import Geometry
from tempora_tta.data.images import Images
from tempora_tta.data.shift import Shift

SEED = 2025


@dataclass(frozen=True, eq=False)
class CorruptedImages:
    """Pictures of another source under one corruption, with the constants of the nearest size."""

    slow_to_read: ClassVar[bool] = True
    clean: Images
    name: str
    severity: int

    def __len__(self) -> int:
        return len(self.clean)

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        nearest = min(SIZES, key=lambda constants: abs(SIZES[constants] - geometry.height))
        c = CONSTANTS[nearest][self.name][self.severity - 1]
        pixels = torch.from_numpy(self.clean.read(indices, geometry))
        return corrupt_at(pixels, self.name, c, SEED, indices.tolist()).numpy()


def corrupted(clean: Shift, name: str, severity: int) -> Shift:
    """The pictures of a shift under a corruption."""
    return replace(
        clean,
        name=name,
        group="",
        severity=severity,
        source=CorruptedImages(clean.source, name, severity),
        fingerprint=digest(clean.fingerprint, name, str(severity), str(SEED), str(VERSION)),
    )
