"""Make the pictures of README and docs, and the lines that README quotes, from a demo run.

    tempora demo && python docs/make_images.py tempora-demo

The screenshot of the report needs Chromium.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from tempora_tta import words
from tempora_tta.analysis.answer import overview
from tempora_tta.report.charts import save
from tempora_tta.report.html import write_report
from tempora_tta.store import Results, open_run

IMAGES = Path(__file__).parent / "images"
README = Path(__file__).parent.parent / "README.md"
FIGURES = {"pressure": "demo", "winners": "winners", "utility": "utility", "timelines": "timelines"}
"""Name of the figure -> name of the picture."""
CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--virtual-time-budget=8000"),
)


def main(run: Path) -> None:
    """Write every picture and README's quotation."""
    IMAGES.mkdir(exist_ok=True)
    results = open_run(run)
    with tempfile.TemporaryDirectory() as scratch:
        for figure in save(results, Path(scratch), ["png"]):
            if figure.stem in FIGURES:
                shutil.copy(figure, IMAGES / f"{FIGURES[figure.stem]}.png")
        page = write_report(results, Path(scratch) / "report.html")
        screenshot(page, IMAGES / "report.png", Path(scratch))
    quote(results)


def quote(results: Results) -> None:
    """Put the list of settings, and the sentences that it comes down to, into README."""
    told = overview(results)
    sentences = textwrap.wrap(" ".join(words.summary(told)), words.WIDTH)
    quoted = "\n".join([*words.legend(told["answers"]), "", *words.listing(told["answers"]), "", *sentences])
    page = README.read_text(encoding="utf-8")
    between = re.compile(r"(<!-- demo -->\n```text\n).*?(```\n<!-- end -->)", re.DOTALL)
    page, found = between.subn(lambda match: f"{match[1]}{quoted}\n{match[2]}", page)
    if found != 1:
        raise ValueError(f"README.md has {found} places for what the demo says, expected 1")
    README.write_text(page, encoding="utf-8")


def screenshot(page: Path, image: Path, scratch: Path) -> None:
    """The top of a page, as a browser shows it."""
    options = [
        f"--user-data-dir={scratch / 'profile'}",
        "--window-size=1200,1500",
        f"--screenshot={image.resolve()}",
    ]
    subprocess.run([*CHROMIUM, *options, page.resolve().as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
