"""The line of a live pipeline: whatever order its events come in, and however coarse the clock, what it did is what
the timeline makes of its arrivals and times when it knows them all beforehand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tempora_tta.engine.pipeline.line import Line, driven_live
from tempora_tta.engine.pipeline.live_time import Lived
from tempora_tta.scenarios import Deployment, replay


class Lives:
    """Drives a line through events, each so many milliseconds after the last, often none."""

    def __init__(self, resolved):
        self.line = Line(resolved)
        self.now_ms = 0.0
        self.arrivals, self.rows, self.dropped = [], [], []

    def arrive(self):
        request = SimpleNamespace(arrived_ms=0.0)
        self.line.offer([request], self.now_ms)
        self.arrivals.append(request)
        self._see_losses()

    def finish(self):
        turn = self.line.turn
        if turn is None:
            return
        phase = "fallback" if turn.fallback else "adapt" if turn.adapting else "frozen"
        at = (turn.arrived_ms, turn.start_ms, self.now_ms, self.now_ms, self.now_ms)
        self.rows.append(Lived(turn.batch, phase, *at, "none"))
        self.line.finish(self.rows[-1])
        self._see_losses()
        self.line.forget()

    def _see_losses(self):
        self.dropped += [unit.number for unit in self.line.lost(self.now_ms)]


@st.composite
def courses(draw):
    knobs = {"queue": draw(st.integers(0, 2))}
    if draw(st.booleans()):
        knobs["fallback"], knobs["fallback_cost"] = "standard", "charged"
    if draw(st.booleans()):
        knobs["budget_ms"] = float(draw(st.integers(0, 6)))
    resolved = Deployment(arrivals=[0.0], **knobs).resolve(num_batches=1, baseline_ms=1.0)
    events = st.tuples(st.sampled_from(["arrive", "arrive", "finish"]), st.integers(0, 2))
    return resolved, draw(st.lists(events, min_size=1, max_size=25))


@given(courses())
@settings(max_examples=400)
def test_what_the_line_did_is_what_the_timeline_makes_of_its_arrivals_and_times(case):
    resolved, events = case
    lives = Lives(resolved)
    lives.arrive()
    for kind, after_ms in events:
        lives.now_ms += after_ms
        getattr(lives, kind)()
    while lives.line.turn is not None:
        lives.now_ms += 1
        lives.finish()

    rows = {row.batch: row for row in lives.rows}
    count = len(lives.arrivals)
    times = {name: np.zeros(count) for name in ("predict_ms", "adapt_ms")}
    for batch, row in rows.items():
        times["predict_ms"][batch], times["adapt_ms"][batch] = row.predict_ms, row.adapt_ms
    arrived_ms = tuple(request.arrived_ms for request in lives.arrivals)
    known = replace(driven_live(resolved), arrivals_ms=arrived_ms, num_batches=count)
    predict_ms, adapt_ms = times.values()
    course = replay(known.timeline(), predict_ms, adapt_ms, predict_ms, fallback_ms=predict_ms)

    assert [row.batch for row in lives.rows] == course.served.tolist()
    assert [row.start_ms for row in lives.rows] == course.start_ms.tolist()
    assert [row.phase for row in lives.rows] == [course.phase[batch] for batch in course.served]
    if resolved.fallback is None:
        assert lives.dropped == course.evicted.tolist()
    assert len(lives.line) == 0
