"""tempora.deploy, as its clients meet it."""

from __future__ import annotations

import math
import os
import sys
import threading
import warnings

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

import tempora_tta as tempora
from live_clock import FakeClock, image, tiny_network
from tempora_tta import TemporaError
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method, create
from tempora_tta.serving import prometheus
from tempora_tta.serving.answerer import have_a_best_class
from tempora_tta.serving.requests import all_finite

WATCHDOG_S = 600
"""Ends a test that hangs; decides nothing while things go well."""


class Held(Method):
    """Predicts and adapts when it is let."""

    name = "held"
    state = ("seen",)
    let_predict = let_adapt = None

    def setup(self):
        self.seen = 0

    @torch.no_grad()
    def predict(self, x):
        assert self.let_predict is None or self.let_predict.wait(WATCHDOG_S)
        return self.model(x)

    def adapt(self):
        if self.frozen:
            return "none"
        assert self.let_adapt is None or self.let_adapt.wait(WATCHDOG_S)
        self.seen += 1
        return "step"


@pytest.fixture
def let():
    return threading.Event()


def deployed(method=Held, **knobs):
    return tempora.deploy(knobs.pop("network", None) or tiny_network(), method, device="cpu", **knobs)


def held(**let):
    return type("Held", (Held,), let)


def test_the_answer_goes_out_before_adaptation_starts(let):
    with deployed(held(let_adapt=let)) as pipeline:
        answer = pipeline.submit(image()).result(WATCHDOG_S)
        assert answer.scores.shape == (3,)
        assert (answer.dropped, answer.fallback) == (False, False)
        assert answer.response_ms > 0
        let.set()


def test_images_and_batches_answer_as_the_network_does():
    network, batch = tiny_network(), torch.randn(5, 1, 2, 2)
    with deployed("standard", network=network) as pipeline:
        assert torch.allclose(pipeline.submit(batch).result(WATCHDOG_S).scores, network(batch))
        alone = pipeline.submit(batch[2]).result(WATCHDOG_S).scores
        assert torch.allclose(alone, network(batch)[2], atol=1e-6)
        module = pipeline.module()
        assert isinstance(module, nn.Module)
        assert torch.allclose(module(batch), network(batch))
        assert list(module.parameters()) == []


def test_it_predicts_what_the_method_does_and_leaves_the_callers_model_alone(model, batches):
    before = model.weights_hash()
    with tempora.deploy(model, "tent", device="cpu") as pipeline:
        offline = create("tent", model)
        for x in batches:
            answer = pipeline.submit(x).result(WATCHDOG_S)
            assert pipeline.wait(WATCHDOG_S)
            assert torch.equal(answer.scores, offline.predict(x))
            offline.adapt()
    assert model.weights_hash() == before


def test_what_a_client_does_to_its_buffer_afterwards_changes_nothing(let):
    network, buffer = tiny_network(), torch.ones(2, 1, 2, 2)
    with deployed(held(let_predict=let), network=network) as pipeline:
        future = pipeline.submit(buffer)
        buffer.fill_(100.0)
        let.set()
        assert torch.allclose(future.result(WATCHDOG_S).scores, network(torch.ones(2, 1, 2, 2)))


def test_a_full_queue_drops_its_oldest_at_once(let):
    with deployed(held(let_predict=let), queue=1) as pipeline:
        first, second, third = (pipeline.submit(image(value)) for value in (1.0, 2.0, 3.0))
        dropped = second.result(WATCHDOG_S)  # while the first is still being served
        assert (dropped.dropped, dropped.scores, dropped.response_ms) == (True, None, None)
        assert not first.done()
        let.set()
        assert not first.result(WATCHDOG_S).dropped
        assert not third.result(WATCHDOG_S).dropped
        pipeline.label(second, 0)  # of no use, and no mistake
        stats = pipeline.stats()
        assert (stats["arrived"], stats["answered"], stats["dropped"]) == (3, 2, 1)
        assert stats["availability"] == pytest.approx(2 / 3)
        assert stats["labelled"] == 0


