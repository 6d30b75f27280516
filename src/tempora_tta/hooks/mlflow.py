"""`--log mlflow`: a run of MLflow with the facts, a metric per method and scenario, and the tables.

It goes where MLFLOW_TRACKING_URI says, or into a database in the run folder. Nothing of the user's own MLflow session
is touched: neither its active run nor where it writes.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tempora_tta.engine.observer import Observer
from tempora_tta.hooks.summary import facts, files, metrics
from tempora_tta.store import Results

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "tempora"
MOST_TEXT = 500
"""Characters that MLflow keeps of a parameter on every store."""
MOST_METRICS = 1000
"""Metrics that MLflow takes in one call."""


class MlflowHook(Observer):
    def __init__(self, folder: Path) -> None:
        import mlflow

        self._mlflow = mlflow
        self._folder = folder

    def finished(self, results: Results) -> None:
        given = os.environ.get("MLFLOW_TRACKING_URI")
        own = f"sqlite:///{(self._folder / 'mlflow.db').resolve().as_posix()}"
        client = self._mlflow.MlflowClient(tracking_uri=given or own)
        experiment = self._experiment(client, None if given else self._folder / "mlflow-artifacts")
        run = client.create_run(experiment, run_name=self._folder.resolve().name).info.run_id
        try:
            self._tell(client, run, results)
        except BaseException:
            client.set_terminated(run, status="FAILED")
            raise
        client.set_terminated(run)

    def _experiment(self, client: MlflowClient, artifacts: Path | None) -> str:
        known = client.get_experiment_by_name(EXPERIMENT)
        if known is not None:
            return str(known.experiment_id)
        place = None if artifacts is None else artifacts.resolve().as_uri()
        return str(client.create_experiment(EXPERIMENT, artifact_location=place))

    def _tell(self, client: MlflowClient, run: str, results: Results) -> None:
        entities, now_ms = self._mlflow.entities, int(time.time() * 1000)
        told = facts(results.manifest).items()
        client.log_batch(run, params=[entities.Param(name, text[:MOST_TEXT]) for name, text in told])
        numbers = [entities.Metric(name, value, now_ms, 0) for name, value in metrics(results).items()]
        for first in range(0, len(numbers), MOST_METRICS):
            client.log_batch(run, metrics=numbers[first : first + MOST_METRICS])
        for path in files(results):
            client.log_artifact(run, str(path))
