"""The one table of a run, with how sure every winner is."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.cells import by_shift, cells, winners
from tempora_tta.analysis.doubt import doubt
from tempora_tta.store import Results


def cells_of(results: Results) -> pd.DataFrame:
    """Return `cells` of a run with what is known about each: worked out once for each time that the run is opened.

    `verdict` and `why` are about the winner of the cell; `sample_lo`, `sample_hi`, `p_best`, `rank_lo` and `rank_hi`
    about each row.
    """
    if "cells" not in results.known:
        results.known["cells"] = doubt(results).about(cells(results.contenders, results.cards))
    found = results.known["cells"]
    assert isinstance(found, pd.DataFrame)
    return found


def winners_of(results: Results) -> pd.DataFrame:
    """Return the winner of each shift and scenario, with the methods that are `equal_with` it or its `rivals`."""
    found = winners(by_shift(cells_of(results)), results.cards).rename(columns={"winner": "method"})
    judged = [doubt(results).judgement(row) for _, row in found.iterrows()]
    return found.assign(
        **{
            name: [", ".join(getattr(one, name)) if one is not None else "" for one in judged]
            for name in ("equal_with", "rivals")
        }
    )
