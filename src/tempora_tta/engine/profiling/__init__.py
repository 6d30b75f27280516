"""Recording how long every kind of work takes on this machine."""

from tempora_tta.engine.profiling.overheads import overhead_rows
from tempora_tta.engine.profiling.record import record_profile
from tempora_tta.engine.profiling.replay import Replay, record_replay
from tempora_tta.engine.profiling.stations import batches_per_shift, profiled_batches

__all__ = [
    "Replay",
    "batches_per_shift",
    "overhead_rows",
    "profiled_batches",
    "record_profile",
    "record_replay",
]
