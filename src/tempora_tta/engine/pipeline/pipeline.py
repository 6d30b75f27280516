"""The live pipeline as its clients see it."""

from __future__ import annotations

import atexit
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn

from tempora_tta.engine.pipeline.collecting import Collector
from tempora_tta.engine.pipeline.door import Door
from tempora_tta.engine.pipeline.facade import Facade
from tempora_tta.engine.pipeline.live_time import LiveClock, Lived, WallClock
from tempora_tta.engine.pipeline.minder import mind
from tempora_tta.engine.pipeline.operator import Operator
from tempora_tta.engine.pipeline.replies import classes
from tempora_tta.engine.pipeline.requests import Request, Response
from tempora_tta.engine.pipeline.saved_state import for_device, read_state, write_state
from tempora_tta.engine.pipeline.shared import Shared
from tempora_tta.engine.pipeline.watched import LeftBehind, say, start
from tempora_tta.engine.pipeline.worker import Worker
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Resolved


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
        measured_on: int | None = None,
        batch_size: int = 1,
        max_wait_ms: float = 50.0,
        too_long_ms: float = math.inf,
        clock: LiveClock | None = None,
        journal: Callable[[Lived], None] | None = None,
    ) -> None:
        """`measured_on`: how many images lambda or the costs of work are of; None where nothing depends on that."""
        self._operator = operator
        self._batch_size, self._measured_on = batch_size, measured_on
        self._door = Door(operator.device, shape)
        self._process = os.getpid()
        self._share = shared = Shared(
            resolved, clock or WallClock(), Collector(batch_size, max_wait_ms), journal
        )
        self._worker = worker = Worker(shared, operator, too_long_ms)
        self._minder = start(lambda: mind(shared, worker, too_long_ms), "tempora-minder")
        atexit.register(self._end_with_python)
        try:
            shared.by_worker(self._warm_up)
        except LeftBehind:  # said, and replaced
            pass
        except BaseException:
            self.close(drain=False)
            raise

    @property
    def _shared(self) -> Shared:
        """What the threads share: they are those of one process."""
        if os.getpid() != self._process:
            raise TemporaError(
                f"this pipeline is at work in process {self._process}, and a process forked from it has none of its "
                f"threads: deploy again in this one ({os.getpid()})"
            )
        return self._share

    def submit(self, x: Any) -> Request:
        """Hand in one image or a batch, normalised; the future of a `Response`. Never blocks.

        Raises TemporaError for what no network takes (a wrong shape, NaN) and after `close`.
        """
        submitted_ms = self._shared.clock.now_ms()
        try:
            self._shared.refuse_after_close()
            batch, single, total = self._door.admit(x)
            self._look_at_size(self._batch_size if single else len(batch))
            request = Request(batch, single, total, submitted_ms, self._shared.lock)
            self._door.learn_from(request)
            with self._shared.lock:
                self._shared.submit(request)
        except TemporaError:
            with self._shared.lock:
                self._shared.replies.tally.refused()
            raise
        return request

    def label(self, future: Future[Response], y: Any) -> None:
        """Say what was right, before or after the answer: a class, or one per image of the batch."""
        if not isinstance(future, Request) or not future.is_of(self._shared.lock):
            raise TemporaError(
                "label() was given a future that submit() did not return: give one of this pipeline"
            )
        truth = classes(y, future.size, self._operator.method.model.num_classes)
        with self._shared.lock:
            self._shared.replies.label(future, truth)

    def stats(self) -> dict[str, Any]:
        """What it has come to so far: counts of requests (arrived, answered, dropped, refused, adapted, fallback,
        replaced by Standard), the six terms and the utility they make, percentiles of the last 100,000 responses,
        what was spent, and why the method was given up, if it was.

        A request is what counts as one arrival, and its response begins with `submit`. Accuracies are those of
        labelled requests; with only some of them labelled, the utility is an estimate.
        """
        shared = self._shared
        with shared.lock:
            return shared.replies.tally.stats(shared.line.timeline.spent_ms, shared.waiting)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is left to do; False: it took longer."""
        with self._shared.lock:
            return self._shared.quiet.wait_for(lambda: self._shared.is_quiet, timeout_s)

    def module(self) -> nn.Module:
        """The pipeline as a network, for code that calls `model(x)`: waits for the answer and returns its scores."""
        return Facade(self.submit)

    def save(self, path: Path | str) -> Path:
        """Keep the adapted state, and what of the budget is spent, in a file of tensors and plain values."""
        operator, tally = self._operator, self._shared.replies.tally
        _ = operator.identity  # known before the worker is asked: others would wait for it

        def copy() -> tuple[Any, dict[str, Any]]:
            if tally.failure is not None:
                raise TemporaError(f"nothing to save: the method was replaced by Standard ({tally.failure})")
            facts = {**operator.facts(), "spent_ms": self._shared.line.timeline.spent_ms}
            return operator.snapshot(), facts

        snapshot, facts = self._shared.by_worker(copy)
        write_state(Path(path), snapshot, facts)
        return Path(path)

    def load(self, path: Path | str) -> None:
        """Go on from a saved state: the method, if it was given up, comes back; what was spent stays spent."""
        facts, decode = read_state(Path(path))
        operator, shared = self._operator, self._shared
        if "weights" not in facts:
            say(
                f"{path} was saved before the network's weights were noted with a state: make sure that it is of "
                f"this {operator.identity['model']}, and save it again"
            )
        known = {"weights": operator.identity["weights"], **facts}
        if differing := [name for name in operator.identity if known.get(name) != operator.identity[name]]:
            name = differing[0]
            raise TemporaError(
                f"{path} was saved with {name} {facts.get(name)!r}, this pipeline has {operator.identity[name]!r}: "
                "deploy the same model and method to go on from it"
            )

        spent_ms = float(facts["spent_ms"])

        def put() -> None:
            operator.ready_to_load()
            own = operator.snapshot()
            same_kind = facts["device"] == operator.device.type
            operator.restore(for_device(decode(own), own, operator.device, same_kind), own, str(path))
            if not facts["froze_itself"]:
                operator.method.unfreeze()

        def go_on() -> None:
            shared.line.timeline.resume(spent_ms)
            shared.replies.tally.failure = None

        shared.by_worker(put, then=go_on)

    def close(self, drain: bool = True) -> None:
        """Take no more requests, and end: after serving what waits, or, with drain=False, dropping it."""
        if os.getpid() != self._process:
            return  # the threads are another process's
        atexit.unregister(self._end_with_python)
        shared = self._shared
        with shared.lock:
            if len(shared.collector) and drain and not shared.closing:
                shared.offer(shared.collector.take(), shared.clock.now_ms())
            shared.closing = True
            if not drain:
                shared.drop_waiting()
            shared.work_there.notify_all()
            shared.say_if_quiet()
        self._worker.join()
        with shared.lock:
            shared.ended = True
            shared.minder_wakes.notify_all()
        if self._minder is not threading.current_thread():
            self._minder.join()

    def _end_with_python(self) -> None:
        """Whoever leaves without `close` wants no more answers, and threads at work while Python takes itself apart
        would abort it."""
        self.close(drain=False)

    def _warm_up(self) -> None:
        """By the worker, as all that touches the method."""
        failure = self._operator.warm_up(self._shared.clock, self._shared.costs, self._worker.goes_on)
        if failure is not None:
            with self._shared.lock:
                self._worker.replace(failure)

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

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close(drain=kind is None)
