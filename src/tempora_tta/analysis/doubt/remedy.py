"""The one command that decides more winners of a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tempora_tta.analysis.doubt.run import Summary

_MORE = 4
"""Times as many batches, or as long a profile, make an error half as large."""


def remedy(summary: Summary, manifest: Mapping[str, Any]) -> str | None:
    """What to run for more of the winners to hold; None where all of them are decided.

    Only the undecided count, and of those the larger part: more batches (or orders of them, where the stream has no
    more), or more certain times.
    """
    if not summary.undecided:
        return None
    command = [str(word) for word in (manifest.get("machine") or {}).get("command") or []]
    if not manifest.get("config") or len(command) < 2 or command[1] not in ("run", "demo"):
        return _for_python(summary.by_timing > summary.by_sampling, str(manifest["clock"]))
    command[0] = "tempora"
    if summary.by_timing > summary.by_sampling:
        return shlex.join(_more_certain_times(command, manifest))
    return shlex.join(_more_data(command, manifest))


def _for_python(by_timing: bool, clock: str) -> str:
    if not by_timing:
        return "tempora.evaluate(...) with more batches"
    more = ", clock='steady')" if clock == "measured" else ") on an idle machine"
    return f"tempora.evaluate(...{more}"


def _more_certain_times(command: Sequence[str], manifest: Mapping[str, Any]) -> list[str]:
    if str(manifest["clock"]) == "measured":
        return _in_its_place(with_option(command, "--clock", "steady"))
    seconds = (manifest.get("config") or {}).get("profile_s") or 60
    return with_option(command, "--profile-s", f"{_MORE * float(seconds):g}")


def _more_data(command: Sequence[str], manifest: Mapping[str, Any]) -> list[str]:
    if command[1] == "demo":
        return command_without(command, "--quick") if "--quick" in command else [*command, "--full"]
    batches = (manifest.get("config") or {}).get("batches")
    if batches:
        return _in_its_place(with_option(command, "--batches", str(_MORE * int(batches))))
    seeds = [int(seed) for seed in manifest["seeds"]]
    more = [*seeds, *(max(seeds) + step for step in range(1, max(2, len(seeds)) + 1))]
    return with_option(command, "--seeds", ",".join(map(str, more)))


def _in_its_place(command: Sequence[str]) -> list[str]:
    return [*command_without(command, "--replace"), "--replace"]


def with_option(command: Sequence[str], option: str, value: str) -> list[str]:
    """A command with another value of an option, whether it had one or not.

    >>> with_option(["tempora", "run", "--seeds", "1", "--out", "a"], "--seeds", "1,2")
    ['tempora', 'run', '--out', 'a', '--seeds', '1,2']
    """
    kept: list[str] = []
    words = iter(command)
    for word in words:
        if word == option:
            next(words, None)
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return [*kept, option, value]


def command_without(command: Sequence[str], flag: str) -> list[str]:
    return [word for word in command if word != flag]
