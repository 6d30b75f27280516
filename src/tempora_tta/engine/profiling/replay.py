"""Profiling a kind of work that was met after the profile had been recorded: at the batch that met it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.profiling.recording import Recording, Tell
from tempora_tta.engine.profiling.walker import HURRY, LEISURE, walker_of
from tempora_tta.timing import Profile
from tempora_tta.timing.machine import keep_freed_memory
from tempora_tta.timing.timer import RoundWatch, Timer

REPLAYED_ROUNDS = 12


@dataclass(frozen=True)
class Replay:
    """The way to a kind of work that the profile lacks: these batches of a stream, the last of which met it."""

    label: str
    shift: str
    seed: int
    served: tuple[int, ...]
    resets: tuple[int, ...] = ()
    """Those before which the stream resets the method."""


def record_replay(
    job: Job, replay: Replay, profile: Profile, tell: Tell = lambda number, share: None
) -> Profile:
    """The profile with the kind of work that the last batch of a replay meets."""
    keep_freed_memory()
    timer = Timer(job.device, torch.get_num_threads())
    spec = next(spec for spec in job.methods if spec.label == replay.label)
    source = next(one for one in job.streams if (one.shift, one.seed) == (replay.shift, replay.seed))
    walker = walker_of(job, spec, source.seed, timer)
    standard = walker_of(job, MethodSpec(STANDARD), source.seed, timer)
    stream = job.open_stream(source.head(replay.served[-1] + 1))
    walker.reset()
    for index in replay.served[:-1]:
        if index in replay.resets:
            walker.reset()
        walker.serve(stream.batch(index), replay.shift, 0)
    if replay.served[-1] in replay.resets:
        walker.reset()
    x = stream.batch(replay.served[-1]).clone()
    before = walker.method.snapshot()
    recording = Recording(timer.what)
    for number in range(-1, REPLAYED_ROUNDS):  # the first warms up
        walker.method.restore(before)
        watch = RoundWatch(timer)
        found = [
            *standard.serve(x, replay.shift, number),
            *walker.serve(x, replay.shift, number, HURRY if number % 2 else LEISURE),
            *standard.serve(x, replay.shift, number),
        ]
        if number >= 0:
            recording.note(found, replay.shift, False, watch)
            tell(number + 1, (number + 1) / REPLAYED_ROUNDS)
    fitted = recording.fitted(profile.standard_ms)
    entries = recording.entries(fitted, [walker.label])
    return profile.with_entries(entries, recording.table(fitted, entries))
