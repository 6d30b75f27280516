"""`tempora.deploy`: from a deployment in words to a pipeline that serves it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from tempora_tta.engine.job import STANDARD, MethodSpec, create_method
from tempora_tta.engine.method_specs import MethodLike, method_spec
from tempora_tta.engine.pipeline import Pipeline
from tempora_tta.engine.pipeline.live_time import LiveClock
from tempora_tta.engine.pipeline.operator import Operator
from tempora_tta.engine.rehearsal import find_example, measured_baseline
from tempora_tta.engine.runtime import EAGER
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.methods import Method
from tempora_tta.models import Classifier, load, wrap
from tempora_tta.scenarios import Deployment
from tempora_tta.scenarios.deployment import PACES
from tempora_tta.store import Evaluated
from tempora_tta.timing import choose_device

TOO_LONG_MS, TOO_LONG_X = 10_000.0, 100
"""A call is taken to hang after so long, or so many lambda where that is more."""
KNOBS = tuple(field.name for field in fields(Deployment))


@runtime_checkable
class Advised(Protocol):
    """What `Results.recommend` returns, as far as it is deployed."""

    @property
    def method(self) -> str | None: ...

    @property
    def evaluated(self) -> Evaluated | None: ...


@torch.inference_mode(False)  # what is made inside of it could never learn
def deploy(
    model: nn.Module | str,
    method: MethodLike | Advised = "pace",
    *,
    batch_size: int | None = None,
    max_wait_ms: float = 50.0,
    baseline_ms: float | None = None,
    example: Tensor | None = None,
    too_long_ms: float | None = None,
    device: str | torch.device = "auto",
    seed: int = 2025,
    source: Tensor | None = None,
    clock: LiveClock | None = None,
    **knobs: Any,
) -> Pipeline:
    """Serve a model that adapts, under the knobs of a `Deployment`.

    model: a Classifier, any network that `models.wrap` understands, or a name for `models.load`.
    method: a name, a class, (name, settings), or what `results.recommend(...)` advised, as it was evaluated: with its
        settings, preset and runtime.
    knobs: of `Deployment`: queue (1), threshold_ms or deadline_ms, budget_ms, fallback and so on. Batches arrive when
        they are submitted; an interval only tells a time-aware method what to expect.
    batch_size, max_wait_ms: single images are collected into batches of this size, or of what came within this time.
    baseline_ms: lambda; measured here on the example, in a second or so, where a knob or a time-aware method needs it
        and it is not given.
    example: a batch like those to come, for warming up and for lambda. Without it that is noise: `batch_size` images,
        or two, of the size that the model names. A model that names none is not warmed up.
    too_long_ms: a method that takes longer for one batch is replaced by Standard; default, 10 s or 100 lambda.
    source: clean unlabelled images, normalised, for methods that ask for some (EATA, FOA); used once, here.
    """
    chosen = choose_device(device)
    classifier = _classifier(model, chosen)
    _check_numbers(batch_size, max_wait_ms, too_long_ms, seed)
    deployment = _deployment(knobs)
    maker = _maker(method, seed, source)
    made, eager = maker.make(classifier), create_method(MethodSpec(STANDARD), classifier, seed)
    found = find_example(classifier, eager, batch_size, example)
    measured = baseline_ms is None and (made.time_aware or _needs_baseline(deployment))
    if measured:
        baseline_ms = _measured_on(found.x, eager)
    resolved = deployment.resolve(
        num_batches=1, batch_size=batch_size or 1, baseline_ms=baseline_ms, seed=seed
    )
    return Pipeline(
        Operator(
            made,
            eager if maker.spec.runtime == EAGER else maker.standard(classifier),
            fallback=resolved.fallback,
            example=found.x,
            make=lambda: replace(maker, source=None).make(eager.model),  # clean images are not kept
        ),
        resolved,
        shape=found.shape,
        measured_on=len(found.x) if found.x is not None and (measured or made.time_aware) else None,
        batch_size=batch_size or 1,
        max_wait_ms=max_wait_ms,
        too_long_ms=too_long_ms or max(TOO_LONG_MS, TOO_LONG_X * (resolved.baseline_ms or 0.0)),
        clock=clock,
    )


@dataclass(frozen=True)
class _Maker:
    """Makes the method of a deployment, and Standard in its runtime."""

    spec: MethodSpec
    preset: str | None
    seed: int
    source: Tensor | None

    def make(self, model: Classifier) -> Method:
        return create_method(self.spec, model, self.seed, preset=self.preset, source=self.source)

    def standard(self, model: Classifier) -> Method:
        return create_method(MethodSpec(STANDARD).under(self.spec.runtime), model, self.seed)


def _maker(method: MethodLike | Advised, seed: int, source: Tensor | None) -> _Maker:
    source = source.clone() if isinstance(source, Tensor) else source
    if not isinstance(method, Advised):
        return _Maker(method_spec(method), None, seed, source)
    made = method.evaluated
    if method.method is None:
        raise TemporaError(
            "the answer names no method: ask again with looser limits, or give a method by name"
        )
    if made is None:
        raise TemporaError(
            f"the advice is {method.method}, and its run does not say how that was made: give the method as a name, "
            "a class, or (name, settings)"
        )
    return _Maker(
        MethodSpec(made.name, made.settings, method.method, runtime=made.runtime), made.preset, seed, source
    )


def _classifier(model: nn.Module | str, device: torch.device) -> Classifier:
    if not isinstance(model, (str, nn.Module)):
        raise TemporaError(f"model={model!r:.60}: must be a network (nn.Module) or the name of one")
    classifier = load(model) if isinstance(model, str) else wrap(model)
    # the caller's stays where it is
    return classifier if classifier.device == device else copy.deepcopy(classifier).to(device)


def _deployment(knobs: Mapping[str, Any]) -> Deployment:
    for name in knobs:
        if name not in KNOBS:
            raise unknown("knob of a deployment", name, KNOBS)
    given = dict(knobs)
    if all(given.get(name) is None for name in PACES):
        given["arrivals"] = (0.0,)  # whenever they come
    if given.get("budget_x") is not None:
        raise TemporaError(
            f"budget_x={given['budget_x']!r}: is a share of lambda times the length of a stream, and a service has "
            "none; use budget_ms or budget_baselines"
        )
    if given.get("fallback") is not None and given.get("fallback_cost") is None:
        given["fallback_cost"] = "charged"
    if given.get("fallback_cost") == "free":
        raise TemporaError(
            "fallback_cost='free' can be simulated, not served: leave it out, and the fallback answers on this "
            "pipeline (charged)"
        )
    deployment = Deployment(**given)
    if deployment.has_budget and deployment.rule == "strict":
        raise TemporaError(
            "rule='strict' knows what a batch will cost before it runs, which no live system can: use "
            "rule='overshoot'"
        )
    return deployment


def _check_numbers(batch_size: int | None, max_wait_ms: float, too_long_ms: float | None, seed: int) -> None:
    if batch_size is not None and (not _is_whole(batch_size) or batch_size < 1):
        raise TemporaError(f"batch_size={batch_size!r}: must be a whole number of images, 1 or above")
    if not _is_whole(seed):
        raise TemporaError(f"seed={seed!r}: must be a whole number")
    for name, value in (("max_wait_ms", max_wait_ms), ("too_long_ms", too_long_ms)):
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise TemporaError(f"{name}={value!r}: must be a finite number of milliseconds above 0")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _measured_on(example: Tensor | None, standard: Method) -> float:
    if example is None:
        raise TemporaError(
            "lambda is needed, and this network does not say what its images look like: give baseline_ms=, or "
            "example=, a batch like those to come"
        )
    return measured_baseline(standard, example)


def _needs_baseline(deployment: Deployment) -> bool:
    relative = ("utilisation", "threshold_ms", "threshold_x", "deadline_x", "budget_ms", "budget_baselines")
    schedule = deployment.schedule
    return any(getattr(deployment, name) is not None for name in relative) or (
        schedule is not None and getattr(schedule, "utilisation", None) is not None
    )
