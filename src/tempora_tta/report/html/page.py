"""The page: what is said in words and tables is written here, what moves is left to its scripts."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tempora_tta import words
from tempora_tta.analysis.answer import overview
from tempora_tta.analysis.diagnoses import problems
from tempora_tta.analysis.notes import notes
from tempora_tta.analysis.of_run import cells_of, remedy, summary_of
from tempora_tta.analysis.stream import stream_story
from tempora_tta.cards import Cards
from tempora_tta.errors import TemporaError
from tempora_tta.report import check_docstrings
from tempora_tta.report.charts import CHARTS
from tempora_tta.report.courses import ARRIVALS, PIPELINE, SECOND, course_chart
from tempora_tta.report.drawing import PARTS, as_json, between, chart_of, hover, utility_axis
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.html.glossary import glossary
from tempora_tta.report.html.packing import compress
from tempora_tta.report.html.payload import axes, payload, winners_grid
from tempora_tta.report.pressure import panels
from tempora_tta.report.tables import all_tables
from tempora_tta.report.vega import alt
from tempora_tta.store import Results
from tempora_tta.store.atomic import remove_leftovers, write_atomically
from tempora_tta.store.pictures import read_pictures
from tempora_tta.store.verdicts import verdict_of

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = (
    "data.js",
    "dom.js",
    "charts.js",
    "whatif.js",
    "cell.js",
    "sort.js",
    "tables.js",
    "main.js",
)
"""In the order in which they build on each other."""

FACTS = ("device", "cpu", "gpu", "driver", "cores", "threads", "governor", "system", "python", "commit")
"""Facts of the machine that are shown, where run.json has them."""


def write_report(results: Results, path: Path | str | None = None) -> Path:
    """Write the report of a run, by default as `report.html` into its folder or next to its pack; return its path."""
    usual = results.opened_from.with_suffix(".html") if results.is_packed else results.path / "report.html"
    target = usual if path is None else Path(path)
    text = render(results)
    remove_leftovers(target.parent, target.name)
    write_atomically(target, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
    return target


def render(results: Results) -> str:
    """Return the page as text."""
    check_docstrings()
    utilities = results.contenders
    if utilities.empty:
        raise TemporaError(
            f"{results.path} has no finished shift yet: let the run finish, then ask for the report again"
        )
    cards, batches, summary = results.cards, offline_batches(results), summary_of(results)
    data = payload(results)
    drawn = {name: made for name in ("latency", "pareto", "stream") if (made := CHARTS[name](results))}
    protocols = dict.fromkeys(slider["protocol"] for slider in data["sliders"])
    axis_titles = [(protocol, cards.scenario(protocol).axis) for protocol in protocols]
    told, pressures = overview(results), panels(results)
    whole = drawn | {f"pressure_{kind}": made for kind, made in pressures.items()}
    data["charts"] = specifications(axis_titles) | {
        name: as_json(chart) | {"width": "container"} for name, (chart, _) in whole.items()
    }
    data["findings"] = {kind: finding for kind, (_, finding) in pressures.items()}
    own, library = one_script(*map(template, SCRIPTS)), scripts()
    page = _environment(cards).get_template("report.html")
    return page.render(
        manifest=results.manifest,
        verdict=verdict_of(results.manifest),
        utilities=utilities,
        methods=data["methods"],
        shifts=data["shifts"],
        counted=data["counted"],
        seeds=data["seeds"],
        scenarios=data["scenarios"],
        sliders=data["sliders"],
        baseline_ms=data["baseline_ms"],
        answer=" ".join(words.summary(told)),
        notes=notes(results),
        told=told,
        legend=words.legend(told["answers"]),
        pictures_of={kind: cards.scenario(kind).situation for kind in pressures},
        certainty=words.sureness(vars(summary)),
        remedy=remedy(summary, results),
        problems=problems(results, batches, {one["method"] for one in told["stretches"]}),
        stream_story=stream_story(results),
        drawn={name: finding for name, (_, finding) in drawn.items()},
        grid=winners_grid(results, axes(results)),
        tables=all_tables(results.utilities, batches, cards, cells_of(results), results.segments),
        machine=_machine(results.manifest),
        command=shlex.join(results.manifest.get("machine", {}).get("command", [])),
        not_scored=_not_scored(utilities),
        parts=PARTS,
        glossary=glossary(results),
        pictures=read_pictures(results.path),
        style=template("style.css"),
        library=library,
        script=own,
        allowed_scripts=" ".join(script_hash(text) for text in (library, own)),
        payload=compress(data),
    )


def _machine(manifest: Mapping[str, Any]) -> dict[str, str]:
    facts = manifest.get("machine", {})
    shown = {name: str(facts[name]) for name in FACTS if facts.get(name) not in (None, "", [])}
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    return {**shown, **({"versions": versions} if versions else {})}


def _not_scored(utilities: pd.DataFrame) -> list[dict[str, Any]]:
    """Cells without a number: who, why, how many and which."""
    rows = utilities[utilities["status"] != "ok"]
    return [
        {
            "method": method,
            "reason": reason,
            "cells": len(part),
            "labels": ", ".join(part["label"].drop_duplicates()),
            "shifts": part["shift"].nunique(),
        }
        for (method, reason), part in rows.groupby(["method", "status"], sort=False)
    ]


def _environment(cards: Cards) -> Environment:
    found = environment({"report.html": template("report.html")})
    found.filters.update(
        label=cards.label,
        title=cards.title,
        situation=lambda protocol: cards.scenario(protocol).situation,
        setting=words.setting,
        value=words.value,
        mark=words.MARKS.get,
        shift_title=words.shift_title,
    )
    return found


def environment(pages: Mapping[str, str]) -> Environment:
    """Return the environment that makes pages: names are text, and methods have their colours."""
    from jinja2 import DictLoader, Environment

    shared = {name: template(name) for name in ("methods.css", "table.html")}
    loader = DictLoader({**pages, **shared})
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def one_script(*scripts: str) -> str:
    """Return our scripts as one, in a block so that they share no names with other scripts."""
    return '"use strict";\n{\n' + "\n".join(scripts) + "}\n"


def template(name: str) -> str:
    """Return one of the page's files: style, scripts, frame."""
    return files("tempora_tta.report.html").joinpath("templates", name).read_text(encoding="utf-8")


