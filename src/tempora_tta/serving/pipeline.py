"""The live pipeline: a deployment's timeline, driven by the wall clock and real arrivals.

Clients move the timeline under one lock: a batch that finds the pipeline idle starts at the instant of its arrival,
one that finds it busy waits or pushes another out. One worker thread owns the device. It has a batch predicted, sends
the answer out, adapts, and tells the timeline how long that took, waking up included, so that the timeline's clock is
the wall clock. How a request ends is decided with the lock held; its client is told when the lock is free again.
"""

from __future__ import annotations

import atexit
import copy
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from tempora_tta.engine.calls import moment_at
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.apart import COLLECTED
from tempora_tta.scenarios import Resolved, Turn
from tempora_tta.serving.answerer import Answer, Answerer, say
from tempora_tta.serving.clock import LiveClock, WallClock
from tempora_tta.serving.requests import (
    Request,
    Response,
    ServedBatch,
    admitted,
    classes,
    not_finite,
    other_shape,
)
from tempora_tta.serving.saved_state import read_state, write_state
from tempora_tta.serving.stats import Stats

GRACE_MS = 2000.0
"""Longest time for the call in hand when a pipeline is closed without draining it."""

LOOKED_AT, FULL_ENOUGH = 32, 0.8
"""Batches of single images after which their mean size is looked at, and the share of `batch_size` that will do."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Command:
    """Work for the worker between two batches."""

    work: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)


class Pipeline:
    """Answers requests with a model that adapts while it serves. `tempora.deploy` makes one.

        with tempora.deploy(model, "tent", interval_ms=33, queue=1) as pipeline:
            future = pipeline.submit(image)      # from any thread: one image, or a batch
            answer = future.result()             # scores, dropped, response_ms, fallback
            pipeline.label(future, 3)            # later, if it becomes known
            pipeline.stats()["availability"]

    Every request ends once: answered, dropped, or refused with a `TemporaError`.
    """

    def __init__(
        self,
        method: Method,
        standard: Method,
        resolved: Resolved,
        *,
        example: Tensor | None = None,
        shape: tuple[int, ...] | None = None,
        measured_on: int | None = None,
        batch_size: int = 1,
        max_wait_ms: float = 0.0,
        too_long_ms: float = math.inf,
        clock: LiveClock | None = None,
        journal: Callable[[ServedBatch], None] = lambda row: None,
    ) -> None:
        """`shape`: of one image, where it is certain. `measured_on`: how many images lambda or the costs of work are
        of; None where nothing depends on that."""
        self._answerer = Answerer(method, standard, resolved.fallback)
        self._resolved = resolved
        self._shape, self._measured_on = shape, measured_on
        self._batch_size, self._max_wait_ms, self._too_long_ms = batch_size, max_wait_ms, too_long_ms
        self._clock, self._journal = clock or WallClock(), journal
        self._process = os.getpid()

        self._lock = threading.Condition(threading.Lock())
        """Guards everything below, and says when it changed."""
        live = driven_live(resolved)
        self._timeline = live.timeline(live=True)
        self._has_fallback = live.fallback is not None
        self._turn: Turn | None = None
        """The turn that the worker has in hand, or takes next."""
        self._batches: dict[int, list[Request]] = {}
        """Requests that are served or wait, or that the fallback will answer, by the number of their batch."""
        self._picked_again_ms = -math.inf
        """The last completion after which the pipeline picked."""
        self._losses_seen = 0
        self._collected: list[Request] = []
        """Single images that are to make a batch."""
        self._due_ms = math.inf
        """The time at which they count as a batch, full or not."""
        self._sizes: deque[int] | None = deque(maxlen=LOOKED_AT)
        """Sizes of the latest batches that were made so; None once it was said that they are small."""
        self._commands: deque[Command] = deque()
        """The first may be in hand."""
        self._stats = Stats()
        self._ended: list[Request] = []
        """Requests whose clients are to be told."""
        self._busy_since_ms: float | None = None
        """Start of the call that the worker has in hand."""
        self._closing = self._dropping = self._given_up = self._over = False
        """No more requests come; those that wait are dropped; the worker hangs or broke; the worker has ended."""

        self._worker = threading.Thread(target=self._work, name="tempora-worker", daemon=True)
        self._worker.start()
        atexit.register(self._end_with_python)
        try:
            if example is not None:
                self._by_worker(lambda: self._answerer.warm_up(example, self._clock))
        except BaseException:
            self.close(drain=False)
            raise

    # What clients call.

    def submit(self, x: Any) -> Request:
        """Hand in one image or a batch, normalised; the future of a `Response`. Never blocks.

        Raises TemporaError for what no network takes (a wrong shape, NaN) and after `close`.
        """
        self._check_process()
        submitted_ms = self._clock.now_ms()
        try:
            self._check_open()
            request = Request(self, *admitted(x, self._answerer.device, self._shape), submitted_ms)
            self._look_at_size(self._batch_size if request.single else request.size)
            if self._resolved.at_once and request.size > 1:
                raise TemporaError(
                    f"a batch of {request.size} images, and frames are answered at once: submit them one by one"
                )
            with self._locked():
                self._check_open()
                self._arrive(request)
                small = self._small_batches()
            if small:
                say(small)
        except TemporaError:
            with self._locked():
                self._stats.refused()
            raise
        return request

    def label(self, future: Future[Response], y: Any) -> None:
        """Say what was right, before or after the answer: a class, or one per image of the batch."""
        self._check_process()
        if not isinstance(future, Request) or future.owner is not self:
            raise TemporaError(
                "label() was given a future that submit() did not return: give one of this pipeline"
            )
        truth = classes(y, future.size, self._answerer.method.model.num_classes)
        with self._locked():
            if future.label is not None:
                raise TemporaError("this request has its label already: label it once")
            future.label = truth
            self._score(future)

    def stats(self) -> dict[str, Any]:
        """Counts of requests so far (arrived, answered, dropped, refused, adapted, fallback, replaced by Standard),
        the six terms and the utility they make, percentiles of the last 100,000 responses, what was spent, why the
        method was replaced, if it was, `mean_size`, of a served batch, and `busy_ms`, how long the call in hand has
        lasted (0: none is).

        A request is what counts as one arrival, and its response begins with `submit`. Accuracies are those of
        labelled requests; with only some of them labelled, the utility is an estimate.
        """
        self._check_process()
        with self._locked():
            now_ms, since_ms = self._now(), self._busy_since_ms
            others = {
                "waiting": len(self._batches)
                - len(self._turn.batches if self._turn else ())
                + bool(self._collected),
                "failure": self._answerer.failure,
                "spent_ms": self._timeline.spent_ms,
                "busy_ms": 0.0 if since_ms is None else now_ms - since_ms,
            }
            stats = copy.deepcopy(self._stats)  # sorting the responses takes longer than the lock may be held
        return {**stats.summary(), **others}

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the worker has nothing left to do; False: it took longer."""
        self._check_may_wait()
        with self._lock:
            return self._lock.wait_for(lambda: self._is_quiet, timeout_s)

    def module(self) -> nn.Module:
        """The pipeline as a network, for code that calls `model(x)`: waits for the answer and returns its scores."""
        return _Module(self.submit)

    def save(self, path: Path | str) -> Path:
        """Keep the adapted state, and what of the budget is spent, in a file of tensors and plain values."""
        answerer = self._answerer
        _ = answerer.identity  # takes long, and is made only once: requests would wait for it
        snapshot, facts = self._by_worker(
            lambda: (answerer.snapshot(), answerer.facts(self._timeline.spent_ms))
        )
        write_state(Path(path), snapshot, facts, answerer.method)
        return Path(path)

    def load(self, path: Path | str) -> None:
        """Go on from a saved state: the method, if it was replaced, comes back; what was spent stays spent."""
        answerer = self._answerer
        facts, snapshot = read_state(Path(path), answerer.method)
        for name, here in answerer.identity.items():
            if (there := getattr(facts, name)) != here:
                raise TemporaError(
                    f"{path} was saved with {name} {there!r}, this pipeline has {here!r}: deploy the same model and "
                    "method to go on from it"
                )

        def go_on() -> None:
            answerer.restore(snapshot, facts, str(path))
            with self._lock:
                self._timeline.resume(facts.spent_ms)

        self._by_worker(go_on)

    def close(self, drain: bool = True) -> None:
        """Take no more requests, and end: after serving what waits, or, with drain=False, dropping it.

        Always comes back. A call that has not returned after `too_long_ms` (without draining: after
        2 s, if that is less) is left to itself, and what waits for it is refused.
        """
        if os.getpid() != self._process:
            return  # the worker is another process's
        atexit.unregister(self._end_with_python)
        with self._locked():
            closed_ms = self._now()
            if drain:
                self._offer_collected(closed_ms)
            else:
                self._drop_waiting()
            self._closing = True
            self._lock.notify_all()
        if threading.current_thread() is self._worker:  # in a callback: it ends when that returns
            return
        with self._locked():
            while not (self._over or self._given_up) and (left_ms := self._patience_ms(drain, closed_ms)) > 0:
                self._clock.wait(self._lock, left_ms)
            if not self._over:
                self._give_up("the pipeline was closed, and a call has not returned")
        if self._over:
            self._worker.join()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close(drain=kind is None)

    # Between clients and the worker.

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise TemporaError(
                f"this pipeline is at work in process {self._process}, and a process forked from it has none of its "
                f"threads: deploy again in this one ({os.getpid()})"
            )

    def _check_may_wait(self) -> None:
        self._check_process()
        if threading.current_thread() is self._worker:
            raise TemporaError(
                "a callback runs in the worker's own thread and would wait for itself: wait, save or load elsewhere"
            )

    def _check_open(self) -> None:
        if self._closing:
            raise TemporaError("the pipeline is closed: make another with tempora.deploy")

    def _look_at_size(self, images: int) -> None:
        """Say once that lambda and costs are of batches of another size. Single images count as the batch that they
        are to fill."""
        measured_on = self._measured_on
        if measured_on not in (None, images):
            self._measured_on = None
            say(
                f"a batch of {images} came, and lambda and what work costs were measured on {measured_on}: "
                "thresholds, budgets and what a time-aware method decides are off. Deploy with example=, a batch "
                "like those to come"
            )

    def _small_batches(self) -> str | None:
        """Say once that single images make smaller batches than those that were evaluated. With the lock held."""
        sizes, wanted = self._sizes, self._batch_size
        if sizes is None or len(sizes) < LOOKED_AT or sum(sizes) >= FULL_ENOUGH * wanted * len(sizes):
            return None
        self._sizes = None
        return (
            f"batches of {sum(sizes) / LOOKED_AT:.1f} images are served, not of {wanted}: images come too slowly "
            f"for {self._max_wait_ms:.0f} ms of waiting. Evaluate that size (tempora run --batch-size), deploy with "
            "it, or let images wait longer (max_wait_ms=)"
        )

    def _by_worker(self, work: Callable[[], T]) -> T:
        """Have the worker do something between two batches, and wait for it."""
        self._check_may_wait()
        command = Command(work)
        with self._lock:
            if self._closing:
                raise TemporaError("the pipeline is closed: save before close, and load into a new one")
            self._commands.append(command)
            self._lock.notify_all()
        result: T = command.done.result()
        return result

    def _end_with_python(self) -> None:
        """A program that ends without `close` wants no more answers, and a thread at work while Python takes itself
        apart would abort it."""
        self.close(drain=False)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock. Clients whose requests ended meanwhile are told when it is free again, by this thread: their
        callbacks may submit."""
        with self._lock:
            try:
                yield
            finally:
                ended, self._ended = self._ended, []
        for request in ended:
            request.deliver()

    # The worker thread.

    def _work(self) -> None:
        try:
            while (task := self._next_task()) is not None:
                task()
        except BaseException as error:  # a fault of ours, or the device is gone: no client waits for ever
            with self._locked():
                self._give_up(f"the pipeline broke: {type(error).__name__}: {error}")
        with self._lock:
            self._over = True
            self._lock.notify_all()

    def _next_task(self) -> Callable[[], None] | None:
        with self._locked():
            while True:
                self._busy_since_ms = now_ms = self._now()
                if self._commands:
                    return partial(self._obey, self._commands[0])
                if self._turn is not None:
                    return partial(self._serve, self._turn, self._in_hand(), now_ms)
                self._busy_since_ms = None
                self._lock.notify_all()
                if self._closing:
                    return None
                self._clock.wait(self._lock, self._due_ms - now_ms)

    def _obey(self, command: Command) -> None:
        try:
            end = partial(command.done.set_result, command.work())
        except BaseException as error:
            end = partial(command.done.set_exception, error)
        with self._lock:
            if command in self._commands:  # or else close() has ended it
                self._commands.remove(command)
                end()

    def _serve(self, turn: Turn, requests: list[Request], picked_ms: float) -> None:
        """Have a batch predicted, send the answer out, and adapt."""
        answerer = self._answerer
        answer, finite = self._answered(turn, requests)
        with self._locked():
            if self._turn is not turn:  # close() has left the call to itself
                return
            emission_ms = self._now()
            self._emit(requests, finite, answer, emission_ms)
            if not answer.adapts:  # what sending the answer takes is part of the next turn
                self._finish(turn, answer.phase, picked_ms, emission_ms, emission_ms)
        predict_ms = emission_ms - picked_ms
        if not answer.adapts:
            if answer.by_method:
                self._judge_speed(predict_ms)
            return
        answerer.count_prediction(predict_ms)
        with self._lock:  # clients' callbacks have run, which are not the method's doing
            self._busy_since_ms = begun_ms = self._clock.now_ms()
        action = answerer.adapt(partial(self._moment, turn, emitted=True))
        with self._locked():
            if self._turn is not turn:
                return
            finish_ms = self._now()
            self._finish(turn, answer.phase, picked_ms, emission_ms, finish_ms, action)
        if answerer.failure is None:
            answerer.count_adaptation(action, predict_ms, finish_ms - begun_ms)
            self._judge_speed(predict_ms + finish_ms - begun_ms)

    def _answered(self, turn: Turn, requests: list[Request]) -> tuple[Answer, list[Request]]:
        """The answer of a batch, and the requests that it is of: those whose values are finite."""
        finite = [request for request in requests if request.is_finite]
        # Until an image was answered, frames of any shape may be the right ones: those like the first are answered.
        finite = [request for request in finite if request.shape == finite[0].shape]
        given = [request.x for request in finite if request.x is not None]
        if not given:
            return Answer(not_finite(), "fallback" if turn.fallback else "frozen"), finite
        x = given[0] if len(given) == 1 else torch.cat(given)
        return self._answerer.answer(x, turn, partial(self._moment, turn)), finite

    def _judge_speed(self, took_ms: float) -> None:
        if took_ms > self._too_long_ms:
            self._answerer.replace(f"it took {took_ms:.0f} ms for one batch")

    def _moment(self, turn: Turn, emitted: bool = False) -> Moment:
        """Facts that a time-aware method may know now."""
        with self._locked():
            return moment_at(self._now(), turn, self._timeline, self._resolved, self._answerer.costs, emitted)

    # Where requests are. With the lock held.

    def _now(self) -> float:
        """The time. Images whose time was up by then have made a batch when it was."""
        now_ms = self._clock.now_ms()
        if self._due_ms <= now_ms:
            self._offer_collected(self._due_ms)
        return now_ms

    def _arrive(self, request: Request) -> None:
        """A request comes: as a batch, or as an image of one."""
        now_ms = self._now()
        if not request.single or self._batch_size == 1:
            self._offer([request], now_ms)
            return
        # Until an image was answered, images of any shape may be the right ones.
        if self._collected and self._collected[0].shape != request.shape:
            self._offer_collected(now_ms)
        if not self._collected:
            self._due_ms = now_ms + self._max_wait_ms
            self._lock.notify_all()
        self._collected.append(request)
        if len(self._collected) == self._batch_size:
            self._offer_collected(now_ms)

    def _offer_collected(self, arrived_ms: float) -> None:
        requests, self._collected, self._due_ms = self._collected, [], math.inf
        if requests:
            if self._sizes is not None:
                self._sizes.append(len(requests))
            self._offer(requests, arrived_ms)

    def _offer(self, requests: list[Request], arrived_ms: float) -> None:
        """A batch arrives; an idle pipeline takes it.

        What arrives at the very instant of a completion is there before the pipeline picks again. An arrival after a
        pick at the same clock reading counts as later: a timeline that knows all arrivals takes the same course.
        """
        arrived_ms = max(arrived_ms, math.nextafter(self._picked_again_ms, math.inf))
        number = self._timeline.offer(arrived_ms)
        self._batches[number] = requests
        for request in requests:
            request.arrived_ms = arrived_ms
        if self._turn is None:
            self._turn = self._timeline.next()
        self._drop_lost()
        self._lock.notify_all()

    def _drop_lost(self) -> None:
        """Tell what was lost by now, unless the fallback will answer it. Whether a batch is lost that arrives at this
        very instant is not known before the instant is over."""
        if not self._batches:
            return
        lost = self._timeline.lost(self._clock.now_ms(), self._losses_seen)
        self._losses_seen += len(lost)
        if self._has_fallback:
            return
        for number, _ in lost:
            for request in self._batches.pop(number):
                self._end(request, Response(None, dropped=True, response_ms=None))

    def _finish(
        self,
        turn: Turn,
        phase: str,
        picked_ms: float,
        emission_ms: float,
        finish_ms: float,
        action: str = "none",
    ) -> None:
        """The pipeline is free again: say how long the turn took, and pick the next."""
        requests = self._in_hand()
        self._stats.steps += phase == "adapt" and action != COLLECTED
        self._stats.served(sum(request.size for request in requests))
        for number in turn.batches:
            (first, *_), last = self._batches.pop(number), number == turn.batches[-1]
            end_ms, did = (finish_ms, action) if last else (emission_ms, COLLECTED)
            row = ServedBatch(
                number, phase, first.arrived_ms, turn.start_ms, picked_ms, emission_ms, end_ms, did
            )
            self._journal(row)
        self._timeline.record(row.predict_ms, row.adapt_ms, adapted=phase == "adapt")
        self._picked_again_ms = self._timeline.free_ms
        self._turn = None if self._dropping else self._timeline.next()
        self._drop_lost()
        self._timeline.forget()  # a service may run for months

    def _in_hand(self) -> list[Request]:
        """Requests of the present turn."""
        batches = () if self._turn is None else self._turn.batches
        return [request for number in batches for request in self._batches[number]]

    # How requests end. With the lock held.

    def _emit(
        self, requests: list[Request], finite: list[Request], answer: Answer, emission_ms: float
    ) -> None:
        """The answer of a batch goes out to each of its requests."""
        place = 0
        for request in requests:
            if request not in finite:
                self._end(request, other_shape() if request.is_finite else not_finite())
            elif isinstance(answer.scores, TemporaError):
                self._end(request, answer.scores)
            else:
                scores = answer.scores[place : place + request.size]
                place += request.size
                self._answer(request, scores[0] if request.single else scores, answer, emission_ms)

    def _answer(self, request: Request, scores: Tensor, answer: Answer, emission_ms: float) -> None:
        response_ms, fallback = emission_ms - request.submitted_ms, answer.phase == "fallback"
        request.kappa = float(self._resolved.value.kappa(np.array([response_ms]))[0])
        request.adapted = answer.phase == "adapt"
        kinds = {"adapted": request.adapted, "fallback": fallback, "replaced": answer.by_standard}
        self._stats.answered(response_ms, request.kappa, **kinds)
        self._shape = self._shape or request.shape
        self._end(request, Response(scores, False, response_ms, fallback))

    def _end(self, request: Request, outcome: Response | TemporaError) -> None:
        """A request ends; its client is told when the lock is free."""
        request.x, request.outcome = None, outcome
        self._ended.append(request)
        if isinstance(outcome, TemporaError):
            self._stats.refused()
        elif outcome.dropped:
            self._stats.dropped()
        self._score(request)

    def _score(self, request: Request) -> None:
        """Count an answer whose label is known."""
        outcome = request.outcome
        if request.label is None or not isinstance(outcome, Response) or outcome.scores is None:
            return
        predicted = outcome.scores.argmax(dim=-1).reshape(-1)
        accuracy = float((predicted == request.label).double().mean())
        self._stats.labelled(accuracy, request.kappa, request.adapted, outcome.fallback)

    def _drop_waiting(self) -> None:
        """Drop all but the batch in hand."""
        self._dropping = True
        for request in self._taken_out():
            self._end(request, Response(None, dropped=True, response_ms=None))

    def _give_up(self, reason: str) -> None:
        """Refuse all requests that have not ended: nothing answers them any more."""
        self._given_up = self._closing = self._dropping = True
        self._turn = None
        for request in self._taken_out():
            if request.outcome is None:
                self._end(request, TemporaError(f"{reason}; deploy again"))
        for command in self._commands:
            command.done.set_exception(TemporaError(f"{reason}; deploy again"))
        self._commands.clear()
        self._lock.notify_all()

    def _taken_out(self) -> list[Request]:
        """Everything but the batch in hand."""
        kept = {} if self._turn is None else {number: self._batches[number] for number in self._turn.batches}
        gone = [batch for number, batch in self._batches.items() if number not in kept] + [self._collected]
        self._batches, self._collected, self._due_ms = kept, [], math.inf
        return [request for batch in gone for request in batch]

    def _patience_ms(self, drain: bool, closed_ms: float) -> float:
        """Time for which close() still waits for the call in hand."""
        now_ms = self._clock.now_ms()
        if not drain:
            return min(GRACE_MS, self._too_long_ms) - (now_ms - closed_ms)
        begun_ms = now_ms if self._busy_since_ms is None else self._busy_since_ms
        return self._too_long_ms - (now_ms - begun_ms)

    @property
    def _is_quiet(self) -> bool:
        waiting = self._turn is not None or self._collected or self._commands
        return self._given_up or (self._busy_since_ms is None and not waiting)


class _Module(nn.Module):
    """A pipeline that is called like a network."""

    def __init__(self, submit: Callable[[Tensor], Request]) -> None:
        super().__init__()
        self._submit = submit

    def forward(self, x: Tensor) -> Tensor:
        answer = self._submit(x).result()
        if answer.scores is None:
            raise TemporaError(
                "the pipeline dropped this batch: more come than it can serve. Call submit() to be told, or give it "
                "a longer queue or a fallback"
            )
        return answer.scores.to(x.device)


def driven_live(resolved: Resolved) -> Resolved:
    """The deployment as real arrivals meet it, unknown beforehand. A stream that waits loses nothing."""
    queue = sys.maxsize if resolved.waits else resolved.queue
    fallback = None if resolved.waits else resolved.fallback
    return replace(resolved, arrivals="scheduled", arrivals_ms=(), queue=queue, fallback=fallback)
