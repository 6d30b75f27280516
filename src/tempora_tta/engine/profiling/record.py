"""Recording a steady profile: rounds that go through every method's work, with standard inference beside it.

Every method walks along the same few batches of up to four shifts, from a reset at the start of each shift, one batch
per round. Reset is exact, so the same batches give the same work and the same shapes each time they come round; the
first time is a warm-up where work depends on the amount.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.profiling.allowance import Allowance
from tempora_tta.engine.profiling.back_to_back import back_to_back_ms
from tempora_tta.engine.profiling.recording import Fitted, Recording, Tell, short
from tempora_tta.engine.profiling.stations import Station, stations
from tempora_tta.engine.profiling.walker import Timed, Walker, walker_of
from tempora_tta.engine.profiling.warming import Memory, taken_by, warmed_up
from tempora_tta.timing import Profile, device_kind, machine_facts
from tempora_tta.timing import fits as fitting
from tempora_tta.timing.machine import keep_freed_memory
from tempora_tta.timing.profile import PRECISE, Entry, Residuals, imprecision, profile_id
from tempora_tta.timing.timer import CPU_TIME, RoundWatch, Timer

STANDARD_EVERY = 3
"""Methods between two samples of standard inference."""
FEWEST_ROUNDS = 3
IDLE_S = 0.02
LOOKED_AT = 5
"""Batches of standard inference back to back, whenever recording stops to think, and when it ends."""
MOST_BLOCKS = 256


def record_profile(
    job: Job,
    *,
    seconds: float,
    name: str,
    labels: Sequence[str] | None = None,
    waited_s: float = 0.0,
    tell: Tell = lambda number, share: None,
) -> Profile:
    """Profile the methods of a job (those with `labels`) on this machine, in this process, now.

    `waited_s`: how much of the `seconds` had passed before anything could be profiled.
    """
    timer = Timer(job.device, torch.get_num_threads())
    allowance = Allowance(seconds, waited_s, by_processor=timer.what == CPU_TIME)
    keep_freed_memory()
    way = stations(job)
    walkers, spent = warmed_up(job, way, timer, labels)
    memory = Memory(job.device)
    standard = walker_of(job, MethodSpec(STANDARD), job.streams[0].seed, timer)
    for station in way:
        standard.serve(station.x, station.shift, 0)
    spent[STANDARD] = taken_by(standard, way, memory, job.device)
    allowance.rounds_begin()
    inputs = [station.x for station in way]
    recording, look, precise = Recording(timer.what), len(way), False
    order = random.Random(0)
    while True:
        if recording.rounds == look:  # first when every station was met, then after half as many more
            recording.back_to_back_ms += back_to_back_ms(standard.method, inputs, timer, LOOKED_AT)
            precise = imprecision(_entries(recording, recording.fitted(), walkers)) <= PRECISE
            look += max(1, look // 2)
        if recording.rounds >= FEWEST_ROUNDS and (precise or allowance.up > 1):
            break
        _round(recording, way[recording.rounds % len(way)], walkers, standard, timer, order)
        tell(recording.rounds, allowance.up)
    recording.back_to_back_ms += back_to_back_ms(standard.method, inputs, timer, LOOKED_AT)
    wanted = (
        [spec.label for spec in job.methods if spec.label != STANDARD] if labels is None else list(labels)
    )
    recorded = _profile(job, recording, walkers, name)
    met = {walker.label for walker in walkers}
    return recorded.model_copy(
        update={
            "spent": spent,
            "left_out": dict.fromkeys((label for label in wanted if label not in met), ""),
        }
    )


def _round(
    recording: Recording,
    station: Station,
    walkers: list[Walker],
    standard: Walker,
    timer: Timer,
    order: random.Random,
) -> None:
    """All methods on one batch, in an order of its own, with standard inference between them."""
    number = recording.rounds
    found: Timed = []
    watch = RoundWatch(timer)
    for position, walker in enumerate(order.sample(walkers, len(walkers))):
        if position % STANDARD_EVERY == 0:
            found += standard.serve(station.x, station.shift, number)
        try:
            found += walker.step(station, number)
        except Exception:  # it fails again in its own task, which records why
            walkers.remove(walker)
    found += standard.serve(station.x, station.shift, number)
    recording.note(found, station.shift, station.checks, watch)
    time.sleep(IDLE_S)
    after_idle = standard.serve(station.x, station.shift, number)
    recording.idle_ms.append(after_idle[0][0].ms)


def _entries(recording: Recording, fitted: Fitted, walkers: list[Walker]) -> list[Entry]:
    return recording.entries(fitted, [STANDARD, *(walker.label for walker in walkers)])


def _profile(job: Job, recording: Recording, walkers: list[Walker], name: str) -> Profile:
    fitted = recording.fitted()
    entries = _entries(recording, fitted, walkers)
    factors = [[short(factor) for factor in block] for block in recording.residuals(fitted)[-MOST_BLOCKS:]]
    facts = machine_facts(job.device)
    made_at = time.strftime("%Y-%m-%dT%H:%M:%S")
    clean_share = sum(fitted.clean) / len(fitted.clean)
    return Profile(
        name=name,
        id=profile_id(entries, fitted.standard.ms, made_at),
        made_at=made_at,
        model=job.model.name,
        weights=job.weights,
        batch_size=job.streams[0].batch_size,
        device=device_kind(facts),
        threads=torch.get_num_threads(),
        times=recording.what,
        machine=facts,
        standard_ms=fitted.standard.ms,
        standard_error=fitted.standard.error,
        tail_x=fitting.tail_x([factor for block in factors for factor in block]),
        after_idle_x=short(float(np.median(recording.idle_ms)) / fitted.standard.ms),
        back_to_back_ms=short(float(np.median(recording.back_to_back_ms))),
        clean_share=clean_share,
        cores_ours=clean_share >= 0.5,
        entries=entries,
        rounds=recording.table(fitted, entries),
        residuals=Residuals(factors=factors, clean_samples=sum(map(len, factors))),
        unmet={walker.label: unmet for walker in walkers if (unmet := _unmet(walker, entries))},
    )


def _unmet(walker: Walker, entries: Iterable[Entry]) -> list[str]:
    """Actions and modes that the method names, would take time, and that no round met."""
    method = walker.method
    met = {word for entry in entries if entry.method == walker.label for word in (entry.mode, entry.action)}
    named = dict.fromkeys((*method.actions, *method.modes))
    return [word for word in named if word not in met and word not in method.untimed]
