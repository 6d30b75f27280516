"""What files hold: a hash of every one, remembered for as long as the file system says that it did not change.

Names, sizes and times of modification are not enough: a picture can be replaced by another of the same size, and
tools that copy keep the time. So every file is read whole, once. What was found is remembered in the user's cache
under the file's size, inode, time of modification *and* time of change (ctime), which no tool can set: a file that
was written to since has another one and is read again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np

from tempora_tta.data.places import user_cache, written_whole
from tempora_tta.errors import TemporaError

Progress = Callable[[int, int], None]
"""Called as progress(done, total) while files are read or decoded."""

HASH_BYTES = 16
_AT_A_TIME = 64
_TICK_NS = 2_000_000_000
"""Two writes so close together may leave the same times (2 s: the coarsest file system): not to be remembered yet."""
_CHANGE_TIMES_ARE_KEPT = os.name != "nt"
"""On Windows ctime is the time of creation: nothing is remembered there, and every file is read every time."""


def content_hash(content: bytes) -> bytes:
    """16 bytes that tell a file's content."""
    return hashlib.blake2b(content, digest_size=HASH_BYTES).digest()


def file_hashes(
    root: Path, names: Sequence[str], stats: Sequence[os.stat_result], progress: Progress | None = None
) -> np.ndarray:
    """Hashes, uint8 (n, 16), of the files `names` below `root`; `stats` are theirs, taken before.

    `progress(done, total)` counts the files that have to be read.
    """
    keys = [_key(name, stat) for name, stat in zip(names, stats, strict=True)]
    known = _remembered(root)
    hashes = [known.get(key) for key in keys]
    missing = [i for i, found in enumerate(hashes) if found is None]
    begun_ns = time.time_ns()
    try:
        for done, (i, found) in enumerate(_read(root, names, missing), start=1):
            hashes[i] = found
            if progress is not None and (done % _AT_A_TIME == 0 or done == len(missing)):
                progress(done, len(missing))
    finally:  # what was read before an interruption need not be read again
        if missing:
            settled = (stat.st_ctime_ns < begun_ns - _TICK_NS for stat in stats)
            _remember(root, {k: h for k, h, old in zip(keys, hashes, settled, strict=True) if h and old})
    return np.frombuffer(b"".join(found for found in hashes if found), np.uint8).reshape(-1, HASH_BYTES)


def forget(root: Path) -> None:
    """Read everything below `root` anew next time."""
    with suppress(OSError, RuntimeError):
        _index(root).unlink()


def _key(name: str, stat: os.stat_result) -> bytes:
    facts = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino} {name}"
    return content_hash(facts.encode("utf-8", "surrogatepass"))


def _read(root: Path, names: Sequence[str], wanted: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Hash the wanted files. Threads suffice: reading and hashing happen outside the interpreter's lock."""
    groups = [wanted[start : start + _AT_A_TIME] for start in range(0, len(wanted), _AT_A_TIME)]
    with ThreadPoolExecutor(min(8, (os.cpu_count() or 1) + 2)) as pool:
        try:
            for group, found in zip(
                groups,
                pool.map(lambda group: [_hash_file(root / names[i]) for i in group], groups),
                strict=True,
            ):
                yield from zip(group, found, strict=True)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _hash_file(path: Path) -> bytes:
    try:
        return content_hash(path.read_bytes())
    except OSError as error:
        raise TemporaError(f"{path} cannot be read ({error.strerror}): replace or remove it") from error


# -- what is remembered: pairs of (key, hash), one file per folder -----------------------------------------------


def _index(root: Path) -> Path:
    return user_cache() / "contents" / f"{content_hash(os.fsencode(root.resolve())).hex()}.npz"


def _remembered(root: Path) -> dict[bytes, bytes]:
    """Hash by key. Nothing where there is no index or a damaged one (the archive holds a checksum)."""
    if not _CHANGE_TIMES_ARE_KEPT:
        return {}
    try:
        path = _index(root)
        if not path.is_file():
            return {}
        with np.load(path) as archive:
            pairs = archive["pairs"]
        if pairs.dtype != np.uint8 or pairs.shape[1:] != (2, HASH_BYTES):
            return {}
        flat, step = pairs.tobytes(), 2 * HASH_BYTES
        return {flat[i : i + HASH_BYTES]: flat[i + HASH_BYTES : i + step] for i in range(0, len(flat), step)}
    except Exception:  # whatever numpy trips over in a damaged file
        return {}


def _remember(root: Path, pairs: dict[bytes, bytes]) -> None:
    """Write beside the index and move there. A cache that cannot be written costs only time."""
    if not _CHANGE_TIMES_ARE_KEPT or not pairs:
        return
    flat = b"".join(key + found for key, found in pairs.items())
    with suppress(OSError, RuntimeError), written_whole(_index(root)) as part:
        np.savez(part, pairs=np.frombuffer(flat, np.uint8).reshape(-1, 2, HASH_BYTES))
