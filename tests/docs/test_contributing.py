"""The map in CONTRIBUTING.md shows the house as it is."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "tempora_tta"


def mentioned() -> set[str]:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    the_map = text[text.index("## The house") : text.index("## Habits")]
    return set(re.findall(r"\w[\w./]*(?:/|\.py)(?!\w)", the_map))


def test_every_place_on_the_map_is_there() -> None:
    assert len(mentioned()) > 25
    for name in mentioned() - {"src/tempora_tta/"}:
        assert any(
            (root / name).exists() for root in (PACKAGE, REPOSITORY, PACKAGE / "engine", PACKAGE / "store")
        ), name


def test_every_room_is_on_the_map() -> None:
    rooms = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert rooms <= mentioned()
