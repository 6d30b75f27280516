"""Makes the pictures of README and docs from a run: `python docs/make_images.py RUN`.

The ones in the repository are of this run (about ten minutes on two cores):

    tempora run --clock published:rn50_inc --shifts impulse_noise,defocus_blur,brightness,contrast --batches 40 \
        --threads 1 --out runs/picture

The screenshot needs Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tempora.report.figures import make_figures
from tempora.report.html import write_report
from tempora.store import open_run

IMAGES = Path(__file__).parent / "images"
KEPT = ("winners", "utility", "timelines")
CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--virtual-time-budget=8000"),
)


def main(run: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    results = open_run(run)
    with tempfile.TemporaryDirectory() as scratch:
        for figure in make_figures(results, Path(scratch), ["png"]):
            if figure.stem in KEPT:
                shutil.copy(figure, IMAGES / figure.name)
        page = write_report(results, Path(scratch) / "report.html")
        screenshot(page, IMAGES / "report.png", Path(scratch))


def screenshot(page: Path, image: Path, scratch: Path) -> None:
    """The top of the report, as a browser shows it."""
    options = [
        f"--user-data-dir={scratch / 'profile'}",
        "--window-size=1200,1500",
        f"--screenshot={image.resolve()}",
    ]
    subprocess.run([*CHROMIUM, *options, page.resolve().as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
