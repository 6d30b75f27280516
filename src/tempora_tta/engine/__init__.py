"""Plans, passes and runs: feeding streams to methods and placing what they did on the clock."""

from tempora_tta.engine.job import Job, MethodSpec, with_offline
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.engine.run import Run

__all__ = [
    "Job",
    "MethodSpec",
    "Observer",
    "Run",
    "Stopped",
    "with_offline",
]
