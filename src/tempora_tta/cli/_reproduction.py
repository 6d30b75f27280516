"""The paper's tables and figures, made by the commands that there are: what `tempora reproduce` does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from tempora_tta import analysis, published
from tempora_tta.analysis import reproduction
from tempora_tta.cli.execute import execute, prepare_environment
from tempora_tta.cli.show import print_table
from tempora_tta.cli.terminal import console as new_console
from tempora_tta.cli.terminal import print_entries, say
from tempora_tta.data.registry import find
from tempora_tta.engine.load_config import validated
from tempora_tta.errors import TemporaError
from tempora_tta.published.elements import BY_TIME, Element, element, elements
from tempora_tta.report.charts import save
from tempora_tta.report.frames import offline_batches
from tempora_tta.report.reproduced import laid_out, page, state
from tempora_tta.results import Results

PAGE, STAND_IN = "REPRODUCED.md", "stand-in"
CHECKPOINT = "resnet18_cifar10.safetensors"
NETWORKS = {"resnet50": "resnet50", "vit_b16": "vit_b_16", "resnet18": "cifar_resnet18"}
QUICK_BATCHES = 4
NEAR = 0.0005
"""Distance of Standard's offline accuracy from the printed one that the preflight lets pass."""
PARTS = ("buffering", "ablation")
"""Parts of a setup that are runs of their own."""


