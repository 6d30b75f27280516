"""What a run's configuration says about data, and what comes of it."""

from __future__ import annotations

import pytest

from tempora.engine.config import load_config
from tempora.engine.setup import job_from_config
from tempora.errors import TemporaError


def test_a_shift_smaller_than_a_batch_is_named_before_anything_runs() -> None:
    config = load_config(None, flags={"batch_size": 20_000, "device": "cpu", "data.shifts": "contrast"})
    with pytest.raises(
        TemporaError, match=r"'contrast' has 10000 images, fewer than one batch of 20000.*--batch-size"
    ):
        job_from_config(config)
