"""Pace: settle on what the stream looks like, then learn where the time that it takes is worth it.

    settle    normalise the first images with the statistics of all of them so far, and keep those (without BatchNorm:
              centre the features). Where no user waits, on the first batch at once, and back to the source if that
              explains the batch as well; where every delay costs, look at a plain prediction first.
    learn     one step of information maximisation on the norm layers, if what it may gain over the batches to come
              is more than what it costs the users: effort follows difficulty, and ends with it.
    watch     look at plain predictions now and then, of every fourth batch while it learns, which is held back: go
              back to the settled state when learning did harm, begin again when the shift changes, and learn nothing
              where a batch does not show the classes of the stream.

The score of a batch is the mutual information of predictions and samples, H(mean p) - mean H, as a share of the most
that it can be, ln of the classes or of the samples: it needs no labels, and is near the accuracy of a network that is
as certain as it should be. 1 - score is the difficulty. Statistics of one batch make a network of many classes doubt
what it gets right, so settled scores are compared as if they were at least as certain as the source's. The horizon is
not known: as many batches as were seen are expected to come, and at least a few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle, islice
from statistics import fmean

import torch
from torch import Tensor

from tempora_tta.methods import LEARNS, NO_OP, UNTIMED, Moment, Settings, register, setting
from tempora_tta.methods.functions import entropy_of, most_information, score, spread_of, without_doubt
from tempora_tta.methods.gradient import all_finite
from tempora_tta.methods.norm import norm_affine
from tempora_tta.methods.settle import GROUP, Settling

LOOK_EVERY = 4
"""Batches between two looks at what a settled network predicts: looking takes time, and a device waits for it."""
KNOWN = 0.2
"""Difficulty up to which a network knows what it sees: nothing is to be gained."""
FEWEST_TO_COME = 16
"""Batches that are always expected to come."""
GAIN_OF_SETTLING = 0.5
"""Share of the difficulty beyond KNOWN that the first batch of statistics is expected to gain in accuracy."""
GAIN_OF_BATCHES = 0.03
"""Share of the difficulty that the statistics of k times 64 images lack, times k."""
GAIN_OF_STEP = 0.02
"""Share of the difficulty beyond KNOWN that a step is expected to gain."""
GAIN_OF_LOOK = 0.001
"""Gain expected of a look, for each batch since the last."""
BLIND = 0.1
"""Cost that settling on the first batch and comparing may have, before anything is known."""
GAIN_OF_FIRST_LOOK = 0.5
"""Worth of knowing that there is a shift at all."""
MARGIN = 0.02
"""Distance by which settled statistics must score above the source's, on the same samples."""
FEWEST_SAMPLES = 8
"""Smallest batch that has statistics and a score."""
USUAL, LEAST_SIGMA = 4, 0.02
"""Batches that the usual range of scores is taken from, and the least that they are taken to differ by."""
ALIKE = 1.2
"""Largest ratio of same-class pairs within a batch to those across batches."""
UNKNOWN_COST_X = {"settling": 1.1, "compared": 0.5, "learning": 1.2, "step": 2.0, "looked": 0.02}
"""Cost of work, in Standard's time, until it was done once."""
LOOK_AHEAD = 8
"""Arrivals that the price of being busy is looked for among. Where nothing is known of them they are taken to come
back to back."""
MADE_GOOD_WITHIN, SURE_OF = 16, 0.95
"""Arrivals within which pauses make a delay good, and the share of the time between two that can be counted on."""


@dataclass(frozen=True, kw_only=True)
class PaceSettings(Settings):
    """Parts of it, and their limits.

    images: to settle on, at most. step: how much of the difficulty beyond what is usual a step would mend,
    if the score were linear in the parameters; longest: a step, relative to the length of the parameters. learn:
    whether to learn at all. gate: whether to compare with the source, to go back, and to mind the classes. alarm: how
    many standard deviations the score must leave its usual range by, twice in a row, to begin again; 0: never.
    """

    images: int = setting(256, low=0)
    step: float = setting(0.06, above=0)
    longest: float = setting(0.01, above=0)
    learn: bool = True
    gate: bool = True
    alarm: float = setting(6.0, low=0)


