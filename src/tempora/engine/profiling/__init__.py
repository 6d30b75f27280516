"""Recording how long every kind of work takes on this machine."""

from tempora.engine.profiling.overheads import overhead_rows
from tempora.engine.profiling.record import record_profile
from tempora.engine.profiling.replay import Replay, record_replay
from tempora.engine.profiling.stations import batches_per_shift, profiled_batches

__all__ = [
    "Replay",
    "batches_per_shift",
    "overhead_rows",
    "profiled_batches",
    "record_profile",
    "record_replay",
]