def test_single_images_are_collected_until_the_batch_is_full_or_their_time_is_up():
    clock, sizes, network = FakeClock(), [], tiny_network()

    class Sizes(Held):
        def predict(self, x):
            sizes.append(len(x))
            return super().predict(x)

    knobs = {"batch_size": 3, "max_wait_ms": 20, "clock": clock, "queue": 9}
    with deployed(Sizes, network=network, **knobs) as pipeline:
        full = [pipeline.submit(image(value)) for value in (1.0, 2.0, 3.0)]
        scores = torch.stack([future.result(WATCHDOG_S).scores for future in full])
        assert torch.allclose(scores, network(torch.stack([image(v) for v in (1.0, 2.0, 3.0)])), atol=1e-6)
        assert pipeline.wait(WATCHDOG_S)
        late = [pipeline.submit(image(value)) for value in (4.0, 5.0)]
        clock.advance(19.5)
        assert pipeline.stats()["waiting"] == 1
        assert not any(future.done() for future in late)
        clock.advance(0.5)
        answers = [future.result(WATCHDOG_S) for future in late]
        assert [answer.response_ms for answer in answers] == [20.0, 20.0], "collecting is waiting, too"
        whole = pipeline.submit(torch.ones(4, 1, 2, 2)).result(WATCHDOG_S)
        assert whole.scores.shape == (4, 3)
        last = pipeline.submit(image(6.0))
    assert not last.result(0).dropped, "closing serves what has come"
    assert sizes == [3, 2, 4, 1]


@pytest.mark.parametrize(
    ("knobs", "wait_ms"),
    [
        ({"deadline_ms": 200.0, "baseline_ms": 10.0}, 180.0),  # one answer, and the end of the batch in hand
        ({"threshold_ms": 90.0, "baseline_ms": 10.0}, 70.0),
        ({"fps": 10}, 300.0),  # three gaps of 100 ms
        ({"fps": 10, "max_wait_ms": 20.0}, 20.0),
    ],
)
def test_an_image_waits_for_its_batch_as_long_as_the_deadline_leaves_it(knobs, wait_ms):
    clock = FakeClock()
    with deployed(clock=clock, batch_size=3, **knobs) as pipeline:
        alone = pipeline.submit(image())
        clock.advance(wait_ms - 0.5)
        assert pipeline.stats()["waiting"] == 1
        clock.advance(0.5)
        assert alone.result(WATCHDOG_S).response_ms == wait_ms


def test_without_a_deadline_or_a_pace_it_asks_how_long_images_may_wait():
    with pytest.raises(TemporaError, match="how long an image may wait"):
        deployed(batch_size=3)


def test_it_says_that_it_serves_smaller_batches_than_were_evaluated():
    clock = FakeClock()
    with deployed("standard", clock=clock, batch_size=4, max_wait_ms=50, queue=1000) as pipeline:

        def at_every(gap_ms, count):
            for _ in range(count):
                pipeline.submit(image())
                clock.advance(gap_ms)
            clock.advance(50)
            assert pipeline.wait(WATCHDOG_S)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            at_every(10, 40)
        assert pipeline.stats()["mean_size"] == 4
        with pytest.warns(TemporaWarning, match="are served, not of 4"):
            at_every(30, 200)
        assert pipeline.stats()["mean_size"] < 3.2


@pytest.mark.parametrize("next_call", ["submit", "stats"])
def test_images_whose_time_is_up_while_the_worker_is_busy_arrive_when_it_was(next_call, let):
    clock, knobs = FakeClock(), {"batch_size": 2, "max_wait_ms": 20, "queue": 0}
    with deployed(held(let_predict=let), clock=clock, **knobs) as pipeline:
        first = pipeline.submit(torch.ones(2, 1, 2, 2))
        alone = pipeline.submit(image())
        clock.advance(30)
        later = (
            [pipeline.submit(torch.ones(2, 1, 2, 2))] if next_call == "submit" else pipeline.stats() and []
        )
        assert alone.result(WATCHDOG_S).dropped, "there is no queue, and it had come when its time was up"
        assert alone.arrived_ms == 20.0
        clock.advance(1)
        let.set()
    assert [future.result(0).dropped for future in (first, *later)] == [False, True][: 1 + len(later)]


