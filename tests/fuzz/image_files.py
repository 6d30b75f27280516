"""Image files and trees of datasets: damaged pictures, odd names and shapes, misplaced folders, in the loaders."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from command import restrained, tempora
from mutations import ODD_TEXTS, odd_value, spoil_bytes, spoil_data, spoil_file, spoil_text
from PIL import Image

CLASSES = ("cat", "dog", "eel")
MODES = ("RGB", "L", "RGBA", "LA", "P", "1", "CMYK", "I;16", "F")


def case(rng: Random) -> None:
    name, make = rng.choice(list(TREES.items()))
    root = Path("tree")
    settings = make(rng, root)
    for _ in range(rng.choice((0, 1, 1, 2))):
        spoil_tree(rng, root)
    kind = rng.random()
    if kind < 0.15:
        tempora("data", "verify", str(root), "--name", name, *(["--decode"] if rng.random() < 0.7 else []))
    elif kind < 0.25:
        if rng.random() < 0.3:
            _write(
                Path("out/corruptions.json"), json.dumps(odd_value(rng)).encode() + rng.choice((b"", b"}"))
            )
        few = (
            "--corruptions",
            rng.choice(("contrast", "brightness,fog")),
            "--size",
            rng.choice(("16", "32", "5")),
        )
        tempora("data", "corrupt", str(root), "out", *few, "--workers", "1", "--constants", "cifar")
    else:
        with restrained():
            _open(rng, name, root, settings)


def _open(rng: Random, name: str, root: Path, settings: dict[str, Any]) -> None:
    """Open a data set and read every picture: right shapes and labels, or a sentence."""
    from tempora_tta import data
    from tempora_tta.models import Preprocessing

    looks_at = Preprocessing(
        mean=(0.5,) * 3, std=(0.2,) * 3, input_size=(3, 12, 12), crop_pct=rng.choice((1.0, 0.875))
    )
    for shift in data.open(name, root=root, **settings).values():
        assert len(shift) == len(shift.source) > 0
        assert 0 <= shift.labels.min() <= shift.labels.max() < shift.num_classes
        if name == "folder" and shift.class_names is not None:
            folders = [Path(path).parent.name for path in shift.source.names]
            assert [shift.class_names[label] for label in shift.labels] == folders, (
                "a label is another folder's"
            )
        if rng.random() < 0.5:
            pixels = shift.images(np.arange(len(shift)), looks_at)
            assert pixels.shape == (len(shift), 3, 12, 12)
            continue
        stream = data.open_stream(
            shift, looks_at, batch_size=2, workers=0, cache_dir=rng.choice((None, "cache"))
        )
        for i in range(stream.num_batches):
            assert stream.batch(i).isfinite().all()
            assert len(stream.labels(i)) == 2


def spoil_tree(rng: Random, root: Path) -> None:
    """Change a file, or put something odd where it does not belong."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    folders = sorted(path for path in (root, *root.rglob("*")) if path.is_dir())
    kind = rng.random()
    if kind < 0.4 and files:
        path = rng.choice(files)
        if path.suffix == ".txt":
            path.write_bytes(
                spoil_text(rng, path.read_text(errors="replace")).encode("utf-8", "surrogatepass")
            )
        elif path.suffix == ".npy" and rng.random() < 0.7:
            path.write_bytes(_odd_array(rng))
        elif path.suffix == "" and rng.random() < 0.5:
            path.write_bytes(_odd_pickle(rng))
        else:
            path.write_bytes(spoil_bytes(rng, path.read_bytes()))
    elif kind < 0.6 and files:
        spoil_file(rng, rng.choice(files), files)
    elif kind < 0.9:
        name = rng.choice(
            ("x.jpg", "X.PNG", ".hidden.jpg", "Thumbs.db", "é.png", "\udcff.jpg", "a b.tif", "[red].webp")
        )
        _write(rng.choice(folders) / name, odd_picture(rng))
    else:
        place = rng.choice(folders) / rng.choice(
            [text for text in ODD_TEXTS if "/" not in text and 0 < len(text) < 90 and "\x00" not in text]
        )
        if not place.exists():
            place.mkdir()


