"""The live pipeline: a deployment's timeline, driven by the wall clock and real arrivals.

Whoever submits moves the timeline under one lock: a batch that finds the pipeline idle starts at the instant of its
arrival, one that finds it busy waits or pushes another out (`line`). One worker thread owns the device (`worker`). It
has the batch predicted (`operator`, `attempts`), sends the answer out (`replies`), adapts, and tells the timeline how
long that took, waking up included, so that the timeline's clock is the wall clock. A minder thread offers batches of
single images whose time is up, and notices a method that hangs (`minder`, `watched`). What they share, they share in
one place (`shared`).
"""

from tempora_tta.engine.pipeline.pipeline import Pipeline
from tempora_tta.engine.pipeline.requests import Request, Response
from tempora_tta.engine.pipeline.tally import prometheus

__all__ = ["Pipeline", "Request", "Response", "prometheus"]