def script_hash(script: str) -> str:
    """Return the name of a script in the page's security policy; no other script may run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"


# -- charts that the scripts feed ----------------------------------------------------------------------------
# They hold no data: the page's scripts feed the named data sets as the reader moves a slider or opens a cell. Colours
# of methods come with the rows, because they depend on whether the page is light or dark.


@cache
def scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that needs no network (BSD-3-Clause)."""
    import vl_convert
    from altair.utils._importers import vl_version_for_vl_convert

    return vl_convert.javascript_bundle(vl_version=vl_version_for_vl_convert())  # type: ignore[call-arg]


def specifications(axes: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Return the charts that the page's scripts feed, by name; `axes` are protocols and their axis titles."""
    blocks, arrivals = alt.NamedData("blocks"), alt.NamedData("arrivals")
    timeline = course_chart(blocks, arrivals, [ARRIVALS, PIPELINE, SECOND], legend=None)
    charts = {f"curves_{protocol}": curves(title) for protocol, title in axes}
    charts["timeline"] = timeline.properties(width="container", height=130)
    return {name: as_json(chart) for name, chart in charts.items()}


def curves(title: str) -> Any:
    """Draw utility against pressure: dots where evaluated, the best of them ringed, a line at the slider."""
    x = alt.X(
        "x:Q", title=title, scale=alt.Scale(type="log", nice=False, padding=12), axis=alt.Axis(grid=False)
    )
    tooltip = hover(
        Method="label:N", Scenario="scenario:N", Utility="utility_text:N", With_other_batches="sample:N"
    )
    faded = alt.condition("picked == '' || datum.method == picked", alt.value(1.0), alt.value(0.12))
    base = chart_of(alt.NamedData("rows")).encode(
        x=x,
        y=utility_axis().scale(zero=False),
        color=alt.Color("colour:N", scale=None, legend=None),
        opacity=faded,
        detail="method:N",
    )
    lines = base.mark_line(strokeWidth=2, clip=True).encode(
        strokeDash=alt.condition("datum.guide", alt.value([2, 4]), alt.value([1, 0])),
    )
    whiskers = base.transform_filter("isValid(datum.lo)").mark_rule(strokeWidth=1.4, clip=True)
    dots = base.transform_filter("datum.evaluated").mark_point(filled=True, size=46, opacity=1, clip=True)
    best = base.transform_filter("datum.best").mark_point(filled=False, size=190, strokeWidth=1.8, clip=True)
    here = alt.Chart(alt.NamedData("here")).mark_rule(strokeWidth=1.2, strokeDash=[2, 3], color="#888")
    return (
        alt.layer(
            here.encode(x="x:Q"),
            lines,
            whiskers.encode(**between("lo", "hi")),
            best.encode(tooltip=tooltip),
            dots.encode(tooltip=tooltip),
        )
        .add_params(alt.param("picked", value=""))
        .properties(width="container", height=320)
    )
