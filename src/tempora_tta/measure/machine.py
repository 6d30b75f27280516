"""What machine this is: the facts that a reader of a latency needs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from tempora_tta._version import __version__
from tempora_tta.errors import counted
from tempora_tta.measure.energy import gpu_uuid

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
    """What was typed: `python -m tempora_tta` is the same command under another name."""
    program = Path(sys.argv[0])
    return [
        "tempora" if program.parts[-2:] == ("tempora_tta", "__main__.py") else program.name,
        *sys.argv[1:],
    ]


@cache
def _source() -> dict[str, Any]:
    """What runs here; asked once, since git takes its time."""
    return {
        "versions": {"tempora": __version__} | {name: _version(name) for name in _LIBRARIES},
        "commit": _git("rev-parse", "HEAD"),
        "commit_date": _git("show", "-s", "--format=%cI", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def device_kind(facts: dict[str, Any]) -> str:
    """What lambda belongs to: the processor that runs the network, and how many of its threads.

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
