"""A stream: the batches of an order, the same for every method, ready on the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from tempora_tta.data.images import Geometry
from tempora_tta.data.order import Order
from tempora_tta.data.pictures import DecodedPictures, Decoder, Pictures
from tempora_tta.data.sampler import single
from tempora_tta.data.shift import Shift
from tempora_tta.data.threads import Progress
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from tempora_tta.models import Preprocessing


def open_stream(
    shift: Shift | Order,
    preprocessing: Preprocessing,
    batch_size: int = 64,
    seed: int = 2025,
    device: str | torch.device = "cpu",
    limit_batches: int | None = None,
    workers: int | None = None,
    cache_dir: Path | str | None = None,
    progress: Progress | None = None,
) -> Stream:
    """The stream of a shift, shuffled by `seed`, or of any `Order`, which knows its own size and seed.

    `limit_batches` serves (and decodes) only that many batches. `workers` is the number of decoding threads (None:
    one per core, 0: none). `cache_dir` keeps decoded shifts on disk for later runs. `progress(done, total)` is called
    while decoding.
    """
    if workers is not None and workers < 0:
        raise TemporaError(f"workers={workers}: must be 0 (decode without other threads) or more")
    order = shift if isinstance(shift, Order) else single(shift, batch_size, seed, limit_batches)
    device = torch.device(device)
    decoder = Decoder(Geometry.of(preprocessing), workers, Path(cache_dir) if cache_dir else None)
    return Stream(order, DecodedPictures(order, decoder, device, progress), device, preprocessing)


class Stream:
    """The batches of an order. Made by `open_stream` and `from_batches`.

    Only the engine calls `labels`; a method sees what `batch` returns and nothing else.
    """

    def __init__(
        self,
        order: Order,
        pictures: Pictures,
        device: torch.device,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        """Without `preprocessing` the pictures are floats, as the model takes them."""
        self.order, self.device = order, device
        self._pictures: Pictures | None = pictures
        self._preprocessing = preprocessing
        if preprocessing is not None:
            self._mean, self._std = (
                torch.tensor(values, dtype=torch.float32, device=device).view(-1, 1, 1)
                for values in (preprocessing.mean, preprocessing.std)
            )

    @property
    def name(self) -> str:
        """The shift's name, or the kind of a stream of many."""
        return self.order.shift

    @property
    def seed(self) -> int:
        return self.order.seed

    @property
    def fingerprint(self) -> str:
        """Hash of the data, independent of the order."""
        return self.order.fingerprint

    @property
    def batch_size(self) -> int:
        return self.order.batch_size

    @property
    def num_batches(self) -> int:
        return self.order.num_batches

    @property
    def dropped(self) -> int:
        """Samples that make no whole batch and are left out."""
        return self.order.dropped

    @property
    def classes(self) -> np.ndarray | None:
        """The classes that scores are restricted to; None: all."""
        return self.order.classes

    @property
    def num_classes(self) -> int:
        """Classes in the model's full label space."""
        return self.order.shifts[0].num_classes

    def batch(self, i: int) -> torch.Tensor:
        """Batch `i`, normalised float32 on the stream's device. The caller synchronises."""
        if self._pictures is None:
            raise RuntimeError(f"stream {self.name!r} is closed")
        chosen = self._pictures.batch(self.order, i).to(
            self.device
        )  # as bytes: floats are four times as many
        if self._preprocessing is None:
            return chosen
        floats = torch.empty(chosen.shape, dtype=torch.float32, device=self.device)
        return floats.copy_(chosen).div_(255).sub_(self._mean).div_(self._std)

    def labels(self, i: int) -> np.ndarray:
        """The int64 labels of batch `i`: for scoring, never for a method."""
        return self.order.labels(i)

    def under(self, order: Order) -> Stream | None:
        """Share the pictures with another order; None if that might need others."""
        if self._pictures is None or order.shifts != self.order.shifts:
            return None
        if not self._pictures.serve(order):
            return None
        return Stream(order, self._pictures, self.device, self._preprocessing)

    def close(self) -> None:
        """Free the memory that the pictures take."""
        self._pictures = None


class Streams:
    """Opens one order at a time; what was decoded for the last one serves the next where it can."""

    def __init__(self, opener: Callable[[Order], Stream]) -> None:
        self._opener = opener
        self.latest: Stream | None = None

    def open(self, order: Order) -> Stream:
        """The stream of an order, decoded. The one before it is closed."""
        if self.latest is not None and self.latest.order is order:
            return self.latest
        shared = self.latest.under(order) if self.latest is not None else None
        self.close()
        self.latest = shared or self._opener(order)
        return self.latest

    def close(self) -> None:
        if self.latest is not None:
            self.latest.close()
            self.latest = None
