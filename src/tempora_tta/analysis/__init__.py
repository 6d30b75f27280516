"""Findings of a run: the one table, what the paper reads off it, and how sure that is.

Pure functions from frames to frames; nothing here draws, prints or needs torch.
"""

from tempora_tta.analysis.advice import (
    Advice,
    Difference,
)
from tempora_tta.analysis.cells import (
    ALL,
    by_shift,
    cells,
    champions,
    counted,
    failures,
    is_offline,
    offline_champion,
    ordered,
    over_all,
    pool,
    scored,
    shift_set,
    stack,
    win_counts,
    winners,
    wins_of,
    with_ranks,
)
from tempora_tta.analysis.compare import (
    RunComparison,
    compare_runs,
)
from tempora_tta.analysis.guidance import (
    Guidance,
    guidance,
)
from tempora_tta.analysis.headline import (
    Headline,
    headline,
)
from tempora_tta.analysis.of_run import (
    cells_of,
    winners_of,
)
from tempora_tta.analysis.paper import (
    across_machines,
    below_standard,
    beside_standard,
    break_even,
    budget_curves,
    buffering,
    correlation_summary,
    correlations,
    deficit,
    findings,
    losses,
    overhead,
    pareto_front,
    performance_profile,
    regret,
    spearman,
    temporal_factors,
    winner_changes,
    with_overall,
    with_resources,
)
from tempora_tta.analysis.peak import (
    Peaks,
    peak,
)
from tempora_tta.analysis.recommend import (
    recommend,
)
from tempora_tta.analysis.replays import (
    Answers,
    answer,
)
from tempora_tta.analysis.requirements import (
    Requirements,
)
from tempora_tta.analysis.segments import (
    by_segment,
    over_the_stream,
)

__all__ = [
    "ALL",
    "Advice",
    "Answers",
    "Difference",
    "Guidance",
    "Headline",
    "Peaks",
    "Requirements",
    "RunComparison",
    "across_machines",
    "answer",
    "below_standard",
    "beside_standard",
    "break_even",
    "budget_curves",
    "buffering",
    "by_segment",
    "by_shift",
    "cells",
    "cells_of",
    "champions",
    "compare_runs",
    "correlation_summary",
    "correlations",
    "counted",
    "deficit",
    "failures",
    "findings",
    "guidance",
    "headline",
    "is_offline",
    "losses",
    "offline_champion",
    "ordered",
    "over_all",
    "over_the_stream",
    "overhead",
    "pareto_front",
    "peak",
    "performance_profile",
    "pool",
    "recommend",
    "regret",
    "scored",
    "shift_set",
    "spearman",
    "stack",
    "temporal_factors",
    "win_counts",
    "winner_changes",
    "winners",
    "winners_of",
    "wins_of",
    "with_overall",
    "with_ranks",
    "with_resources",
]
