"""Profiling in a process of its own, which does nothing else: `python -m tempora_tta.engine.profile_child FOLDER`.

Its OpenMP threads wait passively, its thread count is fixed before torch is imported, and its memory is settled by
nothing but the methods that are timed. It is asked by a pickle, since `tempora.evaluate` has objects that no command
line names. It answers in lines on stdout: the share that is done, then the reason if it failed.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

from tempora_tta.config import RunConfig, checked
from tempora_tta.engine.clocks import MEASURED
from tempora_tta.engine.job import STANDARD, Job, MethodSpec
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.errors import TemporaError
from tempora_tta.timing import Profile, load_profile
from tempora_tta.timing.record import (
    MissingWork,
    Progress,
    Subject,
    batches_per_shift,
    profiled_batches,
    record,
    record_missing,
)

PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Idle OpenMP threads sleep instead of spinning on cores that are timed."""
REQUEST, TENSORS, PROFILE, ERRORS = "request.pickle", "tensors.pt", "profile.json", "errors.txt"


@dataclass(frozen=True)
class Request:
    """A request to profile: a job, and its methods with these labels or the work that a profile is missing."""

    config: RunConfig
    objects: bytes | None
    """Pickled network, methods and scenarios of a job that the configuration does not name; their images come by a
    file that is mapped and not copied. Bytes, so that a child that cannot import them can say so."""
    threads: int | None
    labels: tuple[str, ...] = ()
    missing: MissingWork | None = None
    profile: Profile | None = None
    """That the missing work is added to."""
    asked_at: float = field(default_factory=time.time)
    """When the seconds began to count."""

    def record(self, job: Job, progress: Progress) -> Profile:
        """Do it, in this process."""
        subject, threads = subject_of(job), torch.get_num_threads()
        try:
            if self.threads is not None:
                torch.set_num_threads(self.threads)
            if self.missing is not None and self.profile is not None:
                return record_missing(subject, self.missing, self.profile, progress)
            waited_s = max(0.0, time.time() - self.asked_at)
            return record(
                subject,
                seconds=self.config.profile_s,
                labels=self.labels,
                waited_s=waited_s,
                progress=progress,
            )
        finally:
            torch.set_num_threads(threads)


class Images(TypedDict):
    batches: dict[str, list[tuple[Tensor, Tensor]]]
    source: Tensor | None


class _CannotLoad(Exception):
    """Another process cannot import what it is handed."""


def subject_of(job: Job) -> Subject:
    """A job as far as profiling needs it."""
    specs = {spec.label: spec for spec in job.methods} | {STANDARD: MethodSpec(STANDARD)}
    return Subject(
        model=job.model.name,
        weights=job.weights,
        device=job.device,
        methods={label: partial(job.create, spec) for label, spec in specs.items()},
        orders=job.streams,
        open_stream=job.open_stream,
        timeout_s=job.config.method_timeout_s,
        at_once={
            size: {label: partial(job.create, replace(spec, at_once=size)) for label, spec in specs.items()}
            for size in job.at_once
        },
    )


def profile_job(
    job: Job,
    observer: Observer,
    *,
    labels: list[str] | None = None,
    missing: MissingWork | None = None,
    profile: Profile | None = None,
) -> Profile:
    """Record a profile of the methods with these labels, or add missing work to a profile, in a child.

    What only lives in this process (a class typed at a prompt) is profiled here, and the profile says so.
    """

    def progress(share: float) -> None:
        observer.batch_done(None, max(0, min(99, int(100 * share))))
        if observer.stop_requested:
            raise Stopped

    request = Request(_config(job, missing), None, job.profile_threads, tuple(labels or ()), missing, profile)
    observer.pass_started("profiling" if missing is None else "profiling a new kind of work", 100)
    try:
        if _is_named(job):
            return _ask_child(request, None, progress)
        return _ask_child(replace(request, objects=_objects(job)), _images(job, missing), progress)
    except _CannotLoad:
        observer.note(
            "profiled in this process, since another cannot import its methods: put them into a module"
        )
        return request.record(job, progress).model_copy(update={"own_process": False})