@pytest.mark.parametrize("drain", [True, False])
def test_closing_serves_or_drops_what_waits(drain, let):
    pipeline = deployed(held(let_predict=let), clock=FakeClock(), queue=5)
    futures = [pipeline.submit(image()) for _ in range(4)]
    closing = threading.Thread(target=pipeline.close, args=(drain,))
    closing.start()
    if not drain:
        assert all(future.result(WATCHDOG_S).dropped for future in futures[1:])
    let.set()
    closing.join(WATCHDOG_S)
    assert not closing.is_alive()
    assert [future.result(0).dropped for future in futures] == [False] + [not drain] * 3
    with pytest.raises(TemporaError, match="is closed"):
        pipeline.submit(image())
    with pytest.raises(TemporaError, match="save before close"):
        pipeline.save("nowhere")
    pipeline.close()  # twice is once


class Costly(Held):
    """Each step takes 30 ms."""

    clock: FakeClock

    def adapt(self):
        self.clock.advance(0 if self.frozen else 30)
        return super().adapt()


def test_a_budget_freezes_the_method_and_stays_spent(tmp_path):
    clock, network = FakeClock(), tiny_network()
    kind = type("Costly", (Costly,), {"clock": clock})

    def stats_after(pipeline, count):
        for _ in range(count):
            pipeline.submit(image()).result(WATCHDOG_S)
            assert pipeline.wait(WATCHDOG_S)
        return pipeline.stats()

    knobs = {"network": network, "clock": clock, "baseline_ms": 10}
    with deployed(kind, budget_ms=45, **knobs) as pipeline:
        stats = stats_after(pipeline, 6)
        pipeline.save(tmp_path / "state")
    assert stats["spent_ms"] == 60, "overshoot: 20 a batch, while less than 45 is spent"
    assert (stats["steps"], stats["adapted_fraction"]) == (3, 0.5)
    with deployed(kind, budget_ms=100, **knobs) as pipeline:
        pipeline.load(tmp_path / "state")
        assert pipeline.stats()["spent_ms"] == 60
        assert stats_after(pipeline, 4)["steps"] == 2, "frozen by its budget, it adapts under a larger one"


@pytest.mark.parametrize("fallback", ["latest", "standard"])
def test_a_fallback_answers_what_was_lost(fallback, let):
    network = tiny_network()
    with deployed(held(let_adapt=let), network=network, queue=0, fallback=fallback) as pipeline:
        futures = [pipeline.submit(image())]
        futures[0].result(WATCHDOG_S)
        futures += [pipeline.submit(image(2.0)) for _ in range(3)]
        let.set()
        answers = [future.result(WATCHDOG_S) for future in futures]
        stats = pipeline.stats()
    assert [answer.fallback for answer in answers] == [False, True, True, True]
    assert all(torch.allclose(a.scores, network(image(2.0)[None])[0], atol=1e-6) for a in answers[1:])
    assert (stats["availability"], stats["fallback_fraction"], stats["replaced"]) == (1.0, 0.75, 0)


def test_labels_may_come_before_or_after_the_answer(let):
    network = tiny_network()
    truth = int(network(image()[None]).argmax())
    with deployed(held(let_predict=let), network=network, queue=5) as pipeline:
        futures = [pipeline.submit(image()) for _ in range(4)]
        pipeline.label(futures[0], truth)
        with pytest.raises(TemporaError, match="2 classes for 1 images"):
            pipeline.label(futures[1], [0, 1])
        let.set()
        assert pipeline.wait(WATCHDOG_S)
        pipeline.label(futures[1], (truth + 1) % 3)
        with pytest.raises(TemporaError, match="has its label already"):
            pipeline.label(futures[0], truth)
        with pytest.raises(TemporaError, match=r"submit\(\) did not return"):
            pipeline.label(object(), 0)
        stats = pipeline.stats()
    assert (stats["labelled"], stats["adapt_accuracy"], stats["utility"]) == (2, 0.5, 0.5)
    text = prometheus(stats)
    assert "\ntempora_adapt_accuracy 0.5\n" in text
    assert "\ntempora_busy_ms 0.0\n" in text
    assert "failure" not in text


