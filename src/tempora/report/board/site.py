"""The site: a page, its data as JSON beside it, and a report per run."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from tempora.analysis.outcomes import shift_words
from tempora.errors import TemporaError
from tempora.report.board.gather import Entry, Gathered
from tempora.report.board.history import changes, histories
from tempora.report.colours import shades
from tempora.report.frames import scenario_titles
from tempora.report.html.packing import compress
from tempora.report.html.page import environment, one_script, script_hash, template, write_report
from tempora.store.atomic import write_atomically
from tempora.store.verdicts import verdict_of

SCRIPTS = ("data.js", "dom.js")
"""Of the report, which the board's own builds on."""
PAGE, DATA, REPORTS = "index.html", "board.json", "reports"
_NUMBERS = (
    "utility",
    "sample_lo",
    "sample_hi",
    "rank",
    "availability",
    "served_accuracy",
    "responsiveness",
    "p_best",
)


class Board(NamedTuple):
    """What was written."""

    page: Path
    reports: int
    regressions: int


def write_board(gathered: Gathered, out: Path, title: str = "Tempora board", reports: bool = True) -> Board:
    """Write the site over these runs into the folder `out`, which is made; its own files in it are replaced."""
    if out.exists() and not out.is_dir():
        raise TemporaError(f"--out {out}: is a file; name a folder")
    out.mkdir(parents=True, exist_ok=True)
    links = []
    for number, entry in enumerate(gathered.entries):
        links.append(_report(entry, number, out) if reports else None)
        entry.settle()
    data = payload(gathered, links, title)
    _write(out / DATA, json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    _write(out / PAGE, _page(data))
    return Board(
        out / PAGE,
        sum(link is not None for link in links),
        sum(len(step.get("regressions", ())) for one in data["histories"] for step in one["steps"]),
    )


def _report(entry: Entry, number: int, out: Path) -> str | None:
    """Its page, under a name that no run can choose; None where the batches that it shows were left out."""
    if not entry.has_traces:
        return None
    (out / REPORTS).mkdir(exist_ok=True)
    link = f"{REPORTS}/run-{number + 1}.html"
    write_report(entry.results, out / link)
    return link


def payload(gathered: Gathered, links: Sequence[str | None], title: str) -> dict[str, Any]:
    """Everything that the page shows, as plain data."""
    entries = gathered.entries
    return {
        "title": title,
        "methods": _methods(entries),
        "runs": [_run(entry, link) for entry, link in zip(entries, links, strict=True)],
        "rows": [row for number, entry in enumerate(entries) for row in _rows(entry, number)],
        "histories": [_history(runs) for runs in histories(entries)],
        "refused": [one._asdict() for one in gathered.refused],
    }


def _methods(entries: Sequence[Entry]) -> dict[str, dict[str, str]]:
    """How each method is shown, by its name; the first run that has it decides."""
    found: dict[str, dict[str, str]] = {}
    for entry in entries:
        for name in entry.results.cards.in_order(entry.rows["method"]):
            card = entry.results.cards.method(name)
            shown = {"label": card.label, "family": card.family, **shades(card.colour)}
            found.setdefault(name, shown)
    return found


def _run(entry: Entry, link: str | None) -> dict[str, Any]:
    manifest, machine = entry.manifest, entry.manifest.get("machine") or {}
    return {
        "name": entry.name,
        "suite": manifest.get("suite"),
        "network": entry.network,
        "dataset": manifest.get("dataset"),
        "device": entry.device,
        "clock": str(manifest["clock"]).partition(":")[0],
        "stream": entry.stream,
        "shifts": len(manifest["shifts"]),
        "seeds": len(manifest["seeds"]),
        "batch_size": manifest["batch_size"],
        "baseline_ms": _number(manifest["baseline"]["baseline_ms"]),
        "timing": verdict_of(manifest).status,
        "commit": entry.commit,
        "commit_date": entry.commit_date,
        "versions": {str(name): str(version) for name, version in (machine.get("versions") or {}).items()},
        "traces": entry.has_traces,
        "report": link,
    }


def _rows(entry: Entry, number: int) -> list[dict[str, Any]]:
    """One per method and scenario of a run."""
    titles, cards = scenario_titles(entry.results.utilities), entry.results.cards
    return [
        {
            "run": number,
            "method": row["method"],
            "protocol": cards.title(row["protocol"]),
            "scenario": titles[int(row["scenario"])],
            "verdict": row["verdict"] if row["rank"] == 1 else None,
            **{name: _number(row[name]) for name in _NUMBERS},
        }
        for _, row in entry.rows.iterrows()
    ]


def _history(runs: Sequence[Entry]) -> dict[str, Any]:
    first = runs[0]
    shifts = shift_words(first.manifest["shifts"])
    about = f"{first.manifest.get('suite') or first.network}, {first.stream}, {shifts}, {first.device}"
    return {
        "configuration": about,
        "commits": [{"run": run.name, "commit": run.commit, "date": run.commit_date} for run in runs],
        "steps": [step.to_json() for step in changes(runs)],
    }


def _number(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


# -- the page --------------------------------------------------------------------------------------------------


def _page(data: dict[str, Any]) -> str:
    own = one_script(*map(template, SCRIPTS), _own("board.js"))
    page = environment({PAGE: _own("board.html")}).get_template(PAGE)
    return page.render(
        data=data,
        runs=data["runs"],
        methods=list(data["methods"].values()),
        devices=len({run["device"] for run in data["runs"]}),
        networks=len({run["network"] for run in data["runs"]}),
        style=template("style.css") + _own("board.css"),
        script=own,
        allowed_script=script_hash(own),
        payload=compress(data),
    )


def _own(name: str) -> str:
    return files("tempora.report.board").joinpath("templates", name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda part: _write_text(part, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
