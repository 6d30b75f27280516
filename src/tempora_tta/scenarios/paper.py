"""The paper's scenarios, each a deployment with one knob turned, scored by what its protocol needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from tempora_tta.scenarios import _validate as check
from tempora_tta.scenarios._validate import FloatArray
from tempora_tta.scenarios.cards import ScenarioCard
from tempora_tta.scenarios.course import Score
from tempora_tta.scenarios.deployment import Deployment, Scenario, _percent, budget_label, threshold_label


@dataclass(frozen=True, kw_only=True)
class Offline(Scenario):
    """Unlimited time: the stream waits, nothing decays, nothing runs out. Utility is accuracy."""

    protocol: ClassVar[str] = "offline"
    parameter: ClassVar[str] = ""
    card = ScenarioCard(
        title="Offline",
        situation="Nothing presses",
        story="the stream waits for adaptation",
        terms=("accuracy",),
        sentences=("gets {accuracy:.1%} right",),
        pace="gets {accuracy:.0%} right",
        place=0,
        reference=True,
    )

    @property
    def label(self) -> str:
        return "offline"

    def deployment(self) -> Deployment:
        return Deployment(arrivals="on_completion")

    def score(self, *, accuracy: ArrayLike) -> Score:
        """
        >>> Offline().score(accuracy=[0.5, 1.0]).utility
        0.75
        """
        return self.deployment().score(accuracy=accuracy, predict_ms=0.0)


@dataclass(frozen=True, kw_only=True)
class Discrete(Scenario):
    """Environment-led: a batch arrives every `interval_ms` = lambda / `utilisation`, ready or not."""

    protocol: ClassVar[str] = "discrete"
    parameter: ClassVar[str] = "interval_ms"
    card = ScenarioCard(
        title="Discrete",
        situation="Batches arrive on a clock",
        story="batches arrive on a clock; late ones are skipped",
        knob="A batch every",
        symbol="γ",
        axis="Arrival interval γ (ms)",
        terms=("availability", "served_batches", "served_accuracy"),
        sentences=("serves {availability:.1%} of the batches and gets {served_accuracy:.1%} of them right",),
        pace="serves {availability:.0%} of the batches",
        place=1,
    )

    interval_ms: float | None = None
    utilisation: float | None = None
    queue: int = 1
    name: str | None = None
    """Replaces the label; the paper calls 70.7 % utilisation 70 %."""

    def __post_init__(self) -> None:
        check.exactly_one("Discrete", interval_ms=self.interval_ms, utilisation=self.utilisation)
        check.name(self.name)
        self.deployment()

    @property
    def label(self) -> str:
        if self.name is not None:
            return self.name
        return f"ρ {_percent(self.utilisation)}" if self.utilisation else f"γ {self.interval_ms:g} ms"

    def deployment(self) -> Deployment:
        return Deployment(interval_ms=self.interval_ms, utilisation=self.utilisation, queue=self.queue)

    def score(self, *, accuracy: ArrayLike, service_ms: ArrayLike, baseline_ms: float | None = None) -> Score:
        """Replay a history-free method. Where the prediction falls within the service is not known here, so
        the course's response counts the whole of it; `Deployment.score` takes both parts.

        >>> score = Discrete(interval_ms=40).score(accuracy=[0.5, 0.5, 0.5, 0.5], service_ms=100)
        >>> score.utility, score.terms["availability"]
        (0.375, 0.75)
        """
        services = _services(accuracy, service_ms)
        return self.deployment().score(accuracy=accuracy, predict_ms=services, baseline_ms=baseline_ms)


@dataclass(frozen=True, kw_only=True)
class Continuous(Scenario):
    """User-led: the next batch comes with each prediction, and value halves at the threshold."""

    protocol: ClassVar[str] = "continuous"
    parameter: ClassVar[str] = "threshold_ms"
    card = ScenarioCard(
        title="Continuous",
        situation="A user waits for answers",
        story="the next batch comes with each prediction",
        knob="Value halves after",
        symbol="T",
        axis="Patience threshold T (ms)",
        terms=("accuracy", "responsiveness", "covariance"),
        factor="responsiveness",
        sentences=("is right in {accuracy:.1%} and its answers keep {responsiveness:.1%} of their value",),
        pace="keeps {responsiveness:.0%} of its answers' value",
        place=2,
    )

    threshold_ms: float | None = None
    threshold_x: float | None = None
    name: str | None = None
    """Replaces the label."""

    def __post_init__(self) -> None:
        check.exactly_one("Continuous", threshold_ms=self.threshold_ms, threshold_x=self.threshold_x)
        check.name(self.name)
        self.deployment()

    @property
    def label(self) -> str:
        return self.name or threshold_label(self.threshold_ms, self.threshold_x) or ""

    def deployment(self) -> Deployment:
        return Deployment(
            arrivals="on_prediction", threshold_ms=self.threshold_ms, threshold_x=self.threshold_x
        )

    def score(
        self, *, accuracy: ArrayLike, predict_ms: ArrayLike, adapt_ms: ArrayLike, baseline_ms: float
    ) -> Score:
        """
        >>> score = Continuous(threshold_ms=100).score(
        ...     accuracy=[0.5, 0.5], predict_ms=40, adapt_ms=60, baseline_ms=40)
        >>> score.utility, score.terms["responsiveness"]
        (0.375, 0.75)
        """
        return self.deployment().score(
            accuracy=accuracy, predict_ms=predict_ms, adapt_ms=adapt_ms, baseline_ms=baseline_ms
        )


@dataclass(frozen=True, kw_only=True)
class Amortised(Scenario):
    """Resource-led: adapt until the overhead budget is spent, then freeze.

    `strict` is the paper's equation with costs clipped at 0; the published tables follow `overshoot`.
    """

    protocol: ClassVar[str] = "amortised"
    parameter: ClassVar[str] = "budget_ms"
    card = ScenarioCard(
        title="Amortised",
        situation="Overhead is budgeted",
        story="adapts until the budget is spent, then frozen",
        knob="Overhead budget",
        symbol="B",
        axis="Overhead budget B (ms)",
        terms=("adapted_fraction", "adapt_accuracy", "frozen_accuracy"),
        factor="cutoff",
        sentences=(
            "adapts on {adapted_fraction:.1%} of the batches ({adapt_accuracy:.1%} right) and predicts the rest "
            "frozen ({frozen_accuracy:.1%} right)",
            "adapts on {adapted_fraction:.1%} of the batches and predicts the rest frozen "
            "({frozen_accuracy:.1%} right)",
            "adapts to the end within the budget and gets {accuracy:.1%} right",
        ),
        pace="adapts on {adapted_fraction:.0%} of the stream",
        place=3,
    )

    budget_ms: float | None = None
    budget_x: float | None = None
    budget_baselines: float | None = None
    rule: str = "strict"
    name: str | None = None
    """Replaces the label."""

    def __post_init__(self) -> None:
        check.name(self.name)
        check.exactly_one(
            "Amortised",
            budget_ms=self.budget_ms,
            budget_x=self.budget_x,
            budget_baselines=self.budget_baselines,
        )
        self.deployment()

    @property
    def label(self) -> str:
        return self.name or budget_label(self.budget_ms, self.budget_x, self.budget_baselines) or ""

    def deployment(self) -> Deployment:
        return Deployment(
            arrivals="on_completion",
            budget_ms=self.budget_ms,
            budget_x=self.budget_x,
            budget_baselines=self.budget_baselines,
            rule=self.rule,
        )

    def score(
        self,
        *,
        accuracy: ArrayLike,
        frozen_accuracy: ArrayLike | None = None,
        service_ms: ArrayLike,
        baseline_ms: float,
    ) -> Score:
        """`frozen_accuracy` is read from the cut-off on: what the model frozen there predicts.

        >>> score = Amortised(budget_ms=100).score(
        ...     accuracy=[0.5] * 4, frozen_accuracy=[0.25] * 4, service_ms=100, baseline_ms=40)
        >>> score.utility, score.terms["cutoff"]
        (0.3125, 1)
        """
        return self.deployment().score(
            accuracy=accuracy,
            predict_ms=_services(accuracy, service_ms),
            frozen_accuracy=frozen_accuracy,
            baseline_ms=baseline_ms,
        )


def _services(accuracy: ArrayLike, service_ms: ArrayLike) -> FloatArray:
    """Checked under the name that the caller gave them."""
    return check.times("service_ms", service_ms, check.series("accuracy", accuracy).size)
