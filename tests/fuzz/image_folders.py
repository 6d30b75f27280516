"""Folders of images that change between two openings, and what does not belong there: never old pixels or a hang."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np
from command import restrained, tempora
from image_files import CLASSES, odd_picture
from PIL import Image

from tempora_tta.data import fingerprint

SHADES = 250


def case(rng: Random) -> None:
    root = Path("photos")
    for name in CLASSES:
        for i in range(rng.randint(1, 3)):
            _save(root / name / f"{i}.bmp", rng.randrange(SHADES))
    (root / "classes.txt").write_text("\n".join(CLASSES))
    os.environ["TEMPORA_CACHE"] = str(Path("user-cache").resolve())
    try:
        # Half of the time files count as old enough to be remembered, as they are in a user's folder.
        tick_ns = rng.choice((fingerprint._TICK_NS, -(10**12)))
        with restrained(), mock.patch.object(fingerprint, "_TICK_NS", tick_ns):
            before = _seen(rng, root)
            time.sleep(0.02)  # the clock of a file system ticks every few milliseconds
            changed = _change(rng, root)
            after = _seen(rng, root)
        same = before[0] == after[0]
        assert same != changed, (
            "changed pictures have the old fingerprint" if changed else "another fingerprint"
        )
        if rng.random() < 0.3:
            _misplace(rng, root)
            words = rng.choice(
                (("verify", str(root), "--name", "folder", "--decode"), ("corrupt", str(root), "out"))
            )
            more = (
                ("--corruptions", "contrast", "--size", "8", "--workers", "1")
                if words[0] == "corrupt"
                else ()
            )
            tempora("data", *words, *more)
    finally:
        del os.environ["TEMPORA_CACHE"]


def _seen(rng: Random, root: Path) -> tuple[str, list[int]]:
    """Fingerprint and shades of the shift in `root`, decoded or from the cache; the shades are those on disk."""
    from tempora_tta import data
    from tempora_tta.models import Preprocessing

    looks_at = Preprocessing(mean=(0.0,) * 3, std=(1.0,) * 3, input_size=(3, 8, 8), crop_pct=1.0)
    (shift,) = data.open("folder", root=root).values()
    stream = data.open_stream(
        shift, looks_at, batch_size=1, workers=0, cache_dir=rng.choice((None, "decoded"))
    )
    shades = [0] * len(shift)
    for i in range(stream.num_batches):
        _, (index,) = stream.order.samples(i)
        shades[index] = round(float(stream.batch(i)[0, 0, 0, 0]) * 255)
    on_disk = [int(np.asarray(Image.open(root / name))[0, 0, 0]) for name in shift.source.names]
    assert shades == on_disk, "pixels that are not on disk"
    return shift.fingerprint, shades


def _change(rng: Random, root: Path) -> bool:
    """Change the folder in a way that may be hard to see; whether the pictures are others now."""
    files = sorted(root.rglob("*.bmp"))
    path = rng.choice(files)
    facts, shade = path.stat(), int(np.asarray(Image.open(path))[0, 0, 0])
    kind = rng.randrange(6)
    if kind == 0:
        os.utime(path)
        return False
    if kind == 1:
        copy = path.with_suffix(".tmp")
        shutil.copy2(path, copy)
        os.replace(copy, path)
        return False
    if kind == 2:
        _save(path.with_name("more.bmp"), shade)
        return True
    if kind == 3:  # another file with the same name, size and times, moved over it
        other = path.with_suffix(".tmp")
        _save(other, shade + 1)
        os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        os.replace(other, path)
    else:  # overwritten in place
        _save(path, shade + 1)
        if kind == 4:
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return True


def _misplace(rng: Random, root: Path) -> None:
    """Put something where it does not belong."""
    place = rng.choice((root, *(root / name for name in CLASSES)))
    name = rng.choice(("x.png", "x.gif", "fog", "x.txt", "clean", "cat.jpg", "corruptions.json", "x.npy"))
    target = place / name
    kind = rng.randrange(6)
    if kind == 0:
        os.mkfifo(target)
    elif kind == 1:
        target.symlink_to(rng.choice(("nowhere", name, "/dev/zero", "/dev/null", "..")))
    elif kind == 2:
        target.mkdir()
    elif kind == 3:
        target.write_bytes(odd_picture(rng))
    elif kind == 4:
        shutil.rmtree(root / "dog")
        (root / "dog").symlink_to("nowhere")
    else:
        Image.new("RGB", (8, 8)).save(target.with_suffix(".gif"))


def _save(path: Path, shade: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (shade, shade, shade)).save(path, "BMP")
