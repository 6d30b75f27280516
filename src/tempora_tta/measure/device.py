"""Waiting for a device to finish, and choosing one."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tempora_tta.errors import TemporaError


def choose_device(wanted: str | torch.device = "auto") -> torch.device:
    """The device to run on: `auto` takes CUDA, then MPS, then the CPU."""
    if str(wanted) == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except (RuntimeError, TypeError):
        raise TemporaError(f"unknown device {wanted!r}: use auto, cpu, cuda, cuda:N or mps") from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise TemporaError(
            f"device {str(wanted)!r} computes nothing here: use auto, cpu, cuda, cuda:N or mps"
        )
    available: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if not available.get(device.type, lambda: True)():
        raise TemporaError(f"device {wanted!r} is not available on this machine: use --device cpu or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise TemporaError(
            f"device {wanted!r}: this machine has cuda:0 to cuda:{last}; use one of these, or auto"
        )
    return device


def synchroniser(device: torch.device) -> Callable[[], None]:
    """A function that returns when everything submitted to `device` is done."""
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    if device.type == "mps":
        return torch.mps.synchronize
    return lambda: None


def peak_memory_bytes(device: torch.device) -> int | None:
    """Most memory held on the device since `reset_peak_memory`; None where it cannot be told apart."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def held_memory_bytes(device: torch.device) -> int:
    """Held on the device now; 0 where it cannot be told apart."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def reset_peak_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
