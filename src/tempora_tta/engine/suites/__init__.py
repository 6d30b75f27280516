"""Suites: configurations that ship with Tempora under a name and a version, so that results can be cited.

A suite `NAME-vN` has a part per network, `NAME-vN/PART`, each a configuration file in this folder. What a part fixes
never changes; a better choice becomes the next version. `pins.json` holds fingerprints of the weights and of every
shift, so that a run on other ones is noticed (`engine.conformity`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tempora_tta.names import SUITES, file_of

HERE = Path(__file__).parent


def names() -> list[str]:
    """The parts of all suites: `tempora-fashion-v1/resnet`."""
    return list(SUITES)


def path_of(name: str) -> Path:
    """The configuration file of a part."""
    return file_of(SUITES[name])


def parts_of(suite: str) -> list[str]:
    """The parts of one suite, named in full; none if there is no such suite."""
    return [name for name in names() if name.split("/")[0] == suite]


def pins_of(name: str) -> dict[str, dict[str, Any]]:
    """`weights` per network and `data` per shift, as fingerprints."""
    pins: dict[str, dict[str, Any]] = json.loads(
        (path_of(name).parent / "pins.json").read_text(encoding="utf-8")
    )
    return pins
