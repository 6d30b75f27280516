"""The runtime `onnx` answers as eager does, keeps state where the method does, and takes no method that it cannot."""

from __future__ import annotations

import pytest
import torch

from tempora_tta import TemporaError, methods, models
from tempora_tta.engine.runtime import Runtime


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(20, 1, 28, 28, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["neo", "adabn"])
def test_it_learns_freezes_and_resets_as_eager_does(name: str, x: torch.Tensor) -> None:
    model = models.load("fashion_resnet")
    eager, onnx = methods.create(name, model), Runtime.parse("onnx").attach(methods.create(name, model))
    for number, batch in enumerate(x.split(4)):
        if number == 3:
            eager.freeze()
            onnx.freeze()
        torch.testing.assert_close(onnx.predict(batch), eager.predict(batch), rtol=1e-4, atol=1e-4)
    first = onnx.snapshot()
    onnx.reset()
    again = onnx.predict(x[:4])
    onnx.restore(first)
    torch.testing.assert_close(onnx.predict(x[:4]), eager.predict(x[:4]), rtol=1e-4, atol=1e-4)
    onnx.reset()
    assert torch.equal(onnx.predict(x[:4]), again)


def test_what_it_cannot_run_is_refused_with_a_remedy() -> None:
    model = models.load("fashion_resnet")
    for name in ("tent", "settle"):
        with pytest.raises(TemporaError, match="eager"):
            Runtime.parse("onnx").attach(methods.create(name, model))
    with pytest.raises(TemporaError, match="leave the others out"):
        Runtime.parse("onnx+amp")
