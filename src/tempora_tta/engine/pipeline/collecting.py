"""Single images, collected into batches."""

from __future__ import annotations

import math

from tempora_tta.engine.pipeline.requests import Request


class Collector:
    """Keeps images until they make a batch, or until the first of them has waited long enough.

    Not safe for threads: the pipeline calls it under its lock.
    """

    def __init__(self, batch_size: int, max_wait_ms: float) -> None:
        self._batch_size, self._max_wait_ms = batch_size, max_wait_ms
        self._images: list[Request] = []
        self.due_ms = math.inf
        """When what is there is offered, full or not."""

    def __len__(self) -> int:
        return len(self._images)

    @property
    def is_full(self) -> bool:
        return len(self._images) >= self._batch_size

    def wants(self, request: Request) -> bool:
        return request.single and self._batch_size > 1

    def fits(self, request: Request) -> bool:
        """Whether it can be in one batch with what is there: until an image was answered, nobody knows which shape is
        right."""
        return not self._images or self._images[0].shape == request.shape

    def add(self, request: Request, now_ms: float) -> None:
        if not self._images:
            self.due_ms = now_ms + self._max_wait_ms
        self._images.append(request)

    def take(self) -> list[Request]:
        """What was collected; the next image begins another batch."""
        images, self._images, self.due_ms = self._images, [], math.inf
        return images
