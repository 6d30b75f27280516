from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tempora_tta.data import (
    Shift,
    Stream,
    StreamSettings,
    array_shift,
    draw,
    open_stream,
    stream_order,
)
from tempora_tta.data.images import FileImages, Geometry
from tempora_tta.data.sampler import single
from tempora_tta.errors import TemporaError
from tempora_tta.models import Preprocessing

from .trees import CIFAR_LIKE

GREY = Preprocessing(mean=(0.5,), std=(0.25,), input_size=(1, 2, 2), crop_pct=1.0)


def _numbered(length: int) -> Shift:
    """Image i is all i (mod 256), its label i mod 10: a batch and its labels show where they come from."""
    images = np.tile(np.arange(length, dtype=np.uint8)[:, None, None], (1, 2, 2))
    return array_shift("numbered", images, np.arange(length) % 10, num_classes=10)


def _which(batch: torch.Tensor) -> list[int]:
    """The numbers of the images in a batch."""
    return ((batch[:, 0, 0, 0] * 0.25 + 0.5) * 255).round().int().tolist()


def _order(stream: Stream) -> list[int]:
    """The samples of a stream of one shift, in order."""
    return [int(sample) for i in range(stream.num_batches) for sample in stream.order.samples(i)[1]]


@settings(max_examples=40, deadline=None)
@given(length=st.integers(1, 200), batch_size=st.integers(1, 64), seed=st.integers(0, 10))
def test_every_sample_comes_once_with_its_label_and_only_the_odd_batch_is_dropped(
    length: int, batch_size: int, seed: int
) -> None:
    if length < batch_size:
        with pytest.raises(TemporaError, match="fewer than one batch"):
            open_stream(_numbered(length), GREY, batch_size, seed)
        return
    stream = open_stream(_numbered(length), GREY, batch_size, seed)
    seen = [number for i in range(stream.num_batches) for number in _which(stream.batch(i))]
    labels = np.concatenate([stream.labels(i) for i in range(stream.num_batches)])
    assert seen == _order(stream)
    assert len(set(seen)) == len(seen) == length - stream.dropped
    assert stream.dropped < batch_size
    assert (labels == np.array(seen) % 10).all()
    assert labels.dtype == np.int64


@settings(deadline=None)
@given(length=st.integers(1, 300), seed=st.integers(0, 2**63 - 1))
def test_the_published_order_is_that_of_torchs_loader(length: int, seed: int) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        loader = torch.utils.data.DataLoader(range(length), batch_size=None, shuffle=True)
        assert stream_order(length, seed, "torch").tolist() == [int(index) for index in loader]


def test_streams_take_the_published_order_and_say_so() -> None:
    shifts = [_numbered(12), _numbered(12)]
    (order, _) = draw(StreamSettings(order="torch"), shifts, 4, 2025)
    assert (
        np.concatenate([order.samples(i)[1] for i in range(3)]).tolist()
        == stream_order(12, 2025, "torch").tolist()
    )
    assert order.identity() == {"stream": {"kind": "single", "order": "torch"}}
    with pytest.raises(TemporaError, match="order='cuda': must be numpy or torch"):
        StreamSettings(order="cuda")


def test_a_batch_is_normalised_float32_and_the_same_each_time() -> None:
    stream = open_stream(_numbered(8), GREY, 8)
    batch = stream.batch(0)
    expected = (torch.tensor(np.array(_order(stream)) / 255, dtype=torch.float32) - 0.5) / 0.25
    assert batch.dtype == torch.float32
    assert torch.equal(batch[:, 0, 0, 0], expected)
    batch.zero_()
    assert torch.equal(stream.batch(0)[:, 0, 1, 1], expected)


def test_limit_batches_gives_the_first_batches_of_the_whole_stream() -> None:
    whole, part = open_stream(_numbered(50), GREY, 8), open_stream(_numbered(50), GREY, 8, limit_batches=2)
    assert (whole.num_batches, part.num_batches, whole.dropped, part.dropped) == (6, 2, 2, 2)
    assert all(torch.equal(whole.batch(i), part.batch(i)) for i in range(2))
    assert (part.labels(1) == whole.labels(1)).all()
    assert open_stream(_numbered(50), GREY, 8, limit_batches=99).num_batches == 6


def test_another_order_shares_the_pictures() -> None:
    shift = _numbered(50)
    first = open_stream(shift, GREY, 8, seed=1)
    second, fresh = first.under(single(shift, 8, seed=2)), open_stream(shift, GREY, 8, seed=2)
    assert second is not None
    first.close()
    assert first.under(fresh.order) is None
    assert all(torch.equal(second.batch(i), fresh.batch(i)) for i in range(6))
    assert (second.labels(3) == fresh.labels(3)).all()
    limited = open_stream(shift, GREY, 8, seed=1, limit_batches=2)
    assert limited.under(single(shift, 8, seed=2, limit_batches=2)) is None
    assert fresh.under(single(_numbered(50), 8)) is None
    head = fresh.under(fresh.order.head(2))
    assert head is not None
    assert (head.num_batches, torch.equal(head.batch(1), fresh.batch(1))) == (2, True)


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"limit_batches": 0}, {"workers": -1}])
def test_wrong_settings(wrong: dict[str, int]) -> None:
    with pytest.raises(TemporaError, match=next(iter(wrong))):
        open_stream(_numbered(80), GREY, **wrong)


