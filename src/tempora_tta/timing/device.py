"""The device that runs the network: choosing it, waiting for it, and what work takes from it besides time."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache

import torch

from tempora_tta.errors import TemporaError

LEAST_S, MOST_S = 0.5, 1.5
READ_EVERY_S = 0.03
"""Reading a GPU's counter takes milliseconds in which it does nothing."""


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


def energy_joules(device: torch.device) -> float | None:
    """The energy counter of an NVIDIA GPU: the difference of two readings was used. None where there is none."""
    read = _nvml_reader(gpu_uuid(device)) if device.type == "cuda" else None
    return read() if read else None


def gpu_uuid(device: torch.device) -> str:
    """Return the driver's name of a GPU; its number would be another one under CUDA_VISIBLE_DEVICES."""
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"


@cache
def _nvml_reader(uuid: str) -> Callable[[], float | None] | None:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle = ctypes.c_void_p()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
        return None

    def read() -> float | None:
        millijoules = ctypes.c_ulonglong()
        failed = nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))
        return None if failed else millijoules.value / 1000

    return read


def mean_watts(
    work: Callable[[], object],
    joules: Callable[[], float | None],
    *,
    now_s: Callable[[], float] = time.monotonic,
) -> float | None:
    """Energy per second of work without a pause; None without a counter, or where it hardly moves.

    work: does one piece. joules: reads the counter.
    A driver's counter moves in steps of up to a tenth of a second, longer than most work: counting begins with one
    step and ends with another, at least half a second later: a run has nine methods to profile, and waits.
    """
    last = joules()
    begin_s, began = now_s(), None
    while last is not None and now_s() - begin_s < MOST_S:
        read_s = now_s()
        while now_s() - read_s < READ_EVERY_S:
            work()
        now = joules()
        if now is None or now < last:  # some counters wrap
            return None
        if now != last:
            if began is None:
                began = now_s(), now
            elif now_s() - began[0] >= LEAST_S:
                return (now - began[1]) / (now_s() - began[0])
        last = now
    return None
