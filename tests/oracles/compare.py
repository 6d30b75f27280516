"""Follow a method and its oracle along a stream and compare everything after every batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from oracles.plain import Oracle

TOLERANCE = 1e-8


def by_name(tensors: Iterable[tuple[str, Tensor]], wanted: Iterable[str]) -> dict[str, Tensor]:
    """Return the tensors under the names of the bare network, even when the method has wrapped it."""
    given = dict(tensors)
    found = {}
    for name in wanted:
        match = min((n for n in given if n == name or n.endswith(f".{name}")), key=len)
        found[name] = given[match]
    return found


def assert_close(given: Tensor, expected: Tensor, what: str) -> None:
    assert given.shape == expected.shape, what
    difference = float((given.detach() - expected.detach()).abs().max())
    assert difference <= TOLERANCE, f"{what} differ by {difference:.3g}"


def assert_same_state(method: Any, oracle: Oracle, when: str) -> None:
    expected = oracle.parameters() | oracle.statistics()
    tensors = [*method.model.named_parameters(), *method.model.named_buffers()]
    given = by_name(tensors, expected)
    for name, tensor in expected.items():
        assert_close(given[name], tensor, f"{when}: {name}")
    for name, tensor in oracle.extra_state().items():
        assert_close(getattr(method, name).reshape(tensor.shape), tensor, f"{when}: {name}")
    others = oracle.others() if hasattr(oracle, "others") else {}
    for name, tensor in by_name(method.changing.items(), others).items():
        assert_close(tensor, others[name], f"{when}: {name}")


def follow(
    method: Any, oracle: Oracle, batches: Sequence[Tensor], freeze_after: int | None = None
) -> list[str]:
    """Run both; from batch ``freeze_after`` on both are frozen. Returns what adapt() said each time."""
    assert_same_state(method, oracle, "before the first batch")
    actions = []
    for index, x in enumerate(batches):
        if index == freeze_after:
            method.freeze()
            oracle.freeze()
        assert_close(method.predict(x), oracle.predict(x), f"batch {index}: scores")
        expected = oracle.adapt()
        actions.append(method.adapt())
        assert actions[-1] == expected, f"batch {index}"
        assert_same_state(method, oracle, f"after batch {index}")
    assert all(torch.isfinite(p).all() for p in oracle.parameters().values())
    return actions
