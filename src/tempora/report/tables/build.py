"""Every table of the paper by name: of a run, or of the published results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd

from tempora import analysis, published
from tempora.analysis.frames import one_scenario
from tempora.errors import TemporaError, unknown
from tempora.report.tables import contents
from tempora.report.tables.model import Table
from tempora.report.tables.parts import shift_title


@dataclass(frozen=True)
class Material:
    """What a table is made of: ordered rows with ranks, and the reader's choices."""

    rows: pd.DataFrame
    traces: pd.DataFrame | None
    scenario: str | None
    by_shift: bool

    def of(self, protocol: str) -> pd.DataFrame:
        rows = self.rows.loc[self.rows["protocol"] == protocol]
        if rows.empty:
            found = ", ".join(self.rows["protocol"].unique())
            raise TemporaError(f"no {protocol} cells in this run (it has {found}); choose another table")
        return rows

    def under_pressure(self) -> pd.DataFrame:
        """All rows, if they hold what a comparison under pressure needs: two methods and a temporal scenario."""
        if self.rows["method"].nunique() < 2 or analysis.temporal(self.rows).empty:
            raise TemporaError("this table compares methods under pressure: it needs two methods and a grid")
        return self.rows

    def at_one_scenario(self, protocol: str) -> pd.DataFrame:
        """The rows of the chosen scenario, or of the strictest."""
        return one_scenario(self.chosen(self.of(protocol), f"{protocol} scenario"))

    def chosen(self, rows: pd.DataFrame, what: str) -> pd.DataFrame:
        """The rows of the label that the reader named, or of the smallest value."""
        if self.scenario is not None and self.scenario not in set(rows["label"]):
            raise unknown(what, self.scenario, rows["label"].unique())
        strictest = rows["value"] == rows["value"].min()
        return rows.loc[strictest if self.scenario is None else rows["label"] == self.scenario]


def build(
    name: str,
    utilities: pd.DataFrame,
    traces: pd.DataFrame | None = None,
    *,
    shift: str | None = None,
    scenario: str | None = None,
    by_shift: bool = False,
) -> Table:
    """A table of a run by name.

    Numbers are pooled over seeds and shifts; `shift` chooses one, `by_shift` gives a row to each (offline, the
    three protocols). `scenario` is the label of the point that a protocol's table explains, otherwise its
    strictest. `traces` is needed for `overhead`, a column `hardware` or `run` for `hardware`.
    """
    if name not in BUILDERS:
        raise unknown("table", name, BUILDERS)
    if by_shift and name not in BY_SHIFT:
        raise TemporaError(
            f"table {name!r} has no rows by shift: use --shift NAME, or one of {', '.join(BY_SHIFT)}"
        )
    rows = analysis.scored(utilities)
    if rows.empty:
        raise TemporaError(
            "no cell of this run has a result yet: finish it, or look at the reasons in `status`"
        )
    if shift is not None:
        if shift not in set(rows["shift"]):
            raise unknown("shift", shift, rows["shift"].unique())
        rows = rows[rows["shift"] == shift]
    seeds = rows["seed"].nunique() if "seed" in rows else 1
    if seeds > 1:
        rows = analysis.pool(rows, over="seed")
    table = BUILDERS[name](Material(_shown(rows), traces, scenario, by_shift))
    return replace(table, notes=(*table.notes, f"mean over {seeds} seeds")) if seeds > 1 else table


def build_published(name: str, setup: str) -> Table:
    """The same table from the paper's printed numbers, where it prints them."""
    if name not in BUILDERS:
        raise unknown("table", name, BUILDERS)
    if name in _PRINTED:
        return _PRINTED[name](setup)
    part = {"buffering": "buffering", "response": "buffering", "ablation": "ablation"}.get(name, "aggregate")
    return build(name, published.as_utilities(setup, part))


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    return analysis.with_timing_ties(analysis.with_ranks(analysis.ordered(rows)))


def _aggregated(rows: pd.DataFrame) -> pd.DataFrame:
    return _shown(analysis.pool(rows)) if rows["shift"].nunique() > 1 else rows


def _where(rows: pd.DataFrame) -> str:
    """What the numbers are about, for captions."""
    shifts = rows["shift"].unique()
    if len(shifts) > 1:
        return f"aggregated over {len(shifts)} shifts"
    return "aggregated over all shifts" if shifts[0] == "all" else f"on {shift_title(shifts[0])}"


