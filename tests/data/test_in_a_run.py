"""Data in a run's configuration, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tempora_tta.data import Stream
from tempora_tta.engine import Observer, Stopped
from tempora_tta.engine.build import build_job
from tempora_tta.engine.job import Job
from tempora_tta.engine.load_config import load_config
from tempora_tta.errors import TemporaError
from tempora_tta.store import Trace


def _opened(job: Job) -> Stream:
    return job.open_stream(job.streams[0])


def test_a_shift_smaller_than_a_batch_is_named_before_anything_runs() -> None:
    config = load_config(None, flags={"batch_size": 20_000, "device": "cpu", "data.shifts": "contrast"})
    with pytest.raises(
        TemporaError, match=r"'contrast' has 10000 images, fewer than one batch of 20000.*--batch-size"
    ):
        build_job(config)


class Watches(Observer):
    def __init__(self, stop_requested: bool = False) -> None:
        self.stop_requested = stop_requested
        self.passes: list[tuple[str, int]] = []
        self.batches: list[int] = []

    def pass_started(self, kind: str, batches: int) -> None:
        self.passes.append((kind, batches))

    def batch_done(self, trace: Trace | None, index: int) -> None:
        assert trace is None, "nothing is scored while images are decoded"
        self.batches.append(index + 1)


def test_decoding_is_watched_and_can_be_stopped(tmp_path: Path) -> None:
    flags = {"device": "cpu", "data.shifts": "contrast", "data.cache_dir": tmp_path, "methods": ["standard"]}
    config = load_config(None, flags=flags)
    stopped = Watches(stop_requested=True)
    with pytest.raises(Stopped):
        _opened(build_job(config, stopped))
    assert len(stopped.batches) == 1
    watches = Watches()
    _opened(build_job(config, watches)).close()
    assert watches.passes == [("decoding", 10_000 // 64)]
    assert watches.batches == sorted(watches.batches)
    assert watches.batches[-1] == 10_000 // 64
    cached = Watches()
    _opened(build_job(config, cached)).close()
    assert not cached.passes


def _job(dataset: str, root: Path | None, *overrides: str) -> Job:
    flags = {
        "data.dataset": dataset,
        "data.root": root,
        "device": "cpu",
        "pretrained": False,
        "batch_size": 2,
    }
    return build_job(load_config(None, [f"data.options.{text}" for text in overrides], flags))


def test_options_reach_the_dataset(class_tree: Callable[..., Path], tmp_path: Path) -> None:
    names = [f"class {i}" for i in range(10)]
    root = class_tree("mine", names)
    (tmp_path / "names.txt").write_text("\n".join(names))
    with pytest.raises(TemporaError, match=r"classes\.txt is missing.*--set data\.options\.classes=FILE"):
        _job("folder", root)
    (cropped,) = _job("folder", root, f"classes={tmp_path / 'names.txt'}").streams
    (whole,) = _job("folder", root, f"classes={names}", "precropped=true").streams
    assert (cropped.shift, cropped.num_batches) == ("mine", 5)
    assert (
        cropped.fingerprint != whole.fingerprint
    )  # other pixels: neither a cache nor a resumed run may mix them


def test_the_error_about_a_part_names_what_to_type(tmp_path: Path) -> None:
    images, labels = np.zeros((50, 32, 32, 3), np.uint8), np.tile(np.arange(10), 5)
    np.save(tmp_path / "fog.npy", images)
    np.save(tmp_path / "labels.npy", labels)
    flags = {"data.dataset": "cifar10_c", "data.root": tmp_path, "data.shifts": "fog", "batch_size": 2}
    with pytest.raises(TemporaError, match=r"--set data\.options\.subset=true, accepts fewer"):
        build_job(load_config(None, flags=flags))
    job = build_job(load_config(None, ["data.options.subset=true"], flags))
    assert job.streams[0].num_batches == 5
    assert job.config.data.options == {"subset": True}


@pytest.mark.parametrize(
    ("dataset", "override", "message"),
    [
        (
            "imagenet_v2",
            "varaint=top-images",
            r"'data\.options\.varaint' for 'imagenet_v2': did you mean 'variant'",
        ),
        ("imagenet_v2", "root=there", r"unknown key 'data\.options\.root'.* [aA]llowed: subset, variant"),
        ("imagenet_v2", "subset=perhaps", r"data\.options\.subset='perhaps': must be a valid boolean"),
        (
            "imagenet_v2",
            "variant=top-image",
            "unknown variant of ImageNet-V2 'top-image': did you mean 'top-images'",
        ),
        ("cifar10_1", "version=6", r"data\.options\.version=6: must be a valid string"),
        ("fashion", "subset=true", r"data\.options\.subset=True: dataset 'fashion' has no options"),
    ],
)
def test_wrong_options(dataset: str, override: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match=message):
        _job(dataset, tmp_path, override)


def test_an_option_in_the_wrong_place_is_sent_to_the_right_one() -> None:
    with pytest.raises(TemporaError, match=r"unknown key 'data\.subset': .*data\.options\.subset"):
        load_config(None, ["data.subset=true"])
