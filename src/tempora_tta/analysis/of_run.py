"""The one table of a run, with how sure every winner is, what that comes down to, and what would decide more."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tempora_tta.analysis.cells import by_shift, cells, winners
from tempora_tta.analysis.doubt import SAMPLING, TIMING, Judgement, doubt, with_doubt
from tempora_tta.store import Results
from tempora_tta.store.verdicts import EQUAL, HOLDS, UNDECIDED

KEY = ["method", "model", "shift", "scenario"]
"""Columns that name a row of `cells` of one run."""


def cells_of(results: Results) -> pd.DataFrame:
    """Return `cells` of a run with how sure they are: as the run folder keeps it, else worked out once.

    `verdict`, `why`, `equal_with` and `rivals` are about the winner of the cell; `sample_lo`, `sample_hi`, `p_best`,
    `rank_lo` and `rank_hi` about each row.
    """
    if "cells" not in results.known:
        table, kept = cells(results.contenders, results.cards), results.folder.certainty()
        results.known["cells"] = (
            doubt(results).about(table) if kept is None else table.merge(kept, on=KEY, how="left")
        )
    found = results.known["cells"]
    assert isinstance(found, pd.DataFrame)
    return found


def utilities_of(results: Results) -> pd.DataFrame:
    """Return the utilities of a run with how sure each seed's are: as the run folder keeps it, else worked out."""
    return with_doubt(results) if results.folder.certainty() is None else results.utilities


def winners_of(results: Results) -> pd.DataFrame:
    """Return the winner of each shift and scenario, with the methods that are `equal_with` it or its `rivals`."""
    return winners(by_shift(cells_of(results)), results.cards).rename(columns={"winner": "method"})


def keep_doubt(results: Results) -> None:
    """Write how sure the winners are into the run folder, so that opening it again works nothing out."""
    results.folder.write_utilities(with_doubt(results))
    results.folder.seal()
    results.utilities = results.folder.utilities()
    results.folder.write_certainty(cells_of(results))
    results.folder.seal()


def judgement_of(cell: pd.DataFrame) -> Judgement | None:
    """Return how sure the winner of one cell is, from its rows of `cells`; None where that is not known."""
    known = cell[cell["verdict"].notna() & cell["rank_lo"].notna()]
    if known.empty:
        return None
    methods = known["method"].astype(str)
    p_best, rank_lo, rank_hi = (
        dict(zip(methods, known[name], strict=True)) for name in ("p_best", "rank_lo", "rank_hi")
    )
    first = known.sort_values("rank", kind="stable").iloc[0]
    return Judgement(
        method=str(first["method"]),
        utility=float(first["utility"]),
        verdict=str(first["verdict"]),
        why=str(first["why"]),
        equal_with=_names(first["equal_with"]),
        rivals=_names(first["rivals"]),
        p_best=p_best,
        rank_lo={name: int(rank) for name, rank in rank_lo.items()},
        rank_hi={name: int(rank) for name, rank in rank_hi.items()},
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


@dataclass(frozen=True)
class Summary:
    """Counts of the winners of a run by how sure they are."""

    cells: int
    holds: int
    equal: int
    by_sampling: int
    by_timing: int
    expected_wrong: float
    """The sum over the cells of 1 - P(best); cells too short to say count as unknown, not as wrong."""

    @property
    def undecided(self) -> int:
        return self.by_sampling + self.by_timing


def summary_of(results: Results, shift: str | None = None) -> Summary:
    """Count the winners of all shifts that count, or of one."""
    found = winners_of(results)
    found = found[found["verdict"].notna() & (found["counts"] if shift is None else found["shift"] == shift)]
    verdict, why = found["verdict"], found["why"]
    return Summary(
        cells=len(found),
        holds=int((verdict == HOLDS).sum()),
        equal=int((verdict == EQUAL).sum()),
        by_sampling=int(((verdict == UNDECIDED) & (why == SAMPLING)).sum()),
        by_timing=int(((verdict == UNDECIDED) & (why == TIMING)).sum()),
        expected_wrong=float((1 - found["p_best"].astype(float)).sum()),
    )


_MORE = 4
"""Factor on batches, or on seconds of profiling, that halves an error."""


def remedy(summary: Summary, results: Results) -> str | None:
    """Return what to run for more of the winners to be sure; None where all of them are decided.

    The larger part of the undecided counts. Undecided by sampling take more batches, or other orders where the stream
    has no more; undecided by timing take more certain times.
    """
    if not summary.undecided:
        return None
    manifest = results.manifest
    config: dict[str, Any] = {**(manifest.get("config") or {})}
    by_timing = summary.by_timing > summary.by_sampling
    if not config:
        steady = ", clock='steady')" if manifest["clock"] == "measured" else ") on an idle machine"
        return f"tempora.evaluate(...{steady if by_timing else ') with more batches'}"
    if not by_timing and not config.get("batches"):
        seeds = [int(seed) for seed in manifest["seeds"]]
        more = [*seeds, *(max(seeds) + step for step in range(1, max(2, len(seeds)) + 1))]
        return _run(results, "--seeds", ",".join(map(str, more)))
    if not by_timing:
        return _run(results, "--batches", str(_MORE * int(config["batches"])), "--replace")
    if manifest["clock"] == "measured":
        return _run(results, "--clock", "steady", "--replace")
    return _run(results, "--profile-s", f"{_MORE * float(config['profile_s']):g}")


def _run(results: Results, *options: str) -> str:
    return shlex.join(["tempora", "run", str(results.opened_from), *options])
