"""Tar archives: bits flipped, parts lost, odd members and names; what is unpacked without an error is right."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from random import Random

from mutations import ODD_TEXTS, spoil_bytes

NAMES = (
    *(
        "a.jpg",
        "x/b.jpg",
        "x/y/c.jpg",
        "a.jpg/d",
        "x",
        ".",
        "",
        "..",
        "../e",
        "/tmp/e",
        "x/../../e",
        "a\x00b",
    ),
    *("C:/e", "x\\e", "é.jpg", "\udcff", "n" * 120, "n" * 300, "./x/f.jpg", "x//g.jpg", *ODD_TEXTS),
)
TYPES = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.CONTTYPE, b"Z")
COMPRESSIONS = ("", "gz", "bz2", "xz")
OFFICIAL = ("imagenetv2-matched-frequency.tar.gz", "noise.tar", "cifar-10-python.tar.gz")


def case(rng: Random) -> None:
    archive = Path(rng.choice(OFFICIAL))
    plain = rng.random() < 0.5
    content, expected = _sound(rng) if plain else (_odd(rng), None)
    if rng.random() < 0.7:
        content = spoil_bytes(rng, content) if rng.random() < 0.5 else _flip(rng, content)
    archive.write_bytes(content)
    _unpack(archive, expected)


def _unpack(archive: Path, expected: dict[str, bytes] | None) -> None:
    from tempora_tta.data.fetch import unpack

    out = Path("deep/deeper/out")
    before = _around(out)
    try:
        files = unpack(archive, out)
    finally:
        assert _around(out) <= before | {*out.parents, out}, "it got out"
    found = {path.relative_to(out).as_posix(): path for path in out.rglob("*") if path.is_file()}
    inside = out.resolve()
    assert all(inside in path.resolve().parents for path in out.rglob("*")), "a link leads out"
    assert len(found) <= files
    if expected is not None and archive_has_checksum(archive):
        contents = {name: path.read_bytes() for name, path in found.items()}
        assert contents == expected, "other files than were packed, without a word"


def _around(out: Path) -> set[Path]:
    """List what the working folder, which is the case's alone, holds besides what was unpacked."""
    return {path for path in Path().rglob("*") if out not in path.parents}


def archive_has_checksum(archive: Path) -> bool:
    """Of a plain tar only the headers have one."""
    return archive.read_bytes()[:2] in (b"\x1f\x8b", b"BZ", b"\xfd7")


def _sound(rng: Random) -> tuple[bytes, dict[str, bytes]]:
    members = {
        f"x/{i}/{i}.jpg": rng.randbytes(rng.choice((0, 1, 600, 5000))) for i in range(rng.randint(1, 4))
    }
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=f"w:{rng.choice(COMPRESSIONS)}") as tar:
        for name, content in members.items():
            _add(tar, name, content)
    return target.getvalue(), members


def _odd(rng: Random) -> bytes:
    target = io.BytesIO()
    kind = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=target, mode=f"w:{rng.choice(COMPRESSIONS)}", format=kind) as tar:
        for _ in range(rng.randint(1, 4)):
            info = tarfile.TarInfo(f"x/{rng.randrange(9)}.jpg")
            choice = rng.random()
            if choice < 0.4:
                info.pax_headers = {"path": rng.choice(NAMES)}
            elif choice < 0.6:
                info.pax_headers = {
                    rng.choice(
                        ("size", "mtime", "uid", "GNU.sparse.map", "GNU.sparse.major", "hdrcharset")
                    ): rng.choice(("-1", "x", "1e999", "9" * 30, "0,1,2", ""))
                }
            elif choice < 0.75:
                info.type, info.linkname = rng.choice(TYPES), rng.choice(("/etc/passwd", "../..", "x"))
            elif choice < 0.85:
                info.type = tarfile.DIRTYPE
            try:
                _add(tar, info, b"content" if info.type == tarfile.REGTYPE else b"")
            except (ValueError, OverflowError):  # names that this format cannot hold
                continue
    return target.getvalue()


def _add(tar: tarfile.TarFile, member: str | tarfile.TarInfo, content: bytes) -> None:
    info = tarfile.TarInfo(member) if isinstance(member, str) else member
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _flip(rng: Random, content: bytes) -> bytes:
    flipped = bytearray(content)
    flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)
