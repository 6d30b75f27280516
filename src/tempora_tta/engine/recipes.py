"""Recipe files: the settings that `tempora tune` chose, by whom and on what; `recipes` of a run reads them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempora_tta import methods
from tempora_tta._own_code import is_own
from tempora_tta.engine.tuning import LABELS, SELECTORS, Tuned
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import METHODS
from tempora_tta.store.atomic import check_replaceable, write_atomically

FORMAT = 1
MOST_BYTES = 1 << 20

Settings = Mapping[str, Any]


def write_recipes(path: Path, tuned: Sequence[Tuned], select: str, about: dict[str, Any]) -> None:
    """Write what was chosen by `select`."""
    content = {
        "format": FORMAT,
        **about,
        "select": select,
        "oracle": select == LABELS,
        "recipes": {one.method: one.chosen(select).settings for one in tuned if len(one.trials) > 1},
    }
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


@dataclass(frozen=True)
class Recipes:
    """A recipe file."""

    path: Path
    select: str
    """Who chose: labels, or a score that needs none."""
    chosen: Mapping[str, Settings]
    """Method -> the settings that were chosen."""
    dataset: str = ""
    shifts: tuple[str, ...] = ()
    """That the settings were tried on."""
    trials: int | None = None
    batch_size: int | None = None
    """Size of the batches that they were tried on."""

    @property
    def oracle(self) -> bool:
        """Chosen by labels, which no deployment has."""
        return self.select == LABELS

    def met(self, dataset: str, shifts: Iterable[str]) -> list[str]:
        """The shifts of a run that the settings were already tried on."""
        same = self.dataset in ("", dataset)
        return [shift for shift in dict.fromkeys(shifts) if same and shift in self.shifts]


def read_recipes(path: Path, model: str) -> Recipes:
    """A file of `tempora tune` for this network."""
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MOST_BYTES))
        found, version, tuned_on = _recipes(path, content), content["format"], content["model"]
    except OSError as error:
        raise TemporaError(
            f"recipes {path}: {error.strerror or error}; tempora tune writes such a file"
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise TemporaError(f"recipes {path}: is no file of tempora tune, which writes them") from error
    if version != FORMAT:
        raise TemporaError(
            f"recipes {path}: has format {version!r:.20}, this Tempora reads {FORMAT}; tune again, or use the "
            "Tempora that wrote it"
        )
    if tuned_on != model:
        raise TemporaError(
            f"recipes {path}: were tuned on {tuned_on}, this run has {model}: tune on it first"
        )
    for method, settings in found.chosen.items():
        _check_method(path, method, settings)
    return found


def _recipes(path: Path, content: Any) -> Recipes:
    """Return the file's content; any error means that it is no recipe file."""
    chosen, select = content["recipes"], content["select"]
    if select not in SELECTORS:
        raise ValueError(select)
    if not all(isinstance(settings, dict) for settings in chosen.values()):
        raise TypeError("settings")
    shifts = content.get("shifts", [])
    if not isinstance(shifts, list):
        raise TypeError("shifts")
    dataset = str(content.get("dataset", ""))
    return Recipes(
        path,
        select,
        chosen,
        dataset,
        tuple(map(str, shifts)),
        content.get("trials"),
        content.get("batch_size"),
    )


def _check_method(path: Path, method: str, settings: Settings) -> None:
    """A method of ours, with settings that it has. Code of the user's own is not imported because a file names it:
    the run checks it if it has it."""
    if is_own(method):
        return
    if method not in METHODS:
        raise TemporaError(f"recipes {path}: {unknown('method', method, METHODS)}")
    known = [field.name for field in dataclasses.fields(methods.get(method).Settings)]
    for name in settings:
        if name not in known:
            raise TemporaError(f"recipes {path}: {unknown(f'setting of {method}', name, known)}")


def check_place(path: Path) -> None:
    """Refuse a file that could not be written, before hours of trials."""
    check_replaceable(path)
    if not path.parent.is_dir():
        raise TemporaError(f"--out {path}: there is no folder {path.parent}; make it, or give another")
    if not os.access(path.parent, os.W_OK):
        raise TemporaError(f"--out {path}: the folder {path.parent} cannot be written to; give another place")
