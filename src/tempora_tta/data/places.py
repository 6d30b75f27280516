"""Where Tempora keeps what it can make again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def user_cache() -> Path:
    """`TEMPORA_CACHE`, else `~/.cache/tempora`. Nothing there is needed: what is missing is made anew."""
    root = os.environ.get("TEMPORA_CACHE")
    return Path(root) if root else Path.home() / ".cache" / "tempora"


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A place to write to; what was written there is moved to `path` at the end, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".making-") as folder:
        part = Path(folder) / path.name
        yield part
        os.replace(part, path)
