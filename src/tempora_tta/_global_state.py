"""The switches of torch that one piece of code can leave changed, and that change the numbers of all others.

before = GlobalState.now()
...                               # a method's own code
left = before.put_back()          # ("autocast on cpu (off before, on after)", ...)
"""

from __future__ import annotations

import operator
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.modules.module as modules
from torch.utils import deterministic

from tempora_tta import _own_code
from tempora_tta.errors import TemporaWarning

_held: list[object] = []
"""Guards that must outlive this process's torch: destroyed, they would switch back what they switched off."""
_UNKNOWN = object()
"""The value of a switch that cannot be read now, and so need not be put back."""
_TINIEST, _ONE = 5e-324, 1.0


@dataclass(frozen=True)
class Switch:
    """One thing that is global: how it is called, read and set."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    per_thread: bool = False
    """Every thread has its own: no other can have changed it."""


@dataclass(frozen=True)
class GlobalState:
    """The value of every switch at one instant. Reading all of them takes some ten microseconds."""

    switches: tuple[Switch, ...]
    values: tuple[Any, ...]

    @classmethod
    def now(cls, own_thread: bool = False) -> GlobalState:
        """`own_thread`: only of those that no other thread can change meanwhile."""
        switches = OF_A_THREAD if own_thread else SWITCHES
        return cls(switches, _values_of(switches))

    def put_back(self) -> tuple[str, ...]:
        """Set everything as it was then; says what had to be."""
        if _values_of(self.switches) == self.values:  # nearly always, and quicker than one by one
            return ()
        changed = []
        for switch, value in zip(self.switches, self.values, strict=True):
            if value is _UNKNOWN:
                continue
            found = switch.read()
            if found != value:
                switch.write(value)
                changed.append(switch.name + _values(value, found))
        return tuple(changed)


def _values_of(switches: tuple[Switch, ...]) -> tuple[Any, ...]:
    return tuple([switch.read() for switch in switches])


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Take Python's, NumPy's and torch's random numbers from `seed` on; the caller gets its own back.

    Methods draw from their own generator. One that does not still gets the same numbers in every pass.
    """
    devices = list(range(torch.cuda.device_count())) if _cuda_in_use() else []
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  # whose use this is about
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _autocast(kind: str) -> Iterator[Switch]:
    yield Switch(
        f"autocast on {kind}",
        lambda: torch.is_autocast_enabled(kind),
        lambda on: torch.set_autocast_enabled(kind, on),
        per_thread=True,
    )
    yield Switch(
        f"autocast's type on {kind}",
        lambda: torch.get_autocast_dtype(kind),
        lambda dtype: torch.set_autocast_dtype(kind, dtype),
        per_thread=True,
    )


def _autocast_depth() -> int:
    """Count the open autocast contexts, which only counting up and down again tells."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _close_autocasts(depth: int) -> None:
    while _autocast_depth() > depth:
        torch.autocast_decrement_nesting()
    while _autocast_depth() < depth:
        torch.autocast_increment_nesting()
    torch.clear_autocast_cache()  # of weights cast to another type, which would be used again


def _set_inference_mode(on: bool) -> None:
    """A mode that is entered and never left can only be covered by another one."""
    _held.append(torch._C._InferenceMode(on))


def _function_modes() -> tuple[object, ...]:
    """Open contexts that replace torch's functions, a default device among them."""
    stack = range(torch._C._len_torch_function_stack())
    return tuple(torch._C._get_function_stack_at(place) for place in stack)


def _set_function_modes(modes: tuple[object, ...]) -> None:
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    for mode in modes:
        torch._C._push_on_torch_function_stack(mode)


def _default_device() -> Any:
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _set_default_device(context: Any) -> None:
    torch._GLOBAL_DEVICE_CONTEXT.device_context = context  # its mode is among the function modes


_HOOKS = tuple(
    table for name, table in vars(modules).items() if name.startswith("_global_") and isinstance(table, dict)
)


def _set_hooks(entries: tuple[tuple[Any, ...], ...]) -> None:
    for table, items in zip(_HOOKS, entries, strict=True):
        table.clear()
        table.update(items)


def _cuda_in_use() -> bool:
    return bool(torch.cuda.is_initialized())


def _cuda_place() -> Any:
    """The GPU, and the numbers of its stream: an object of torch.cuda takes many times as long to make."""
    if not _cuda_in_use():
        return _UNKNOWN
    device = torch._C._cuda_getDevice()
    return device, torch._C._cuda_getCurrentStream(device)


def _set_cuda_place(place: tuple[int, tuple[int, int, int]]) -> None:
    device, (stream_id, device_index, device_type) = place
    torch.cuda.set_device(device)
    torch.cuda.set_stream(
        torch.cuda.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
    )


