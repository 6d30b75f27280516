"""Plans, passes and runs: feeding streams to methods and placing what they did on the clock."""

from tempora.engine.deploy import deploy
from tempora.engine.evaluate import evaluate
from tempora.engine.job import Job, MethodSpec, with_offline
from tempora.engine.observer import Observer, Stopped
from tempora.engine.pipeline import Answer, Pipeline
from tempora.engine.run import Run

__all__ = [
    "Answer",
    "Job",
    "MethodSpec",
    "Observer",
    "Pipeline",
    "Run",
    "Stopped",
    "deploy",
    "evaluate",
    "with_offline",
]
