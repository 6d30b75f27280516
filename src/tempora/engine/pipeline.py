"""The live pipeline: a deployment's timeline, driven by the wall clock and real arrivals.

Whoever submits moves the timeline under one lock: a batch that finds the pipeline idle starts at the instant of its
arrival, one that finds it busy waits or pushes another out. One worker thread owns the device. It predicts, sends the
answer out, adapts, and tells the timeline how long that took, waking up included, so that the timeline's clock is the
wall clock. A minder thread offers batches of single images whose time is up, and notices a method that hangs.
"""

from __future__ import annotations

import math
import sys
import threading
import warnings
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from tempora.engine.live_time import LiveClock, Lived, Mean, WallClock
from tempora.engine.requests import Answer, Courier, Door, Request, Unit
from tempora.engine.saved_state import for_device, read_state, write_state
from tempora.engine.serving import NOT_FINITE, Operator, Outcome, Refused
from tempora.engine.tally import Tally
from tempora.errors import TemporaError, TemporaWarning
from tempora.methods import Moment
from tempora.scenarios import Resolved, Turn

T = TypeVar("T")
LAST_CALLBACKS_S = 5.0
"""How long `close` waits for callbacks of clients."""


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
        operator: Operator,
        resolved: Resolved,
        *,
        shape: tuple[int, ...] | None = None,
        batch_size: int = 1,
        max_wait_ms: float = 50.0,
        too_long_ms: float = math.inf,
        clock: LiveClock | None = None,
        journal: Callable[[Lived], None] | None = None,
    ) -> None:
        self._operator = operator
        self._resolved = resolved
        self._beside = operator.beside
        self._batch_size, self._max_wait_ms, self._too_long_ms = batch_size, max_wait_ms, too_long_ms
        self._clock: LiveClock = clock or WallClock()
        self._journal = journal
        self._timeline = _driven_live(resolved, beside=self._beside is not None).timeline(live=True)
        self._door = Door(operator.device, shape)
        self._tally = Tally()
        self._courier = Courier()

        self._lock = threading.RLock()
        self._work_there, self._minder_wakes, self._quiet = (
            threading.Condition(self._lock) for _ in range(3)
        )
        self._units: dict[int, Unit] = {}
        """Batches that arrived and have not ended, by their number in the timeline."""
        self._forming: list[Request] = []
        """Single images that wait for others."""
        self._forming_until_ms = math.inf
        self._lost_elsewhere: deque[tuple[Unit, float]] = deque()
        """For a fallback on a device of its own, with the instant of the loss."""
        self._told = 0
        """How many losses were seen."""
        self._turn: Turn | None = None
        self._picked_ms: float | None = None
        """Since when the worker has had the turn in hand; None: it has not taken it yet."""
        self._emitted: Outcome | None = None
        self._emission_ms = 0.0
        self._commands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._costs_ms: dict[str, Mean] = defaultdict(Mean)
        """What adapt() has taken, by the action it returned: for methods that want to know."""
        self._generation = 0
        """Workers of an earlier one hang somewhere and are not listened to any more."""
        self._closing = self._dropping = self._ended = False
        self._threads = [self._start(self._mind, "tempora-minder")]
        if self._beside is not None:
            self._threads.append(self._start(self._serve_beside, "tempora-fallback"))
        self._worker: threading.Thread | None = self._start(lambda: self._work(0), "tempora-worker")
        try:
            self._by_worker(operator.warm_up)
        except BaseException:
            self.close(drain=False)
            raise

    # What clients call.

    def submit(self, x: Any) -> Request:
        """Hand in one image or a batch, normalised; the future of an `Answer`. Never blocks.

        Raises TemporaError for what no network takes (a wrong shape, NaN) and after `close`.
        """
        submitted_ms = self._clock.now_ms()
        try:
            self._refuse_after_close()
            batch, single, checked = self._door.admit(x)
            request = Request(batch, single, checked, submitted_ms, self._courier)
            with self._lock:
                self._refuse_after_close()
                now_ms = self._clock.now_ms()
                if single and self._batch_size > 1:
                    self._collect(request, now_ms)
                else:
                    self._offer([request], now_ms)
        except TemporaError:
            with self._lock:
                self._tally.refused()
            raise
        return request

    def label(self, future: Future[Answer], y: Any) -> None:
        """Say what was right, before or after the answer: a class, or one per image of the batch."""
        if not isinstance(future, Request):
            raise TemporaError("label() was given a future that submit() did not return")
        truth = _classes(y, future.size)
        with self._lock:
            if future.label is not None:
                raise TemporaError("this request has its label already: label it once")
            if future.done():
                self._score(future, truth)
            future.label = truth

    def stats(self) -> dict[str, Any]:
        """What it has come to so far: counts of requests (arrived, answered, dropped, refused, adapted, fallback,
        replaced by Standard), the six terms and the utility they make, percentiles of the last 100,000 responses,
        what was spent, and why the method was given up, if it was.

        A request is what counts as one arrival, and its response begins with `submit`. Accuracies are those of
        labelled requests; with only some of them labelled, the utility is an estimate.
        """
        with self._lock:
            waiting = len(self._units) + len(self._lost_elsewhere) + bool(self._forming)
            return self._tally.stats(self._timeline.spent_ms, waiting - (self._turn is not None))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is left to do; False: it took longer."""
        with self._lock:
            return self._quiet.wait_for(lambda: self._is_quiet, timeout_s)

    def module(self) -> nn.Module:
        """The pipeline as a network, for code that calls `model(x)`: waits for the answer and returns its scores."""
        return _Facade(self)

    def save(self, path: Path | str) -> Path:
        """Keep the adapted state, and what of the budget is spent, in a file of tensors and plain values."""

        def copy() -> tuple[Any, dict[str, Any]]:
            facts = {**self._operator.facts(), "spent_ms": self._timeline.spent_ms}
            return self._operator.method.snapshot(), facts

        if self._tally.failure is not None:
            raise TemporaError(
                f"nothing to save: the method was replaced by Standard ({self._tally.failure})"
            )
        snapshot, facts = self._by_worker(copy)
        write_state(Path(path), snapshot, facts)
        return Path(path)

    def load(self, path: Path | str) -> None:
        """Go on from a saved state: the method, if it was given up, comes back; what was spent stays spent."""
        facts, decode = read_state(Path(path))
        operator = self._operator
        if differing := [name for name in operator.identity if facts.get(name) != operator.identity[name]]:
            name = differing[0]
            raise TemporaError(
                f"{path} was saved with {name} {facts.get(name)!r}, this pipeline has {operator.identity[name]!r}: "
                "deploy the same model and method to go on from it"
            )

        def put() -> None:
            own = operator.method.snapshot()
            same_kind = facts["device"] == operator.device.type
            operator.restore(for_device(decode(own), own, operator.device, same_kind), own, str(path))
            if not facts["froze_itself"]:
                operator.method.unfreeze()
            with self._lock:
                self._timeline.resume(float(facts["spent_ms"]))
                self._tally.failure = None

        self._by_worker(put)

    def close(self, drain: bool = True) -> None:
        """Take no more requests, and end: after serving what waits, or, with drain=False, dropping it."""
        with self._lock:
            now_ms = self._clock.now_ms()
            if self._forming and drain and not self._closing:
                self._offer_forming(now_ms)
            self._closing = True
            if not drain:
                self._drop_waiting()
            self._work_there.notify_all()
            self._say_if_quiet()
        while (worker := self._worker) is not None and worker is not threading.current_thread():
            worker.join(0.05)  # one that hangs is replaced by another, or given up
            if not worker.is_alive() and worker is self._worker:
                break
        with self._lock:
            self._ended = True
            self._minder_wakes.notify_all()
            self._work_there.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._courier.close(LAST_CALLBACKS_S)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close(drain=kind is None)

    # Arrivals and losses, under the lock.

    def _collect(self, request: Request, now_ms: float) -> None:
        self._forming.append(request)
        if len(self._forming) >= self._batch_size:
            self._offer_forming(now_ms)
        elif len(self._forming) == 1:
            self._forming_until_ms = now_ms + self._max_wait_ms
            self._minder_wakes.notify_all()

    def _offer_forming(self, now_ms: float) -> None:
        requests, self._forming, self._forming_until_ms = self._forming, [], math.inf
        self._offer(requests, now_ms)

    def _offer(self, requests: list[Request], now_ms: float) -> None:
        number = self._timeline.offer(now_ms)
        self._units[number] = Unit(requests, number, now_ms)
        if self._turn is None:
            self._turn = self._timeline.next()
            self._work_there.notify_all()
        self._see_losses(now_ms)

    def _see_losses(self, now_ms: float) -> None:
        """Drop what was lost by now, this instant included, or leave it to the fallback.

        The pipeline is busy, or nothing is left that could be lost.
        """
        for number in self._timeline.lost(math.nextafter(now_ms, math.inf), self._told):
            self._told += 1
            if self._beside is not None:
                self._lost_elsewhere.append((self._units.pop(number), now_ms))
                self._work_there.notify_all()
            elif self._resolved.fallback is None:
                self._drop(self._units.pop(number))

    def _drop(self, unit: Unit) -> None:
        for request in unit.requests:
            self._tally.dropped()
            self._end(request, Answer(None, dropped=True, response_ms=None))

    def _drop_waiting(self) -> None:
        self._dropping = True
        in_hand = None if self._turn is None else self._turn.batch
        for number in [number for number in self._units if number != in_hand]:
            self._drop(self._units.pop(number))
        while self._lost_elsewhere:
            self._drop(self._lost_elsewhere.popleft()[0])
        if self._forming:
            self._drop(Unit(self._forming))
            self._forming, self._forming_until_ms = [], math.inf

    def _refuse_after_close(self) -> None:
        if self._closing:
            raise TemporaError("the pipeline is closed: make another with tempora.deploy")

    def _end(self, request: Request, answer: Answer) -> None:
        request.x = None
        request.set_result(answer)
        if request.label is not None:
            self._score(request, request.label)

    def _score(self, request: Request, truth: Tensor) -> None:
        answer = None if request.exception() is not None else request.result()
        if answer is None or answer.scores is None:
            return
        predicted = answer.scores.argmax(dim=-1).reshape(-1)
        accuracy = float((predicted == truth).double().mean())
        self._tally.labelled(accuracy, request.kappa, request.adapted, answer.fallback)

    @property
    def _is_quiet(self) -> bool:
        return self._turn is None and not (
            self._lost_elsewhere or self._commands or self._forming or self._units
        )

    def _say_if_quiet(self) -> None:
        if self._is_quiet:
            self._quiet.notify_all()

    # The worker.

    def _start(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def _by_worker(self, command: Callable[[], T]) -> T:
        """Have the worker do something between two batches, and wait for it."""
        done: Future[T] = Future()
        with self._lock:
            if self._closing:
                raise TemporaError("the pipeline is closed: save before close, and load into a new one")
            self._commands.append((command, done))
            self._work_there.notify_all()
        return done.result()

    def _work(self, generation: int) -> None:
        try:
            while (task := self._next_task(generation)) is not None:
                task()
        except BaseException as error:  # a fault of ours, or the device is gone: nobody shall wait for ever
            with self._lock:
                if generation == self._generation:
                    self._give_up(f"the pipeline broke: {type(error).__name__}: {error}")

    def _next_task(self, generation: int) -> Callable[[], None] | None:
        with self._lock:
            while generation == self._generation:
                if self._commands:
                    command, done = self._commands.popleft()
                    return lambda: self._obey(command, done)
                if (turn := self._turn) is not None:
                    return lambda: self._serve(turn, generation)
                if self._closing:
                    return None
                self._work_there.wait()
        return None

    def _obey(self, command: Callable[[], Any], done: Future[Any]) -> None:
        try:
            result = command()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)
        with self._lock:
            self._say_if_quiet()

    def _serve(self, turn: Turn, generation: int) -> None:
        with self._lock:
            unit, outcome = self._units[turn.batch], self._emitted
            picked_ms = self._picked_ms = self._clock.now_ms()
            standing = self._tally.failure is None
        if outcome is None:
            outcome = self._operator.answer(turn, unit, lambda: self._moment(turn), standing)
            emission_ms = self._clock.now_ms()
            with self._lock:
                if generation != self._generation:
                    return
                self._emission_ms = emission_ms
                self._emit(unit, outcome, emission_ms)
                self._emitted = outcome
        action, failure, adapts = "none", outcome.failure, outcome.adapts and standing
        if adapts:
            action, failure = self._operator.adapt(lambda: self._moment(turn))
        with self._lock:
            if generation == self._generation:
                finish_ms = self._clock.now_ms()
                if adapts and failure is None and finish_ms - picked_ms > self._too_long_ms:
                    failure = f"it took {finish_ms - picked_ms:.0f} ms for one batch"
                if failure is not None:
                    self._replace(failure)
                self._costs_ms[action].add(finish_ms - self._emission_ms)
                self._finish(turn, outcome.phase, picked_ms, finish_ms, action, adapts)

    def _emit(self, unit: Unit, outcome: Outcome, emission_ms: float) -> None:
        place = 0
        for request in unit.requests:
            if isinstance(outcome.scores, Refused):
                self._refuse(request, outcome.scores.error)
                continue
            if request in outcome.refused:
                self._refuse(request, NOT_FINITE)
                continue
            scores = outcome.scores[place : place + request.size]
            place += request.size
            self._answer(request, scores, outcome, emission_ms)

    def _answer(self, request: Request, scores: Tensor, outcome: Outcome, emission_ms: float) -> None:
        response_ms = emission_ms - request.submitted_ms
        request.kappa = float(self._resolved.value.kappa(np.array([response_ms]))[0])
        request.adapted = outcome.adapts
        fallback = outcome.phase == "fallback"
        self._tally.answered(response_ms, request.kappa, outcome.adapts, fallback, outcome.by_standard)
        self._end(request, Answer(scores[0] if request.single else scores, False, response_ms, fallback))

    def _refuse(self, request: Request, error: Exception) -> None:
        self._tally.refused()
        request.x = None
        request.set_exception(error)

    def _finish(
        self, turn: Turn, phase: str, picked_ms: float, finish_ms: float, action: str, adapted: bool
    ) -> None:
        """The pipeline is free again: say how long the turn took, and take the next."""
        predict_ms = max(0.0, self._emission_ms - turn.start_ms)
        self._timeline.record(predict_ms, max(0.0, finish_ms - self._emission_ms), adapted=adapted)
        self._tally.steps += adapted
        if self._journal is not None:
            times = (turn.arrived_ms, turn.start_ms, picked_ms, self._emission_ms, finish_ms)
            self._journal(Lived(turn.batch, phase, *times, action))
        del self._units[turn.batch]
        self._picked_ms = self._emitted = None
        self._turn = None if self._dropping else self._timeline.next()
        if not self._dropping:
            self._see_losses(finish_ms)
            self._timeline.forget()
        self._say_if_quiet()

    def _moment(self, turn: Turn) -> Moment:
        """What a time-aware method may know now."""
        with self._lock:
            now_ms, timeline, resolved = self._clock.now_ms(), self._timeline, self._resolved
            return Moment(
                now_ms=now_ms,
                arrived_ms=turn.arrived_ms,
                queued=timeline.waiting(now_ms),
                spent_ms=timeline.spent_ms,
                budget_left_ms=_finite(timeline.budget_left_ms),
                baseline_ms=resolved.baseline_ms,
                threshold_ms=_finite(resolved.threshold_ms),
                interval_ms=resolved.interval_ms,
                deadline_ms=_finite(resolved.deadline_ms),
                cost_ms={action: cost.mean for action, cost in self._costs_ms.items()},
            )

    def _replace(self, failure: str) -> None:
        """From now on Standard answers; said once, and counted."""
        if self._tally.failure is None:
            self._tally.failure = failure
            warnings.warn(
                f"{self._operator.name} was replaced by Standard: {failure}. Answers go on without adaptation; "
                "load() of a saved state brings the method back",
                TemporaWarning,
                stacklevel=2,
            )

    def _give_up(self, reason: str) -> None:
        """Nothing answers any more: refuse whatever is there, and end."""
        self._generation += 1
        self._closing, self._turn, self._worker = True, None, None
        elsewhere = (unit for unit, _ in self._lost_elsewhere)
        waiting = [unit.requests for unit in (*self._units.values(), *elsewhere)]
        for request in (*self._forming, *(request for requests in waiting for request in requests)):
            if not request.done():
                self._refuse(request, TemporaError(f"{reason}; deploy again"))
        for _, done in self._commands:
            done.set_exception(TemporaError(f"{reason}; deploy again"))
        for held in (self._units, self._lost_elsewhere, self._forming, self._commands):
            held.clear()
        self._work_there.notify_all()
        self._quiet.notify_all()

    # The minder, and a fallback on a device of its own.

    def _mind(self) -> None:
        with self._lock:
            while not self._ended:
                now_ms = self._clock.now_ms()
                if self._forming and now_ms >= self._forming_until_ms:
                    self._offer_forming(now_ms)
                if self._picked_ms is not None and now_ms - self._picked_ms > self._too_long_ms:
                    self._abandon(now_ms - self._picked_ms)
                # A hanging call is noticed within twice the limit, without waking up for every batch.
                sleep_ms = min(self._forming_until_ms - now_ms, self._too_long_ms, 60_000.0)
                self._clock.wait(self._minder_wakes, max(0.0, sleep_ms))

    def _abandon(self, so_far_ms: float) -> None:
        """The worker does not come back from a call: another takes its place, with Standard."""
        failure = f"a call has not ended after {so_far_ms:.0f} ms"
        if self._tally.failure is not None or self._operator.is_standard:
            self._give_up(f"the device does not answer: {failure}")
            return
        self._replace(failure)
        self._generation += 1
        self._picked_ms = None
        generation = self._generation
        self._worker = self._start(lambda: self._work(generation), "tempora-worker")

    def _serve_beside(self) -> None:
        assert self._beside is not None
        while True:
            with self._lock:
                while not self._lost_elsewhere:
                    if self._ended:
                        return
                    self._work_there.wait()
                unit, lost_ms = self._lost_elsewhere[0]
                picked_ms = self._clock.now_ms()
            outcome = self._beside.answer(unit)
            emission_ms = self._clock.now_ms()
            with self._lock:
                if (
                    self._lost_elsewhere and self._lost_elsewhere[0][0] is unit
                ):  # and was not dropped meanwhile
                    self._lost_elsewhere.popleft()
                    self._emit(unit, outcome, emission_ms)
                    if self._journal is not None:
                        times = (unit.arrived_ms, lost_ms, picked_ms, emission_ms, emission_ms)
                        self._journal(Lived(unit.number, "fallback", *times, "none"))
                self._say_if_quiet()


class _Facade(nn.Module):
    """A pipeline that is called like a network."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self._pipeline = pipeline

    def forward(self, x: Tensor) -> Tensor:
        answer = self._pipeline.submit(x).result()
        if answer.scores is None:
            raise TemporaError(
                "the pipeline dropped this batch: more come than it can serve. Call submit() to be told, or give it "
                "a longer queue or a fallback"
            )
        return answer.scores.to(x.device)


def _driven_live(resolved: Resolved, beside: bool) -> Resolved:
    """The deployment as real arrivals meet it: nobody knows them beforehand. A stream that waits loses nothing, and a
    fallback on a device of its own changes nothing for the pipeline."""
    queue = sys.maxsize if resolved.waits else resolved.queue
    fallback = None if beside or resolved.waits else resolved.fallback
    return replace(resolved, arrivals="scheduled", arrivals_ms=(), queue=queue, fallback=fallback)


def _classes(y: Any, images: int) -> Tensor:
    try:
        truth = torch.as_tensor(y).detach().cpu().reshape(-1)
    except (TypeError, ValueError, RuntimeError):
        raise TemporaError(
            f"label() was given a {type(y).__name__}: give a class, or one per image"
        ) from None
    if truth.numel() != images:
        raise TemporaError(
            f"label() was given {truth.numel()} classes for {images} images: give one per image"
        )
    return truth


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
