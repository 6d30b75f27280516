"""Weights from a file: safetensors, or PyTorch's own format read without unpickling objects."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
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
    content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    return _state_dict(content, path)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise _damaged(path, error) from error


def _read_torch(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except EOFError as error:
        raise _damaged(path, error) from error
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise TemporaError(
            f"checkpoint {path.name!r}: is not a plain file of tensors, and Tempora never unpickles objects. "
            "Save it with torch.save(model.state_dict(), ...) or as safetensors."
        ) from error


def _damaged(path: Path, error: Exception) -> TemporaError:
    return TemporaError(
        f"checkpoint {path.name!r}: is empty, cut short or damaged ({error}). Copy or save it again."
    )


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
