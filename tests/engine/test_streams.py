"""Streams of many shifts through passes, tables and folders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from latencies import CLOCK
from test_sharing import same

import tempora_tta as tempora
from tempora_tta import data, models
from tempora_tta._numbers import percent
from tempora_tta.analysis.diagnoses import diagnoses
from tempora_tta.analysis.stream import stream_story
from tempora_tta.engine.audit import audit
from tempora_tta.engine.build import build_job
from tempora_tta.engine.clocks import open_clock
from tempora_tta.engine.images import stream_settings
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.run import Run
from tempora_tta.errors import TemporaError
from tempora_tta.evaluation import finished
from tempora_tta.methods import Method, register
from tempora_tta.report import tables
from tempora_tta.report.frames import offline_batches
from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete
from tempora_tta.store import RunFolder
from tempora_tta.store.merge import merge

GRID = [
    Discrete(utilisation=1.0),
    Discrete(utilisation=0.5, queue=0),
    Continuous(threshold_ms=100),
    Amortised(budget_ms=300),
    Amortised(budget_ms=300, rule="overshoot"),
    Amortised(budget_ms=0, rule="overshoot"),
    Deployment(interval_ms=70, threshold_ms=150, budget_ms=220),
    Deployment(interval_ms=30, queue=0, fallback="latest"),
]
TIMES = {**CLOCK, "counting": (41, 56), "forgetful": (41, 56)}
RESET = {"kind": "continual", "reset": "shift"}
Given = dict[Any, list[tuple[torch.Tensor, torch.Tensor]]]


@pytest.fixture(scope="session")
def shifts() -> Given:
    """Four batches of eight images of three shifts each."""
    return {name: _batches(name) for name in ("fog", "contrast", "shot_noise")}


def _batches(name: str, severity: int = 5, count: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    shift = data.open("fashion", shifts=[name], severity=severity)[name]
    preprocessing = models.load("fashion_resnet").preprocessing
    stream = data.open_stream(shift, preprocessing, batch_size=8, limit_batches=count, workers=0)
    return [(stream.batch(i), torch.from_numpy(stream.labels(i))) for i in range(count)]


def _check_segments(results: tempora.store.Results) -> None:
    """Segments pool to the stream's utility, and each is put together from its own terms."""
    segments = results.segments
    if set(results.utilities["stream"]) == {"single"}:
        assert segments.empty
        return
    key = ["method", "shift", "seed", "scenario"]
    pooled = (segments["utility"] * segments["batches"]).groupby([segments[name] for name in key]).sum()
    batches = segments.groupby(key)["batches"].sum()
    cells = results.utilities.set_index(key)
    assert len(cells) == len(pooled)
    for cell, total in pooled.items():
        assert batches[cell] == cells.loc[cell, "batches"]
        assert total / batches[cell] == pytest.approx(cells.loc[cell, "utility"], abs=1e-12)
    terms = segments.fillna(0.0)
    accuracy = (
        terms["adapted_fraction"] * terms["adapt_accuracy"]
        + (1 - terms["adapted_fraction"]) * terms["frozen_accuracy"]
    )
    recomposed = terms["availability"] * (accuracy * terms["responsiveness"] + terms["covariance"])
    np.testing.assert_allclose(recomposed, terms["utility"], atol=1e-12)


@register
class Counting(Method):
    """Predicts how often it has adapted since its last reset: its predictions tell its history."""

    name = "counting"
    state = ("count",)

    def setup(self) -> None:
        self.count = 0

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return torch.eye(10)[self.count % 10].repeat(len(x), 1)

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        self.count += 1
        return "step"


def _flags(tmp_path, **more: Any) -> dict[str, Any]:
    clock = tmp_path / "clock.json"
    open_clock(CLOCK, torch.device("cpu"))[0].profile.save(clock)
    return {
        "device": "cpu",
        "clock": str(clock),
        "methods": ["standard", "tent"],
        "grid": "none",
        "batch_size": 8,
        "data.shifts": ["fog", "contrast"],
        **more,
    }


