"""Answering apart from learning, of every kind of method."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tempora_tta.methods import Moment, create
from tempora_tta.models import Classifier

KINDS = ["adabn", "tent", "shot_im", "rotta", "settle"]


def frames_of(batches: list[Tensor], count: int) -> list[Tensor]:
    return list(torch.cat(batches)[:count].split(1))


@pytest.mark.parametrize("name", KINDS)
def test_frames_are_answered_frozen_and_learned_from_as_one_batch(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    """Compared with the same method that gets the batches themselves, and is frozen whenever a frame is answered."""
    more = {"frozen_stats": "averaged"} if name in ("adabn", "tent", "shot_im") else {}
    apart, plain = create(name, resnet, at_once=8), create(name, resnet, **more)
    for x in batches[:3]:
        plain.freeze()
        for place, frame in enumerate(x.split(1)):
            assert torch.equal(apart.predict(frame), plain.predict(frame))
            assert (apart.adapt() == "collected") == (place < 7)
        plain.unfreeze()
        plain.predict(x)
        plain.adapt()


@pytest.mark.parametrize("name", KINDS)
def test_it_is_saved_and_reset_with_what_it_has_collected(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    def through(frames: list[Tensor]) -> Tensor:
        for frame in frames:
            scores = method.predict(frame)
            method.adapt()
        return scores

    frames = frames_of(batches, 24)
    method = create(name, resnet, at_once=8)
    first = through(frames[:12])
    held = method.snapshot()
    expected = through(frames[12:])
    method.restore(held)
    assert torch.equal(through(frames[12:]), expected)
    method.reset()
    assert torch.equal(through(frames[:12]), first)
    method.freeze()
    frozen = method.predict(frames[0])
    through(frames)
    assert torch.equal(method.predict(frames[0]), frozen)


def test_learning_is_from_so_many_and_the_others_wait(resnet: Classifier, batches: list[Tensor]) -> None:
    apart, plain = create("tent", resnet, at_once=8), create("tent", resnet, frozen_stats="averaged")
    images = torch.cat(batches[:2])
    for group in images.split((5, 7, 4)):
        apart.predict(group)
        apart.adapt()
    for x in batches[:2]:
        plain.predict(x)
        plain.adapt()
    plain.freeze()
    assert torch.equal(apart.predict(batches[2]), plain.predict(batches[2]))


@pytest.mark.parametrize("name", ["standard", "lame"])
def test_nothing_is_spent_on_learning_that_changes_no_answer(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    method = create(name, resnet, at_once=8)
    method.predict(batches[0])
    assert method.adapt() == "collected"


def test_a_method_that_stops_answers_on(resnet: Classifier, batches: list[Tensor]) -> None:
    method = create("tent", resnet, at_once=8, stop_after=2)
    actions = [method.adapt() for x in batches[:4] if len(method.predict(x))]
    assert actions == ["step", "step", "none", "none"]


def test_pace_learns_from_images_that_come_alone_and_from_larger_batches_as_ever(
    resnet: Classifier, batches: list[Tensor]
) -> None:
    method = create("pace", resnet)
    moment = Moment(now_ms=0.0, arrived_ms=0.0)
    frame, *_ = frames_of(batches, 1)
    for x, action in ((frame, "collected"), (batches[0], "compared")):
        method.predict(x, moment)
        assert method.adapt(moment) == action
