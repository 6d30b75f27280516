"""Recipe files: the settings that `tempora tune` chose, by whom and on what; `tempora run --recipes` reads them."""

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
from tempora_tta.engine.tuning import LABELS, MUTUAL_INFORMATION, SELECTORS, Tuned
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.names import METHODS
from tempora_tta.store.atomic import check_replaceable, write_atomically

FORMAT = 1
DEFAULT, LABEL_FREE_WAY, ORACLE = "default", "label-free", "oracle"
"""The three settings of a band. The default is the method's own: a network's recipe is a tuning, too."""
MOST_BYTES = 1 << 20

Settings = Mapping[str, Any]


def write_recipes(path: Path, tuned: Sequence[Tuned], select: str, about: dict[str, Any]) -> None:
    """What was chosen by `select`, and what each other way would have chosen."""
    searched = [one for one in tuned if len(one.trials) > 1]
    content = {
        "format": FORMAT,
        **about,
        "select": select,
        "oracle": select == LABELS,
        "recipes": {one.method: one.chosen(select).settings for one in searched},
        "choices": {
            one.method: {
                DEFAULT: one.default.settings,
                **{by: one.chosen(by).settings for by in (LABELS, *one.label_free)},
            }
            for one in searched
        },
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
    choices: Mapping[str, Mapping[str, Settings]]
    """Method -> way of choosing -> settings."""
    dataset: str = ""
    shifts: tuple[str, ...] = ()
    """That the settings were tried on."""
    trials: int | None = None

    @property
    def oracle(self) -> bool:
        """Chosen by labels, which no deployment has."""
        return self.select == LABELS

    @property
    def label_free(self) -> str:
        """The score behind a band's label-free settings: the one that chose, or the usual one where labels did."""
        return MUTUAL_INFORMATION if self.oracle else self.select

    def band(self, method: str) -> dict[str, Settings]:
        """Default, label-free and oracle settings; only the usual ones, under no name, of a method without any."""
        ways = self.choices.get(method)
        if ways is None:
            return {"": {}}
        named = {DEFAULT: DEFAULT, LABEL_FREE_WAY: self.label_free, ORACLE: LABELS}
        return {name: ways[way] for name, way in named.items()}

    def met(self, dataset: str, shifts: Iterable[str]) -> list[str]:
        """The shifts of a run that the settings were already tried on."""
        same = self.dataset in ("", dataset)
        return [shift for shift in dict.fromkeys(shifts) if same and shift in self.shifts]


def read_recipes(path: Path, model: str) -> Recipes:
    """A file of `tempora tune` for this network."""
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MOST_BYTES))
        found, version, tuned_on = _recipes(path, content), content.get("format", FORMAT), content["model"]
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
    for method in (*found.chosen, *found.choices):
        _check_method(path, method, [found.chosen.get(method, {}), *found.choices.get(method, {}).values()])
    return found


def _recipes(path: Path, content: Any) -> Recipes:
    """The file's content, or an error of whatever kind where it is none."""
    chosen, choices = content["recipes"], content["choices"]
    # Files of 0.1.0 have both; what was chosen tells an oracle that they do not name.
    select = content.get("select", LABELS if content.get("oracle") else MUTUAL_INFORMATION)
    if select not in SELECTORS:
        raise ValueError(select)
    needed = {DEFAULT, LABELS, MUTUAL_INFORMATION, select}
    for ways in (chosen, *choices.values()):
        if not all(isinstance(settings, dict) for settings in ways.values()):
            raise TypeError("settings")
    if not all(needed <= set(ways) for ways in choices.values()):
        raise KeyError("choices")
    shifts = content.get("shifts", [])
    if not isinstance(shifts, list):
        raise TypeError("shifts")
    dataset = str(content.get("dataset", ""))
    return Recipes(path, select, chosen, choices, dataset, tuple(map(str, shifts)), content.get("trials"))


def _check_method(path: Path, method: str, settings: Iterable[Settings]) -> None:
    """A method of ours, with settings that it has. Code of the user's own is not imported because a file names it:
    the run checks it if it has it."""
    if is_own(method):
        return
    if method not in METHODS:
        raise TemporaError(f"recipes {path}: {unknown('method', method, METHODS)}")
    known = [field.name for field in dataclasses.fields(methods.get(method).Settings)]
    for name in (name for one in settings for name in one):
        if name not in known:
            raise TemporaError(f"recipes {path}: {unknown(f'setting of {method}', name, known)}")


def check_place(path: Path) -> None:
    """Refuse a file that could not be written, before hours of trials."""
    check_replaceable(path)
    if not path.parent.is_dir():
        raise TemporaError(f"--out {path}: there is no folder {path.parent}; make it, or give another")
    if not os.access(path.parent, os.W_OK):
        raise TemporaError(f"--out {path}: the folder {path.parent} cannot be written to; give another place")
