"""Tempora: which test-time adaptation method is worth its time in your deployment?

import tempora_tta as tempora
results = tempora.evaluate(model, batches, methods=["standard", "adabn", "tent"])
results.utilities                 # one row per method, shift and scenario
results.winners()                 # who wins where, and how sure that is
results.recommend(interval_ms=50) # the method to use, and why
results.report()                  # the whole of it as one page
tempora.open_run("runs/mine")     # the results of an earlier run
tempora.open_runs(["runs/gpu", "runs/pi"]).cells       # several as one, with a column `run`
tempora.deploy(model, results.recommend(interval_ms=50), interval_ms=50)      # serve what was chosen, as evaluated
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tempora_tta._version import __version__
from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from tempora_tta.evaluation import evaluate
    from tempora_tta.results import open_run, open_runs
    from tempora_tta.serving.deploy import deploy

__all__ = ["TemporaError", "__version__", "deploy", "evaluate", "open_run", "open_runs"]


def __getattr__(name: str) -> Any:
    """Import what is heavy when it is first used: `deploy` and `evaluate` need torch, the others pandas."""
    if name == "deploy":
        from tempora_tta.serving.deploy import deploy

        return deploy
    if name == "evaluate":
        from tempora_tta.evaluation import evaluate

        return evaluate
    if name in ("open_run", "open_runs"):
        from tempora_tta import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, lazy ones too: what a notebook offers after `tempora.`."""
    return sorted(__all__)