def test_what_the_command_line_adds_to_a_stream(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("stream: continual\n")
    flags = {"stream.reset": "shift", "stream.classes": {"dirichlet": 0.1}}
    assert load_config(path, flags=flags).stream == {
        "kind": "continual",
        **{k[7:]: v for k, v in flags.items()},
    }
    assert load_config(path, ["stream.visits=3"]).stream == {"kind": "continual", "visits": 3}
    with pytest.raises(TemporaError, match=r"batches=3.*stream.batches=2"):
        stream_settings(load_config(path, ["stream.batches=2"], {"batches": 3}))
    assert stream_settings(load_config(path, flags={"batches": 3})).batches == 3


class Forgetful(Counting):
    """Right as long as it has adapted on fewer than three batches: a collapse, without a reset."""

    name = "forgetful"

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return torch.eye(10)[0 if self.count < 3 else 1].repeat(len(x), 1)


class Steadfast(Counting):
    """Stands in for standard inference that is always right."""

    name = "standard"
    label = "Standard"

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return torch.eye(10)[0].repeat(len(x), 1)

    def adapt(self) -> str:
        return "none"


@pytest.mark.parametrize(
    ("reset", "collapsed", "told"),
    [
        ("never", [9, 12, 12, 12], "forgetful collapses in 1 of 1 seed: 45 batches"),
        ("shift", [0, 0, 0, 0], "None collapses"),
    ],
)
def test_a_collapse_is_counted_marked_and_told(network, reset, collapsed, told):
    given = {
        name: [(torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.int64)) for _ in range(12)]
        for name in ("fog", "snow")
    }
    results = run(network, given, [Steadfast, Forgetful], {"kind": "recurring", "reset": reset})
    found = results.segments[results.segments["method"] == "forgetful"]
    assert found["collapsed_batches"].tolist() == collapsed
    assert found["standard_utility"].tolist() == [1.0] * 4
    assert found["utility"].tolist() == ([0.25, 0, 0, 0] if reset == "never" else [0.25] * 4)
    changes = found["over_first_visit"].tolist()
    assert np.isnan(changes[:2]).all()
    assert changes[2:] == ([-0.25, 0] if reset == "never" else [0, 0])
    assert any(sentence.startswith(told) for sentence in stream_story(results))
    table = tables.build("segments", results.utilities, cards=results.cards, segments=results.segments)
    signs = [row[2].flag.count("↓") for row in table.rows]
    assert signs == [int(count > 0) for count in collapsed] + [0]


def test_who_suffers_from_correlated_classes_is_told(network, shifts):
    """By what the passes say of a method, not by its name: AdaBN normalises with the batch, NEO does not."""
    stream = {"kind": "continual", "classes": "sorted"}
    results = run(network, shifts, ["standard", "adabn", "neo"], stream)
    (told,) = [sentence for sentence in stream_story(results) if "correlated" in sentence]
    accuracy = results.utilities.set_index("method")["utility"]
    gain = accuracy["adabn"] - accuracy["standard"]
    way = "fall below" if gain < 0 else "stay above"
    assert (
        f"{way} standard inference ({percent(accuracy['standard'])}), in points: AdaBN {100 * gain:+.1f}"
        in told
    )
    assert "NEO" not in told
    causes = {name: [one.mode for one in found] for name, found in _causes(results).items()}
    assert ("correlated classes" in causes.get("adabn", [])) == (gain < 0)
    assert "correlated classes" not in causes.get("neo", [])


def _causes(results):
    return diagnoses(results, offline_batches(results))


def run(network, shifts, methods, stream, scenarios=(), **options):
    options = {"clock": TIMES, "device": "cpu", "stream": stream, "warmup_batches": 1, **options}
    return tempora.evaluate(network("fashion_resnet"), shifts, methods, list(scenarios), **options)


EVERY_KIND = [
    {"kind": "continual", "reset": "shift"},
    {"kind": "continual", "reset": 3, "classes": {"dirichlet": 0.1}},
    {"kind": "recurring", "batches": 2, "visits": 2, "classes": "sorted"},
    {"kind": "mixed", "batches": 3, "by": "batch", "reset": "shift"},
    {"kind": "single", "reset": 2},
]


