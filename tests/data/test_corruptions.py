"""The corruptions, compared with an outside implementation (the PyPI package imagecorruptions-imaug).

What is deterministic must agree pixel by pixel. What is random is fed the numbers that the outside package
drew, and must agree then; where that is impossible (other textures, other samplers) mean, spread and
spectrum must agree.
"""

from __future__ import annotations

import itertools
from unittest import mock

import imagecorruptions
import numpy as np
import pytest
import torch
from imagecorruptions import corruptions as outside
from PIL import Image
from torch import Tensor

from tempora_tta.data.corruptions import SEVERITIES, corrupt, names
from tempora_tta.data.corruptions.blur import displace, motion_blur
from tempora_tta.data.corruptions.constants import CONSTANTS
from tempora_tta.data.corruptions.digital import elastic_transform
from tempora_tta.data.corruptions.weather import fog, snow
from tempora_tta.errors import TemporaError

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SIZE = 64
COMPILED_LOOP = outside._shuffle_pixels_njit_glass_blur


def plain_loop(
    height: int, width: int, pixels: np.ndarray, c: tuple[float, int, int], seed: int
) -> np.ndarray:
    """The outside package's loop over pixels, run as Python: compiling it takes 15 seconds."""
    return COMPILED_LOOP.py_func(height, width, pixels, c, seed % 2**32)


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    """Smooth colours, hard edges and fine texture: uint8 (64, 64, 3)."""
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    rng = np.random.default_rng(7)
    colours = np.stack([0.2 + 0.6 * x, 0.8 - 0.5 * y, 0.5 + 0.4 * np.sin(9 * x * y)], axis=-1)
    colours[(x - 0.4) ** 2 + (y - 0.6) ** 2 < 0.06] = (0.9, 0.3, 0.15)
    colours[8:30, 34:56] *= 0.35
    colours += 0.06 * rng.standard_normal((SIZE, SIZE, 1))
    return (colours.clip(0, 1) * 255).astype(np.uint8)


def as_batch(picture: np.ndarray) -> Tensor:
    return torch.from_numpy(picture).permute(2, 0, 1)[None]


def as_picture(batch: Tensor) -> np.ndarray:
    return batch[0].permute(1, 2, 0).numpy()


def outside_corrupt(picture: np.ndarray, name: str, severity: int) -> np.ndarray:
    with mock.patch.object(outside, "_shuffle_pixels_njit_glass_blur", plain_loop):
        return imagecorruptions.corrupt(picture, severity, corruption_name=name)


