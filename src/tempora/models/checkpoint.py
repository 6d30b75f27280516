"""Weights from a file: safetensors, or PyTorch's own format read without unpickling objects."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tempora.errors import TemporaError

SUFFIXES = (".safetensors", ".pt", ".pth")


def read(path: str | Path) -> dict[str, Tensor]:
    """The state dict in `path`, on the CPU.

    A training checkpoint may hold it under "state_dict" or "model"; "module." before every name is dropped.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise TemporaError(f"checkpoint {path.name!r}: must end in {', '.join(SUFFIXES)}.")
    if not path.is_file():
        raise TemporaError(
            f"checkpoint {str(path)!r}: there is no such file. Give the path of a {', '.join(SUFFIXES)} file."
        )
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return _state_dict(_read_torch(path), path)


def _read_torch(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise TemporaError(
            f"checkpoint {path.name!r}: is not a plain file of tensors, and Tempora never unpickles objects. "
            "Save it with torch.save(model.state_dict(), ...) or as safetensors."
        ) from error


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise TemporaError(
            f"checkpoint {path.name!r}: holds no state dict (names and tensors). Save model.state_dict()."
        )
    if all(name.startswith("module.") for name in content):
        return {name.removeprefix("module."): value for name, value in content.items()}
    return dict(content)
