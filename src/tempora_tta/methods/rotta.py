"""RoTTA (Yuan et al., 2023): a teacher learns from a memory that is balanced over classes and kept fresh."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tempora_tta.errors import TemporaError
from tempora_tta.methods import LEARNS, NO_OP, UNTIMED, register, setting
from tempora_tta.methods.custom_norm import Copies, RobustNorm, replace_batchnorm
from tempora_tta.methods.functions import cross_entropy, sent
from tempora_tta.methods.gradient import RATE, GradientMethod, GradientSettings, OptimizerName, all_finite
from tempora_tta.methods.norm import norm_affine
from tempora_tta.methods.state import overwrite
from tempora_tta.methods.views import Draws, Jitter

TEACHER_MOMENTUM = 0.999


@dataclass(frozen=True, kw_only=True)
class RoTTASettings(GradientSettings):
    """capacity: N, how many samples the memory holds, and after how many it is learned from.

    statistics_momentum: weight of a batch in the robust BatchNorm's statistics.
    draws: whether a view's random draws are shared by the batch or made per sample.
    """

    optimizer: OptimizerName = "adam"
    lr: float = setting(1e-3, **RATE)
    capacity: int = setting(64, low=2)
    statistics_momentum: float = setting(0.05, above=0, high=1)
    draws: Draws = "batch"


@dataclass
class Entry:
    """A sample in the memory: where its image is, its class, its uncertainty and when it came."""

    place: int
    label: int
    uncertainty: float
    born: int


@dataclass
class BalancedMemory:
    """A few samples, balanced over predicted classes, certain and recent ones first.

    At most `capacity`, kept by class in the order in which they came.
    """

    capacity: int
    num_classes: int
    seen: int = 0
    """Samples offered; an entry's age is what it was when it came subtracted from this."""
    by_class: dict[int, list[Entry]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(self.capacity))

    def __len__(self) -> int:
        return self.capacity - len(self.free)

    def offer(self, label: int, uncertainty: float) -> int | None:
        """Take a sample in, in place of another if need be; the place for its image, or None if it is dropped.

        One whose uncertainty is not a number has nothing to teach and is never taken in.
        """
        place = self._room_for(label, uncertainty) if math.isfinite(uncertainty) else None
        if place is not None:
            self.by_class.setdefault(label, []).append(Entry(place, label, uncertainty, self.seen))
        self.seen += 1
        return place

    def entries(self) -> list[Entry]:
        """All of them, by class."""
        return [entry for label in sorted(self.by_class) for entry in self.by_class[label]]

    def age(self, entry: Entry) -> int:
        """Samples offered since it came, itself included."""
        return self.seen - entry.born

    def freshness(self, entry: Entry) -> float:
        """exp(-age/N) / (1 + exp(-age/N)): what it weighs in the loss."""
        decay = math.exp(-self.age(entry) / self.capacity)
        return decay / (1 + decay)

    def score(self, age: int, uncertainty: float) -> float:
        """Dispensability of a sample: high for old and uncertain ones."""
        return 1 / (1 + math.exp(-age / self.capacity)) + uncertainty / math.log(self.num_classes)

    def _room_for(self, label: int, uncertainty: float) -> int | None:
        own = self.by_class.get(label, [])
        if len(own) >= self.capacity / self.num_classes:
            rivals = own
        elif self.free:
            return self.free.pop(0)
        else:
            most = max(map(len, self.by_class.values()))
            rivals = [entry for entry in self.entries() if len(self.by_class[entry.label]) == most]
        worst = max(reversed(rivals), key=self._score_of)  # of equals the last
        if not self._score_of(worst) > self.score(0, uncertainty):
            return None
        self.by_class[worst.label].remove(worst)
        return worst.place

    def _score_of(self, entry: Entry) -> float:
        return self.score(self.age(entry), entry.uncertainty)


