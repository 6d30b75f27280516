"""Serving: a model that adapts while it answers, on the timeline that its deployment was simulated on."""

from tempora_tta.serving.deploy import deploy
from tempora_tta.serving.pipeline import Pipeline
from tempora_tta.serving.requests import Request, Response
from tempora_tta.serving.stats import prometheus

__all__ = ["Pipeline", "Request", "Response", "deploy", "prometheus"]
