"""A pipeline that is called like a network."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from tempora_tta.engine.pipeline.requests import Request
from tempora_tta.errors import TemporaError


class Facade(nn.Module):
    """For code that calls `model(x)`: waits for the answer and returns its scores."""

    def __init__(self, submit: Callable[[Tensor], Request]) -> None:
        super().__init__()
        self._submit = submit

    def forward(self, x: Tensor) -> Tensor:
        answer = self._submit(x).result()
        if answer.scores is None:
            raise TemporaError(
                "the pipeline dropped this batch: more come than it can serve. Call submit() to be told, or give it "
                "a longer queue or a fallback"
            )
        return answer.scores.to(x.device)
