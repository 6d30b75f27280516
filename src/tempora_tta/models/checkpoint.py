"""Weights from a file: safetensors, or PyTorch's own format read without unpickling objects."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from tempora_tta.errors import TemporaError

SUFFIXES = (".safetensors", ".pt", ".pth")
_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"


def read(path: str | Path) -> dict[str, Tensor]:
    """Read the state dict in `path`, on the CPU.

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
    except Exception as error:  # the reader raises whatever it trips over in a damaged header
        raise _damaged(path, error) from error


def _read_torch(path: Path) -> Any:
    _check_zip(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd formats, which are refused below in our own words
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise TemporaError(
            f"checkpoint {path.name!r}: is not a plain file of tensors, and Tempora never unpickles objects. "
            "Save it with torch.save(model.state_dict(), ...) or as safetensors."
        ) from error
    except Exception as error:  # torch raises whatever it trips over in a damaged file
        raise _damaged(path, "torch cannot read it") from error


def _check_zip(path: Path) -> None:
    """Refuse a damaged archive: torch itself looks at no checksum, and would take flipped bits for weights."""
    with path.open("rb") as file:
        beginning = file.read(4)
    if beginning[:1] == _PICKLE:  # the format of torch before 1.6, which has no checksums
        return
    if beginning != _ZIP:
        raise _damaged(path, "it is no file of torch.save")
    try:
        with zipfile.ZipFile(path) as archive:
            spoilt = archive.testzip()
    except Exception as error:  # zipfile raises whatever it trips over
        raise _damaged(path, error) from error
    if spoilt is not None:
        raise _damaged(path, f"the checksum of {spoilt!r} in it is wrong")


def _damaged(path: Path, reason: object) -> TemporaError:
    return TemporaError(
        f"checkpoint {path.name!r}: is empty, cut short or damaged ({reason}). Copy or save it again."
    )


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    named = isinstance(content, dict) and all(isinstance(name, str) for name in content)
    if not named or not all(isinstance(value, Tensor) for value in content.values()):
        raise TemporaError(
            f"checkpoint {path.name!r}: holds no state dict (names and tensors). Save model.state_dict()."
        )
    for name, value in content.items():
        if not _is_plain(value):
            raise TemporaError(
                f"checkpoint {path.name!r}: {name!r} is sparse, quantised, without values or larger than the file. "
                "Save the network's own weights, model.state_dict()."
            )
    if all(name.startswith("module.") for name in content):
        return {name.removeprefix("module."): value for name, value in content.items()}
    return dict(content)


def _is_plain(value: Tensor) -> bool:
    """Tell whether a tensor has all its values, each in its own place."""
    if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()
