"""A few small pictures of every shift, for the report: the same samples of each shift, next to clean ones."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from contextlib import suppress

import numpy as np

from tempora_tta import data
from tempora_tta.config import DataConfig
from tempora_tta.data import Order, Shift
from tempora_tta.data.images import Geometry
from tempora_tta.data.registry import find
from tempora_tta.errors import TemporaError
from tempora_tta.models import Preprocessing

SAMPLES, SIDE = 4, 64
"""How many there are of a shift, and how wide one may be."""
CLEAN = "clean"


def may_be_kept(config: DataConfig) -> bool:
    """Return whether pictures may travel in a run folder: as the user says, else as the dataset does."""
    return find(config.dataset).pictures_travel if config.pictures is None else config.pictures


def sample_pictures(
    config: DataConfig, orders: Iterable[Order], preprocessing: Preprocessing
) -> dict[str, bytes]:
    """Shift -> its samples side by side, a JPEG; of one shift at several severities, the last."""
    shifts = {shift.name: shift for order in orders for shift in order.shifts if not shift.normalised}
    if shifts and CLEAN not in shifts:
        with suppress(TemporaError):  # this dataset has none
            shifts = data.open(config.dataset, config.root, shifts=[CLEAN], **config.options) | shifts
    return {name: _strip(shift, preprocessing) for name, shift in _clean_first(shifts).items()}


def _clean_first(shifts: Mapping[str, Shift]) -> dict[str, Shift]:
    return {name: shifts[name] for name in sorted(shifts, key=lambda name: name != CLEAN)}


def _strip(shift: Shift, preprocessing: Preprocessing) -> bytes:
    """The first sample of each of the first classes: the same ones wherever the labels are."""
    from PIL import Image

    _, first = np.unique(shift.labels, return_index=True)
    chosen = np.sort(first)[:SAMPLES]
    pixels = shift.source.read(chosen, Geometry.of(preprocessing))
    pictures = [Image.fromarray(one[0] if len(one) == 1 else one.transpose(1, 2, 0)) for one in pixels]
    for picture in pictures:
        picture.thumbnail((SIDE, SIDE))
    strip = Image.new(pictures[0].mode, (sum(one.width for one in pictures), pictures[0].height))
    for place, picture in enumerate(pictures):
        strip.paste(picture, (place * picture.width, 0))
    file = io.BytesIO()
    strip.save(file, "JPEG", quality=90)
    return file.getvalue()
