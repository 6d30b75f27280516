"""What a folder's own Standard says about its lambda."""

from __future__ import annotations

import numpy as np

from tempora_tta.scenarios import Offline
from tempora_tta.store.folder import RunFolder


def standard_above(folder: RunFolder) -> float | None:
    """The share of Standard's offline batches that took longer than lambda; None without such batches."""
    table = folder.utilities()
    rows = table[
        (table["method"] == "standard") & (table["protocol"] == Offline.protocol) & (table["status"] == "ok")
    ]
    above = [
        folder.trace(key).service_ms > baseline_ms
        for key, baseline_ms in zip(rows["adapting_pass"], rows["baseline_ms"], strict=True)
    ]
    return float(np.concatenate(above).mean()) if above else None
