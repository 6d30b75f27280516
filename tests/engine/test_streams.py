"""Streams of many shifts through passes, tables and folders."""

from __future__ import annotations

from pathlib import Path
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
from tempora_tta.data import StreamSettings, draw
from tempora_tta.data.batches import given_shift, open_given
from tempora_tta.engine.audit import audit
from tempora_tta.engine.build import build_job
from tempora_tta.engine.calls import Calls
from tempora_tta.engine.clocks import open_clock
from tempora_tta.engine.images import stream_settings
from tempora_tta.engine.load_config import load_config
from tempora_tta.engine.passes import Pass
from tempora_tta.engine.run import Run
from tempora_tta.errors import TemporaError
from tempora_tta.evaluation import finished
from tempora_tta.methods import Method, create, register
from tempora_tta.report import tables
from tempora_tta.report.charts import save
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.html.page import render
from tempora_tta.scenarios import Amortised, Continuous, Deployment, Discrete, Offline
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


STREAMS = [
    {"kind": "continual", "reset": "shift"},
    {"kind": "continual", "reset": 3, "classes": {"dirichlet": 0.1}},
    {"kind": "recurring", "batches": 2, "visits": 2, "classes": "sorted"},
    {"kind": "mixed", "batches": 3, "reset": 5},
    {"kind": "mixed", "batches": 3, "by": "batch", "reset": "shift"},
    {"kind": "single", "reset": 2},
]


@pytest.mark.parametrize(
    "stream",
    [STREAMS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in STREAMS[1:])],
    ids=lambda stream: "-".join(map(str, stream.values())),
)
def test_shared_and_unshared_agree_to_the_bit_on_every_kind(network, shifts, stream):
    """adabn and neo are history-free, neo stateless, tent neither."""
    shared, unshared = (
        tempora.evaluate(
            network("fashion_resnet"),
            shifts,
            ["standard", "tent", "adabn", "neo"],
            GRID,
            clock=CLOCK,
            device="cpu",
            stream=stream,
            seed=1,
            share=share,
        )
        for share in (True, False)
    )
    assert (shared.utilities["status"] == "ok").all(), shared.utilities["status"].unique()
    assert set(shared.utilities["origin"]) > {"live"}
    same(shared, unshared)
    pd.testing.assert_frame_equal(shared.segments, unshared.segments, check_exact=True)
    assert set(shared.utilities["stream"]) == {stream["kind"]}
    names = set(shifts) if stream["kind"] == "single" else {stream["kind"]}
    assert set(shared.utilities["shift"]) == names
    _check_segments(shared)


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


def test_resetting_at_every_shift_is_running_them_one_by_one(network, shifts):
    """Offline, to the bit: the law that ties a continual stream to the paper's single ones."""
    model = network("fashion_resnet")
    common = {"clock": CLOCK, "device": "cpu", "seed": 3}
    resetting = tempora.evaluate(
        model, shifts, ["tent"], [], stream={"kind": "continual", "reset": "shift"}, **common
    )
    single = tempora.evaluate(model, shifts, ["tent"], [], stream="single", **common)
    never = tempora.evaluate(model, shifts, ["tent"], [], stream="continual", **common)
    alone = single.utilities.set_index("shift")["utility"]
    parts = resetting.segments.set_index("segment")["utility"]
    assert parts.to_dict() == alone.to_dict()
    first = resetting.segments.sort_values("position")["segment"].iloc[0]
    trace, other = ([list(row) for row in one.traces["predicted"]] for one in (resetting, never))
    assert trace[:4] == other[:4]
    assert trace != other
    kept = never.segments.set_index("segment")["utility"]
    assert kept[first] == alone[first]


