"""What a run says: ranks, winners, correlations, deficits, insolvency, Pareto fronts, and how sure it is.

Pure functions from frames to frames (`frames` says which columns); nothing here draws, prints or needs torch.
"""

from tempora.analysis.advice import Advice
from tempora.analysis.below_standard import below_standard, beside_standard
from tempora.analysis.buffering import buffering
from tempora.analysis.compare import RunComparison, compare_runs
from tempora.analysis.correlation import correlation_summary, correlations, spearman
from tempora.analysis.deficit import deficit, gaps, losses, with_overall
from tempora.analysis.factors import temporal_factors
from tempora.analysis.frames import offline, ordered, scored, stack, strictest, temporal
from tempora.analysis.guidance import Guidance, guidance
from tempora.analysis.hardware import across_hardware
from tempora.analysis.headline import Headline, headline
from tempora.analysis.latency import overhead, with_resources
from tempora.analysis.outcomes import (
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
from tempora.analysis.pareto import budget_curves, pareto_front
from tempora.analysis.peak import Peaks, peak
from tempora.analysis.phases import phase_summary, phase_transitions
from tempora.analysis.pooling import pool
from tempora.analysis.ranks import with_ranks
from tempora.analysis.recommend import recommend
from tempora.analysis.regret import performance_profile, regret
from tempora.analysis.replays import Answers, answer
from tempora.analysis.requirements import Requirements
from tempora.analysis.segments import by_segment, over_the_stream
from tempora.analysis.solvency import break_even, findings
from tempora.analysis.uncertainty import (
    Difference,
    components,
    contributions,
    difference_across_seeds,
    paired_difference,
    probability_best,
)

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
    "components",
    "contributions",
    "correlation_summary",
    "correlations",
    "counted",
    "deficit",
    "difference_across_seeds",
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
    "paired_difference",
    "pareto_front",
    "peak",
    "performance_profile",
    "phase_summary",
    "phase_transitions",
    "pool",
    "probability_best",
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
