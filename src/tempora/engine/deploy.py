"""`tempora.deploy`: from a deployment in words to a pipeline that serves it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tempora import methods
from tempora.engine.evaluate import MethodLike, method_spec
from tempora.engine.job import STANDARD, MethodSpec
from tempora.engine.pipeline import Pipeline
from tempora.engine.pipeline.beside import Beside
from tempora.engine.pipeline.live_time import LiveClock
from tempora.engine.pipeline.operator import Operator
from tempora.engine.pipeline.scores import on_host
from tempora.errors import TemporaError, unknown
from tempora.measure import choose_device
from tempora.models import Classifier, load, wrap
from tempora.scenarios import Deployment, Resolved

PROVISION_X = 1.03
"""lambda over the time of standard inference."""
BASELINE_BATCHES = 30
TOO_LONG_MS, TOO_LONG_X = 10_000.0, 100
"""A call is taken to hang after so long, or so many lambda where that is more."""
KNOBS = tuple(field.name for field in fields(Deployment))


def deploy(
    model: nn.Module | str,
    method: MethodLike = "tent",
    *,
    batch_size: int = 1,
    max_wait_ms: float = 50.0,
    baseline_ms: float | None = None,
    example: Tensor | None = None,
    too_long_ms: float | None = None,
    device: str | torch.device = "auto",
    fallback_device: str | torch.device | None = None,
    seed: int = 2025,
    source: Tensor | None = None,
    clock: LiveClock | None = None,
    **knobs: Any,
) -> Pipeline:
    """Serve a model that adapts, under the knobs of a `Deployment`.

    model: a Classifier, any network that `tempora.models.wrap` understands, or a name for `tempora.models.load`.
    method: a name, a class, or (name, settings).
    knobs: of `Deployment`: queue (1), threshold_ms or deadline_ms, budget_ms, fallback and so on. Batches arrive when
        they are submitted; an interval only tells a time-aware method what to expect.
    batch_size, max_wait_ms: single images are collected into batches of this size, or of what came within this time.
    baseline_ms: lambda; measured here, in a second or so, where a knob needs it and it is not given.
    example: a batch like those to come, for warming up; default, noise of the size that the model expects.
    too_long_ms: a method that takes longer for one batch is replaced by Standard; default, 10 s or 100 lambda.
    fallback_device: a device of its own for the fallback. Without one it answers on this pipeline (`charged`).
    source: clean unlabelled images, normalised, for methods that ask for some (EATA, FOA); used once, here.
    """
    chosen = choose_device(device)
    classifier = load(model) if isinstance(model, str) else wrap(model)
    if classifier.device != chosen:
        classifier = copy.deepcopy(classifier).to(chosen)  # the caller's stays where it is
    _check_collecting(batch_size, max_wait_ms, too_long_ms)
    deployment = _deployment(knobs, fallback_device)
    spec = method_spec(method)
    standard = methods.create(STANDARD, classifier, seed=seed)
    given = _example(classifier, standard, batch_size, example)
    if baseline_ms is None and _needs_baseline(deployment):
        baseline_ms = _measured_baseline(standard, given)
    resolved = deployment.resolve(num_batches=1, baseline_ms=baseline_ms, seed=seed)
    operator = Operator(
        methods.create(spec.name, classifier, seed=seed, source=source, **spec.settings),
        standard,
        fallback=resolved.fallback,
        beside=_beside(resolved, spec, classifier, fallback_device, seed, source),
        example=given,
        make=partial(methods.create, spec.name, standard.model, seed=seed, **spec.settings),
    )
    return Pipeline(
        operator,
        resolved,
        shape=None if given is None else tuple(given.shape[1:]),
        batch_size=batch_size,
        max_wait_ms=max_wait_ms,
        too_long_ms=too_long_ms or max(TOO_LONG_MS, TOO_LONG_X * (baseline_ms or 0.0)),
        clock=clock,
    )


def _deployment(knobs: Mapping[str, Any], fallback_device: str | torch.device | None) -> Deployment:
    for name in knobs:
        if name not in KNOBS:
            raise unknown("knob of a deployment", name, KNOBS)
    given = dict(knobs)
    if all(given.get(name) is None for name in ("arrivals", "interval_ms", "utilisation")):
        given["arrivals"] = (0.0,)  # whenever they come
    if given.get("budget_x") is not None:
        raise TemporaError(
            f"budget_x={given['budget_x']!r}: is a share of lambda times the length of a stream, and a service has "
            "none; use budget_ms or budget_baselines"
        )
    if given.get("fallback") is not None and given.get("fallback_cost") is None:
        given["fallback_cost"] = "charged" if fallback_device is None else "free"
    if given.get("fallback_cost") == "free" and fallback_device is None:
        raise TemporaError(
            "fallback_cost='free' means a device of its own: give fallback_device='cpu', or another, or leave "
            "fallback_cost out and let the fallback answer on this pipeline"
        )
    deployment = Deployment(**given)
    if deployment.has_budget and deployment.rule == "strict":
        raise TemporaError(
            "rule='strict' knows what a batch will cost before it runs, which no live system can: use "
            "rule='overshoot'"
        )
    return deployment


def _check_collecting(batch_size: int, max_wait_ms: float, too_long_ms: float | None) -> None:
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise TemporaError(f"batch_size={batch_size!r}: must be a whole number of images, 1 or above")
    for name, value in (("max_wait_ms", max_wait_ms), ("too_long_ms", too_long_ms)):
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise TemporaError(f"{name}={value!r}: must be a finite number of milliseconds above 0")


def _example(
    model: Classifier, standard: methods.Method, batch_size: int, example: Tensor | None
) -> Tensor | None:
    """A batch to warm up with; None where nobody knows what images look like."""
    if example is not None:
        return torch.as_tensor(example).detach().to(model.device, torch.float32)
    generator = torch.Generator().manual_seed(0)
    try:
        shape = model.preprocessing.input_size
        noise = torch.randn(max(2, batch_size), *shape, generator=generator).to(model.device)
        standard.predict(noise)
    except (TemporaError, RuntimeError):  # unknown, or a size that nobody set and that does not fit
        return None
    return noise


def _needs_baseline(deployment: Deployment) -> bool:
    relative = ("utilisation", "threshold_ms", "threshold_x", "deadline_x", "budget_ms", "budget_baselines")
    schedule = deployment.schedule
    return any(getattr(deployment, name) is not None for name in relative) or (
        schedule is not None and getattr(schedule, "utilisation", None) is not None
    )


def _measured_baseline(standard: methods.Method, example: Tensor | None) -> float:
    """lambda: the median of standard inference here, with a provision; answers in the processor's memory."""
    if example is None:
        raise TemporaError(
            "lambda is needed, and nobody knows what this network's images look like: give baseline_ms=, or "
            "example=, a batch like those to come"
        )
    import time

    times_ms = []
    for _ in range(BASELINE_BATCHES):
        begin = time.perf_counter_ns()
        on_host(standard.predict(example))
        times_ms.append((time.perf_counter_ns() - begin) / 1e6)
    return PROVISION_X * float(np.median(times_ms[BASELINE_BATCHES // 3 :]))


def _beside(
    resolved: Resolved,
    spec: MethodSpec,
    model: Classifier,
    device: str | torch.device | None,
    seed: int,
    source: Tensor | None,
) -> Beside | None:
    if device is None or resolved.fallback is None or resolved.waits:
        return None
    there = copy.deepcopy(model).to(choose_device(device))
    standard = methods.create(STANDARD, there, seed=seed)
    if resolved.fallback != "latest":
        return Beside(standard)
    return Beside(standard, methods.create(spec.name, there, seed=seed, source=source, **spec.settings))
