"""Methods that adapt less often, stop early or predict after adapting: `every`, `stop_after` and `reforward`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tempora_tta.methods.contract import Method, Moment


class Around:
    """Base of what stands for a method and changes some of it. All else is the method's."""

    method: Method

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copy and pickle ask of an object that is not made yet
            raise AttributeError(name)
        return getattr(self.method, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in vars(self) or hasattr(type(self), name)
        (super().__setattr__ if own else self.method.__setattr__)(name, value)


class Scheduled(Around):
    """A method under its settings `every`, `stop_after` and `reforward`.

    every: adapt on the first batch and every k-th after it; the others are only predicted, in adapting mode, and
        running statistics still follow them. What adapts inside predict() is left as it is.
    stop_after: freeze after that many batches.
    reforward: predict, adapt, and predict the same batch again, which changes nothing; all of it is prediction time.
    """

    def __init__(self, method: Method) -> None:
        vars(self).update(method=method, predicted=0, adapted=0, acted="none")
        self._stop_if_done()

    @property
    def history_free(self) -> bool:
        """A prediction of a method that stops depends on how many batches came before."""
        return bool(self.method.history_free) and self.settings.stop_after is None

    @property
    def action_in_predict(self) -> str | None:
        """The action of the last predict(), where that adapts."""
        return self.acted if self.settings.reforward else self.method.action_in_predict

    def predict(self, x: Tensor, *moment: Moment) -> Tensor:
        method = self.method
        if self.settings.every > 1:
            method.learning = self.predicted % self.settings.every == 0
        self.predicted += not method.frozen
        scores: Tensor = method.predict(x, *moment)
        self.acted = "none"
        if self.settings.reforward and method.learning and not method.frozen:
            self.acted = method.adapt(*moment)
            scores = method.predict_again(x, *moment)
        return scores

    def adapt(self, *moment: Moment) -> str:
        counts, action = not self.frozen, "none"
        if self.settings.reforward:
            action, self.acted = self.acted, "none"
        elif self.learning:
            action = self.method.adapt(*moment)
        self.adapted += counts
        self._stop_if_done()
        return action

    def reset(self) -> None:
        self.method.reset()
        self.method.learning = True
        self.predicted = self.adapted = 0
        self._stop_if_done()

    def snapshot(self) -> dict[str, Any]:
        return {"inner": self.method.snapshot(), "predicted": self.predicted, "adapted": self.adapted}

    def restore(self, saved: dict[str, Any]) -> None:
        self.method.restore(saved["inner"])
        self.predicted, self.adapted = saved["predicted"], saved["adapted"]

    def unfreeze(self) -> None:
        """Adapt again; one that `stop_after` ended, to as many batches more."""
        if self.adapted >= (self.settings.stop_after or 0):
            self.adapted = 0
        self.method.unfreeze()

    def _stop_if_done(self) -> None:
        most = self.settings.stop_after
        if most is not None and self.adapted >= most and not self.frozen:
            self.method.freeze()
