"""Results as users hold them: the tables of a run, and what can be asked of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tempora import store
from tempora.analysis.doubt import doubt


class Results(store.Results):
    """What a run found out. `tempora.open_run(folder)` and `tempora.evaluate(...)` return one."""

    def winners(self) -> pd.DataFrame:
        """Who wins where, and how sure that is: one row per shift and scenario, seeds taken together.

        `method` is the winner, `verdict` one of holds, equal (with those in `equal_with`, within half a point) and
        undecided, `why` timing or sampling where it is undecided, `p_best` the probability that no other method is
        better.
        """
        return doubt(self).winners


def open_run(path: Path | str) -> Results:
    """Open a run folder or a pack (`tempora pack`) for reading."""
    return Results.opened(path)