@register
class Pace(Settling):
    """Settles, then learns when it is worth its time."""

    name = "pace"
    label = "Pace"
    family = "gradient-based"
    modifies = ("activations", "parameters")
    time_aware = True
    state = (
        *("seen", "looked", "kept", "settling", "difficulty", "marginal", "within", "between", "samples"),
        *("spread", "velocity", "unwatched", "may_learn", "settled", "usual", "strange"),
        *("arrived_ms", "gaps_ms"),
    )
    actions = {
        "settling": LEARNS | UNTIMED,
        "compared": LEARNS,
        "looked": NO_OP,
        "step": LEARNS,
        "none": UNTIMED,
        "back": LEARNS | UNTIMED,
        "alarm": LEARNS | UNTIMED,
        "non_finite": NO_OP,
    }
    modes = ("settling", "learning", "settled")
    Settings = PaceSettings
    apart = (GROUP, FEWEST_SAMPLES)

    def setup(self) -> None:
        super().setup()
        self.trainable = norm_affine(self.model)
        self._source_state = self.copied()
        #: Of the latest batch, and between the latest ones, where arrivals are random.
        self.arrived_ms: float | None = None
        self.gaps_ms: list[float] = []
        self._begin()

    def _begin(self) -> None:
        """At the beginning of a stream, or of a new shift, with the source."""
        self.settled_on, self.centre = 0, torch.zeros_like(self.centre)
        #: False: the source explains the stream as well.
        self.settling = self.settings.images > 0
        #: Batches so far, those that were looked at, and the scores of the latest that were not.
        self.seen = self.looked = 0
        self.kept: list[Tensor] = []
        #: Running mean; None before the first look. And how far apart the scores of classes lay at the last look.
        self.difficulty: float | None = None
        self.spread = 0.0
        #: Running mean of p, and how often two samples of a batch, or of two batches, are of one class.
        self.marginal = torch.zeros(self.model.num_classes)
        self.within = self.between = 0.0
        self.samples = 0
        self.velocity = [torch.zeros_like(parameter) for parameter in self.trainable.values()]
        #: Batches since the last that was held back, counting one before the first.
        self.unwatched = LOOK_EVERY - 2
        #: False after learning did harm; and the state to go back to, once something was learned.
        self.may_learn = bool(self.settings.learn)
        self.settled: list[Tensor] | None = None
        #: Scores of the first batches, and how many of the latest lie outside their range.
        self.usual: list[float] = []
        self.strange = 0

    # Predict: learn, settle or neither.

    def predict(self, x: Tensor, moment: Moment) -> Tensor:  # type: ignore[override]
        if self.frozen:
            return self.plain(x)
        if moment.interval_ms is not None and moment.slack_ms is None:
            self._note_gap(moment.arrived_ms)
        mode = self._choose(moment) if len(x) >= FEWEST_SAMPLES else "settled"
        self.work = (mode, 0.0)
        if mode == "settled":
            output = self.plain(x)
        else:
            if mode == "learning":
                # statistics from before it learned are stale: they count as much as this batch's
                self.settled_on = min(self.settled_on, len(x))
            with torch.set_grad_enabled(mode == "learning"):
                # where the source stays its statistics are the better ones, to learn with too
                output = self.settle_on(x) if self.settling else self.logits(x)
        self.pending = (mode, x, output)
        return output.detach()

    def _note_gap(self, arrived_ms: float) -> None:
        if self.arrived_ms is not None:
            self.gaps_ms = [*self.gaps_ms[1 - LOOK_AHEAD :], arrived_ms - self.arrived_ms]
        self.arrived_ms = arrived_ms

    def _choose(self, moment: Moment) -> str:
        if self._worth_learning(moment):
            return "settled" if self._held_back else "learning"
        return "settling" if self._worth_settling(moment) else "settled"

    @property
    def _held_back(self) -> bool:
        """True if the next batch is not to be learned from, so that what was learned can be looked at."""
        return bool(self.settings.gate) and self.unwatched >= LOOK_EVERY - 1

    def _worth_learning(self, moment: Moment) -> bool:
        if not self.may_learn or not self._lack or self._few_classes:
            return False
        if self.settling and not self.settled_on:
            return False  # it is not known yet with whose statistics
        learning_ms, step_ms = self._cost(moment, "learning"), self._cost(moment, "step")
        gain = GAIN_OF_STEP * self._lack * self._to_come
        return within_budget(moment, learning_ms + step_ms) and gain > self._price(
            moment, step_ms, learning_ms
        )

    def _worth_settling(self, moment: Moment) -> bool:
        if not self.settling or self.settled_on >= self.settings.images:
            return False
        settling_ms, compare_ms = self._cost(moment, "settling"), 0.0
        if self.difficulty is None and not self.settled_on:
            gain, compare_ms = BLIND, self._cost(moment, "compared")
        elif not self.settled_on:
            gain = GAIN_OF_SETTLING * self._lack * self._to_come
        else:  # the variance of an average falls with 1 / k
            lacking = GAIN_OF_BATCHES * (0.5 if self.difficulty is None else self.difficulty)
            known = self.settled_on / GROUP
            gain = lacking / (known * (known + 1)) * self._to_come
        return (
            gain > 0
            and within_budget(moment, settling_ms)
            and gain > self._price(moment, compare_ms, settling_ms)
        )

    @property
    def _lack(self) -> float:
        """Difficulty of the stream beyond one that is known."""
        return max(0.0, (self.difficulty or 0.0) - KNOWN)

    @property
    def _to_come(self) -> int:
        return max(FEWEST_TO_COME, self.seen)

    def _cost(self, moment: Moment, work: str) -> float:
        known = moment.mode_cost_ms if work in ("settling", "learning") else moment.cost_ms
        return known.get(work, UNKNOWN_COST_X[work] * (moment.baseline_ms or 0.0))

    def _price(self, moment: Moment, adapt_ms: float, predict_ms: float | None = None) -> float:
        """Cost of adapting for so long, and of predicting, unless the prediction is out (None)."""
        plain_ms, emitted = self._plain_ms(moment), predict_ms is None
        later_ms = 0.0 if predict_ms is None else predict_ms - plain_ms
        return cost_of_delay(moment, later_ms, adapt_ms, plain_ms, emitted, self.gaps_ms)

    def _plain_ms(self, moment: Moment) -> float:
        standard_ms = moment.baseline_ms or 0.0
        return min(standard_ms, moment.mode_cost_ms.get("settled", standard_ms))

    # Adapt: compare, step, look.

    def adapt(self, moment: Moment) -> str:  # type: ignore[override]
        if self.frozen or self.pending is None:
            return "none"
        (mode, x, output), self.pending = self.pending, None
        self.seen += 1
        first = mode == "settling" and self.settled_on == len(x) and bool(self.settings.gate)
        if first and self.difficulty is not None:
            return self._compare_with_before(output)
        if mode != "settling" or self.difficulty is None:
            self.kept = [*self.kept[1 - LOOK_EVERY :], output.detach()]
        if mode == "learning":
            return self._learn(output)
        if first and self._worth_comparing(moment, len(x)):
            return self._compare(x, output)
        if len(x) >= FEWEST_SAMPLES and self._worth_looking(moment, mode):
            return self._watch()
        return "settling" if mode == "settling" else "none"

    def _worth_comparing(self, moment: Moment, size: int) -> bool:
        """Not before all of settling is paid for."""
        standard_ms, compare_ms = moment.baseline_ms or 0.0, self._cost(moment, "compared")
        all_ms = self.settings.images / size * max(0.0, self._cost(moment, "settling") - standard_ms)
        pays = within_budget(moment, standard_ms + all_ms + compare_ms)
        return pays and self._price(moment, compare_ms) <= BLIND

    def _worth_looking(self, moment: Moment, mode: str) -> bool:
        """A budget has to pay for the prediction too, which it has not yet."""
        since = self.seen - self.looked
        every = 1 if self.strange else max(1, min(self.looked, LOOK_EVERY))
        if not self.kept or (since % every and not self._held_back):
            return False
        gain = GAIN_OF_FIRST_LOOK if self.difficulty is None else GAIN_OF_LOOK * since
        if self._held_back:
            gain = max(gain, GAIN_OF_STEP * self._lack * self._to_come)
        look_ms = self._cost(moment, "looked")
        predict_ms = self._cost(moment, mode) if mode == "settling" else self._plain_ms(moment)
        pays = within_budget(moment, predict_ms + look_ms)
        return pays and gain > self._price(moment, look_ms)

    @torch.no_grad()
    def _compare(self, x: Tensor, output: Tensor) -> str:
        """Go on settling if that explains half of the batch better than the source does; else the source stays."""
        half = (len(x) + 1) // 2
        settled = self.copied()
        self.put(self._source_state)
        as_source = self.logits(x[:half])
        doubtless = without_doubt(output[:half], spread_of(as_source))
        ours, theirs = torch.stack([score(doubtless), score(as_source)]).tolist()
        if ours > theirs + MARGIN:
            self.put(settled)
        else:
            self.settling, self.settled_on, self.kept = False, 0, [as_source]
        self._unusual(self._look(plain=False))
        return "compared"

    @torch.no_grad()
    def _compare_with_before(self, output: Tensor) -> str:
        """Go on settling if that explains this batch better than the source explained those before it."""
        ours = float(score(without_doubt(output, self.spread)))
        if ours > 1 - (self.difficulty or 0.0):
            return "looked"
        self.put(self._source_state)
        self.settling, self.settled_on = False, 0
        return "back"

    def _learn(self, output: Tensor) -> str:
        self.unwatched += 1
        if self._unusual(self._look(plain=False)) and self.settings.gate:
            return self._back()
        if self.settled is None:
            self.settled = self.copied()
        return self._step(output)

    def _step(self, output: Tensor) -> str:
        """Up the score: as far as would mend a part of what lacks, if the score were linear (Polyak's step)."""
        parameters = list(self.trainable.values())
        loss = -score(output)
        gradients = torch.autograd.grad(loss, parameters)
        if not all_finite(loss, gradients):
            return "non_finite"
        with torch.no_grad():
            steep = length_of(gradients).clamp_min(1e-12)
            length = (self.settings.step * self._lack / steep).minimum(
                self.settings.longest * length_of(parameters)
            )
            torch._foreach_mul_(self.velocity, 0.9)
            torch._foreach_add_(self.velocity, torch._foreach_mul(gradients, length / steep))
            torch._foreach_sub_(parameters, self.velocity)
        return "step"

    # Watch.

    def _watch(self) -> str:
        """Look at batches that were only predicted: the shift may have changed, or learning may have done harm."""
        if not self._unusual(self._look()):
            return "looked"
        if self.settled is not None:
            return self._back()
        self.put(self._source_state)
        self._begin()
        return "alarm"

    @torch.no_grad()
    def _look(self, plain: bool = True) -> list[float]:
        """The scores of the batches since the last look, at once: the device is waited for only here.

        A batch that was normalised with its own statistics, not `plain`, hides which classes it is of.
        """
        kept = torch.stack([z for z in self.kept if len(z) == len(self.kept[-1])])
        self.kept, self.looked = [], self.seen
        samples, classes = kept.shape[1:]
        log_p = kept.log_softmax(dim=2)
        p = log_p.exp()
        sums = [(p * log_p).sum(dim=(1, 2)), p.square().sum(dim=(1, 2)), spread_of(kept)]
        together = torch.cat([p.mean(dim=1), torch.stack(sums, dim=1)], dim=1).cpu().float()
        mean_p, of_logs, of_squares, spread = together.split([classes, 1, 1, 1], dim=1)
        scores = (entropy_of(mean_p) + of_logs[:, 0] / samples) / most_information(samples, classes)
        within = ((samples * mean_p).square().sum(dim=1) - of_squares[:, 0]) / (samples * (samples - 1))
        found = torch.stack([scores, within, mean_p @ self.marginal, spread[:, 0]], dim=1)
        self.marginal = self.marginal.lerp(mean_p.mean(dim=0), max(len(kept) / self.seen, 0.05))
        rows = [row for row in found.tolist() if all(map(math.isfinite, row))]
        for one, within_one, between, spread_one in rows:
            self.spread = spread_one
            self.difficulty = (
                1 - one if self.difficulty is None else self.difficulty + (1 - one - self.difficulty) / 4
            )
            if plain and between:
                weight = 0.25 if self.between else 1.0
                self.within += weight * (within_one - self.within)
                self.between += weight * (between - self.between)
        self.unwatched = 0 if plain else self.unwatched
        self.samples = samples
        return [row[0] for row in rows]

    @property
    def _few_classes(self) -> bool:
        """True if a batch shows other classes than the stream: it says nothing about the rest. How often two samples
        are of one class is known from few pairs, where there are many classes."""
        if not self.settings.gate or not self.between:
            return False
        return self.within > (ALIKE + 2 * math.sqrt(2 / self.between) / self.samples) * self.between

    def _unusual(self, scores: Sequence[float]) -> bool:
        """True if two scores in a row lie outside the usual range. A learned state is left sooner than others, and
        never because it scores higher. First scores that fall are not usual: a range as wide as that would hold
        every shift."""
        sigmas = self.settings.alarm / (1 if self.settled is None else 2)
        for one in scores:
            away = unusual(one, self.usual, sigmas, LEAST_SIGMA) if sigmas and self.usual else 0.0
            if len(self.usual) < USUAL and away >= 0:
                self.usual = [*self.usual, one]
                continue
            strange = away < 0 or (away > 0 and self.settled is None)
            self.strange = self.strange + 1 if strange else 0
            if self.strange >= 2:
                return True
        return False

    def _back(self) -> str:
        """To the settled state, and learn no more: what is strange there too is a new shift."""
        if self.settled is not None:
            self.put(self.settled)
        self.settled, self.may_learn, self.strange = None, False, 0
        torch._foreach_zero_(self.velocity)
        return "back"


