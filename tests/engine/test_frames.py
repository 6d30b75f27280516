"""Frames in a run: counted from what a pass keeps, evaluated or asked later."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from latencies import CLOCK

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.analysis import pool
from tempora_tta.analysis.replays import answer
from tempora_tta.scenarios import SIX_TERMS, Deployment, Discrete, Offline

METHODS = ["standard", "adabn", "tent"]
CAMERAS = [
    Deployment(fps=30, cameras=4, deadline_ms=97),
    Deployment(fps=10, threshold_ms=300),
    Deployment(fps=200, deadline_ms=60, queue=0, fallback="standard"),
]


def evaluate(network, batches, scenarios, **options):
    streams = {"contrast": batches[:5], "again": batches[3:]}
    return tempora.evaluate(
        network("fashion_resnet"), streams, METHODS, scenarios, clock=CLOCK, device="cpu", **options
    )


@pytest.fixture(scope="module")
def run(network, batches):
    return evaluate(network, batches, CAMERAS)


def test_a_pass_keeps_which_samples_are_right(run, batches):
    trace = run.traces.query("method == 'standard' and protocol == 'offline' and shift == 'contrast'")
    labels = np.stack([y.numpy() for _, y in batches[:5]])
    assert (np.stack(trace["right"]) == (np.stack(trace["predicted"]) == labels)).all()
    assert (np.stack(trace["right"]).sum(axis=1) == trace["correct"]).all()


def test_what_is_asked_of_a_run_is_what_it_would_have_found(network, batches, run):
    plain = evaluate(network, batches, [Discrete(utilisation=0.5)])
    for scenario in CAMERAS:
        found = answer(plain, scenario)
        assert {"standard", "adabn"} <= set(found.rows["method"])
        assert (set(found.unanswered) == {"tent"}) == (scenario is not CAMERAS[1]), "it would skip batches"
        cells = run.utilities[run.utilities["label"] == scenario.label].set_index(["method", "shift"])
        for row in found.rows.to_dict("records"):
            cell = cells.loc[row["method"], row["shift"]]
            for name in ("utility", *SIX_TERMS, "response_ms", "response_p50_ms", "response_p90_ms"):
                assert row[name] == cell[name] or (pd.isna(row[name]) and pd.isna(cell[name]))
            key = (row["method"], row["shift"], row["seed"])
            assert found.streams[key].worth.mean() == pytest.approx(row["utility"], abs=1e-12)
            assert found.streams[key].response_ms.size == 5 * 8
        assert (answer(run, scenario).rows["answer"] == "evaluated").all()


def test_six_terms_give_the_utility_of_each_cell_and_of_both_shifts_together(run):
    for rows in (run.utilities, pool(run.utilities)):
        availability, adapted, adapt, frozen, responsiveness, covariance = (
            rows[name].fillna(0.0) for name in SIX_TERMS
        )
        accuracy = adapted * adapt + (1 - adapted) * frozen
        again = availability * (accuracy * responsiveness + covariance)
        assert again.to_numpy() == pytest.approx(rows["utility"].to_numpy(), abs=1e-12)
        assert (rows["covariance"].abs() > 1e-6).any()


def test_what_a_frame_is_worth_changes_no_pass(network, batches):
    patient, hasty = (
        Deployment(fps=180),
        Deployment(fps=180, deadline_ms=90, residuals=False),
    )
    cells = evaluate(network, batches, [patient, hasty]).utilities
    tent = cells[(cells["method"] == "tent") & (cells["shift"] == "contrast")].set_index("label")
    assert tent.loc[patient.label, "origin"] == "live"
    assert tent.loc[patient.label, "adapting_pass"] == tent.loc[hasty.label, "adapting_pass"]
    assert tent.loc[patient.label, "utility"] > tent.loc[hasty.label, "utility"] > 0


def test_only_sizes_that_were_run_have_an_answer(network, batches, run):
    other = Deployment(fps=30, batch_size=4, deadline_ms=200)
    with pytest.raises(
        TemporaError, match="batch_size=4: the batches have 8 images, and only a size that was run"
    ):
        evaluate(network, batches, [other])
    with pytest.raises(TemporaError, match="run again with batches of 4"):
        answer(run, other)
    assert set(answer(run, Offline()).rows["method"]) == set(METHODS)


@pytest.mark.parametrize("method", ["standard", "tent", "settle"])
def test_a_run_that_answers_at_once_finds_what_score_says(network, frames, method):
    """From the same answers and times; with given times, a time of predicting is that of an answer."""
    clock = {**CLOCK, "settle": (42, 3)}
    cameras = [
        Deployment(fps=fps, cameras=2, answer="at_once", batch_size=8, deadline_ms=120, queue=queue)
        for fps, queue in ((5, 1), (30, 1), (150, 2), (100, 0))
    ]
    run = tempora.evaluate(
        network("fashion_resnet"), {"contrast": frames}, [method], cameras, clock=clock, device="cpu"
    )
    assert (run.utilities["status"] == "ok").all()
    predict_ms, adapt_ms = clock[method]
    sizes = set()
    for camera in cameras:
        cell = run.utilities[run.utilities["label"] == camera.label].iloc[0]
        trace = run.trace(cell)
        score = camera.score(
            correct=np.reshape(trace.correct, (8, 8)),
            predict_ms=predict_ms,
            adapt_ms=adapt_ms,
            baseline_ms=40,
        )
        assert cell["utility"] == score.utility
        for term in SIX_TERMS:
            assert cell[term] == score.terms[term] or (pd.isna(cell[term]) and score.terms[term] is None)
        assert trace.start_ms[trace.served].tolist() == score.course.start_ms.tolist()
        sizes |= set(np.unique(trace.start_ms[trace.served], return_counts=True)[1].tolist())
    assert max(sizes) == 8
    assert min(sizes) == 1


def test_only_single_frames_are_answered_at_once(network, batches, frames):
    camera = Deployment(fps=30, answer="at_once", batch_size=8)
    with pytest.raises(TemporaError, match="run with batch_size 1"):
        evaluate(network, batches, [camera])
    run = tempora.evaluate(
        network("fashion_resnet"), frames, ["standard", "tent"], [camera], clock=CLOCK, device="cpu"
    )
    assert set(answer(run, camera).rows["answer"]) == {"evaluated"}
    other = answer(run, Deployment(fps=31, answer="at_once", batch_size=8))
    assert set(other.unanswered) == {"standard", "tent"}
    assert set(answer(run, Deployment(fps=30)).rows["answer"]) == {"replayed"}
