"""Shifts, orders of them, and streams: what is fed to a model that adapts.

    shifts = tempora_tta.data.open("cifar10_c", root="CIFAR-10-C", severity=5, shifts="noise")
    stream = tempora_tta.data.open_stream(shifts["gaussian_noise"], preprocessing, device="cuda")
    stream.batch(0), stream.labels(0)

Names that need torch are imported when first used: decoding workers and `tempora data` start without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tempora_tta.data.from_dataset import from_dataset
from tempora_tta.data.groups import CORRUPTIONS, EXTRA, GROUPS, expand, group_of
from tempora_tta.data.order import Order, Segment, StreamSettings
from tempora_tta.data.registry import Archive, Dataset, LayoutError, dataset, datasets, open
from tempora_tta.data.sampler import draw, stream_order
from tempora_tta.data.shift import Shift, array_shift

if TYPE_CHECKING:
    from tempora_tta.data.batches import from_batches
    from tempora_tta.data.stream import Stream, Streams, open_stream

_NEED_TORCH = {
    "Stream": "tempora_tta.data.stream",
    "Streams": "tempora_tta.data.stream",
    "from_batches": "tempora_tta.data.batches",
    "open_stream": "tempora_tta.data.stream",
}

__all__ = [
    "CORRUPTIONS",
    "EXTRA",
    "GROUPS",
    "Archive",
    "Dataset",
    "LayoutError",
    "Order",
    "Segment",
    "Shift",
    "Stream",
    "StreamSettings",
    "Streams",
    "array_shift",
    "dataset",
    "datasets",
    "draw",
    "expand",
    "from_batches",
    "from_dataset",
    "group_of",
    "open",
    "open_stream",
    "stream_order",
]


def __getattr__(name: str) -> Any:
    if name in _NEED_TORCH:
        return getattr(import_module(_NEED_TORCH[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
