"""Scores that are no numbers: which methods gave some, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tempora_tta.errors import counted
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.schema import PASS_COLUMNS


def non_finite_scores(folder: RunFolder, utilities: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """By method: in how many batches of its passes it gave NaN or infinite scores, and on which shifts."""
    found: dict[str, dict[str, Any]] = {}
    keys = {key for name in PASS_COLUMNS for key in utilities[name].dropna()}
    for key in sorted(keys & folder.passes().keys()):
        stored = folder.stored(key)
        batches = stored.facts.get("non_finite_batches", 0)
        if not batches:
            continue
        entry = found.setdefault(str(stored.identity["method"]), {"batches": 0, "passes": 0, "shifts": []})
        entry["batches"] += batches
        entry["passes"] += 1
        entry["shifts"] = sorted({*entry["shifts"], str(stored.identity["shift"])})
    return dict(sorted(found.items()))


def non_finite_sentences(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What a reader of the table should know.

    >>> non_finite_sentences({"tent": {"batches": 3, "passes": 1, "shifts": ["fog"]}})
    ['tent: NaN or infinite scores in 3 batches of 1 pass (fog): what it predicted there is arbitrary']
    """
    return [
        f"{method}: NaN or infinite scores in {counted(entry['batches'], 'batch')} of "
        f"{counted(entry['passes'], 'pass')} ({', '.join(entry['shifts'])}): what it predicted there is arbitrary"
        for method, entry in found.items()
    ]
