"""A method's state as a file: tensors and plain values, nothing that could run.

A snapshot is a tree. Its tensors go into a safetensors file, its shape into that file's header as JSON. What is
neither (how a network is written back) is never stored: it comes from the method that the state is loaded into.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tempora_tta.errors import TemporaError
from tempora_tta.store.atomic import write_atomically

FORMAT = "tempora-state-1"


def write_state(path: Path, snapshot: Any, facts: dict[str, Any]) -> None:
    """Write a snapshot and what has to match when it is loaded; a file that is there is replaced as a whole."""
    tensors: dict[str, Tensor] = {}
    tree = _encode(snapshot, tensors, "state")
    header = {"format": FORMAT, "facts": json.dumps(facts), "tree": json.dumps(tree)}
    try:
        write_atomically(path, lambda part: save_file(tensors, part, metadata=header))
    except SafetensorError as error:
        reason = error if path.parent.is_dir() else f"there is no folder {path.parent}"
        raise TemporaError(f"{path}: cannot be written ({reason}); name another place") from error


@torch.inference_mode(False)  # what is read inside of it could not be learned from
def read_state(path: Path) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The facts of a file, and what makes a snapshot of it for a method that has `own` as its present one."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
        if header.get("format") != FORMAT:
            raise TemporaError(f"{path} holds no state that Pipeline.save wrote: name another file")
        facts, tree = _checked_facts(json.loads(header["facts"])), json.loads(header["tree"])
    except FileNotFoundError:
        raise TemporaError(f"{path} does not exist: Pipeline.save(path) writes such a file") from None
    except (OSError, SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise TemporaError(f"{path} cannot be read as a saved state ({error}): save it again") from None

    def decode(own: Any) -> Any:
        try:
            return _decode(tree, tensors, own)
        except (KeyError, TypeError, ValueError, IndexError, RecursionError, AttributeError) as error:
            raise TemporaError(f"{path} is damaged, or was edited ({error}): save it again") from None

    return facts, decode


def _checked_facts(facts: Any) -> dict[str, Any]:
    """What is asked of a state besides the names that have to be the same."""
    if not isinstance(facts, dict):
        raise ValueError("its facts are none")
    fits: dict[str, Callable[[Any], bool]] = {
        "device": lambda value: isinstance(value, str),
        "froze_itself": lambda value: isinstance(value, bool),
        "spent_ms": lambda value: type(value) in (int, float) and 0 <= value < math.inf,
    }
    for name, fit in fits.items():
        if not fit(facts.get(name)):
            raise ValueError(f"its {name} is {facts.get(name)!r:.40}")
    return facts


def for_device(snapshot: Any, own: Any, device: torch.device, same_kind: bool) -> Any:
    """A snapshot, with its tensors where the method that has `own` as its present one keeps them.

    States of random generators are of one kind of device: on another the method keeps its own.
    """
    if isinstance(snapshot, Tensor):
        return snapshot.to(own.device if isinstance(own, Tensor) else device)
    if isinstance(snapshot, dict):
        return {
            key: (entry if same_kind else own[key])
            if key == "generator"
            else for_device(entry, _at(own, key), device, same_kind)
            for key, entry in snapshot.items()
        }
    if isinstance(snapshot, (list, tuple)):
        entries = [
            for_device(entry, _at(own, place), device, same_kind) for place, entry in enumerate(snapshot)
        ]
        return type(snapshot)(entries)
    if isinstance(snapshot, deque):
        return deque((for_device(entry, None, device, same_kind) for entry in snapshot), snapshot.maxlen)
    if dataclasses.is_dataclass(snapshot) and not isinstance(snapshot, type):
        if getattr(snapshot, "kind", "") == "generator":
            return snapshot if same_kind else own
        moved = {
            field.name: for_device(
                getattr(snapshot, field.name), getattr(own, field.name, None), device, same_kind
            )
            for field in dataclasses.fields(snapshot)
        }
        return dataclasses.replace(snapshot, **moved)
    return snapshot


def _at(container: Any, key: Any) -> Any:
    """What stands at the same place in another tree, if anything does."""
    try:
        return container[key]
    except (KeyError, IndexError, TypeError):
        return None


def _encode(value: Any, tensors: dict[str, Tensor], name: str) -> Any:
    """JSON for a value: plain ones as they are, others as [kind, contents]."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        key = str(len(tensors))
        kind = "tensor" if isinstance(value, Tensor) else "array"
        tensors[key] = torch.as_tensor(value).detach().cpu().clone(memory_format=torch.contiguous_format)
        return [kind, key]
    if isinstance(value, dict):
        pairs = [
            [_encode(key, tensors, name), _encode(entry, tensors, f"{name}.{key}")]
            for key, entry in value.items()
        ]
        return ["dict", pairs]
    if isinstance(value, (list, tuple, deque)):
        kind = next(kind for kind in (list, tuple, deque) if isinstance(value, kind)).__name__
        longest = value.maxlen if isinstance(value, deque) else None
        return [
            kind,
            [_encode(entry, tensors, f"{name}.{place}") for place, entry in enumerate(value)],
            longest,
        ]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return ["object", {key: _encode(entry, tensors, f"{name}.{key}") for key, entry in fields.items()}]
    if callable(value):
        return ["own", None]
    raise TemporaError(
        f"{name}: a {type(value).__name__} cannot be saved: keep tensors, numbers, text and containers of them in "
        "`state`"
    )


def _decode(tree: Any, tensors: dict[str, Tensor], own: Any) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, held = tree[0], tree[1]
    if kind == "tensor":
        return tensors[held]
    if kind == "array":
        found = tensors[held].numpy()
        return found if found.ndim else found[()]
    if kind == "dict":
        decoded = ((_decode(key, tensors, None), entry) for key, entry in held)
        return {key: _decode(entry, tensors, _at(own, key)) for key, entry in decoded}
    if kind in ("list", "tuple", "deque"):
        entries = [_decode(entry, tensors, _at(own, place)) for place, entry in enumerate(held)]
        return entries if kind == "list" else tuple(entries) if kind == "tuple" else deque(entries, tree[2])
    if kind == "object":
        if not dataclasses.is_dataclass(own) or isinstance(own, type):
            raise ValueError("the method holds something else there")
        return dataclasses.replace(
            own, **{key: _decode(entry, tensors, getattr(own, key, None)) for key, entry in held.items()}
        )
    if kind == "own":
        return own
    raise ValueError(f"unknown kind {kind!r}")