def test_gradual_takes_severities_by_key(network):
    given = {("fog", severity): _batches("fog", severity, count=6) for severity in (1, 3, 5)}
    results = tempora.evaluate(
        network("fashion_resnet"),
        given,
        ["standard", "tent"],
        [],
        clock=CLOCK,
        device="cpu",
        stream={"kind": "gradual", "batches": 1},
    )
    one = results.segments[results.segments["method"] == "tent"]
    assert one["severity"].tolist() == [1, 3, 5, 3, 1]
    assert one["visit"].tolist() == [1, 1, 1, 2, 2]
    assert one["segment"].tolist()[-1] == "fog severity 1 visit 2"


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


def _counts(network, shifts, stream, scenario, share=True) -> list[int | None]:
    """Per batch, how often the method had adapted when it met it; None where it was skipped."""
    results = tempora.evaluate(
        network("fashion_resnet"),
        shifts,
        [Counting],
        [scenario],
        clock={"baseline_ms": 40, "counting": (41, 56), "standard": (38, 0)},
        device="cpu",
        stream=stream,
        share=share,
    )
    wanted = results.utilities[results.utilities["scenario"] == 1 if scenario != Offline() else slice(None)]
    assert (results.utilities["status"] == "ok").all(), results.utilities["status"].tolist()
    trace = results.trace(wanted.iloc[0])
    return [
        int(row[0]) if served else None for row, served in zip(trace.predicted, trace.served, strict=True)
    ]


RESET = {"kind": "continual", "reset": "shift"}


@pytest.mark.parametrize("share", [True, False])
def test_where_a_stream_resets(network, shifts, share):
    """Four batches of each of three shifts. Adapting costs 57 ms above lambda a batch."""

    def counts(scenario, **more):
        return _counts(network, shifts, {**RESET, **more}, scenario, share)

    assert counts(Offline()) == [0, 1, 2, 3] * 3
    assert counts(Offline(), reset="never") == [*range(10), 0, 1]
    assert counts(Offline(), reset=5) == [*range(5), *range(5), 0, 1]
    # Batches 0, 2, 4, 7, 9 and 11 are served; the reset that was due at 8 comes with 9.
    assert counts(Discrete(interval_ms=40)) == [0, None, 1, None, 0, None, None, 1, None, 0, None, 1]
    # The budget ends with the fourth batch: frozen in the state after it, not in the one after the reset.
    assert counts(Amortised(budget_ms=4 * 57)) == [0, 1, 2, 3, *[4] * 8]
    assert counts(Amortised(budget_ms=4 * 57, rule="overshoot")) == [0, 1, 2, 3, *[4] * 8]
    # A batch later; the resets that follow give neither budget nor adaptation back.
    assert counts(Amortised(budget_ms=5 * 57)) == [0, 1, 2, 3, 0, *[1] * 7]
    assert counts(Amortised(budget_ms=0, rule="overshoot")) == [0] * 12


def test_a_tail_whose_state_was_lost_goes_through_the_resets_again(network, shifts, tmp_path):
    def run() -> tempora.store.Results:
        return tempora.evaluate(
            network("fashion_resnet"),
            shifts,
            [Counting],
            [Amortised(budget_ms=6 * 57)],
            clock={"baseline_ms": 40, "counting": (41, 56)},
            device="cpu",
            stream=RESET,
            out=tmp_path,
        )

    first = run()
    (tail,) = tmp_path.glob("traces/*--tail--*.parquet")
    tail.unlink()
    again = run()
    assert [list(row) for row in again.traces["predicted"]] == [
        list(row) for row in first.traces["predicted"]
    ]
    assert again.traces["predicted"].iloc[-1][0] == 2


def test_a_reset_takes_no_time_and_each_is_made_once(network, shifts):
    """Under a clock that knows no reset, and with a method that counts them."""
    resets = []

    class Watched(Counting):
        name = "watched"

        def reset(self) -> None:
            resets.append(self.count)
            super().reset()

    (order,) = draw(
        StreamSettings.of(RESET), [given_shift(name, given, 10) for name, given in shifts.items()], 8, 1
    )
    method = create(Watched, network("fashion_resnet"))
    clock, _ = open_clock({"baseline_ms": 40, "watched": (41, 56)}, torch.device("cpu"))
    run = Pass(Calls(method, "watched", open_given(order, "cpu"), clock))
    trace = run.drive(Offline().resolve(num_batches=12))
    assert resets == [0, 4, 4]  # at the start, and at both changes of shift
    assert trace.finish_ms.tolist() == pytest.approx([97.0 * (i + 1) for i in range(12)])


