"""Calls into a method that may fail: what came of them, or why it is not to be asked again."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tempora_tta.engine.pipeline.scores import NotUsable, predicted, usable
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method, Moment
from tempora_tta.methods.guard import Guard, Misbehaved


def tried(
    method: Method, x: Tensor, moment: Callable[[], Moment], guard: Guard
) -> tuple[Tensor | None, str | None]:
    """The method's scores; or none of use, and why it is not to be asked again, unless it is this batch that does
    not suit it (too small, say)."""
    try:
        with guard("predict"):
            scores = predicted(method, x, moment)
        return usable(scores, len(x), method), None
    except BaseException as error:
        unsuited = isinstance(error, TemporaError) and not isinstance(error, (NotUsable, Misbehaved))
        return None, None if unsuited else reason(method, "predict", error)


def failure_of(method: Method, call: str, work: Callable[[], object], guard: Guard) -> str | None:
    """Why a method that was to freeze, say, is not to be asked again; None: it did."""
    try:
        with guard(call):
            work()
    except BaseException as error:
        return reason(method, call, error)
    return None


def reason(method: Method, call: str, error: BaseException) -> str:
    if isinstance(error, (NotUsable, Misbehaved)):
        return str(error).removeprefix(f"{method.name}: ")
    return f"{call}() raised {type(error).__name__}: {error}"
