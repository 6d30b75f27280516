"""One method under several settings is a band; where bands overlap, the ranking depends on tuning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from report.made_run import METHODS, make_run
from tempora.analysis.outcomes import over_shifts
from tempora.analysis.tuning import bands
from tempora.scenarios import Offline

TENT, ADABN = METHODS["tent"], METHODS["adabn"]


def test_a_band_spans_its_variants_and_names_whom_it_meets(tmp_path: Path) -> None:
    methods = {
        "standard": METHODS["standard"],
        "adabn": ADABN,
        "tent (default)": replace(TENT, gain=0.02),
        "tent (oracle)": replace(TENT, gain=0.25),
    }
    names = {name: name.partition(" ")[0] for name in methods}
    results = make_run(tmp_path, methods=methods, scenarios=(Offline(),), batches=8, names=names)
    rows = over_shifts(results.utilities, results.cards)
    (band,) = bands(results, rows).to_dict(orient="records")
    utility = rows.set_index("method")["utility"]
    assert band["lowest"] == pytest.approx(utility["tent (default)"])
    assert band["highest"] == pytest.approx(utility["tent (oracle)"])
    assert (band["lowest_with"], band["highest_with"]) == ("tent (default)", "tent (oracle)")
    assert band["overlaps"] == "adabn"


def test_a_run_with_one_setting_each_has_no_bands(tmp_path: Path) -> None:
    results = make_run(tmp_path, scenarios=(Offline(),), batches=4)
    assert bands(results, over_shifts(results.utilities, results.cards)).empty
