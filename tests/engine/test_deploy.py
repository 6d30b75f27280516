"""tempora.deploy: what a client meets, and what happens when a method, a client or a device misbehaves."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from live_clock import FakeClock, tiny_network
from torch import nn

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.engine.calls import Costs
from tempora_tta.engine.pipeline import Pipeline, prometheus
from tempora_tta.engine.pipeline.door import all_finite
from tempora_tta.engine.pipeline.live_time import WallClock
from tempora_tta.engine.pipeline.operator import Operator
from tempora_tta.engine.pipeline.scores import have_a_best_class
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method, create
from tempora_tta.scenarios import Deployment

PATIENCE_S = 60
"""A watchdog for what must not hang; nothing is decided by it while things go well."""


@pytest.fixture
def no_thread_left():
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
    assert set(threading.enumerate()) <= before


pytestmark = pytest.mark.usefixtures("no_thread_left")


def image(value: float = 1.0) -> torch.Tensor:
    return torch.full((1, 2, 2), value)


class Held(Method):
    """Adapts when it is let; counts what it saw."""

    name = "held"
    state = ("seen",)
    let_predict = let_adapt = None
    breaks_at = None
    """What goes wrong, and when: predict:3 raises after three steps, and so on for every fault below."""

    def setup(self):
        self.seen = 0

    @torch.no_grad()
    def predict(self, x):
        if self.let_predict is not None:
            assert self.let_predict.wait(PATIENCE_S)
        scores = self.model(x)
        fault = self._fault()
        if fault == "predict":
            raise RuntimeError("out of luck")
        if fault == "exit":
            sys.exit(3)
        if fault == "autocast":
            torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
        return {"nan": scores * float("nan"), "row": scores[:1], "classes": scores[:, :2]}.get(fault, scores)

    def adapt(self):
        if self.frozen:
            return "none"
        if self.let_adapt is not None:
            assert self.let_adapt.wait(PATIENCE_S)
        fault = self._fault()
        if fault == "adapt":
            raise RuntimeError("out of luck")
        if fault == "gradients":
            torch.set_grad_enabled(False)
        self.seen += 1
        return None if fault == "action" else "step"

    def _fault(self):
        fault, _, when = (self.breaks_at or "").partition(":")
        return fault if when == str(self.seen) else None


def held(**attributes):
    return type("Held", (Held,), attributes)


def deployed(method=Held, **knobs):
    return tempora.deploy(tiny_network(), method, device="cpu", example=torch.ones(2, 1, 2, 2), **knobs)


def _in_hand(pipeline):
    """Wait until the worker has taken a batch."""
    while pipeline._worker.picked_ms is None:
        threading.Event().wait(0.001)


def test_the_answer_goes_out_before_adaptation_starts():
    let = threading.Event()
    with tempora.deploy(tiny_network(), held(let_adapt=let), device="cpu") as pipeline:
        answer = pipeline.submit(image()).result(PATIENCE_S)
        assert answer.scores.shape == (3,)
        assert (answer.dropped, answer.fallback) == (False, False)
        assert answer.response_ms > 0
        let.set()


def test_images_and_batches_answer_as_the_network_does():
    network = tiny_network()
    batch = torch.randn(5, 1, 2, 2)
    with tempora.deploy(network, "standard", device="cpu") as pipeline:
        assert torch.allclose(pipeline.submit(batch).result(PATIENCE_S).scores, network(batch))
        assert torch.allclose(
            pipeline.submit(batch[2]).result(PATIENCE_S).scores, network(batch)[2], atol=1e-6
        )
        module = pipeline.module()
        assert isinstance(module, nn.Module)
        assert torch.allclose(module(batch), network(batch))
        assert list(module.parameters()) == []


def test_what_a_client_does_to_its_buffer_afterwards_changes_nothing():
    let = threading.Event()
    network = tiny_network()
    buffer = torch.ones(2, 1, 2, 2)
    with tempora.deploy(network, held(let_predict=let), device="cpu", example=None) as pipeline:
        future = pipeline.submit(buffer)
        buffer.fill_(100.0)
        let.set()
        assert torch.allclose(future.result(PATIENCE_S).scores, network(torch.ones(2, 1, 2, 2)))


def test_a_full_queue_drops_its_oldest_at_once():
    let = threading.Event()
    with tempora.deploy(tiny_network(), held(let_predict=let), device="cpu", queue=1) as pipeline:
        first, second, third = (pipeline.submit(image(value)) for value in (1.0, 2.0, 3.0))
        dropped = second.result(PATIENCE_S)  # while the first is still being served
        assert (dropped.dropped, dropped.scores, dropped.response_ms) == (True, None, None)
        assert not first.done()
        let.set()
        assert not first.result(PATIENCE_S).dropped
        assert not third.result(PATIENCE_S).dropped
        pipeline.label(second, 0)  # of no use, and no mistake
        stats = pipeline.stats()
        assert (stats["arrived"], stats["answered"], stats["dropped"]) == (3, 2, 1)
        assert stats["availability"] == pytest.approx(2 / 3)
        assert stats["labelled"] == 0


def test_single_images_are_collected_until_the_batch_is_full_or_their_time_is_up():
    clock = FakeClock()
    sizes = []

    class Sizes(Held):
        def predict(self, x):
            sizes.append(len(x))
            return super().predict(x)

    network = tiny_network()
    with tempora.deploy(
        network, Sizes, device="cpu", batch_size=3, max_wait_ms=20, clock=clock, queue=9
    ) as pipeline:
        sizes.clear()
        clock.advance(100)
        full = [pipeline.submit(image(value)) for value in (1.0, 2.0, 3.0)]
        scores = torch.stack([future.result(PATIENCE_S).scores for future in full])
        assert torch.allclose(scores, network(torch.stack([image(v) for v in (1.0, 2.0, 3.0)])), atol=1e-6)
        assert pipeline.wait(PATIENCE_S)
        late = [pipeline.submit(image(value)) for value in (4.0, 5.0)]
        clock.advance(19.5)
        assert not any(future.done() for future in late)
        clock.advance(0.5)
        answers = [future.result(PATIENCE_S) for future in late]
        assert [answer.response_ms for answer in answers] == [20.0, 20.0], "collecting is waiting, too"
        whole = pipeline.submit(torch.ones(4, 1, 2, 2)).result(PATIENCE_S)
        assert whole.scores.shape == (4, 3)
        last = pipeline.submit(image(6.0))
    assert not last.result(0).dropped, "closing serves what has come"
    assert sizes == [3, 2, 4, 1]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3, 3), "of shape .3, 3.: give an image of shape .1, 2, 2."),
        (torch.ones(0, 1, 2, 2), "give an image of shape"),
        (torch.ones(2, 1, 2, 2, dtype=torch.int64), "give normalised floating-point images"),
        (torch.full((1, 2, 2), float("nan")), "NaN or infinite"),
        ("a picture", "a str that is no tensor"),
    ],
)
def test_what_no_network_takes_is_refused_at_the_door(x, message):
    with deployed() as pipeline:
        with pytest.raises(TemporaError, match=message):
            pipeline.submit(x)
        assert pipeline.stats()["refused"] == 1
        assert pipeline.stats()["arrived"] == 0


@pytest.mark.gpu
def test_a_client_with_a_stream_of_its_own_hands_over_what_it_made():
    """It fills its image after long work on its stream: a worker that did not wait would see the zeros before."""
    with tempora.deploy(tiny_network().to("cuda"), "standard", device="cuda") as pipeline:
        expected = pipeline.submit(image(3.0)).result().scores
        with torch.cuda.stream(torch.cuda.Stream()):
            x, work = torch.zeros(1, 2, 2, device="cuda"), torch.ones(6000, 6000, device="cuda")
            for _ in range(20):
                work = work @ work / 6000
            x += 3 * work[0, 0]
            found = pipeline.submit(x).result().scores
        assert torch.allclose(found, expected)


@example([3e38, 3e38])
@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_no_value_that_is_not_finite_passes_and_none_that_is_stays_out(values):
    given, finite = torch.tensor(values), all(math.isfinite(value) for value in values)
    assert all_finite(given) == finite
    assert all_finite(given, given.sum()) == finite


def test_a_batch_that_even_standard_cannot_take_is_refused_and_the_method_stays():
    with tempora.deploy(_picky(), Held, device="cpu") as pipeline:
        bad = pipeline.submit(torch.full((2, 1, 2, 2), 13.0))
        with pytest.raises(TemporaError, match="cannot answer this batch: RuntimeError: thirteen"):
            bad.result(PATIENCE_S)
        assert not pipeline.submit(image()).result(PATIENCE_S).dropped
        stats = pipeline.stats()
        assert (stats["refused"], stats["failure"], stats["replaced"]) == (1, None, 0)


def _picky():
    class Picky(nn.Module):
        def forward(self, x):
            if bool((x == 13).any()):
                raise RuntimeError("thirteen")
            return x.flatten(1)

    network = nn.Sequential()
    network.add_module("flat", Picky())
    network.add_module("head", nn.Linear(4, 3))
    return tempora.models.wrap(network, features="flat", head="head")


@pytest.mark.parametrize(
    ("breaks_at", "reason", "stood_in"),
    [
        ("predict:2", r"predict\(\) raised RuntimeError: out of luck", 4),
        ("nan:2", "its scores are not finite", 4),
        ("row:2", r"predict\(\) returned a tensor of shape \(1, 3\); expected .* 2 rows of 3 classes", 4),
        ("classes:2", r"predict\(\) returned a tensor of shape \(2, 2\)", 4),
        ("exit:2", r"predict\(\) tried to end Python \(SystemExit: 3\)", 4),
        ("autocast:2", r"predict\(\) changed autocast on cpu \(off before, on after\)", 4),
        ("adapt:2", r"adapt\(\) raised RuntimeError: out of luck", 3),
        ("action:2", r"adapt\(\) returned None; expected a word", 3),
        ("gradients:2", r"adapt\(\) changed the recording of gradients \(on before, off after\)", 3),
    ],
)
def test_a_method_that_fails_is_replaced_by_standard_said_once_and_counted(breaks_at, reason, stood_in):
    network = tiny_network()
    with (  # noqa: PT031
        pytest.warns(TemporaWarning, match=f"replaced by Standard: {reason}") as said,
        tempora.deploy(network, held(breaks_at=breaks_at), device="cpu") as pipeline,
    ):
        batch = torch.stack([image(), image(2.0)])
        for _ in range(6):
            answer = pipeline.submit(batch).result(PATIENCE_S)
            assert torch.allclose(answer.scores, network(batch), atol=1e-6), "in float32, whoever answers"
            assert pipeline.wait(PATIENCE_S)
        stats = pipeline.stats()
        with pytest.raises(TemporaError, match="nothing to save: the method was replaced"):
            pipeline.save("nowhere")
    assert (stats["answered"], stats["replaced"]) == (6, stood_in)
    assert stats["steps"] == 6 - stood_in, "adapt() was called on every batch that the method predicted"
    assert len([one for one in said if one.category is TemporaWarning]) == 1


@pytest.mark.parametrize("breaks_at", ["predict:0", "nan:0", "adapt:0", "autocast:0"])
def test_what_fails_before_the_first_request_is_replaced_too(breaks_at):
    network = tiny_network()
    with (  # noqa: PT031
        pytest.warns(TemporaWarning, match="held was replaced by Standard") as said,
        tempora.deploy(
            network, held(breaks_at=breaks_at), device="cpu", example=torch.ones(2, 1, 2, 2)
        ) as pipeline,
    ):
        answer = pipeline.submit(image()).result(PATIENCE_S)
        assert torch.allclose(answer.scores, network(image()[None])[0], atol=1e-6)
        assert (pipeline.stats()["replaced"], pipeline.stats()["steps"]) == (1, 0)
    assert len([one for one in said if one.category is TemporaWarning]) == 1


def test_a_program_that_makes_errors_of_warnings_is_served_on(caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tempora.deploy(tiny_network(), held(breaks_at="predict:0"), device="cpu") as pipeline:
            assert all(not pipeline.submit(image()).result(PATIENCE_S).dropped for _ in range(3))
            assert pipeline.wait(PATIENCE_S)
    assert [record.message for record in caplog.records if "was replaced by Standard" in record.message]


def test_state_of_the_whole_process_is_the_methods_doing_only_while_it_warms_up():
    class Careless(Held):
        def predict(self, x):
            torch.set_default_dtype(torch.float64)
            return super().predict(x)

    with pytest.warns(TemporaWarning, match=r"changed the default type of numbers \(torch.float32 before"):
        deployed(Careless).close()
    assert torch.get_default_dtype() == torch.float32, "put back"

    let = threading.Event()
    with tempora.deploy(tiny_network(), held(let_predict=let), device="cpu") as pipeline:
        future = pipeline.submit(image())
        _in_hand(pipeline)
        gc.disable()  # what the rest of the program does meanwhile is no business of the pipeline's
        try:
            let.set()
            assert not future.result(PATIENCE_S).dropped
            assert pipeline.wait(PATIENCE_S)
            assert (gc.isenabled(), pipeline.stats()["failure"]) == (False, None)
        finally:
            gc.enable()


@pytest.mark.parametrize("where", ["let_predict", "let_adapt"])
def test_a_method_that_hangs_is_left_behind(where):
    let, clock = threading.Event(), FakeClock()
    with pytest.warns(TemporaWarning, match="a call has not ended"):  # noqa: PT031, SIM117
        with tempora.deploy(
            tiny_network(), held(**{where: let}), device="cpu", clock=clock, too_long_ms=1000
        ) as pipeline:
            hanging = pipeline.submit(image())
            if where == "let_adapt":
                hanging.result(PATIENCE_S)
            _in_hand(pipeline)
            clock.advance(1001)
            assert not hanging.result(PATIENCE_S).dropped
            assert not pipeline.submit(image()).result(PATIENCE_S).dropped
            assert pipeline.stats()["replaced"] == (2 if where == "let_predict" else 1)
            let.set()


def test_a_method_that_takes_too_long_is_replaced():
    clock = FakeClock(minding=False)

    class Slow(Held):
        def adapt(self):
            clock.advance(0 if self.seen < 2 else 500)
            return super().adapt()

    with pytest.warns(TemporaWarning, match="it took 500 ms for one batch"):  # noqa: PT031, SIM117
        with tempora.deploy(tiny_network(), Slow, device="cpu", clock=clock, too_long_ms=400) as pipeline:
            for _ in range(5):
                pipeline.submit(image()).result(PATIENCE_S)
                assert pipeline.wait(PATIENCE_S)
            assert pipeline.stats()["steps"] == 3


def test_a_method_that_only_predicts_and_takes_too_long_is_replaced():
    """Whoever waits for a look at the clock now and then may miss it."""
    clock = FakeClock(minding=False)

    class Slow(Method):
        name = "slow"

        @torch.no_grad()
        def predict(self, x):
            clock.advance(500)
            return self.model(x)

    with pytest.warns(TemporaWarning, match="it took 500 ms for one batch"):  # noqa: PT031, SIM117
        with tempora.deploy(tiny_network(), Slow, device="cpu", clock=clock, too_long_ms=400) as pipeline:
            for _ in range(3):
                pipeline.submit(image()).result(PATIENCE_S)
            assert pipeline.wait(PATIENCE_S)
            assert (pipeline.stats()["answered"], pipeline.stats()["replaced"]) == (3, 2)


def until(holds, meanwhile=lambda: None):
    """Wait for it, without deciding anything by time."""
    watchdog = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < watchdog, "it hangs"
        meanwhile()
        threading.Event().wait(0.005)


def time_passes(clock, thread, by_ms):
    """Until the thread has ended."""
    thread.start()
    until(lambda: not thread.is_alive(), meanwhile=lambda: clock.advance(by_ms))


@pytest.mark.parametrize("where", ["let_predict", "let_adapt"])
def test_a_method_that_hangs_while_it_warms_up_is_left_behind(where):
    let, clock, deployments = threading.Event(), FakeClock(), []
    kind = held(**{where: let})

    def deploy():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TemporaWarning)
            deployments.append(deployed(kind, clock=clock, too_long_ms=1000))

    # Each call has ten times as long as a batch.
    time_passes(clock, threading.Thread(target=deploy, daemon=True), by_ms=10_001)
    (pipeline,) = deployments
    assert "a call has not ended" in pipeline.stats()["failure"]
    assert not pipeline.submit(image()).result(PATIENCE_S).dropped
    assert pipeline.stats()["replaced"] == 1
    pipeline.close()
    let.set()


def test_a_standard_that_hangs_while_it_warms_up_is_said():
    let, clock = threading.Event(), FakeClock()
    hangs = type("Standard", (create("standard", tiny_network()).__class__,), {})
    hangs.predict = lambda self, x: let.wait(PATIENCE_S)
    model, failed = tiny_network(), []
    operator = Operator(hangs(model), hangs(model), example=torch.ones(2, 1, 2, 2))

    def deploy():
        with pytest.raises(TemporaError, match="the device does not answer: a call has not ended") as error:
            Pipeline(
                operator, Deployment(arrivals=(0.0,)).resolve(num_batches=1), too_long_ms=1000, clock=clock
            )
        failed.append(error)

    time_passes(clock, threading.Thread(target=deploy, daemon=True), by_ms=10_001)
    assert failed
    let.set()


@pytest.mark.parametrize("call", ["save", "load"])
def test_a_method_that_hangs_while_it_is_saved_or_loaded_is_left_behind(call, tmp_path):
    let, clock, said = threading.Event(), FakeClock(), []

    class Stuck(Held):
        hangs = False

        def snapshot(self):
            assert not self.hangs or let.wait(PATIENCE_S)
            return super().snapshot()

    def ask():
        with pytest.raises(TemporaError, match="held: a call has not ended") as error:
            getattr(pipeline, call)(tmp_path / "state")
        said.append(error)

    with pytest.warns(TemporaWarning, match="a call has not ended"):  # noqa: PT031, SIM117
        with tempora.deploy(tiny_network(), Stuck, device="cpu", clock=clock, too_long_ms=1000) as pipeline:
            pipeline.save(tmp_path / "state")
            Stuck.hangs = True
            time_passes(clock, threading.Thread(target=ask, daemon=True), by_ms=10_001)
            assert said
            assert not pipeline.submit(image()).result(PATIENCE_S).dropped
            let.set()


def test_what_hung_and_comes_back_changes_nothing_of_what_was_loaded_since(tmp_path):
    let, clock, hangs, back = threading.Event(), FakeClock(), threading.Event(), threading.Event()

    class Hanging(Held):
        def adapt(self):
            if hung := self.let_adapt is not None:
                hangs.set()
            done = super().adapt()
            if hung:
                back.set()
            return done

    with pytest.warns(TemporaWarning, match="a call has not ended"):  # noqa: PT031, SIM117
        with tempora.deploy(tiny_network(), Hanging, device="cpu", clock=clock, too_long_ms=1000) as pipeline:
            pipeline.save(tmp_path / "state")
            Hanging.let_adapt = let
            pipeline.submit(image()).result(PATIENCE_S)
            assert hangs.wait(PATIENCE_S)
            clock.advance(1001)
            until(lambda: pipeline.stats()["failure"] is not None)
            Hanging.let_adapt = None
            pipeline.load(tmp_path / "state")
            let.set()
            assert back.wait(PATIENCE_S)
            assert pipeline._operator.method.seen == 0
            pipeline.submit(image()).result(PATIENCE_S)
            assert pipeline.wait(PATIENCE_S)
            assert (pipeline._operator.method.seen, pipeline.stats()["failure"]) == (1, None)


def test_who_was_left_behind_before_it_adapts_leaves_the_next_method_alone(tmp_path, monkeypatch):
    """Between the answer and adapt() a thread may lose the processor for long."""
    late, clock, adapt = threading.Event(), FakeClock(), Operator.adapt
    threads = []

    def adapt_late(self, *given):
        if not threads:
            threads.append(threading.current_thread())
            assert late.wait(PATIENCE_S)
        return adapt(self, *given)

    with pytest.warns(TemporaWarning, match="a call has not ended"):  # noqa: PT031, SIM117
        with tempora.deploy(tiny_network(), held(), device="cpu", clock=clock, too_long_ms=1000) as pipeline:
            pipeline.save(tmp_path / "state")
            monkeypatch.setattr(Operator, "adapt", adapt_late)
            pipeline.submit(image()).result(PATIENCE_S)
            until(lambda: threads)
            clock.advance(1001)
            until(lambda: pipeline.stats()["failure"] is not None)
            pipeline.load(tmp_path / "state")
            late.set()
            threads[0].join(PATIENCE_S)
            assert pipeline._operator.method.seen == 0


def test_where_no_other_method_can_be_made_nothing_is_loaded_into_one_that_hangs(tmp_path):
    with deployed() as pipeline:
        pipeline.save(tmp_path / "state")
        pipeline._operator.left_behind, pipeline._operator._make = True, None
        with pytest.raises(TemporaError, match=r"a call of held hangs .* deploy again, and load there"):
            pipeline.load(tmp_path / "state")


def breaking(call, **attributes):
    """Raises where it is asked to freeze, say, once it was made."""

    def fail(self, *given):
        if self.made:
            raise RuntimeError("out of luck")
        return getattr(Held, call)(self, *given)

    def save_initial(self):
        self.made = False
        Held.save_initial(self)
        self.made = True

    return held(made=False, save_initial=save_initial, **{call: fail}, **attributes)


@pytest.mark.parametrize("call", ["freeze", "reset"])
def test_a_method_that_raises_when_it_is_frozen_or_reset_while_it_warms_up_is_replaced(call):
    with (  # noqa: PT031
        pytest.warns(
            TemporaWarning, match=rf"replaced by Standard: {call}\(\) raised RuntimeError: out of luck"
        ),
        deployed(breaking(call)) as pipeline,
    ):
        assert not pipeline.submit(image()).result(PATIENCE_S).dropped
        assert (pipeline.stats()["replaced"], pipeline.stats()["refused"]) == (1, 0)


def test_a_method_that_cannot_freeze_when_its_budget_is_used_up_is_replaced():
    with (  # noqa: PT031
        pytest.warns(TemporaWarning, match=r"replaced by Standard: freeze\(\) raised RuntimeError"),
        tempora.deploy(
            tiny_network(), breaking("freeze"), device="cpu", clock=FakeClock(), baseline_ms=10, budget_ms=0
        ) as pipeline,
    ):
        for _ in range(3):
            assert not pipeline.submit(image()).result(PATIENCE_S).dropped
            assert pipeline.wait(PATIENCE_S)
        assert (pipeline.stats()["replaced"], pipeline.stats()["refused"]) == (3, 0)


@pytest.mark.parametrize(("call", "stood_in"), [("snapshot", 1), ("freeze", 1), ("restore", 0)])
def test_a_method_that_cannot_be_the_fallback_for_a_moment_is_replaced(call, stood_in):
    let = threading.Event()
    with (  # noqa: PT031
        pytest.warns(TemporaWarning, match=rf"replaced by Standard: {call}\(\) raised RuntimeError"),
        tempora.deploy(
            tiny_network(), breaking(call, let_adapt=let), device="cpu", queue=0, fallback="latest"
        ) as pipeline,
    ):
        pipeline.submit(image()).result(PATIENCE_S)
        lost = pipeline.submit(image())
        let.set()
        assert lost.result(PATIENCE_S).fallback
        assert pipeline.wait(PATIENCE_S)
        assert not pipeline.submit(image()).result(PATIENCE_S).dropped
        stats = pipeline.stats()
    assert (stats["replaced"], stats["fallback"], stats["refused"]) == (1 + stood_in, 1, 0)


def test_a_device_that_does_not_answer_refuses_what_waits():
    """Standard hangs too: nobody waits for ever, and close() comes back."""
    let, clock = threading.Event(), FakeClock()

    class Stuck(nn.Module):
        def forward(self, x):
            assert let.wait(PATIENCE_S)
            return x.flatten(1)

    network = nn.Sequential()
    network.add_module("flat", Stuck())
    network.add_module("head", nn.Linear(4, 3))
    model = tempora.models.wrap(network, features="flat", head="head")
    pipeline = tempora.deploy(model, "standard", device="cpu", clock=clock, too_long_ms=1000)
    futures = [pipeline.submit(image()) for _ in range(2)]
    _in_hand(pipeline)
    clock.advance(1001)
    for future in futures:
        with pytest.raises(TemporaError, match="the device does not answer"):
            future.result(PATIENCE_S)
    with pytest.raises(TemporaError, match="is closed"):
        pipeline.submit(image())
    pipeline.close()
    let.set()


@pytest.mark.parametrize("drain", [True, False])
def test_closing_serves_or_drops_what_waits(drain):
    let = threading.Event()
    pipeline = tempora.deploy(tiny_network(), held(let_predict=let), device="cpu", queue=5)
    futures = [pipeline.submit(image()) for _ in range(4)]
    closing = threading.Thread(target=pipeline.close, args=(drain,))
    closing.start()
    if not drain:
        assert all(future.result(PATIENCE_S).dropped for future in futures[1:])
    let.set()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert [future.result(0).dropped for future in futures] == [False] + [not drain] * 3
    with pytest.raises(TemporaError, match="is closed"):
        pipeline.submit(image())
    pipeline.close()  # twice is once


def test_a_budget_freezes_the_method():
    clock = FakeClock()

    class Costly(Held):
        def adapt(self):
            clock.advance(0 if self.frozen else 30)
            return super().adapt()

    with tempora.deploy(
        tiny_network(), Costly, device="cpu", clock=clock, baseline_ms=10, budget_ms=45
    ) as pipeline:
        for _ in range(6):
            pipeline.submit(image()).result(PATIENCE_S)
            assert pipeline.wait(PATIENCE_S)
        stats = pipeline.stats()
    assert stats["spent_ms"] == 60, "overshoot: 20 a batch, while less than 45 is spent"
    assert (stats["steps"], stats["adapted_fraction"]) == (3, 0.5)


@pytest.mark.parametrize("fallback", ["latest", "standard"])
def test_a_fallback_answers_what_was_lost(fallback):
    let = threading.Event()
    network = tiny_network()
    with tempora.deploy(network, held(let_adapt=let), device="cpu", queue=0, fallback=fallback) as pipeline:
        futures = [pipeline.submit(image())]
        futures[0].result(PATIENCE_S)
        futures += [pipeline.submit(image(2.0)) for _ in range(3)]
        let.set()
        answers = [future.result(PATIENCE_S) for future in futures]
        stats = pipeline.stats()
    assert [answer.fallback for answer in answers] == [False, True, True, True]
    assert all(torch.allclose(a.scores, network(image(2.0)[None])[0], atol=1e-6) for a in answers[1:])
    assert (stats["availability"], stats["fallback_fraction"]) == (1.0, 0.75)


@pytest.mark.parametrize("name", ["tent", "cmf", "rotta", "t3a", "adabn"])
def test_a_restart_goes_on_from_the_saved_state(name, network, batches, tmp_path):
    model = network("fashion_resnet")
    xs = [x for x, _ in batches]

    def answers(pipeline, given):
        return torch.stack([pipeline.submit(x).result(PATIENCE_S).scores for x in given])

    knobs = {"device": "cpu", "arrivals": "on_completion"}
    with tempora.deploy(model, name, **knobs) as pipeline:
        answers(pipeline, xs[:4])
        saved = pipeline.save(tmp_path / "state.safetensors")
        expected = answers(pipeline, xs[4:])
    with tempora.deploy(model, name, **knobs) as restarted:
        fresh = answers(restarted, xs[4:5])
        restarted.load(saved)
        assert torch.equal(answers(restarted, xs[4:]), expected)
        assert name in ("adabn", "rotta") or not torch.equal(fresh, expected[:1])


def test_a_saved_budget_stays_spent_and_a_frozen_method_may_adapt_under_a_larger_one(tmp_path):
    clock = FakeClock()

    class Costly(Held):
        def adapt(self):
            clock.advance(0 if self.frozen else 30)
            return super().adapt()

    def serve(pipeline, count):
        for _ in range(count):
            pipeline.submit(image()).result(PATIENCE_S)
            assert pipeline.wait(PATIENCE_S)
        return pipeline.stats()

    knobs = {"device": "cpu", "clock": clock, "baseline_ms": 10}
    network = tiny_network()
    with tempora.deploy(network, Costly, budget_ms=40, **knobs) as pipeline:
        serve(pipeline, 3)
        pipeline.save(tmp_path / "state")
    with tempora.deploy(network, Costly, budget_ms=80, **knobs) as pipeline:
        pipeline.load(tmp_path / "state")
        assert pipeline.stats()["spent_ms"] == 40
        assert serve(pipeline, 4)["steps"] == 2


def test_a_state_of_something_else_is_refused(tmp_path):
    with deployed() as pipeline:
        pipeline.save(tmp_path / "state")
        (tmp_path / "other").write_bytes(b"junk")
        for path, message in (("other", "cannot be read as a saved state"), ("none", "does not exist")):
            with pytest.raises(TemporaError, match=message):
                pipeline.load(tmp_path / path)
    with deployed("standard") as other, pytest.raises(TemporaError, match="saved with method 'held'"):
        other.load(tmp_path / "state")


def test_a_state_of_another_network_is_refused_and_one_of_before_that_was_noted_is_not(tmp_path, monkeypatch):
    network, other = tiny_network(), tiny_network()
    assert network.name == other.name
    with tempora.deploy(network, Held, device="cpu") as pipeline:
        pipeline.save(tmp_path / "state")
        facts = pipeline._operator.facts
        monkeypatch.setattr(
            pipeline._operator,
            "facts",
            lambda: {name: value for name, value in facts().items() if name != "weights"},
        )
        pipeline.save(tmp_path / "old")
    with tempora.deploy(other, Held, device="cpu") as pipeline:
        with pytest.raises(TemporaError, match=r"was saved with weights .* deploy the same model"):
            pipeline.load(tmp_path / "state")
        with pytest.warns(TemporaWarning, match="make sure that it is of this"):
            pipeline.load(tmp_path / "old")


def test_a_given_up_method_comes_back_with_a_saved_state(tmp_path):
    kind = held(breaks_at="predict:1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemporaWarning)
        with tempora.deploy(tiny_network(), kind, device="cpu") as pipeline:
            pipeline.save(tmp_path / "state")
            for _ in range(3):
                pipeline.submit(image()).result(PATIENCE_S)
                assert pipeline.wait(PATIENCE_S)
            assert pipeline.stats()["failure"] is not None
            kind.breaks_at = None
            pipeline.load(tmp_path / "state")
            pipeline.submit(image()).result(PATIENCE_S)
            assert pipeline.wait(PATIENCE_S)
            assert pipeline.stats()["failure"] is None
            assert pipeline.stats()["steps"] == 2


def test_labels_may_come_before_or_after_the_answer():
    let = threading.Event()
    network = tiny_network()
    truth = int(network(image()[None]).argmax())
    with tempora.deploy(network, held(let_predict=let), device="cpu", queue=5) as pipeline:
        futures = [pipeline.submit(image()) for _ in range(4)]
        pipeline.label(futures[0], truth)
        with pytest.raises(TemporaError, match="2 classes for 1 images"):
            pipeline.label(futures[1], [0, 1])
        let.set()
        assert pipeline.wait(PATIENCE_S)
        pipeline.label(futures[1], (truth + 1) % 3)
        with pytest.raises(TemporaError, match="has its label already"):
            pipeline.label(futures[0], truth)
        with pytest.raises(TemporaError, match=r"submit\(\) did not return"):
            pipeline.label(object(), 0)
        stats = pipeline.stats()
    assert (stats["labelled"], stats["adapt_accuracy"], stats["utility"]) == (2, 0.5, 0.5)
    text = prometheus(stats)
    assert "\ntempora_adapt_accuracy 0.5\n" in text
    assert "failure" not in text


def test_a_callback_may_wait_for_another_thread_that_submits():
    let, futures = threading.Event(), []
    with tempora.deploy(tiny_network(), held(let_predict=let), device="cpu", queue=5) as pipeline:

        def ask(future):
            client = threading.Thread(target=lambda: futures.append(pipeline.submit(image())))
            client.start()
            client.join(PATIENCE_S)

        first = pipeline.submit(image())
        first.add_done_callback(ask)
        assert not first.cancel(), "every request ends by itself"
        let.set()
        until(lambda: futures)
        assert not futures[0].result(PATIENCE_S).dropped


@pytest.mark.parametrize("ended", ["answered", "dropped"])
def test_a_callback_that_fails_or_exits_is_logged_and_ends_nothing(ended, caplog):
    let = threading.Event()
    with tempora.deploy(tiny_network(), held(let_predict=let), device="cpu", queue=1) as pipeline:
        first, second = pipeline.submit(image()), pipeline.submit(image())
        for call in (lambda _: sys.exit(1), lambda _: 1 / 0):
            (first if ended == "answered" else second).add_done_callback(call)
        third = pipeline.submit(image())
        let.set()
        assert [future.result(PATIENCE_S).dropped for future in (first, second, third)] == [
            False,
            True,
            False,
        ]
        assert pipeline.wait(PATIENCE_S)
        assert pipeline.stats()["failure"] is None
    assert caplog.text.count("the callback of a client failed") == 2


def test_the_time_of_a_callback_is_not_the_methods():
    let, clock = threading.Event(), FakeClock(minding=False)
    with tempora.deploy(
        tiny_network(), held(let_predict=let), device="cpu", clock=clock, too_long_ms=1000
    ) as pipeline:
        future = pipeline.submit(image())
        future.add_done_callback(lambda _: clock.advance(5000))
        let.set()
        assert pipeline.wait(PATIENCE_S)
        assert (clock.now_ms(), pipeline.stats()["steps"], pipeline.stats()["failure"]) == (5000, 1, None)


def test_where_no_thread_can_be_started_any_more_everything_still_ends(monkeypatch):
    """As from Python 3.12 on, when it is about to end."""
    let, clock, called = threading.Event(), FakeClock(), []
    pipeline = tempora.deploy(
        tiny_network(), held(let_predict=let), device="cpu", clock=clock, too_long_ms=1000, queue=1
    )
    hanging, waiting = pipeline.submit(image()), pipeline.submit(image())
    waiting.add_done_callback(called.append)
    _in_hand(pipeline)

    def refuse(self):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch, warnings.catch_warnings():
        patch.setattr(threading.Thread, "start", refuse)
        warnings.simplefilter("ignore", TemporaWarning)
        clock.advance(1001)
        for future in (hanging, waiting):
            with pytest.raises(TemporaError, match="no other thread can be started"):
                future.result(PATIENCE_S)
        pipeline.close(drain=False)
    assert called == [waiting]
    let.set()


def test_a_client_cannot_end_a_request_in_the_pipelines_place():
    let = threading.Event()
    with tempora.deploy(tiny_network(), held(let_predict=let), device="cpu", queue=3) as pipeline:
        futures = [pipeline.submit(image()) for _ in range(3)]
        with pytest.raises(TemporaError, match="the pipeline ends it"):
            futures[1].set_result(1)
        with pytest.raises(TemporaError, match="the pipeline ends it"):
            futures[1].set_exception(ValueError())
        let.set()
        assert not any(future.result(PATIENCE_S).dropped for future in futures)


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
        for _ in range(50):
            torch.randn(300, 300) @ torch.randn(300, 300)
        return self.model(x)

started = threading.Event()
pipeline = tempora.deploy(tiny_network(), Busy, device="cpu", queue=50)
futures = [pipeline.submit(torch.ones(1, 2, 2)) for _ in range(40)]
futures[-1].add_done_callback(lambda future: print("dropped", future.result().dropped, flush=True))
started.wait()
print("leaving", flush=True)
"""


