"""Every numeric table and figure of the paper by its label, and every number that it prints.

The tables are read off the column `source` of our copies, so a label that is there has an element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import pandas as pd

from tempora_tta.errors import unknown
from tempora_tta.published.reading import TABLES, half_unit, printed, table

KEYS = ("setup", "shift", "method", "protocol", "label", "group", "variant", "factor")
"""Columns that say which number of a table one is."""
_NO_NUMBERS = (*KEYS, "model", "dataset", "hardware", "parameter", "value", "source", "cells", "baseline_ms")
_RANKED = {"rn50_inc": "table:rn50-val-offline", "vit_inc": "table:val-offline"}
"""Tables of four corruptions with ranks, which are kept with the accuracies of all fifteen."""
_ONLY: Mapping[str, tuple[str, ...]] = {
    "table:buffering-rn50-avail-utility": ("availability", "utility", "rank"),
    "table:buffering-rn50-response": ("waitspan_ms", "response_ms", "response_sd_ms"),
}
"""Two tables that print other columns of the same rows."""
FIGURES = {
    "fig:tempora-summary": ("winners", ("rn50_inc",)),
    "fig:tempora-metrics": ("timelines", ("rn50_inc",)),
    "fig:tempora-results": ("utility", ("rn50_inc", "vit_inc")),
    "fig:protocol-comparison": ("protocols", ("rn50_inc",)),
    "claim:pareto": ("pareto", ("rn50_inc",)),
}
"""Label -> the name of ours, and the setups that it shows; the claim is a sentence of section 3."""
UNEVEN = ("lame", "eta", "deyo", "cmf")
"""Methods that skip updates, or whose work follows the images."""
DRAWS_NOTHING = ("standard", "adabn", "lame", "neo")
"""Methods whose numbers follow from the order of the images alone."""
BY_TIME = ("timelines", "protocols")
"""Figures of nothing but times."""


@dataclass(frozen=True)
class Element:
    """A table or figure of the paper."""

    label: str
    setups: tuple[str, ...]
    part: str = ""
    """`buffering` and `ablation` take runs of their own."""
    figure: str = ""
    """The name of a figure among ours."""

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of the runs that it is made of."""
        return tuple(f"{setup}-{self.part}" if self.part else setup for setup in self.setups)


@cache
def numbers() -> pd.DataFrame:
    """Return every number: its element, table, keys and column; what is `printed`, half a unit, and the text.

    >>> len(numbers())
    6105
    """
    return pd.concat([_of_table(name) for name in TABLES], ignore_index=True)


def _of_table(name: str) -> pd.DataFrame:
    values, units, texts = table(name), half_unit(name), printed(name)
    keys = [key for key in (*KEYS, "value") if key in values]
    parts = []
    for place, column in enumerate(values.columns):
        if column in _NO_NUMBERS:
            continue
        text = texts.iloc[:, place]  # columns are renamed in their places
        unit = units[column] if column in units and column != "winner" else float("nan")
        part = values[[*keys, "source"]].assign(
            table=name, column=column, printed=values[column].astype(object), half_unit=unit, text=text
        )
        parts.append(part[text != ""])
    found = pd.concat(parts, ignore_index=True)
    found["element"] = [_label(*row) for row in found[["source", "setup", "table", "column"]].to_numpy()]
    return found.drop(columns="source")


def _label(source: str, setup: str, name: str, column: str) -> str:
    if (name, column) == ("offline", "rank"):
        return _RANKED[setup]
    labels = source.split(";")
    return next(label for label in labels if column in _ONLY.get(label, (column,)))


@cache
def elements() -> Mapping[str, Element]:
    """Return every element by its label: tables in the order of our copies, then figures."""
    found = {}
    for label, rows in numbers().groupby("element", sort=False):
        name, setups = str(rows["table"].iloc[0]), tuple(dict.fromkeys(rows["setup"]))
        part = name if name in ("buffering", "ablation") else ""
        found[str(label)] = Element(str(label), setups, part)
    figures = {label: Element(label, setups, figure=figure) for label, (figure, setups) in FIGURES.items()}
    return {**found, **figures}


def element(label: str) -> Element:
    """Return one element by its label."""
    if label not in elements():
        raise unknown("element of the paper", label, elements())
    return elements()[label]
