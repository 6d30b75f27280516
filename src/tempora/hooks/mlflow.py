"""`--log mlflow`: a run of MLflow with the facts, a metric per method and scenario, and the tables.

It goes where MLFLOW_TRACKING_URI says, or into a database in the run folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from tempora.engine.observer import Observer
from tempora.hooks.summary import facts, files, metrics
from tempora.store import Results

EXPERIMENT = "tempora"
MOST_TEXT = 500
"""Characters that MLflow keeps of a parameter on every store."""


class MlflowHook(Observer):
    def __init__(self, folder: Path) -> None:
        import mlflow

        self._mlflow = mlflow
        self._folder = folder

    def finished(self, results: Results) -> None:
        mlflow = self._mlflow
        if "MLFLOW_TRACKING_URI" not in os.environ:
            mlflow.set_tracking_uri(f"sqlite:///{(self._folder / 'mlflow.db').resolve().as_posix()}")
            if mlflow.get_experiment_by_name(EXPERIMENT) is None:
                place = (self._folder / "mlflow-artifacts").resolve().as_uri()
                mlflow.create_experiment(EXPERIMENT, artifact_location=place)
        mlflow.set_experiment(EXPERIMENT)
        with mlflow.start_run(run_name=self._folder.resolve().name):
            mlflow.log_params({name: text[:MOST_TEXT] for name, text in facts(results.manifest).items()})
            mlflow.log_metrics(metrics(results))
            for path in files(results):
                mlflow.log_artifact(str(path))