@pytest.mark.parametrize(
    "stream",
    [
        EVERY_KIND[2],
        *(pytest.param(one, marks=pytest.mark.slow) for one in EVERY_KIND if one != EVERY_KIND[2]),
    ],
    ids=lambda stream: stream["kind"],
)
def test_shared_and_unshared_agree_to_the_bit_on_every_kind(network, shifts, stream, tmp_path):
    """adabn is history-free, neo stateless, tent neither."""
    methods = ["standard", "tent", "adabn", "neo"]
    shared = run(network, shifts, methods, stream, GRID, seed=1, out=tmp_path)
    unshared = run(network, shifts, methods, stream, GRID, seed=1, share=False)
    assert (shared.utilities["status"] == "ok").all(), shared.utilities["status"].unique()
    assert set(shared.utilities["origin"]) > {"live"}
    same(shared, unshared)
    pd.testing.assert_frame_equal(shared.segments, unshared.segments, check_exact=True)
    assert set(shared.utilities["stream"]) == {stream["kind"]}
    names = set(shifts) if stream["kind"] == "single" else {stream["kind"]}
    assert set(shared.utilities["shift"]) == names
    _check_segments(shared)
    pd.testing.assert_frame_equal(tempora.open_run(tmp_path).segments, shared.segments)
    (tmp_path / "segments.parquet").unlink(missing_ok=True)
    again = tempora.open_run(tmp_path).segments
    pd.testing.assert_frame_equal(again, shared.segments, check_exact=True)


def test_resetting_at_every_shift_is_running_them_one_by_one(network, shifts):
    """Offline, to the bit: the law that ties a continual stream to the paper's single ones."""
    resetting, single, never = (
        run(network, shifts, "tent", stream, seed=3) for stream in (RESET, "single", "continual")
    )
    alone = single.utilities.set_index("shift")["utility"]
    parts = resetting.segments.set_index("segment")["utility"]
    assert parts.to_dict() == alone.to_dict()
    trace, other = ([list(row) for row in one.traces["predicted"]] for one in (resetting, never))
    assert trace[:4] == other[:4]
    assert trace != other
    with pytest.raises(TemporaError, match="stream"):
        tables.build("segments", single.utilities, cards=single.cards, segments=single.segments)


@pytest.mark.parametrize("share", [True, False])
def test_where_a_stream_resets(network, shifts, share, tmp_path):
    """Four batches of each of three shifts. Adapting costs 57 ms above lambda a batch."""

    def counts(*scenarios, **more):
        """Per batch, how often the method had adapted when it met it; None where it was skipped."""
        results = run(
            network, shifts, Counting, {**RESET, **more}, scenarios, share=share, out=tmp_path / str(more)
        )
        traces = [results.trace(cell) for _, cell in results.utilities.iterrows()]
        return [
            [
                int(row[0]) if served else None
                for row, served in zip(trace.predicted, trace.served, strict=True)
            ]
            for trace in traces
        ]

    assert counts(reset="never") == [[*range(10), 0, 1]]
    assert counts(reset=5) == [[*range(5), *range(5), 0, 1]]
    scenarios = (
        Discrete(interval_ms=40),
        *(Amortised(budget_ms=4 * 57, rule=rule) for rule in ("strict", "overshoot")),
        Amortised(budget_ms=5 * 57),
        Amortised(budget_ms=0, rule="overshoot"),
    )
    expected = [
        [0, 1, 2, 3] * 3,
        # Batches 0, 2, 4, 7, 9 and 11 are served; the reset that was due at 8 comes with 9.
        [0, None, 1, None, 0, None, None, 1, None, 0, None, 1],
        # The budget ends with the fourth batch: frozen in the state after it, not in the one after the reset.
        *([0, 1, 2, 3, *[4] * 8],) * 2,
        # A batch later; the resets that follow give neither budget nor adaptation back.
        [0, 1, 2, 3, 0, *[1] * 7],
        [0] * 12,
    ]
    assert counts(*scenarios) == expected
    for tail in tmp_path.glob("{}/traces/*--tail--*.parquet"):
        tail.unlink()
    assert counts(*scenarios) == expected, "a tail whose state was lost goes through the resets again"


