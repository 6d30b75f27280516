"""Thousands of requests from many threads, with everything that goes wrong: each ends exactly once, nothing stays.

No time decides here: in any order of the threads, the counts must add up. The watchdog only ends a test that hangs.
"""

from __future__ import annotations

import faulthandler
import gc
import random
import threading
import time
import warnings
from collections import Counter

import pytest
import torch

import tempora_tta as tempora
from live_clock import tiny_network
from tempora_tta import TemporaError
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method
from tempora_tta.scenarios import Bursty, Poisson

WATCHDOG_S = 300
MEAN_GAP_MS = 0.3


@pytest.fixture(autouse=True)
def watchdog():
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    before = set(threading.enumerate())
    yield
    faulthandler.cancel_dump_traceback_later()
    assert set(threading.enumerate()) <= before, "no thread is left"


class Moody(Method):
    """Fails now and then for good reason (a batch it cannot take), and in the end for bad."""

    name = "moody"
    state = ("seen",)
    fails_after = 10**9
    fault = "error"

    def setup(self):
        self.seen = 0

    @torch.no_grad()
    def predict(self, x):
        self.seen += 1
        if self.seen > self.fails_after:
            return self._failed(x)
        if self.seen % 7 == 0:
            raise TemporaError("this batch does not suit me")
        return self.model(x)

    def _failed(self, x):
        if self.fault == "error":
            raise RuntimeError("out of order")
        return {"nan": self.model(x) * float("nan"), "shape": torch.ones(len(x) + 1, 3)}[self.fault]

    def adapt(self):
        time.sleep(0.0002)
        return "step"


WRONG = [
    torch.ones(3, 3),
    torch.full((1, 2, 2), float("nan")),
    torch.ones(1, 5, 5),
    "no tensor",
    torch.ones(0, 1, 2, 2),
]


class Clients:
    """Threads that submit at once, some with slow or failing callbacks, some that forget what they asked for."""

    def __init__(self, pipeline, arrivals, requests, threads, seed):
        self.ended = Counter()
        self._lock = threading.Lock()
        self._pipeline = pipeline
        per_thread = requests // threads
        self._threads = [
            threading.Thread(
                target=self._run, args=(arrivals.times(per_thread, seed=seed + number), random.Random(number))
            )
            for number in range(threads)
        ]

    def run(self, meanwhile=lambda: None):
        for thread in self._threads:
            thread.start()
        meanwhile()
        for thread in self._threads:
            thread.join()

    @property
    def busy(self):
        return any(thread.is_alive() for thread in self._threads)

    def _run(self, times_ms, chance):
        futures, last_ms = [], 0.0
        for time_ms in times_ms.tolist():
            time.sleep(max(0.0, time_ms - last_ms) / 1000)
            last_ms = time_ms
            kind = chance.random()
            try:
                future = self._pipeline.submit(self._x(kind, chance))
            except TemporaError:
                self._count("refused")
                continue
            self._count("submitted")
            future.add_done_callback(lambda future: self._count(_end_of(future)))
            if kind > 0.99:
                future.add_done_callback(lambda _: time.sleep(0.002))
            elif kind > 0.98:
                future.cancel()  # a client that dies: no one asks for the answer
            elif kind > 0.5:
                futures.append(future)
            if kind > 0.9:
                self._pipeline.label(future, [0] * future.size)
            if len(futures) > 50:
                self._count("seen", sum(1 for future in futures if _end_of(future)))
                futures.clear()

    @staticmethod
    def _x(kind, chance):
        if kind < 0.05:
            return chance.choice(WRONG)
        return torch.ones(1, 2, 2) if kind < 0.6 else torch.ones(chance.randint(1, 4), 1, 2, 2)

    def _count(self, what, times=1):
        with self._lock:
            self.ended[what] += times


def _end_of(future):
    if future.exception(WATCHDOG_S) is not None:
        return "failed"
    return "dropped" if future.result().dropped else "answered"


