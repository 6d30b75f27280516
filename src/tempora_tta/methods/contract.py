"""What a method is: predict a batch, then adapt to it; and be reset, saved, restored and frozen exactly."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.methods.norm import BatchStatistics
from tempora_tta.methods.settings import Settings as AnySettings
from tempora_tta.methods.source import Source, samples
from tempora_tta.methods.state import overwrite, restored, saved
from tempora_tta.models import Classifier

_OWN: dict[str, Any] = {"label": "", "history_free": False, "stateless": False}
"""What belongs to one class and is not inherited, and what a class has that says nothing."""


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
    deadline_ms: float | None = None
    """A response that takes longer is worth nothing."""
    slack_ms: float | None = None
    """How long the pipeline may stay busy before the next arrival; None where the future is random, or the stream
    waits."""
    cost_ms: Mapping[str, float] = field(default_factory=dict)
    """Mean milliseconds that adapt() has taken so far, warm-up included, by the action it returned; with `reforward`
    those of the prediction that holds it."""
    mode_cost_ms: Mapping[str, float] = field(default_factory=dict)
    """Mean milliseconds of the calls, predict() or adapt(), that named this mode in `work`."""
    queue: int | None = None
    """How many batches may wait; one more pushes the oldest out."""


class Method:
    """Base class of all methods. `tempora_tta.methods.create` makes them, on their own copy of the model.

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

    In `setup`, put parameters that a loss will change into `self.trainable` (name to tensor), tensors that change
    otherwise, such as a teacher's weights, into `self.changing`, and, to use batch statistics, set
    `self.statistics`; the base class then saves, restores, resets and freezes them. Everything else that changes
    is named in `state`. `self.source(n)` gives n clean images that are never part of a stream. A method never
    times, logs or moves anything between devices. `tempora check module:Class` tests all of this.

    `history_free`, `stateless` and `label` are promises and a name of one class: subclasses have to make their own.
    """

    name: ClassVar[str] = ""
    label: ClassVar[str] = ""
    """As tables print it."""
    family: ClassVar[Literal["gradient-free", "gradient-based"]] = "gradient-free"
    colour: ClassVar[str] = ""
    """As figures draw it, #rrggbb; empty: the paper's, or one that its name decides."""
    modifies: ClassVar[tuple[str, ...]] = ()
    """Any of "input", "output", "activations", "parameters"."""
    history_free: bool = False
    """While adapting, the prediction on a batch does not depend on earlier batches."""
    stateless: bool = False
    """Frozen, it predicts what Standard predicts."""
    time_aware: ClassVar[bool] = False
    """The engine calls predict(x, moment) and adapt(moment)."""
    scores_are: ClassVar[Literal["logits", "probabilities"]] = "logits"
    Settings: ClassVar[type[AnySettings]] = AnySettings
    state: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that change: tensors, numbers, None, networks, optimisers, generators, containers of
    them. Those of base classes are added."""
    actions: ClassVar[tuple[str, ...]] = ("none",)
    """What adapt() may return, as far as it is known."""
    idle: ClassVar[tuple[str, ...]] = ("none", "nothing_kept", "non_finite", "recovered")
    """Those of `actions` after which it knows no more than before; without "none" if it learns in predict()."""
    modes: ClassVar[tuple[str, ...]] = ()
    """The words that `work` may hold: kinds of work that take different times."""
    free: ClassVar[tuple[str, ...]] = ("none",)
    """Those of `actions` and `modes` that take no time worth counting."""
    acted_in_predict: str | None = None
    """What predict() did on its last batch, where it does all of adapt()'s work; None: adapt() does it."""
    costly: ClassVar[bool] = False
    """Takes so many times Standard's time that a run makes it only if it is named."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name, default in _OWN.items():
            if name not in vars(cls) and not isinstance(getattr(cls, name), property):
                setattr(cls, name, default)

    def __init__(
        self,
        model: Classifier,
        settings: AnySettings | None = None,
        seed: int = 2025,
        source: Source | None = None,
    ) -> None:
        self.model = model.eval().requires_grad_(False)
        self.settings: Any = (settings or self.Settings()).resolved(model)
        self.seed = seed
        self.generator = torch.Generator(model.device).manual_seed(seed)
        self._source = source
        self._trainable: dict[str, Tensor] = {}
        self.changing: dict[str, Tensor] = {}
        """Tensors that change without a gradient, by name: a teacher's weights, statistics of one's own."""
        self.statistics: BatchStatistics | None = None
        self.work: tuple[str, float] | None = None
        """What the last predict() or adapt() did: one of `modes`, and how much of what its time follows (samples
        kept, iterations, views). Whoever reads it clears it before the next call."""
        self.recipe_of: str | None = None
        """The method whose recipe these settings come from; None: no recipe."""
        self.learning = True
        """False while no adapt() will follow the next predict(), which may then save work."""
        self.pending: Any = None
        """What predict leaves for adapt."""
        self.frozen = False
        self.setup()
        self.trainable = self.trainable  # what was added one by one is differentiated too
        self._source = None  # images are not kept
        self.unfreeze()
        self.remember()

    @property
    def trainable(self) -> dict[str, Tensor]:
        """Parameters that a loss changes, by name. Assigned, they can be differentiated at once, in `setup` too."""
        return self._trainable

    @trainable.setter
    def trainable(self, parameters: Mapping[str, Tensor]) -> None:
        for parameter in self._trainable.values():
            parameter.requires_grad_(False)
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        self._trainable = dict(parameters)

    def source(self, n: int) -> Tensor:
        """n clean unlabelled images, normalised, never part of a stream: for `setup`, outside every clock."""
        return samples(self._source, n, self.name or type(self).__name__).to(
            self.model.device, self.model.dtype
        )

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
        return self.predict_undone(x)

    @torch.no_grad()
    def predict_undone(self, x: Tensor, *moment: Moment) -> Tensor:
        """What predict() gives, undone."""
        before = self.snapshot()
        try:
            return self.predict(x, *moment)
        finally:
            self.restore(before)

    def reset(self) -> None:
        """Back to the initial state, bit for bit."""
        self.restore(self._initial)

    def snapshot(self) -> dict[str, Any]:
        """The state between two batches: what changes and nothing else, on the device."""
        return {
            "tensors": [tensor.detach().clone() for tensor in self._tensors()],
            "state": self._saved_state(),
            "generator": self.generator.get_state(),
            "frozen": self.frozen,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Back to a snapshot, which stays good for more."""
        self.pending = None
        overwrite(self._tensors(), snapshot["tensors"])
        seen: dict[int, Any] = {}
        for name, value in snapshot["state"].items():
            setattr(self, name, restored(getattr(self, name, None), value, f"{self.name}.{name}", seen))
        self.generator.set_state(snapshot["generator"])
        if snapshot["frozen"]:
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
        others = (name for name, tensor in self.changing.items() if isinstance(tensor, nn.Parameter))
        return (*self.trainable, *others)

    @property
    def updated_buffers(self) -> tuple[str, ...]:
        """Names of the buffers that adapting changes, the model's as in `model.named_buffers()`."""
        tracked = tuple(self.statistics.buffers()) if self.statistics else ()
        others = (name for name, tensor in self.changing.items() if not isinstance(tensor, nn.Parameter))
        return (*tracked, *others)

    def logits(self, x: Tensor, network: Classifier | None = None) -> Tensor:
        """The logits of the model, or of another network of this method's, in whatever mode it is."""
        network = network or self.model
        try:
            return network(x)
        except ValueError as error:
            if len(x) > 1 or not self._takes_two(network, x):
                raise
            raise TemporaError(
                f"{self.name}: a batch of {len(x)} gives BatchNorm a single value per channel, which has no "
                f"variance. Use batches of at least 2, or larger images."
            ) from error

    @torch.no_grad()
    def _takes_two(self, network: Classifier, x: Tensor) -> bool:
        """Whether what an image alone was refused for goes away when it comes twice."""
        with self.statistics.untracked() if self.statistics else nullcontext():
            try:
                network(x.expand(2, *x.shape[1:]))
            except ValueError:
                return False
        return True

    def _tensors(self) -> list[Tensor]:
        buffers = self.statistics.buffers() if self.statistics else {}
        return [*self.trainable.values(), *buffers.values(), *self.changing.values()]

    def _saved_state(self) -> dict[str, Any]:
        seen: dict[int, Any] = {}
        return {name: saved(getattr(self, name), f"{self.name}.{name}", seen) for name in self._state_names()}

    def _state_names(self) -> list[str]:
        classes = reversed(type(self).__mro__)
        return list(dict.fromkeys(name for kind in classes for name in vars(kind).get("state", ())))


UNTOLD = Moment(now_ms=0.0, arrived_ms=0.0)
"""Where no clock runs."""


def predict_at(method: Method, x: Tensor, moment: Moment = UNTOLD) -> Tensor:
    """predict(), with the moment for methods that want one."""
    predict: Any = method.predict
    scores: Tensor = predict(x, moment) if method.time_aware else predict(x)
    return scores


def adapt_at(method: Method, moment: Moment = UNTOLD) -> str:
    """adapt(), with the moment for methods that want one."""
    adapt: Any = method.adapt
    action: str = adapt(moment) if method.time_aware else adapt()
    return action