def test_leaving_python_without_close_ends_in_order():
    """Threads that work while Python takes itself apart abort it."""
    program = LEAVING.format(tests=str(Path(__file__).parent))
    left = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=10 * PATIENCE_S, check=False
    )
    assert (left.returncode, left.stdout.split("\n")) == (0, ["leaving", "dropped True", ""]), left.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_is_told_that_the_pipeline_is_not_its_own():
    with deployed() as pipeline:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # in the child nothing of pytest may go on
            said = b"nothing"
            try:
                for call in (lambda: pipeline.submit(image()), pipeline.wait, pipeline.stats):
                    try:
                        call()
                        os._exit(2)
                    except TemporaError as error:
                        said = str(error).encode()
                pipeline.close()
            finally:
                os.write(writing, said)
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert f"is at work in process {os.getpid()}".encode() in os.read(reading, 1000)
        os.close(reading), os.close(writing)
        assert not pipeline.submit(image()).result(PATIENCE_S).dropped


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"interval": 33}, "unknown knob of a deployment 'interval': did you mean 'interval_ms'"),
        ({"budget_x": 0.5}, "a service has none; use budget_ms"),
        ({"fallback": "latest", "fallback_cost": "free"}, "can be simulated, not served"),
        ({"budget_ms": 5, "rule": "strict", "arrivals": "on_completion"}, "which no live system can"),
        ({"batch_size": 0}, "batch_size=0: must be a whole number"),
        ({"max_wait_ms": -1.0}, "max_wait_ms=-1.0: must be a finite number"),
        ({"threshold_ms": 100}, "give baseline_ms=, or example="),
    ],
)
def test_knobs_that_make_no_sense_say_so(knobs, message):
    network = nn.Sequential()
    network.add_module("flat", nn.Flatten())
    network.add_module("head", nn.Linear(4, 3))
    unknown_images = tempora.models.wrap(network, features="flat", head="head")
    with pytest.raises(TemporaError, match=message):
        tempora.deploy(unknown_images, Held, device="cpu", **knobs)