def unusual(value: float, usual: Sequence[float], sigmas: float, least: float) -> float:
    """Distance outside mean ± `sigmas` standard deviations of the usual values; negative below, 0 inside.

    least: the least that a standard deviation is taken to be.
    """
    mean = fmean(usual)
    # statistics.stdev is no quick way, and of one value nothing is known
    spread = math.dist(usual, [mean] * len(usual)) / math.sqrt(max(1, len(usual) - 1))
    away = value - mean
    return math.copysign(max(0.0, abs(away) - sigmas * max(least, spread)), away)


def length_of(tensors: Sequence[Tensor]) -> Tensor:
    """Length of many tensors as one vector."""
    return torch.stack(torch._foreach_norm(list(tensors))).square().sum().sqrt()


# What being busy costs the users of a deployment, in batches' worth of right answers.


def within_budget(moment: Moment, service_ms: float) -> bool:
    """True if a budget, where there is one, pays for a batch that takes `service_ms`."""
    if moment.budget_left_ms is None or moment.baseline_ms is None:
        return True
    return service_ms - moment.baseline_ms <= moment.budget_left_ms


def cost_of_delay(
    moment: Moment,
    before_ms: float,
    after_ms: float,
    plain_ms: float | None = None,
    emitted: bool = False,
    gaps_ms: Sequence[float] = (),
) -> float:
    """Batches' worth that is lost if this one takes longer, before and after its prediction is out.

    `plain_ms` is what a plain prediction takes, which is over where the prediction is out already (`emitted`).
    `gaps_ms` are those between the latest arrivals: where they are random, the next are taken to be like them.
    """
    if moment.baseline_ms is None:
        return 0.0  # no user waits
    if plain_ms is None:
        plain_ms = moment.baseline_ms
    before_ms, after_ms = max(0.0, before_ms), max(0.0, after_ms)
    waited_ms = moment.now_ms - moment.arrived_ms + plain_ms
    own = 0.0 if emitted else _worth(moment, waited_ms) - _worth(moment, waited_ms + before_ms)
    if moment.interval_ms is None:
        return own + _worth(moment, plain_ms) - _worth(moment, plain_ms + after_ms)
    busy_ms = 0.0 if emitted else plain_ms
    arrivals = [*[0.0] * moment.queued, *_to_come(moment, gaps_ms or [plain_ms])]
    served = _served(moment, arrivals, plain_ms, busy_ms)
    served_later = _served(moment, arrivals, plain_ms, busy_ms + before_ms + after_ms)
    return own + served - served_later + _for_good(moment, before_ms + after_ms, plain_ms)


