from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tempora_tta.data import Stream, from_batches
from tempora_tta.errors import TemporaError, TemporaWarning


def _batch(size: int = 4, fill: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((size, 3, 2, 2), fill), torch.arange(size)


def test_batches_are_served_as_given() -> None:
    source = from_batches("mine", [_batch(fill=1.0), _batch(fill=2.0)], num_classes=10)
    assert isinstance(source, Stream)
    assert (source.num_batches, source.batch_size, source.dropped) == (2, 4, 0)
    assert source.batch(1).unique().tolist() == [2.0]
    assert source.labels(1).tolist() == [0, 1, 2, 3]
    assert source.labels(1).dtype == np.int64
    with pytest.raises(IndexError):
        source.batch(2)


def test_a_smaller_last_batch_is_dropped_counted_and_said() -> None:
    with pytest.warns(
        TemporaWarning, match="last of the batches of 'mine' has 3 images instead of 4 and is left out"
    ):
        source = from_batches("mine", [_batch(), _batch(), _batch(3)])
    assert (source.num_batches, source.dropped, len(source.order.shifts[0])) == (2, 3, 8)


def test_the_fingerprint_follows_the_contents() -> None:
    one, same, other = (from_batches("mine", [_batch(fill=fill)]).fingerprint for fill in (1.0, 1.0, 2.0))
    assert one == same != other


X, Y = _batch()


@pytest.mark.parametrize(
    ("batches", "match"),
    [
        ([], "list is empty"),
        ([X], "expected a pair"),
        ([(X, Y, Y)], "expected a pair"),
        ([(X.double(), Y)], "float64"),
        ([(X.to(torch.uint8), Y)], "uint8"),
        ([(X, Y.float())], "one integer label per image"),
        ([(X, Y.bool())], "one integer label per image"),
        ([(X, Y[:2])], "one integer label per image"),
        ([(X, Y[:, None])], "one integer label per image"),
        ([(X * math.nan, Y)], "NaN"),
        ([(X, Y), (X / 0, Y)], "batch 1 of 'mine': x holds NaN"),
        ([(X, Y - 1)], "labels range from -1 to 2: expected 0 to 9"),
        ([(X, Y + 7)], "labels range from 7 to 10: expected 0 to 9"),
        ([(X[:2], Y[:2]), (X, Y)], "batch 1 of 'mine' has shape"),
        ([(X, Y), (X[:2], Y[:2]), (X, Y)], "batch 1 of 'mine' has shape"),
        ([(X, Y), (X[:, :1], Y)], "batch 1 of 'mine' has shape"),
        ([(X[:0], Y[:0])], "is empty"),
    ],
)
def test_what_is_refused(batches: list, match: str) -> None:
    with pytest.raises(TemporaError, match=match):
        from_batches("mine", batches, num_classes=10)


def test_anything_that_can_be_gone_through_once_will_do() -> None:
    given = [(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)) for _ in range(3)]
    assert from_batches("fog", iter(given)).num_batches == 3


STRANGE = {
    "nested": torch.nested.nested_tensor([torch.ones(3, 2, 2)] * 2),
    "mkldnn": torch.ones(4, 3, 2, 2).to_mkldnn(),
    "sparse": torch.ones(4, 3, 2, 2).to_sparse(),
    "meta": torch.ones(4, 3, 2, 2, device="meta"),
    "float8": torch.ones(4, 3, 2, 2).to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("x", STRANGE.values(), ids=STRANGE.keys())
def test_tensors_that_no_network_takes_are_refused(x: torch.Tensor) -> None:
    with pytest.raises(TemporaError, match="float32 images"):
        from_batches("mine", [(x, Y)])


@pytest.mark.parametrize(
    "y",
    [
        torch.nested.nested_tensor([Y]),
        Y.to_sparse(),
        Y.to("meta"),
        Y.to(torch.uint64),
        np.array([2**63 + 1] * 4, dtype=np.uint64),
    ],
    ids=["nested", "sparse", "meta", "uint64", "numpy uint64"],
)
def test_labels_of_such_tensors_are_refused(y: Any) -> None:
    with pytest.raises(TemporaError, match="one integer label per image"):
        from_batches("mine", [(X, y)])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.int16])
def test_labels_of_any_type_that_int64_holds_will_do(dtype: torch.dtype) -> None:
    assert from_batches("mine", [(X, Y.to(dtype))]).labels(0).tolist() == [0, 1, 2, 3]


def test_one_buffer_given_for_several_batches_is_refused() -> None:
    """A loader that fills its buffer again hands out the last batch as often as there are batches."""
    buffer = X.clone()
    for batches in ([(buffer, Y)] * 3, [(buffer[:], Y), (buffer.numpy(), Y)]):
        with pytest.raises(TemporaError, match="same memory"):
            from_batches("mine", batches)
    parts = torch.zeros(8, 3, 2, 2).split(4)
    assert from_batches("mine", [(part, Y) for part in parts]).num_batches == 2
