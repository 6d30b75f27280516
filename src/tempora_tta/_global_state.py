"""What one piece of code can leave behind in torch and in the process, and that changes the results of all others.

before = GlobalState.now()
...                               # a method's own code
left = before.put_back()          # ("autocast on cpu (off before, on after)", ...)
"""

from __future__ import annotations

import gc
import operator
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """Python's, NumPy's and torch's random numbers from `seed` on; whoever called gets theirs back.

    Methods draw from their own generator. One that does not still gets the same numbers in every pass, whatever ran
    before it.
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
    """How many autocast contexts are open. Only counting up and down again tells."""
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


_context = torch._GLOBAL_DEVICE_CONTEXT


def _set_default_device(context: Any) -> None:
    _context.device_context = context  # the mode that goes with it is among the function modes


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


def _flags() -> Iterator[Switch]:
    """Attributes of torch.backends; not every version of torch has all of them."""
    named = {
        "cudnn": ("enabled", "benchmark", "deterministic", "allow_tf32"),
        "cuda.matmul": ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"),
        "mkldnn": ("enabled", "deterministic", "allow_tf32"),
    }
    for place, names in named.items():
        holder = _backend(place)
        yield from (_flag(holder, name, f"{place}.{name}") for name in names if hasattr(holder, name))


def _flag(holder: Any, name: str, called: str) -> Switch:
    return Switch(called, _legible(lambda: getattr(holder, name)), lambda value: setattr(holder, name, value))


def _legible(read: Callable[[], Any]) -> Callable[[], Any]:
    """Torch refuses to say what the older of two names for a switch holds once the newer was used."""

    def safely() -> Any:
        try:
            value = read()
        except RuntimeError:
            return _UNKNOWN
        return _UNKNOWN if value is None else value

    return safely


def _precisions() -> Iterator[Switch]:
    """The newer names (torch 2.9) of what tf32 may be used for; the whole before its parts, which may follow it."""
    inner = ("cuda.matmul", "cudnn", "cudnn.conv", "cudnn.rnn", "mkldnn", "mkldnn.matmul", "mkldnn.conv")
    holders = {"backends": torch.backends, **{name: _backend(name) for name in inner}}
    for name, holder in holders.items():
        if hasattr(holder, "fp32_precision"):
            yield Switch(
                f"{name}.fp32_precision", partial(_precision, holder), partial(_set_precision, holder)
            )


def _backend(name: str) -> Any:
    try:
        return operator.attrgetter(name)(torch.backends)
    except AttributeError:
        return None


def _precision(holder: Any) -> str:
    return "full" if holder.fp32_precision in ("none", "ieee") else str(holder.fp32_precision)


def _set_precision(holder: Any, precision: str) -> None:
    holder.fp32_precision = "none" if precision == "full" else precision


def _cores() -> Iterator[Switch]:
    if hasattr(os, "sched_getaffinity"):
        yield Switch(
            "the cores to run on",
            lambda: os.sched_getaffinity(0),
            lambda cores: os.sched_setaffinity(0, cores),
            per_thread=True,
        )


def _working_folder() -> Any:
    try:
        return os.getcwd()
    except OSError:  # somebody deleted it
        return _UNKNOWN


SWITCHES: tuple[Switch, ...] = (
    Switch(
        "inference mode", torch.is_inference_mode_enabled, _set_inference_mode, per_thread=True
    ),  # also sets the next one
    Switch("the recording of gradients", torch.is_grad_enabled, torch.set_grad_enabled, per_thread=True),
    Switch("the default type of numbers", torch.get_default_dtype, torch.set_default_dtype),
    Switch(
        "the default device",
        lambda: getattr(_context, "device_context", None),
        _set_default_device,
        per_thread=True,
    ),
    Switch("torch's function modes", _function_modes, _set_function_modes, per_thread=True),
    *(switch for kind in ("cpu", "cuda", "mps") for switch in _autocast(kind)),
    Switch("open autocast contexts", _autocast_depth, _close_autocasts, per_thread=True),
    Switch(
        "autocast's cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, per_thread=True
    ),
    Switch("torch's threads", torch.get_num_threads, torch.set_num_threads, per_thread=True),
    Switch(
        "deterministic algorithms",
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda modes: torch.use_deterministic_algorithms(modes[0], warn_only=modes[1]),
    ),
    _flag(deterministic, "fill_uninitialized_memory", "the filling of uninitialised memory"),
    Switch(
        "anomaly detection",
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda modes: torch.set_anomaly_enabled(*modes),
    ),
    Switch(
        "the flushing of denormal numbers",
        lambda: _TINIEST * _ONE == 0.0,
        torch.set_flush_denormal,
        per_thread=True,
    ),
    *_precisions(),
    Switch(
        "the precision of matrix products",
        _legible(torch.get_float32_matmul_precision),
        torch.set_float32_matmul_precision,
    ),
    *_flags(),
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
    Switch("garbage collection", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    Switch("the working folder", _working_folder, os.chdir),
    *_cores(),
)
"""In the order in which they are put back."""
OF_A_THREAD = tuple(switch for switch in SWITCHES if switch.per_thread)


def _values(before: Any, after: Any) -> str:
    """` (float32 before, float64 after)`, where that says something to a reader."""
    plain = (bool, int, str, set, torch.dtype, torch.device)
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
