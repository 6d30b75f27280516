"""Numbers in a page: losslessly, in as few bytes as they allow.

Arrays become base64 text of a typed array that a browser reads at once. Times of a clock that counts
nanoseconds fit in 32 bits; anything that does not is kept as it is.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NS_PER_MS = 1e6
_INTEGERS = ("Uint8", "Uint16", "Uint32", "Int32")


def pack(values: ArrayLike) -> dict[str, Any]:
    """Return an array as `{type, data}`, `type` being the typed array; with `per`, its entries are divided by it.

    >>> pack([1, 2, 300])["type"], pack([0.25, 0.5])["type"], pack([1 / 3])["type"]
    ('Uint16', 'Float32', 'Float64')
    """
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return _packed(array, _smallest(array))
    array = array.astype(np.float64)
    single = _exactly(array, "Float32")
    if single is not None:
        return _packed(single, "Float32")
    with np.errstate(invalid="ignore", over="ignore"):
        nanoseconds = np.rint(array * _NS_PER_MS)
        counted = bool(
            ((nanoseconds >= 0) & (nanoseconds < 2**32) & (nanoseconds / _NS_PER_MS == array)).all()
        )
    if counted:
        return {**_packed(nanoseconds, "Uint32"), "per": _NS_PER_MS}
    return _packed(array, "Float64")


def pack_words(words: Sequence[str]) -> dict[str, Any]:
    """Texts that repeat: the distinct ones, and for each entry which of them it is."""
    distinct = list(dict.fromkeys(words))
    return {"words": distinct, "index": pack([distinct.index(word) for word in words])}


def compress(payload: Mapping[str, Any]) -> str:
    """Plain data as base64 text of gzipped JSON: no character in it means anything to HTML."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode("ascii")


def _packed(array: NDArray[Any], kind: str) -> dict[str, Any]:
    little_endian = np.dtype(kind.lower()).newbyteorder("<")
    return {"type": kind, "data": base64.b64encode(array.astype(little_endian).tobytes()).decode("ascii")}


def _smallest(array: NDArray[Any]) -> str:
    return next(kind for kind in (*_INTEGERS, "Float64") if _exactly(array, kind) is not None)


def _exactly(array: NDArray[Any], kind: str) -> NDArray[Any] | None:
    """Return the array in a smaller type, if that loses nothing."""
    with np.errstate(invalid="ignore", over="ignore"):
        smaller = array.astype(np.dtype(kind.lower()))
    return smaller if np.array_equal(smaller, array, equal_nan=array.dtype.kind == "f") else None
