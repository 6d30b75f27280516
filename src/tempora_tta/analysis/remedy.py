"""The one command that decides more winners of a run."""

from __future__ import annotations

import shlex
from typing import Any

from tempora_tta.analysis.of_run import Summary
from tempora_tta.store import Results

_MORE = 4
"""Factor on batches, or on seconds of profiling, that halves an error."""


def remedy(summary: Summary, results: Results) -> str | None:
    """Return what to run for more of the winners to be sure; None where all of them are decided.

    The larger part of the undecided counts. Undecided by sampling take more batches, or other orders where the stream
    has no more; undecided by timing take more certain times.
    """
    if not summary.undecided:
        return None
    manifest = results.manifest
    config: dict[str, Any] = {**(manifest.get("config") or {})}
    by_timing = summary.by_timing > summary.by_sampling
    if not config:
        steady = ", clock='steady')" if manifest["clock"] == "measured" else ") on an idle machine"
        return f"tempora.evaluate(...{steady if by_timing else ') with more batches'}"
    if not by_timing and not config.get("batches"):
        seeds = [int(seed) for seed in manifest["seeds"]]
        more = [*seeds, *(max(seeds) + step for step in range(1, max(2, len(seeds)) + 1))]
        return _run(results, "--seeds", ",".join(map(str, more)))
    if not by_timing:
        return _run(results, "--batches", str(_MORE * int(config["batches"])), "--replace")
    if manifest["clock"] == "measured":
        return _run(results, "--clock", "steady", "--replace")
    return _run(results, "--profile-s", f"{_MORE * float(config.get('profile_s') or 60):g}")


def _run(results: Results, *options: str) -> str:
    return shlex.join(["tempora", "run", str(results.opened_from), *options])
