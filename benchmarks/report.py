"""CPU seconds that analysis and report take for a run of the paper's size, and how big and how quick the page is.

    python benchmarks/report.py                    15 shifts x 12 methods x 17 scenarios x 781 batches
    python benchmarks/report.py --browser          also times the page in Chromium (needs selenium)
    python benchmarks/report.py --shifts 16 --methods 21 --browser          clean images and nine methods more

The run is made up (numpy streams scored by the real scenarios) and written to disk first, which is not timed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import pyarrow.parquet as parquet
import typer

from common import JsonFile, console, timed, write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import tempora_tta as tempora
from made_runs import METHODS, WIDE_GRID, Pace, write_run
from tempora_tta import analysis
from tempora_tta.analysis.outcomes import CLEAN
from tempora_tta.published.setups import CORRUPTIONS
from tempora_tta.report.figures import make_figures
from tempora_tta.report.html import charts, write_report

PACES = {
    **METHODS,
    "neo": Pace(9.5, 0.0, 0.34),
    "eta": Pace(10.5, 13.0, 0.55),
    "shot_im": Pace(10.5, 17.5, 0.52),
    "deyo": Pace(11.2, 21.0, 0.57),
    "cmf": Pace(10.5, 29.5, 0.59),
    "spa": Pace(15.0, 47.5, 0.58),
    "zerosiam": Pace(12.5, 22.5, 0.56),
    **{
        name: Pace(10.5 + 0.3 * place, 2.5 * place, 0.4 + 0.015 * place)
        for place, name in enumerate(
            ("alpha_bn", "t3a", "eata", "rdumb", "roid", "rotta", "foa", "cotta", "memo")
        )
    },
}


def analyse(folder: Path) -> None:
    """What the overview and the tables need."""
    utilities = tempora.open_run(folder).utilities
    cells = analysis.winners(utilities)
    analysis.win_counts(cells)
    analysis.headline(utilities)
    analysis.correlation_summary(analysis.correlations(utilities))
    analysis.findings(utilities)
    analysis.break_even(utilities)
    analysis.phase_transitions(cells)
    analysis.pareto_front(analysis.pool(utilities))


def page_times(page: Path) -> dict[str, float]:
    """Milliseconds until the page is ready, and per movement of its slider, in Chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tempfile.mkdtemp()}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        found = _opening(driver, page, WebDriverWait)
        for protocol in ("continuous", "discrete", "amortised"):
            choose, slide = driver.execute_script(
                """const tab = document.querySelector(`#protocols input[value=${arguments[0]}]`);
                const before = performance.now();
                if (!tab.checked) tab.click();
                const chosen = performance.now(), slider = document.getElementById("slider");
                for (let step = 0; step < 40; step++) {
                  slider.value = 25 * step;
                  slider.dispatchEvent(new Event("input"));
                }
                return [chosen - before, (performance.now() - chosen) / 40];""",
                protocol,
            )
            found |= {f"{protocol}_choose_ms": choose, f"{protocol}_slide_ms": slide}
        return found
    finally:
        driver.quit()


def _opening(driver: Any, page: Path, wait: Any, times: int = 5) -> dict[str, float]:
    """From asking for the page until it is drawn: the best and the median of some times, and the CPU time of its
    thread, which other users of the machine change least."""
    driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    ready_ms, cpu_ms = [], []
    for _ in range(times):
        driver.get("about:blank")
        start = time.perf_counter()
        _open(driver, page, wait)
        ready_ms.append(1000 * (time.perf_counter() - start))
        metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        cpu_ms.append(1000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration"))
    return {
        "ready_ms": min(ready_ms),
        "ready_median_ms": median(ready_ms),
        "ready_cpu_ms": median(cpu_ms),
    }


def _open(driver: Any, page: Path, wait: Any) -> None:
    driver.get(page.as_uri())
    wait(driver, 60, poll_frequency=0.02).until(
        lambda one: one.execute_script("return document.documentElement.dataset.ready === 'true'")
    )


def read_passes(folder: Path) -> None:
    """The least that showing a run can cost: reading every pass once."""
    for path in (folder / "traces").glob("*.parquet"):
        parquet.read_table(path)


def main(
    shifts: Annotated[int, typer.Option(help="How many corruptions; 16: clean images, too.")] = 15,
    methods: Annotated[int, typer.Option(help="How many methods, 21 at most.")] = 12,
    batches: int = 781,
    keep: Annotated[Path | None, typer.Option(help="Make the run in this folder and leave it there.")] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in Chromium too.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Print and write the seconds of each part, and how they compare with reading the run."""
    folder = keep or Path(tempfile.mkdtemp())
    if not (folder / "run.json").exists():
        names, paces = (*CORRUPTIONS, CLEAN)[:shifts], dict(list(PACES.items())[:methods])
        sizes = {"batches": batches, "batch_size": 64}
        write_run(folder, methods=paces, scenarios=WIDE_GRID, shifts=names, **sizes)
    figures: dict[str, float] = {"shifts": shifts, "methods": methods, "batches": batches}
    read_passes(folder)  # from here on the files are in memory
    _, figures["read_s"] = timed(lambda: read_passes(folder))
    _, figures["analysis_s"] = timed(lambda: analyse(folder))
    _, figures["chart_library_s"] = timed(charts.scripts)
    page, figures["report_s"] = timed(lambda: write_report(tempora.open_run(folder)))
    figures["page_mb"] = page.stat().st_size / 1e6
    _, figures["figures_s"] = timed(lambda: make_figures(tempora.open_run(folder), folder / "figures"))
    for part in ("analysis", "report", "figures"):
        figures[f"{part}_over_read"] = figures[f"{part}_s"] / figures["read_s"]
    if browser:
        figures |= page_times(page)
    for name, value in figures.items():
        console.print(f"{name:22} {value:8.2f}")
    write(figures, json_file)
    if keep is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    typer.run(main)
