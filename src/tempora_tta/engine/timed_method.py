"""A method on a stream whose every call stands inside the guard, and whose times the clock tells.

The guard is around the clock, never inside it: nothing that is done here beside the call is part of a measured time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from tempora_tta.data import Stream
from tempora_tta.engine.moments import Costs
from tempora_tta.measure import Batch, Clock
from tempora_tta.measure.work import NO_WORK, Work, work_of
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.contract import UNTOLD, adapt_at, predict_at
from tempora_tta.methods.guard import Guard
from tempora_tta.methods.outputs import checked_action, checked_scores


@dataclass
class TimedMethod:
    """`predict` and `adapt` return what the method did and how long it took; the others are not timed."""

    method: Method
    label: str
    stream: Stream
    clock: Clock
    times_as: str = ""
    """The method whose recorded times stand for its own."""
    timeout_s: float | None = None
    """How long one call into the method may take; None: for ever."""
    costs: Costs = field(default_factory=Costs, init=False)
    """What its work took so far, for a method that wants to know."""
    _warm_up_costs: Costs = field(default_factory=Costs, init=False)
    _work: Work = field(default=NO_WORK, init=False)
    """The last that the method said about its work on the batch in hand."""
    _said: Work | None = field(default=None, init=False)
    """What it said about the call just made; None: nobody has asked."""

    def warm_up(self, batches: int) -> None:
        """Predict and adapt on perturbed copies of the first batches, frozen once too, then reset.

        A method that looks at the clock is told from its first batch on what its work took here.
        """
        self._warm_up_costs = Costs()
        self.reset()  # whatever an earlier pass left: what it is told must not depend on that
        for index in range(min(batches, self.stream.num_batches)):
            x = 1.1 * self.stream.batch(index).flip(-1)
            if self.method.time_aware:
                self._rehearse(x, index)
            else:
                self.go_through(x)
        self.freeze()
        self.scores(self.stream.batch(0), UNTOLD)
        self.reset()

    def begin(self) -> None:
        """Start a pass: a reset method that knows what its warm-up cost."""
        self.reset()
        self.costs = self._warm_up_costs.copy()

    def predict(self, index: int, x: Tensor, moment: Moment, frozen: bool) -> tuple[Tensor, float]:
        """The scores of the batch `x`, and the milliseconds that they took."""
        batch = self._named(index)
        with self._guard("predict"):
            return self.clock.predict(lambda: predict_at(self.method, x, moment), batch, frozen)

    def adapt(self, index: int, moment: Moment) -> tuple[str, float]:
        """The action that the method took, and its milliseconds."""
        batch = self._named(index)
        with self._guard("adapt"):
            action, adapt_ms = self.clock.adapt(lambda: adapt_at(self.method, moment), batch)
        return checked_action(self.label, action), adapt_ms

    def looked_up_ms(self, index: int) -> float:
        """What a frozen prediction takes, under a clock that knows it without one."""
        return self.clock.predict(lambda: None, self._named(index), frozen=True)[1]

    def scores(self, x: Tensor, moment: Moment) -> Tensor:
        """Of a prediction that nobody times."""
        with self._guard("predict"):
            return predict_at(self.method, x, moment)

    def checked(self, scores: Tensor, samples: int) -> Tensor:
        """The scores, if there is one for every sample and class; else an error."""
        return checked_scores(
            self.label, scores, samples, self.stream.num_classes or self.method.model.num_classes
        )

    def go_through(self, x: Tensor) -> Tensor:
        """Predict and adapt, untimed; the scores."""
        found = self.scores(x, UNTOLD)
        with self._guard("adapt"):
            adapt_at(self.method, UNTOLD)
        return found

    def reset(self) -> None:
        with self._guard("reset"):
            self.method.reset()

    def freeze(self) -> None:
        with self._guard("freeze"):
            self.method.freeze()

    def snapshot(self) -> Any:
        with self._guard("snapshot"):
            return self.method.snapshot()

    def restore(self, saved: Any) -> None:
        with self._guard("restore"):
            self.method.restore(saved)

    def mode(self) -> str:
        """The mode of the call just made, which not every clock asks for."""
        found = self._read_work() if self._said is None else self._said
        self._said = None
        return found[0]

    def take_work(self) -> Work:
        """The mode and amount of the batch's work; the next batch begins with none."""
        found, self._work = self._work, NO_WORK
        return found

    def count(self, mode: str, predict_ms: float, action: str, adapt_ms: float) -> None:
        """What the batch just adapted on cost; `mode` is that of its prediction."""
        self._count(self.costs, mode, predict_ms, action, adapt_ms)

    def _count(self, costs: Costs, mode: str, predict_ms: float, action: str, adapt_ms: float) -> None:
        costs.predicted(mode, predict_ms)
        # A prediction that holds the adaptation is what the action cost.
        whole = self.method.acted_in_predict is not None
        costs.adapted(self.mode(), action, predict_ms + adapt_ms if whole else adapt_ms)

    def _rehearse(self, x: Tensor, index: int) -> None:
        """A batch of the warm-up, timed by the clock."""
        _, predict_ms = self.predict(index, x, UNTOLD, self.method.frozen)
        mode = self.mode()
        action, adapt_ms = self.adapt(index, UNTOLD)
        self._count(self._warm_up_costs, mode, predict_ms, action, adapt_ms)
        self.take_work()

    def _named(self, index: int) -> Batch:
        _, at, runtime = self.label.partition("@")
        return Batch(
            self.times_as or self.label,
            self.times_as or self.method.name,
            self.stream.name,
            self.stream.seed,
            index,
            gradient_based=self.method.family == "gradient-based",
            reforwarded=None if self.method.acted_in_predict is None else self._acted_in_predict,
            work=self._read_work,
            frozen_as=f"standard{at}{runtime}" if self.method.stateless else "",
            free=self.method.free,
        )

    def _acted_in_predict(self) -> str:
        return str(self.method.acted_in_predict)

    def _read_work(self) -> Work:
        """What the method says that it just did; the batch keeps the last that is said about it."""
        found = work_of(self.method)
        if found != NO_WORK:
            self._work = found
        self._said = found
        return found

    @cached_property
    def _guard(self) -> Guard:
        return Guard(self.label, self.timeout_s)