def lived(arrivals, requests, threads=8, seed=0, meanwhile=None, fails_after=10**9, fault="error", **knobs):
    """The counts of the clients and of the pipeline, after it was closed."""
    kind = type("Moody", (Moody,), {"fails_after": fails_after, "fault": fault})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemporaWarning)
        pipeline = tempora.deploy(tiny_network(), kind, device="cpu", example=torch.ones(2, 1, 2, 2), **knobs)
        clients = Clients(pipeline, arrivals, requests, threads, seed)
        clients.run(lambda: meanwhile(pipeline, clients) if meanwhile else None)
        pipeline.close()
    return clients.ended, pipeline.stats()


def check(ended, stats):
    assert ended["answered"] + ended["dropped"] + ended["failed"] == ended["submitted"], "each ends once"
    assert ended["failed"] == 0, "what is wrong is refused at the door"
    for name in ("answered", "dropped", "refused"):
        assert stats[name] == ended[name], name
    assert stats["waiting"] == 0
    assert ended["answered"] > 0


POISSON, BURSTY = (
    Poisson(interval_ms=MEAN_GAP_MS * 8),
    Bursty(interval_ms=MEAN_GAP_MS * 8, burst=6, length=30),
)
KNOBS = [
    {"queue": 1},
    {"queue": 0, "fallback": "latest"},
    {"queue": 4, "fallback": "standard"},
    {"queue": 2, "batch_size": 8, "max_wait_ms": 2.0},
    {"queue": 3, "budget_ms": 5.0, "threshold_ms": 1000.0, "baseline_ms": 1.0},
]


@pytest.mark.parametrize("knobs", KNOBS, ids=lambda knobs: ",".join(knobs))
def test_every_request_ends_exactly_once(knobs):
    check(*lived(BURSTY, 800, **knobs))


@pytest.mark.parametrize(
    ("fault", "reason"), [("error", "out of order"), ("nan", "not finite"), ("shape", "a tensor of shape")]
)
def test_a_method_that_breaks_down_under_load_is_replaced(fault, reason):
    # None is dropped: it does come to the hundredth.
    ended, stats = lived(BURSTY, 400, fails_after=100, fault=fault, queue=400)
    check(ended, stats)
    assert reason in stats["failure"]
    assert stats["replaced"] > 0


@pytest.mark.parametrize(
    ("knobs", "drain"),
    [(KNOBS[0], True), (KNOBS[0], False), (KNOBS[1], False), (KNOBS[3], True)],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else str(value),
)
def test_closing_in_the_middle_loses_no_request(knobs, drain):
    def close_soon(pipeline, clients):
        while pipeline.stats()["answered"] < 20 and clients.busy:
            time.sleep(0.001)
        pipeline.close(drain=drain)

    ended, stats = lived(POISSON, 1600, meanwhile=close_soon, **knobs)
    check(ended, stats)


@pytest.mark.slow
@pytest.mark.parametrize("knobs", KNOBS[1:4], ids=lambda knobs: ",".join(knobs))
def test_ten_thousand_requests(knobs):
    """The method breaks down somewhere on the way, where enough batches come to it."""
    check(*lived(POISSON, 10_000, threads=16, seed=7, fails_after=2000, **knobs))


@pytest.mark.parametrize("knobs", [KNOBS[1], KNOBS[3]], ids=lambda knobs: ",".join(knobs))
def test_memory_stays_flat(knobs):
    """Nothing of the timeline or the pipeline grows with the requests served, lost, rescued or collected."""
    objects = []
    with tempora.deploy(tiny_network(), Moody, device="cpu", **knobs) as pipeline:
        for count in (100, 100, 500):
            for _ in range(count):
                pipeline.submit(torch.ones(1, 2, 2))
            assert pipeline.wait(WATCHDOG_S)
            gc.collect()
            objects.append(len(gc.get_objects()))
    assert objects[2] - objects[1] < 100