def test_identities_tell_streams_apart_and_leave_given_batches_alone(network, shifts, tmp_path):
    def passes(stream, name: str) -> set[str]:
        out = tmp_path / name
        tempora.evaluate(
            network("fashion_resnet"),
            shifts,
            ["standard"],
            [],
            clock=CLOCK,
            device="cpu",
            stream=stream,
            out=out,
        )
        return {path.name for path in out.glob("traces/*.parquet")}

    given = passes(None, "given")
    assert len(given) == 3
    assert passes(None, "given") == given
    assert passes("single", "single").isdisjoint(given)
    continual = passes("continual", "continual")
    assert passes({"kind": "continual", "reset": "shift"}, "reset").isdisjoint(continual)
    assert passes({"kind": "continual", "reset": "never"}, "continual") == continual


def test_a_run_over_another_stream_of_the_same_kind_is_refused(network, shifts, tmp_path):
    def evaluate(method: str, stream: Any) -> None:
        tempora.evaluate(
            network("fashion_resnet"),
            shifts,
            method,
            [],
            clock=CLOCK,
            device="cpu",
            stream=stream,
            out=tmp_path,
        )

    evaluate("tent", RESET)
    with pytest.raises(TemporaError, match="stream"):
        evaluate("tent", "continual")


def test_segments_are_stored_and_read(network, shifts, tmp_path):
    results = tempora.evaluate(
        network("fashion_resnet"),
        shifts,
        ["standard", "tent"],
        GRID[:2],
        clock=CLOCK,
        device="cpu",
        seeds=(1, 2),
        stream="continual",
        out=tmp_path,
    )
    stored = pd.read_parquet(tmp_path / "segments.parquet")
    assert len(stored) == len(results.utilities) * 3
    pd.testing.assert_frame_equal(tempora.open_run(tmp_path).segments, results.segments)
    (tmp_path / "segments.parquet").unlink()
    again = tempora.open_run(tmp_path).segments
    pd.testing.assert_frame_equal(again, results.segments, check_exact=True)


@pytest.mark.parametrize(
    ("stream", "match"),
    [
        ("circular", "unknown kind of stream"),
        ("gradual", "goes through severities"),
        ({"kind": "continual", "batches": 5}, "too few for 5 batches of 8: stream.batches may be 4"),
    ],
)
def test_streams_that_cannot_be(network, shifts, stream, match):
    with pytest.raises(TemporaError, match=match):
        tempora.evaluate(
            network("fashion_resnet"), shifts, ["standard"], [], clock=CLOCK, device="cpu", stream=stream
        )


def test_batches_of_two_sizes_make_no_stream(network, shifts):
    mixed = {**shifts, "small": [(x[:4], y[:4]) for x, y in shifts["fog"]]}
    with pytest.raises(TemporaError, match="one stream needs batches of one size"):
        tempora.evaluate(
            network("fashion_resnet"), mixed, ["standard"], [], clock=CLOCK, device="cpu", stream="mixed"
        )


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


