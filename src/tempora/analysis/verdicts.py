"""How far the timing of a run can be trusted, as its files say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tempora.store.verdicts import VERDICTS


class Verdict(NamedTuple):
    """What a run says about its own timing."""

    status: str
    """One of `VERDICTS`; `UNKNOWN` before a measured run is finished."""
    text: str

    @property
    def doubtful(self) -> bool:
        return self.status in VERDICTS[1:]


def verdict_of(manifest: Mapping[str, Any]) -> Verdict:
    """The verdict in `run.json`, which is null there until the run can be judged."""
    found = manifest.get("verdict") or {"status": "UNKNOWN", "text": "no verdict yet"}
    return Verdict(found["status"], found["text"])
