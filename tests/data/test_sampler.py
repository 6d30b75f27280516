"""Every kind of stream visits what it says, in the order of its seed."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tempora_tta.data import (
    Order,
    Shift,
    StreamSettings,
    array_shift,
    draw,
    open_stream,
    stream_order,
)
from tempora_tta.data.sampler import by_class
from tempora_tta.errors import TemporaError
from tempora_tta.models import Preprocessing

GREY = Preprocessing(mean=(0.5,), std=(0.25,), input_size=(1, 2, 2), crop_pct=1.0)


def _shift(name: str, length: int, severity: int | None = None, number: int = 0) -> Shift:
    """Image i is all i (mod 200) plus the shift's number: a batch shows where it comes from."""
    values = (np.arange(length) % 200 + number).astype(np.uint8)
    images = np.tile(values[:, None, None], (1, 2, 2))
    made = array_shift(name, images, np.arange(length) % 10, num_classes=10)
    object.__setattr__(made, "severity", severity)
    return made


SHIFTS = [_shift(name, 100, number=number) for number, name in enumerate(("fog", "snow", "frost"))]
RAMP = [_shift(name, 120, severity) for name in ("fog", "snow") for severity in (1, 2, 3)]


def _pairs(order: Order) -> list[tuple[str, int]]:
    return [
        (order.shifts[which].name, int(sample))
        for i in range(order.num_batches)
        for which, sample in zip(*order.samples(i), strict=True)
    ]


def _one(settings: Any, shifts: list[Shift] = SHIFTS, batch_size: int = 4, seed: int = 7) -> Order:
    (order,) = draw(StreamSettings.of(settings), shifts, batch_size, seed)
    return order


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["single", "continual", "gradual", "recurring", "mixed"]),
    batches=st.one_of(st.none(), st.integers(1, 2)),
    classes=st.sampled_from(["shuffled", "sorted", {"dirichlet": 0.1}, {"dirichlet": 100}]),
    by=st.sampled_from(["sample", "batch"]),
    batch_size=st.integers(1, 10),
    seed=st.integers(0, 3),
)
def test_in_every_kind_batches_are_whole_and_samples_come_once(
    kind: str, batches: int | None, classes: Any, by: str, batch_size: int, seed: int
) -> None:
    settings = StreamSettings(kind, batches=batches, classes=classes, by=by)
    shifts = RAMP if kind == "gradual" else SHIFTS
    for order, again in zip(
        draw(settings, shifts, batch_size, seed), draw(settings, shifts, batch_size, seed), strict=True
    ):
        pairs = _pairs(order)
        assert pairs == _pairs(again)
        assert len(pairs) == order.num_batches * batch_size
        assert [s.first for s in order.segments] == np.cumsum(
            [0, *(s.batches for s in order.segments)]
        ).tolist()[:-1]
        assert len({s.name for s in order.segments}) == len(order.segments)
        if kind != "recurring":
            assert max(Counter(pairs).values()) == 1
        for i in range(order.num_batches):
            which, samples = order.samples(i)
            assert (order.labels(i) == samples % 10).all()
            if kind not in ("single", "mixed"):
                assert {order.shifts[one].name for one in which} == {
                    order.segments[order.segment_of(i)].shift
                }


