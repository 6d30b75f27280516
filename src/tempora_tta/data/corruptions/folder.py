"""Corrupt a folder of class folders into the layout of ImageNet-C: corruption/severity/class/image.png."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tempora_tta.data.corruptions.constants import CONSTANTS, SIZES, VERSION
from tempora_tta.data.corruptions.core import constants_of, corrupt, names
from tempora_tta.data.fingerprint import digest, file_hashes
from tempora_tta.data.folders import scan
from tempora_tta.data.groups import CORRUPTIONS, expand
from tempora_tta.data.images import Geometry, read_picture
from tempora_tta.data.threads import Progress, in_threads
from tempora_tta.errors import TemporaError
from tempora_tta.store.atomic import write_atomically

CLEAN = "clean"
_GREY_MODES = ("1", "L")


@dataclass(frozen=True)
class Settings:
    """Settings that decide the pictures, kept in DST/corruptions.json: a resumed run must not mix two kinds."""

    seed: int
    constants: str
    size: int
    version: int
    images: str
    """Hash of the images, in their order: an image's position decides its noise."""
    upright: bool = True
    """EXIF orientation is followed, and white stands behind alpha; earlier versions did neither."""


def corrupt_folder(
    src: Path,
    dst: Path,
    corruptions: str | Iterable[str] | None = None,
    severities: Iterable[int] = (5,),
    seed: int = 2025,
    constants: str = "imagenet",
    size: int | None = None,
    workers: int | None = None,
    progress: Progress = lambda *_: None,
    say: Callable[[str], None] = lambda _: None,
) -> int:
    """Corrupt the images of `src`/CLASS/ into `dst`/CORRUPTION/SEVERITY/CLASS/; return how many were written.

    `dst`/clean/CLASS/ gets them as they were, scaled and cropped alike, to compare with.

    corruptions: names and groups ("noise,fog"); None means the fifteen.
    size: side of the square that is corrupted. An image of another size is first scaled, its shorter side to
        size / 0.875, and cropped at the centre. Default: what the constants are made for, and smaller images are
        refused: they would not be what the network sees.
    progress: called as progress(done, total) in pictures; say: told what else a user should know.

    Pictures are written whole or not at all, as PNG: the corruption is the only loss. The same call resumes.
    """
    src, dst = Path(src), Path(dst)
    chosen = expand(corruptions, names(), default=CORRUPTIONS)
    corrupted = [(name, severity) for name in chosen for severity in severities]
    for name, severity in corrupted:
        constants_of(name, severity, constants)
    wanted: list[tuple[str, int | None]] = [(CLEAN, None), *corrupted]
    if size is not None and size < 1:
        raise TemporaError(
            f"size={size}: must be 1 or more pixels; leave it out for the {SIZES[constants]} of the constants"
        )
    if src.resolve() == dst.resolve():
        raise TemporaError(f"{dst} holds the clean images: name another folder for the corrupted ones")
    if src.resolve() in dst.resolve().parents:
        raise TemporaError(f"{dst} lies in {src}, among the class folders: name a folder outside")
    found = scan(src)
    for note in found.notes:
        say(note)
    if size is None:
        side = SIZES[constants]
        say(
            f"--constants {constants}: images are scaled and cropped to {side} x {side} pixels; --size changes that"
        )
    _refuse_clashes(src, found.names)
    known_as = digest("\n".join(found.names), file_hashes(src, found.names, found.stats))
    settings = Settings(seed, constants, size or SIZES[constants], VERSION, known_as)
    work = _Work(src, dst, found.names, wanted, settings, enlarge=size is not None)
    work.read(0)  # before anything is written
    _claim(dst, settings)
    written = 0
    for done, new in enumerate(in_threads(work.write, range(len(found.names)), workers), start=1):
        written += new
        progress(done * len(wanted), len(found.names) * len(wanted))
    return written


def _refuse_clashes(src: Path, found: list[str]) -> None:
    name, count = Counter(_png(image) for image in found).most_common(1)[0]
    if count > 1:
        raise TemporaError(f"{src}: {count} images would be written to {name}. Rename them apart")


def _png(image: str) -> str:
    return str(Path(image).with_suffix(".png").as_posix())


def _claim(dst: Path, settings: Settings) -> None:
    """Note the settings in `dst`, or check that they are those of the run to resume."""
    note = dst / "corruptions.json"
    if not note.exists():
        dst.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(settings), indent=2) + "\n"
        write_atomically(note, lambda part: part.write_text(text, encoding="utf-8"))
        return
    try:
        if not note.is_file():
            raise OSError("it is no file")  # reading a pipe would wait for ever
        before, now = dict(json.loads(note.read_text())), asdict(settings)
    except (OSError, ValueError, TypeError) as error:
        raise TemporaError(
            f"{note} cannot be read ({error}): give another folder or delete this one"
        ) from error
    changed = [f"{key} {before.get(key)} -> {now[key]}" for key in now if before.get(key) != now[key]]
    if changed:
        raise TemporaError(
            f"{dst} was made with other settings ({', '.join(changed)}): give another folder or delete this one"
        )


@dataclass(frozen=True)
class _Work:
    src: Path
    dst: Path
    images: Sequence[str]
    wanted: Sequence[tuple[str, int | None]]
    """Corruption and severity; the clean images have none."""
    settings: Settings
    enlarge: bool

    def write(self, k: int) -> int:
        """Write image number `k` in every way that is not there yet; return how many were missing."""
        missing = [
            (name, severity, target)
            for name, severity in self.wanted
            if not (target := self._target(name, severity, k)).exists()
        ]
        picture = self.read(k) if missing else np.empty(0)
        for name, severity, target in missing:
            shown = picture
            if severity is not None:
                pixels = torch.from_numpy(picture[None])
                kind = self.settings.constants
                shown = corrupt(pixels, name, severity, kind, self.settings.seed, first_index=k)[0].numpy()
            _write(shown, target)
        return len(missing)

    def _target(self, name: str, severity: int | None, k: int) -> Path:
        return self.dst / name / ("" if severity is None else str(severity)) / _png(self.images[k])

    def read(self, k: int) -> np.ndarray:
        """Image number `k`, scaled and cropped."""
        picture, size = read_picture(self.src / self.images[k]), self.settings.size
        if min(picture.size) < size and not self.enlarge:
            raise TemporaError(
                f"{self.src / self.images[k]} has {picture.width} x {picture.height} pixels, and --constants "
                f"{self.settings.constants} are made for {size} x {size}: give those for the nearest size "
                f"({', '.join(CONSTANTS)}), or the side that you want (--size {size} enlarges such images)"
            )
        channels = 1 if picture.mode in _GREY_MODES else 3
        scaled = int(size / 0.875)
        geometry = Geometry(channels, size, size, scaled, scaled, "bilinear")
        return geometry.fit(picture, precropped=picture.size == (size, size)).copy()


def _write(picture: np.ndarray, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    Image.fromarray(picture[0] if len(picture) == 1 else picture.transpose(1, 2, 0)).save(part, "PNG")
    os.replace(part, target)