def test_gradual_takes_severities_by_key_or_opens_those_of_a_dataset(network, tmp_path):
    given = {("fog", severity): _batches("fog", severity, count=6) for severity in (1, 3, 5)}
    one = run(network, given, "standard", {"kind": "gradual", "batches": 1}).segments
    assert one["severity"].tolist() == [1, 3, 5, 3, 1]
    assert one["visit"].tolist() == [1, 1, 1, 2, 2]
    assert one["segment"].tolist()[-1] == "fog severity 1 visit 2"
    flags = _flags(tmp_path, stream={"kind": "gradual", "batches": 1})
    job = build_job(load_config(None, flags=flags))
    (order,) = job.streams
    assert [segment.severity for segment in order.segments] == [1, 2, 3, 4, 5, 4, 3, 2, 1] * 2
    stream = job.open_stream(order)
    assert stream.batch(0).shape == stream.batch(17).shape == (8, 1, 28, 28)
    with pytest.raises(TemporaError, match="'clean'"):
        build_job(load_config(None, flags={**flags, "data.shifts": ["clean"]}))


def test_identities_tell_streams_apart_and_leave_given_batches_alone(network, shifts, tmp_path):
    def passes(stream, name: str) -> set[str]:
        run(network, shifts, "standard", stream, out=tmp_path / name)
        return {path.name for path in tmp_path.glob(f"{name}/traces/*.parquet")}

    given = passes(None, "given")
    assert len(given) == 3
    assert passes(None, "given") == given
    assert passes("single", "single").isdisjoint(given)
    continual = passes("continual", "continual")
    assert passes(RESET, "reset").isdisjoint(continual)
    assert passes({"kind": "continual", "reset": "never"}, "continual") == continual
    with pytest.raises(TemporaError, match="stream"):
        passes(RESET, "continual")


def test_streams_that_cannot_be(network, shifts):
    small = {**shifts, "small": [(x[:4], y[:4]) for x, y in shifts["fog"]]}
    for given, stream, said in (
        (shifts, {"kind": "continual", "batches": 5}, "5 batches of 8.*4"),
        (small, "mixed", "one size"),
    ):
        with pytest.raises(TemporaError, match=said):
            run(network, given, "standard", stream)


def test_seeds_that_were_run_apart_join_to_what_one_run_of_both_gives(tmp_path):
    def made(name: str, seeds: list[int]) -> tempora.store.Results:
        stream = {"kind": "recurring", "batches": 2, "visits": 2, "reset": "shift"}
        config = load_config(None, flags=_flags(tmp_path, seeds=seeds, stream=stream))
        with RunFolder.for_writing(tmp_path / name) as folder:
            return finished(Run(build_job(config), folder))

    both, first, second = made("both", [1, 2]), made("first", [1]), made("second", [2])
    merge([first.path, second.path], tmp_path / "joined")
    joined = made("joined", [1, 2])
    pd.testing.assert_frame_equal(joined.utilities, both.utilities)
    pd.testing.assert_frame_equal(joined.segments, both.segments)
    assert audit(both, cells=2)["agrees"].all()


def test_tables_of_a_stream_name_its_segments_and_the_whole(network, shifts):
    results = run(network, shifts, ["standard", "adabn"], {"kind": "recurring", "batches": 2}, GRID[:1])
    common = {"cards": results.cards, "segments": results.segments}
    table = tables.build("segments", results.utilities, **common)
    visits = (
        "Fog",
        "Contrast",
        "Shot noise",
        "Fog visit 2",
        "Contrast visit 2",
        "Shot noise visit 2",
        "Stream",
    )
    assert tuple(row[0].value for row in table.rows) == visits
    whole = results.utilities.query("scenario == 0").set_index("method")["utility"]
    shown = {column.title: cell.value for column, cell in zip(table.columns, table.rows[-1], strict=True)}
    assert shown["AdaBN"] == pytest.approx(whole["adabn"])
    summary = tables.build("stream", results.utilities, **common)
    assert [row[0].value for row in summary.rows] == ["Standard", "AdaBN"]
    assert summary.rows[1][1].value == pytest.approx(whole["adabn"])
    assert summary.rows[1][2].value == pytest.approx(whole["adabn"] - whole["standard"])
    for name in tables.FORMATS:
        assert "adabn" in tables.render(summary, name).lower()
        assert "visit 2" in tables.render(table, name)
    assert "ρ 100 %" in tables.build("segments", results.utilities, scenario="ρ 100 %", **common).caption
