"""A page that links the reports of several runs, and ranks their methods over all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from tempora_tta import analysis, words
from tempora_tta.analysis.answer import overview
from tempora_tta.analysis.of_run import cells_of
from tempora_tta.report.html.page import environment, one_script, script_hash, template, write_report
from tempora_tta.report.table import Column, Table, measured, of_methods
from tempora_tta.store import Results
from tempora_tta.store.atomic import remove_leftovers, write_atomically

SCRIPTS = ("sort.js",)


def write_reports(runs: Mapping[str, Results], folder: Path) -> Path:
    """Write the report of each run into a folder, and `index.html` that links them; return the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    linked = []
    for place, (name, results) in enumerate(runs.items(), 1):
        page = write_report(results, folder / f"{place}-{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}.html")
        told = overview(results)
        said = {"about": words.head(told["about"]), "timing": words.timing(told["about"])}
        linked.append({"name": name, "page": quote(page.name), "said": " ".join(words.summary(told)), **said})
    script = one_script(*map(template, SCRIPTS))
    text = (
        environment({"index.html": template("index.html")})
        .get_template("index.html")
        .render(
            runs=linked,
            ranking=ranking(runs),
            style=template("style.css"),
            script=script,
            allowed_scripts=script_hash(script),
        )
    )
    target = folder / "index.html"
    remove_leftovers(folder, target.name)
    write_atomically(target, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
    return target


def ranking(runs: Mapping[str, Results]) -> Table | None:
    """Return how far each method is behind the best of each cell under pressure, run by run; the best method first.

    None where fewer than two runs compare methods under pressure.
    """
    found = {}
    for name, results in runs.items():
        cells = cells_of(results)
        if cells["method"].nunique() > 1 and not cells["reference"].all():
            found[name] = analysis.regret(cells, results.cards)
    if len(found) < 2:
        return None
    stacked = analysis.stack(found)
    means = stacked.groupby("method")["mean_regret"].agg(["mean", "size"]).reset_index()
    means["everywhere"] = means["size"] == len(found)
    means = means.sort_values(["everywhere", "mean"], ascending=[False, True], kind="stable")
    low = {"mean_regret": False}
    columns = [
        part
        for name, rows in found.items()
        for part in measured(rows, {"mean_regret": Column(name, "percent", 1, "points behind the best")}, low)
    ]
    whole = means[means["everywhere"]].rename(columns={"mean": "mean_regret"})
    columns = [*measured(whole, {"mean_regret": Column("mean", "percent", 1)}, low), *columns]
    cards = next(iter(runs.values())).cards
    table = of_methods(list(means["method"]), columns, pd.DataFrame(stacked), cards)
    caption = f"Mean distance to the best method of each cell under pressure, {len(found)} runs"
    return Table("runs", caption, table.columns, table.rows, table.data)
