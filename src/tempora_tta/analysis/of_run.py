"""The one table of a run, with how sure every winner is."""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.cells import by_shift, cells, winners
from tempora_tta.analysis.doubt import doubt, with_doubt
from tempora_tta.store import Results

_KEY = ["method", "model", "shift", "scenario"]


def cells_of(results: Results) -> pd.DataFrame:
    """Return `cells` of a run with how sure they are: as the run folder keeps it, else worked out once.

    `verdict`, `why`, `equal_with` and `rivals` are about the winner of the cell; `sample_lo`, `sample_hi`, `p_best`,
    `rank_lo` and `rank_hi` about each row.
    """
    if "cells" not in results.known:
        table, kept = cells(results.contenders, results.cards), results.folder.certainty()
        results.known["cells"] = (
            doubt(results).about(table) if kept is None else table.merge(kept, on=_KEY, how="left")
        )
    found = results.known["cells"]
    assert isinstance(found, pd.DataFrame)
    return found


def winners_of(results: Results) -> pd.DataFrame:
    """Return the winner of each shift and scenario, with the methods that are `equal_with` it or its `rivals`."""
    return winners(by_shift(cells_of(results)), results.cards).rename(columns={"winner": "method"})


def keep_doubt(results: Results) -> None:
    """Write how sure the winners are into the run folder, so that opening it again works nothing out."""
    results.folder.write_utilities(with_doubt(results))
    results.folder.seal()
    results.utilities = results.folder.utilities()
    results.folder.write_certainty(cells_of(results))