@dataclass(frozen=True)
class Kit:
    """A folder of reproductions, and how they are made."""

    out: Path
    root: Path | None
    times: str
    seeds: int
    quick: bool

    def make(self, what: str) -> None:
        """Run what the elements need where the data are there, draw the figures, and write the page."""
        chosen = list(elements().values()) if what == "all" else [element(what)]
        prepare_environment()
        for run in dict.fromkeys(run for one in chosen for run in one.runs):
            setup, _, part = run.partition("-")
            if self._data(published.setup(setup)) is not None:
                values = self._configuration(published.setup(setup), part)
                self._preflight(setup, values)
                folder = self.out / (f"{run}-quick" if self.quick else run)
                execute(validated(values), folder, say_how_long=not self.quick)
        for one in chosen:
            for setup in one.setups if one.figure else ():
                results = self._opened(setup) or (self._stand_in(setup) if one.figure in BY_TIME else None)
                if results is not None:
                    save(results, self._figures(setup), names=[one.figure])
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / PAGE).write_text(self._page(), encoding="utf-8")
        say(str(self.out / PAGE))

    def show(self, label: str, numbers: str, format: str) -> None:
        """Print a table in the paper's layout."""
        print_table(laid_out(element(label).label, self._compared, numbers), format, new_console())

    def list(self) -> None:
        """Print every element, the runs behind it, and what there is of it."""
        found = [(label, ", ".join(one.runs), self._state(one)) for label, one in elements().items()]
        print_entries(new_console(), found)

    def verdict(self) -> None:
        """Print the page; exit status 1 if a number differs and is not explained."""
        say(self._page())
        if (self._compared["verdict"] == reproduction.DIFFERS).any():
            raise typer.Exit(1)

    # -- runs ------------------------------------------------------------------------------------------------

    def _data(self, found: published.Setup) -> Path | None:
        """Return the folder of a setup's data; None: the data, or the weights that no host offers, are not there."""
        if self.root is None or (found.model == "resnet18" and not (self.root / CHECKPOINT).exists()):
            return None
        folder = self.root / find(found.dataset).folder
        return folder if folder.is_dir() else None

    def _configuration(self, found: published.Setup, part: str) -> dict[str, Any]:
        """The run of a setup, as `tempora run` takes it; buffering and ablation have scenarios of their own."""
        printed = self.times == "published"
        shifts = list(found.shifts)
        values: dict[str, Any] = {
            "model": NETWORKS[found.model],
            "methods": list(published.table("offline", found.name)["method"].unique()),
            "grid": f"published:{found.name}",
            "preset": "paper",
            "clock": f"published:{found.name}" if printed else "measured",
            "seeds": [2025 + number for number in range(self.seeds)],
        }
        if (found.model, found.dataset) in (("vit_b16", "imagenet_r"), ("vit_b16", "imagenet_v2")):
            values["preprocessing"] = {"crop_pct": 0.875, "interpolation": "bilinear"}
        if found.model == "resnet18" and self.root is not None:
            values["checkpoint"] = str(self.root / CHECKPOINT)
        if part == "buffering":
            pace = {"protocol": "discrete", "interval_ms": found.baseline_ms}
            values |= {"grid": "none", "scenarios": [{**pace, "queue": queue} for queue in (0, 1)]}
        if part == "ablation":
            shifts = list(published.table("ablation", found.name)["shift"].unique())
            star = {
                "name": "shot_im",
                "label": "shot_im_star",
                "params": "norm",
                "source_stats": "reset",
            }
            other = {"name": "eta", "label": "eta_star", "source_stats": "keep"}
            stars = [{**one, "times_as": one["name"]} if printed else one for one in (star, other)]
            budget = {"protocol": "amortised", "budget_ms": 1000, "rule": "overshoot"}
            values |= {
                "methods": ["standard", "shot_im", "eta", *stars],
                "grid": "none",
                "scenarios": [budget],
            }
        if self.quick:
            values["batches"], shifts = QUICK_BATCHES, shifts[:1]
        return {**values, "data": {"dataset": found.dataset, "root": self._data(found), "shifts": shifts}}

    def _preflight(self, setup: str, values: dict[str, Any]) -> None:
        """Stop before hours are spent if Standard is not what the paper prints, and say what to look at."""
        shift = values["data"]["shifts"][0]
        printed = published.table("offline", setup).set_index(["shift", "method"])["accuracy"]
        if self.quick or (shift, "standard") not in printed:
            return
        alone: dict[str, Any] = {"methods": ["standard"], "grid": "none", "scenarios": [], "seeds": [2025]}
        alone |= {"clock": {"baseline_ms": 1}, "data": {**values["data"], "shifts": [shift]}}
        execute(validated({**values, **alone}), self.out / f"{setup}-preflight", quiet=True, plain=True)
        results = Results.opened(self.out / f"{setup}-preflight")
        reached, wanted = float(results.utilities["utility"].iloc[0]), float(printed[shift, "standard"])
        if abs(reached - wanted) > NEAR:
            versions = results.manifest["machine"]["versions"]
            raise TemporaError(
                f"{setup}: Standard is {100 * reached:.2f} % on {shift}, published {100 * wanted:.2f} %. Look at the "
                f"weights (sha256 {results.manifest['weights'][:12]}), the resizing of images and their order, and "
                f"TF32; this is {versions}"
            )

    def _stand_in(self, setup: str) -> Results:
        """A run on the bundled images under the printed times: its timelines are those of the paper's data."""
        values: dict[str, Any] = {
            "data": {"shifts": ["contrast"]},
            "methods": ["standard", "tent"],
            "batches": 60,
        }
        timing = {"grid": f"published:{setup}", "preset": "paper", "clock": f"published:{setup}"}
        execute(validated({**values, **timing}), self.out / STAND_IN, quiet=True, plain=True)
        return Results.opened(self.out / STAND_IN)

    # -- what became of it -----------------------------------------------------------------------------------

    def _opened(self, run: str) -> Results | None:
        """A finished run; None where there is none."""
        try:
            results = Results.opened(self.out / run)
        except TemporaError:
            return None
        return results if results.manifest["finished"] else None

    def _figures(self, setup: str) -> Path:
        return self.out / "figures" / setup

    @cached_property
    def _compared(self) -> pd.DataFrame:
        """Every printed number and ours: of the runs in the folder, else from the printed times."""
        made: dict[str, dict[str, pd.DataFrame]] = {}
        spread: dict[str, pd.DataFrame] = {}
        for name in published.setups():
            found = published.setup(name)
            made[name] = dict(reproduction.from_times(found)) if self.times == "published" else {}
            for part in ("", *PARTS):
                results = self._opened(f"{name}-{part}" if part else name)
                if results is None:
                    continue
                cells, batches = analysis.cells(results.utilities), offline_batches(results)
                whole = reproduction.from_run(cells, batches, found)
                made[name] |= {
                    key: rows for key, rows in whole.items() if key == part or not (part or key in PARTS)
                }
                if not part and (deviations := reproduction.deviations(results.utilities)) is not None:
                    spread[name] = deviations
        return reproduction.compared(made, spread, own_times=self.times == "own")

    def _page(self) -> str:
        states = {label: (_command(one), self._state(one)) for label, one in elements().items()}
        return page(self._compared, states, [f"Times: {self.times}."])

    def _state(self, one: Element) -> str:
        """Name what there is of an element, in classes; of the rest, which data and how many hours it needs."""
        setups = [published.setup(name) for name in one.setups]
        datasets = ", ".join(dict.fromkeys(found.dataset for found in setups))
        needs = f"not run: needs {datasets}, about {sum(map(reproduction.hours, setups)):.1f} h"
        if one.figure:
            drawn = [str(path) for name in one.setups for path in self._figures(name).glob(f"{one.figure}.*")]
            return ", ".join(drawn) or needs
        own = self._compared[self._compared["element"] == one.label]
        missing = own["verdict"] == reproduction.NOT_RUN
        return "; ".join(
            filter(None, [state(own[~missing]), f"{missing.sum()} {needs}" if missing.any() else ""])
        )


def _command(one: Element) -> str:
    return f"`tempora reproduce {'' if one.figure else 'show '}{one.label}`"
