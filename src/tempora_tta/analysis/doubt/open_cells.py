"""Who might be best where timing leaves that open: what a run should look at once more."""

from __future__ import annotations

from tempora_tta.analysis.doubt.judgement import TIMING
from tempora_tta.analysis.doubt.run import doubt
from tempora_tta.store import Results
from tempora_tta.store.verdicts import UNDECIDED


def contested(results: Results) -> list[tuple[str, str, int, int]]:
    """Method, shift, seed and number of the scenario of everybody who might be best in a cell that timing leaves
    undecided."""
    winners = doubt(results).winners
    open_cells = winners[(winners["verdict"] == UNDECIDED) & (winners["why"] == TIMING)]
    cells = results.contenders[results.contenders["status"] == "ok"]
    found = []
    for _, winner in open_cells.iterrows():
        contenders = {winner["method"], *str(winner["rivals"]).split(", ")}
        same = cells[
            (cells["model"] == winner["model"])
            & (cells["shift"] == winner["shift"])
            & (cells["scenario"] == winner["scenario"])
            & cells["method"].isin(contenders)
        ]
        for method, shift, seed, scenario in same[["method", "shift", "seed", "scenario"]].itertuples(
            index=False
        ):
            found.append((str(method), str(shift), int(seed), int(scenario)))
    return found
