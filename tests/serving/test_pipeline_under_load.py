"""Thousands of requests from many threads, with everything that goes wrong: each ends exactly once, nothing stays.

No time decides here: in any order of the threads, the counts must add up. The watchdog only ends a test that hangs.
"""

from __future__ import annotations

import faulthandler
import gc
import random
import threading
import time
from collections import Counter

import pytest
import torch

import tempora_tta as tempora
from live_clock import tiny_network
from tempora_tta import TemporaError
from tempora_tta.methods import Method
from tempora_tta.scenarios import Bursty, Poisson

WATCHDOG_S = 300
THREADS = 8

pytestmark = pytest.mark.filterwarnings("ignore::tempora_tta.errors.TemporaWarning")


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
        if self.seen % 7 == 0:
            raise TemporaError("this batch does not suit me")
        if self.seen > self.fails_after and self.fault == "error":
            raise RuntimeError("out of order")
        scores = self.model(x)
        return scores * float("nan") if self.seen > self.fails_after else scores

    def adapt(self):
        time.sleep(0.0002)
        return "step"


WRONG = [torch.ones(3, 3), torch.full((1, 2, 2), float("nan")), torch.ones(1, 5, 5), "no tensor"]


def client(pipeline, times_ms, chance, ended):
    """Submits images, batches and nonsense; some callbacks are slow, and some requests are forgotten."""

    def end(future):
        ended.append("failed" if future.exception() else "dropped" if future.result().dropped else "answered")

    last_ms = 0.0
    for time_ms in times_ms.tolist():
        time.sleep(max(0.0, time_ms - last_ms) / 1000)
        last_ms, kind = time_ms, chance.random()
        sizes = (1, 2, 2) if kind < 0.6 else (chance.randint(1, 4), 1, 2, 2)
        try:
            future = pipeline.submit(chance.choice(WRONG) if kind < 0.05 else torch.ones(sizes))
        except TemporaError:
            ended.append("refused")
            continue
        ended.append("submitted")
        future.add_done_callback(end)
        if kind > 0.98:
            future.add_done_callback(lambda _: time.sleep(0.002))
        elif kind > 0.9:
            pipeline.label(future, [0] * future.size)


def lived(arrivals, requests, meanwhile=None, fails_after=10**9, fault="error", **knobs):
    """Check the counts of the clients and of the pipeline after it was closed; return its own."""
    kind = type("Moody", (Moody,), {"fails_after": fails_after, "fault": fault})
    pipeline = tempora.deploy(tiny_network(), kind, device="cpu", example=torch.ones(2, 1, 2, 2), **knobs)
    ended = []  # appending is atomic
    clients = [
        threading.Thread(
            target=client,
            args=(pipeline, arrivals.times(requests // THREADS, seed=number), random.Random(number), ended),
        )
        for number in range(THREADS)
    ]
    for thread in clients:
        thread.start()
    if meanwhile:
        meanwhile(pipeline, clients)
    for thread in clients:
        thread.join()
    pipeline.close()
    counts, stats = Counter(ended), pipeline.stats()
    assert counts["answered"] + counts["dropped"] == counts["submitted"], "each ends once"
    assert counts["failed"] == 0, "what is wrong is refused at the door"
    assert {name: stats[name] for name in ("answered", "dropped", "refused")} == {
        name: counts[name] for name in ("answered", "dropped", "refused")
    }
    assert stats["waiting"] == 0 < counts["answered"]
    return stats


POISSON, BURSTY = Poisson(interval_ms=2.4), Bursty(interval_ms=2.4, burst=6, length=30)
KNOBS = [
    {"queue": 1},
    {"queue": 0, "fallback": "latest"},
    {"queue": 4, "fallback": "standard"},
    {"queue": 2, "batch_size": 8, "max_wait_ms": 2.0},
    {"queue": 3, "budget_ms": 5.0, "threshold_ms": 1000.0, "baseline_ms": 1.0},
]


@pytest.mark.parametrize("knobs", KNOBS, ids=lambda knobs: ",".join(knobs))
def test_every_request_ends_exactly_once(knobs):
    lived(BURSTY, 800, **knobs)


@pytest.mark.slow
@pytest.mark.parametrize("knobs", KNOBS[1:4], ids=lambda knobs: ",".join(knobs))
def test_ten_thousand_requests(knobs):
    """The method breaks down somewhere on the way, where enough batches come to it."""
    lived(POISSON, 10_000, fails_after=2000, **knobs)


@pytest.mark.parametrize(("fault", "reason"), [("error", "out of order"), ("nan", "not finite")])
def test_a_method_that_breaks_down_under_load_is_replaced(fault, reason):
    # None is dropped: it does come to the hundredth.
    stats = lived(BURSTY, 400, fails_after=100, fault=fault, queue=400)
    assert reason in stats["failure"]
    assert stats["replaced"] > 0


@pytest.mark.parametrize(
    ("knobs", "drain"), [(KNOBS[0], True), (KNOBS[0], False), (KNOBS[1], False), (KNOBS[3], True)]
)
def test_closing_in_the_middle_loses_no_request(knobs, drain):
    def close_soon(pipeline, clients):
        while pipeline.stats()["answered"] < 20 and any(thread.is_alive() for thread in clients):
            time.sleep(0.001)
        pipeline.close(drain=drain)

    lived(POISSON, 1600, close_soon, **knobs)


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
