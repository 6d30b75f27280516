"""Pace: settle on what the stream looks like, then learn where the time that it takes is worth it.

    settle    normalise the first batches with their own statistics and average those (without BatchNorm: centre the
              features); keep the source's where they explain the first batch as well.
    learn     one step of information maximisation on the norm layers, if what it may gain over the batches to come
              is more than what it costs the users: effort follows difficulty, and ends with it.
    watch     go back to the settled state when the score falls or classes vanish; begin anew when the shift changes.

The score of predictions is their mutual information with the samples, H(mean p) - mean H: it needs no labels. The
horizon is not known: as many batches as were seen are expected to come, and at least a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from tempora.methods.contract import Method, Moment
from tempora.methods.functions import entropy, max_entropy
from tempora.methods.gradient import fill
from tempora.methods.norm import MOMENTUM, BatchStatistics, norm_affine
from tempora.methods.optimizers import all_finite
from tempora.methods.registry import register
from tempora.methods.settings import Settings, setting
from tempora.models import Classifier

if TYPE_CHECKING:
    from typing_extensions import Self

#: Mean entropy over ln C of a network that knows what it sees: nothing is learned from such batches.
CERTAIN = 0.12
#: From there to this further, steps grow to their full length.
DIFFICULT = 0.25
#: What a step is expected to gain in accuracy, per unit of uncertainty above CERTAIN.
GAIN_PER_STEP = 0.01
#: What the second and later batches of statistics are expected to gain.
GAIN_PER_BATCH = 0.0015
#: Batches that are always expected to come.
FEWEST_TO_COME = 16
#: By how much of ln C settled statistics must score above the source's.
MARGIN = 0.01
#: Batches that the usual range of scores is taken from.
USUAL = 8
#: Arrivals that the price of being busy is looked for among.
LOOK_AHEAD = 8
#: What work costs, in Standard's time, until it was done once.
UNKNOWN_COST_X = {"settling": 1.1, "compared": 0.5, "learning": 1.2, "step": 2.0}


@dataclass(frozen=True, kw_only=True)
class PaceSettings(Settings):
    """What of it to do.

    batches: to settle on, at most. step: length of a full step, relative to that of the parameters; follows the
    network's family unless given. learn: whether to learn at all. gate: whether to compare with the source, and to go
    back. alarm: how many standard deviations the score must leave its usual range by, twice in a row, to begin anew;
    0: never.
    """

    batches: int = setting(4, low=0)
    step: float | None = setting(None, above=0)
    learn: bool = True
    gate: bool = True
    alarm: float = setting(6.0, low=0)

    default_step: ClassVar[dict[str, float]] = {"cnn": 0.001, "vit": 0.003}

    def resolved(self, model: Classifier) -> Self:
        return fill(self, step=self.default_step[model.family])


@register
class Pace(Method):
    """Settles, then learns when it is worth its time."""

    name = "pace"
    label = "Pace"
    family = "gradient-based"
    modifies = ("activations", "parameters")
    time_aware = True
    state = ("seen", "settling", "centre", "velocity", "uncertainty", "usual", "strange", "settled")
    actions = ("settling", "compared", "step", "none", "back", "alarm", "non_finite")
    modes = ("settling", "learning", "settled")
    idle = ("none", "non_finite")
    free = ("none", "settling", "back", "alarm")
    Settings = PaceSettings

    def setup(self) -> None:
        statistics = BatchStatistics(self.model, source="keep", frozen="tracked")
        if statistics.layers:
            self.statistics = statistics
        self.trainable = norm_affine(self.model)
        self._source_state = [tensor.detach().clone() for tensor in self._tensors()]
        self._begin()

    def _begin(self) -> None:
        #: Batches since the stream, or the present shift, began.
        self.seen = 0
        self.settling = self.settings.batches > 0
        #: Mean feature, on networks without BatchNorm.
        self.centre = torch.zeros((), device=self.model.device, dtype=self.model.dtype)
        self.velocity = [torch.zeros_like(parameter) for parameter in self.trainable.values()]
        #: Running mean of the predictions' entropy over ln C.
        self.uncertainty = 0.0
        #: Scores of the first batches after it settled, and how many of the latest lie below their range.
        self.usual: list[float] = []
        self.strange = 0
        #: The state that is safe to go back to.
        self.settled: list[Tensor] | None = None

    # Predict: settle, learn or neither.

    def predict(self, x: Tensor, moment: Moment) -> Tensor:  # type: ignore[override]
        if self.frozen:
            return self._plain(x)
        mode = self._choose(moment)
        self.work = (mode, 0.0)
        if mode == "settled":
            scores = self._plain(x)
            self.pending = (mode, x, scores)
            return scores
        with torch.set_grad_enabled(mode == "learning"), self._tracking():
            output = self._forward(x)
        self.pending = (mode, x, output)
        return output.detach()

    def _choose(self, moment: Moment) -> str:
        if self._worth_learning(moment):
            return "learning"
        if not self.settling:
            return "settled"
        extra_ms = self._cost(moment, "settling") - (moment.baseline_ms or 0.0)
        gain = GAIN_PER_BATCH * self._to_come
        return "settling" if self.seen == 0 or gain > price(moment, extra_ms, 0.0) else "settled"

    def _worth_learning(self, moment: Moment) -> bool:
        effort = self._effort
        if not self.settings.learn or self.seen == 0 or not effort:
            return False
        predict_ms = self._cost(moment, "learning") - (moment.baseline_ms or 0.0)
        step_ms = self._cost(moment, "step")
        if not affords(moment, predict_ms + step_ms):
            return False
        return GAIN_PER_STEP * effort * self._to_come > price(moment, predict_ms, step_ms)

    @property
    def _effort(self) -> float:
        """By how much the network is less certain than one that knows what it sees."""
        return max(0.0, self.uncertainty - CERTAIN)

    @property
    def _to_come(self) -> int:
        return max(FEWEST_TO_COME, self.seen)

    def _cost(self, moment: Moment, work: str) -> float:
        known = moment.cost_ms if work in self.actions and work not in self.modes else moment.mode_cost_ms
        return known.get(work, UNKNOWN_COST_X[work] * (moment.baseline_ms or 0.0))

    # Adapt: compare, step, watch.

    def adapt(self, moment: Moment) -> str:  # type: ignore[override]
        if self.frozen or self.pending is None:
            return "none"
        (mode, x, output), self.pending = self.pending, None
        z = output.detach()
        score, uncertainty = float(mutual_information(z)), float(entropy(z).mean()) / max_entropy(z.shape[1])
        self.seen += 1
        self.uncertainty += (uncertainty - self.uncertainty) / min(self.seen, 4)
        if mode == "settled":
            self.settling = False
            return self._watch(score)
        if mode == "learning":
            self._keep_settled()
            return self._back() if self.settings.gate and self._unusual(score) else self._step(output)
        self.settling = self.seen < self.settings.batches
        if self.seen == 1 and self._worth_comparing(moment):
            return self._compare(x, z)
        return "settling"

    def _worth_comparing(self, moment: Moment) -> bool:
        settling_ms = self._cost(moment, "settling") - (moment.baseline_ms or 0.0)
        compare_ms = self._cost(moment, "compared")
        if not self.settings.gate or not affords(moment, settling_ms + compare_ms):
            return False
        return GAIN_PER_BATCH * self._to_come > price(moment, 0.0, compare_ms)

    @torch.no_grad()
    def _compare(self, x: Tensor, z: Tensor) -> str:
        """Whether settling explains half of the batch better than the source does; else the source stays."""
        half = max(1, len(x) // 2)
        settled = [tensor.detach().clone() for tensor in self._tensors()]
        self._put(self._source_state)
        as_source = self.model(x[:half])
        needed = float(mutual_information(as_source)) + MARGIN * max_entropy(z.shape[1])
        if float(mutual_information(z[:half])) > needed:
            self._put(settled)
        else:
            self.settling, self.centre = False, torch.zeros_like(self.centre)
            self.uncertainty = float(entropy(as_source).mean()) / max_entropy(z.shape[1])
        return "compared"

    def _step(self, output: Tensor) -> str:
        """A step up the score, as long as effort says, relative to the parameters."""
        parameters = list(self.trainable.values())
        loss = -mutual_information(output)
        gradients = torch.autograd.grad(loss, parameters)
        if not all_finite(loss, gradients):
            return "non_finite"
        with torch.no_grad():
            length = self.settings.step * min(1.0, self._effort / DIFFICULT) * length_of(parameters)
            torch._foreach_mul_(self.velocity, 0.9)
            torch._foreach_add_(
                self.velocity, torch._foreach_mul(gradients, length / length_of(gradients).clamp_min(1e-12))
            )
            torch._foreach_sub_(parameters, self.velocity)
        return "step"

    def _watch(self, score: float) -> str:
        """Of batches that only were predicted: has the shift changed, or did learning do harm?"""
        if not self._unusual(score):
            return "none"
        if self.settled is not None:
            return self._back()
        self._put(self._source_state)
        self._begin()
        self.unfreeze()
        return "alarm"

    def _unusual(self, score: float) -> bool:
        """Whether two scores in a row lie below the usual range. A learned state is left sooner than others."""
        if len(self.usual) < USUAL:
            self.usual = [*self.usual, score]
            return False
        usual = torch.tensor(self.usual, dtype=torch.float64)
        sigmas = self.settings.alarm / (1 if self.settled is None else 2)
        low = float(usual.mean()) - sigmas * float(usual.std())
        self.strange = self.strange + 1 if self.settings.alarm and score < low else 0
        return self.strange >= 2

    def _keep_settled(self) -> None:
        if self.settled is None:
            self.settled = [tensor.detach().clone() for tensor in self._tensors()]

    def _back(self) -> str:
        if self.settled is not None:
            self._put(self.settled)
        self.settled, self.usual, self.strange, self.uncertainty = None, [], 0, 0.0
        torch._foreach_zero_(self.velocity)
        return "back"

    # The network.

    @torch.no_grad()
    def _plain(self, x: Tensor) -> Tensor:
        """At Standard's speed."""
        if self.statistics is not None:
            return self.logits(x)
        return self.model.head(self.model.features(x) - self.centre)

    def _forward(self, x: Tensor) -> Tensor:
        """Normalised with the batch, whose statistics enter the average."""
        weight = max(1 / (self.seen + 1), MOMENTUM)
        if self.statistics is not None:
            for layer in self.statistics.layers.values():
                layer.momentum = weight
            return self.logits(x)
        features = self.model.features(x)
        if self.settling:
            centre = self.centre + weight * (features.detach().mean(dim=0) - self.centre)
            self.centre = torch.where(centre.isfinite().all(), centre, self.centre)
        return self.model.head(features - self.centre)

    def _tracking(self) -> _Tracking:
        return _Tracking(self.statistics)

    def unfreeze(self) -> None:
        super().unfreeze()
        if self.statistics is not None:
            self.statistics.freeze()  # `_tracking` lets them follow a batch

    @torch.no_grad()
    def _put(self, tensors: list[Tensor]) -> None:
        for mine, theirs in zip(self._tensors(), tensors, strict=True):
            mine.copy_(theirs)


