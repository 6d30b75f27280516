"""Plans, passes and runs: feeding streams to methods and placing what they did on the clock."""

from tempora_tta.engine.deploy import deploy
from tempora_tta.engine.job import Job, MethodSpec, with_offline
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.engine.pipeline import Pipeline, Response
from tempora_tta.engine.run import Run

__all__ = [
    "Job",
    "MethodSpec",
    "Observer",
    "Pipeline",
    "Response",
    "Run",
    "Stopped",
    "deploy",
    "with_offline",
]
