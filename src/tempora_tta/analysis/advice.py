"""What is advised in one deployment. The terminal prints the lines that a notebook shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from tempora_tta._numbers import percent, points
from tempora_tta.analysis.certainty import how_sure
from tempora_tta.analysis.doubt import Judgement
from tempora_tta.analysis.neighbours import Neighbours, favourite, rivals
from tempora_tta.analysis.requirements import Requirements
from tempora_tta.cards import CATALOGUE, Cards
from tempora_tta.scenarios import Scenario
from tempora_tta.store import Evaluated


@dataclass(frozen=True)
class Difference:
    """A mean difference with its confidence interval, and what the interval is about."""

    mean: float
    lo: float
    hi: float
    units: int
    kind: str
    """`within-stream` (units are batches of one order of the data) or `across 5 seeds`."""

    @property
    def clear(self) -> bool:
        """The interval leaves out zero."""
        return self.lo > 0 or self.hi < 0


@dataclass(frozen=True)
class Advice:
    """Who to use in one deployment. Printed, it says so in words, with why and how sure that is."""

    scenario: Scenario
    table: pd.DataFrame
    """The methods with an exact answer, best first: `utility`, `utility_lo`, `utility_hi`, `rank`, the terms,
    `answer` (evaluated or replayed), `break_even_accuracy` and `insolvent`."""
    judged: Judgement
    """How sure the best is: `verdict`, `why`, who is equal with it or may be better, and the chance of each."""
    margin: Difference | None
    """Best minus runner-up; its interval, over other batches and other times, holds for all rivals together. None if
    only one method has an answer."""
    interval: tuple[float, float]
    """Of the utility of `method`: 95 %, over other batches and other times like these."""
    why: str
    certainty: list[str]
    """What the answer rests on, in sentences."""
    unanswered: dict[str, str]
    """Methods without an exact answer, and why: the best may be among them."""
    neighbours: Mapping[str, Neighbours] = field(default_factory=dict)
    """What those were seen to get nearby. It bounds nothing for certain, and no answer contradicts it."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Methods that failed in this run, and how: they are proposed to nobody."""
    required: Requirements = field(default_factory=Requirements)
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Methods that miss what is required, and the number that says so."""
    tail: str = ""
    """What to know about the percentiles, such as `queueing only`; empty where they are as good as the times."""
    evaluated: Evaluated | None = None
    """How `method` was made (settings, preset, runtime), for `tempora.deploy(model, advice)`. None where the run does
    not say."""
    too_short: str = ""
    """Who serves less than this in the long run, where the stream ends before that shows."""
    cards: Cards = CATALOGUE
    """How methods are called."""

    @property
    def method(self) -> str:
        """The best of those with an exact answer; `why`, `interval` and `margin` are its own."""
        return str(self.table["method"].iloc[0])

    @property
    def probably(self) -> str | None:
        """Who is to be used instead, as far as its neighbours tell: it has no answer here, and all that was measured
        beside it is above the best answer. Measuring it settles that."""
        return favourite(self.neighbours, self._utility)

    @property
    def rivals(self) -> list[str]:
        """Methods without an answer that a neighbour shows above the best."""
        return rivals(self.neighbours, self._utility)

    @property
    def runner_up(self) -> str | None:
        return str(self.table["method"].iloc[1]) if len(self.table) > 1 else None

    @property
    def insolvent(self) -> list[str]:
        """Who would lose to `method` even if every prediction were right."""
        return list(self.table.loc[self.table["insolvent"], "method"])

    @property
    def answer(self) -> str:
        """Who to use, in a sentence or two."""
        best, utility = self.cards.label(self.method), f"utility {percent(self._utility)}"
        favoured, among = self.probably, self._among
        others = [name for name in self.rivals if name != favoured]
        unless = f", unless {', or '.join(map(self._nearby, others))}" if others else ""
        if favoured is None:
            return f"Use {best}{among and f', best of {among}'}: {utility}{unless}."
        return (
            f"Probably {self._nearby(favoured)}; it was not measured here. Of {among}, {best} is best: "
            f"{utility}{unless}."
        )

    @property
    def lines(self) -> list[str]:
        """The answer, by how much, why, and how sure that is."""
        said = [self.answer, self.too_short, self._ahead(), f"Why: {self.why}"]
        if self.insolvent:
            names = ", ".join(map(self.cards.label, self.insolvent))
            best = self.cards.label(self.method)
            said.append(f"Insolvent: {names}. Even with every prediction right they would lose to {best}.")
        if self.required.given:
            said.append(self._requirements())
        return [line for line in (*said, *self.certainty) if line]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    @property
    def _utility(self) -> float:
        return float(self.table["utility"].iloc[0])

    @property
    def _among(self) -> str:
        """Who was compared, where that is not everybody."""
        if not self.unanswered:
            return ""
        answered = len(self.table) + len(self.excluded)
        return f"the {answered} of {answered + len(self.unanswered)} methods with an exact answer"

    def _nearby(self, name: str) -> str:
        return f"{self.cards.label(name)}, {self.neighbours[name].span()}"

    def _ahead(self) -> str:
        """By how much the best leads, and whether that holds."""
        if self.margin is None or self.runner_up is None:
            return ""
        runner_up = self.cards.label(self.runner_up)
        if self.margin.mean == 0:
            return f"Tie: {runner_up} gets exactly the same. Choose by cost."
        text = f"Runner-up: {runner_up}, {points(self.margin.mean)} behind"
        if not math.isnan(self.margin.lo):
            bounds = f"{100 * self.margin.lo:.1f} to {100 * self.margin.hi:.1f}"
            text += f" ({self.margin.kind} 95 % interval {bounds})"
        among = f"among the {len(self.table)} with an answer" if self.unanswered else ""
        return f"{text}. {how_sure(self.judged, self.cards, among)}".strip()

    def _requirements(self) -> str:
        """What was asked for, who misses it and by how much."""
        missed = [f"{self.cards.label(name)}, {why}" for name, why in self.excluded.items()]
        text = f"Required: {self.required}{f' ({self.tail})' if self.tail else ''}."
        return (
            f"{text} Excluded: {'; '.join(missed)}."
            if missed
            else f"{text} Every method with an answer has it."
        )
