"""Write the profiles that ship with Tempora from the measurements in benchmarks/results.

    python benchmarks/library.py

Times are the medians of results/h200-methods-*.json (one H200, batches of 64); lambda is Standard's x 1.03.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from common import RESULTS, console
from tempora_tta.names import METHODS, PROFILES, file_of
from tempora_tta.timing.profile import ANY_ACTION, PROVISION_X

TITLE = re.compile(
    r"(?P<model>\w+), batch (?P<batch>\d+), cuda \((?P<gpu>[^)]+)\), torch (?P<torch>\S+), (?P<rounds>\d+)"
)


def profile_of(source: Path, name: str) -> dict[str, Any]:
    """Times of the methods of one benchmark, as a constant clock file."""
    measured: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    about = TITLE.match(measured["title"])
    assert about is not None, measured["title"]
    times = {
        row["name"]: {
            "predict_ms": [round(row["predict_ms"], 3)],
            "adapt_ms": {ANY_ACTION: [round(row["adapt_ms"], 3)]},
        }
        for row in measured["rows"]
        if row["name"] in METHODS
    }
    machine = {
        "gpu": about["gpu"],
        "device": "cuda",
        "model": about["model"],
        "batch_size": int(about["batch"]),
        "rounds": int(about["rounds"]),
        "versions": {"torch": about["torch"]},
        "made_at": _date(source),
    }
    return {
        "schema_version": 1,
        "name": f"library:{name}",
        "baseline_ms": round(PROVISION_X * times["standard"]["predict_ms"][0], 3),
        "machine": machine,
        "methods": times,
    }


def _date(source: Path) -> str:
    """Return the day on which the measurement was committed."""
    command = ["git", "-C", str(source.parent), "log", "-1", "--format=%cs", "--", source.name]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    for name, place in PROFILES.items():
        source = RESULTS / f"{name.replace('h200-', 'h200-methods-')}.json"
        if source.exists():
            text = json.dumps(profile_of(source, name), indent=1)
            file_of(place).write_text(text + "\n", encoding="utf-8")
            console.print(f"{name}: {file_of(place).name} from {source.name}")