@register
class RoTTA(GradientMethod):
    """Norm affine of the student; loss = mean over the memory of freshness * cross-entropy with the teacher."""

    name = "rotta"
    label = "RoTTA"
    modifies = ("parameters", "activations")
    Settings = RoTTASettings
    state = ("memory", "images", "dice")
    actions = {"step": LEARNS, "stored": NO_OP, "non_finite": NO_OP, "none": UNTIMED}
    modes = ("updates",)

    def setup(self) -> None:
        momentum = self.settings.statistics_momentum
        teacher = copy.deepcopy(self.model)
        self.student_norms = replace_batchnorm(self.model, lambda layer: RobustNorm(layer, momentum))
        self.teacher_norms = replace_batchnorm(teacher, lambda layer: RobustNorm(layer, momentum))
        self.teacher = teacher
        self.student_copies, self.teacher_copies = (
            Copies({layer: (layer.running_mean, layer.running_var) for layer in norms.values()})
            for norms in (self.student_norms, self.teacher_norms)
        )
        super().setup()
        self.teacher_weights: list[Tensor] = [norm_affine(teacher)[name] for name in self.trainable]
        named = zip(self.trainable, self.teacher_weights, strict=True)
        self.changing = {f"teacher.{name}": weight for name, weight in named}
        for prefix, norms in (("", self.student_norms), ("teacher.", self.teacher_norms)):
            for name, layer in norms.items():
                self.changing[f"{prefix}{name}.running_mean"] = layer.running_mean
                self.changing[f"{prefix}{name}.running_var"] = layer.running_var
        self.memory = BalancedMemory(self.settings.capacity, self.model.num_classes)
        self.images: Tensor | None = None  # one per place of the memory
        self.jitter = Jitter(self.model, self.name)
        self.dice = torch.Generator().manual_seed(self.seed)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        z = self.teacher(x)
        self.pending = (x, z) if self.learning and not self.frozen else None
        return z

    def learn(self, x: Tensor, z: Tensor) -> str:
        """Offer every sample to the memory; learn from it after every N-th, in the middle of a batch if so."""
        p = z.softmax(dim=1)
        uncertainty = -(p * (p + 1e-6).log()).sum(dim=1)
        looked_at = torch.stack([z.argmax(dim=1).to(uncertainty), uncertainty]).tolist()  # waits, once
        actions, learned, written = [], 0, {}
        for index, (label, u) in enumerate(zip(*looked_at, strict=True)):
            place = self.memory.offer(int(label), u)
            if place is not None:
                written[place] = index
            if self.memory.seen % self.settings.capacity == 0:
                self.write(x, written)
                learned += len(self.memory)
                actions.append(self.update())
        self.write(x, written)
        self.work = ("updates", float(learned))
        if not actions or set(actions) == {"stored"}:
            return "stored"
        return "step" if "step" in actions else "non_finite"

    def write(self, x: Tensor, written: dict[int, int]) -> None:
        """Copy new images (place to index in the batch) into the memory, together."""
        if self.images is None or self.images.shape[1:] != x.shape[1:]:
            if self.images is not None:
                raise TemporaError(
                    f"rotta: images of {tuple(x.shape[1:])} after some of {tuple(self.images.shape[1:])}: its "
                    "memory learns from both together. Use images of one size."
                )
            self.images = x.new_zeros(self.settings.capacity, *x.shape[1:])
        if written:
            places, indices = sent(torch.tensor([list(written), list(written.values())]), x.device)
            self.images.index_copy_(0, places, x.index_select(0, indices))
            written.clear()

    def update(self) -> str:
        """One step of the student towards the teacher, on the memory, and of the teacher after it."""
        entries = self.memory.entries()
        if not entries or self.images is None:
            return "stored"
        places = torch.tensor([entry.place for entry in entries])
        x = self.images.index_select(0, sent(places, self.images.device))
        weights = torch.tensor([self.memory.freshness(entry) for entry in entries], dtype=x.dtype)
        freshness = sent(weights, x.device)
        with self.robust(self.teacher_copies, self.teacher_norms), torch.no_grad():
            log_p = self.teacher(x).log_softmax(dim=1)
        with self.robust(self.student_copies, self.student_norms):
            log_u = self.model(self.view(x)).log_softmax(dim=1)
        loss = (freshness * cross_entropy(log_p, log_u)).mean()
        gradients = self.gradients(loss)
        if not all_finite(loss, gradients):
            return "non_finite"
        self.step(gradients)
        self.after_step()
        return "step"

    @torch.no_grad()
    def after_step(self) -> None:
        """R = R' in both networks; t = 0.999 t + 0.001 w."""
        layers = [*self.student_norms.values(), *self.teacher_norms.values()]
        proposed = [part for layer in layers for part in layer.proposed]
        overwrite([part for layer in layers for part in (layer.running_mean, layer.running_var)], proposed)
        torch._foreach_lerp_(self.teacher_weights, self.parameters, 1 - TEACHER_MOMENTUM)

    def view(self, x: Tensor) -> Tensor:
        """One random view of each image."""
        return self.jitter(x, self.dice, self.generator, self.settings.draws)

    @contextmanager
    def robust(self, copies: Copies, norms: dict[str, RobustNorm]) -> Iterator[None]:
        """Inside, these layers learn their statistics; outside they use what they have."""
        copies.refresh()
        for layer in norms.values():
            layer.learning = True
        try:
            yield
        finally:
            for layer in norms.values():
                layer.learning = False
