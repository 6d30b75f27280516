"""Pictures of the shifts in a run folder: one small JPEG each, as text in `pictures.json`."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Mapping
from pathlib import Path

from tempora_tta.errors import TemporaWarning
from tempora_tta.store.atomic import write_atomically

FILE = "pictures.json"
MOST_BYTES = 1 << 21
"""Of the file: a strip of four pictures has 2 to 15 kB."""
_JPEG = b"\xff\xd8\xff"


def write_pictures(folder: Path, pictures: Mapping[str, bytes]) -> None:
    """Keep a JPEG for each shift; none is kept where there is none."""
    if not pictures:
        (folder / FILE).unlink(missing_ok=True)
        return
    text = json.dumps({name: base64.b64encode(jpeg).decode("ascii") for name, jpeg in pictures.items()})
    write_atomically(folder / FILE, lambda part: part.write_text(text, encoding="utf-8"))


def read_pictures(folder: Path) -> dict[str, str]:
    """Shift -> base64 of its JPEG. A file that is something else is left alone, aloud: a run is whole without it."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES >> 20} MiB")
        found = json.loads(path.read_text(encoding="utf-8"))
        for name, text in found.items():
            if not isinstance(text, str) or not base64.b64decode(text, validate=True).startswith(_JPEG):
                raise ValueError(f"{name!r} is no JPEG")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        warnings.warn(f"{path} holds no pictures of shifts ({error}); they are left out", TemporaWarning, 2)
        return {}
    return dict(found)
