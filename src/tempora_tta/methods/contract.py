"""The contract of a method: predict a batch, then adapt to it; and be reset, saved, restored and frozen exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from tempora_tta._tensors import described, is_plain
from tempora_tta.errors import TemporaError
from tempora_tta.methods.norm import BatchStatistics
from tempora_tta.methods.settings import Settings as AnySettings
from tempora_tta.methods.state import overwrite, restored, saved
from tempora_tta.models import Classifier

Source = Tensor | Callable[[int], Tensor]
"""Clean images: a tensor (m, channels, height, width), or a function that makes n of them."""
_OWN: dict[str, Any] = {"label": "", "history_free": False, "stateless": False}
"""Attributes of one class that its subclasses do not inherit, with their defaults."""


_HOW_TO_GIVE = (
    "create, evaluate and deploy(..., source=images) take a normalised tensor, a run takes "
    "`source: a dataset` or `source: {dataset: ..., samples: N}` (on fashion its own ship along). Draw them from "
    "training images, never from the stream's"
)


class Did(Flag):
    """Facts of an action that a run needs, any of these together."""

    NO_OP = 0
    """The method knows no more than before."""
    LEARNS = auto()
    """It changed what the method knows."""
    UNTIMED = auto()
    """It takes no time worth counting."""


NO_OP, LEARNS, UNTIMED = Did.NO_OP, Did.LEARNS, Did.UNTIMED
ONE_VALUE = "more than 1 value per channel"
"""Words of PyTorch's error where BatchNorm gets a single value per channel."""
_USUAL = {"none": UNTIMED, "nothing_kept": NO_OP, "non_finite": NO_OP, "recovered": NO_OP}
"""Words that mean the same in every method that does not say otherwise."""