def test_a_callback_may_wait_for_another_thread_that_submits_and_not_for_the_worker(let, caplog):
    futures = []
    with deployed(held(let_predict=let), queue=5) as pipeline:

        def ask(future):
            client = threading.Thread(target=lambda: futures.append(pipeline.submit(image())))
            client.start()
            client.join(WATCHDOG_S)

        first = pipeline.submit(image())
        first.add_done_callback(ask)
        first.add_done_callback(lambda _: pipeline.wait())
        assert not first.cancel(), "every request ends by itself"
        let.set()
        assert pipeline.wait(WATCHDOG_S)
        assert not futures[0].result(WATCHDOG_S).dropped
    assert "would wait for itself" in caplog.text


@pytest.mark.parametrize("ended", ["answered", "dropped"])
def test_a_callback_that_fails_or_exits_is_logged_and_ends_nothing(ended, let, caplog):
    with deployed(held(let_predict=let), queue=1) as pipeline:
        first, second = pipeline.submit(image()), pipeline.submit(image())
        for call in (lambda _: sys.exit(1), lambda _: 1 / 0):
            (first if ended == "answered" else second).add_done_callback(call)
        third = pipeline.submit(image())
        let.set()
        dropped = [future.result(WATCHDOG_S).dropped for future in (first, second, third)]
        assert dropped == [False, True, False]
        assert pipeline.wait(WATCHDOG_S)
        assert pipeline.stats()["failure"] is None
    assert caplog.text.count("the callback of a client failed") == 2


def test_a_callback_may_close(let):
    with deployed(held(let_predict=let), queue=1) as pipeline:
        first, second = pipeline.submit(image()), pipeline.submit(image())
        first.add_done_callback(lambda _: pipeline.close(drain=False))
        let.set()
        assert [future.result(WATCHDOG_S).dropped for future in (first, second)] == [False, True]


def test_a_client_cannot_end_a_request_in_the_pipelines_place(let):
    with deployed(held(let_predict=let), queue=3) as pipeline:
        futures = [pipeline.submit(image()) for _ in range(3)]
        with pytest.raises(TemporaError, match="the pipeline ends it"):
            futures[1].set_result(1)
        with pytest.raises(TemporaError, match="the pipeline ends it"):
            futures[1].set_exception(ValueError())
        let.set()
        assert not any(future.result(WATCHDOG_S).dropped for future in futures)


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
        assert not pipeline.submit(image()).result(WATCHDOG_S).dropped


def test_clean_samples_go_to_the_methods_that_ask_for_them(model, batches):
    with pytest.raises(
        TemporaError, match=r"eata needs 16 clean unlabelled samples .* deploy\(\.\.\., source=images\)"
    ):
        tempora.deploy(model, ("eata", {"samples": 16}), device="cpu")
    with pytest.raises(TemporaError, match="eata needs 17 clean samples and the source has 8"):
        tempora.deploy(model, ("eata", {"samples": 17}), device="cpu", source=batches[0])
    with torch.inference_mode():
        source = torch.cat(batches)[:16].clone()
        settings = ("eata", {"samples": 16})
        pipeline = tempora.deploy(model, settings, device="cpu", fallback="latest", source=source)
    method = create("eata", model, samples=16, source=source.clone())
    with pipeline:
        for x in batches:
            answer = pipeline.submit(x).result(WATCHDOG_S)
            assert torch.equal(answer.scores, method.predict(x))
            method.adapt()
        assert pipeline.stats()["failure"] is None