def _for_good(moment: Moment, delay_ms: float, plain_ms: float) -> float:
    """Cost of a delay that no pause makes good. At full load it stays, and a deadline is that much nearer for all
    that follow."""
    if moment.deadline_ms is None or moment.interval_ms is None:
        return 0.0
    pause_ms = max(0.0, SURE_OF * moment.interval_ms - plain_ms)
    left_ms = max(0.0, delay_ms - MADE_GOOD_WITHIN * pause_ms)
    return left_ms / room_ms if (room_ms := _room_ms(moment)) else float(left_ms > 0)


def _room_ms(moment: Moment) -> float:
    """Delay with which a response is still in time."""
    return max(0.0, (moment.deadline_ms or 0.0) - (moment.baseline_ms or 0.0))


def _worth(moment: Moment, response_ms: float) -> float:
    """Worth of a response; near a deadline less and less, for work may take longer than it did."""
    late_ms = max(0.0, response_ms - (moment.baseline_ms or 0.0))
    if moment.deadline_ms is not None:
        room_ms = _room_ms(moment)
        return 1 - (late_ms / room_ms) ** 4 if late_ms < room_ms else float(late_ms == 0.0)
    if moment.threshold_ms is None or moment.baseline_ms is None:
        return 1.0
    return 1 / (1 + late_ms / (moment.threshold_ms - moment.baseline_ms))


