"""What a method is: predict a batch, then adapt to it; and be reset, saved, restored and frozen exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tempora.errors import TemporaError
from tempora.methods.norm import BatchStatistics
from tempora.methods.settings import Settings
from tempora.methods.state import clone, overwrite, restored
from tempora.models import Classifier


@dataclass(frozen=True)
class Moment:
    """What a deployment knows at one instant, for methods with `time_aware = True`. None: does not apply."""

    now_ms: float
    arrived_ms: float
    queued: int = 0
    spent_ms: float = 0.0
    budget_left_ms: float | None = None
    baseline_ms: float | None = None
    threshold_ms: float | None = None
    interval_ms: float | None = None
    #: Mean milliseconds that adapt() has taken so far, by the action it returned.
    cost_ms: Mapping[str, float] = field(default_factory=dict)


class Method:
    """Base class of all methods. `tempora.methods.create` makes them, on their own copy of the model.

    An author writes `predict`, usually `adapt`, and `setup` for what must exist before the first batch:

        @register
        class Mine(Method):
            name = "mine"
            state = ("average",)                  # attributes that change while adapting

            def setup(self) -> None:
                self.average = None

            @torch.no_grad()
            def predict(self, x: Tensor) -> Tensor: ...

            def adapt(self) -> str: ...           # "step", "nothing_kept", ... or a word of yours

    In `setup`, put parameters that will change into `self.trainable` (name to tensor) and, to use batch
    statistics, set `self.statistics`; the base class then saves, restores, resets and freezes them. A method
    never times, logs or moves anything between devices. `tempora check module:Class` tests all of this.
    """

    name: ClassVar[str] = ""
    #: As tables print it.
    label: ClassVar[str] = ""
    family: ClassVar[Literal["gradient-free", "gradient-based"]] = "gradient-free"
    #: Any of "input", "output", "activations", "parameters".
    modifies: ClassVar[tuple[str, ...]] = ()
    #: While adapting, the prediction on a batch does not depend on earlier batches.
    history_free: bool = False
    #: Frozen, it predicts what Standard predicts.
    stateless: bool = False
    #: The engine calls predict(x, moment) and adapt(moment).
    time_aware: ClassVar[bool] = False
    scores_are: ClassVar[Literal["logits", "probabilities"]] = "logits"
    Settings: ClassVar[type[Settings]] = Settings
    #: Names of attributes that change: tensors, numbers, None, containers of them, optimisers. Those of base
    #: classes are added.
    state: ClassVar[tuple[str, ...]] = ()

    def __init__(self, model: Classifier, settings: Settings | None = None, seed: int = 2025) -> None:
        self.model = model.eval().requires_grad_(False)
        self.settings: Any = (settings or self.Settings()).resolved(model)
        self.generator = torch.Generator(model.device).manual_seed(seed)
        self.trainable: dict[str, Tensor] = {}
        self.statistics: BatchStatistics | None = None
        #: False while no adapt() will follow the next predict(), which may then save work.
        self.learning = True
        #: What predict leaves for adapt.
        self.pending: Any = None
        self.frozen = False
        self.setup()
        for parameter in self.trainable.values():
            parameter.requires_grad_(True)
        self.unfreeze()
        self.remember()

    def setup(self) -> None:
        """Prepare the copy of the model; raise TemporaError if the method does not fit it."""

    def predict(self, x: Tensor) -> Tensor:
        """Scores (n, C) of a batch, and whatever adapt() needs. Changes nothing while frozen."""
        raise NotImplementedError

    def adapt(self) -> str:
        """The rest of the work on the last batch; says what was done. Does nothing while frozen."""
        return "none"

    @torch.no_grad()
    def rescore(self, x: Tensor) -> Tensor:
        """Scores of `x` as predict() would give them while adapting, changing nothing: for `Reforward`."""
        before = self.snapshot()
        try:
            return self.predict(x)
        finally:
            self.restore(before)

    def reset(self) -> None:
        """Back to the initial state, bit for bit."""
        self.restore(self._initial)

    def snapshot(self) -> dict[str, Any]:
        """The state between two batches: what changes and nothing else, on the device."""
        return {
            "tensors": [tensor.detach().clone() for tensor in self._tensors()],
            "state": {name: clone(getattr(self, name)) for name in self._state_names()},
            "generator": self.generator.get_state(),
            "frozen": self.frozen,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Back to a snapshot, which stays good for more."""
        self.pending = None
        overwrite(self._tensors(), saved["tensors"])
        for name, value in saved["state"].items():
            setattr(self, name, restored(getattr(self, name), value))
        self.generator.set_state(saved["generator"])
        if saved["frozen"]:
            self.freeze()
        else:
            self.unfreeze()

    def freeze(self) -> None:
        """No more updates: predict with the state reached so far."""
        self.frozen, self.pending = True, None
        if self.statistics is not None:
            self.statistics.freeze()

    def unfreeze(self) -> None:
        """Adapt again."""
        self.frozen = False
        if self.statistics is not None:
            self.statistics.adapt()

    def remember(self) -> None:
        """Make the present state the one that reset() returns to. `create` does this last."""
        self._initial = self.snapshot()

    @property
    def updated_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that adapting changes, the model's as in `model.named_parameters()`."""
        return tuple(self.trainable)

    @property
    def updated_buffers(self) -> tuple[str, ...]:
        """Names of the model's buffers that adapting changes."""
        return tuple(self.statistics.buffers()) if self.statistics else ()

    def logits(self, x: Tensor) -> Tensor:
        """The network's logits, in whatever mode it is."""
        try:
            return self.model(x)
        except ValueError as error:
            if not is_batch_too_small(error):
                raise
            raise TemporaError(
                f"{self.name}: a batch of {len(x)} gives BatchNorm a single value per channel, which has no "
                f"variance. Use batches of at least 2, or larger images."
            ) from error

    def _tensors(self) -> list[Tensor]:
        buffers = self.statistics.buffers() if self.statistics else {}
        return [*self.trainable.values(), *buffers.values()]

    def _state_names(self) -> list[str]:
        classes = reversed(type(self).__mro__)
        return list(dict.fromkeys(name for kind in classes for name in vars(kind).get("state", ())))


def is_batch_too_small(error: ValueError) -> bool:
    """Whether PyTorch refused to take the variance of a single value per channel."""
    return "more than 1 value per channel" in str(error)
