"""Utility per segment: where in a stream of many shifts a method gains, collapses, recovers or forgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from tempora.store.schema import SEGMENTS, arrow_schema

if TYPE_CHECKING:
    from tempora.store.results import Results


def segments_frame(results: Results) -> pd.DataFrame:
    """One row per finished cell and segment, scored from the passes of the run."""
    done = results.utilities[results.utilities["status"] == "ok"]
    rows = [row for _, cell in done.iterrows() for row in _rows(results, cell)]
    frame = pd.DataFrame(rows, columns=list(SEGMENTS))
    table = pa.Table.from_pandas(frame, schema=arrow_schema(SEGMENTS), preserve_index=False)
    as_stored: pd.DataFrame = table.to_pandas()
    return as_stored


def _rows(results: Results, cell: pd.Series) -> Iterator[dict[str, Any]]:
    """The segments of one cell, each scored over its own batches of the course that the whole stream took."""
    segments = results.folder.stored(cell["adapting_pass"]).facts.get("segments")
    if not segments:
        return
    adapting, frozen, fallback = (
        results.folder.trace(cell[name], predictions=False) if isinstance(cell[name], str) else None
        for name in ("adapting_pass", "frozen_pass", "fallback_pass")
    )
    assert adapting is not None
    resolved = results.resolved(cell, adapting.num_batches)
    course, accuracy = adapting.served_course(resolved, frozen, fallback)
    known = {name: cell[name] for name in SEGMENTS if name in cell.index}
    for position, segment in enumerate(segments):
        part, chosen = course.part(segment["first"], segment["batches"])
        score = resolved.score(part, accuracy[chosen])
        yield {
            **known,
            **{name: value for name, value in score.terms.items() if name in SEGMENTS},
            "utility": score.utility,
            "stepped_fraction": adapting.stepped_fraction(course, chosen),
            "segment": segment["name"],
            "position": position,
            "segment_shift": segment["shift"],
            "severity": segment["severity"],
            "visit": segment["visit"],
            "first_batch": segment["first"],
            "batches": segment["batches"],
            "served_batches": part.served.size,
        }
