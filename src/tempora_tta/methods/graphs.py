"""A step of a method as a graph for ONNX: images and state go in, scores and state come out."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tempora_tta.errors import TemporaError
from tempora_tta.methods.contract import Method
from tempora_tta.methods.custom_norm import update_stats
from tempora_tta.methods.settle import PooledNorm, Settle

TOLERANCE = 1e-3
"""Largest difference of two scores, as a share of the largest score."""
FREEZE = "freeze it (--frozen-after 20), or take standard, neo, adabn or settle"


def need_onnx(what: str) -> None:
    """Refuse where the packages of the extra `onnx` are not installed."""
    missing = [
        name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise TemporaError(f"{what} needs {', '.join(missing)}: pip install 'tempora-tta[onnx]'")


def state_names(method: Method) -> list[str]:
    """Buffers of the network and attributes of the method that a batch changes, or the reason not to export it."""
    buffers = [*(method.statistics.buffers() if method.statistics else ()), *method.changing]
    if isinstance(method, Settle):
        if method.settings.alarm:
            raise TemporaError(
                "settle: its alarm looks at many batches together, which is no graph: --set alarm=0 exports it "
                "without, to settle once, on the images after it starts"
            )
        return ["settled_on", "centre", *buffers]
    if method.trainable or method.time_aware or type(method).adapt is not Method.adapt:
        raise TemporaError(
            f"{method.name}: only a method that learns while it predicts is exported: {FREEZE}"
        )
    return [*method.state_names(), *buffers]


class Graph(nn.Module):
    """One step of a method as a function of images and state, for the exporter."""

    def __init__(self, method: Method, names: Sequence[str], changes: bool = True) -> None:
        super().__init__()
        self.method, self.model, self.names, self.changes = method, method.model, list(names), changes

    def forward(self, images: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad(), self._state(state), WrittenOut():
            return self._scores(images), *(self.now() if self.changes else ())

    def _scores(self, images: Tensor) -> Tensor:
        if isinstance(self.method, Settle) and not self.method.frozen:
            return self.method.settle_on(images)
        return self.method.predict(images)

    def first(self, images: Tensor) -> dict[str, Tensor]:
        """The state before the first batch, in the shapes that it has after it."""
        before = [torch.as_tensor(value, dtype=_type_of(value)).clone() for value in self.now()]
        _, *after = self(images, *before)
        shaped = [old.broadcast_to(new.shape).clone() for old, new in zip(before, after, strict=True)]
        return dict(zip(self.names, shaped, strict=True))

    def now(self) -> list[Any]:
        return [place[key] for place, key in self.places()]

    def places(self) -> Iterator[tuple[dict[str, Any], str]]:
        for name in self.names:
            layer, _, key = name.rpartition(".")
            yield (self.model.get_submodule(layer)._buffers if layer else vars(self.method)), key

    @contextmanager
    def _state(self, state: Sequence[Tensor]) -> Iterator[None]:
        """Inside, the method has this state; what it had is put back."""
        pooled = [vars(layer) for layer in self.model.modules() if isinstance(layer, PooledNorm)]
        places = [*self.places(), *((place, "share") for place in pooled)]
        before = [place[key] for place, key in places]
        given = [*state, *(place["share"] for place in pooled)]
        try:
            for (place, key), value in zip(places, given, strict=True):
                place[key] = value.clone()
            yield
        finally:
            for (place, key), value in zip(places, before, strict=True):
                place[key] = value


def _type_of(value: Any) -> torch.dtype:
    return value.dtype if isinstance(value, Tensor) else torch.float32


class WrittenOut(TorchFunctionMode):
    """Inside, BatchNorm that follows the batch is written out: the exporter takes it for BatchNorm that does not."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.batch_norm:
            return _batch_norm(*args, **kwargs or {})
        if func is torch.batch_norm:
            x, weight, bias, mean, var, *how, _ = args
            return _batch_norm(x, mean, var, weight, bias, *how)
        if func is update_stats:
            return _statistics(args[0])
        return func(*args, **kwargs or {})


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    var, mean = torch.var_mean(x, dim=[0, *range(2, x.ndim)], correction=0)
    return mean, var


def _batch_norm(
    x: Tensor,
    mean: Tensor | None,
    var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """functional.batch_norm, in which a batch's statistics are computed, tracked and used one after the other."""
    if training:
        own_mean, own_var = _statistics(x)
        if mean is not None and var is not None:
            count = x.numel() // x.shape[1]
            mean.lerp_(own_mean, momentum)
            var.lerp_(own_var * (count / max(1, count - 1)), momentum)
        mean, var = own_mean, own_var
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


@contextmanager
def made_of(method: Method) -> Iterator[None]:
    """Inside, what keeps PyTorch from making a graph of the method is the reason not to export it."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except Exception as error:
        reason = next(iter(str(error.__cause__ or error).splitlines()), type(error).__name__)
        raise TemporaError(
            f"{method.name} is not exported: PyTorch cannot make a graph of it ({reason:.200}): {FREEZE}"
        ) from error


def write_graph(graph: Graph, images: Tensor, state: Mapping[str, Tensor], file: Path) -> None:
    with made_of(graph.method):
        torch.onnx.export(
            graph,
            (images, *state.values()),
            file,
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=["images", *state],
            output_names=["scores", *(f"after.{name}" for name in state if graph.changes)],
        )
