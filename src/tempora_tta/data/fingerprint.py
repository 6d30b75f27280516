"""Content hashes, which tell data apart. Those of files are remembered as long as the file system sees no change.

Names, sizes and times of modification are not enough: a picture can be replaced by another of the same size, and
tools that copy keep the time. So every file is read whole, once. Its hash is remembered in the user's cache under the
file's size, inode, time of modification *and* time of change (ctime), which no tool can set: a file that was written
to since has another one and is read again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from tempora_tta.data.threads import Progress, blocks, in_threads
from tempora_tta.errors import TemporaError

HASH_BYTES = 16
_AT_A_TIME = 64
_READERS = 8
"""Threads: more than cores on small machines, since most of the time is the disk's."""
_TICK_NS = 2_000_000_000
"""Nanoseconds within which two writes may leave the same times (2 s: the coarsest file system)."""
_CHANGE_TIMES_ARE_KEPT = os.name != "nt"
"""On Windows ctime is the time of creation: nothing is remembered there, and every file is read every time."""


def digest(*parts: str | np.ndarray) -> str:
    """Hash strings and arrays (shape, type and contents) to one short word.

    >>> digest("a", "b") == digest("ab")
    False
    """
    total = hashlib.blake2b(digest_size=12)
    body: bytes | memoryview
    for part in parts:
        if isinstance(part, str):
            head, body = "str", part.encode("utf-8", "surrogatepass")  # file names may be any bytes
        else:
            array = np.ascontiguousarray(part)
            head, body = f"{array.dtype.str}{array.shape}", array.reshape(-1).view(np.uint8).data
        total.update(f"{head} {len(body)} ".encode())
        total.update(body)
    return total.hexdigest()


def content_hash(content: bytes) -> bytes:
    """Hash bytes to 16 bytes."""
    return hashlib.blake2b(content, digest_size=HASH_BYTES).digest()


def as_rows(hashes: Sequence[bytes]) -> np.ndarray:
    """Hashes as uint8 (n, 16)."""
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, HASH_BYTES)


def file_hashes(
    root: Path, names: Sequence[str], stats: Sequence[os.stat_result], progress: Progress | None = None
) -> np.ndarray:
    """Hash the files `names` below `root`: uint8 (n, 16). `stats` are theirs, taken before.

    `progress(done, total)` counts the files that have to be read.
    """
    keys = [_key(name, stat) for name, stat in zip(names, stats, strict=True)]
    known = _remembered(root)
    missing = [i for i, key in enumerate(keys) if key not in known]
    groups = [missing[block] for block in blocks(len(missing), _AT_A_TIME)]
    begun_ns = time.time_ns()
    done = 0

    def read(group: list[int]) -> list[bytes]:
        return [_hash_file(root / names[i]) for i in group]

    try:
        for group, hashes in zip(groups, in_threads(read, groups, _READERS), strict=True):
            known.update(zip((keys[i] for i in group), hashes, strict=True))
            done += len(group)
            if progress is not None:
                progress(done, len(missing))
    finally:  # what was read before an interruption need not be read again
        if missing:
            settled = (stat.st_ctime_ns < begun_ns - _TICK_NS for stat in stats)
            _remember(root, {k: known[k] for k, old in zip(keys, settled, strict=True) if old and k in known})
    return as_rows([known[key] for key in keys])


def forget(root: Path) -> None:
    """Read all files below `root` again next time."""
    with suppress(OSError, RuntimeError):
        _index(root).unlink()


def user_cache() -> Path:
    """Folder for what can be made again: `TEMPORA_CACHE`, else `~/.cache/tempora`."""
    root = os.environ.get("TEMPORA_CACHE")
    return Path(root) if root else Path.home() / ".cache" / "tempora"


def read_archive(path: Path, name: str) -> np.ndarray | None:
    """The array `name` of an .npz file of the cache, or None where it is missing or damaged (it holds a checksum)."""
    if not path.is_file():  # numpy would wait for a process that writes into a pipe
        return None
    try:
        with np.load(path) as archive:
            array: np.ndarray = archive[name]
    except Exception:  # numpy raises many kinds of errors on a damaged file
        return None
    return array


def write_archive(path: Path, name: str, array: np.ndarray) -> None:
    """Write such a file. A cache that cannot be written costs only time."""
    from tempora_tta.store.atomic import write_atomically  # the store imports pandas, which listings need not

    def write(part: Path) -> None:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez(file, **{name: array})  # type: ignore[arg-type]  # numpy's stubs take names for options

    with suppress(OSError, RuntimeError, TemporaError):
        write_atomically(path, write)


def _key(name: str, stat: os.stat_result) -> bytes:
    facts = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino} {name}"
    return content_hash(facts.encode("utf-8", "surrogatepass"))


def _hash_file(path: Path) -> bytes:
    try:
        return content_hash(path.read_bytes())
    except OSError as error:
        raise TemporaError(f"{path} cannot be read ({error.strerror}): replace or remove it") from error


def _index(root: Path) -> Path:
    return user_cache() / "contents" / f"{content_hash(os.fsencode(root.resolve())).hex()}.npz"


def _remembered(root: Path) -> dict[bytes, bytes]:
    """Hash by key. Nothing where there is no index or a damaged one."""
    if not _CHANGE_TIMES_ARE_KEPT:
        return {}
    try:
        pairs = read_archive(_index(root), "pairs")
    except (OSError, RuntimeError):  # no home folder, or a link to itself
        return {}
    if pairs is None or pairs.dtype != np.uint8 or pairs.shape[1:] != (2, HASH_BYTES):
        return {}
    return {key.tobytes(): found.tobytes() for key, found in pairs}


def _remember(root: Path, pairs: dict[bytes, bytes]) -> None:
    if _CHANGE_TIMES_ARE_KEPT and pairs:
        flat = np.frombuffer(b"".join(key + found for key, found in pairs.items()), np.uint8)
        with suppress(OSError, RuntimeError):
            write_archive(_index(root), "pairs", flat.reshape(-1, 2, HASH_BYTES))
