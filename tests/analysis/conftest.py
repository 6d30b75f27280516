"""A made-up run that most questions are asked of."""

from __future__ import annotations

import pytest

from made_runs import measured_run
from tempora_tta.store import Results


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return measured_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two shifts in four orders of 40 batches: 320 arrivals, enough for a 99th percentile."""
    return measured_run(tmp_path_factory.mktemp("seeds"), seeds=(1, 2, 3, 4))
