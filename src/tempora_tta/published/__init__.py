"""The paper's tables as data, and comparison with them. Pure: anyone may import it.

Tables hold fractions and milliseconds in the names of our own files (`table`), the text as printed
(`printed`) and the rounding of each number (`half_unit`).
"""

from tempora_tta.published.compare import Comparison, compare
from tempora_tta.published.inconsistencies import Inconsistency, known_inconsistencies
from tempora_tta.published.profiles import (
    INFERRED_NOTE,
    PROFILE_NOTE,
    known_accuracy,
    profile,
    profile_source,
)
from tempora_tta.published.reading import TABLES, half_unit, printed, table
from tempora_tta.published.setups import Point, Setup, setup, setups
from tempora_tta.published.utilities import PARTS, as_utilities

__all__ = [
    "INFERRED_NOTE",
    "PARTS",
    "PROFILE_NOTE",
    "TABLES",
    "Comparison",
    "Inconsistency",
    "Point",
    "Setup",
    "as_utilities",
    "compare",
    "half_unit",
    "known_accuracy",
    "known_inconsistencies",
    "printed",
    "profile",
    "profile_source",
    "setup",
    "setups",
    "table",
]