def test_a_method_that_wants_to_know_the_time_is_told():
    moments, clock = [], FakeClock()

    class Aware(Held):
        time_aware = True

        def predict(self, x, moment):
            moments.append(moment)
            clock.advance(7)
            return super().predict(x)

        def adapt(self, moment):
            moments.append(moment)
            return super().adapt()

    with tempora.deploy(
        tiny_network(),
        Aware,
        device="cpu",
        clock=clock,
        interval_ms=33,
        deadline_ms=90,
        baseline_ms=10,
        budget_ms=50,
    ) as pipeline:
        moments.clear()
        clock.advance(5)
        begin = clock.now_ms()
        pipeline.submit(image()).result(PATIENCE_S)
    predict, adapt = moments
    assert (predict.now_ms, predict.arrived_ms, predict.interval_ms) == (begin, begin, 33)
    assert (adapt.now_ms, adapt.budget_left_ms, adapt.deadline_ms) == (begin + 7, 50, 90)


def test_clean_samples_go_to_the_methods_that_ask_for_them(network, batches):
    model = network("fashion_resnet")
    with pytest.raises(
        TemporaError, match=r"eata needs 16 clean unlabelled samples .* deploy\(\.\.\., source=images\)"
    ):
        tempora.deploy(model, ("eata", {"samples": 16}), device="cpu")
    with pytest.raises(TemporaError, match="eata needs 17 clean samples and the source has 8"):
        tempora.deploy(model, ("eata", {"samples": 17}), device="cpu", source=batches[0][0])
    source = torch.cat([x for x, _ in batches])[:16]
    method = create("eata", model, samples=16, source=source)
    with tempora.deploy(
        model,
        ("eata", {"samples": 16}),
        device="cpu",
        fallback="latest",
        source=source,
    ) as pipeline:
        for x, _ in batches:
            answer = pipeline.submit(x).result(PATIENCE_S)
            assert torch.equal(answer.scores, method.predict(x))
            method.adapt()
        assert pipeline.stats()["failure"] is None


