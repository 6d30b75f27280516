"""RDumb (Press et al., 2023): ETA that starts over now and then, so that it cannot collapse."""

from __future__ import annotations

from dataclasses import dataclass

from tempora_tta.methods import NO_OP, register, setting
from tempora_tta.methods.eta import ETA, ETASettings


@dataclass(frozen=True, kw_only=True)
class RDumbSettings(ETASettings):
    """reset_every: batches from one fresh start to the next; on shorter streams it is ETA exactly."""

    reset_every: int = setting(1000, low=1)


@register
class RDumb(ETA):
    """ETA; every 1000th adapt() is a full reset instead of a step."""

    name = "rdumb"
    label = "RDumb"
    Settings = RDumbSettings
    state = ("count",)
    actions = {**ETA.actions, "recovered": NO_OP}

    def setup(self) -> None:
        super().setup()
        self.count = 0

    @property
    def resets_next(self) -> bool:
        """True if the next adapt() starts over; what that batch would teach is lost, so it is not learned."""
        reset_every: int = self.settings.reset_every
        return self.count + 1 >= reset_every

    @property
    def keeps_graph(self) -> bool:
        return not self.resets_next

    def adapt(self) -> str:
        if self.pending is None:
            return "none"
        if self.resets_next:
            self.reset()
            return "recovered"
        action = super().adapt()
        self.count += 1
        return action
