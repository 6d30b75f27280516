"""What a prediction of the pipeline is: scores that a client can use, or why there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempora_tta.engine.pipeline.requests import Request
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.contract import checked_scores

NOT_FINITE = TemporaError("submit() was given NaN or infinite values: check how the images were normalised")


@dataclass(frozen=True)
class Refused:
    """Nobody could answer, not even Standard: it is the request that is wrong."""

    error: TemporaError


@dataclass
class Outcome:
    """How a batch was answered."""

    scores: Tensor | Refused
    phase: str
    """adapt, frozen or fallback."""
    adapts: bool = False
    """adapt() is to follow; a method that froze itself is asked, too, as in a run."""
    by_standard: bool = False
    """Standard stood in for the method."""
    by_method: bool = False
    """The scores are the method's own."""
    failure: str | None = None
    """Why the method is not to be asked again."""
    refused: list[Request] = field(default_factory=list)
    """Requests of the batch that were not among those predicted."""


class NotUsable(TemporaError):
    """Scores that no client could use."""


def predicted(method: Method, x: Tensor, moment: Callable[[], Moment]) -> Any:
    """What predict() returns, which a time-aware method is told the moment for."""
    predict: Any = method.predict
    return predict(x, moment()) if method.time_aware else predict(x)


def usable(scores: object, samples: int, method: Method) -> Tensor:
    """Scores in the processor's memory, if they are those of a run: a row per image, a column per class; and each
    row has a best class."""
    try:
        found = on_host(checked_scores(method.name, scores, samples, method.model.num_classes))
    except TemporaError as error:
        raise NotUsable(str(error).removeprefix(f"{method.name}: ")) from None
    if not have_a_best_class(found):
        raise NotUsable("its scores are not finite")
    return found


def have_a_best_class(scores: Tensor) -> bool:
    """Whether the best score of every row is finite; -inf rules classes out, and may.

    Of scores in the processor's memory, by numpy, in this thread: torch would wake a thread per core for it, and they
    would be in the way of what comes next.
    """
    values = (scores.float() if scores.dtype == torch.bfloat16 else scores).numpy()
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(values.max(axis=1)).all())


def on_host(scores: Tensor) -> Tensor:
    """Waits until the device has them."""
    return scores.detach().to("cpu", copy=True)


def cannot_take(error: BaseException) -> TemporaError:
    if isinstance(error, TemporaError) and not isinstance(error, NotUsable):
        return error
    return TemporaError(f"the network cannot answer this batch: {type(error).__name__}: {error}")
