"""How figures look, and how they are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempora_tta._plain_text import visible
from tempora_tta.store.atomic import remove_leftovers, write_atomically
from tempora_tta.store.verdicts import verdict_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tempora_tta.store import Results

INK, SOFT, FAINT, LINE = "#1b1d21", "#5c626c", "#9aa0a8", "#e4e5e3"
BEST, BELOW = "#dcefe3", "#ececea"
"""Where the best method leads; what is worse than standard inference."""

_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Helvetica Neue", "Arial", "DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "tempora",
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and edited
    # Names are text: a dollar sign in one starts no formula.
    "text.parse_math": False,
}


@contextmanager
def styled() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        yield


def new_figure(width: float, height: float, **grid: Any) -> tuple[Figure, Any]:
    """A figure of so many inches, and its axes: one, or an array of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**grid)


def tell(figure: Figure, finding: str) -> None:
    """Say what the figure shows, for whoever does not see it: `save` writes it into the file."""
    figure.set_label(" ".join(visible(finding).split()))


def save(figure: Figure, path: Path) -> Path:
    """Write the figure whole or not at all, with what it shows in words; the same run gives the same bytes."""
    kind, title, finding = path.suffix[1:], path.stem.capitalize(), str(figure.get_label())
    about: dict[str, dict[str, str | None]] = {
        "svg": {"Date": None, "Title": f"{title}. {finding}"},  # the element that browsers read out
        "pdf": {"CreationDate": None, "Title": title, "Subject": finding},
        "png": {"Software": None, "Title": title, "Description": finding},
    }
    remove_leftovers(path.parent, path.name)
    write_atomically(
        path,
        lambda file: figure.savefig(
            file, format=kind, dpi=200, metadata=about[kind], bbox_inches="tight", facecolor="white"
        ),
    )
    return path


def bare(axes: Axes) -> None:
    """No frame and no ticks: for diagrams."""
    axes.spines[:].set_visible(False)
    axes.set_yticks([])


def short(name: str, limit: int = 28) -> str:
    """A name that fits beside a figure.

    >>> short("a" * 40)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaa…'
    """
    return name if len(name) <= limit else name[: limit - 1] + "…"


def verdict_note(figure: Figure, results: Results) -> None:
    """Say on the figure itself, below everything else, that its timing is not to be trusted."""
    verdict = verdict_of(results.manifest)
    if verdict.doubtful:
        figure.text(
            0.995, -0.01, f"timing {verdict.status}", ha="right", va="top", color="#b3261e", weight="bold"
        )
