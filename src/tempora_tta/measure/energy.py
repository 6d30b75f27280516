"""Energy that a device has used, where its driver counts it: NVML for NVIDIA GPUs, RAPL for processors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

_RAPL = Path("/sys/class/powercap/intel-rapl:0/energy_uj")


def energy_joules(device: torch.device) -> float | None:
    """A counter: the difference of two readings is what was used. None where nobody counts."""
    if device.type == "cuda":
        read = _nvml_reader(gpu_uuid(device))
        return read() if read else None
    if device.type == "cpu":
        try:
            return int(_RAPL.read_text()) / 1e6
        except (OSError, ValueError):
            return None
    return None


def gpu_uuid(device: torch.device) -> str:
    """What the driver calls a GPU; its number would be another one under CUDA_VISIBLE_DEVICES."""
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
