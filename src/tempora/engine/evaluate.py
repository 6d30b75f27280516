"""`tempora.evaluate`: a run from Python, over batches that are already there."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tempora.data import from_batches
from tempora.engine.clocks import open_clock
from tempora.engine.job import Job, MethodSpec, StreamSource, with_offline
from tempora.engine.observer import Observer
from tempora.engine.run import Run
from tempora.engine.setup import profile_threads, usual_tail_batches
from tempora.errors import TemporaError
from tempora.measure import choose_device, device_kind, machine_facts
from tempora.measure.process import keep_freed_memory
from tempora.methods import Method
from tempora.models import try_on, wrap
from tempora.scenarios import Scenario, from_spec, relative_grid
from tempora.store import Results, RunFolder

MethodLike = str | type[Method] | tuple[str | type[Method], Mapping[str, Any]] | MethodSpec
ScenarioLike = Scenario | str | Mapping[str, Any]
Batches = Sequence[tuple[Any, Any]]


def evaluate(
    model: nn.Module,
    batches: Batches | Mapping[str, Batches],
    methods: Iterable[MethodLike],
    scenarios: Iterable[ScenarioLike] | None = None,
    *,
    device: str | torch.device = "auto",
    clock: str | Path | Mapping[str, Any] = "steady",
    seed: int = 2025,
    baseline_ms: float | None = None,
    profile_s: float = 60.0,
    provision_x: float | str = 1.03,
    threads: int = 1,
    calibration_batches: int = 700,
    provision: float = 6.0,
    warmup_batches: int = 5,
    tail_batches: int | None = None,
    preset: str | None = None,
    share: bool = True,
    source: torch.Tensor | None = None,
    out: Path | str | None = None,
    observer: Observer | None = None,
) -> Results:
    """Run methods over batches under scenarios, and say what each deployment got.

    model: a Classifier, or any network that `tempora.models.wrap` understands.
    batches: (x normalised float32, y int64) pairs, or a dict of shift name to such a list.
    methods: names, classes, or (name, settings).
    scenarios: objects, "module:Class", or {"protocol": ..., knobs} as in a configuration; default, the relative grid.
        Offline is always run.
    clock: "steady" (profile this machine first, for at most `profile_s` seconds, on so many `threads` of a CPU),
        "measured", a profile's path, "published:rn50_inc", or {"baseline_ms": 40, "tent": (41, 56), ...}.
    provision_x: steady: lambda over Standard's steady time, or "tail". provision, calibration_batches,
        warmup_batches: measured.
    source: clean unlabelled images, normalised, for methods that ask for some (EATA, FOA); never the stream's.
    out: a run folder, which the same call resumes; default, a temporary one that lives as long as the results.
    """
    job = job_from_batches(
        model,
        batches,
        methods,
        relative_grid() if scenarios is None else [as_scenario(one) for one in scenarios],
        device=device,
        clock=clock,
        seed=seed,
        baseline_ms=baseline_ms,
        profile_s=profile_s,
        provision_x=provision_x,
        threads=threads,
        calibration_batches=calibration_batches,
        provision=provision,
        warmup_batches=warmup_batches,
        tail_batches=tail_batches,
        preset=preset,
        share=share,
        source=source,
    )
    temporary = tempfile.TemporaryDirectory(prefix="tempora-") if out is None else None
    with RunFolder.for_writing(temporary.name if temporary else out) as folder:
        results = Run(job, folder, observer).execute()
    results.keeps_alive = temporary
    return results


def as_scenario(scenario: ScenarioLike) -> Scenario:
    """A scenario as a user names it: an object, `module:Class`, or a mapping as in a configuration."""
    return scenario if isinstance(scenario, Scenario) else from_spec(scenario)


def job_from_batches(
    model: nn.Module,
    batches: Batches | Mapping[str, Batches],
    methods: Iterable[MethodLike],
    scenarios: Iterable[Scenario],
    *,
    device: str | torch.device,
    clock: str | Path | Mapping[str, Any],
    seed: int,
    baseline_ms: float | None = None,
    provision_x: float | str = 1.03,
    threads: int = 1,
    tail_batches: int | None = None,
    **timing: Any,
) -> Job:
    """A job over batches in memory; see `evaluate`."""
    chosen = choose_device(device)
    classifier = wrap(model)
    if classifier.device != chosen:
        classifier = copy.deepcopy(classifier).to(chosen)  # the caller's stays where it is
    the_clock, recorded = open_clock(clock, chosen, baseline_ms, provision_x)
    if the_clock.name == "measured":
        keep_freed_memory()
    facts = machine_facts(chosen)
    streams = tuple(_streams(batches, seed, chosen, classifier.num_classes))
    for shape in {tuple(stream.open().batch(0).shape[1:]) for stream in streams}:
        try_on(classifier, shape)
    return Job(
        model=classifier,
        methods=tuple(method_spec(method) for method in methods),
        scenarios=with_offline(list(scenarios)),
        streams=streams,
        clock=the_clock,
        device=chosen,
        tail_batches=tail_batches or usual_tail_batches(the_clock, chosen),
        baseline=recorded,
        machine_kind=device_kind(facts),
        profile_threads=profile_threads(threads, chosen),
        facts={"machine": facts},
        **timing,
    )


def method_spec(method: MethodLike) -> MethodSpec:
    """A method as a user names it: a name, a class, or a pair of that and settings (`label` among them)."""
    if isinstance(method, MethodSpec):
        return method
    if isinstance(method, tuple):
        if len(method) != 2 or not isinstance(method[1], Mapping):
            raise TemporaError(f"method {method!r}: give (name, settings), settings being a dict")
        settings = dict(method[1])
        label, times_as = (str(settings.pop(name, "")) for name in ("label", "times_as"))
        return MethodSpec(method[0], label=label, times_as=times_as, settings=settings)
    return MethodSpec(method)


def _streams(
    batches: Batches | Mapping[str, Batches], seed: int, device: torch.device, num_classes: int | None = None
) -> Iterable[StreamSource]:
    named = batches if isinstance(batches, Mapping) else {"stream": batches}
    for shift, given in named.items():
        stream = from_batches(shift, given, num_classes, device=device, seed=seed)
        yield StreamSource(
            shift=shift,
            seed=seed,
            fingerprint=stream.fingerprint,
            batch_size=stream.batch_size,
            num_batches=stream.num_batches,
            dropped=stream.dropped,
            open=lambda stream=stream: stream,
        )
