"""Every table of the paper by name: of a run, or of the published results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd

from tempora import analysis, published
from tempora.analysis.doubt import Doubt
from tempora.analysis.frames import at_strictest, is_offline, one_scenario
from tempora.analysis.pareto import is_budgeted
from tempora.cards import CATALOGUE, OURS, Cards
from tempora.errors import TemporaError, unknown
from tempora.report.tables import contents
from tempora.report.tables.model import Table, TableCell
from tempora.report.tables.parts import method_cell, shift_title


@dataclass(frozen=True)
class Material:
    """What a table is made of: ordered rows with ranks, and the reader's choices."""

    rows: pd.DataFrame
    traces: pd.DataFrame | None
    scenario: str | None
    by_shift: bool
    cards: Cards
    doubt: Doubt | None
    segments: pd.DataFrame | None = None
    by_seed: pd.DataFrame | None = None
    """The rows before seeds were pooled."""

    def of(self, protocol: str) -> pd.DataFrame:
        return self.where(self.rows["protocol"] == protocol, protocol)

    def where(self, wanted: pd.Series[bool], what: str) -> pd.DataFrame:
        """The wanted rows, if there are any."""
        if not wanted.any():
            found = ", ".join(self.rows["protocol"].unique())
            raise TemporaError(f"no {what} cells in this run (it has {found}); choose another table")
        return self.rows.loc[wanted]

    def explained_by(self, term: str) -> pd.Series[bool]:
        """Which rows are of scenarios that name the term on their card."""
        return self.rows["protocol"].map(
            {name: term in self.cards.scenario(name).terms for name in self.rows["protocol"].unique()}
        )

    def under_pressure(self) -> pd.DataFrame:
        """All rows, if they hold what a comparison under pressure needs: two methods and a temporal scenario."""
        if self.rows["method"].nunique() < 2 or analysis.temporal(self.rows, self.cards).empty:
            raise TemporaError("this table compares methods under pressure: it needs two methods and a grid")
        return analysis.counted(self.rows)

    def at_one_scenario(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of the chosen scenario, or of the strictest."""
        return one_scenario(self.chosen(rows, f"{rows['protocol'].iloc[0]} scenario"))

    def chosen(self, rows: pd.DataFrame, what: str) -> pd.DataFrame:
        """The rows of the label that the reader named, or with most pressure; all, where nothing varies."""
        if self.scenario is not None and self.scenario not in set(rows["label"]):
            raise unknown(what, self.scenario, rows["label"].unique())
        if self.scenario is not None:
            return rows.loc[rows["label"] == self.scenario]
        return rows if rows["value"].isna().all() else rows.loc[at_strictest(rows, self.cards)]


def build(
    name: str,
    utilities: pd.DataFrame,
    traces: pd.DataFrame | None = None,
    *,
    shift: str | None = None,
    scenario: str | None = None,
    by_shift: bool = False,
    cards: Cards = CATALOGUE,
    doubt: Doubt | None = None,
    segments: pd.DataFrame | None = None,
) -> Table:
    """A table of a run by name; that of a protocol explains its utility. `cards` and `doubt` are the run's.

    Numbers are pooled over seeds and shifts; `shift` chooses one, `by_shift` gives a row to each (of the protocols'
    tables). `scenario` is the label of the point that a protocol's table explains, otherwise its strictest. `traces`
    is needed for `overhead`, `segments` for `segments` and `stream`, a column `hardware` or `run` for `hardware`.
    """
    of_protocols = [protocol for protocol in utilities["protocol"].unique() if protocol not in BUILDERS]
    if name not in (*BUILDERS, *of_protocols):
        raise unknown("table", name, [*BUILDERS, *of_protocols])
    if by_shift and name not in (*BY_SHIFT, *of_protocols):
        raise TemporaError(
            f"table {name!r} has no rows by shift: use --shift NAME, or one of {', '.join(BY_SHIFT)}"
        )
    given = material(utilities, traces, shift=shift, cards=cards, doubt=doubt, segments=segments)
    return build_from(name, utilities, replace(given, scenario=scenario, by_shift=by_shift))


def material(
    utilities: pd.DataFrame,
    traces: pd.DataFrame | None,
    *,
    shift: str | None = None,
    cards: Cards,
    doubt: Doubt | None,
    segments: pd.DataFrame | None,
) -> Material:
    """What all tables of a run are made of: worked out once, however many there are."""
    rows = analysis.scored(utilities)
    if rows.empty:
        raise TemporaError(
            "no cell of this run has a result yet: finish it, or look at the reasons in `status`"
        )
    if shift is not None:
        if shift not in set(rows["shift"]):
            raise unknown("shift", shift, rows["shift"].unique())
        rows = rows[rows["shift"] == shift]
    by_seed = None
    if "seed" in rows and rows["seed"].nunique() > 1:
        by_seed = analysis.ordered(rows, cards)
        rows = analysis.pool(rows, over="seed", cards=cards)
    return Material(_shown(rows, cards, doubt), traces, None, False, cards, doubt, segments, by_seed)


def build_from(name: str, utilities: pd.DataFrame, given: Material) -> Table:
    """A table that there is, of prepared material."""
    builder = BUILDERS.get(name) or _of_protocol(name)
    table = _with_failures(builder(given), utilities, given.cards)
    if given.by_seed is not None and name != "seeds":
        table = replace(table, notes=(*table.notes, f"mean over {given.by_seed['seed'].nunique()} seeds"))
    return table


def _with_failures(table: Table, utilities: pd.DataFrame, cards: Cards) -> Table:
    """Who failed is said below; a method without any number has a row of dashes where methods are rows."""
    failed = analysis.failures(utilities)
    if not failed or "method" not in table.data:
        return table
    notes = tuple(one.sentence(cards) for one in failed)
    if table.columns[0].title != "Method":
        return replace(table, notes=(*table.notes, *notes))
    there = set(table.data["method"])
    gone = list(dict.fromkeys(one.method for one in failed if one.method not in there))
    blank = (TableCell(),) * (len(table.columns) - 1)
    rows = (*table.rows, *((method_cell(method, cards), *blank) for method in gone))
    return replace(table, rows=rows, notes=(*table.notes, *notes))


def build_published(name: str, setup: str) -> Table:
    """The same table from the paper's printed numbers, where it prints them."""
    if name not in BUILDERS:
        raise unknown("table", name, BUILDERS)
    if name in _PRINTED:
        return _PRINTED[name](setup)
    part = {"buffering": "buffering", "response": "buffering", "ablation": "ablation"}.get(name, "aggregate")
    return build(name, published.as_utilities(setup, part))


def _shown(rows: pd.DataFrame, cards: Cards, doubt: Doubt | None) -> pd.DataFrame:
    ranked = analysis.with_ranks(analysis.ordered(rows, cards))
    return ranked if doubt is None else doubt.about(ranked)


def _aggregated(rows: pd.DataFrame, given: Material) -> pd.DataFrame:
    rows = analysis.counted(rows)
    if rows["shift"].nunique() == 1:
        return rows
    return _shown(analysis.pool(rows, cards=given.cards), given.cards, given.doubt)


def _where(rows: pd.DataFrame) -> str:
    """What the numbers are about, for captions."""
    shifts = analysis.shift_set(rows["shift"])
    if len(shifts) > 1:
        apart = ", clean apart" if len(shifts) < rows["shift"].nunique() else ""
        return f"aggregated over {len(shifts)} shifts{apart}"
    return "aggregated over all shifts" if shifts[0] == "all" else f"on {shift_title(shifts[0])}"


def _winners(given: Material) -> Table:
    return contents.winners(analysis.winners(given.rows, given.cards), given.cards)


def _of_protocol(protocol: str) -> Callable[[Material], Table]:
    """The table of one protocol: accuracy where nothing presses, else utility and the terms that explain it."""

    def table(given: Material) -> Table:
        rows, cards = given.of(protocol), given.cards
        if cards.scenario(protocol).reference:
            if given.by_shift:
                return contents.offline_by_shift(rows, _aggregated(rows, given), cards)
            return contents.offline(_aggregated(rows, given), _where(rows), cards)
        rows = given.at_one_scenario(rows)
        if given.by_shift:
            return contents.decomposition_by_shift(rows, cards)
        return contents.decomposition(_aggregated(rows, given), _where(rows), cards)

    return table


def _sweep(given: Material) -> Table:
    rows = analysis.temporal(given.rows, given.cards)
    if rows.empty:
        raise TemporaError("this run has offline cells only; choose table offline, or run it with a grid")
    return contents.sweep(_aggregated(rows, given), _where(rows), given.cards)


def _overhead(given: Material) -> Table:
    if given.traces is None:
        raise TemporaError("table 'overhead' is read from the traces of a run; give them too")
    batches = given.traces
    if "shift" in batches:
        batches = batches[batches["shift"].isin(given.rows["shift"])]
    baseline_ms = float(given.rows["baseline_ms"].iloc[0])
    rows = analysis.overhead(batches, baseline_ms, given.cards)
    return contents.overhead(analysis.with_resources(rows, given.rows, given.cards), given.cards)


def _buffering(given: Material) -> Table:
    rows = given.chosen(analysis.buffering(given.rows, given.cards), "interval")
    return contents.buffering(
        rows.drop_duplicates("method"), given.cards
    )  # of several longer queues, the first


def _correlation(given: Material) -> Table:
    rows = analysis.correlations(given.under_pressure(), given.cards)
    return contents.correlation(rows, analysis.correlation_summary(rows, given.cards), given.cards)


def _response(given: Material) -> Table:
    if "response_ms" not in given.rows:
        raise TemporaError("these results say nothing about response times; choose another table")
    waiting = ~is_offline(given.rows, given.cards) & given.explained_by("availability")
    rows = given.where(waiting, "skipping")
    return contents.response(_aggregated(rows, given), given.cards)


def _factors(given: Material) -> Table:
    if analysis.temporal(given.rows, given.cards).empty:
        raise TemporaError("this run has offline cells only; choose table offline, or run it with a grid")
    return contents.temporal_factors(analysis.temporal_factors(given.rows, given.cards), given.cards)


def _deficit(given: Material) -> Table:
    return contents.deficit(analysis.deficit(given.under_pressure(), given.cards), given.cards)


def _below_standard(given: Material) -> Table:
    return contents.below_standard(analysis.below_standard(given.under_pressure(), given.cards), given.cards)


def _regret(given: Material) -> Table:
    return contents.regret(analysis.regret(given.under_pressure(), given.cards), given.cards)


def _certainty(given: Material) -> Table:
    if given.doubt is None:
        raise TemporaError("table 'certainty' asks how sure a run is; published tables cannot say")
    rows = _aggregated(given.rows, given)
    if rows["p_best"].isna().all():
        raise TemporaError("these streams are too short to say how sure a rank is; run more batches")
    return contents.certainty(rows, _where(given.rows), given.cards)


def _seeds(given: Material) -> Table:
    """Of the chosen scenario, otherwise of the reference or the first."""
    if given.by_seed is None or given.by_seed["seed"].nunique() < 2:
        raise TemporaError("this run has one seed (--seeds 1,2,3 makes more); choose another table")
    rows = analysis.counted(given.by_seed)
    label = given.scenario or next(
        iter(rows.loc[is_offline(rows, given.cards), "label"]), rows["label"].iloc[0]
    )
    if label not in set(rows["label"]):
        raise unknown("scenario", label, rows["label"].unique())
    rows = one_scenario(rows[rows["label"] == label])
    pooled = (
        analysis.pool(rows, cards=given.cards) if rows["shift"].nunique() > 1 else analysis.with_ranks(rows)
    )
    return contents.seeds(pooled, _where(rows), given.cards)


def _ablation(given: Material) -> Table:
    rows = given.where(is_budgeted(given.rows, given.cards), "budgeted")
    first = rows["protocol"].iloc[0]
    return contents.ablation(given.at_one_scenario(given.of(first)), given.cards)


def _hardware(given: Material) -> Table:
    machine = "run" if "run" in given.rows else "hardware"
    return contents.hardware(analysis.across_hardware(given.rows, machine, given.cards), machine, given.cards)


def _segments(given: Material) -> Table:
    """Where the stream goes, and what every method gets there."""
    return contents.segments(_of_one_stream(given), given.cards)


def _stream(given: Material) -> Table:
    """What becomes of every method on the way."""
    found = _of_one_stream(given)
    return contents.stream(analysis.over_the_stream(found), found, given.cards)


def _of_one_stream(given: Material) -> pd.DataFrame:
    """The segments of one stream, in the scenario that the reader names, otherwise offline."""
    if given.segments is None or given.segments.empty:
        raise TemporaError("this run has no stream of many shifts (--stream continual); choose another table")
    found = given.segments[given.segments["shift"].isin(given.rows["shift"])]
    if given.scenario is None:
        found = found[is_offline(found, given.cards)]
    elif given.scenario in set(found["label"]):
        found = found[found["label"] == given.scenario]
    else:
        raise unknown("scenario", given.scenario, found["label"].unique())
    one: pd.DataFrame = found[found["shift"] == found["shift"].iloc[0]]
    return one


BY_SHIFT = tuple(name for name, card in OURS.items() if card.parameter or card.reference)
"""The protocols of the paper; those of a run that are none of them have a table too."""

BUILDERS: dict[str, Callable[[Material], Table]] = {
    "winners": _winners,
    **{protocol: _of_protocol(protocol) for protocol in BY_SHIFT},
    "sweep": _sweep,
    "overhead": _overhead,
    "temporal-factors": _factors,
    "correlation": _correlation,
    "deficit": _deficit,
    "below-standard": _below_standard,
    "buffering": _buffering,
    "response": _response,
    "ablation": _ablation,
    "hardware": _hardware,
    "segments": _segments,
    "stream": _stream,
    "regret": _regret,
    "certainty": _certainty,
    "seeds": _seeds,
}


def names(utilities: pd.DataFrame) -> list[str]:
    """The tables that a run could have: every one of ours, and those of the protocols of the user's own."""
    own = [protocol for protocol in utilities["protocol"].unique() if protocol not in BUILDERS]
    ours = list(BUILDERS)
    after = ours.index(BY_SHIFT[-1]) + 1
    return [*ours[:after], *own, *ours[after:]]


def _printed_correlation(setup: str) -> Table:
    rows = analysis.ordered(published.table("correlation", setup))
    by_shift = rows[~rows["shift"].isin(["mean", "std"])]
    means, deviations = (rows[rows["shift"] == name].reset_index(drop=True) for name in ("mean", "std"))
    summary = means.assign(mean=means["spearman_r"], std=deviations["spearman_r"])
    return contents.correlation(by_shift, summary, CATALOGUE)


def _printed_hardware(setup: str) -> Table:
    machines = [name for name in published.setups() if published.setup(name).dataset == "cifar10_c"]
    rows = pd.concat([published.as_utilities(name, "aggregate") for name in machines])
    return contents.hardware(analysis.across_hardware(rows), "hardware", CATALOGUE)


_PRINTED: dict[str, Callable[[str], Table]] = {
    "winners": lambda setup: contents.winners(analysis.ordered(published.table("winners", setup)), CATALOGUE),
    "temporal-factors": lambda setup: contents.temporal_factors(
        published.table("temporal_factors", setup), CATALOGUE
    ),
    "overhead": lambda setup: contents.overhead(published.table("overhead", setup), CATALOGUE),
    "correlation": _printed_correlation,
    "deficit": lambda setup: contents.deficit(published.table("deficit", setup), CATALOGUE),
    "below-standard": lambda setup: contents.below_standard(
        published.table("below_standard", setup), CATALOGUE
    ),
    "hardware": _printed_hardware,
}
"""Tables whose cells the paper does not print one by one; the others are built from its utilities."""
