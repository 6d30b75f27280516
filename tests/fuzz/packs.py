"""Packs: bits flipped, members exchanged, forged, renamed or blown up, then opened.

What comes out is what the untouched pack holds, or an error; nothing is written next to it.
"""

from __future__ import annotations

import json
import zipfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random

import pandas as pd
from command import tempora
from mutations import ODD_TEXTS, odd_value, spoil_bytes, spoil_data, spoil_text
from run_folders import pristine

NAMES = (
    "../x",
    "/x",
    "traces/../../x",
    "traces/x.parquet",
    "traces/",
    "run.json",
    "pack.json",
    "x\x00y",
    *ODD_TEXTS,
)
METHODS = (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def case(rng: Random) -> None:
    file = Path("sent.tempora")
    if rng.random() < 0.4:
        file.write_bytes(spoil_bytes(rng, _untouched()))
    else:
        _forge(rng, file)
    before = set(Path().rglob("*"))
    if rng.random() < 0.3:
        tempora(*rng.choice((("show", str(file)), ("recommend", str(file), "--interval-ms", "50"))))
    else:
        _read(file)
    assert set(Path().rglob("*")) == before, "something was written next to it"


def _read(file: Path) -> None:
    """A pack that opens holds what the run did: every change is refused, none is only warned about."""
    import tempora_tta as tempora

    results = tempora.open_run(file)
    untouched = tempora.open_run(pristine())
    if results.folder.packed_without_traces:
        assert not results.folder.passes()
    else:
        pd.testing.assert_frame_equal(results.traces, untouched.traces)
    pd.testing.assert_frame_equal(results.utilities, untouched.utilities)
    assert results.manifest == untouched.manifest


def _forge(rng: Random, file: Path) -> None:
    """Change members as an attacker who knows the format would; half of the time run.json is made to agree."""
    members = dict(_members())
    for _ in range(rng.randint(1, 2)):
        name = rng.choice(sorted(members))
        kind = rng.randrange(6)
        if kind == 0:
            members[name] = spoil_bytes(rng, members[name])
        elif kind == 1:
            other = rng.choice(sorted(members))
            members[name], members[other] = members[other], members[name]
        elif kind == 2 and len(members) > 1:
            del members[name]
        elif kind == 3:
            members[rng.choice(NAMES)] = members[name]
        elif kind == 4 and "run.json" in members:
            members["run.json"] = spoil_text(rng, members["run.json"].decode(errors="replace")).encode(
                errors="replace"
            )
        else:
            members["profile.json"] = bytes(rng.choice((1, 1 << 10, 8 << 20)))
    if rng.random() < 0.3:
        members["run.json"] = _told(rng, members)
    method = zipfile.ZIP_DEFLATED if rng.random() < 0.8 else rng.choice(METHODS)
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            try:
                archive.writestr(name, data)
            except (ValueError, OverflowError):  # a name that no archive can hold
                continue


def _told(rng: Random, members: dict[str, bytes]) -> bytes:
    """Return a run.json whose list of files is odd, or the spoilt record of an honest list."""
    listed = {name: sha256(data).hexdigest() for name, data in members.items() if "/" not in name}
    try:
        told = json.loads(members.get("run.json", b"{}"))
    except ValueError:
        return b"{}"
    if isinstance(told, dict):
        told["files"] = odd_value(rng) if rng.random() < 0.5 else listed
    return json.dumps(spoil_data(rng, told) if rng.random() < 0.5 else told).encode()


@cache
def _untouched() -> bytes:
    from tempora_tta.store import pack

    return pack(pristine(), pristine().parent / "untouched.tempora").read_bytes()


@cache
def _members() -> dict[str, bytes]:
    import io

    with zipfile.ZipFile(io.BytesIO(_untouched())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