def _files(paths: list[Path]) -> Shift:
    source = FileImages(paths[0].parent, [path.name for path in paths])
    return Shift("files", np.arange(len(paths)) % 7, 7, source, fingerprint="files")


def test_threads_cache_and_the_calling_thread_give_the_same_pixels(
    noise_pictures: list[Path], tmp_path: Path
) -> None:
    shift, progress = _files(noise_pictures), []
    here = open_stream(shift, CIFAR_LIKE, 8, workers=0)
    threads = open_stream(shift, CIFAR_LIKE, 8, workers=2, progress=lambda *counts: progress.append(counts))
    cached = open_stream(shift, CIFAR_LIKE, 8, workers=0, cache_dir=tmp_path / "cache")
    for i in range(5):
        assert torch.equal(here.batch(i), threads.batch(i))
        assert torch.equal(here.batch(i), cached.batch(i))
    assert progress == [(done, 40) for done in range(8, 41, 8)]


def test_a_cached_shift_is_not_decoded_again(noise_pictures: list[Path], tmp_path: Path) -> None:
    shift = _files(noise_pictures)
    first = open_stream(shift, CIFAR_LIKE, 8, workers=0, cache_dir=tmp_path / "cache")
    for path in noise_pictures:
        path.unlink()
    assert torch.equal(
        open_stream(shift, CIFAR_LIKE, 8, cache_dir=tmp_path / "cache").batch(1), first.batch(1)
    )
    limited = open_stream(shift, CIFAR_LIKE, 8, cache_dir=tmp_path / "cache", limit_batches=1)
    assert torch.equal(limited.batch(0), first.batch(0))
    other = Preprocessing(CIFAR_LIKE.mean, CIFAR_LIKE.std, (3, 16, 16))
    with pytest.raises(TemporaError, match="cannot be read"):
        open_stream(shift, other, 8, workers=0, cache_dir=tmp_path / "cache")


def test_a_damaged_cache_is_made_again(noise_pictures: list[Path], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = open_stream(_files(noise_pictures), CIFAR_LIKE, 8, workers=0, cache_dir=cache).batch(0)
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    assert torch.equal(
        open_stream(_files(noise_pictures), CIFAR_LIKE, 8, workers=0, cache_dir=cache).batch(0), first
    )
    assert [path.name for path in cache.iterdir()] == [file.name]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_truncated_image_is_named(noise_pictures: list[Path], tmp_path: Path, workers: int) -> None:
    bad = noise_pictures[23]
    bad.write_bytes(bad.read_bytes()[:-200])
    with pytest.raises(TemporaError, match=f"{bad.name}: cannot be read as an image"):
        open_stream(_files(noise_pictures), CIFAR_LIKE, 8, workers=workers, cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


class _Counted(FileImages):
    """Counts how often it is read."""

    reads = 0

    def read(self, indices: np.ndarray, geometry: Geometry) -> np.ndarray:
        type(self).reads += len(indices)
        return super().read(indices, geometry)


def test_files_are_decoded_when_the_stream_opens_and_never_again(noise_pictures: list[Path]) -> None:
    """A batch whose clock is running has the machine to itself."""
    names = [path.name for path in noise_pictures]
    labels = np.arange(20) % 7
    shifts = [
        Shift(place, labels, 7, _Counted(noise_pictures[0].parent, some), place)
        for place, some in (("here", names[:20]), ("there", names[20:]))
    ]
    for order in (single(shifts[0], 4), *draw(StreamSettings("mixed"), shifts, 4, 1)):
        _Counted.reads = 0
        stream = open_stream(order, CIFAR_LIKE, workers=2)
        assert _Counted.reads == sum(map(len, order.shifts))
        for i in range(stream.num_batches):
            stream.batch(i)
        assert _Counted.reads == sum(map(len, order.shifts))


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (np.zeros(3, np.int64), "one integer label per image"),
        (np.zeros(2), "one integer label per image"),
        (np.array([0, 10]), "labels 10 are none of its 10"),
    ],
)
def test_a_shift_refuses_labels_that_cannot_be_right(labels: np.ndarray, match: str) -> None:
    with pytest.raises(TemporaError, match=match):
        array_shift("x", np.zeros((2, 4, 4), np.uint8), labels, num_classes=10)


def test_fingerprints_tell_data_apart() -> None:
    images, labels = np.zeros((2, 4, 4), np.uint8), np.array([0, 1])
    prints = [
        array_shift(name, pixels, targets, 10).fingerprint
        for name, pixels, targets in [
            ("a", images, labels),
            ("b", images, labels),
            ("a", images + 1, labels),
            ("a", images, labels[::-1]),
        ]
    ]
    assert len(set(prints)) == 4
    assert prints[0] == array_shift("a", images.copy(), labels.copy(), 10).fingerprint
