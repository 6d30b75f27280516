"""What a worker of a cluster holds, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tempora_tta.config import RunConfig
from tempora_tta.engine.clocks import MEASURED, STEADY
from tempora_tta.errors import TemporaError
from tempora_tta.timing.sources import PUBLISHED


@dataclass(frozen=True)
class Devices:
    """What one worker holds: a GPU with its share of the processors, or a number of cores."""

    gpus: int
    cpus: int
    cores: int | None
    """Threads of the worker; None where the device is a GPU."""
    job: tuple[dict[str, Any], bytes | None]
    """The configuration for a worker, and the profile its clock looks times up in."""
    one_a_node: bool = False

    @classmethod
    def of(cls, config: RunConfig, nodes: Sequence[Mapping[str, Any]]) -> Devices:
        """By the configuration and the smallest node that can take part."""
        there = _resources(nodes)
        gpu_nodes = [resources for resources in there if resources.get("GPU", 0) >= 1]
        kind = config.device.partition(":")[0]
        if kind == "auto":
            kind = "cuda" if gpu_nodes else "cpu"
        if kind not in ("cuda", "cpu") or ":" in config.device:
            raise TemporaError(
                f"device={config.device!r}: Ray hands out devices itself; with --executor ray use auto, cuda or cpu"
            )
        if kind == "cuda":
            if not gpu_nodes:
                raise TemporaError("device='cuda': no node of the Ray cluster has a GPU; use --device cpu")
            cpus = max(1, min(int(found["CPU"] // found["GPU"]) for found in gpu_nodes))
            return cls(1, cpus, None, _for_workers(config, device="cuda"))
        # Passes that nobody times go fastest one to a core; one that is timed has the node to itself.
        whole = min((int(found["CPU"]) for found in there), default=1)
        cores = config.threads or (1 if config.clock == STEADY else whole)
        measured = config.clock == MEASURED
        workers = _for_workers(config, device="cpu", threads=cores)
        return cls(0, max(cores, whole) if measured else cores, cores, workers, one_a_node=measured)

    def count(self, nodes: Sequence[Mapping[str, Any]]) -> int:
        """How many workers fit on the nodes that are alive."""
        return sum(self._fitting(found) for found in _resources(nodes))

    def any_free(self, available: Mapping[str, float]) -> bool:
        return self._fitting(available) > 0

    def _fitting(self, resources: Mapping[str, float]) -> int:
        there = int(resources.get("GPU", 0) if self.gpus else resources.get("CPU", 0) // self.cpus)
        return min(there, 1) if self.one_a_node else there


def _resources(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    """Of the nodes that are alive and have a processor to lend; a cluster's head may have none."""
    return [node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]


def _for_workers(config: RunConfig, **changes: Any) -> tuple[dict[str, Any], bytes | None]:
    """The configuration with whole paths, and the content of the clock's file, which may lie only on this disk."""
    values = replace(config, **changes).plain()
    for holder, name in ((values, "checkpoint"), (values["data"], "root"), (values["data"], "cache_dir")):
        if holder[name] is not None:
            holder[name] = str(Path(holder[name]).expanduser().absolute())
    clock = config.clock
    if isinstance(clock, dict) or clock in (MEASURED, STEADY) or clock.startswith(PUBLISHED):
        return values, None
    return values, Path(clock).read_bytes()
