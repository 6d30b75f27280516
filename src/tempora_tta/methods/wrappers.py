"""What a reader asks of any costly method first: adapt less often, stop early, or predict after adapting.

`create("tent", model, every=2, stop_after=100, reforward=True)` applies them, outermost last:
`StopAfter(Every(Reforward(tent), 2), 100)`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from tempora_tta.methods.contract import Method, Moment


class Wrapper(Method):
    """A method around a method: whatever it does not change, the inner one answers."""

    count = 0  # batches seen while adapting

    def __init__(self, method: Method, **settings: Any) -> None:
        self.method = method
        self.settings = dataclasses.replace(method.settings, **settings)

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "method":
            raise AttributeError(attribute)
        return getattr(self.method, attribute)

    def predict(self, x: Tensor, *moment: Moment) -> Tensor:
        return self.method.predict(x, *moment)

    def adapt(self, *moment: Moment) -> str:
        return self.method.adapt(*moment)

    def rescore(self, x: Tensor) -> Tensor:
        return self.method.rescore(x)

    def predict_undone(self, x: Tensor, *moment: Moment) -> Tensor:
        return self.method.predict_undone(x, *moment)

    def reset(self) -> None:
        self.count = 0
        self.method.reset()

    def snapshot(self) -> dict[str, Any]:
        return {"inner": self.method.snapshot(), "count": self.count}

    def restore(self, saved: dict[str, Any]) -> None:
        self.method.restore(saved["inner"])
        self.count = saved["count"]

    def freeze(self) -> None:
        self.method.freeze()

    def unfreeze(self) -> None:
        self.method.unfreeze()

    def remember(self) -> None:
        self.method.remember()


def _forwarded(attribute: str) -> property:
    """A property that lives in the inner method."""

    def get(self: Wrapper) -> Any:
        return getattr(self.method, attribute)

    def put(self: Wrapper, value: Any) -> None:
        setattr(self.method, attribute, value)

    return property(get, put)


for _attribute in (
    *("name", "label", "family", "modifies", "history_free", "stateless", "time_aware", "scores_are"),
    *("Settings", "frozen", "learning", "pending", "updated_parameters", "updated_buffers"),
    *("actions", "idle", "modes", "free", "costly", "work", "recipe_of", "acted_in_predict"),
):
    setattr(Wrapper, _attribute, _forwarded(_attribute))


class Reforward(Wrapper):
    """Predict, adapt, and predict the same batch again with the updated model: all of it is prediction time.

    The second forward uses batch statistics and changes nothing.
    """

    acted_in_predict: str | None = "none"

    def __init__(self, method: Method) -> None:
        super().__init__(method, reforward=True)

    def predict(self, x: Tensor, *moment: Moment) -> Tensor:
        scores = self.method.predict(x, *moment)
        if self.frozen or not self.learning:
            self.acted_in_predict = "none"
            return scores
        self.acted_in_predict = self.method.adapt(*moment)
        if not self.method.frozen:
            return self._again(x, *moment)
        self.method.unfreeze()  # it stopped after this batch, which is still predicted as one adapted to
        scores = self._again(x, *moment)
        self.method.freeze()
        return scores

    def _again(self, x: Tensor, *moment: Moment) -> Tensor:
        return self.method.predict_undone(x, *moment) if self.time_aware else self.method.rescore(x)

    def adapt(self, *moment: Moment) -> str:
        """What predict() already did."""
        action, self.acted_in_predict = self.acted_in_predict, "none"
        return action or "none"


class Every(Wrapper):
    """Adapt on the first batch and every k-th after it; the others are only predicted, in adapting mode.

    Running statistics still follow all batches. Methods that adapt inside predict() are left as they are.
    """

    def __init__(self, method: Method, k: int) -> None:
        super().__init__(method, every=k)
        self.k = k

    def predict(self, x: Tensor, *moment: Moment) -> Tensor:
        self.learning = self.count % self.k == 0
        self.count += not self.frozen
        return self.method.predict(x, *moment)

    def adapt(self, *moment: Moment) -> str:
        return self.method.adapt(*moment) if self.learning else "none"

    def reset(self) -> None:
        super().reset()
        self.learning = True


class StopAfter(Wrapper):
    """Freeze after m batches."""

    history_free = False  # a prediction depends on how many batches came before

    def __init__(self, method: Method, m: int) -> None:
        super().__init__(method, stop_after=m)
        self.m = m
        self._stop_if_done()

    def adapt(self, *moment: Moment) -> str:
        if self.frozen:
            return "none"
        action = self.method.adapt(*moment)
        self.count += 1
        self._stop_if_done()
        return action

    def reset(self) -> None:
        super().reset()
        self._stop_if_done()

    def unfreeze(self) -> None:
        """Adapt to m more batches."""
        self.count = 0
        super().unfreeze()

    def _stop_if_done(self) -> None:
        if self.count >= self.m and not self.frozen:
            self.method.freeze()
