"""The site: a page, its data as JSON beside it, and a report per run."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tempora_tta.analysis.outcomes import shift_words
from tempora_tta.errors import TemporaError
from tempora_tta.report.board.gather import Entry, Gathered, check_any, refusing
from tempora_tta.report.board.history import changes, histories
from tempora_tta.report.colours import shades
from tempora_tta.report.frames import full_titles
from tempora_tta.report.html.packing import compress
from tempora_tta.report.html.page import environment, one_script, script_hash, template, write_report
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.verdicts import verdict_of

SCRIPTS = ("data.js", "dom.js")
"""Of the report, which the board's own builds on."""
PAGE, DATA, REPORTS = "index.html", "board.json", "reports"
_REPORT = re.compile(r"run-[1-9]\d*\.html")
UNKNOWN = "unknown"
"""The verdict on a winner of which nobody can say how sure it is."""
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
    _remove_reports(out)
    shown: list[Entry] = []
    links: list[str | None] = []
    for entry in gathered.entries:
        link = f"{REPORTS}/run-{len(links) + 1}.html" if reports and entry.has_traces else None
        with refusing(gathered, entry.results.opened_from, entry.results.path):
            _read(entry, link, out)
            shown.append(entry)
            links.append(link)
    gathered.entries[:] = shown
    check_any(gathered)
    data = payload(gathered, links, title)
    _write(out / DATA, json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    _write(out / PAGE, _page(data))
    return Board(
        out / PAGE,
        sum(link is not None for link in links),
        sum(len(step.get("regressions", ())) for one in data["histories"] for step in one["steps"]),
    )


def _remove_reports(out: Path) -> None:
    """Those of an earlier board here: its runs may not be on this one, and yet its readers would find them."""
    for path in (out / REPORTS).glob("run-*.html"):
        if _REPORT.fullmatch(path.name):
            path.unlink()


def _read(entry: Entry, link: str | None, out: Path) -> None:
    """Everything that the board shows of a run, so that one that cannot be shown is noticed here; and its page, under
    a name that no run can choose."""
    if link is not None:
        (out / REPORTS).mkdir(exist_ok=True)
        write_report(entry.results, out / link)
    for show in (_run(entry, link, 0), _rows(entry, 0), _methods([entry]), entry.configuration):
        json.dumps(show, allow_nan=False)
    entry.settle()


def payload(gathered: Gathered, links: Sequence[str | None], title: str) -> dict[str, Any]:
    """Everything that the page shows, as plain data."""
    entries = gathered.entries
    known = list(dict.fromkeys(entry.configuration for entry in entries))
    return {
        "title": title,
        "methods": _methods(entries),
        "runs": [
            _run(entry, link, known.index(entry.configuration))
            for entry, link in zip(entries, links, strict=True)
        ],
        "rows": [row for number, entry in enumerate(entries) for row in _rows(entry, number)],
        "histories": [_history(runs) for runs in histories(entries)],
        "refused": [one._asdict() for one in gathered.refused],
        "repeated": [one._asdict() for one in gathered.repeated],
    }


def _methods(entries: Sequence[Entry]) -> dict[str, dict[str, str]]:
    """How each method is shown, by its name; the first run that has it decides."""
    found: dict[str, dict[str, str]] = {}
    for entry in entries:
        for name in entry.results.cards.in_order([*entry.rows["method"], *entry.ceilings["method"]]):
            card = entry.results.cards.method(name)
            shown = {"label": card.label, "family": card.family, **shades(card.colour)}
            found.setdefault(name, shown)
    return found


def _run(entry: Entry, link: str | None, configuration: int) -> dict[str, Any]:
    """What is told of a run; those of one `configuration` have the same number."""
    manifest, machine = entry.manifest, entry.manifest.get("machine") or {}
    return {
        "name": entry.name,
        "suite": manifest.get("suite"),
        "network": entry.network,
        "dataset": manifest.get("dataset"),
        "device": entry.device,
        "clock": str(manifest["clock"]).partition(":")[0],
        "stream": entry.stream,
        **entry.settings,
        "configuration": configuration,
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
    titles, cards = full_titles(entry.results), entry.results.cards
    unranked = entry.ceilings.drop(columns=["rank", "verdict"], errors="ignore")
    rows = pd.concat([entry.rows, unranked.assign(oracle=True)]) if len(unranked) else entry.rows
    return [
        {
            "run": number,
            "method": row["method"],
            "protocol": cards.title(row["protocol"]),
            "scenario": titles[int(row["scenario"])],
            "verdict": _verdict(row["verdict"]) if row["rank"] == 1 else None,
            "oracle": row.get("oracle") is True,
            **{name: _number(row[name]) for name in _NUMBERS},
        }
        for _, row in rows.iterrows()
    ]


def _verdict(found: Any) -> str:
    return found if isinstance(found, str) else UNKNOWN


def _history(runs: Sequence[Entry]) -> dict[str, Any]:
    first = runs[0]
    shifts = shift_words(first.manifest["shifts"])
    data = f"{first.settings['dataset']} at severity {first.settings['severity']}"
    about = (
        f"{first.manifest.get('suite') or first.network}, {first.stream}, {shifts} of {data}, "
        f"batches of {first.settings['batch_size']}, {first.device}"
    )
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
    return files("tempora_tta.report.board").joinpath("templates", name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda part: _write_text(part, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
