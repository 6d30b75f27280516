"""A run at several batch sizes: the same images at each, opened, asked and added to as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.analysis.sizes import Work, factors, to_run_next
from tempora_tta.engine.load_config import load_configs
from tempora_tta.scenarios import Deployment

CONFIG = """
data: {shifts: [contrast]}
methods: [standard, settle, adabn, tent]
batch_size: [1, 8]
batches: 12
grid: none
clock: {baseline_ms: 10, standard: [10, 0], settle: [10, 0], adabn: [12, 0], tent: [14, 20]}
"""


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory, said) -> Path:
    """Two sizes, and a third that was added."""
    folder = tmp_path_factory.mktemp("sizes")
    (folder / "frames.yaml").write_text(CONFIG)
    said("run", folder / "frames.yaml", "--out", folder / "frames", "--quiet")
    said("run", folder / "frames", "--batch-size", "4", "--methods", "standard,settle,adabn,tent", "--quiet")
    return folder / "frames"


def test_every_size_sees_the_same_images_also_one_that_is_added(frames: Path) -> None:
    opened = tempora.open_run(frames)
    found = opened.utilities.groupby("batch_size")["batches"].max()
    assert (found * found.index).to_dict() == {1: 96, 4: 96, 8: 96}
    standard = opened.utilities.query("method == 'standard'").set_index("batch_size")["utility"]
    assert standard[1] == standard[4] == standard[8]


def test_the_answer_names_method_and_size_and_the_factors_that_make_it(frames: Path) -> None:
    found = tempora.open_run(frames).recommend(fps=20, deadline_ms=120)
    assert (found.method, found.setting["batch_size"], found.fits) == ("settle", 1, "yes")
    assert np.prod(list(found.factors.values())) == pytest.approx(found.ranking["utility"].iloc[0])
    assert {one["batch_size"] for one in found.sizes} >= {8}
    relaxed = tempora.open_run(frames).recommend(fps=20, deadline_ms=10_000)
    assert relaxed.ranking["utility"].iloc[0] >= max(one["worth"] for one in relaxed.sizes)
    large = tempora.open_run(frames / "batch-8").recommend(fps=20, deadline_ms=120)
    assert large.fits == "unknown"
    assert "--batch-size 3" in str(large)


def test_one_size_is_a_run_as_ever_and_is_not_mixed_with_several(frames: Path, tmp_path: Path, said) -> None:
    (tmp_path / "one.yaml").write_text(CONFIG.replace("[1, 8]", "[8]"))
    (only,) = load_configs(tmp_path / "one.yaml")
    assert (only.batch_size, only.batches) == (8, 12)
    with pytest.raises(TemporaError, match="one batch size"):
        said("run", frames, "--batch-size", "1,8", "--out", frames / "batch-8")


times = st.floats(0.1, 200.0)


@given(size=st.integers(1, 32), fps=st.floats(1, 500), deadline_ms=times, predict_ms=times, adapt_ms=times)
def test_the_closed_form_is_what_the_deployment_gets_exactly_where_it_keeps_up(
    size: int, fps: float, deadline_ms: float, predict_ms: float, adapt_ms: float
) -> None:
    found = factors(Work(1.0, predict_ms, predict_ms + adapt_ms), size, fps / 1000, deadline_ms)
    edge = (deadline_ms - predict_ms) * fps / 1000
    if found.keeps_up < 1 or abs(edge - round(edge)) < 1e-6:
        return
    deployment = Deployment(fps=fps, batch_size=size, deadline_ms=deadline_ms)
    score = deployment.score(accuracy=np.ones(50), predict_ms=predict_ms, adapt_ms=adapt_ms)
    assert found.utility == pytest.approx(score.utility)


@given(st.integers(2, 400), st.integers(0, 200), st.floats(2.0, 60.0))
def test_the_closed_form_is_near_what_the_deployment_gets_where_it_does_not(
    fps: int, adapt_ms: int, deadline: float
) -> None:
    work = Work(1.0, 20.0, 20.0 + adapt_ms)
    deployment = Deployment(fps=fps, batch_size=8, deadline_ms=deadline * 20.0)
    score = deployment.score(accuracy=np.ones(4000), predict_ms=20.0, adapt_ms=adapt_ms)
    found = factors(work, 8, fps / 1000, deadline * 20.0)
    assert found.utility == pytest.approx(score.utility, abs=0.1)


def test_the_size_to_run_next_is_the_largest_whose_first_frame_is_in_time() -> None:
    sizes = {size: {"settle": Work(0.6 + size / 400, 2.0, 2.0)} for size in (1, 4, 64)}
    assert to_run_next(sizes, 0.03, deadline_ms=502.0)["batch_size"] == 16
    assert to_run_next(sizes, 0.03, deadline_ms=102.0) == {}, "batches of 4 were run"