def levels_apart(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    return np.abs(ours.astype(int) - theirs.astype(int))


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize(
    "name",
    ["brightness", "contrast", "defocus_blur", "zoom_blur", "gaussian_blur", "pixelate", "jpeg_compression"],
)
def test_deterministic_ones_agree_to_one_level(name: str, severity: int, picture: np.ndarray) -> None:
    # One level: they work in float64 or round between two passes of a filter, we in float32 and round once.
    theirs = outside_corrupt(picture, name, severity)
    ours = as_picture(corrupt(as_batch(picture), name, severity))
    assert levels_apart(ours, theirs).max() <= 1


class Recorder:
    """Stands in for a function of np.random and keeps what it gave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
        self.given: list[np.ndarray] = []
        self._original = getattr(np.random, function)
        monkeypatch.setattr(np.random, function, self)

    def __call__(self, *arguments: object, **named: object) -> np.ndarray:
        self.given.append(np.array(self._original(*arguments, **named)))
        return self.given[-1].copy()


def float_batch(picture: np.ndarray) -> Tensor:
    return as_batch(picture).float() / 255


def to_levels(batch: Tensor) -> np.ndarray:
    return (as_picture(batch.clamp(0, 1)) * 255 + 1e-3).astype(np.uint8)


@pytest.mark.parametrize("severity", [1, 5])
def test_motion_blur_agrees_along_the_same_angle(
    severity: int, picture: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.random.seed(3)  # noqa: NPY002  the outside package draws from numpy's global generator
    angles = Recorder(monkeypatch, "uniform")
    theirs = outside.motion_blur(Image.fromarray(picture), severity).astype(np.uint8)
    c = CONSTANTS["imagenet"]["motion_blur"][severity - 1]
    ours = motion_blur(float_batch(picture), c, torch.from_numpy(angles.given[0]).view(1, 1))
    assert levels_apart(to_levels(ours), theirs).max() <= 1


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_snow_agrees_for_the_same_flakes(
    severity: int, picture: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = picture[:60, :60]  # every zoom divides this size; else they trim one corner, we the border
    np.random.seed(4)  # noqa: NPY002
    flakes, angles = Recorder(monkeypatch, "normal"), Recorder(monkeypatch, "uniform")
    theirs = outside.snow(Image.fromarray(picture), severity).astype(np.uint8)
    c = CONSTANTS["imagenet"]["snow"][severity - 1]
    normal = torch.from_numpy((flakes.given[0] - c[0]) / c[1]).float()[None, None]
    ours = snow(float_batch(picture), c, normal, torch.from_numpy(angles.given[0]).view(1, 1))
    # They round the layer of flakes to whole levels before adding it twice.
    assert levels_apart(to_levels(ours), theirs).max() <= 2


def test_glass_blur_moves_pixels_as_a_plain_loop_does(picture: np.ndarray) -> None:
    sigma, farthest, rounds = CONSTANTS["imagenet"]["glass_blur"][4]
    room = SIZE - 2 * farthest
    np.random.seed(5)  # noqa: NPY002
    drawn = np.random.randint(-farthest, farthest, size=(rounds, room, room, 2))  # noqa: NPY002
    theirs = outside._shuffle_pixels_njit_glass_blur(
        SIZE, SIZE, picture.copy(), (sigma, farthest, rounds), seed=5
    )
    ours = displace(as_batch(picture), farthest, torch.from_numpy(drawn)[None])
    np.testing.assert_array_equal(as_picture(ours), theirs)


def lay_out(drawn: list[np.ndarray], side: int) -> np.ndarray:
    """The outside package's draws for its fractal, in filling order, at the places they fill."""
    field, step, order = np.zeros((side, side), np.float32), side, iter(drawn)
    amplitude = 100.0
    while step >= 2:
        on, between = slice(0, None, step), slice(step // 2, None, step)
        for rows, columns in [(between, between), (on, between), (between, on)]:
            field[rows, columns] = next(order) / amplitude
        step, amplitude = step // 2, amplitude / 1.4
    return field


def test_fog_agrees_for_the_same_landscape(picture: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    np.random.seed(6)  # noqa: NPY002
    recorder = Recorder(monkeypatch, "uniform")
    theirs = outside.fog(Image.fromarray(picture), 5).astype(np.uint8)
    uniform = torch.from_numpy(lay_out(recorder.given, SIZE))[None]
    ours = fog(float_batch(picture), CONSTANTS["imagenet"]["fog"][4], uniform)
    assert levels_apart(to_levels(ours), theirs).max() <= 1


def test_elastic_displacement_agrees_for_the_same_jitter(
    picture: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outside package leaves out the affine part and scales its constants with the image; so do we
    here."""
    np.random.seed(8)  # noqa: NPY002
    recorder = Recorder(monkeypatch, "uniform")
    theirs = outside.elastic_transform(Image.fromarray(picture), 5).astype(np.uint8)
    jitter = torch.from_numpy(np.stack(recorder.given)).float()[None]
    ours = elastic_transform(float_batch(picture), (250 * 0.12, 0.01 * SIZE, 0), torch.zeros(1, 3, 2), jitter)
    assert levels_apart(to_levels(ours), theirs).max() <= 1


def test_elastic_affine_part_moves_three_points_where_it_should() -> None:
    """A bright spot at each of the three points turns up where that point was moved to."""
    size, arm = 48, 16
    points = [(24 + arm, 24 + arm), (24 + arm, 24 - arm), (24 - arm, 24 - arm)]
    moves = torch.tensor([[2.0, -3.0], [-1.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
    for (x, y), (dx, dy) in zip(points, moves.tolist(), strict=True):
        spot = torch.zeros(1, 1, size, size)
        spot[0, 0, y, x] = 1
        moved = elastic_transform(spot, (0, 0, 1), moves[None], torch.zeros(1, 2, size, size))
        assert divmod(int(moved.argmax()), size) == (y + dy, x + dx)


def spectrum(pictures: np.ndarray) -> np.ndarray:
    """Log of the mean power of grey pictures (n, h, w) in four rings of frequency."""
    power = (np.abs(np.fft.fft2(pictures)) ** 2).mean(0)
    frequency = np.hypot(np.fft.fftfreq(power.shape[0])[:, None], np.fft.fftfreq(power.shape[1]))
    rings = itertools.pairwise([0.01, 0.06, 0.15, 0.3, 0.71])
    return np.log([power[(frequency > low) & (frequency <= high)].mean() for low, high in rings])


RANDOM = {
    # pictures of each, allowed difference of the means (levels), of the log power in a ring
    "gaussian_noise": (24, 1.0, 0.1),
    "shot_noise": (24, 1.0, 0.1),
    "impulse_noise": (24, 1.0, 0.1),
    "speckle_noise": (24, 1.0, 0.1),
    "glass_blur": (12, 1.0, 0.1),
    "motion_blur": (48, 1.0, 0.3),
    "snow": (24, 4.0, 0.2),
    "fog": (24, 6.0, 0.2),
    "spatter": (24, 4.0, 0.2),
    "frost": (150, 12.0, 0.7),  # other textures than theirs
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_ones_agree_in_mean_and_spectrum(name: str, picture: np.ndarray) -> None:
    count, mean_tolerance, power_tolerance = RANDOM[name]
    np.random.seed(11)  # noqa: NPY002
    theirs = np.stack([outside_corrupt(picture, name, 5) for _ in range(count)]).mean(-1)
    ours = corrupt(as_batch(picture).expand(count, -1, -1, -1), name, 5).float().mean(1).numpy()
    assert abs(ours.mean() - theirs.mean()) <= mean_tolerance
    assert np.abs(spectrum(ours) - spectrum(theirs)).max() <= power_tolerance


def damage(clean: np.ndarray, corrupted: np.ndarray) -> float:
    return float(np.abs(corrupted.astype(float) - clean).mean())


# The outside package replaced the published constants of the elastic transform by others of its own.
@pytest.mark.parametrize("name", [name for name in names() if name != "elastic_transform"])
def test_severities_come_in_the_same_order(name: str, picture: np.ndarray) -> None:
    """Wherever one severity clearly does more damage than another in their pictures, it does in ours."""
    np.random.seed(12)  # noqa: NPY002
    count = 30 if name == "frost" else 6
    batch = as_batch(picture).expand(count, -1, -1, -1)
    ours = [damage(batch.numpy(), corrupt(batch, name, s).numpy()) for s in SEVERITIES]
    theirs = [
        np.mean([damage(picture, outside_corrupt(picture, name, s)) for _ in range(count)])
        for s in SEVERITIES
    ]
    clear = [
        (low, high) for low, high in itertools.permutations(range(5), 2) if theirs[low] * 1.15 < theirs[high]
    ]
    assert len(clear) >= 3
    assert all(ours[low] < ours[high] for low, high in clear)


@pytest.mark.parametrize("constants", ["imagenet", "cifar", "fashion"])
@pytest.mark.parametrize("name", names())
def test_batches_grey_images_and_odd_sizes(name: str, constants: str) -> None:
    """An image's result depends on its index, not on its batch; sizes may divide nothing."""
    channels = 3 if name == "saturate" else 1
    images = torch.randint(0, 256, (5, channels, 21, 30), generator=torch.Generator().manual_seed(1)).byte()
    whole = corrupt(images, name, 4, constants)
    assert whole.shape == images.shape
    assert whole.dtype == torch.uint8
    assert not torch.equal(whole, images)
    parts = [corrupt(images[:2], name, 4, constants), corrupt(images[2:], name, 4, constants, first_index=2)]
    assert torch.equal(torch.cat(parts), whole)


def test_seed_and_index_decide_the_noise() -> None:
    images = torch.full((2, 1, 8, 8), 128, dtype=torch.uint8)
    first, second = corrupt(images, "gaussian_noise")
    assert not torch.equal(first, second)
    assert torch.equal(corrupt(images[:1], "gaussian_noise", first_index=1)[0], second)
    assert not torch.equal(corrupt(images, "gaussian_noise", seed=1)[0], first)


@pytest.mark.parametrize("name", names())
def test_images_smaller_than_any_kernel(name: str) -> None:
    images = torch.randint(0, 256, (2, 3, 5, 4), generator=torch.Generator().manual_seed(2)).byte()
    assert corrupt(images, name, 5, "imagenet").shape == images.shape


def test_floating_point_stays_floating_point() -> None:
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    fractions = corrupt(images, "contrast", 3)
    assert fractions.dtype == torch.float32
    assert torch.allclose(fractions.mean((2, 3)), images.mean((2, 3)), atol=1e-6)
    assert torch.allclose(fractions.std((2, 3)), 0.2 * images.std((2, 3)), rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "gausian_noise"}, "unknown corruption 'gausian_noise': did you mean 'gaussian_noise'"),
        ({"constants": "imagnet"}, "unknown set of constants 'imagnet': did you mean 'imagenet'"),
        ({"severity": 6}, "severity=6: must be 1, 2, 3, 4 or 5"),
        (
            {"images": torch.zeros(2, 8, 8, 3)},
            r"shape \(2, 8, 8, 3\): expected \(n, channels, height, width\)",
        ),
        ({"images": torch.zeros(2, 1, 8, 8).long()}, "type torch.int64: expected uint8, or floating point"),
        ({"name": "saturate"}, "saturate changes colours, and these images are grey"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], message: str) -> None:
    arguments = {"images": torch.zeros(2, 1, 8, 8), "name": "fog", "severity": 5, "constants": "imagenet"}
    with pytest.raises(TemporaError, match=message):
        corrupt(**(arguments | change))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", names())
def test_the_gpu_gives_what_the_cpu_gives(name: str, picture: np.ndarray) -> None:
    batch = as_batch(picture)
    on_gpu = corrupt(batch.cuda(), name)
    assert on_gpu.is_cuda
    assert levels_apart(on_gpu.cpu().numpy(), corrupt(batch, name).numpy()).max() <= 1
