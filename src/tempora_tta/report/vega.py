"""Vega-Altair, or a clear error where Python cannot import it."""

from tempora_tta.report import check_docstrings

check_docstrings()
import altair as alt  # noqa: E402

__all__ = ["alt"]
