"""What a run says: ranks, winners, correlations, deficits, insolvency, Pareto fronts, and how sure it is.

Pure functions from frames to frames (`frames` says which columns); nothing here draws, prints or needs torch.
"""

from tempora_tta.analysis.advice import Advice, Difference
from tempora_tta.analysis.below_standard import below_standard, beside_standard
from tempora_tta.analysis.buffering import buffering
from tempora_tta.analysis.compare import RunComparison, compare_runs
from tempora_tta.analysis.correlation import correlation_summary, correlations, spearman
from tempora_tta.analysis.deficit import deficit, gaps, losses, with_overall
from tempora_tta.analysis.factors import temporal_factors
from tempora_tta.analysis.frames import offline, ordered, scored, stack, strictest, temporal
from tempora_tta.analysis.guidance import Guidance, guidance
from tempora_tta.analysis.hardware import across_hardware
from tempora_tta.analysis.headline import Headline, headline
from tempora_tta.analysis.latency import overhead, with_resources
from tempora_tta.analysis.outcomes import (
    champions,
    counted,
    failures,
    offline_champion,
    over_seeds,
    over_shifts,
    shift_set,
    win_counts,
    winners,
    wins_of,
)
from tempora_tta.analysis.pareto import budget_curves, pareto_front
from tempora_tta.analysis.peak import Peaks, peak
from tempora_tta.analysis.phases import phase_transitions
from tempora_tta.analysis.pooling import pool
from tempora_tta.analysis.ranks import with_ranks
from tempora_tta.analysis.recommend import recommend
from tempora_tta.analysis.regret import performance_profile, regret
from tempora_tta.analysis.replays import Answers, answer
from tempora_tta.analysis.requirements import Requirements
from tempora_tta.analysis.segments import by_segment, over_the_stream
from tempora_tta.analysis.solvency import break_even, findings

__all__ = [
    "Advice",
    "Answers",
    "Difference",
    "Guidance",
    "Headline",
    "Peaks",
    "Requirements",
    "RunComparison",
    "across_hardware",
    "answer",
    "below_standard",
    "beside_standard",
    "break_even",
    "budget_curves",
    "buffering",
    "by_segment",
    "champions",
    "compare_runs",
    "correlation_summary",
    "correlations",
    "counted",
    "deficit",
    "failures",
    "findings",
    "gaps",
    "guidance",
    "headline",
    "losses",
    "offline",
    "offline_champion",
    "ordered",
    "over_seeds",
    "over_shifts",
    "over_the_stream",
    "overhead",
    "pareto_front",
    "peak",
    "performance_profile",
    "phase_transitions",
    "pool",
    "recommend",
    "regret",
    "scored",
    "shift_set",
    "spearman",
    "stack",
    "strictest",
    "temporal",
    "temporal_factors",
    "win_counts",
    "winners",
    "wins_of",
    "with_overall",
    "with_ranks",
    "with_resources",
]
