"""Makes the pictures of README and docs from a run: `python docs/make_images.py RUN`.

From a demo, README's picture and the words that README quotes:

    tempora demo && python docs/make_images.py tempora-demo

From another run those of the docs, which are of this one (about ten minutes on two cores); the screenshot needs
Chromium:

    tempora run --clock published:rn50_inc --methods standard,neo,lame,adabn,tent,eta,shot_im,deyo,cmf,sar \
        --shifts impulse_noise,defocus_blur,brightness,contrast --batches 40 --threads 1 --out runs/picture
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
KEPT = ("winners", "utility", "timelines")
CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--virtual-time-budget=8000"),
)


def main(run: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    results = open_run(run)
    if "demo" in results.manifest.get("machine", {}).get("command", [])[1:2]:
        of_demo(results)
    else:
        of_docs(results)


def of_demo(results: Results) -> None:
    """Utility against pressure, and the list of settings with the sentences that it comes down to."""
    with tempfile.TemporaryDirectory() as scratch:
        (figure,) = (one for one in save(results, Path(scratch), ["png"]) if one.stem == "pressure")
        shutil.copy(figure, IMAGES / "demo.png")
    told = overview(results)
    sentences = textwrap.wrap(" ".join(words.summary(told)), words.WIDTH)
    quoted = "\n".join([*words.legend(told["answers"]), "", *words.listing(told["answers"]), "", *sentences])
    page = README.read_text(encoding="utf-8")
    between = re.compile(r"(<!-- demo -->\n```text\n).*?(```\n<!-- end -->)", re.DOTALL)
    page, found = between.subn(lambda match: f"{match[1]}{quoted}\n{match[2]}", page)
    if found != 1:
        raise ValueError(f"README.md has {found} places for what the demo says, expected 1")
    README.write_text(page, encoding="utf-8")


def of_docs(results: Results) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for figure in save(results, Path(scratch), ["png"]):
            if figure.stem in KEPT:
                shutil.copy(figure, IMAGES / figure.name)
        page = write_report(results, Path(scratch) / "report.html")
        screenshot(page, IMAGES / "report.png", Path(scratch))


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
