"""A method's state as a file: tensors, plain values and dataclasses of the method's own, nothing that could run."""

from __future__ import annotations

import re
import sys
from collections import deque
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch.serialization import default_restore_location, safe_globals
from torch.utils._pytree import tree_map

from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.state import GeneratorState
from tempora_tta.store.atomic import write_atomically

FORMAT = "tempora-state-2"


@dataclass
class _Deque:
    """A deque in a file: torch reads lists without running anything, and no other sequences that grow."""

    entries: list[Any]
    maxlen: int | None


class Facts(BaseModel):
    """Facts kept with a state. Method, settings, model and weights have to be the same where it is loaded."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    method: str
    settings: str
    model: str
    weights: str
    device: str
    froze_itself: bool
    spent_ms: float = Field(ge=0, allow_inf_nan=False)


def write_state(path: Path, snapshot: Any, facts: Facts, method: Method) -> None:
    """Write a snapshot of the method, and what has to match when it is loaded; a file is replaced as a whole."""

    def write(part: Path) -> None:
        with part.open("wb") as file:
            torch.save({"format": FORMAT, "facts": facts.model_dump(), "snapshot": _packed(snapshot)}, file)
        _load(part, method, "meta")

    try:
        write_atomically(path, write)
    except TemporaError:
        raise
    except Exception as error:
        raise TemporaError(
            f"{method.name}: its state holds what cannot be saved ({_reason(error)}): keep tensors, numbers, text, "
            "containers of them and dataclasses of its own file in `state`"
        ) from error


@torch.inference_mode(False)  # what is read inside of it could not be learned from
def read_state(path: Path, method: Method) -> tuple[Facts, Any]:
    """The facts of a file, and a snapshot for this method, with its tensors on the method's device."""
    try:
        content = _load(path, method, "meta")
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r:.40}, not {FORMAT}")
        facts = Facts.model_validate(content["facts"])
        content = _load(path, method, str(method.model.device), facts.device)
        return facts, _unpacked(content["snapshot"])
    except FileNotFoundError:
        raise TemporaError(f"{path} does not exist: Pipeline.save(path) writes such a file") from None
    except Exception as error:  # torch raises many kinds for a damaged file
        raise TemporaError(
            f"{path} cannot be read as a saved state ({_reason(error)}): save it again"
        ) from None


def _load(path: Path, method: Method, device: str, saved_on: str | None = None) -> Any:
    """The content of a file. What was kept in the processor's memory stays there, unless all of it was."""

    def place(storage: Any, location: str) -> Any:
        stays = location == "cpu" and saved_on != "cpu" and device != "meta"
        return storage if stays else default_restore_location(storage, device)

    with safe_globals([GeneratorState, _Deque, *_own_classes(method)]):
        return torch.load(path, map_location=place, weights_only=True)


def _own_classes(method: Method) -> list[type]:
    """The dataclasses that a method defines next to itself."""
    modules = {kind.__module__ for kind in type(method).__mro__}
    values = [value for name in modules for value in vars(sys.modules[name]).values()]
    return [value for value in values if isinstance(value, type) and is_dataclass(value)]


def _packed(value: Any) -> Any:
    def packed(part: Any) -> Any:
        return _Deque(_packed(list(part)), part.maxlen) if isinstance(part, deque) else part

    return tree_map(packed, value, is_leaf=lambda part: isinstance(part, deque))


def _unpacked(value: Any) -> Any:
    def unpacked(part: Any) -> Any:
        return deque(_unpacked(part.entries), part.maxlen) if isinstance(part, _Deque) else part

    return tree_map(unpacked, value)


def _reason(error: Exception) -> str:
    """The part of an error that says something about the file: torch puts a page of advice around it."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its {'.'.join(map(str, first['loc'])) or 'facts'}: {first['msg']}"
    said = str(error).partition("WeightsUnpickler error:")
    return re.split(r"[.\n] ?", (said[2] or said[0]).strip())[0][:200]