class _Tracking:
    """Inside, BatchNorm layers normalise with the batch and follow it."""

    def __init__(self, statistics: BatchStatistics | None) -> None:
        self._statistics = statistics

    def __enter__(self) -> None:
        if self._statistics is not None:
            self._statistics.adapt()

    def __exit__(self, *_: object) -> None:
        if self._statistics is not None:
            self._statistics.freeze()


def affords(moment: Moment, extra_ms: float) -> bool:
    """Whether a budget, if there is one, pays for so much more than Standard's time."""
    return moment.budget_left_ms is None or extra_ms <= moment.budget_left_ms


def price(moment: Moment, before_ms: float, after_ms: float) -> float:
    """How many batches' worth is lost if this one takes so much longer, before and after its prediction is out."""
    standard_ms = moment.baseline_ms
    if standard_ms is None:
        return 0.0  # nobody waits
    before_ms, after_ms = max(0.0, before_ms), max(0.0, after_ms)
    waited_ms = moment.now_ms - moment.arrived_ms + standard_ms
    own = _worth(moment, waited_ms) - _worth(moment, waited_ms + before_ms)
    if moment.interval_ms is None:
        return own + _worth(moment, standard_ms) - _worth(moment, standard_ms + after_ms)
    return own + _served(moment, standard_ms) - _served(moment, standard_ms + before_ms + after_ms)