def test_a_method_that_has_nothing_to_adapt_is_not_asked_to(model, batches, monkeypatch):
    """The contract's own adapt() does nothing, so the pipeline is free with the answer; overridden, it is called."""
    calls = []
    standard = create("standard", model).__class__
    asked = type("Asked", (standard,), {"name": "asked", "adapt": lambda self: calls.append(1) or "step"})
    monkeypatch.setattr(Method, "adapt", lambda self: calls.append(self.name) or "none")
    for method, called in (("standard", []), ("adabn", []), (asked, [1, 1])):
        calls.clear()
        with tempora.deploy(model, method, device="cpu", baseline_ms=1.0) as pipeline:
            assert pipeline.wait(WATCHDOG_S)
            calls.clear()  # of the warm-up
            for x in batches[:2]:
                pipeline.submit(x).result(WATCHDOG_S)
            assert pipeline.wait(WATCHDOG_S)
            stats = pipeline.stats()
        assert calls == called
        assert (stats["adapted"], stats["steps"]) == (2, 2)


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


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("method", "all_sizes"),
    [(("eta", {"margin": 0.001}), True), (("eta", {"margin": 9.0, "max_similarity": 2.0}), False)],
)
def test_a_gpu_meets_every_size_of_a_batch_that_the_method_may_step_on(method, all_sizes, model, batches):
    sizes = []
    with (
        torch.nn.modules.module.register_module_forward_pre_hook(
            lambda module, given: sizes.append(len(given[0])) if isinstance(module, type(model)) else None
        ),
        tempora.deploy(model, method, device="cuda", example=batches[0]) as pipeline,
    ):
        assert set(range(1, 8)) <= set(sizes) if all_sizes else set(sizes) == {8}
        assert not any(pipeline.submit(x).result(WATCHDOG_S).dropped for x in batches)


@example([3e38, 3e38])
@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_no_value_that_is_not_finite_passes_and_none_that_is_stays_out(values):
    given, finite = torch.tensor(values), all(math.isfinite(value) for value in values)
    assert all_finite(given) == finite
    assert all_finite(given, given.sum()) == finite


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


def test_frames_are_answered_at_once_and_together_if_they_waited(model, batches):
    images = torch.cat(batches)[:24]
    with tempora.deploy(
        model, "tent", device="cpu", answer="at_once", fps=30, deadline_ms=200, batch_size=8, queue=9
    ) as pipeline:
        futures = [pipeline.submit(x) for x in images]
        scores = [future.result(WATCHDOG_S).scores for future in futures]
        assert pipeline.wait(WATCHDOG_S)
        stats = pipeline.stats()
    assert 24 / stats["mean_size"] >= 24 / 8
    assert (stats["answered"], stats["dropped"], stats["steps"]) == (24, 0, 3)
    first = create("standard", model).predict(images[:1])[0]
    assert torch.allclose(scores[0], first, atol=1e-5), "nothing was learned before it"


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({}, "without fps"),
        ({"fps": 30, "max_wait_ms": 50.0}, "no frame waits for others"),
    ],
)
def test_answering_at_once_says_what_does_not_go_with_it(knobs, said):
    with pytest.raises(TemporaError, match=said):
        deployed("standard", answer="at_once", **knobs)


def test_frames_answered_at_once_come_one_by_one_and_of_one_shape(let):
    with deployed(held(let_predict=let), answer="at_once", fps=30, queue=9) as pipeline:
        with pytest.raises(TemporaError, match="submit them one by one"):
            pipeline.submit(torch.ones(3, 1, 2, 2))
        first, second, other = (pipeline.submit(torch.ones(1, 2, width)) for width in (2, 2, 3))
        let.set()
        assert [len(one.result(WATCHDOG_S).scores) for one in (first, second)] == [3, 3]
        with pytest.raises(TemporaError, match="two shapes"):
            other.result(WATCHDOG_S)
