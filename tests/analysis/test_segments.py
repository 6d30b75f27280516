"""Where in a stream methods collapse, recover and forget: worked examples."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tempora.analysis import by_segment, collapses, over_visits
from tempora.analysis.segments import longest_run


@given(st.lists(st.booleans(), max_size=40))
def test_the_longest_run_is_one(flags: list[bool]) -> None:
    start, length = longest_run(flags)
    assert all(flags[start : start + length])
    text = "".join("x" if flag else " " for flag in flags)
    assert length == max(map(len, text.split()), default=0)
    assert "x" * (length + 1) not in text


def _batches(**correct: list[int]) -> pd.DataFrame:
    frames = [
        pd.DataFrame({"method": name, "shift": "continual", "seed": 1, "correct": values, "total": 10})
        for name, values in correct.items()
    ]
    return pd.concat(frames, ignore_index=True)


def test_who_collapses_and_who_recovers() -> None:
    batches = _batches(
        standard=[5] * 12,
        tent=[6, 6, *[4] * 10],
        sar=[6, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6, 6],
        neo=[4, 5] * 6,
    )
    found = collapses(batches, on_end=4).set_index("method")
    assert set(found.index) == {"tent", "sar"}
    assert found.loc["tent", ["first_batch", "batches", "recovered"]].tolist() == [2, 10, False]
    assert found.loc["sar", ["first_batch", "batches", "recovered"]].tolist() == [1, 4, True]
    assert collapses(batches, on_end=11).empty
    assert collapses(batches[batches["method"] != "standard"]).empty


def _segments() -> pd.DataFrame:
    rows = [
        ("tent", 1, "fog", 0, "fog", 1, 0.6),
        ("tent", 1, "snow", 1, "snow", 1, 0.5),
        ("tent", 1, "fog visit 2", 2, "fog", 2, 0.4),
        ("tent", 2, "fog", 0, "fog", 1, 0.8),
        ("tent", 2, "snow", 1, "snow", 1, 0.5),
        ("tent", 2, "fog visit 2", 2, "fog", 2, 0.8),
    ]
    columns = ["method", "seed", "segment", "position", "segment_shift", "visit", "utility"]
    return pd.DataFrame(rows, columns=columns).assign(severity=np.nan, batches=5)


def test_what_the_last_visit_has_over_the_first() -> None:
    found = over_visits(_segments())
    assert found["method"].tolist() == ["tent"]
    np.testing.assert_allclose(found["change"], [-0.1])
    assert over_visits(_segments().query("visit == 1")).empty


def test_seeds_are_pooled_in_the_order_of_the_first() -> None:
    found = by_segment(_segments())
    assert found["segment"].tolist() == ["fog", "snow", "fog visit 2"]
    np.testing.assert_allclose(found["utility"], [0.7, 0.5, 0.6])
