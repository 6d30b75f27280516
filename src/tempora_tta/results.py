"""Results as users hold them: the tables of a run, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tempora_tta import store
from tempora_tta.analysis.answer import Answer
from tempora_tta.analysis.cells import stack
from tempora_tta.analysis.of_run import cells_of, winners_of
from tempora_tta.analysis.question import Question
from tempora_tta.analysis.recommend import recommend
from tempora_tta.analysis.sizes import recommend_of_sizes
from tempora_tta.errors import unknown
from tempora_tta.store import of_sizes

if TYPE_CHECKING:
    import altair as alt


class Results(store.Results):
    """The results of a run. `tempora.open_run(folder)` and `tempora.evaluate(...)` return one.

    `utilities` (one row per method, shift, seed and scenario), `traces` (one row per batch) and `segments` are
    pandas data frames; the methods below answer questions. A notebook shows the answer and who wins where.
    """

    @property
    def cells(self) -> pd.DataFrame:
        """The table from which all answers follow: a row per method, scenario and shift, seeds pooled.

        The shift `all` holds all shifts that count together. A row has `rank`, `gap` (to the best),
        `standard_utility`, the terms of its utility and its interval over other samples (`sample_lo`, `sample_hi`);
        `verdict`, `why` and `p_best` say how sure the winner of the cell is.
        """
        return cells_of(self)

    def winners(self) -> pd.DataFrame:
        """Return who wins where, and how sure that is: one row per shift and scenario, seeds taken together.

        `method` is the winner, `verdict` one of holds, equal (with those in `equal_with`, within half a point) and
        undecided, `why` timing or sampling where it is undecided, `p_best` the probability that no other method is
        better.
        """
        return winners_of(self)

    def recommend(self, **knobs: Any) -> Answer:
        """Return the method to use in one deployment, with `.why`, `.interval`, `.ranking` and `.to_json()`.

        Describe the deployment with the knobs of `analysis.Question`: `fps`, `cameras` and `answer`, `rate_hz`
        or `interval_ms`; `deadline_ms` or `threshold_ms`; `budget_s`; or a `scenario`. Limits: `p90_ms`, `p95_ms`,
        `p99_ms`, `availability`, `budget_j`, `memory_mb`. `shifts` names those that count.
        """
        return self.answer(_question(knobs))

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question."""
        return recommend(self, question)

    def plot(self, name: str = "pressure", shift: str | None = None) -> alt.typing.ChartType:
        """Draw a chart of the run with Altair: utility against pressure, or one of `report.charts.CHARTS` by name.

        `shift` draws utility against pressure on that shift alone.
        """
        from tempora_tta.report.charts import drawn

        return drawn(self, name, shift)

    def report(self, path: Path | str | None = None) -> Path:
        """Write the report, one page that opens in any browser, and say where it is.

        By default that is the run's folder; results of a run that has only a temporary one leave `report.html` here.
        """
        from tempora_tta.report.html import write_report

        if path is None and self.keeps_alive is not None:
            path = Path("report.html")
        return write_report(self, path)

    def __repr__(self) -> str:
        from tempora_tta.report.notebook import lines

        return "\n".join(lines(self))

    def _repr_html_(self) -> str:
        from tempora_tta.report.notebook import to_html

        return to_html(self)


class Runs(Mapping[str, Results]):
    """Several runs as one: their tables with a column `run`."""

    by = "run"

    def __init__(self, runs: Mapping[str, Results]) -> None:
        self._runs = dict(runs)

    def __getitem__(self, name: str) -> Results:
        return self._runs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def utilities(self) -> pd.DataFrame:
        return self._stack({name: run.utilities for name, run in self.items()})

    @property
    def cells(self) -> pd.DataFrame:
        return self._stack({name: run.cells for name, run in self.items()})

    def winners(self) -> pd.DataFrame:
        return self._stack({name: run.winners() for name, run in self.items()})

    def _stack(self, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        return stack(tables, self.by)

    def __repr__(self) -> str:
        return "\n\n".join(f"{name}\n{run!r}" for name, run in self.items())


class Sizes(Runs):
    """One run at several batch sizes: its tables with a column `batch_size`."""

    by = "batch_size"

    def __init__(self, path: Path | str, folders: Mapping[int, Path]) -> None:
        super().__init__({str(size): Results.opened(folder) for size, folder in folders.items()})
        self.path = Path(path)

    def _stack(self, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        return stack({int(size): table for size, table in tables.items()}, self.by)

    def recommend(self, **knobs: Any) -> Answer:
        """Return the method and the batch size to use in one deployment; knobs as in `Results.recommend`."""
        return self.answer(_question(knobs))

    def answer(self, question: Question) -> Answer:
        return recommend_of_sizes({int(size): run for size, run in self.items()}, question, str(self.path))


def open_run(path: Path | str) -> Results | Sizes:
    """Open a run folder or a pack (`tempora pack`) for reading; of a run at several batch sizes, all of them."""
    folders = of_sizes(path)
    return Sizes(path, folders) if folders else Results.opened(path)


def open_runs(paths: Iterable[Path | str]) -> Runs:
    """Open several run folders or packs as one, each called by its last name; by its path if two share that."""
    given = [Path(path) for path in paths]
    shared = len({path.name for path in given}) < len(given)
    found: dict[str, Results] = {}
    for path in given:
        name, folders = str(path) if shared else path.name, of_sizes(path)
        parts = {f"{name}/{folder.name}": folder for folder in folders.values()} or {name: path}
        found |= {part: Results.opened(folder) for part, folder in parts.items()}
    return Runs(found)


def _question(knobs: Mapping[str, Any]) -> Question:
    allowed = [field.name for field in fields(Question)]
    for name in knobs:
        if name not in allowed:
            raise unknown("knob of a deployment", name, allowed)
    return Question(**knobs)