def _to_come(moment: Moment, gaps_ms: Sequence[float]) -> list[float]:
    """From now on, when the next batches arrive."""
    interval_ms = moment.interval_ms or 0.0
    if moment.slack_ms is not None:
        return [moment.slack_ms + interval_ms * later for later in range(LOOK_AHEAD)]
    since_ms = moment.now_ms - moment.arrived_ms
    return [max(0.0, at_ms - since_ms) for at_ms in accumulate(islice(cycle(gaps_ms), LOOK_AHEAD))]


def _served(moment: Moment, arrivals: list[float], plain_ms: float, busy_ms: float) -> float:
    """Worth of these arrivals to a pipeline that is busy for `busy_ms`."""
    may_wait, free_ms, total = _may_wait(moment), busy_ms, 0.0
    for position, arrived_ms in enumerate(arrivals):
        start_ms = max(free_ms, arrived_ms)
        pushed_out = position + may_wait < len(arrivals) and arrivals[position + may_wait] < start_ms
        if not pushed_out:
            total += _worth(moment, start_ms - arrived_ms + plain_ms)
            free_ms = start_ms + plain_ms
    return total


def _may_wait(moment: Moment) -> int:
    """Most batches that may wait; at least one, for a fallback answers what may not."""
    return max(1, moment.queued if moment.queue is None else moment.queue)
