"""Profiling in a process of its own, which does nothing else: `python -m tempora_tta.engine.profile_child FOLDER`.

Its OpenMP threads wait passively, its thread count is fixed before torch is imported, and its memory is settled by
the methods that are timed and by nobody else.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

from tempora_tta.config import RunConfig, checked
from tempora_tta.data import Order
from tempora_tta.engine.clocks import MEASURED
from tempora_tta.engine.job import Job, MethodSpec
from tempora_tta.engine.observer import Observer, Stopped
from tempora_tta.engine.profiling import (
    Replay,
    batches_per_shift,
    profiled_batches,
    record_profile,
    record_replay,
)
from tempora_tta.errors import TemporaError
from tempora_tta.models import Classifier
from tempora_tta.scenarios import Scenario
from tempora_tta.timing import Profile

PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Idle OpenMP threads sleep instead of spinning on cores that are timed."""
REQUEST, PARTS, TENSORS, ANSWER = "request.pickle", "parts.pickle", "tensors.pt", "answer.pickle"


@dataclass(frozen=True)
class Parts:
    """A job of `tempora.evaluate`, as far as profiling needs it."""

    model: Classifier
    methods: tuple[MethodSpec, ...]
    scenarios: tuple[Scenario, ...]
    config: RunConfig


class Tensors(TypedDict):
    """Its images, hundreds of megabytes, which go by a file that is mapped and not copied."""

    batches: dict[str, list[tuple[Tensor, Tensor]]]
    source: Tensor | None


Pieces = tuple[bytes, Tensors]
"""`Parts`, pickled: a method that the child cannot import must not keep it from saying so."""


@dataclass(frozen=True)
class Request:
    """What to profile. The job comes as the configuration of a run, or in pieces beside the request."""

    config: dict[str, Any] | None
    threads: int | None
    seconds: float
    name: str
    labels: tuple[str, ...] | None = None
    replay: Replay | None = None
    profile: dict[str, Any] | None = None
    """That a replay adds to."""
    asked_at: float = field(default_factory=time.time)
    """When the seconds began to count."""


class _CannotLoad(Exception):
    """The child cannot import what it was handed."""


def profile_job(
    job: Job,
    *,
    seconds: float,
    threads: int | None,
    name: str,
    observer: Observer,
    labels: list[str] | None = None,
    replay: Replay | None = None,
    profile: Profile | None = None,
) -> Profile:
    """A profile of the job's methods, or the one given with a kind that was met later; recorded in a child.

    What only lives in this process (a class typed at a prompt) is profiled here, and the profile says so.
    """
    request = Request(
        config=_config(job, replay),
        threads=threads,
        seconds=seconds,
        name=name,
        labels=None if labels is None else tuple(labels),
        replay=replay,
        profile=None if profile is None else profile.to_json(),
    )
    observer.pass_started("profiling" if replay is None else "profiling a new kind of work", 100)
    try:
        return _ask_child(request, _pieces(job, replay) if request.config is None else None, observer)
    except _CannotLoad:
        observer.note(
            "profiled in this process, since another cannot import its methods: put them into a module"
        )
        return _record(request, job, observer_tell(observer)).model_copy(update={"own_process": False})


def observer_tell(observer: Observer) -> Any:
    def tell(number: int, share: float) -> None:
        observer.batch_done(None, max(0, min(99, int(100 * share))))
        if observer.stop_requested:
            raise Stopped

    return tell


def _config(job: Job, replay: Replay | None) -> dict[str, Any] | None:
    """The configuration, cut down to the few batches that are looked at: nothing else has to be decoded."""
    if not job.named or job.config.data.batches is not None:
        return None
    config = job.config.plain()
    # The parent knows its device; `auto` may mean another thing elsewhere.
    config |= {"device": str(job.device), "clock": MEASURED, "suite": None, "predict_with": None}
    config["seeds"] = config["seeds"][:1] if replay is None else [replay.seed]
    if (
        replay is None
    ):  # every shift by itself, whatever the stream: what work takes hardly depends on its order
        config |= {"stream": {"kind": "single"}, "batches": batches_per_shift(job)}
    return config


def _replayed(job: Job, replay: Replay) -> Order:
    order = next(one for one in job.streams if (one.shift, one.seed) == (replay.shift, replay.seed))
    return order.head(replay.served[-1] + 1)


