"""Pace: what it does with its time, and that it does no harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tempora_tta import data, models
from tempora_tta.data import open_stream
from tempora_tta.methods import Method, Moment, create
from tempora_tta.methods.functions import score
from tempora_tta.methods.pace import GAIN_OF_LOOK, Pace, cost_of_delay
from tempora_tta.models import Classifier

LEISURE = Moment(now_ms=0.0, arrived_ms=0.0)
WAITED_FOR = Moment(now_ms=0.0, arrived_ms=0.0, baseline_ms=20.0, threshold_ms=25.0)
CAMERA = Moment(now_ms=0.0, arrived_ms=0.0, baseline_ms=20.0, interval_ms=40.0, slack_ms=40.0)


def images(network: Classifier, shift: str, batches: int, size: int = 64) -> list[Tensor]:
    opened = data.open("fashion", shifts=[shift])[shift]
    stream = open_stream(opened, network.preprocessing, batch_size=size, limit_batches=batches, workers=0)
    return [stream.batch(index) for index in range(batches)]


def went_through(method: Method, batches: list[Tensor], moment: Moment) -> list[tuple[str, str]]:
    """What it did with each batch: mode and action."""
    did = []
    for x in batches:
        method.predict(x, moment)  # type: ignore[call-arg]
        assert method.work is not None
        mode = method.work[0]
        did.append((mode, method.adapt(moment)))  # type: ignore[call-arg]
    return did


@pytest.mark.parametrize(
    ("moment", "busy_ms", "lost"),
    [
        (LEISURE, 1e9, 0.0),  # nobody waits
        (replace(WAITED_FOR, threshold_ms=None), 1e9, 0.0),  # a stream that waits, and nothing decays
        (WAITED_FOR, 5.0, 0.5),  # the next response is worth half
        (replace(WAITED_FOR, deadline_ms=24.0, threshold_ms=None), 5.0, 1.0),
        (CAMERA, 19.0, 0.0),  # done before the next arrival
        (CAMERA, 59.0, 0.0),  # one waits meanwhile, and its delay is made good
        (CAMERA, 61.0, 1.0),  # the second pushes it out
        (replace(CAMERA, deadline_ms=30.0), 31.0, 1.0),  # too late for the one that waits
    ],
)
def test_the_price_of_being_busy_is_what_the_users_lose(moment: Moment, busy_ms: float, lost: float) -> None:
    assert cost_of_delay(moment, 0.0, busy_ms) == pytest.approx(lost)


def test_work_after_the_prediction_is_out_delays_only_the_next() -> None:
    """A camera at full speed: a short look makes the next one wait, and nobody is lost."""
    full = Moment(now_ms=20.0, arrived_ms=0.0, baseline_ms=20.6, interval_ms=20.6, slack_ms=0.6)
    assert cost_of_delay(full, 0.0, 3.0, plain_ms=20.0, emitted=True) == 0.0
    assert cost_of_delay(full, 0.0, 22.0, plain_ms=20.0, emitted=True) == pytest.approx(1.0)


def test_near_a_deadline_every_delay_costs() -> None:
    """A camera at full speed that has fallen behind: nothing makes good for a look, and what comes is late sooner."""
    behind = Moment(
        now_ms=25.0,
        arrived_ms=0.0,
        queued=1,
        baseline_ms=20.6,
        interval_ms=20.6,
        slack_ms=16.2,
        deadline_ms=30.9,
    )
    assert cost_of_delay(behind, 0.0, 0.5, plain_ms=20.0, emitted=True) > 0.01
    alone = replace(behind, queued=0, now_ms=0.0, slack_ms=82.4, interval_ms=82.4)
    assert cost_of_delay(alone, 4.0, 40.0, plain_ms=20.0) < 0.03, "a fifth later than usual, and then a pause"
    far = cost_of_delay(replace(behind, deadline_ms=2000.0), 0.0, 0.5, plain_ms=20.0, emitted=True)
    assert far < GAIN_OF_LOOK, "a far deadline is no reason not to look"
    assert cost_of_delay(replace(behind, deadline_ms=None), 0.0, 0.5, plain_ms=20.0, emitted=True) < 1e-6
    at_leisure = replace(behind, queued=0, interval_ms=41.2)
    assert cost_of_delay(at_leisure, 0.0, 0.5, plain_ms=20.0, emitted=True) == 0.0
    assert cost_of_delay(at_leisure, 0.0, 60.0, plain_ms=20.0, emitted=True) > 1.0, (
        "what is certainly late is lost"
    )


def test_at_full_load_a_delay_stays_and_counts_against_the_deadline() -> None:
    """Eleven milliseconds are so much of the room, 40, that a deadline of three times lambda leaves."""
    full = Moment(0.0, 0.0, baseline_ms=20.0, interval_ms=20.6, slack_ms=20.6, deadline_ms=60.0, queue=1)
    assert cost_of_delay(full, 0.0, 11.0) == pytest.approx(11 / 40, abs=0.05)
    assert cost_of_delay(replace(full, deadline_ms=None), 0.0, 11.0) == 0.0, "nobody is lost"
    assert cost_of_delay(replace(full, interval_ms=40.0, slack_ms=40.0), 0.0, 11.0) == 0.0


def test_a_long_queue_keeps_what_a_short_one_loses() -> None:
    """Batches come back to back, and the pipeline is busy for two and a half of them."""
    burst = Moment(0.0, 0.0, baseline_ms=20.0, interval_ms=80.0)
    lost = {queue: cost_of_delay(replace(burst, queue=queue), 0.0, 50.0) for queue in (1, 4, 16)}
    assert lost[1] >= 2 > lost[4] == lost[16] == 0.0


def test_random_arrivals_are_expected_to_come_as_they_came() -> None:
    """Ten milliseconds more than a plain prediction's 20 delay each of eight that come back to back by as much, only
    the first where a pause follows it, and nobody where there are pauses alone."""
    moment = Moment(0.0, 0.0, baseline_ms=20.0, threshold_ms=30.0, interval_ms=80.0)
    late = 0.5  # of a response's worth, ten milliseconds after lambda
    assert cost_of_delay(moment, 0.0, 10.0) == pytest.approx(8 * late), "nothing is known of them"
    assert cost_of_delay(moment, 0.0, 10.0, gaps_ms=[20.0] * 8) == pytest.approx(8 * late)
    assert cost_of_delay(moment, 0.0, 10.0, gaps_ms=[80.0] * 8) == 0.0
    assert cost_of_delay(moment, 0.0, 10.0, gaps_ms=[20.0, 140.0]) == pytest.approx(late), "until the pause"
    waited = replace(moment, now_ms=70.0)
    assert cost_of_delay(waited, 0.0, 10.0, gaps_ms=[80.0]) > 0.0, "most of the pause is over"


def test_pace_notes_gaps_where_arrivals_are_random_and_only_there() -> None:
    network = models.load("fashion_resnet")
    pace: Any = create("pace", network)
    x = images(network, "contrast", 1)[0]
    for at_ms in (0.0, 20.0, 45.0):
        pace.predict(x, Moment(at_ms, at_ms, baseline_ms=20.0, interval_ms=80.0))
    assert pace.gaps_ms == [20.0, 25.0]
    pace.predict(x, Moment(80.0, 80.0, baseline_ms=20.0, interval_ms=80.0, slack_ms=80.0))
    assert pace.gaps_ms == [20.0, 25.0]
    pace.reset()
    assert pace.gaps_ms == []


@pytest.mark.parametrize("look_ms", [1.0, 4.0])
def test_a_shift_is_found_also_where_looking_is_dear(look_ms: float) -> None:
    network = models.load("fashion_vit")
    method = create("pace", network)
    hurry = replace(WAITED_FOR, cost_ms={"looked": look_ms}, mode_cost_ms={"settled": 19.5, "settling": 23.0})
    did = went_through(method, images(network, "contrast", 3), hurry)
    assert did[0] == ("settled", "looked")
    assert did[1][0] == "settling"


def test_the_score_is_high_where_predictions_are_certain_and_differ() -> None:
    certain = 20 * torch.eye(4)
    assert float(score(certain)) == pytest.approx(1.0, abs=1e-4)
    assert float(score(certain[:2])) == pytest.approx(1.0, abs=1e-4)  # two samples cannot show four classes
    assert float(score(certain[:1].expand(4, 4))) == pytest.approx(0.0, abs=1e-4)
    assert float(score(torch.zeros(4, 4))) == pytest.approx(0.0, abs=1e-6)


def test_on_images_that_the_source_explains_it_is_standard_from_the_second_batch_on() -> None:
    network = models.load("fashion_resnet")
    batches = images(network, "clean", 3)
    method = create("pace", network)
    assert went_through(method, batches, LEISURE) == [
        ("settling", "compared"),
        ("settled", "looked"),
        ("settled", "none"),
    ]
    assert torch.equal(method.predict(batches[1], LEISURE), create("standard", network).predict(batches[1]))


@pytest.mark.parametrize("name", ["fashion_resnet", "fashion_vit"])
def test_under_a_shift_it_learns_at_leisure_and_only_settles_in_a_hurry(name: str) -> None:
    network = models.load(name)
    batches = images(network, "contrast", 3)
    method = create("pace", network)
    at_leisure = went_through(method, batches, LEISURE)
    assert at_leisure == [("settling", "compared"), ("learning", "step"), ("settled", "looked")]
    method.reset()
    in_a_hurry = went_through(method, batches, WAITED_FOR)
    assert in_a_hurry == [("settled", "looked"), ("settling", "looked"), ("settled", "none")]


class Doubtful(Pace):
    """As right as it is, and four times less certain when it settles: so are networks of many classes."""

    name = "doubtful"

    def settle_on(self, x: Tensor) -> Tensor:
        return super().settle_on(x) / 4


class Blind(Pace):
    """Settling leaves it one answer to everything."""

    name = "blind"

    def settle_on(self, x: Tensor) -> Tensor:
        return super().settle_on(x).mean(dim=0, keepdim=True).expand(len(x), -1)


@pytest.mark.parametrize("moment", [LEISURE, WAITED_FOR])
def test_that_settling_makes_it_doubt_is_not_held_against_it(moment: Moment) -> None:
    network = models.load("fashion_resnet")
    method = create(Doubtful, network, learn=False)
    went_through(method, images(network, "motion_blur", 2), moment)
    assert method.settled_on >= 64


@pytest.mark.parametrize("moment", [LEISURE, WAITED_FOR])
def test_where_settling_explains_less_the_source_stays(moment: Moment) -> None:
    network = models.load("fashion_resnet")
    batches = images(network, "pixelate", 3)
    method = create(Blind, network, learn=False)
    did = went_through(method, batches, moment)
    assert did[:2] == (
        [("settling", "compared"), ("settled", "looked")]
        if moment is LEISURE
        else [("settled", "looked"), ("settling", "back")]
    )
    assert did[2][0] == "settled"
    assert torch.equal(method.predict(batches[2], moment), create("standard", network).predict(batches[2]))


def test_where_the_source_stays_it_learns_with_its_statistics() -> None:
    """Of a network that is uncertain of images it knows."""
    network = models.load("fashion_resnet")
    with torch.no_grad():
        network.network.fc.weight /= 4
        network.network.fc.bias /= 4
    batches = images(network, "clean", 2)
    plain = create("standard", network).predict(batches[1])
    method = create("pace", network)
    assert went_through(method, batches[:1], LEISURE) == [("settling", "compared")]
    assert torch.equal(method.predict(batches[1], LEISURE), plain)
    assert method.work == ("learning", 0.0)
    assert method.adapt(LEISURE) == "step"


@pytest.mark.parametrize("name", ["fashion_resnet", "fashion_vit"])
def test_where_every_delay_costs_clean_images_are_only_looked_at_once(name: str) -> None:
    network = models.load(name)
    batches = images(network, "clean", 6)
    method = create("pace", network)
    assert went_through(method, batches, WAITED_FOR) == [("settled", "looked")] + [("settled", "none")] * 5
    assert torch.equal(
        method.predict(batches[1], WAITED_FOR), create("standard", network).predict(batches[1])
    )


def test_it_spends_no_more_than_the_budget_has(resnet: Classifier) -> None:
    batches = images(resnet, "contrast", 2)
    costs = {"cost_ms": {"step": 30.0}, "mode_cost_ms": {"learning": 22.0, "settling": 20.0}}
    rich = Moment(now_ms=0.0, arrived_ms=0.0, baseline_ms=20.0, budget_left_ms=32.0, **costs)
    for budget_left_ms, learns in ((32.0, True), (31.0, False)):
        method = create("pace", resnet)
        (_, second) = went_through(method, batches, replace(rich, budget_left_ms=budget_left_ms))
        assert (second[0] == "learning") is learns


def test_comparing_never_costs_the_batch_that_it_compares(resnet: Classifier) -> None:
    """Under a strict budget the batch that overruns it is undone, and with it what was settled."""
    (x,) = images(resnet, "contrast", 1)
    cases = ((23.0, 22.0, "compared"), (23.0, 21.0, "looked"), (17.0, 9.0, "looked"))
    for (
        settling_ms,
        budget_left_ms,
        action,
    ) in cases:  # 4 x 3 ms of settling come first; time saved is no credit
        costs = {"cost_ms": {"compared": 10.0}, "mode_cost_ms": {"settling": settling_ms}}
        moment = Moment(0.0, 0.0, baseline_ms=20.0, budget_left_ms=budget_left_ms, **costs)
        assert went_through(create("pace", resnet), [x], moment) == [("settling", action)]


def test_a_look_never_costs_the_batch_that_settled(resnet: Classifier) -> None:
    """A budget that pays for settling on one batch, but not for looking at it as well."""
    (x,) = images(resnet, "contrast", 1)
    costs = {"cost_ms": {"compared": 50.0, "looked": 9.0}, "mode_cost_ms": {"settling": 31.0}}
    for budget_left_ms, action in ((19.0, "settling"), (20.0, "looked")):
        moment = Moment(0.0, 0.0, baseline_ms=20.0, budget_left_ms=budget_left_ms, **costs)
        assert went_through(create("pace", resnet), [x], moment) == [("settling", action)]


def test_a_step_would_mend_its_part_of_what_lacks_if_the_score_were_linear() -> None:
    network = models.load("fashion_resnet")
    method = create("pace", network, step=0.001)
    first, second = images(network, "contrast", 2)
    went_through(method, [first], LEISURE)
    before = [tensor.detach().clone() for tensor in method.trainable.values()]
    scores = method.predict(second, LEISURE)
    gradients = torch.autograd.grad(
        score(method.pending[2]), list(method.trainable.values()), retain_graph=True
    )
    assert method.adapt(LEISURE) == "step"
    mended = sum(
        float((gradient * (after.detach() - old)).sum())
        for gradient, after, old in zip(gradients, method.trainable.values(), before, strict=True)
    )
    assert mended == pytest.approx(0.001 * (method.difficulty - 0.2), rel=1e-3)
    assert 0.2 < 1 - float(score(scores)) < 1


def test_no_step_is_longer_than_the_longest() -> None:
    network = models.load("fashion_resnet")
    method = create("pace", network, step=100.0, longest=0.001)
    first, second = images(network, "contrast", 2)
    went_through(method, [first], LEISURE)
    before = torch.cat([tensor.detach().flatten() for tensor in method.trainable.values()]).double()
    went_through(method, [second], LEISURE)
    after = torch.cat([tensor.detach().flatten() for tensor in method.trainable.values()]).double()
    assert float((after - before).norm() / before.norm()) == pytest.approx(0.001, rel=1e-3)


def test_it_learns_nothing_from_batches_of_one_class_each() -> None:
    network = models.load("fashion_resnet")
    opened = open_stream(
        data.open("fashion", shifts=["contrast"])["contrast"],
        network.preprocessing,
        limit_batches=12,
        workers=0,
    )
    pictures = torch.cat([opened.batch(index) for index in range(12)])
    labels = torch.cat([torch.from_numpy(opened.labels(index)) for index in range(12)])
    in_order = list(pictures[labels.argsort(stable=True)].split(64))
    taken = [action for _, action in went_through(create("pace", network), in_order, LEISURE)]
    assert taken.count("step") <= 1
    ungated = [action for _, action in went_through(create("pace", network, gate=False), in_order, LEISURE)]
    assert ungated.count("step") > 6


def test_frames_too_few_for_statistics_are_answered_alone_and_learned_from_together() -> None:
    network = models.load("fashion_resnet")
    frames = images(network, "contrast", 48, size=4)
    method = create("pace", network)
    acts = []
    for x in frames:
        method.predict(x, LEISURE)
        acts.append(method.adapt(LEISURE))
    assert [place for place, action in enumerate(acts) if action != "collected"] == [15, 31, 47]
    together = create("pace", network)
    expected = went_through(
        together, [torch.cat(frames[first : first + 16]) for first in (0, 16, 32)], LEISURE
    )
    assert [acts[15], acts[31], acts[47]] == [action for _, action in expected]
    for ours, theirs in zip(method.changing_tensors(), together.changing_tensors(), strict=True):
        assert torch.equal(ours, theirs)


def test_it_goes_back_to_the_settled_state_when_the_score_falls_and_begins_anew_when_that_falls_too() -> None:
    network = models.load("fashion_resnet")
    method = create("pace", network, images=64)
    x = images(network, "contrast", 1)[0]
    went_through(method, [x, *[x + 0.01 * number for number in range(8)]], LEISURE)
    assert method.settled is not None
    settled = [tensor.clone() for tensor in method.settled]
    one_image = x[:1].expand(64, -1, -1, -1)
    actions = [action for _, action in went_through(method, [one_image] * 2, LEISURE)]
    assert actions[-1] == "back"
    for tensor, kept in zip(method.changing_tensors(), settled, strict=True):
        assert torch.equal(tensor, kept)


def test_it_begins_anew_when_the_shift_changes() -> None:
    network = models.load("fashion_resnet")
    method = create("pace", network, images=64, learn=False)
    contrast, brightness = images(network, "contrast", 1)[0], images(network, "brightness", 1)[0]
    went_through(method, [contrast, *[contrast + 0.001 * number for number in range(11)]], LEISURE)
    one_image = brightness[:1].expand(64, -1, -1, -1)
    actions = [action for _, action in went_through(method, [one_image] * 4, LEISURE)]
    assert actions == ["none"] * 3 + ["alarm"]
    fresh = create("pace", network, images=64, learn=False)
    assert torch.equal(method.predict(brightness, LEISURE), fresh.predict(brightness, LEISURE))


def test_a_shift_after_a_few_clean_batches_is_found_within_four() -> None:
    """Also before enough scores are known to tell what is usual: the source stayed, and its scores fall."""
    network = models.load("fashion_resnet")
    method = create("pace", network)
    clean = went_through(method, images(network, "clean", 3), LEISURE)
    assert "alarm" not in [action for _, action in clean]
    shifted = went_through(method, images(network, "contrast", 8), LEISURE)
    found = [action for _, action in shifted].index("alarm")
    assert found <= 4
    assert shifted[found + 1][0] == "settling"


def test_what_is_settled_takes_nothing_but_a_forward(resnet: Classifier) -> None:
    """No layer normalises with the batch, no graph is kept: what Standard does."""
    method = create("pace", resnet)
    batches = images(resnet, "contrast", 2)
    went_through(method, batches, WAITED_FOR)
    scores = method.predict(batches[0], WAITED_FOR)
    assert not scores.requires_grad
    alone = method.predict(batches[0][:8], WAITED_FOR)
    assert torch.allclose(alone, scores[:8], atol=1e-5), "what else is in a batch changes nothing"
