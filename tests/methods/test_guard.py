"""The guard: it puts back and names what a method changed in torch; a method that hangs or ends Python only fails."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
import torch

from tempora_tta import TemporaError
from tempora_tta._global_state import _UNKNOWN, SWITCHES, GlobalState, own_randomness
from tempora_tta.methods.guard import Guard, MethodTimedOut


def _enter(context) -> None:
    context.__enter__()
    _open.append(context)


_open: list[object] = []
LEFT_BEHIND: dict[str, Callable[[], object]] = {
    "autocast on cpu": lambda: _enter(torch.autocast("cpu", torch.bfloat16)),
    "inference mode": lambda: _enter(torch.inference_mode()),
    "the recording of gradients": lambda: torch.set_grad_enabled(False),
    "the default type of numbers": lambda: torch.set_default_dtype(torch.float64),
    "the default device": lambda: torch.set_default_device("meta"),
    "torch's function modes": lambda: _enter(torch.device("meta")),
    "torch's threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(
        not torch.are_deterministic_algorithms_enabled()
    ),
    "cudnn.benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "the precision of matrix products": lambda: torch.set_float32_matmul_precision("medium"),
    "math attention": lambda: torch.backends.cuda.enable_math_sdp(False),
    "hooks of all modules": lambda: torch.nn.modules.module.register_module_forward_hook(lambda *_: None),
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_global_state_is_put_back_and_the_culprit_is_named(what: str):
    before = GlobalState.now()
    with pytest.raises(TemporaError, match=r"mine: predict\(\) changed ") as said, Guard("mine")("predict"):
        LEFT_BEHIND[what]()
    assert what in str(said.value) or what in ("the default device", "the precision of matrix products")
    assert before.put_back() == ()
    assert torch.ones(2).device.type == "cpu"
    assert torch.ones(1, requires_grad=True).sum().requires_grad


def test_an_autocast_that_is_never_left_keeps_no_weights_for_later():
    """Autocast casts weights once and keeps them until its last context is left: those of another method."""
    with pytest.raises(TemporaError, match="open autocast contexts"), Guard("mine")("predict"):
        torch.autocast("cpu", torch.bfloat16, enabled=False).__enter__()
    weight = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        first = torch.mm(torch.ones(1, 2), weight)
    with torch.no_grad():
        weight.mul_(3)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(torch.mm(torch.ones(1, 2), weight), 3 * first)


def test_what_was_on_before_stays_on():
    with torch.no_grad(), Guard("mine")("predict"):
        assert not torch.is_grad_enabled()
    with torch.autocast("cpu", torch.bfloat16):
        with Guard("mine")("predict"), torch.autocast("cpu", enabled=False):
            pass
        assert torch.is_autocast_enabled("cpu")


def test_state_is_put_back_after_an_error_too():
    before = GlobalState.now()
    with pytest.raises(ZeroDivisionError), Guard("mine")("adapt"):
        torch.set_default_dtype(torch.float64) or 1 / 0
    assert before.put_back() == ()


def test_every_switch_can_be_written_as_it_is_read():
    for switch in SWITCHES:
        if (value := switch.read()) is not _UNKNOWN:
            switch.write(value)


@pytest.mark.parametrize("end", [SystemExit(0), SystemExit("bye"), GeneratorExit()], ids=repr)
def test_a_method_cannot_end_python(end: BaseException):
    with pytest.raises(TemporaError, match=r"mine: adapt\(\) tried to end Python"), Guard("mine")("adapt"):
        raise end


def test_ctrl_c_goes_through():
    with pytest.raises(KeyboardInterrupt), Guard("mine")("adapt"):
        raise KeyboardInterrupt


def test_a_call_that_hangs_in_python_fails():
    said = pytest.raises(MethodTimedOut, match=r"mine: predict\(\) took longer than 600 s")
    with said, Guard("mine", timeout_s=600)("predict"):
        signal.raise_signal(signal.SIGALRM)  # as the system's timer does when the time is up
        threading.Event().wait()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.slow
def test_a_call_that_swallows_the_interruption_fails_all_the_same():
    with (
        pytest.raises(MethodTimedOut),
        Guard("mine", timeout_s=0.1)("predict"),
        suppress(BaseException),  # as `except:` in a user's code
    ):
        threading.Event().wait()


def test_a_call_in_time_is_left_alone_and_so_is_an_alarm_of_the_caller():
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 1e6)
    try:
        with Guard("mine", timeout_s=600)("predict"):
            pass
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="locks a mutex of the C library twice")
def test_a_library_that_never_returns_ends_the_process_and_shows_where():
    code = """
    import ctypes
    from tempora_tta.methods import guard
    guard.GRACE_S = 0.5
    mutex, library = ctypes.create_string_buffer(64), ctypes.CDLL(None)

    def hangs():
        for _ in range(2):
            library.pthread_mutex_lock(mutex)

    with guard.time_limit(0.2):
        hangs()
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert found.returncode == 1
    assert "in hangs" in found.stderr


def test_randomness_of_ones_own_starts_alike_and_disturbs_no_other():
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002

    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    states = random.getstate(), torch.get_rng_state()
    with own_randomness(5):
        first = drawn()
    drawn()
    with own_randomness(5):
        assert drawn() == first
    random.setstate(states[0])
    torch.set_rng_state(states[1])
    with own_randomness(5):
        drawn()
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
