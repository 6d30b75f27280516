"""`from_module`: an adapting `nn.Module` of other people's research code as a method, unmodified.

Such a module's forward(x) adapts and returns logits, as in Tent's repository and most that followed. All of it is
prediction; when it is frozen is for its author to say.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tempora_tta._global_state import own_randomness
from tempora_tta.errors import TemporaError
from tempora_tta.methods.contract import LEARNS, UNTIMED, Method

Make = Callable[[nn.Module], nn.Module]
Freeze = Callable[[nn.Module], Any]


def from_module(make: Make, name: str, freeze: Freeze | None = None) -> type[Method]:
    """A Method class around an adapting module.

    make: given a network (a copy of the run's), returns the module whose forward adapts and returns logits.
    freeze: how the module stops: it is given the module and changes it, or returns what predicts in its place
        (`lambda tent: tent.model`). Left out, a frozen prediction is an adapting one whose traces are removed,
        which takes longer than it should.
    """
    attributes = {
        "name": name,
        "make": staticmethod(make),
        "how_to_freeze": None if freeze is None else staticmethod(freeze),
        "__module__": getattr(make, "__module__", __name__),  # whose file decides whether a pass is repeated
        "__doc__": getattr(make, "__doc__", None) or f"The module that {name} makes.",
    }
    return type(name, (ModuleMethod,), attributes)


class Parts:
    """The network and the module around it, copied together, so that what they share stays shared."""

    def __init__(self, network: nn.Module, module: nn.Module) -> None:
        self.network, self.module = network, module

    def copied(self, name: str) -> Parts:
        """A copy, or an error that says what cannot be copied."""
        try:
            return copy.deepcopy(self)
        except Exception as error:
            raise TemporaError(
                f"{name}: its module cannot be copied ({error}): detach what it keeps between two batches, and keep "
                "tensors, numbers, networks and optimisers."
            ) from error


class ModuleMethod(Method):
    """Base of what `from_module` makes."""

    family = "gradient-based"
    modifies = ("parameters",)
    actions = {"none": LEARNS | UNTIMED}
    state = ("randomness",)
    make: ClassVar[Make]
    how_to_freeze: ClassVar[Freeze | None] = None

    def setup(self) -> None:
        network = self.model.network.requires_grad_(True)
        with own_randomness(self.seed), torch.enable_grad():
            self.module = type(self).make(network)
            self.randomness = _generators(self.model.device)
        if not isinstance(self.module, nn.Module):
            raise TemporaError(
                f"{self.name}: its function returned a {type(self.module).__name__}; expected the adapting nn.Module."
            )
        self._predictor: Any = None
        self._before_freezing: Parts | None = None

    def predict(self, x: Tensor) -> Tensor:
        if self.frozen and self._predictor is not None:
            with self.its_randomness(), torch.no_grad():
                predicted: Tensor = self._predictor(x).detach()
                return predicted
        before = self.snapshot() if self.frozen else None  # how to freeze it was not said
        with self.its_randomness(), torch.enable_grad():
            adapted: Tensor = self.module(x).detach()
        if before is not None:
            adapted = adapted.clone()
            self.restore(before)
        return adapted

    def freeze(self) -> None:
        how_to_freeze = type(self).how_to_freeze
        if not self.frozen and how_to_freeze is not None:
            self._before_freezing = self._parts.copied(self.name)
            predictor = how_to_freeze(self.module)
            self._predictor = predictor if callable(predictor) else self.module
        super().freeze()

    def unfreeze(self) -> None:
        if self._before_freezing is not None:
            self._put(self._before_freezing)
        self._predictor = self._before_freezing = None
        super().unfreeze()

    def snapshot(self) -> dict[str, Any]:
        """Frozen, the module's part is what it was before, so that it can be thawed."""
        return {**super().snapshot(), "module": (self._before_freezing or self._parts).copied(self.name)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._before_freezing = snapshot["module"].copied(self.name)
        self.unfreeze()
        super().restore(snapshot)

    @property
    def _parts(self) -> Parts:
        return Parts(self.model.network, self.module)

    def _put(self, parts: Parts) -> None:
        self.model.network, self.module = parts.network, parts.module

    @property
    def updated_parameters(self) -> tuple[str, ...]:
        """Unknown for outside code, so every parameter."""
        return tuple(name for name, _ in self.model.named_parameters())

    @property
    def updated_buffers(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.model.named_buffers())

    @contextmanager
    def its_randomness(self) -> Iterator[None]:
        """Inside, Python's, NumPy's and PyTorch's global generators are this method's; outside they are as before."""
        outside = _generators(self.model.device)
        _set_generators(self.randomness, self.model.device)
        try:
            yield
        finally:
            self.randomness = _generators(self.model.device)
            _set_generators(outside, self.model.device)


def _generators(device: torch.device) -> dict[str, Any]:
    states = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002 (what outside code draws from)
        "torch": torch.random.get_rng_state(),
    }
    return states | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def _set_generators(states: dict[str, Any], device: torch.device) -> None:
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    torch.random.set_rng_state(states["torch"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


@cache
def adapter(make: Make, given: str) -> type[Method]:
    """The method that `module:function` names; called after the function, or after its file if that is "make"."""
    module, _, function = given.partition(":")
    stem = module.removesuffix(".py").replace("\\", "/").rpartition("/")[2].rpartition(".")[2] or module
    return from_module(make, name=stem if function == "make" else function)
