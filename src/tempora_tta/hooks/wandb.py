"""`--log wandb`: a run of Weights & Biases with the facts, a number per method and scenario, and the tables.

Offline unless WANDB_MODE says otherwise: it stays in the run folder, and `wandb sync` sends it.
"""

from __future__ import annotations

import os
from pathlib import Path

from tempora_tta.engine.observer import Observer
from tempora_tta.hooks.summary import facts, files, metrics
from tempora_tta.store import Results


class WandbHook(Observer):
    def __init__(self, folder: Path) -> None:
        import wandb

        self._wandb = wandb
        self._folder = folder

    def finished(self, results: Results) -> None:
        with self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "tempora"),
            name=self._folder.resolve().name,
            dir=str(self._folder),
            mode=os.environ.get("WANDB_MODE") or "offline",
            config=facts(results.manifest),
        ) as run:
            run.summary.update(metrics(results))
            tables = self._wandb.Artifact("run", type="tempora-run")
            for path in files(results):
                tables.add_file(str(path))
            run.log_artifact(tables)
