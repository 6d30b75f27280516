"""One method under several settings is a band; where bands overlap, the ranking depends on tuning."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_runs import METHODS, write_run
from tempora_tta.analysis.outcomes import over_shifts
from tempora_tta.analysis.tuning import bands
from tempora_tta.scenarios import Offline

TENT, ADABN = METHODS["tent"], METHODS["adabn"]


def test_a_band_spans_its_variants_and_names_whom_it_meets(tmp_path: Path) -> None:
    methods = {
        "standard": METHODS["standard"],
        "adabn": ADABN,
        "tent (default)": TENT._replace(accuracy=0.32),
        "tent (oracle)": TENT._replace(accuracy=0.60),
    }
    identity = {name: {"name": name.partition(" ")[0]} for name in methods}
    results = write_run(tmp_path, methods=methods, scenarios=(Offline(),), batches=8, identity=identity)
    rows = over_shifts(results.utilities, results.cards)
    (band,) = bands(results, rows).to_dict(orient="records")
    utility = rows.set_index("method")["utility"]
    assert band["lowest"] == pytest.approx(utility["tent (default)"])
    assert band["highest"] == pytest.approx(utility["tent (oracle)"])
    assert (band["lowest_with"], band["highest_with"]) == ("tent (default)", "tent (oracle)")
    assert band["overlaps"] == "adabn"
    assert list(band["settings"]) == ["default", "oracle"], "by name"


def test_a_run_with_one_setting_each_has_no_bands(tmp_path: Path) -> None:
    results = write_run(tmp_path, scenarios=(Offline(),), batches=4)
    assert bands(results, over_shifts(results.utilities, results.cards)).empty
