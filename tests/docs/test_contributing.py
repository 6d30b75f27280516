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


def test_the_map_has_every_room_and_no_place_that_is_gone() -> None:
    assert {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")} <= mentioned()
    roots = (PACKAGE, REPOSITORY, PACKAGE / "engine", PACKAGE / "store")
    gone = [name for name in mentioned() if not any((root / name).exists() for root in roots)]
    assert gone in ([], ["src/tempora_tta/"])
