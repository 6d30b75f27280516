"""Pictures of shifts in a run folder: kept as they are, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tempora_tta.errors import TemporaWarning
from tempora_tta.store.pictures import FILE, MOST_BYTES, read_pictures, write_pictures

JPEG = b"\xff\xd8\xff\xe0 and so on"


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"clean": JPEG, "fog": JPEG + b"2"})
    assert {name: base64.b64decode(text) for name, text in read_pictures(tmp_path).items()} == {
        "clean": JPEG,
        "fog": JPEG + b"2",
    }
    write_pictures(tmp_path, {})
    assert read_pictures(tmp_path) == {}
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"fog": 1}',
        '{"fog": "not base64"}',
        json.dumps({"fog": base64.b64encode(b"<svg onload=alert(1)>").decode()}),
        json.dumps({"fog": base64.b64encode(JPEG + bytes(MOST_BYTES)).decode()}),
        "[" * 100_000,
    ],
)
def test_what_is_no_picture_is_left_out_aloud(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.warns(TemporaWarning, match="holds no pictures of shifts"):
        assert read_pictures(tmp_path) == {}
