"""Utility per segment: where in a stream of many shifts a method gains, collapses, recovers or forgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tempora_tta.published.methods import STANDARD
from tempora_tta.scenarios import Course, Resolved
from tempora_tta.store.schema import CELL_COLUMNS, COLLAPSE_BATCHES, SEGMENTS, arrow_schema
from tempora_tta.store.trace import Trace

if TYPE_CHECKING:
    from tempora_tta.store.results import Results


def segments_frame(results: Results) -> pd.DataFrame:
    """One row per finished cell and segment, scored from the passes of the run."""
    contenders = results.contenders
    done = contenders[contenders["status"] == "ok"]
    standard = {_key(cell): cell for _, cell in done[done["method"] == STANDARD].iterrows()}
    standard_worth: dict[tuple[Any, ...], NDArray[np.float64]] = {}
    rows = []
    for _, cell in done.iterrows():
        key = _key(cell)
        if (found := _lived(results, cell)) is None:
            continue
        if (
            key in standard
            and key not in standard_worth
            and (other := _lived(results, standard[key])) is not None
        ):
            standard_worth[key] = other.worth
        rows += list(_rows(found, cell, standard_worth.get(key)))
    frame = pd.DataFrame(rows, columns=list(SEGMENTS))
    table = pa.Table.from_pandas(frame, schema=arrow_schema(SEGMENTS), preserve_index=False)
    as_stored: pd.DataFrame = table.to_pandas()
    return as_stored


def _key(cell: pd.Series) -> tuple[Any, ...]:
    """Return what a method shares with the standard inference that it is compared with."""
    return tuple(cell[name] for name in CELL_COLUMNS)


@dataclass(frozen=True)
class _Lived:
    """The course that a whole stream took, and the segments that it went through."""

    segments: list[dict[str, Any]]
    adapting: Trace
    resolved: Resolved
    course: Course
    accuracy: NDArray[np.float64]

    @cached_property
    def worth(self) -> NDArray[np.float64]:
        """Utility that each batch of the stream added; nothing where it was lost."""
        return self.resolved.score(self.course, self.accuracy).worth


def _lived(results: Results, cell: pd.Series) -> _Lived | None:
    segments = results.folder.stored(cell["adapting_pass"]).facts.get("segments")
    if not segments:
        return None
    adapting, frozen, fallback = results.passes_of(cell, predictions=False)
    resolved = results.resolved(cell, adapting.num_batches)
    return _Lived(segments, adapting, resolved, *adapting.served_course(resolved, frozen, fallback))


def _rows(lived: _Lived, cell: pd.Series, standard: NDArray[np.float64] | None) -> Iterator[dict[str, Any]]:
    """The segments of one cell, each scored over its own batches; `standard`: what every batch was worth without
    adapting."""
    known = {name: cell[name] for name in SEGMENTS if name in cell.index}
    collapsed = None if standard is None else on_end(lived.worth < standard, COLLAPSE_BATCHES)
    first_visit: dict[tuple[str, Any], float] = {}
    for position, segment in enumerate(lived.segments):
        batches = slice(segment["first"], segment["first"] + segment["batches"])
        part, chosen = lived.course.part(segment["first"], segment["batches"])
        score = lived.resolved.score(part, lived.accuracy[chosen])
        place = segment["shift"], segment["severity"]
        again = place in first_visit
        first = first_visit.setdefault(place, score.utility)
        yield {
            **known,
            **{name: value for name, value in score.terms.items() if name in SEGMENTS},
            "utility": score.utility,
            "stepped_fraction": lived.adapting.stepped_fraction(lived.course, chosen),
            "segment": segment["name"],
            "position": position,
            "segment_shift": segment["shift"],
            "severity": segment["severity"],
            "visit": segment["visit"],
            "first_batch": segment["first"],
            "batches": segment["batches"],
            "served_batches": part.served.size,
            "standard_utility": None if standard is None else float(standard[batches].mean()),
            "collapsed_batches": None if collapsed is None else int(collapsed[batches].sum()),
            "over_first_visit": score.utility - first if again else None,
        }


def on_end(flags: NDArray[np.bool_], least: int) -> NDArray[np.bool_]:
    """Keep the true values that stand in a row of at least `least`.

    >>> on_end(np.array([True, False, True, True]), 2).tolist()
    [False, False, True, True]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    kept = np.zeros(len(flags), dtype=bool)
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        kept[start:end] = end - start >= least
    return kept