def odd_picture(rng: Random) -> bytes:
    """A picture of an odd mode, size or format, or one whose header promises far too much."""
    kind = rng.randrange(4)
    if kind == 0:
        return _png_header(*rng.choice(((60000, 60000), (0, 5), (2**31 - 1, 2), (5, 5), (14000, 14000))))
    mode, size = rng.choice(MODES), rng.choice(((1, 1), (1, 300), (40, 3), (12, 12), (16, 20)))
    formats = {"RGB": ("JPEG", "PNG", "BMP", "PPM", "WEBP", "TIFF"), "CMYK": ("JPEG", "TIFF"), "F": ("TIFF",)}
    target = io.BytesIO()
    Image.new(mode, size, 1).save(target, rng.choice(formats.get(mode, ("PNG", "TIFF"))))
    return target.getvalue() if kind < 3 else spoil_bytes(rng, target.getvalue())


def _png_header(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = b"IDAT" + zlib.compress(b"\x00" * 100)
    chunks = (
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part))
        for part in (head, body, b"IEND")
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _odd_array(rng: Random) -> bytes:
    shape = rng.choice(((20,), (20, 32, 32, 3), (0,), (), (20, 32, 32), (5, 4), (19,)))
    kind = rng.choice(("uint8", "int64", "float32", "object", "bool", "U3", ">i4", "complex64"))
    target = io.BytesIO()
    values = np.full(shape, {"object": None, "U3": "cat"}.get(kind, rng.choice((0, 1, 7, 200))), dtype=kind)
    np.save(target, values, allow_pickle=True)
    content = target.getvalue()
    return (
        content.replace(b"(20,", rng.choice((b"(9" + b"9" * 9 + b",", b"(-2,", b"(20,")), 1)
        if rng.random() < 0.3
        else content
    )


def _odd_pickle(rng: Random) -> bytes:
    plain = {"data": [1, 2], "labels": [0, 1], "batch_label": "testing"}
    return rng.choice(
        (
            pickle.dumps(spoil_data(rng, plain)),
            pickle.dumps(print),
            pickle.dumps([1]),
            b"cos\nsystem\n(S'true'\ntR.",
        )
    )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# -- trees in the published layouts ----------------------------------------------------------------------------


def _picture(shade: int, kind: str) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (18, 14), (shade, 0, 255 - shade)).save(target, kind)
    return target.getvalue()


def _classes(root: Path, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        for i, (suffix, kind) in enumerate((("jpg", "JPEG"), ("png", "PNG"))):
            _write(root / name / f"{i}.{suffix}", _picture(10 * number + i, kind))


def _folder(rng: Random, root: Path) -> dict[str, Any]:
    _classes(root, CLASSES)
    (root / "classes.txt").write_text("\n".join(CLASSES))
    return {}


def _corrupted_folder(rng: Random, root: Path) -> dict[str, Any]:
    _classes(root / "fog" / "5", CLASSES)
    _classes(root / "clean", CLASSES)
    (root / "classes.txt").write_text("\n".join(CLASSES))
    return {"shifts": rng.choice((None, "fog", "clean,fog", "weather"))}


def _cifar10(rng: Random, root: Path) -> dict[str, Any]:
    batch = {b"data": np.zeros((20, 3072), np.uint8), b"labels": [i % 10 for i in range(20)]}
    _write(root / "test_batch", pickle.dumps(batch, protocol=2))
    return {"subset": True}


def _cifar10_c(rng: Random, root: Path) -> dict[str, Any]:
    root.mkdir(parents=True)
    np.save(root / "labels.npy", np.tile(np.arange(4), 5))
    for name in ("fog", "snow"):
        np.save(root / f"{name}.npy", np.full((20, 32, 32, 3), 9, np.uint8))
    return {"subset": True, "severity": rng.randint(1, 5), "shifts": rng.choice(("fog", "snow,fog"))}


def _imagenet_a(rng: Random, root: Path) -> dict[str, Any]:
    _classes(root, ("n01498041", "n01531178"))
    return {"subset": True}


def _imagenet_v2(rng: Random, root: Path) -> dict[str, Any]:
    _classes(root / "imagenetv2-matched-frequency-format-val", ("0", "10", "999"))
    return {"subset": True}


TREES: dict[str, Callable[[Random, Path], dict[str, Any]]] = {
    "folder": lambda rng, root: rng.choice((_folder, _corrupted_folder))(rng, root),
    "cifar10": _cifar10,
    "cifar10_c": _cifar10_c,
    "imagenet_a": _imagenet_a,
    "imagenet_v2": _imagenet_v2,
}
