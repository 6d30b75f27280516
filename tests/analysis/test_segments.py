"""Places in a stream where methods collapse, recover and forget: worked examples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempora_tta.analysis import by_segment, over_the_stream
from tempora_tta.store.segments import on_end


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 8))
def test_rows_of_true_values_that_are_long_enough(flags: list[bool], least: int) -> None:
    text = "".join("x" if flag else " " for flag in flags)
    kept = " ".join(word if len(word) >= least else " " * len(word) for word in text.split(" "))
    assert on_end(np.array(flags, dtype=bool), least).tolist() == [letter == "x" for letter in kept]


def _segments() -> pd.DataFrame:
    """Tent forgets fog in one seed of two and collapses there; sar collapses in both and comes back in one."""
    data = [
        ("tent", 1, "fog", 0, "fog", 1, 0.6, 0.5, 0, np.nan),
        ("tent", 1, "snow", 1, "snow", 1, 0.2, 0.5, 3, np.nan),
        ("tent", 1, "fog visit 2", 2, "fog", 2, 0.4, 0.5, 5, -0.2),
        ("tent", 2, "fog", 0, "fog", 1, 0.8, 0.5, 0, np.nan),
        ("tent", 2, "snow", 1, "snow", 1, 0.5, 0.5, 0, np.nan),
        ("tent", 2, "fog visit 2", 2, "fog", 2, 0.8, 0.5, 0, 0.0),
        ("sar", 1, "fog", 0, "fog", 1, 0.1, 0.5, 5, np.nan),
        ("sar", 1, "snow", 1, "snow", 1, 0.1, 0.5, 2, np.nan),
        ("sar", 1, "fog visit 2", 2, "fog", 2, 0.6, 0.5, 0, 0.5),
        ("sar", 2, "fog", 0, "fog", 1, 0.1, 0.5, 5, np.nan),
        ("sar", 2, "snow", 1, "snow", 1, 0.1, 0.5, 5, np.nan),
        ("sar", 2, "fog visit 2", 2, "fog", 2, 0.1, 0.5, 5, 0.0),
    ]
    columns = [
        *("method", "seed", "segment", "position", "segment_shift", "visit", "utility"),
        *("standard_utility", "collapsed_batches", "over_first_visit"),
    ]
    return pd.DataFrame(data, columns=columns).assign(severity=np.nan, batches=5, shift="recurring")


def test_what_became_of_every_method() -> None:
    found = over_the_stream(_segments()).set_index("method")
    tent, sar = found.loc["tent"], found.loc["sar"]
    assert tent["utility"] == pytest.approx((0.6 + 0.2 + 0.4 + 0.8 + 0.5 + 0.8) / 6)
    assert tent["gain"] == pytest.approx(tent["utility"] - 0.5)
    assert tent["segments_below"] == 1, "snow; fog is above at both visits, on the mean of the seeds"
    assert (tent["segments"], tent["seeds"]) == (3, 2)
    assert (tent["seeds_collapsed"], tent["collapsed_batches"], tent["seeds_recovered"]) == (1, 8, 0)
    assert tent["change"] == pytest.approx(-0.1)
    assert (sar["seeds_collapsed"], sar["collapsed_batches"], sar["seeds_recovered"]) == (2, 11, 1)
    assert sar["change"] == pytest.approx(0.25)


def test_what_cannot_be_known_is_missing() -> None:
    """Collapses without standard inference; what was forgotten where a stream comes nowhere twice."""
    alone = over_the_stream(_segments().assign(standard_utility=np.nan, collapsed_batches=np.nan))
    unknown = ["gain", "seeds_collapsed", "collapsed_batches", "segments_below"]
    assert alone[unknown].isna().all(axis=None)
    assert alone.set_index("method")["change"]["tent"] == pytest.approx(-0.1)
    assert over_the_stream(_segments().query("visit == 1"))["change"].isna().all()


def test_what_is_harder_for_all_was_not_forgotten() -> None:
    """The pictures of the last visit are harder: standard inference loses as much as tent."""
    harder = _segments().query("method == 'tent' and seed == 1")
    harder = harder.assign(standard_utility=harder["standard_utility"] + harder["over_first_visit"].fillna(0))
    assert over_the_stream(harder)["change"].tolist() == pytest.approx([0.0])


def test_seeds_are_pooled_in_the_order_of_the_first() -> None:
    found = by_segment(_segments().query("method == 'tent'"))
    assert found["segment"].tolist() == ["fog", "snow", "fog visit 2"]
    np.testing.assert_allclose(found["utility"], [0.7, 0.35, 0.6])
    assert found["collapsed_batches"].tolist() == [0, 3, 5]