@dataclass(frozen=True)
class Moment:
    """Knowledge of a deployment at one instant, for methods with `time_aware = True`. None: does not apply."""

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
    """Time for which the pipeline may stay busy before the next arrival; None where the future is random, or the
    stream waits."""
    cost_ms: Mapping[str, float] = field(default_factory=dict)
    """Mean milliseconds that adapt() has taken so far, warm-up included, by the action it returned; with `reforward`
    those of the prediction that holds it."""
    mode_cost_ms: Mapping[str, float] = field(default_factory=dict)
    """Mean milliseconds of the calls, predict() or adapt(), that named this mode in `work`."""
    queue: int | None = None
    """Most batches that may wait; one more pushes the oldest out."""


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
    """The name in tables."""
    family: ClassVar[Literal["gradient-free", "gradient-based"]] = "gradient-free"
    colour: ClassVar[str] = ""
    """The colour in figures, #rrggbb; empty: the paper's, or one that its name decides."""
    modifies: ClassVar[tuple[str, ...]] = ()
    """Parts that change: "input", "output", "activations", "parameters"."""
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
    actions: ClassVar[Mapping[str, Did]] = {"none": UNTIMED}
    """Words that adapt() may return, and what each means: {"step": LEARNS, "none": UNTIMED}. A method that learns in
    predict() says {"none": LEARNS | UNTIMED}."""
    modes: ClassVar[tuple[str, ...]] = ()
    """The words that `work` may hold: kinds of work that take different times."""
    action_in_predict: str | None = None
    """The action of the last predict(), where that does all of adapt()'s work; None: adapt() does it."""
    only_by_name: ClassVar[bool] = False
    """Too slow for `all`: runs only when named."""
    apart: ClassVar[tuple[int, int] | None] = None
    """Number of images that it learns from together, where batches are too small to learn from, and the smallest
    batch that is not; None: it learns from every batch."""
    repeats: ClassVar[bool] = False
    """predict() changes nothing while `self.repeating`, so that a prediction can be repeated without a snapshot."""

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
        """Work of the last predict() or adapt(): one of `modes`, and the amount that its time follows (samples
        kept, iterations, views). The run clears it before the next call."""
        self.recipe_of: str | None = None
        """The method whose recipe these settings come from; None: no recipe."""
        self.learning = True
        """False while no adapt() will follow the next predict(), which may then save work."""
        self.repeating = False
        """True while predict() repeats a prediction, which must change nothing."""
        self.pending: Any = None
        """Left by predict() for adapt()."""
        self.frozen = False
        self.setup()
        self.trainable = self.trainable  # what was added one by one is differentiated too
        self._source = None  # images are not kept
        self.unfreeze()
        self.save_initial()

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

    @property
    def follows(self) -> bool:
        """True if predict() may learn from its batch."""
        return not (self.frozen or self.repeating)

    @property
    def learns(self) -> bool:
        """True if any of its actions changes what it knows."""
        return any(LEARNS in did for did in self.actions.values())

    def learned(self, action: str) -> bool:
        """True if this action changed what it knows; a word that was not declared did."""
        return LEARNS in {**_USUAL, **self.actions}.get(action, LEARNS)

    @property
    def untimed(self) -> tuple[str, ...]:
        """Actions that take no time worth counting."""
        return tuple(word for word, did in {**_USUAL, **self.actions}.items() if UNTIMED in did)

    def source(self, n: int) -> Tensor:
        """n clean unlabelled images, normalised, never part of a stream: for `setup`, outside every clock."""
        images = samples(self._source, n, self.name or type(self).__name__)
        return images.to(self.model.device, self.model.dtype)

    def setup(self) -> None:
        """Prepare the copy of the model; raise TemporaError if the method does not fit it."""

    def predict(self, x: Tensor) -> Tensor:
        """Return scores (n, C) of a batch, and keep what adapt() needs. Changes nothing while frozen."""
        raise NotImplementedError

    def adapt(self) -> str:
        """Do the rest of the work on the last batch and return an action. Does nothing while frozen."""
        return "none"

    @torch.no_grad()
    def predict_again(self, x: Tensor, *moment: Moment) -> Tensor:
        """Scores of a batch that was adapted to, as predict() gives them now; changes nothing. For `reforward`."""
        if not self.repeats:
            before = self.snapshot()
            try:
                return self.predict(x, *moment)
            finally:
                self.restore(before)
        learning, self.learning, self.repeating = self.learning, False, True
        try:
            with self.untracked():
                return self.predict(x, *moment)
        finally:
            self.learning, self.repeating = learning, False

    def untracked(self) -> AbstractContextManager[None]:
        """Inside, forwards do not feed the running statistics."""
        return self.statistics.untracked() if self.statistics else nullcontext()

    def reset(self) -> None:
        """Back to the initial state, bit for bit."""
        self.restore(self._initial)

    def snapshot(self) -> dict[str, Any]:
        """The state between two batches: what changes and nothing else, on the device."""
        return {
            "tensors": [tensor.detach().clone() for tensor in self.changing_tensors()],
            "state": {name: saved(getattr(self, name), f"{self.name}.{name}") for name in self.state_names()},
            "generator": self.generator.get_state(),
            "frozen": self.frozen,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Back to a snapshot, which stays good for more."""
        self.pending = None
        overwrite(self.changing_tensors(), snapshot["tensors"])
        for name, held in snapshot["state"].items():
            setattr(self, name, restored(getattr(self, name, None), held, f"{self.name}.{name}"))
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

    def save_initial(self) -> None:
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
        """Logits of the model, or of another network of this method, in the mode that it is in."""
        try:
            return (network or self.model)(x)
        except ValueError as error:
            if len(x) > 1 or ONE_VALUE not in str(error):
                raise
            raise TemporaError(
                f"{self.name}: a batch of {len(x)} gives BatchNorm a single value per channel, which has no "
                f"variance. Use batches of at least 2, or larger images."
            ) from error

    def changing_tensors(self) -> list[Tensor]:
        """Every tensor that adapting changes in place."""
        buffers = self.statistics.buffers() if self.statistics else {}
        return [*self.trainable.values(), *buffers.values(), *self.changing.values()]

    def state_names(self) -> list[str]:
        """Names in `state`, those of base classes first."""
        classes = reversed(type(self).__mro__)
        return list(dict.fromkeys(name for kind in classes for name in vars(kind).get("state", ())))


UNTOLD = Moment(now_ms=0.0, arrived_ms=0.0)
"""The moment where no clock runs."""


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


def samples(source: Any, n: int, method: str) -> Tensor:
    """n images of the source, or an error that says how many are needed and how to give them."""
    if source is None:
        raise TemporaError(
            f"{method} needs {n} clean unlabelled samples of the source domain: {_HOW_TO_GIVE}."
        )
    given = source(n) if callable(source) else source
    if (
        not isinstance(given, Tensor)
        or not is_plain(given)
        or given.ndim != 4
        or not given.is_floating_point()
    ):
        what = described(given) if isinstance(given, Tensor) else type(given).__name__
        raise TemporaError(f"source: {what} given; expected normalised images, floating point, (n, c, h, w).")
    if len(given) < n:
        raise TemporaError(
            f"{method} needs {n} clean samples and the source has {len(given)}: give more, or ask for fewer "
            f"(samples={len(given)} among its settings)."
        )
    if not torch.isfinite(given[:n]).all():
        raise TemporaError("source: its images hold NaN or infinity.")
    return given[:n].detach()


def checked_scores(label: str, scores: object, samples: int, classes: int) -> Tensor:
    """The scores of a batch, if they have one row per sample and one column per class."""
    expected = (
        f"{label}: predict() returned {{}}; expected a tensor of scores, {samples} rows of {classes} classes"
    )
    if not isinstance(scores, Tensor):
        raise TemporaError(expected.format(f"a {type(scores).__name__}"))
    if scores.shape != (samples, classes):
        raise TemporaError(expected.format(f"a tensor of shape {tuple(scores.shape)}"))
    if scores.is_complex() or scores.dtype == torch.bool or scores.device.type == "meta":
        raise TemporaError(expected.format(f"a tensor of {scores.dtype} on {scores.device}"))
    return scores.detach()


def checked_action(label: str, action: object) -> str:
    """The action that adapt() returned, if it is a word."""
    if not isinstance(action, str):
        raise TemporaError(
            f"{label}: adapt() returned {action!r:.60}; expected a word for what was done, such as 'step' or 'none'"
        )
    return action