@given(length=st.integers(8, 300), batch_size=st.integers(1, 8), seed=st.integers(0, 2**63 - 1))
def test_a_single_shuffled_stream_is_the_order_of_its_seed(length: int, batch_size: int, seed: int) -> None:
    order = _one("single", [_shift("fog", length)], batch_size, seed)
    expected = np.random.default_rng(seed).permutation(length)[: length // batch_size * batch_size]
    assert [sample for _, sample in _pairs(order)] == expected.tolist()
    assert (order.identity(), order.shift, order.fingerprint) == ({}, "fog", order.shifts[0].fingerprint)


def test_continual_is_the_single_streams_one_after_the_other() -> None:
    order = _one("continual")
    singles = {one.shift: _pairs(one) for one in draw(StreamSettings(), SHIFTS, 4, 7)}
    visited = [segment.name for segment in order.segments]
    assert sorted(visited) == ["fog", "frost", "snow"]
    assert _pairs(order) == [pair for name in visited for pair in singles[name]]
    orders = {tuple(s.name for s in _one("continual", seed=seed).segments) for seed in range(30)}
    assert len(orders) == 6
    part = _one({"kind": "continual", "batches": 2})
    assert _pairs(part) == [pair for name in visited for pair in singles[name][:8]]
    classes = {"kind": "continual", "classes": {"dirichlet": 0.1}}
    alone = {
        one.shift: _pairs(one) for one in draw(StreamSettings.of({**classes, "kind": "single"}), SHIFTS, 4, 7)
    }
    assert _pairs(_one(classes)) == [pair for name in visited for pair in alone[name]]


def test_gradual_goes_up_and_down_with_other_pictures_at_every_step() -> None:
    order = _one({"kind": "gradual", "batches": 2}, RAMP)
    first, second = order.segments[0].shift, order.segments[5].shift
    assert {first, second} == {"fog", "snow"}
    assert [(s.shift, s.severity, s.visit) for s in order.segments[:5]] == [
        (first, 1, 1),
        (first, 2, 1),
        (first, 3, 1),
        (first, 2, 2),
        (first, 1, 2),
    ]
    assert order.segments[3].name == f"{first} severity 2 visit 2"
    samples = [sample for name, sample in _pairs(order) if name == first]
    assert samples == stream_order(120, 7)[:40].tolist()
    assert _one("gradual", RAMP).num_batches == 2 * 5 * (120 // 4 // 5)
    with pytest.raises(TemporaError, match=r"too few for 7 batches of 4 at each of 5 steps.*6 at most"):
        _one({"kind": "gradual", "batches": 7}, RAMP)
    with pytest.raises(TemporaError, match="goes through severities"):
        _one("gradual", SHIFTS)


def test_recurring_comes_back_and_goes_on_where_it_left() -> None:
    order = _one({"kind": "recurring", "batches": 10, "visits": 5})
    assert [s.name for s in order.segments[:5]] == ["fog", "snow", "frost", "fog visit 2", "snow visit 2"]
    assert order.num_batches == 150
    visits = [np.concatenate([order.samples(30 * v + i)[1] for i in range(10)]) for v in range(5)]
    assert np.concatenate(visits[:2]).tolist() == stream_order(100, 7)[:80].tolist()
    assert all(len(set(visit)) == 40 for visit in visits)
    assert visits[2].tolist() != visits[0].tolist()
    assert not set(visits[2]) & set(visits[3])


@pytest.mark.parametrize("by", ["sample", "batch"])
def test_mixed_has_as_much_of_every_shift(by: str) -> None:
    order = _one({"kind": "mixed", "batches": 20, "by": by})
    assert order.num_batches == 60
    assert set(Counter(name for name, _ in _pairs(order)).values()) == {80}
    kinds = [len(set(order.samples(i)[0])) for i in range(60)]
    if by == "batch":
        assert set(kinds) == {1}
        names = [order.shifts[order.samples(i)[0][0]].name for i in range(60)]
        runs = [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
        assert [segment.shift for segment in order.segments] == runs
    else:
        assert max(kinds) == 3
        assert [segment.name for segment in order.segments] == ["mixed"]


@given(alpha=st.floats(0.001, 1000), slots=st.integers(1, 30), seed=st.integers(0, 5))
def test_dirichlet_is_a_permutation_at_any_concentration(alpha: float, slots: int, seed: int) -> None:
    labels = np.arange(200) % 7
    settings = StreamSettings(classes={"dirichlet": alpha}, slots=slots)
    order = by_class(settings, labels, 20, np.random.default_rng(seed))
    assert sorted(order) == list(range(200))


def test_a_small_concentration_puts_few_classes_into_a_batch_and_a_large_one_all() -> None:
    def classes_per_batch(alpha: float, slots: int | None = None) -> float:
        settings = StreamSettings(classes={"dirichlet": alpha}, slots=slots)
        (order,) = draw(settings, [_shift("fog", 4000)], 40, 1)
        return float(np.mean([len(set(order.labels(i))) for i in range(order.num_batches)]))

    few, more, all_of_them = classes_per_batch(0.01), classes_per_batch(0.5), classes_per_batch(1000)
    assert few < 3 < more < 9 < all_of_them
    assert classes_per_batch(0.01, slots=1) > 9  # one slot is the whole segment, shuffled


def test_a_class_is_divided_as_dirichlet_says() -> None:
    """Per slot, the share of a class has the variance of the distribution: p (1 - p) / (slots * alpha + 1)."""
    slots, alpha, shares = 8, 0.5, []
    for seed in range(300):
        settings = StreamSettings(classes={"dirichlet": alpha}, slots=slots)
        labels = np.repeat([0, 1], 800)
        order = by_class(settings, labels, 10, np.random.default_rng(seed))
        drawn = np.random.default_rng(seed).dirichlet(np.full(slots, alpha))
        shares.append((labels[order[: len(order) // 10]] == 0).mean())
        counts = np.histogram(np.arange(800) + 0.5, np.concatenate([[0], np.cumsum(drawn)]) * 800)[0]
        assert np.abs(counts / 800 - drawn).max() <= 1 / 800 + 1e-9
    assert np.std(shares) > 0.2  # shuffled: about 0.04


def test_resets() -> None:
    continual = {"kind": "continual", "batches": 3}

    def resets(**more: Any) -> list[int]:
        order = _one({**continual, **more}, RAMP if more.get("kind") == "gradual" else SHIFTS)
        return [i for i in range(order.num_batches) if order.resets_at(i)]

    assert resets() == []
    assert resets(reset="shift") == [3, 6]
    assert resets(reset=4) == [4, 8]
    assert resets(kind="recurring", reset="shift", batches=2) == [2, 4, 6, 8, 10]
    assert resets(kind="gradual", reset="shift", batches=2) == [10]  # severities are one shift's
    assert resets(kind="mixed", reset="shift") == []
    order = _one({**continual, "reset": "shift"})
    assert [order.resets_between(*span) for span in [(0, 2), (2, 3), (1, 5), (3, 5), (-1, 2)]] == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_identity_tells_orders_apart() -> None:
    given: list[Any] = [
        "continual",
        {"kind": "continual", "reset": "shift"},
        {"kind": "continual", "batches": 3},
        {"kind": "continual", "classes": "sorted"},
        {"kind": "recurring", "visits": 3},
        "recurring",
        "mixed",
    ]
    identities = [str(_one(settings).identity()) for settings in given]
    assert len(set(identities)) == len(given)
    assert _one({"kind": "single", "batches": 3}, SHIFTS[:1]).identity() == {}
    assert _one({"kind": "single", "classes": "sorted"}, SHIFTS[:1]).identity() != {}


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ("continuous", "unknown kind of stream 'continuous'.*continual"),
        ({"kind": "continual", "batch": 3}, "unknown setting of a stream 'batch'.*batches"),
        ({"kind": "continual", "batches": 0}, "batches=0: must be a whole number from 1 to"),
        ({"kind": "continual", "batches": True}, "batches=True"),
        ({"kind": "continual", "reset": "always"}, "reset='always': must be never, shift"),
        ({"kind": "continual", "reset": 0}, "reset=0"),
        ({"classes": "random"}, "classes='random': must be shuffled, sorted or"),
        ({"classes": {"dirichlet": 0}}, "dirichlet=0: must be a number from"),
        ({"classes": {"dirichlet": float("nan")}}, "dirichlet=nan"),
        ({"kind": "mixed", "by": "pixel"}, "by='pixel'"),
        ({"kind": "recurring", "visits": 0}, "visits=0"),
        ({"kind": "m:f", "visits": 3}, "visits=3: m:f decides that itself"),
        (["continual"], "expected a kind"),
        (
            {"kind": "continual", "batches": 26},
            r"'(fog|frost|snow)' has 100 images, too few for 26 batches of 4",
        ),
    ],
)
def test_wrong_settings(settings: Any, match: str) -> None:
    with pytest.raises(TemporaError, match=match):
        _one(settings)


def test_shifts_of_other_classes_do_not_mix() -> None:
    other = array_shift("other", np.zeros((50, 2, 2), np.uint8), np.zeros(50, int), num_classes=11)
    with pytest.raises(TemporaError, match="'fog' and 'other' have others"):
        _one("continual", [SHIFTS[0], other])


OWN = """
def alternate(seed, shifts):
    names = list(shifts)
    batches = [[(names[i % 2], 4 * i + j + seed) for j in range(4)] for i in range(6)]
    return batches, [names[i % 2] for i in range(6)]

def short(seed, shifts):
    return [[("fog", 0)]], ["a"]

def stranger(seed, shifts):
    return [[("fig", 0)] * 4], ["a"]

def beyond(seed, shifts):
    return [[("fog", 100)] * 4], ["a"]

def uneven(seed, shifts):
    return [[("fog", 0)] * 4], []

def nothing(seed, shifts):
    return None

def flat(seed, shifts):
    return [[0, 1, 2, 3]], ["a"]
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_streams.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own")
def test_a_stream_of_one_s_own() -> None:
    order = _one("own_streams:alternate", seed=1)
    assert _pairs(order)[:8] == [*(("fog", 1 + j) for j in range(4)), *(("snow", 5 + j) for j in range(4))]
    assert [s.name for s in order.segments] == [
        "fog",
        "snow",
        "fog visit 2",
        "snow visit 2",
        "fog visit 3",
        "snow visit 3",
    ]
    assert (order.shift, order.stream) == ("own_streams:alternate", "own_streams:alternate")
    assert order.identity() != _one("own_streams:alternate", seed=2).identity()
    resetting = _one({"kind": "own_streams:alternate", "reset": "shift"}, seed=1)
    assert [resetting.resets_at(i) for i in range(6)] == [False, *[True] * 5]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("function", "match"),
    [
        ("short", r"batch 0 has 1 samples: expected 4"),
        ("stranger", "batch 0: unknown shift 'fig'"),
        ("beyond", "fog has no sample 100: expected 0 to 99"),
        ("uneven", "1 batches and 0 names"),
        ("nothing", "returned None; expected two lists"),
        ("flat", r"batch 0 holds 0: expected pairs"),
        ("absent", "unknown function of own_streams 'absent'"),
    ],
)
def test_mistakes_in_a_stream_of_one_s_own(function: str, match: str) -> None:
    with pytest.raises(TemporaError, match=match):
        _one(f"own_streams:{function}")


def _values(batch: torch.Tensor) -> list[int]:
    return ((batch[:, 0, 0, 0] * 0.25 + 0.5) * 255).round().int().tolist()


def test_a_stream_however_long_takes_the_memory_of_a_few_batches() -> None:
    """Drawn segment by segment, prepared ahead, dropped behind."""

    def peak(visits: int) -> int:
        order = _one({"kind": "recurring", "batches": 25, "visits": visits}, SHIFTS)
        stream = open_stream(order, GREY)
        tracemalloc.start()
        for i in range(order.num_batches):
            stream.batch(i)
            stream.labels(i)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)
    more_batches = 36 * 3 * 25
    assert peak(40) - peak(4) < 16 * more_batches  # where segments begin, and nothing of what is in them
