"""`tempora export`: graphs that answer as Tempora does, run without torch, and are refused where they do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tempora_tta import TemporaError, data, methods, models
from tempora_tta.engine.load_config import load_configs
from tempora_tta.methods import graphs
from tempora_tta.serving import export as exporting
from tempora_tta.timing import load_profile

RESNET, VIT = "fashion_resnet", "fashion_vit"


def configs(model: str, method: str, sizes: str, **settings: object) -> list:
    chosen = [{"name": method, **settings}]
    flags = {
        "model": model,
        "methods": chosen,
        "batch_size": sizes,
        "grid": "none",
        "data.shifts": "contrast",
    }
    return load_configs(None, flags=flags)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("model", "method", "settings", "frozen_after"),
    [
        (VIT, "settle", {"alarm": 0}, None),
        (RESNET, "tent", {}, 4),
        pytest.param(RESNET, "settle", {"alarm": 0}, None, marks=SLOW),
        pytest.param(VIT, "neo", {}, None, marks=SLOW),
        pytest.param(VIT, "tent", {}, 4, marks=SLOW),
    ],
)
def test_a_replay_gives_the_same_classes_and_scores(
    tmp_path: Path, model, method, settings, frozen_after
) -> None:
    (found,) = exporting.export(configs(model, method, "32", **settings), tmp_path / "out", frozen_after)
    assert (found.same_class, found.difference < exporting.TOLERANCE) == (found.images, True)


def test_it_refuses_what_the_exporter_makes_of_batchnorm_that_follows_the_batch(
    tmp_path: Path, monkeypatch
) -> None:
    class Plain(graphs.WrittenOut):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **kwargs or {})

    monkeypatch.setattr(graphs, "WrittenOut", Plain)
    with pytest.raises(TemporaError, match="not exported"):
        exporting.export(configs(RESNET, "adabn", "32"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("tent", "tent.*--frozen-after"),
        ("t3a", "t3a.*--frozen-after"),
        ("settle", "settle.*alarm=0"),
        ("standard", "another folder"),
    ],
)
def test_what_is_no_graph_or_would_replace_files_is_refused_with_a_remedy(tmp_path, method, said) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(TemporaError, match=said):
        exporting.export(configs(RESNET, method, "32"), tmp_path / ("" if method == "standard" else "out"))


WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = sys.modules["tempora_tta"] = None  # importing either fails
sys.path.insert(0, sys.argv.pop(1))
import numpy as np
from run import Model
model = Model(8)
broken = model(np.full((8, 1, 28, 28), np.nan, dtype=np.float32))
assert np.isnan(broken).any()
np.save("scores.npy", [model(images) for images in np.load("images.npy")])
np.savez("state.npz", **model.state)
runpy.run_path(sys.modules["run"].__file__, run_name="__main__")
"""


def test_run_py_needs_no_torch_outlives_a_broken_image_and_writes_clocks(tmp_path: Path) -> None:
    exporting.export(configs(RESNET, "adabn", "1,8"), tmp_path / "out")
    network = models.load(RESNET)
    method = methods.create("adabn", network)
    shift = data.open("fashion", shifts="contrast")["contrast"]
    stream = data.open_stream(shift, network.preprocessing, batch_size=8, limit_batches=6, workers=0)
    images = [stream.batch(index) for index in range(stream.num_batches)]
    np.save(tmp_path / "images.npy", np.stack(images))
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "out"), "--profile"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    expected = np.stack([method.predict(batch).numpy() for batch in images])
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, atol=1e-3 * abs(expected).max())
    learned = np.load(tmp_path / "state.npz")
    for name, buffer in method.statistics.buffers().items():
        np.testing.assert_allclose(learned[name], buffer.numpy(), rtol=1e-2, atol=1e-3)
    for size in (1, 8):
        clock = load_profile(tmp_path / f"profile-{size}.json")
        assert (clock.methods, clock.batch_size) == ({"standard", "adabn"}, size)
        assert clock.baseline_ms == pytest.approx(1.03 * clock.standard_ms)
    assert json.loads((tmp_path / "out" / "export.json").read_text())["batch_sizes"] == [1, 8]