def test_a_configuration_s_stream_and_one_seed_after_the_other(tmp_path):
    """Seeds that were run apart are joined to what one run of both gives."""

    def run(name: str, seeds: list[int]) -> tempora.store.Results:
        stream = {"kind": "recurring", "batches": 2, "visits": 2, "reset": "shift"}
        config = load_config(None, flags=_flags(tmp_path, seeds=seeds, stream=stream))
        with RunFolder.for_writing(tmp_path / name) as folder:
            return finished(Run(build_job(config), folder))

    both, first, second = run("both", [1, 2]), run("first", [1]), run("second", [2])
    merge([first.path, second.path], tmp_path / "joined")
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("joined/traces/*")}
    joined = run("joined", [1, 2])
    assert before == {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("joined/traces/*")}
    pd.testing.assert_frame_equal(joined.utilities, both.utilities)
    pd.testing.assert_frame_equal(joined.segments, both.segments)
    assert both.segments["segment"].unique().tolist() == [
        "fog",
        "contrast",
        "fog visit 2",
        "contrast visit 2",
    ]
    audited = audit(both, cells=4)
    assert audited["agrees"].all()


def test_gradual_needs_something_with_severities(tmp_path):
    flags = {**_flags(tmp_path, stream={"kind": "gradual", "batches": 1}), "data.shifts": ["clean"]}
    with pytest.raises(TemporaError, match=r"'clean'.* has none: name corruptions"):
        build_job(load_config(None, flags=flags))


def test_gradual_opens_every_severity_of_a_dataset(tmp_path):
    job = build_job(load_config(None, flags=_flags(tmp_path, stream={"kind": "gradual", "batches": 1})))
    (order,) = job.streams
    assert order.num_batches == 2 * 9
    assert [segment.severity for segment in order.segments][:9] == [1, 2, 3, 4, 5, 4, 3, 2, 1]
    stream = job.open_stream(order)
    assert stream.batch(0).shape == stream.batch(17).shape == (8, 1, 28, 28)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("stream: circular\n", r"stream \(line 1 of .*\): unknown kind of stream 'circular'"),
        ("seeds: [1]\nstream: {kind: continual, reset: 0}\n", r"stream \(line 2 of .*\): reset=0"),
        ("stream: [continual]\n", "stream"),
        ("stream: {kind: continual, classes: {dirichlet: many}}\n", "dirichlet='many'"),
    ],
)
def test_mistakes_in_a_configuration_are_found_where_they_stand(tmp_path, text, match):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(TemporaError, match=match):
        load_config(path)


