"""How a method of a run was made, in plain data, so that the same one can be made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tempora_tta.errors import TemporaError

if TYPE_CHECKING:
    from tempora_tta.store.results import Results


@dataclass(frozen=True)
class Evaluated:
    """A method as a run evaluated it."""

    name: str
    """A name of ours, or `module:Class`."""
    settings: Mapping[str, Any]
    runtime: str = "eager"
    preset: str | None = None


def evaluated(results: Results, method: str) -> Evaluated | None:
    """The method that a run calls by this label; None where its passes do not say: of an import, or a pack without
    traces."""
    cells = results.utilities
    keys = cells.loc[(cells["method"] == method) & (cells["status"] == "ok"), "adapting_pass"]
    try:
        identity = results.folder.stored(str(keys.iloc[0])).identity
        return Evaluated(
            str(identity["name"]),
            dict(identity["settings"]),
            str(identity.get("runtime", "eager")),
            identity.get("preset"),
        )
    except (TemporaError, LookupError, TypeError, ValueError):
        return None
