"""Every table of the paper by name: of a run, or of the published results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from tempora_tta import analysis, published
from tempora_tta.analysis.cells import is_offline, one_scenario
from tempora_tta.analysis.doubt import Doubt
from tempora_tta.analysis.paper import is_budgeted
from tempora_tta.cards import CATALOGUE, OURS, Cards
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.report.tables import comparison, stream, timing, utility
from tempora_tta.report.tables.material import Material, aggregated, material, where
from tempora_tta.report.tables.model import Table, TableCell
from tempora_tta.report.tables.parts import method_cell


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
    is needed for `overhead`, `segments` for `segments` and `stream`.
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


def _winners(given: Material) -> Table:
    return utility.winners(analysis.winners(given.rows, given.cards), given.cards)


def _of_protocol(protocol: str) -> Callable[[Material], Table]:
    """The table of one protocol: accuracy where nothing presses, else utility and the terms that explain it."""

    def table(given: Material) -> Table:
        rows, cards = given.of(protocol), given.cards
        if cards.scenario(protocol).reference:
            if given.by_shift:
                return utility.offline_by_shift(rows, aggregated(rows, given), cards)
            return utility.offline(aggregated(rows, given), where(rows), cards)
        rows = given.at_one_scenario(rows)
        if given.by_shift:
            return utility.decomposition_by_shift(rows, cards)
        return utility.decomposition(aggregated(rows, given), where(rows), cards)

    return table


def _sweep(given: Material) -> Table:
    rows = given.rows[~is_offline(given.rows, given.cards)]
    if rows.empty:
        raise TemporaError("this run has offline cells only; choose table offline, or run it with a grid")
    return utility.sweep(aggregated(rows, given), where(rows), given.cards)


def _overhead(given: Material) -> Table:
    if given.traces is None:
        raise TemporaError("table 'overhead' is read from the traces of a run; give them too")
    batches = given.traces
    if "shift" in batches:
        batches = batches[batches["shift"].isin(given.rows["shift"])]
    baseline_ms = float(given.rows["baseline_ms"].iloc[0])
    rows = analysis.overhead(batches, baseline_ms, given.cards)
    return timing.overhead(analysis.with_resources(rows, given.rows, given.cards), given.cards)


def _buffering(given: Material) -> Table:
    rows = given.chosen(analysis.buffering(given.cells(), given.cards), "interval")
    return timing.buffering(
        rows.drop_duplicates("method"), given.cards
    )  # of several longer queues, the first


def _correlation(given: Material) -> Table:
    rows = analysis.correlations(given.under_pressure(), given.cards)
    return comparison.correlation(rows, analysis.correlation_summary(rows, given.cards), given.cards)


def _response(given: Material) -> Table:
    if "response_ms" not in given.rows:
        raise TemporaError("these results say nothing about response times; choose another table")
    waiting = ~is_offline(given.rows, given.cards) & given.explained_by("availability")
    rows = given.where(waiting, "skipping")
    return timing.response(aggregated(rows, given), given.cards)


def _factors(given: Material) -> Table:
    if is_offline(given.rows, given.cards).all():
        raise TemporaError("this run has offline cells only; choose table offline, or run it with a grid")
    return comparison.temporal_factors(analysis.temporal_factors(given.cells(), given.cards), given.cards)


def _deficit(given: Material) -> Table:
    return comparison.deficit(analysis.deficit(given.under_pressure(), given.cards), given.cards)


def _below_standard(given: Material) -> Table:
    return comparison.below_standard(
        analysis.below_standard(given.under_pressure(), given.cards), given.cards
    )


def _regret(given: Material) -> Table:
    return comparison.regret(analysis.regret(given.under_pressure(), given.cards), given.cards)


def _certainty(given: Material) -> Table:
    if given.doubt is None:
        raise TemporaError("table 'certainty' asks how sure a run is; published tables cannot say")
    rows = aggregated(given.rows, given)
    if rows["p_best"].isna().all():
        raise TemporaError("these streams are too short to say how sure a rank is; run more batches")
    return comparison.certainty(rows, where(given.rows), given.cards)


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
    return utility.seeds(pooled, where(rows), given.cards)


def _ablation(given: Material) -> Table:
    rows = given.where(is_budgeted(given.rows, given.cards), "budgeted")
    first = rows["protocol"].iloc[0]
    return utility.ablation(given.at_one_scenario(given.of(first)), given.cards)


def _segments(given: Material) -> Table:
    """Where the stream goes, and what every method gets there."""
    return stream.segments(_of_one_stream(given), given.cards)


def _stream(given: Material) -> Table:
    """What becomes of every method on the way."""
    found = _of_one_stream(given)
    return stream.stream(analysis.over_the_stream(found), found, given.cards)


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
    return comparison.correlation(by_shift, summary, CATALOGUE)


_PRINTED: dict[str, Callable[[str], Table]] = {
    "winners": lambda setup: utility.winners(analysis.ordered(published.table("winners", setup)), CATALOGUE),
    "temporal-factors": lambda setup: comparison.temporal_factors(
        published.table("temporal_factors", setup), CATALOGUE
    ),
    "overhead": lambda setup: timing.overhead(published.table("overhead", setup), CATALOGUE),
    "correlation": _printed_correlation,
    "deficit": lambda setup: comparison.deficit(published.table("deficit", setup), CATALOGUE),
    "below-standard": lambda setup: comparison.below_standard(
        published.table("below_standard", setup), CATALOGUE
    ),
}
"""Tables whose cells the paper does not print one by one; the others are built from its utilities."""
