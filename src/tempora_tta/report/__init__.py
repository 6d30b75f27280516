"""Tables, charts and the page of a run, from its results alone."""

from __future__ import annotations

import sys

from tempora_tta.errors import TemporaError


def check_docstrings() -> None:
    """Raise an error under Python without docstrings, which Altair copies from its own classes when imported."""
    if sys.flags.optimize > 1:
        raise TemporaError(
            "PYTHONOPTIMIZE=2 (python -OO) takes docstrings away, and charts cannot be drawn without them: use 0 or 1"
        )
