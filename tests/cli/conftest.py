"""A made-up run that most commands are tried on, and what a command prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from made_runs import write_run
from tempora_tta.analysis.of_run import keep_doubt
from tempora_tta.cli import app
from tempora_tta.errors import TemporaError
from tempora_tta.scenarios import Amortised, Continuous, Discrete, Offline

FEW = (Offline(), Discrete(interval_ms=10.0), Continuous(threshold_ms=15.0), Amortised(budget_ms=60.0))

Said = Callable[..., str]
"""Runs a command into a pipe of 80 columns and returns what it prints; its errors are raised."""


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run: how sure its winners are is kept, as a command keeps it."""
    results = write_run(tmp_path_factory.mktemp("made") / "run", scenarios=FEW)
    keep_doubt(results)
    return results.path


@pytest.fixture(scope="session")
def said() -> Said:
    def said(*words: str | Path, status: int = 0, **env: str) -> str:
        runner = CliRunner(env={"COLUMNS": "80", "TERM": "xterm-256color", **env})
        result = runner.invoke(app, [str(word) for word in words])
        if isinstance(result.exception, TemporaError):
            raise result.exception
        assert result.exit_code == status, f"{result.output}{result.exception!r}"
        return result.output

    return said
