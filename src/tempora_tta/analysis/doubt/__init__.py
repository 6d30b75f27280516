"""Doubt by consequence: which answers of a run would change if it had had other batches or other times.

One set of replicates, each of which draws whole rounds of the profile and paired blocks of batches, and scores every
method again. Every table, figure, page and command that says how sure something is asks this package.
"""

from tempora_tta.analysis.cells import ALL
from tempora_tta.analysis.doubt.judgement import (
    SAMPLING,
    TIMING,
    Judgement,
    Leads,
    Replicates,
    judge,
    leads,
    pooled,
    replicate,
)
from tempora_tta.analysis.doubt.run import (
    Doubt,
    doubt,
    with_doubt,
)
from tempora_tta.store.verdicts import EQUAL, HOLDS, UNDECIDED

__all__ = [
    "ALL",
    "EQUAL",
    "HOLDS",
    "SAMPLING",
    "TIMING",
    "UNDECIDED",
    "Doubt",
    "Judgement",
    "Leads",
    "Replicates",
    "doubt",
    "judge",
    "leads",
    "pooled",
    "replicate",
    "with_doubt",
]