def _config(job: Job, missing: MissingWork | None) -> RunConfig:
    """The configuration, cut down to the few batches that are profiled: nothing else has to be decoded."""
    # The parent knows its device; `auto` may mean another thing elsewhere.
    changes: dict[str, Any] = {"device": str(job.device), "clock": MEASURED, "threads": job.profile_threads}
    changes["seeds"] = [job.streams[0].seed if missing is None else missing.seed]
    if not _is_named(job):
        changes |= {name: getattr(job.config, name) for name in ("preset", "profile_s", "method_timeout_s")}
        return RunConfig(**changes, grid="none")
    if missing is None:  # every shift by itself: the time of work hardly depends on the stream's order
        changes |= {"stream": {"kind": "single"}, "batches": batches_per_shift(job.streams)}
    return checked({**job.config.plain(), "suite": None, "predict_with": None, **changes})


def _is_named(job: Job) -> bool:
    """Return whether a configuration names all that is profiled."""
    return job.named and job.config.data.batches is None


def _objects(job: Job) -> bytes:
    try:
        return pickle.dumps((copy.deepcopy(job.model).cpu(), job.methods, job.scenarios))
    except Exception as error:  # closures and the like: the network's author decides what it is made of
        raise _CannotLoad from error


def _images(job: Job, missing: MissingWork | None) -> Images:
    """The batches that are profiled, or those on the way to the missing work."""
    if missing is None:
        batches = profiled_batches(job.streams, job.open_stream)
    else:
        where = (missing.shift, missing.seed)
        order = next(order for order in job.streams if (order.shift, order.seed) == where)
        stream = job.open_stream(order.head(missing.served[-1] + 1))
        batches = {
            missing.shift: [
                (stream.batch(index), torch.from_numpy(stream.labels(index)))
                for index in range(stream.num_batches)
            ]
        }
    return {
        "batches": {shift: [(x.cpu(), y) for x, y in given] for shift, given in batches.items()},
        "source": None if job.source is None else job.source.cpu(),
    }


def _ask_child(request: Request, images: Images | None, progress: Progress) -> Profile:
    with tempfile.TemporaryDirectory(prefix="tempora-profile-") as place:
        folder = Path(place)
        (folder / REQUEST).write_bytes(pickle.dumps(request))
        if images is not None:
            torch.save(images, folder / TENSORS)
        with open(folder / ERRORS, "wb") as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", "tempora_tta.engine.profile_child", place],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(request.threads),
                text=True,
            )
            try:
                _follow(child, progress)
            finally:
                if child.poll() is None:
                    child.terminate()
                child.wait()
        if not (folder / PROFILE).exists():
            said = (folder / ERRORS).read_text(errors="replace").strip().splitlines()
            raise TemporaError(
                f"profiling ended early (exit code {child.returncode}): {said[-1] if said else 'it was killed'}; "
                "run the same command again, or use --clock measured"
            )
        return load_profile(folder / PROFILE)


def _follow(child: subprocess.Popen[str], progress: Progress) -> None:
    """Pass on how far the child is; raise what it could not do."""
    assert child.stdout is not None
    for line in child.stdout:
        try:
            said = json.loads(line)
        except ValueError:  # a library that prints
            continue
        if not isinstance(said, dict):
            continue
        if "cannot load" in said:
            raise _CannotLoad
        if "failed" in said:
            raise TemporaError(f"profiling failed: {said['failed']}")
        if "share" in said:
            progress(said["share"])


def _environment(threads: int | None) -> dict[str, str]:
    search = [path or os.getcwd() for path in sys.path]
    few = {} if threads is None else {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    return {**os.environ, **PASSIVE, **few, "PYTHONPATH": os.pathsep.join(search)}


# -- in the child ------------------------------------------------------------------------------------------


def _job(request: Request, folder: Path) -> Job:
    from tempora_tta.engine.build import Given, build_job

    if request.objects is None:
        return build_job(request.config)
    try:
        model, methods, scenarios = pickle.loads(request.objects)
    except Exception as error:
        raise _CannotLoad from error
    images: Images = torch.load(folder / TENSORS, mmap=True, weights_only=True)
    return build_job(
        request.config, None, Given(model, images["batches"], methods, scenarios, images["source"])
    )


def _say(what: str, value: Any) -> None:
    print(json.dumps({what: value}), flush=True)


def main(folder: Path) -> None:
    """Do what the request asks, and leave the profile next to it."""
    request: Request = pickle.loads((folder / REQUEST).read_bytes())
    try:
        request.record(_job(request, folder), partial(_say, "share")).save(folder / PROFILE)
    except _CannotLoad:
        _say("cannot load", True)
    except TemporaError as error:
        _say("failed", str(error))


if __name__ == "__main__":
    # Pickles name this module by its full name, not __main__.
    from tempora_tta.engine import profile_child

    profile_child.main(Path(sys.argv[1]))
