"""Answering apart from learning, of every kind of method."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tempora_tta import TemporaError
from tempora_tta.methods import create
from tempora_tta.models import Classifier

KINDS = ["adabn", "tent", "shot_im", "rotta", "settle"]


def frames_of(batches: list[Tensor], count: int) -> list[Tensor]:
    return list(torch.cat(batches)[:count].split(1))


@pytest.mark.parametrize("name", KINDS)
def test_frames_are_answered_frozen_and_learned_from_as_one_batch(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    """Beside the same method that gets the batches themselves, and is frozen whenever a frame is answered."""
    more = {"frozen_stats": "averaged"} if name in ("adabn", "tent", "shot_im") else {}
    apart, beside = create(name, resnet, collect=8), create(name, resnet, **more)
    for x in batches[:3]:
        beside.freeze()
        for place, frame in enumerate(x.split(1)):
            assert torch.equal(apart.predict(frame), beside.predict(frame))
            assert (apart.adapt() == "collected") == (place < 7)
        beside.unfreeze()
        beside.predict(x)
        beside.adapt()


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
    method = create(name, resnet, collect=8)
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


def test_batches_that_are_large_enough_go_through_as_ever(resnet: Classifier, batches: list[Tensor]) -> None:
    apart, usual = create("tent", resnet, collect=8), create("tent", resnet, frozen_stats="averaged")
    for x in batches:
        assert torch.equal(apart.predict(x), usual.predict(x))
        assert apart.adapt() == usual.adapt() == "step"


def test_two_rules_of_when_it_learns_are_refused(resnet: Classifier) -> None:
    with pytest.raises(TemporaError, match="collect=8 with every"):
        create("tent", resnet, collect=8, every=2)
