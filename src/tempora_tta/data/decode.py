"""Decoding many pictures at once, in worker processes.

Workers are plain `python` child processes that are told indices over a pipe and answer with raw pixels.
Compared with `multiprocessing` this needs no guarded `__main__` in the user's script, no room in /dev/shm
(64 MB in a container, and a bus error beyond), no fork of a process that holds a CUDA context and no torch in
the workers. At 150 kB and some milliseconds of decoding per picture, the pipe's share of the time is small.
"""

from __future__ import annotations

import io
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import numpy as np

from tempora_tta.data.contents import Progress
from tempora_tta.data.geometry import Geometry
from tempora_tta.data.images import Images
from tempora_tta.errors import TemporaError

_BLOCK_BYTES = 1 << 20
_HEADER = struct.Struct("<cQ")  # what follows (pixels, the user's mistake, ours) and how many bytes of it
_PIXELS, _MISTAKE, _CRASH = b"p", b"m", b"c"
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # each worker has one core
    "OPENBLAS_NUM_THREADS": "1",
    # glibc would give every picture's memory back to the kernel, and fetching it anew took a quarter of the time.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def default_workers() -> int:
    """As many workers as this process may use cores, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 16)


def decode(
    source: Images,
    indices: np.ndarray,
    geometry: Geometry,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (positions, uint8 block): the pictures at indices[positions], block by block, in any order.

    `workers=0` decodes in this process, `None` takes one worker per core. Sources that gain nothing from
    workers (arrays) are read here in any case. The first unreadable picture ends it with a TemporaError.
    """
    if workers is not None and workers < 0:
        raise TemporaError(f"workers={workers}: must be 0 (decode in this process) or more")
    workers = default_workers() if workers is None else workers
    step = max(1, min(256, _BLOCK_BYTES // int(np.prod(geometry.shape))))
    blocks = [slice(start, min(start + step, len(indices))) for start in range(0, len(indices), step)]
    if source.parallel and workers and len(blocks) > 1:
        finished = _in_workers(source, indices, geometry, blocks, min(workers, len(blocks)))
    else:
        finished = ((block, source.read(indices[block], geometry)) for block in blocks)
    done = 0
    for block, pixels in finished:
        yield block, pixels
        done += len(pixels)
        if progress is not None:
            progress(done, len(indices))


def _in_workers(
    source: Images, indices: np.ndarray, geometry: Geometry, blocks: list[slice], workers: int
) -> Iterator[tuple[slice, np.ndarray]]:
    """One thread drives each worker: it takes the next block, waits for its pixels and hands them on."""
    todo: queue.SimpleQueue[slice] = queue.SimpleQueue()
    for block in blocks:
        todo.put(block)
    finished: queue.Queue[tuple[slice, np.ndarray] | BaseException] = queue.Queue(maxsize=2 * workers)
    stop = threading.Event()
    job = pickle.dumps((source, geometry))

    def drive() -> None:
        try:
            with _Worker(job) as worker:
                while not stop.is_set():
                    block = todo.get_nowait()
                    finished.put((block, worker.decode(indices[block], geometry)))
        except queue.Empty:
            pass
        except BaseException as error:  # raised again in the thread that asked
            finished.put(error)

    threads = [threading.Thread(target=drive, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        for _ in blocks:
            result = finished.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        stop.set()
        while any(thread.is_alive() for thread in threads):
            _drain(finished)
            for thread in threads:
                thread.join(timeout=0.01)


def _drain(finished: queue.Queue[tuple[slice, np.ndarray] | BaseException]) -> None:
    """Make room in the queue, so that no thread waits for a reader that has left."""
    with suppress(queue.Empty):
        while True:
            finished.get_nowait()


class _Worker:
    """A child process that decodes: the parent's end."""

    def __init__(self, job: bytes) -> None:
        start = f"import sys; sys.path[:] = {sys.path!r}; from tempora_tta.data.decode import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ENVIRONMENT},
        )
        assert self._process.stdin is not None
        assert isinstance(self._process.stdout, io.BufferedReader)
        self._to, self._from = self._process.stdin, self._process.stdout
        self._send(job)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):
            self._to.close()
        self._from.close()
        self._process.terminate()
        self._process.wait()

    def decode(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        """The pictures at `indices`."""
        self._send(pickle.dumps(indices))
        kind, size = _HEADER.unpack(self._receive(_HEADER.size))
        if kind == _PIXELS:
            return np.frombuffer(self._receive(size), np.uint8).reshape(len(indices), *geometry.shape)
        message = self._receive(size).decode()
        raise (
            TemporaError(message)
            if kind == _MISTAKE
            else RuntimeError(f"a decoding worker failed:\n{message}")
        )

    def _send(self, message: bytes) -> None:
        with suppress(
            BrokenPipeError
        ):  # a worker that died is noticed, and explained, when its answer is missed
            self._to.write(message)
            self._to.flush()

    def _receive(self, size: int) -> bytearray:
        buffer = bytearray(size)
        if self._from.readinto(buffer) < size:
            raise RuntimeError(
                f"a decoding worker ended early (exit status {self._process.wait()}); "
                "workers=0 decodes in the main process"
            )
        return buffer


def serve() -> None:
    """A worker's whole life: read the job, then answer indices with pixels until the parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which hangs up
    asked = sys.stdin.buffer
    assert isinstance(asked, io.BufferedReader)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing a library prints may get between the pixels
    source, geometry = pickle.load(asked)
    while asked.peek(1):
        _answer(source, pickle.load(asked), geometry, answers)


def _answer(source: Images, indices: np.ndarray, geometry: Geometry, answers: BinaryIO) -> None:
    try:
        kind, body = _PIXELS, source.read(indices, geometry).data.cast("B")
    except TemporaError as error:
        kind, body = _MISTAKE, memoryview(str(error).encode())
    except Exception:
        kind, body = _CRASH, memoryview(traceback.format_exc().encode())
    answers.write(_HEADER.pack(kind, len(body)))
    answers.write(body)
    answers.flush()
