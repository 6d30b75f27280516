"""How requests end: answered, dropped or refused, each once, and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempora_tta._tensors import is_plain
from tempora_tta.engine.pipeline.requests import Request, Response, Unit
from tempora_tta.engine.pipeline.scores import NOT_FINITE, Outcome, Refused
from tempora_tta.engine.pipeline.tally import Tally
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios.utility import Value


class Replies:
    """Ends requests and keeps the tally. Not safe for threads: the pipeline calls it under its lock."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.tally = Tally()

    def emit(self, unit: Unit, outcome: Outcome, emission_ms: float) -> None:
        """The answers of a batch go out."""
        place = 0
        for request in unit.requests:
            if isinstance(outcome.scores, Refused):
                self.refuse(request, outcome.scores.error)
            elif request in outcome.refused:
                self.refuse(request, NOT_FINITE)
            else:
                self._answer(request, outcome.scores[place : place + request.size], outcome, emission_ms)
                place += request.size

    def drop(self, *requests: Request) -> None:
        for request in requests:
            self.tally.dropped()
            self._end(request, Response(None, dropped=True, response_ms=None))

    def refuse(self, request: Request, error: Exception) -> None:
        self.tally.refused()
        request.x = None
        request.refuse(error)

    def label(self, request: Request, truth: Tensor) -> None:
        """What was right: counts now, or when the answer goes out."""
        if request.label is not None:
            raise TemporaError("this request has its label already: label it once")
        if request.done():
            self._score(request, truth)
        request.label = truth

    def _answer(self, request: Request, scores: Tensor, outcome: Outcome, emission_ms: float) -> None:
        response_ms = emission_ms - request.submitted_ms
        request.kappa = float(self.value.kappa(np.array([response_ms]))[0])
        request.adapted, fallback = outcome.phase == "adapt", outcome.phase == "fallback"
        self.tally.answered(response_ms, request.kappa, request.adapted, fallback, outcome.by_standard)
        self._end(request, Response(scores[0] if request.single else scores, False, response_ms, fallback))

    def _end(self, request: Request, response: Response) -> None:
        request.x = None
        request.answer(response)
        if request.label is not None:
            self._score(request, request.label)

    def _score(self, request: Request, truth: Tensor) -> None:
        answer = None if request.exception() is not None else request.result()
        if answer is None or answer.scores is None:
            return
        predicted = answer.scores.argmax(dim=-1).reshape(-1)
        accuracy = float((predicted == truth).double().mean())
        self.tally.labelled(accuracy, request.kappa, request.adapted, answer.fallback)


def classes(y: Any, images: int, num_classes: int) -> Tensor:
    """What a user says was right, as one class per image."""
    try:
        truth = torch.as_tensor(y).detach().cpu().reshape(-1)
    except (TypeError, ValueError, RuntimeError):
        raise TemporaError(
            f"label() was given a {type(y).__name__}: give a class, or one per image"
        ) from None
    if truth.numel() != images:
        raise TemporaError(
            f"label() was given {truth.numel()} classes for {images} images: give one per image"
        )
    whole = is_plain(truth) and truth.dtype != torch.bool
    whole = whole and not (truth.is_floating_point() or truth.is_complex())
    if not whole or bool(((truth.long() < 0) | (truth.long() >= num_classes)).any()):
        raise TemporaError(
            f"label() was given {y!r:.60}: a class is a whole number from 0 to {num_classes - 1}"
        )
    return truth.long()