def _worth(moment: Moment, response_ms: float) -> float:
    """What a response is worth after so long."""
    if moment.deadline_ms is not None:
        return float(response_ms <= moment.deadline_ms)
    if moment.threshold_ms is None or moment.baseline_ms is None:
        return 1.0
    late_ms = max(0.0, response_ms - moment.baseline_ms)
    return 1 / (1 + late_ms / (moment.threshold_ms - moment.baseline_ms))


def _served(moment: Moment, busy_ms: float) -> float:
    """What the next arrivals are worth to a pipeline that is busy for so long: one of them may wait, the next pushes
    it out."""
    standard_ms, interval_ms = moment.baseline_ms or 0.0, moment.interval_ms or 0.0
    first_ms = interval_ms if moment.slack_ms is None else moment.slack_ms
    arrivals = [0.0] * moment.queued + [first_ms + interval_ms * later for later in range(LOOK_AHEAD)]
    room, free_ms, total = max(1, moment.queued), busy_ms, 0.0
    for position, arrived_ms in enumerate(arrivals):
        start_ms = max(free_ms, arrived_ms)
        pushed_out = position + room < len(arrivals) and arrivals[position + room] < start_ms
        if not pushed_out:
            total += _worth(moment, start_ms - arrived_ms + standard_ms)
            free_ms = start_ms + standard_ms
    return total


def mutual_information(z: Tensor) -> Tensor:
    """H(mean p) - mean H, in nats: high where predictions are certain and differ."""
    mean_p = z.softmax(dim=1).mean(dim=0)
    return -(mean_p * (mean_p + torch.finfo(z.dtype).eps).log()).sum() - entropy(z).mean()


def length_of(tensors: Sequence[Tensor]) -> Tensor:
    """Of many tensors as one vector."""
    return torch.stack(torch._foreach_norm(list(tensors))).square().sum().sqrt()
