"""The bundled benchmark: real images, networks that know them, corruptions that hurt and are cached."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tempora_tta import data, methods
from tempora_tta.data import bundled, open_stream
from tempora_tta.data.groups import CORRUPTIONS
from tempora_tta.data.images import ArrayImages
from tempora_tta.data.shift import Shift
from tempora_tta.errors import TemporaError
from tempora_tta.models import Classifier, load

CLEAN_ACCURACY = {"fashion_resnet": 0.915, "fashion_vit": 0.88, "fashion_vit_token": 0.88}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEMPORA_CACHE", str(tmp_path))
    return tmp_path / "fashion"


def accuracy(
    model: Classifier, shift: Shift, batches: int | None = None, batch_statistics: bool = False
) -> float:
    """Of a stream of batches of 64; with `batch_statistics` its BatchNorm layers ignore what training left."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.train(batch_statistics)
    stream = open_stream(shift, model.preprocessing, limit_batches=batches)
    with torch.no_grad():
        right = [
            (model(stream.batch(i)).argmax(1).numpy() == stream.labels(i)).mean()
            for i in range(stream.num_batches)
        ]
    return float(np.mean(right))


def test_the_test_set_is_whole() -> None:
    images, labels = bundled.test_set()
    assert images.shape == (10_000, 28, 28)
    assert np.bincount(labels).tolist() == [1000] * 10


def test_source_samples_are_training_images_that_no_stream_has() -> None:
    shift = bundled.fashion_train()["train"]
    images = _pixels(shift)
    assert images.shape == (bundled.SOURCE_SAMPLES, 28, 28)
    assert np.bincount(shift.labels, minlength=10).min() > 150
    tested = {image.tobytes() for image in bundled.test_set()[0]}
    assert not tested & {image.tobytes() for image in images}


def _pixels(shift: Shift) -> np.ndarray:
    assert isinstance(shift.source, ArrayImages)
    return shift.source.array


@pytest.mark.slow
@pytest.mark.parametrize("name", CLEAN_ACCURACY)
def test_networks_know_the_clean_images(name: str) -> None:
    clean = bundled.fashion(shifts="clean")["clean"]
    assert accuracy(load(name), clean) >= CLEAN_ACCURACY[name]


@pytest.mark.parametrize("name", ["gaussian_noise", "motion_blur", "contrast"])
def test_severity_5_hurts_and_batch_statistics_mend(name: str) -> None:
    model, shift = load("fashion_resnet"), bundled.fashion(shifts=[name])[name]
    standard, adabn = (accuracy(model, shift, batches=20, batch_statistics=on) for on in (False, True))
    assert standard < 0.65
    assert adabn > standard + 0.2


@pytest.mark.parametrize("name", CLEAN_ACCURACY)
def test_recipes_reach_the_methods(name: str) -> None:
    model = load(name)
    assert {"tent", "eta", "shot_im", "sar", "deyo", "cmf"} <= set(model.recipe)
    for method, settings in model.recipe.items():
        given = methods.create(method, model, source=lambda n: torch.rand(n, 1, 28, 28)).settings
        assert {key: getattr(given, key) for key in settings} == settings


def test_shifts_are_named_grouped_and_tell_themselves_apart() -> None:
    shifts = bundled.fashion()
    assert list(shifts) == ["clean", *CORRUPTIONS]
    assert shifts["fog"].group == "weather"
    assert shifts["fog"].class_names[9] == "Ankle boot"
    mild = bundled.fashion(severity=1)
    fingerprints = {shift.fingerprint for shift in [*shifts.values(), *mild.values()]}
    assert len(fingerprints) == 31  # clean has no severity


def read_some(name: str = "contrast") -> np.ndarray:
    shift = bundled.fashion(shifts=[name])[name]
    return shift.images([3, 9_999], load("fashion_resnet").preprocessing).numpy()


@pytest.mark.parametrize("harm", ["cut", "flip", "empty"])
def test_a_damaged_cache_is_made_again(harm: str, cache: Path) -> None:
    first = read_some()
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "cut": whole[:middle],
        "flip": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "empty": b"",
    }
    path.write_bytes(damaged[harm])
    np.testing.assert_array_equal(read_some(), first)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("names", "severity", "message"),
    [
        (["fogg"], 5, "unknown shift 'fogg': did you mean 'fog'"),
        (["saturate"], 5, "unknown shift 'saturate'"),
        (["fog"], 0, "severity=0: must be"),
    ],
)
def test_mistakes_are_named(names: list[str], severity: int, message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        data.open("fashion", shifts=names, severity=severity)
