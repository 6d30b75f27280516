"""The same deployments on different machines: do the same methods win?"""

from __future__ import annotations

import pandas as pd

from tempora_tta.analysis.frames import keys, ordered, scored
from tempora_tta.analysis.outcomes import counted, winners
from tempora_tta.analysis.pooling import pool
from tempora_tta.analysis.ranks import with_ranks
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.errors import TemporaError
from tempora_tta.store.schema import SCENARIO_NAME


def across_hardware(frame: pd.DataFrame, machine: str = "hardware", cards: Cards = CATALOGUE) -> pd.DataFrame:
    """Utility and rank of every method and scenario on every machine, pooled over shifts.

    Scenarios are the same if their labels are: what the user held fixed, be it utilisation, milliseconds or a
    multiple of lambda. `machine` names the column that tells machines apart (`run` for stacked runs).
    `changed` marks the scenarios whose winner is not the same everywhere.
    """
    rows = counted(scored(frame))
    if machine not in rows or rows[machine].nunique() < 2:
        raise TemporaError(
            f"comparing machines needs a column {machine!r} with two or more of them; stack their runs: "
            "analysis.stack({'gpu': ..., 'pi': ...}) and machine='run'"
        )
    rows = pool(rows, cards=cards) if rows["shift"].nunique() > 1 else with_ranks(rows)
    scenario = keys(rows, SCENARIO_NAME)
    best = winners(rows, cards).groupby(scenario, dropna=False)["winner"].nunique()
    changed = best[best > 1].reset_index()[scenario].assign(changed=True)
    table = rows[[machine, *keys(rows, ("model",)), *scenario, "value", "method", "utility", "rank"]]
    table = table.merge(changed, on=scenario, how="left")
    return ordered(table.assign(changed=table["changed"].notna()), cards)
