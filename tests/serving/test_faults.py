"""Methods that misbehave while they serve: faults x events, on a clock of the test's own.

Under every fault each request ends once, Standard answers where the method cannot, and close() comes back.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch

import tempora_tta as tempora
from live_clock import FakeClock, image, tiny_network
from tempora_tta import TemporaError
from tempora_tta.methods import Method

WATCHDOG_S = 600
"""Ends a test that hangs; decides nothing while things go well."""
X = torch.stack([image(1.0), image(2.0)])


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(WATCHDOG_S)
    assert set(threading.enumerate()) <= before


@pytest.fixture
def clock():
    return FakeClock()


class Faulty(Method):
    """Counts what it adapts on, 2 ms a batch. A fault changes what one of its calls comes to, once it was made."""

    name = "faulty"
    state = ("seen",)
    clock: FakeClock
    faults: dict
    made = False

    def setup(self):
        self.seen = 0

    def save_initial(self):
        super().save_initial()
        self.made = True

    @torch.no_grad()
    def predict(self, x):
        return self._end("predict", self.model(x))

    def adapt(self):
        if self.frozen:
            return "none"
        self.clock.advance(2)
        self.seen += 1
        return self._end("adapt", "step")

    def freeze(self):
        super().freeze()
        self._end("freeze", None)

    def snapshot(self):
        return self._end("snapshot", super().snapshot())

    def restore(self, snapshot):
        super().restore(snapshot)
        self._end("restore", None)

    def _end(self, call, result):
        return self.faults[call](self, result) if self.made and call in self.faults else result


@pytest.fixture
def kind(clock):
    return type("Faulty", (Faulty,), {"clock": clock, "faults": {}})


def raising(method, result):
    raise RuntimeError("out of luck")


def exiting(method, result):
    sys.exit(3)


def slow(method, result):
    method.clock.advance(500)
    return result


def in_autocast(method, result):
    torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
    return result


def without_gradients(method, result):
    torch.set_grad_enabled(False)
    return result


FAULTS = {
    "raises": ("predict", raising, r"predict\(\) raised RuntimeError: out of luck"),
    "nan": ("predict", lambda method, scores: scores * math.nan, ".*not finite"),
    "rows": ("predict", lambda method, scores: scores[:1], r"predict\(\).*\(1, 3\)"),
    "classes": ("predict", lambda method, scores: scores[:, :2], r"predict\(\).*\(2, 2\)"),
    "exits": ("predict", exiting, r"predict\(\).*SystemExit: 3"),
    "autocast": ("predict", in_autocast, r"predict\(\).*autocast on cpu \(off before, on after\)"),
    "slow": ("predict", slow, ".*50[02] ms"),
    "adapt raises": ("adapt", raising, r"adapt\(\) raised RuntimeError: out of luck"),
    "no action": ("adapt", lambda method, action: None, r"adapt\(\).*None"),
    "gradients": ("adapt", without_gradients, r"adapt\(\).*gradients"),
    "slow to adapt": ("adapt", slow, ".*502 ms"),
    "freeze raises": ("freeze", raising, r"freeze\(\) raised RuntimeError"),
    "snapshot raises": ("snapshot", raising, r"snapshot\(\) raised RuntimeError"),
    "restore raises": ("restore", raising, r"(restore|reset)\(\) raised RuntimeError"),
}
"""Name: the call, what comes of it, and why the method is replaced."""
EVENTS = {
    "warming up": (("predict", "adapt", "freeze", "restore"), {"example": X}),
    "serving": (("predict", "adapt"), {}),
    "out of budget": (("predict", "freeze"), {"budget_ms": 0.0, "baseline_ms": 10.0}),
    "falling back": (("predict", "freeze", "snapshot", "restore"), {"queue": 0, "fallback": "latest"}),
}
"""Name: the calls that are made then, and the knobs that lead there."""
TABLE = [
    (event, fault)
    for event, (calls, _) in EVENTS.items()
    for fault, (call, _, _) in FAULTS.items()
    if call in calls and not (event == "warming up" and fault.startswith("slow"))  # the first call may be
]


@pytest.mark.parametrize(("event", "fault"), TABLE)
def test_a_method_that_fails_is_replaced_by_standard_said_once_and_counted(event, fault, clock, kind):
    call, comes_to, reason = FAULTS[fault]
    network, futures = tiny_network(), []

    def submit():
        futures.append(pipeline.submit(X))

    def break_and_lose():
        """In the middle of adapt(): the batch is lost, and the fallback's."""
        kind.faults[call] = comes_to
        submit()

    if event == "warming up":
        kind.faults[call] = comes_to
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        knobs = {"device": "cpu", "clock": clock, "too_long_ms": 400, **EVENTS[event][1]}
        with tempora.deploy(network, kind, **knobs) as pipeline:
            if event == "falling back":
                clock.arrivals, clock.arrive = [clock.now_ms() + 1], break_and_lose
            else:
                kind.faults[call] = comes_to
            for _ in range(4):
                submit()
                assert pipeline.wait(WATCHDOG_S)
            with pytest.raises(TemporaError, match="replaced"):
                pipeline.save("nowhere")
            stats = pipeline.stats()
    for future in futures:
        scores = future.result(0).scores
        assert torch.allclose(scores, network(X), atol=1e-6), "in float32, by method or Standard"
    assert re.match(reason, stats["failure"])
    (warning,) = said
    assert stats["failure"] in str(warning.message)
    assert (stats["answered"], stats["dropped"], stats["refused"]) == (len(futures), 0, 0)
    in_time = fault.startswith("slow") or call == "adapt"  # the answer that it failed after was its own
    by_method = {"warming up": 0, "serving": in_time, "out of budget": in_time, "falling back": 1 + in_time}
    assert stats["replaced"] == len(futures) - by_method[event]
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_a_batch_that_does_not_suit_the_method_is_answered_by_standard_and_the_method_stays(clock, kind):
    def too_small(method, scores):
        if len(scores) < 2:
            raise TemporaError("a batch of 1 has no variance")
        return scores

    kind.faults["predict"] = too_small
    with tempora.deploy(tiny_network(), kind, device="cpu", clock=clock) as pipeline:
        for x in (image(), X, image()):
            assert pipeline.submit(x).result(WATCHDOG_S).scores is not None
        assert pipeline.wait(WATCHDOG_S)
        stats = pipeline.stats()
    assert (stats["replaced"], stats["steps"], stats["failure"]) == (2, 1, None)


