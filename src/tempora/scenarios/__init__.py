"""The time model: deployments, the timeline they run on, utilities and the terms that explain them.

Pure: numpy at most, no torch and no clock, so it opens on any laptop.
"""

from tempora.scenarios.archetypes import Amortised, Continuous, Discrete, Offline
from tempora.scenarios.arrivals import Arrivals, Bursty, Periodic, Poisson, Recorded
from tempora.scenarios.budget import Budget, budget_cutoff
from tempora.scenarios.cards import ScenarioCard
from tempora.scenarios.course import Course
from tempora.scenarios.deployment import Deployment, Scenario
from tempora.scenarios.diagnosis import Finding, break_even_accuracy, diagnose, is_insolvent
from tempora.scenarios.grids import GRIDS, grid, paper_grid, relative_grid
from tempora.scenarios.replaying import replay, serve
from tempora.scenarios.resolved import Resolved
from tempora.scenarios.routes import Route, route
from tempora.scenarios.specs import from_record, from_spec, to_record, to_spec
from tempora.scenarios.timeline import Timeline, Turn
from tempora.scenarios.utility import SIX_TERMS, Score, Value, decay, percentiles, utility_of

__all__ = [
    "GRIDS",
    "SIX_TERMS",
    "Amortised",
    "Arrivals",
    "Budget",
    "Bursty",
    "Continuous",
    "Course",
    "Deployment",
    "Discrete",
    "Finding",
    "Offline",
    "Periodic",
    "Poisson",
    "Recorded",
    "Resolved",
    "Route",
    "Scenario",
    "ScenarioCard",
    "Score",
    "Timeline",
    "Turn",
    "Value",
    "break_even_accuracy",
    "budget_cutoff",
    "decay",
    "diagnose",
    "from_record",
    "from_spec",
    "grid",
    "is_insolvent",
    "paper_grid",
    "percentiles",
    "relative_grid",
    "replay",
    "route",
    "serve",
    "to_record",
    "to_spec",
    "utility_of",
]