def test_a_method_that_has_nothing_to_adapt_is_not_asked_to(network, batches, monkeypatch):
    """The contract's own adapt() does nothing, so the pipeline is free with the answer; overridden, it is called."""
    model = network("fashion_resnet")
    calls = []
    monkeypatch.setattr(Method, "adapt", lambda self: calls.append(self.name) or "none")
    asked = type(
        "Asked", (create("standard", model).__class__,), {"name": "asked", "adapt": lambda self: "step"}
    )
    for method, steps in (("standard", {"none"}), ("adabn", {"none"}), (asked, {"step"})):
        journal = []
        with tempora.deploy(model, method, device="cpu", example=batches[0][0]) as pipeline:
            calls.clear()  # of the warm-up
            pipeline._shared._journal = journal.append
            for x, _ in batches[:2]:
                pipeline.submit(x).result(PATIENCE_S)
            pipeline.wait(PATIENCE_S)
            stats = pipeline.stats()
        assert calls == []
        assert {row.action for row in journal} == steps
        assert [row.phase for row in journal] == ["adapt"] * 2
        assert (stats["adapted"], stats["steps"]) == (2, 2)
        assert all((row.finish_ms == row.emission_ms) == (steps == {"none"}) for row in journal)


@pytest.mark.parametrize(
    ("name", "settings", "parts"),
    [
        ("eta", {"margin": 0.001}, True),
        ("eta", {"margin": 1.0, "max_similarity": 2.0}, False),
        ("tent", {}, False),
        ("lame", {}, False),
    ],
)
def test_sizes_are_met_for_methods_that_step_on_what_they_keep(name, settings, parts, network, batches):
    """Which only a GPU needs; here they are met all the same, and leave nothing behind."""
    model, x = network("fashion_resnet"), batches[0][0]
    operator = Operator(create(name, model, **settings), create("standard", model), example=x)
    operator.warm_up(WallClock(), Costs())
    assert operator._learns_from_parts == parts
    before, sizes = {key: value.clone() for key, value in operator.standard.model.state_dict().items()}, []
    with torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: sizes.append(len(given[0])) if module is operator.standard.model else None
    ):
        operator._meet_sizes(x)
    assert sizes == list(range(len(x), 0, -1))
    assert all(torch.equal(before[key], value) for key, value in operator.standard.model.state_dict().items())
    assert all(parameter.grad is None for parameter in operator.standard.model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_scores_of_any_type_have_a_best_class_or_not(dtype):
    scores = torch.tensor([[1, 2, 3], [3, 2, 1]]).to(dtype)
    assert have_a_best_class(scores)
    if dtype.is_floating_point:
        ruled_out, nothing_left, not_a_number, too_large = (scores.clone() for _ in range(4))
        ruled_out[1, :2] = -math.inf
        nothing_left[1] = -math.inf
        not_a_number[0, 1] = math.nan
        too_large[0, 2] = math.inf
        found = [have_a_best_class(one) for one in (ruled_out, nothing_left, not_a_number, too_large)]
        assert found == [True, False, False, False]


def test_it_predicts_what_the_method_does_and_leaves_the_callers_model_alone(network, batches):
    model = network("fashion_resnet")
    before = model.weights_hash()
    with tempora.deploy(model, "tent", device="cpu") as pipeline:
        offline = create("tent", model)
        for x, _ in batches:
            answer = pipeline.submit(x).result(PATIENCE_S)
            assert pipeline.wait(PATIENCE_S)
            assert torch.equal(answer.scores, offline.predict(x))
            offline.adapt()
    assert model.weights_hash() == before
