"""The published tables as data: complete, in our units, with their printed precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tempora_tta import published
from tempora_tta.errors import TemporaError

ROWS = {
    "offline": 394,
    "overhead": 37,
    "utility_sweeps": 1119,
    "decomposition": 1166,
    "winners": 495,
    "win_counts": 13,
    "correlation": 527,
    "deficit": 84,
    "below_standard": 76,
    "buffering": 30,
    "ablation": 16,
    "temporal_factors": 63,
}


@pytest.mark.parametrize("name", published.TABLES)
def test_every_table_ships_with_all_its_rows(name: str) -> None:
    assert len(published.table(name)) == len(published.printed(name)) == ROWS[name]
    by_setup = [published.table(name, setup) for setup in published.setups()]
    assert sum(map(len, by_setup)) == ROWS[name]


def test_numbers_are_fractions_and_milliseconds_and_a_dash_is_missing() -> None:
    sweep = published.table("utility_sweeps", "rn50_inc").set_index(["method", "label"])
    assert sweep.loc[("standard", "ρ 100 %"), "utility"] == 0.1816
    assert sweep.loc[("eta", "ρ 70 %"), "value"] == 56.4
    assert sweep.loc[("eta", "B 32 s"), ["parameter", "value"]].tolist() == ["budget_ms", 32000.0]
    factors = published.table("temporal_factors", "rn50_inc").set_index(["method", "factor"])["factor_value"]
    assert (factors["sar", "availability"], factors["sar", "cutoff"]) == (0.206, 7)
    buffering = published.table("buffering").set_index(["method", "variant"])["waitspan_ms"]
    assert buffering["adabn", "unbuffered"] == pytest.approx(15100)
    frozen = published.table("decomposition", "rn50_inc").query("protocol == 'amortised' and shift == 'all'")
    frozen = frozen.set_index("method")["frozen_accuracy"]
    assert np.isnan(frozen["standard"])
    assert frozen["tent"] == 0.001


def test_half_a_unit_in_the_last_printed_place() -> None:
    half = published.half_unit("decomposition", "rn50_inc").set_index(["protocol", "shift", "method"])
    text = published.printed("decomposition", "rn50_inc").set_index(["protocol", "shift", "method"])
    cell = ("continuous", "all", "tent")
    assert text.loc[cell, ["accuracy", "responsiveness", "covariance"]].tolist() == [
        "42.88",
        "15.1",
        "-0.0001",
    ]
    assert half.loc[cell, ["accuracy", "responsiveness", "covariance"]].tolist() == [5e-5, 5e-4, 5e-5]
    factors = published.half_unit("temporal_factors", "rn50_inc").set_index(["method", "factor"])
    assert factors.loc[("sar", "availability"), "factor_value"] == 5e-4
    assert factors.loc[("sar", "cutoff"), "factor_value"] == 0.5


def test_setups_hold_the_paper_s_grids() -> None:
    sizes = {name: len(published.setup(name).grid) for name in published.setups()}
    assert sizes == {
        "rn50_inc": 16,
        "vit_inc": 15,
        "rn50_inr": 16,
        "rn50_inv2": 16,
        "vit_inr": 15,
        "vit_inv2": 15,
        "rn18_c10c_rpi5": 9,
        "rn18_c10c_rtx4080": 9,
    }
    # 750+ temporal evaluations: 240 + 225 on ImageNet-C, 62 on R and V2, 270 on CIFAR-10-C.
    assert (
        sum(size * len(published.setup(name).shifts) for name, size in sizes.items()) == 240 + 225 + 62 + 270
    )
    intervals = [point.value for point in published.setup("rn50_inc").grid if point.protocol == "discrete"]
    assert intervals == [39.9, 56.4, 79.8, 112.8, 159.6]  # as printed: 112.854 is cut off
    assert [point.label for point in published.setup("vit_inc").strict] == ["ρ 100 %", "T 200 ms", "B 2.5 s"]


@pytest.mark.parametrize(
    ("model", "dataset", "accuracy"),
    [
        ("resnet50", "imagenet", 0.761),
        ("resnet50", "imagenet_c", 0.1816),
        ("resnet50.tv_in1k", "imagenet-r", 0.362),
        ("resnet50", "ImageNet-V2", 0.632),
        ("vit_base_patch16_224.augreg_in21k_ft_in1k", "imagenet_c", 0.5553),
        ("vit_b16", "imagenet_r", 0.595),
        ("vit_b16", "imagenet_v2", 0.755),
        ("vit_b16", "imagenet", None),
        ("resnet18", "cifar10_c", None),
        ("fashion_resnet", "fashion", None),
    ],
)
def test_known_accuracies(model: str, dataset: str, accuracy: float | None) -> None:
    assert published.known_accuracy(model, dataset) == accuracy


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: published.table("offlin"), ["offlin", "offline"]),
        (lambda: published.table("offline", "rn50"), ["rn50", "rn50_inc"]),
        (lambda: published.profile("rn18_c10c"), ["rn18_c10c", "rn18_c10c_rpi5"]),
        (lambda: published.as_utilities("rn50_inc", "shift"), ["shift", "shifts"]),
        (lambda: published.as_utilities("rn18_c10c_rpi5"), ["aggregate"]),
        (lambda: published.as_utilities("vit_inc", "buffering"), ["buffering", "rn50_inc"]),
    ],
)
def test_mistakes_say_what_is_allowed(call: Callable[[], object], parts: list[str]) -> None:
    with pytest.raises(TemporaError) as caught:
        call()
    assert all(part in str(caught.value) for part in parts), caught.value


def test_tables_are_copies() -> None:
    first = published.printed("offline")
    first["accuracy"] = "0"
    assert (published.printed("offline")["accuracy"] != "0").all()
