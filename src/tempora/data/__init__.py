"""Shifts, orders of them, and streams: what is fed to a model that adapts.

    shifts = tempora.data.open("cifar10_c", root="CIFAR-10-C", severity=5, shifts="noise")
    stream = tempora.data.open_stream(shifts["gaussian_noise"], preprocessing, device="cuda")
    stream.batch(0), stream.labels(0)

Names that need torch are imported when first used: decoding workers and `tempora data` start without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tempora.data.from_dataset import from_dataset
from tempora.data.groups import CORRUPTIONS, EXTRA, GROUPS, expand, group_of
from tempora.data.order import Order, Segment
from tempora.data.registry import Archive, Dataset, LayoutError, dataset, datasets, open
from tempora.data.sampler import draw, stream_order
from tempora.data.shift import Shift, array_shift
from tempora.data.walk import Walk

if TYPE_CHECKING:
    from tempora.data.batches import from_batches
    from tempora.data.stream import Stream, Streams, open_stream

_NEED_TORCH = {
    "Stream": "tempora.data.stream",
    "Streams": "tempora.data.stream",
    "from_batches": "tempora.data.batches",
    "open_stream": "tempora.data.stream",
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
    "Streams",
    "Walk",
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