def test_what_the_command_line_adds_to_a_stream(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("stream: continual\n")
    flags = {"stream.reset": "shift", "stream.classes": {"dirichlet": 0.1}}
    assert load_config(path, flags=flags).stream == {
        "kind": "continual",
        **{k[7:]: v for k, v in flags.items()},
    }
    assert load_config(path, ["stream.visits=3"]).stream == {"kind": "continual", "visits": 3}
    with pytest.raises(TemporaError, match=r"batches=3 and stream.batches=2: give one"):
        stream_settings(load_config(path, ["stream.batches=2"], {"batches": 3}))
    assert stream_settings(load_config(path, flags={"batches": 3})).batches == 3


def test_one_configuration_of_imagenet_c_gives_every_kind_of_stream():
    """As the comments in it say; the data are not needed to read it."""
    path = Path(__file__).parents[2] / "configs" / "resnet50-imagenet-c-continual.yaml"
    assert stream_settings(load_config(path)).kind == "continual"
    changes = {
        "gradual": ["stream.batches=8"],
        "recurring": ["stream.visits=2", "stream.batches=39"],
        "mixed": [],
    }
    for kind, settings in changes.items():
        assert stream_settings(load_config(path, settings, {"stream.kind": kind})).kind == kind


def test_what_people_see_of_a_stream(network, shifts, tmp_path):
    """A table in every format, a figure, a section of the report; runs of single streams have none of them."""
    results = tempora.evaluate(
        network("fashion_resnet"),
        shifts,
        ["standard", "adabn"],
        GRID[:1],
        clock=CLOCK,
        device="cpu",
        seeds=(1, 2),
        stream={"kind": "recurring", "batches": 2},
        out=tmp_path,
    )
    common = {"cards": results.cards, "segments": results.segments}
    table = tables.build("segments", results.utilities, **common)
    assert [row[0].value for row in table.rows] == [
        *("Fog", "Contrast", "Shot noise", "Fog visit 2", "Contrast visit 2", "Shot noise visit 2"),
        "Stream",
    ]
    whole = results.utilities.query("scenario == 0").groupby("method")["utility"].mean()
    shown = {column.title: cell.value for column, cell in zip(table.columns, table.rows[-1], strict=True)}
    assert shown["AdaBN"] == pytest.approx(whole["adabn"])
    summary = tables.build("stream", results.utilities, **common)
    assert [column.title for column in summary.columns][-1] == "Last visit − first"
    assert [row[0].value for row in summary.rows] == ["Standard", "AdaBN"]
    assert summary.rows[1][1].value == pytest.approx(whole["adabn"])
    assert summary.rows[1][2].value == pytest.approx(whole["adabn"] - whole["standard"])
    for name in tables.FORMATS:
        assert "adabn" in tables.render(summary, name).lower()
        assert "visit 2" in tables.render(table, name)
    at_interval = tables.build("segments", results.utilities, scenario="ρ 100 %", **common)
    assert "ρ 100 %" in at_interval.caption
    assert tmp_path / "stream.svg" in save(results, tmp_path)
    page = render(results)
    assert "per segment of the recurring stream" in page
    assert "No method is reset on this stream." in page


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
        (
            "never",
            [9, 12, 12, 12],
            "forgetful collapses in 1 of 1 seed: 45 batches lie among 20 or more on end that are worth less than "
            "with standard inference; it does not recover.",
        ),
        ("shift", [0, 0, 0, 0], "None collapses: no 20 batches on end are below standard inference."),
    ],
)
def test_a_collapse_is_counted_marked_and_told(network, reset, collapsed, told):
    given = {
        name: [(torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.int64)) for _ in range(12)]
        for name in ("fog", "snow")
    }
    results = tempora.evaluate(
        network("fashion_resnet"),
        given,
        [Steadfast, Forgetful],
        [],
        clock={"baseline_ms": 40, "standard": (38, 0), "forgetful": (41, 56)},
        device="cpu",
        stream={"kind": "recurring", "reset": reset},
    )
    found = results.segments[results.segments["method"] == "forgetful"]
    assert found["collapsed_batches"].tolist() == collapsed
    assert found["standard_utility"].tolist() == [1.0] * 4
    assert found["utility"].tolist() == ([0.25, 0, 0, 0] if reset == "never" else [0.25] * 4)
    changes = found["over_first_visit"].tolist()
    assert np.isnan(changes[:2]).all()
    assert changes[2:] == ([-0.25, 0] if reset == "never" else [0, 0])
    assert told in stream_story(results)
    table = tables.build("segments", results.utilities, cards=results.cards, segments=results.segments)
    signs = [row[2].flag.count("↓") for row in table.rows]
    assert signs == [int(count > 0) for count in collapsed] + [0]


def test_who_suffers_from_correlated_classes_is_told(network, shifts):
    """By what the passes say of a method, not by its name: AdaBN normalises with the batch, NEO does not."""
    results = tempora.evaluate(
        network("fashion_resnet"),
        shifts,
        ["standard", "adabn", "neo"],
        [],
        clock=CLOCK,
        device="cpu",
        stream={"kind": "continual", "classes": "sorted"},
    )
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


def test_a_run_of_single_streams_has_no_segments_to_show(network, batches, tmp_path):
    results = tempora.evaluate(
        network("fashion_resnet"),
        {"a": batches[:2]},
        ["standard"],
        [],
        clock=CLOCK,
        device="cpu",
        out=tmp_path,
    )
    assert results.segments.empty
    assert not (tmp_path / "segments.parquet").exists()
    with pytest.raises(TemporaError, match="no stream of many shifts"):
        tables.build("segments", results.utilities, cards=results.cards, segments=results.segments)
    assert not any("stream" in path.name for path in save(results, tmp_path))
