"""Two judgements, as files hold them: on the timing of a measurement, and on the winner of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

VERDICTS = VALID, WARN, INVALID = "VALID", "WARN", "INVALID"
"""On timing, from the best to the worst."""
ON_WINNERS = HOLDS, EQUAL, UNDECIDED = "holds", "equal", "undecided"
"""On the winner of a cell: ahead of all rivals, equal with some, or neither can be said."""
REMEDY = "close other programs and measure into another folder, or use a recorded clock (--clock FILE)"


@dataclass(frozen=True)
class Verdict:
    """A judgement: how far times can be trusted, why not further, and what to do about it."""

    status: str = VALID
    """One of `VERDICTS`; `UNKNOWN` before a measured run is finished."""
    reasons: tuple[str, ...] = ()
    said: str = ""
    """The whole of it in one sentence, where that is not made of the other two."""

    @property
    def text(self) -> str:
        if self.said or not self.reasons:
            return self.said or self.status
        return f"{self.status}: {'; '.join(self.reasons)}; {REMEDY}"

    def __str__(self) -> str:
        return self.text

    @property
    def reason(self) -> str:
        """The text behind the status, which stands before it.

        >>> Verdict("INVALID", said="INVALID: 13 of 56 passes are INVALID").reason
        '13 of 56 passes are INVALID'
        """
        return self.text.removeprefix(self.status).removeprefix(": ")

    @property
    def doubtful(self) -> bool:
        return self.status in VERDICTS[1:]

    def to_json(self) -> dict[str, Any]:
        return {"status": self.status, "reasons": list(self.reasons), "text": self.text}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Verdict:
        found = cls(str(content.get("status", VALID)), tuple(map(str, content.get("reasons", ()))))
        said = str(content.get("text", ""))
        return found if said in ("", found.text) else replace(found, said=said)


def verdict_of(manifest: Mapping[str, Any]) -> Verdict:
    """The verdict in run.json, which is null there until the run can be judged."""
    found = manifest.get("verdict")
    return Verdict.from_json(found) if found else Verdict("UNKNOWN", said="no verdict yet")


def worst(verdicts: Iterable[str]) -> str:
    """
    >>> worst(["VALID", "INVALID", "WARN"])
    'INVALID'
    """
    return max(verdicts, key=VERDICTS.index, default=VALID)
