"""What a piece of work took from its device besides time: memory and energy."""

from __future__ import annotations

import torch

from tempora_tta.measure.device import peak_memory_bytes, reset_peak_memory
from tempora_tta.measure.energy import energy_joules


class Spent:
    """Looks at the device's counters when entered and when left. None: nobody counts there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.peak_memory_bytes: int | None = None
        self.energy_joules: float | None = None

    def __enter__(self) -> Spent:
        reset_peak_memory(self._device)
        self._joules = energy_joules(self._device)
        return self

    def __exit__(self, *_: object) -> None:
        self.peak_memory_bytes = peak_memory_bytes(self._device)
        joules = energy_joules(self._device)
        if joules is not None and self._joules is not None and joules >= self._joules:  # some counters wrap
            self.energy_joules = joules - self._joules
