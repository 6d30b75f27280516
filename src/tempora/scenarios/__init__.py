"""The time model: deployments, the timeline they run on, utilities and the terms that explain them.

Pure: numpy at most, no torch and no clock, so it opens on any laptop.
"""

from tempora.scenarios.archetypes import Amortised, Continuous, Discrete, Offline
from tempora.scenarios.budget import Budget, budget_cutoff
from tempora.scenarios.deployment import Deployment, Resolved, Scenario
from tempora.scenarios.diagnosis import Finding, break_even_accuracy, diagnose, is_insolvent
from tempora.scenarios.grids import paper_grid, relative_grid
from tempora.scenarios.specs import from_spec, to_spec
from tempora.scenarios.timeline import Course, Timeline, Turn, replay, serve
from tempora.scenarios.utility import SIX_TERMS, Score, decay

__all__ = [
    "SIX_TERMS",
    "Amortised",
    "Budget",
    "Continuous",
    "Course",
    "Deployment",
    "Discrete",
    "Finding",
    "Offline",
    "Resolved",
    "Scenario",
    "Score",
    "Timeline",
    "Turn",
    "break_even_accuracy",
    "budget_cutoff",
    "decay",
    "diagnose",
    "from_spec",
    "is_insolvent",
    "paper_grid",
    "relative_grid",
    "replay",
    "serve",
    "to_spec",
]
