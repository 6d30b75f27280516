"""What a run's configuration says about data, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tempora.engine import Observer, Stopped
from tempora.engine.config import load_config
from tempora.engine.setup import job_from_config
from tempora.errors import TemporaError
from tempora.store import Trace


def test_a_shift_smaller_than_a_batch_is_named_before_anything_runs() -> None:
    config = load_config(None, flags={"batch_size": 20_000, "device": "cpu", "data.shifts": "contrast"})
    with pytest.raises(
        TemporaError, match=r"'contrast' has 10000 images, fewer than one batch of 20000.*--batch-size"
    ):
        job_from_config(config)


class Watches(Observer):
    def __init__(self, stop_requested: bool = False) -> None:
        self.stop_requested = stop_requested
        self.passes: list[tuple[str, int]] = []
        self.batches: list[int] = []

    def pass_started(self, kind: str, batches: int) -> None:
        self.passes.append((kind, batches))

    def batch_done(self, trace: Trace, index: int) -> None:
        assert not trace.served.any()
        self.batches.append(index + 1)


def test_decoding_is_watched_and_can_be_stopped(tmp_path: Path) -> None:
    flags = {"device": "cpu", "data.shifts": "contrast", "data.cache_dir": tmp_path}
    config = load_config(None, flags=flags)
    stopped = Watches(stop_requested=True)
    with pytest.raises(Stopped):
        job_from_config(config, stopped).streams[0].open()
    assert len(stopped.batches) == 1
    watches = Watches()
    job_from_config(config, watches).streams[0].open().close()
    assert watches.passes == [("decoding", 10_000 // 64)]
    assert watches.batches == sorted(watches.batches)
    assert watches.batches[-1] == 10_000 // 64
    cached = Watches()
    job_from_config(config, cached).streams[0].open().close()
    assert not cached.passes