_FLAGS = (
    *("cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic", "cudnn.allow_tf32"),
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    *("mkldnn.enabled", "mkldnn.deterministic", "mkldnn.allow_tf32"),
)
_PRECISIONS = (
    *("fp32_precision", "cuda.matmul.fp32_precision"),
    *("cudnn.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"),
    *("mkldnn.fp32_precision", "mkldnn.matmul.fp32_precision", "mkldnn.conv.fp32_precision"),
)
"""The newer names (torch 2.9) of what tf32 may be used for; the whole before its parts, which may follow it."""


def _flags(paths: Iterable[str]) -> Iterator[Switch]:
    """Attributes of torch.backends; not every version of torch has all of them."""
    for path in paths:
        place, _, name = path.rpartition(".")
        with suppress(AttributeError):
            holder = operator.attrgetter(place)(torch.backends) if place else torch.backends
            read = partial(_flag, holder, name)
            read()
            yield Switch(path, read, partial(setattr, holder, name))


def _flag(holder: Any, name: str) -> Any:
    with suppress(
        RuntimeError
    ):  # torch refuses to say what the older of two names holds once the newer was used
        value = getattr(holder, name)
        return (
            _UNKNOWN if value is None else "none" if value == "ieee" else value
        )  # two words for full precision
    return _UNKNOWN


def _matmul_precision() -> Any:
    with suppress(RuntimeError):
        return torch.get_float32_matmul_precision()
    return _UNKNOWN


def _deterministic() -> tuple[bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


def _set_deterministic(modes: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])


SWITCHES: tuple[Switch, ...] = (
    # Inference mode first: it sets the recording of gradients too.
    Switch("inference mode", torch.is_inference_mode_enabled, _set_inference_mode, per_thread=True),
    Switch("the recording of gradients", torch.is_grad_enabled, torch.set_grad_enabled, per_thread=True),
    Switch("the default type of numbers", torch.get_default_dtype, torch.set_default_dtype),
    Switch("the default device", _default_device, _set_default_device, per_thread=True),
    Switch("torch's function modes", _function_modes, _set_function_modes, per_thread=True),
    *(switch for kind in ("cpu", "cuda", "mps") for switch in _autocast(kind)),
    Switch("open autocast contexts", _autocast_depth, _close_autocasts, per_thread=True),
    Switch(
        "autocast's cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, per_thread=True
    ),
    Switch("torch's threads", torch.get_num_threads, torch.set_num_threads, per_thread=True),
    Switch("deterministic algorithms", _deterministic, _set_deterministic),
    Switch(
        "the filling of uninitialised memory",
        partial(_flag, deterministic, "fill_uninitialized_memory"),
        partial(setattr, deterministic, "fill_uninitialized_memory"),
    ),
    Switch(
        "the flushing of denormal numbers",
        lambda: _TINIEST * _ONE == 0.0,
        torch.set_flush_denormal,
        per_thread=True,
    ),
    *_flags(_PRECISIONS),
    Switch("the precision of matrix products", _matmul_precision, torch.set_float32_matmul_precision),
    *_flags(_FLAGS),
    *(
        Switch(
            f"{kind} attention",
            getattr(torch.backends.cuda, f"{kind}_sdp_enabled"),
            getattr(torch.backends.cuda, f"enable_{kind}_sdp"),
        )
        for kind in ("flash", "mem_efficient", "math", "cudnn")
    ),
    Switch(
        "the fast path of attention",
        torch.backends.mha.get_fastpath_enabled,
        torch.backends.mha.set_fastpath_enabled,
    ),
    Switch("hooks of all modules", lambda: tuple(tuple(table.items()) for table in _HOOKS), _set_hooks),
    Switch("the current GPU and stream", _cuda_place, _set_cuda_place, per_thread=True),
)
"""In the order in which they are put back."""
OF_A_THREAD = tuple(switch for switch in SWITCHES if switch.per_thread)


def _values(before: Any, after: Any) -> str:
    """` (float32 before, float64 after)`, where that says something to a reader."""
    plain = (bool, int, str, torch.dtype, torch.device)
    if not all(isinstance(value, plain) for value in (before, after)):
        return ""
    shown = [("off", "on")[value] if isinstance(value, bool) else str(value) for value in (before, after)]
    return f" ({shown[0]} before, {shown[1]} after)"


@contextmanager
def unchanged_by_import(module_name: str) -> Iterator[None]:
    """Put back what a module changes when it is imported: everything else would run under it too."""
    before = GlobalState.now()
    try:
        yield
    finally:
        changed = before.put_back()
    if changed:
        warnings.warn(
            f"importing {module_name} changed {', '.join(changed)}; it was put back, because every method would run "
            "under it. Change it in a `with` block where it is needed",
            TemporaWarning,
            stacklevel=3,
        )


_own_code.around_import = unchanged_by_import
