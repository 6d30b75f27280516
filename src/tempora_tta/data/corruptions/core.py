"""Corrupted images from a name, a severity and a seed: of a tensor, or of a shift as it is read."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tempora_tta.data.corruptions import blur, digital, noise, weather
from tempora_tta.data.corruptions.constants import CONSTANTS, SIZES, VERSION
from tempora_tta.data.corruptions.filters import Corruption
from tempora_tta.data.fingerprint import digest
from tempora_tta.data.groups import CORRUPTIONS, EXTRA
from tempora_tta.data.images import Geometry, Images
from tempora_tta.data.shift import Shift
from tempora_tta.errors import TemporaError, unknown

TUNING = EXTRA
SEVERITIES = (1, 2, 3, 4, 5)
SEED = 2025
_ALL: dict[str, Corruption] = {**noise.FAMILY, **blur.FAMILY, **weather.FAMILY, **digital.FAMILY}
_VALUES_AT_A_TIME = 1 << 22  # about 28 photographs of 224 px: enough to share the overhead, little memory


def names() -> tuple[str, ...]:
    """The fifteen in the order of the paper's tables, then the four for tuning."""
    return (*CORRUPTIONS, *TUNING)


def corrupt(
    images: Tensor,
    name: str,
    severity: int = 5,
    constants: str = "imagenet",
    seed: int = SEED,
    first_index: int = 0,
) -> Tensor:
    """Corrupt images (n, channels, height, width), grey or RGB: uint8, or floating point in [0, 1].

    `constants` are "imagenet", "cifar" or "fashion": lengths in them are pixels, take the set whose size
    (224, 32, 28) is nearest to your images. `first_index` is the index of images[0] in its data set:
    corrupting a set in batches gives what corrupting it at once gives. Returns the type and device that
    came in.
    """
    c = constants_of(name, severity, constants)
    _check(images)
    if len(images) == 0:
        return images.clone()
    at_a_time = max(1, _VALUES_AT_A_TIME // images[0].numel())
    indices = range(first_index, first_index + len(images))
    chunks = [slice(start, start + at_a_time) for start in range(0, len(images), at_a_time)]
    return torch.cat([corrupt_at(images[chunk], name, c, seed, indices[chunk]) for chunk in chunks])


@torch.no_grad()
def corrupt_at(images: Tensor, name: str, c: Any, seed: int, indices: Sequence[int]) -> Tensor:
    """Corrupt images whose places in their data set are `indices`, with the constants `c` themselves."""
    corruption = _ALL[name]
    x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    stream = zlib.crc32(f"{seed}/{name}".encode())
    drawn = [
        corruption.draw(np.random.Generator(np.random.Philox(key=[stream, index])), image, c)
        for index, image in zip(indices, x.cpu().numpy(), strict=True)
    ]
    stacked = [torch.from_numpy(np.stack(arrays)).to(x.device) for arrays in zip(*drawn, strict=True)]
    result = corruption.apply(x, c, *stacked).clamp(0, 1)
    if images.dtype == torch.uint8:
        # The published sets cut off fractions; the thousandth keeps 254.99999 from becoming 254.
        return (result * 255 + 1e-3).to(torch.uint8)
    return result.to(images.dtype)


def constants_of(name: str, severity: int, constants: str) -> Any:
    """The numbers of a corruption at a severity; raises TemporaError where there are none."""
    if constants not in CONSTANTS:
        raise unknown("set of constants", constants, CONSTANTS)
    if name not in _ALL:
        raise unknown("corruption", name, _ALL)
    if severity not in SEVERITIES:
        raise TemporaError(f"severity={severity!r}: must be 1, 2, 3, 4 or 5")
    return CONSTANTS[constants][name][severity - 1]


def _check(images: Tensor) -> None:
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise TemporaError(
            f"images of shape {tuple(images.shape)}: expected (n, channels, height, width), 1 or 3 channels"
        )
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise TemporaError(f"images of type {images.dtype}: expected uint8, or floating point in [0, 1]")


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
