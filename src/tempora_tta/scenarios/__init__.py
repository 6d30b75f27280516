"""The time model: deployments, the timeline they run on, utilities and the terms that explain them.

Pure: numpy at most, no torch and no clock, so it opens on any laptop.
"""

from tempora_tta.scenarios.arrivals import Arrivals, Bursty, Periodic, Poisson, Recorded
from tempora_tta.scenarios.cards import ScenarioCard
from tempora_tta.scenarios.course import SIX_TERMS, Course, Score, Value, decay, percentiles
from tempora_tta.scenarios.deployment import Deployment, Scenario
from tempora_tta.scenarios.diagnosis import Finding, break_even_accuracy, diagnose, is_insolvent
from tempora_tta.scenarios.grids import GRIDS, grid, paper_grid, relative_grid
from tempora_tta.scenarios.paper import Amortised, Continuous, Discrete, Offline
from tempora_tta.scenarios.replaying import replay, serve
from tempora_tta.scenarios.resolved import Resolved
from tempora_tta.scenarios.routes import Route, route
from tempora_tta.scenarios.specs import from_record, from_spec, to_record, to_spec
from tempora_tta.scenarios.timeline import Budget, Timeline, Turn, budget_cutoff

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
]
