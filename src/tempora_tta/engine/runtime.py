"""Runtimes of a method in PyTorch: eager, or one of the ways that a practitioner may choose to make it faster.

A runtime belongs to a method of a run, `tent@tf32`. It is switched on for that method's predictions and updates and
off again, so that nothing else changes: lambda and the looks around passes stay those of eager standard inference.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tempora_tta.errors import TemporaError, unknown
from tempora_tta.methods import Method
from tempora_tta.models import Classifier

EAGER = "eager"
TF32, CHANNELS_LAST, AMP, COMPILE, ONNX = "tf32", "channels_last", "amp", "compile", "onnx"
PARTS = (TF32, CHANNELS_LAST, AMP, COMPILE, ONNX)


@dataclass(frozen=True)
class Runtime:
    """`eager`, or parts such as `tf32+channels_last`.

    tf32: matrix products and convolutions of float32 on tensor cores (NVIDIA Ampere and newer).
    channels_last: images and weights stored with channels innermost.
    amp: bfloat16 where autocast thinks it safe; weights and updates stay float32.
    compile: the network's features and their gradients through torch.compile, compiled during warm-up. Where
        PyTorch would give up and silently go back to eager, the cell fails instead.
    onnx: predictions by ONNX Runtime on a CPU, of methods that learn while they predict; alone.
    """

    parts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Runtime:
        """
        >>> str(Runtime.parse("amp+tf32"))
        'tf32+amp'
        >>> str(Runtime.parse("eager"))
        'eager'
        """
        given = [part.strip() for part in text.split("+")]
        if given == [EAGER]:
            return cls()
        for part in given:
            if part == EAGER:
                raise TemporaError(f"runtime {text!r}: eager is the absence of the others; leave it out")
            if part not in PARTS:
                raise unknown("runtime", part, (EAGER, *PARTS))
        if ONNX in given and len(given) > 1:
            raise TemporaError(f"runtime {text!r}: onnx replaces PyTorch; leave the others out")
        return cls(tuple(part for part in PARTS if part in given))

    def with_parts_of(self, other: Runtime) -> Runtime:
        """Both at once."""
        return Runtime(tuple(part for part in PARTS if part in (*self.parts, *other.parts)))

    def __str__(self) -> str:
        return "+".join(self.parts) or EAGER

    def notes(self, device: torch.device) -> list[str]:
        """Say what a user should know about this runtime on this device, such as that it does nothing there."""
        found = []
        if TF32 in self.parts and device.type != "cuda":
            found.append(f"runtime {self}: tf32 has no effect on {device.type}")
        elif TF32 in self.parts and torch.backends.cudnn.allow_tf32:
            found.append(
                f"runtime {self}: convolutions use tf32 in eager too (PyTorch's default); this adds the rest"
            )
        if AMP in self.parts and device.type == "cuda" and not torch.cuda.is_bf16_supported(False):
            found.append(f"runtime {self}: this GPU only emulates bfloat16, so amp will not be faster")
        return found

    def prepare(self, model: Classifier) -> Classifier:
        """The network as this runtime stores it: itself, or a copy."""
        if CHANNELS_LAST not in self.parts:
            return model
        return copy.deepcopy(model).to(memory_format=torch.channels_last)

    def attach(self, method: Method) -> Method:
        """Make the method's predictions and updates run this way."""
        if not self.parts:
            return method
        if ONNX in self.parts:
            from tempora_tta.engine.onnx_runtime import OnnxPredict  # only here: it may not be installed

            method.predict = OnnxPredict(method)  # type: ignore[method-assign]
            return method
        device, predict, adapt = method.model.device, method.predict, method.adapt
        if COMPILE in self.parts:
            torch._dynamo.reset()  # what was compiled for another method would count against the limit
            method.model.features = torch.compile(method.model.features)  # type: ignore[method-assign]

        def predict_here(x: Tensor, *moment: Any) -> Tensor:
            if CHANNELS_LAST in self.parts and x.ndim == 4:
                x = x.contiguous(memory_format=torch.channels_last)
            with self._active(device):
                return predict(x, *moment).float()

        def adapt_here(*moment: Any) -> str:
            with self._active(device):
                return adapt(*moment)

        method.predict, method.adapt = predict_here, adapt_here  # type: ignore[method-assign]
        return method

    @contextmanager
    def _active(self, device: torch.device) -> Iterator[None]:
        with ExitStack() as stack:
            if TF32 in self.parts and device.type == "cuda":
                stack.enter_context(_tf32())
            if AMP in self.parts:
                stack.enter_context(torch.autocast(device.type, torch.bfloat16))
            if COMPILE in self.parts:
                stack.enter_context(torch._dynamo.config.patch(fail_on_recompile_limit_hit=True))
            yield


def compiled_graphs() -> int:
    """Count the graphs that torch.compile has made so far; two calls tell whether it made one in between."""
    dynamo = sys.modules.get("torch._dynamo.utils")  # absent until something is compiled
    return dynamo.counters["stats"]["unique_graphs"] if dynamo else 0


@contextmanager
def _tf32() -> Iterator[None]:
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions
