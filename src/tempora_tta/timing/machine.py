"""Facts about this machine that a reader of a latency needs, and this process made ready to be timed."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tempora_tta._version import __version__
from tempora_tta.errors import counted
from tempora_tta.timing.device import gpu_uuid

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30
_LIBRARIES = ("torch", "torchvision", "timm", "numpy", "pandas", "pyarrow")


def machine_facts(device: torch.device) -> dict[str, Any]:
    """CPU, GPU, driver, threads, clocks, precision settings, versions, commit and command line."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "device": str(device),
        **_gpu(device),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "tf32_convolutions": torch.backends.cudnn.allow_tf32 if device.type == "cuda" else None,
        "cudnn_benchmark": torch.backends.cudnn.benchmark if device.type == "cuda" else None,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        **_source(),
        "command": _command(),
    }


def _command() -> list[str]:
    """Return the command as typed: `python -m tempora_tta` is the same under another name."""
    program = Path(sys.argv[0])
    return [
        "tempora" if program.parts[-2:] == ("tempora_tta", "__main__.py") else program.name,
        *sys.argv[1:],
    ]


@cache
def _source() -> dict[str, Any]:
    """Return version and commit of this package; asked once, since git takes its time."""
    return {
        "versions": {"tempora": __version__} | {name: _version(name) for name in _LIBRARIES},
        "commit": _git("rev-parse", "HEAD"),
        "commit_date": _git("show", "-s", "--format=%cI", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def device_kind(facts: dict[str, Any]) -> str:
    """Name the device that lambda belongs to: the processor that runs the network, and how many of its threads.

    >>> device_kind({"device": "cpu", "cpu": "Some CPU", "threads": 2})
    'Some CPU, 2 threads'
    >>> device_kind({"device": "cpu", "cpu": "Some CPU", "threads": 1})
    'Some CPU, 1 thread'
    """
    if facts["device"].startswith("cuda"):
        return str(facts["gpu"])
    if facts["device"].startswith("mps"):
        return f"{facts['cpu']} (MPS)"
    return f"{facts['cpu']}, {counted(facts['threads'], 'thread')}"


def _gpu(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {}
    properties = torch.cuda.get_device_properties(device)
    driver, limits = _driver_and_limits(gpu_uuid(device))
    return {
        "gpu": properties.name,
        "gpu_memory_bytes": properties.total_memory,
        "driver": driver,
        "cuda": torch.version.cuda,
        "clock_limits": limits,
    }


def _driver_and_limits(uuid: str) -> tuple[str | None, str | None]:
    """In one question where the driver knows both: nvidia-smi takes up to a second each time."""
    both = _nvidia_smi(uuid, "driver_version,clocks_event_reasons.active")
    if both is None:
        return _nvidia_smi(uuid, "driver_version"), None
    driver, _, limits = both.partition(", ")
    return driver, limits or None


def _nvidia_smi(uuid: str, fields: str) -> str | None:
    return _output("nvidia-smi", "-i", uuid, f"--query-gpu={fields}", "--format=csv,noheader")


def _cpu_model() -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith(("model name", "Model")):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """Of the source tree that Tempora runs from; None when it was installed from a wheel."""
    source = Path(__file__).resolve().parents[3]
    return _output("git", "-C", str(source), *arguments) if (source / ".git").exists() else None


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory instead of returning it. False where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    # mmap's threshold is an int and capped by glibc at 32 MiB on 64-bit systems; trimming has no such cap.
    return bool(mallopt(_M_MMAP_THRESHOLD, 32 << 20)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES))


class ProcessorTime(NamedTuple):
    """Clock ticks of all of this machine's processors since it started."""

    busy: int
    stolen: int
    """Wanted, and taken by the hypervisor for other machines."""

    @classmethod
    def now(cls) -> ProcessorTime:
        """Zeros where the system does not tell."""
        try:
            with open("/proc/stat", encoding="ascii") as stat:
                user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
        except (OSError, ValueError):
            return cls(0, 0)
        return cls(user + nice + system + irq + softirq, steal)

    @staticmethod
    def ticks_per_second() -> int:
        return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

    def stolen_since(self, before: ProcessorTime) -> float:
        """Share of the time wanted in between that was stolen. Idle processors, however many, do not dilute it.

        >>> ProcessorTime(busy=1095, stolen=26).stolen_since(ProcessorTime(busy=1000, stolen=20))
        0.05
        """
        busy = self.busy - before.busy
        stolen = max(0, self.stolen - before.stolen - 1)  # a tick more or less is how they are counted
        return stolen / (busy + stolen) if stolen else 0.0
