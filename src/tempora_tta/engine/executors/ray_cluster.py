"""The workers of a Ray cluster: connecting, hiring one per whole device, asking them and letting them go.

Nothing here knows what the workers are asked for.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tempora_tta.config import RunConfig
from tempora_tta.engine.executors.devices import Devices
from tempora_tta.engine.executors.worker import Introduction
from tempora_tta.engine.observer import Observer
from tempora_tta.engine.schedule import Pending
from tempora_tta.errors import TemporaError

LOCAL = "local"
"""The address of a cluster of this machine alone, for this run alone."""
_LOOK_EVERY_S = 1.0
_KNOCK_S = 5.0
"""How long a head may take to answer; Ray itself would try for minutes."""


@dataclass
class Hand:
    """A worker as the driver sees it."""

    actor: Any
    about: Introduction | None = None
    task: Pending | None = None
    open_shift: str | None = None

    @property
    def kind(self) -> str:
        return self.about.kind if self.about else ""

    @property
    def node(self) -> str:
        return self.about.node if self.about else "a node"


class Lost(Exception):
    """Whoever was asked died."""


class Cluster:
    """The workers that a run has on a cluster, and what each was asked."""

    def __init__(self, config: RunConfig, address: str | None, observer: Observer) -> None:
        if address == LOCAL:
            # Read when Ray is imported. It makes a cluster of one machine, on every system, listen on 127.0.0.1 only.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        self._ray = import_ray()
        self._config, self._address, self._observer = config, address, observer
        self._devices: Devices | None = None
        self._started_ray = False
        self.hands: list[Hand] = []
        self.asked: dict[Any, tuple[Hand, str]] = {}
        """What each worker was asked, by the reference to its answer."""
        self.broken: list[str] = []
        """Why workers could not begin; their places stay empty."""

    def hire(self, tasks: int) -> None:
        """As many workers as the cluster has devices, and no more than there are tasks for."""
        if self._devices is None:
            self._devices = self._connect()
        wanted = self._devices.count(self._ray.nodes()) - len(self.broken)
        if wanted <= 0 and self.broken and not self.hands:
            raise TemporaError(f"no worker of the cluster can run this: {self.broken[-1]}")
        for _ in range(min(wanted, max(tasks, 1)) - len(self.hands)):
            options = {"num_cpus": self._devices.cpus, "num_gpus": self._devices.gpus}
            actor = _actor(self._ray).options(**options, scheduling_strategy="SPREAD", max_restarts=0)
            hand = Hand(actor.remote())
            self.hands.append(hand)
            search = [os.getcwd(), *sys.path]
            reference = hand.actor.begin.remote(*self._devices.job, self._devices.cores, search)
            self.asked[reference] = hand, "begin"

    def idle(self) -> list[Hand]:
        """The workers that were asked nothing."""
        busy = {id(hand) for hand, _ in self.asked.values()}
        return [hand for hand in self.hands if id(hand) not in busy]

    def ask(self, hand: Hand, what: str, *arguments: Any) -> None:
        self.asked[hand.actor.do.remote(what, *arguments)] = hand, what

    def answers(self) -> Iterator[tuple[Hand, str, Any]]:
        """Wait a moment: who answered what. An answer that is an exception was raised there; `Lost`: it died."""
        if not self.asked:
            time.sleep(_LOOK_EVERY_S)  # nodes may come back, or new ones join
            return
        ready, _ = self._ray.wait(list(self.asked), timeout=_LOOK_EVERY_S)
        for reference in ready:
            hand, asked = self.asked.pop(reference)
            try:
                answer = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:
                answer = getattr(error, "cause", None) or error
            except self._ray.exceptions.RayError:
                answer = Lost()
            yield hand, asked, answer

    def release(self, hand: Hand) -> None:
        """Let a worker go; another may be hired in its place."""
        self.hands.remove(hand)
        self._ray.kill(hand.actor)

    def close(self) -> None:
        for hand in self.hands:
            self._ray.kill(hand.actor)
        self.hands.clear()
        self.asked.clear()
        if self._started_ray:
            self._ray.shutdown()
            self._started_ray = False

    def _connect(self) -> Devices:
        if not self._ray.is_initialized():
            # Ray's own report of how it is used goes nowhere unless the user wants it to.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            _knock(self._address)
            local = {"include_dashboard": False} if self._address == LOCAL else {}
            try:
                self._ray.init(self._address, log_to_driver=False, logging_level="warning", **local)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise _nobody_there(self._address, error) from None
            self._started_ray = True
            if self._address == LOCAL:
                self._note_open_doors()
        devices = Devices.of(self._config, self._ray.nodes())
        if not devices.count(self._ray.nodes()):
            raise TemporaError(f"no node of the Ray cluster has {devices.cpus} cores: use --threads 1")
        if not devices.any_free(self._ray.available_resources()):
            self._observer.note("all devices of the Ray cluster are in use; this run waits for one")
        return devices

    def _note_open_doors(self) -> None:
        """Ray that was imported before it could be told otherwise listens on every interface."""
        reachable = sorted({str(node["NodeManagerAddress"]) for node in self._ray.nodes()} - {"127.0.0.1"})
        if reachable:
            self._observer.note(
                f"Ray listens on {', '.join(reachable)} too, because it was imported before: whoever reaches "
                "its ports can run code here. Use a firewall, or a fresh process"
            )


def _knock(address: str | None) -> None:
    """Make sure that somebody listens at HOST:PORT, or ray://HOST:PORT. Other addresses (auto, local) name none."""
    found = re.fullmatch(r"(?:ray://)?\[?([^/\[\]]+)\]?:(\d+)", address or "")
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=_KNOCK_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _nobody_there(address, error) from None


def _nobody_there(address: str | None, error: Exception) -> TemporaError:
    return TemporaError(
        f"--address {address}: no Ray cluster answers there ({error}); start one with `ray start --head` and name "
        "the address that it prints, use --address auto on a node of a running cluster, or --address local"
    )


def _actor(ray: Any) -> Any:
    """The actor class. It travels by value, so that its environment is settled before anything imports torch."""

    class TemporaWorker:
        def begin(
            self, config: dict[str, Any], profile: bytes | None, cores: int | None, search: list[str]
        ) -> Any:
            import os
            import sys

            # After all else: a method of the user's own is found where the driver finds it.
            sys.path.extend(place for place in search if place not in sys.path)
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            if cores is not None:
                os.environ["OMP_NUM_THREADS"] = str(cores)
            from tempora_tta.engine.executors.worker import Worker

            self.worker = Worker(config, profile)
            return self.worker.introduce()

        def do(self, what: str, *arguments: Any) -> Any:
            return getattr(self.worker, what)(*arguments)

    return ray.remote(TemporaWorker)


def import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise TemporaError("--executor ray needs Ray: pip install 'tempora-tta[ray]'") from None
    return ray