def _winners(given: Material) -> Table:
    return contents.winners(analysis.winners(given.rows))


def _offline(given: Material) -> Table:
    rows = given.of("offline")
    if given.by_shift:
        return contents.offline_by_shift(rows, _aggregated(rows))
    return contents.offline(_aggregated(rows), _where(rows))


def _decomposition(protocol: str) -> Callable[[Material], Table]:
    def table(given: Material) -> Table:
        rows = given.at_one_scenario(protocol)
        if given.by_shift:
            return contents.decomposition_by_shift(rows)
        return contents.decomposition(_aggregated(rows), _where(rows))

    return table


def _sweep(given: Material) -> Table:
    rows = analysis.temporal(given.rows)
    if rows.empty:
        raise TemporaError("this run has offline cells only; choose table offline, or run it with a grid")
    return contents.sweep(_aggregated(rows), _where(rows))


def _overhead(given: Material) -> Table:
    if given.traces is None:
        raise TemporaError("table 'overhead' is read from the traces of a run; give them too")
    batches = given.traces
    if "shift" in batches:
        batches = batches[batches["shift"].isin(given.rows["shift"])]
    return contents.overhead(analysis.overhead(batches, float(given.rows["baseline_ms"].iloc[0])))


def _buffering(given: Material) -> Table:
    rows = given.chosen(analysis.buffering(given.rows), "interval")
    return contents.buffering(rows.drop_duplicates("method"))  # of several longer queues, the first


def _correlation(given: Material) -> Table:
    rows = analysis.correlations(given.under_pressure())
    return contents.correlation(rows, analysis.correlation_summary(rows))


def _response(given: Material) -> Table:
    if "response_ms" not in given.rows:
        raise TemporaError("these results say nothing about response times; choose another table")
    return contents.response(_aggregated(given.of("discrete")))


def _hardware(given: Material) -> Table:
    machine = "run" if "run" in given.rows else "hardware"
    return contents.hardware(analysis.across_hardware(given.rows, machine), machine)


BUILDERS: dict[str, Callable[[Material], Table]] = {
    "winners": _winners,
    "offline": _offline,
    "discrete": _decomposition("discrete"),
    "continuous": _decomposition("continuous"),
    "amortised": _decomposition("amortised"),
    "sweep": _sweep,
    "overhead": _overhead,
    "temporal-factors": lambda given: contents.temporal_factors(analysis.temporal_factors(given.rows)),
    "correlation": _correlation,
    "deficit": lambda given: contents.deficit(analysis.deficit(given.under_pressure())),
    "below-standard": lambda given: contents.below_standard(analysis.below_standard(given.under_pressure())),
    "buffering": _buffering,
    "response": _response,
    "ablation": lambda given: contents.ablation(given.at_one_scenario("amortised")),
    "hardware": _hardware,
}
BY_SHIFT = ("offline", "discrete", "continuous", "amortised")


def _printed_correlation(setup: str) -> Table:
    rows = analysis.ordered(published.table("correlation", setup))
    by_shift = rows[~rows["shift"].isin(["mean", "std"])]
    means, deviations = (rows[rows["shift"] == name].reset_index(drop=True) for name in ("mean", "std"))
    summary = means.assign(mean=means["spearman_r"], std=deviations["spearman_r"])
    return contents.correlation(by_shift, summary)


def _printed_hardware(setup: str) -> Table:
    machines = [name for name in published.setups() if published.setup(name).dataset == "cifar10_c"]
    rows = pd.concat([published.as_utilities(name, "aggregate") for name in machines])
    return contents.hardware(analysis.across_hardware(rows), "hardware")


_PRINTED: dict[str, Callable[[str], Table]] = {
    "winners": lambda setup: contents.winners(analysis.ordered(published.table("winners", setup))),
    "temporal-factors": lambda setup: contents.temporal_factors(published.table("temporal_factors", setup)),
    "overhead": lambda setup: contents.overhead(published.table("overhead", setup)),
    "correlation": _printed_correlation,
    "deficit": lambda setup: contents.deficit(published.table("deficit", setup)),
    "below-standard": lambda setup: contents.below_standard(published.table("below_standard", setup)),
    "hardware": _printed_hardware,
}
"""Tables whose cells the paper does not print one by one; the others are built from its utilities."""