def _pieces(job: Job, replay: Replay | None) -> Pieces:
    if replay is None:
        seed, batches = job.streams[0].seed, profiled_batches(job)
    else:
        seed, stream = replay.seed, job.open_stream(_replayed(job, replay))
        batches = {
            replay.shift: [
                (stream.batch(index), torch.from_numpy(stream.labels(index)))
                for index in range(stream.num_batches)
            ]
        }
    batches = {shift: [(x.cpu(), y) for x, y in given] for shift, given in batches.items()}
    clean = None if job.source is None else job.source.cpu()
    model = copy.deepcopy(job.model).cpu()
    config = RunConfig(
        device=str(job.device),
        clock=MEASURED,
        seeds=[seed],
        stream=None,
        grid="none",
        preset=job.config.preset,
        method_timeout_s=job.config.method_timeout_s,
    )
    parts = Parts(model, job.methods, job.scenarios, config)
    try:
        return pickle.dumps(parts), {"batches": batches, "source": clean}
    except Exception as error:  # closures and the like: whoever wrote the network decides what it is made of
        raise _CannotLoad from error


def _ask_child(request: Request, pieces: Pieces | None, observer: Observer) -> Profile:
    with tempfile.TemporaryDirectory(prefix="tempora-profile-") as place:
        folder = Path(place)
        (folder / REQUEST).write_bytes(pickle.dumps(request))
        if pieces is not None:
            (folder / PARTS).write_bytes(pieces[0])
            torch.save(pieces[1], folder / TENSORS)
        with open(folder / "errors.txt", "wb") as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", "tempora_tta.engine.profile_child", place],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(request.threads),
                text=True,
            )
            try:
                _follow(child, observer)
            finally:
                if child.poll() is None:
                    child.terminate()
                child.wait()
        if not (folder / ANSWER).exists():
            said = (folder / "errors.txt").read_text(errors="replace").strip().splitlines()
            raise TemporaError(
                f"profiling ended early (exit code {child.returncode}): {said[-1] if said else 'it was killed'}; "
                "run the same command again, or use --clock measured"
            )
        answer = pickle.loads((folder / ANSWER).read_bytes())
    if answer["status"] == "cannot load":
        raise _CannotLoad
    if answer["status"] == "failed":
        raise TemporaError(f"profiling failed: {answer['reason']}")
    return Profile.model_validate(answer["profile"])


def _follow(child: subprocess.Popen[str], observer: Observer) -> None:
    """Pass on how far the child is; stop it when asked to."""
    assert child.stdout is not None
    tell = observer_tell(observer)
    for line in child.stdout:
        try:
            told = json.loads(line)
        except ValueError:  # a library that prints
            continue
        if isinstance(told, dict) and "round" in told:
            tell(told["round"], told["share"])


def _environment(threads: int | None) -> dict[str, str]:
    search = [path or os.getcwd() for path in sys.path]
    few = {} if threads is None else {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    return {**os.environ, **PASSIVE, **few, "PYTHONPATH": os.pathsep.join(search)}


def _job(request: Request, folder: Path) -> Job:
    """The job as the child has it."""
    from tempora_tta.engine.build import Given, build_job

    if request.config is not None:
        return build_job(checked({**request.config, "threads": request.threads}))
    try:
        parts: Parts = pickle.loads((folder / PARTS).read_bytes())
    except Exception as error:
        raise _CannotLoad from error
    tensors: Tensors = torch.load(folder / TENSORS, mmap=True, weights_only=True)
    given = Given(parts.model, tensors["batches"], parts.methods, parts.scenarios, tensors["source"])
    return build_job(parts.config, None, given)


def _record(request: Request, job: Job, tell: Any) -> Profile:
    before = torch.get_num_threads()
    try:
        if request.threads is not None:
            torch.set_num_threads(request.threads)
        if request.replay is not None:
            known = Profile.model_validate(request.profile)
            return record_replay(job, request.replay, known, tell)
        labels = None if request.labels is None else list(request.labels)
        return record_profile(
            job,
            seconds=request.seconds,
            name=request.name,
            labels=labels,
            waited_s=max(0.0, time.time() - request.asked_at),
            tell=tell,
        )
    finally:
        torch.set_num_threads(before)


def main(folder: Path) -> None:
    """In the child: do what the request asks, leave the answer beside it."""

    def tell(number: int, share: float) -> None:
        print(json.dumps({"round": number, "share": share}), flush=True)

    request: Request = pickle.loads((folder / REQUEST).read_bytes())
    try:
        job = _job(request, folder)
        answer = {"status": "done", "profile": _record(request, job, tell).to_json()}
    except _CannotLoad:
        answer = {"status": "cannot load"}
    except TemporaError as error:
        answer = {"status": "failed", "reason": str(error)}
    (folder / ANSWER).write_bytes(pickle.dumps(answer))


if __name__ == "__main__":
    # Pickles name this module by its full name, not __main__.
    from tempora_tta.engine import profile_child

    profile_child.main(Path(sys.argv[1]))
