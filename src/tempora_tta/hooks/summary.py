"""Summary of a run for a tracker: facts once, and a number per method and scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tempora_tta.analysis.cells import cells, over_all
from tempora_tta.report.frames import scenario_titles
from tempora_tta.store import Results

FACTS = ("suite", "model", "dataset", "severity", "batch_size", "clock", "shifts", "seeds", "methods")
FILES = ("run.json", "profile.json", "utilities.parquet", "segments.parquet")
_WORDS = {"ρ": "rho", "λ": "lambda", "%": "pct", "∞": "inf"}


def facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what was run and where, as text."""
    machine = manifest.get("machine") or {}
    told = {name: manifest.get(name) for name in FACTS}
    told |= {
        "stream": (manifest.get("stream") or {}).get("kind"),
        "baseline_ms": manifest["baseline"]["baseline_ms"],
        "device": machine.get("gpu") or machine.get("cpu"),
        "commit": machine.get("commit"),
        "timing": (manifest.get("verdict") or {}).get("status"),
    }
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in told.items()
        if value is not None
    }


def metrics(results: Results) -> dict[str, float]:
    """`utility/METHOD/SCENARIO` over all shifts and seeds, of every method that was scored on every shift; of oracles
    `ceiling/METHOD/SCENARIO`."""
    titles = scenario_titles(results.utilities)
    return {
        f"{kind}/{plain(row['method'])}/{plain(titles[int(row['scenario'])])}": float(row["utility"])
        for kind, rows in (
            ("utility", results.contenders),
            ("ceiling", results.ceilings),
        )
        for _, row in over_all(cells(rows, results.cards)).iterrows()
    }


def files(results: Results) -> list[Path]:
    """Return the tables of the run folder; traces stay where they are."""
    return [results.path / name for name in FILES if (results.path / name).exists()]


def plain(text: str) -> str:
    """Return a name that every tracker takes.

    >>> plain("ρ 50 %"), plain("T 2.5λ"), plain("my.module:Method")
    ('rho_50_pct', 'T_2.5_lambda', 'my.module_Method')
    """
    for sign, word in _WORDS.items():
        text = text.replace(sign, f" {word} ")
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("_")
