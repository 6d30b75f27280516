"""`tempora.deploy`: from a deployment in words to a pipeline that serves it."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from tempora_tta._tensors import described, is_plain
from tempora_tta.config import PROVISION_X
from tempora_tta.engine.job import STANDARD, MethodSpec, create_method
from tempora_tta.engine.method_specs import MethodLike, method_spec
from tempora_tta.engine.runtime import EAGER
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.methods import Method
from tempora_tta.models import Classifier, check_input, load, wrap
from tempora_tta.scenarios import Deployment, Resolved
from tempora_tta.scenarios.deployment import AT_ONCE, PACES
from tempora_tta.serving.answerer import on_host
from tempora_tta.serving.clock import LiveClock
from tempora_tta.serving.pipeline import Pipeline
from tempora_tta.serving.requests import all_finite
from tempora_tta.store import Evaluated
from tempora_tta.timing import choose_device

TOO_LONG_MS, TOO_LONG_X = 10_000.0, 100
"""A batch takes too long after these milliseconds, or this multiple of lambda, if that is more."""
BASELINE_BATCHES, FEWEST_BATCHES, BASELINE_S = 30, 3, 2.0
"""Batches that lambda is measured on; or as many as fit into these seconds, and at least a few."""
ADVISED = ("fps", "cameras", "deadline_ms", "threshold_ms", "answer")
"""Knobs that an answer about frames brings along."""
KNOBS = tuple(field.name for field in fields(Deployment))


@runtime_checkable
class Advised(Protocol):
    """An answer of `Results.recommend`, as far as it is deployed."""

    @property
    def method(self) -> str | None: ...

    @property
    def evaluated(self) -> Evaluated | None: ...

    @property
    def setting(self) -> Mapping[str, Any]: ...


@torch.inference_mode(False)  # what is made inside of it could never learn
def deploy(
    model: nn.Module | str,
    method: MethodLike | Advised = "pace",
    *,
    batch_size: int | None = None,
    max_wait_ms: float | None = None,
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

    Args:
        model: a Classifier, any network that `models.wrap` understands, or a name for `models.load`.
        method: a name, a class, (name, settings), or what `results.recommend(...)` advised, as it was
            evaluated: with its settings, preset and runtime, and, of frames, their pace, deadline and batch
            size, where these are not given here.
        **knobs: of `Deployment`: queue (1), threshold_ms or deadline_ms, budget_ms, fallback and so on.
            Batches arrive when they are submitted; an interval only tells a time-aware method what to
            expect.
        batch_size: single images are collected into batches of this size; with answer="at_once" each is answered
            as it comes, and this many are learned from together (64).
        max_wait_ms: longest time that an image waits for the rest of its batch; default, as long as the
            deadline or threshold leaves it, or, without one, the interval of batches (`fps` says it).
        baseline_ms: lambda; measured here on the example, in a second or so, where a knob or a time-aware
            method needs it and it is not given.
        example: a batch like those to come, for warming up and for lambda. Without it that is noise:
            `batch_size` images, or two, of the size that the model names. A model that names none is not
            warmed up.
        too_long_ms: a method that takes longer for one batch is replaced by Standard; default, 10 s or 100
            lambda.
        source: clean unlabelled images, normalised, for methods that ask for some (EATA, FOA); used once,
            here.
    """
    _check_numbers(batch_size, max_wait_ms, too_long_ms, seed)
    batch_size, knobs = _as_advised(method, batch_size, knobs)
    deployment = _deployment(knobs)
    spec, preset = _spec(method)
    if at_once := deployment.at_once:
        if max_wait_ms is not None:
            raise TemporaError("max_wait_ms with answer='at_once': no frame waits for others; leave it out")
        deployment = replace(deployment, batch_size=batch_size)
        at_once, batch_size = deployment.at_once, None
        spec = replace(spec, at_once=at_once)
    classifier = _classifier(model, choose_device(device))
    served = create_method(
        spec,
        classifier,
        seed,
        preset=preset,
        source=source.clone()
        if isinstance(source, Tensor)
        else source,  # the caller's may be of inference mode
    )
    eager = create_method(MethodSpec(STANDARD), classifier, seed)
    x = _noise(eager, at_once or batch_size or 2) if example is None else _checked(example, eager)
    one = x if x is None or not at_once else x[:1]  # lambda is that of a frame
    collects = batch_size is not None and batch_size > 1
    waits_by_deadline = collects and max_wait_ms is None and deployment.deadline_ms is not None
    measured = baseline_ms is None and (served.time_aware or waits_by_deadline or _needs_baseline(deployment))
    if measured:
        baseline_ms = _measured_baseline(eager, one)
    resolved = deployment.resolve(
        num_batches=1, batch_size=batch_size or 1, baseline_ms=baseline_ms, seed=seed
    )
    standard = eager
    if spec.runtime != EAGER:
        standard = create_method(MethodSpec(STANDARD).under(spec.runtime), classifier, seed)
    return Pipeline(
        served,
        standard,
        resolved,
        example=x if x is None or not at_once else _so_many(x, at_once),
        # The size that a network names is only the usual one: the first answer shows the shape.
        shape=None if example is None or x is None else tuple(x.shape[1:]),
        measured_on=len(one) if one is not None and (measured or served.time_aware) else None,
        batch_size=batch_size or 1,
        max_wait_ms=_longest_wait_ms(resolved) if collects and max_wait_ms is None else max_wait_ms or 0.0,
        too_long_ms=too_long_ms or longest_ms(resolved.baseline_ms),
        clock=clock,
    )


