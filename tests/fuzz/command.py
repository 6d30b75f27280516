"""The `tempora` command in this process, as `cli:main` runs it, without a network and without long work."""

from __future__ import annotations

import functools
import io
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from cases import RAW, Accepted

KNOWN_CODES = {
    0: "done",
    1: "a mistake, or something is wrong",
    2: "no such command or option",
    130: "stopped",
}
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that would move the cursor of a terminal, or worse. Usage errors (2) repeat the user's own words."""
MOST_IMAGES, MOST_CELLS = 64, 24
"""Sizes up to which a run is really made; a larger one is accepted as soon as it would begin."""


@dataclass(frozen=True)
class Said:
    """End of a command: its status and what it printed."""

    code: int
    out: str
    err: str

    @property
    def warned(self) -> bool:
        return "warning: " in self.err or "error: " in self.err or self.code != 0


def tempora(*arguments: str, encoding: str = "utf-8") -> Said:
    """Run the command; fails the case unless it ends as a command should."""
    from tempora_tta.cli import main

    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding, errors, write_through=True)
        for errors in ("strict", "backslashreplace")
    )
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.object(sys, "argv", ["tempora", *arguments]),
        restrained(),
    ):
        try:
            main()
            code: Any = 0
        except SystemExit as end:
            code = 0 if end.code is None else end.code
    said = Said(code, *(stream.buffer.getvalue().decode(encoding, "replace") for stream in (out, err)))
    assert code in KNOWN_CODES, f"exit code {code!r} of {arguments}\n{said.err}"
    assert code == 0 or said.err.strip() or said.out.strip(), f"no reason given: {arguments}"
    raw = RAW.search(said.err) or RAW.search(said.out)
    assert not raw, f"{arguments} prints {raw[0]}\n{said.out[-2000:]}\n{said.err[-2000:]}"
    steering = STEERING.search(said.err) or STEERING.search(said.out)
    assert code == 2 or not steering, f"{arguments} prints {steering[0]!r}"  # type: ignore[index]
    return said


@contextmanager
def restrained() -> Iterator[None]:
    """No network, no browser, no long work; process-wide settings are put back."""
    plain = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    with ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(socket.socket, connect=_no_network, connect_ex=_no_network))
        stack.enter_context(mock.patch.object(socket, "getaddrinfo", _no_network))
        # Its hub would be asked again and again for a minute, saying so, before Tempora gets to say what to do.
        stack.enter_context(mock.patch("huggingface_hub.constants.HF_HUB_OFFLINE", True))
        stack.enter_context(mock.patch("typer.launch"))
        stack.enter_context(mock.patch.dict(os.environ, plain))
        for place, name, short in _long_work():
            stack.enter_context(mock.patch.object(place, name, _if(short, getattr(place, name))))
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        stack.callback(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled())
        yield


def _no_network(*_: Any, **__: Any) -> None:
    raise OSError(101, "Network is unreachable")


def _long_work() -> list[tuple[Any, str, Callable[..., bool]]]:
    """List the places where long work begins, each with a check that it is short."""
    from tempora_tta.engine import images, plan, profile_child, run, tuning
    from tempora_tta.methods import testing

    return [
        (run.Run, "execute", lambda begun, *_: _short_job(begun.job)),
        (plan, "make_plan", _short_job),
        (profile_child, "profile_job", _short_job),
        (images, "open_stream", _short_stream),
        (tuning, "tune", lambda *_: False),
        (testing, "check", _known_method),
    ]


def _if(short: Callable[..., bool], work: Callable[..., Any]) -> Callable[..., Any]:
    """`work`, unless it would be long."""

    @functools.wraps(work)
    def instead(*args: Any, **kwargs: Any) -> Any:
        if not short(*args, **kwargs):
            raise Accepted
        return work(*args, **kwargs)

    return instead


def _short_job(job: Any, *_: Any) -> bool:
    images = max(source.batch_size * source.num_batches for source in job.streams)
    return images <= MOST_IMAGES and len(job.streams) * len(job.methods) * len(job.scenarios) <= MOST_CELLS


def _short_stream(
    shift: Any, *_: Any, batch_size: int = 64, limit_batches: int | None = None, **__: Any
) -> bool:
    if hasattr(shift, "num_batches"):  # an order of samples
        return bool(shift.num_batches * shift.batch_size <= MOST_IMAGES)
    return min(len(shift), batch_size * (limit_batches or len(shift))) <= MOST_IMAGES


def _known_method(method: str, *_: Any) -> bool:
    from tempora_tta import methods

    methods.get(method)
    return False
