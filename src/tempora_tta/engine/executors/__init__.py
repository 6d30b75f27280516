"""Where the tasks of a run are made: in this process, or on the devices of a Ray cluster."""

from tempora_tta.engine.executors.base import Executor, begun_baselines
from tempora_tta.engine.executors.local import LocalExecutor

__all__ = ["Executor", "LocalExecutor", "begun_baselines"]