# Calls that do not return. Python cannot end a thread, so close() leaves it to itself.


class Hang:
    """A call that returns when it is let, and says when it was made."""

    def __init__(self):
        self.made, self.let = threading.Event(), threading.Event()

    def __call__(self, *given):
        self.made.set()
        assert self.let.wait(WATCHDOG_S)
        return given[-1]


def while_time_passes(clock, work):
    """Do the work in a thread, and let time pass until it is done."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    watchdog_s = time.monotonic() + WATCHDOG_S
    while thread.is_alive():
        assert time.monotonic() < watchdog_s, "it hangs"
        clock.advance(100)
        thread.join(0.001)


@pytest.mark.parametrize("drain", [True, False])
@pytest.mark.parametrize("call", ["predict", "adapt", "callback"])
def test_close_comes_back_and_ends_every_request_when_anything_hangs(call, drain, clock, kind):
    hang, knobs = Hang(), {"too_long_ms": 1000, "queue": 5, "batch_size": 2, "max_wait_ms": 50}
    pipeline = tempora.deploy(tiny_network(), kind, device="cpu", clock=clock, **knobs)
    if call != "callback":
        kind.faults[call] = hang
    first = pipeline.submit(X)
    if call == "callback":
        first.add_done_callback(hang)
    assert hang.made.wait(WATCHDOG_S)
    others = [pipeline.submit(X), pipeline.submit(image())]
    while_time_passes(clock, lambda: pipeline.close(drain))
    clock.advance(5)
    assert pipeline.stats()["busy_ms"] > 0, "a supervisor sees it"

    ended = [_end_of(future) for future in (first, *others)]
    waiting = "refused" if drain else "dropped"
    assert ended == ["refused" if call == "predict" else "answered", waiting, waiting]
    with pytest.raises(TemporaError, match="closed"):
        pipeline.submit(X)
    counts = [pipeline.stats()[name] for name in ENDS]
    assert counts == [ended.count(name) + (name == "refused") for name in ENDS], "and one came too late"
    pipeline.close()  # twice is once
    hang.let.set()
    for thread in threading.enumerate():
        if thread.name == "tempora-worker":
            thread.join(WATCHDOG_S)
    assert [_end_of(future) for future in (first, *others)] == ended, "what comes back late says nothing more"
    assert [pipeline.stats()[name] for name in ENDS] == counts


ENDS = ("answered", "refused", "dropped")


def _end_of(future):
    error = future.exception(WATCHDOG_S)
    if error is not None:
        assert isinstance(error, TemporaError)
        return "refused"
    return "dropped" if future.result().dropped else "answered"


LEAVING = """
import sys, threading, torch
sys.path.insert(0, {tests!r})
from live_clock import tiny_network
import tempora_tta as tempora
from tempora_tta.methods import Method

class Busy(Method):
    name = "busy"

    @torch.no_grad()
    def predict(self, x):
        started.set()
        if {hangs}:
            threading.Event().wait()
        for _ in range(50):
            torch.randn(300, 300) @ torch.randn(300, 300)
        return self.model(x)

def tell(future):
    print("refused" if future.exception() else "dropped" if future.result().dropped else "answered", flush=True)

started = threading.Event()
pipeline = tempora.deploy(tiny_network(), Busy, device="cpu", queue=50)
futures = [pipeline.submit(torch.ones(1, 2, 2)) for _ in range(40)]
for future in (futures[-1], futures[0]):
    future.add_done_callback(tell)
started.wait()
print("leaving", flush=True)
"""


@pytest.mark.parametrize("hangs", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_leaving_python_without_close_ends_in_order(hangs):
    """A thread that works while Python takes itself apart aborts it."""
    program = LEAVING.format(tests=str(Path(__file__).parents[1]), hangs=hangs)
    left = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=10 * WATCHDOG_S, check=False
    )
    said = left.stdout.split()
    assert left.returncode == 0, left.stderr
    assert len(said) == 3, "each is told once"
    assert {"leaving", "dropped"} < set(said)
    assert not hangs or said == ["leaving", "dropped", "refused"]