def _as_advised(
    method: object, batch_size: int | None, knobs: Mapping[str, Any]
) -> tuple[int | None, dict[str, Any]]:
    """The batch size and the knobs that an answer about frames was for, where the user gives none."""
    setting = method.setting if isinstance(method, Advised) else {}
    if not setting.get("fps"):
        return batch_size, dict(knobs)
    advised = {name: setting[name] for name in ADVISED if setting.get(name) is not None}
    for alternatives in (PACES, ("deadline_ms", "deadline_x", "threshold_ms", "threshold_x")):
        if any(knobs.get(name) is not None for name in alternatives):
            advised = {name: value for name, value in advised.items() if name not in alternatives}
    if "fps" not in {**advised, **knobs}:
        advised.pop("cameras", None)
    evaluated = setting.get("at_once") if {**advised, **knobs}.get("answer") == AT_ONCE else None
    return batch_size or int(evaluated or setting["batch_size"]), {**advised, **knobs}


def _so_many(x: Tensor, count: int) -> Tensor:
    """As many images, these again and again."""
    return x.repeat(-(-count // len(x)), 1, 1, 1)[:count]


def _longest_wait_ms(resolved: Resolved) -> float:
    """Milliseconds that a deadline leaves an image for the rest of its batch, less an answer and the end of the batch
    in hand; without a deadline, those in which a batch comes."""
    limit_ms = min(resolved.deadline_ms, resolved.threshold_ms)
    if math.isfinite(limit_ms):
        return max(0.0, limit_ms - 2 * (resolved.baseline_ms or 0.0))
    if resolved.interval_ms is None:
        raise TemporaError(
            "batch_size= without a pace or a deadline: say how long an image may wait for the rest of its batch, "
            "deadline_ms=200, fps=30 or max_wait_ms=50"
        )
    return resolved.interval_ms


def longest_ms(baseline_ms: float | None) -> float:
    """Milliseconds after which a batch has taken too long."""
    return max(TOO_LONG_MS, TOO_LONG_X * (baseline_ms or 0.0))


def _spec(method: MethodLike | Advised) -> tuple[MethodSpec, str | None]:
    """The method, and the preset that an advice was evaluated with."""
    if not isinstance(method, Advised):
        return method_spec(method), None
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
    return MethodSpec(made.name, made.settings, method.method, runtime=made.runtime), made.preset


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


def _check_numbers(
    batch_size: int | None, max_wait_ms: float | None, too_long_ms: float | None, seed: int
) -> None:
    if batch_size is not None and (not _is_whole(batch_size) or batch_size < 1):
        raise TemporaError(f"batch_size={batch_size!r}: must be a whole number of images, 1 or above")
    if not _is_whole(seed):
        raise TemporaError(f"seed={seed!r}: must be a whole number")
    for name, value in (("max_wait_ms", max_wait_ms), ("too_long_ms", too_long_ms)):
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise TemporaError(f"{name}={value!r}: must be a finite number of milliseconds above 0")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _checked(example: Any, standard: Method) -> Tensor:
    """The user's example, on the device."""
    try:
        x = torch.as_tensor(example).detach()
    except (TypeError, ValueError, RuntimeError):
        raise TemporaError(
            f"example={example!r:.60}: must be a batch of normalised images (n, channels, height, width)"
        ) from None
    if not is_plain(x) or not x.is_floating_point() or x.ndim != 4 or 0 in x.shape:
        raise TemporaError(
            f"example= is {described(x)}: give a batch of normalised images (n, channels, height, width), dense and "
            "float32, like those to come; one image is example=image[None]"
        )
    x = x.to(standard.model.device, torch.float32, copy=True)
    if not all_finite(x):
        raise TemporaError("example= holds NaN or infinite values: check how the images were normalised")
    check_input(standard.model, x.shape[1:])
    try:
        standard.predict(x)
    except RuntimeError as error:
        raise TemporaError(
            f"the network cannot answer example= ({error}): give a batch like those to come"
        ) from None
    return x


def _noise(standard: Method, size: int) -> Tensor | None:
    """Images of the size that the network names; None: it names none, or none that it takes."""
    model, generator = standard.model, torch.Generator().manual_seed(0)
    try:
        x = torch.randn(size, *model.preprocessing.image_shape, generator=generator).to(model.device)
        standard.predict(x)
    except (TemporaError, RuntimeError, AssertionError):
        if model.dtype == torch.float32:
            return None
        kind = str(model.dtype).removeprefix("torch.")
        raise TemporaError(
            f"{model.name}: its weights are {kind}, but images come as float32: give network.float()"
        ) from None
    return x


def _needs_baseline(deployment: Deployment) -> bool:
    relative = ("utilisation", "threshold_ms", "threshold_x", "deadline_x", "budget_ms", "budget_baselines")
    schedule = deployment.schedule
    return any(getattr(deployment, name) is not None for name in relative) or (
        schedule is not None and getattr(schedule, "utilisation", None) is not None
    )


def _measured_baseline(standard: Method, example: Tensor | None) -> float:
    """lambda: the median of standard inference here, with a provision; answers in the processor's memory."""
    if example is None:
        raise TemporaError(
            "lambda is needed, and the size of this network's images is unknown: pass baseline_ms=, or example=, a "
            "batch like those to come"
        )
    times_ms: list[float] = []
    for done in range(BASELINE_BATCHES):
        if done >= FEWEST_BATCHES and sum(times_ms) > 1000 * BASELINE_S:
            break
        begin = time.perf_counter_ns()
        on_host(standard.predict(example))
        times_ms.append((time.perf_counter_ns() - begin) / 1e6)
    return PROVISION_X * float(np.median(times_ms[len(times_ms) // 3 :]))
