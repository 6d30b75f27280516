"""`stepped_fraction`: how often a method really learned, compared with how often it was allowed to."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
import torch
from torch import Tensor

import tempora_tta as tempora
from tempora_tta import methods
from tempora_tta.models import Classifier
from tempora_tta.names import METHODS
from tempora_tta.scenarios import Amortised, Discrete
from tempora_tta.store import Trace

Batches = list[tuple[Tensor, Tensor]]
CLOCK = {"baseline_ms": 40.0, "standard": (40.0, 0.0), "neo": (40.0, 0.0), "picky": (42.0, 58.0)}


class Picky(methods.Method):
    """Learns from every other batch, and says so."""

    name = "picky"
    state = ("count",)
    actions = {"step": methods.LEARNS, "nothing_kept": methods.NO_OP}

    def setup(self) -> None:
        self.count = 0

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        return self.logits(x)

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        self.count += 1
        return "step" if self.count % 2 else "nothing_kept"


@pytest.mark.parametrize("name", sorted(METHODS))
def test_ours_declare_which_of_their_actions_learn(name: str) -> None:
    kind = methods.get(name)
    learns = {word for word, did in kind.actions.items() if methods.LEARNS in did}
    assert bool(learns) == (name not in ("standard", "lame")), name
    assert not learns & {"nothing_kept", "non_finite", "recovered", "stored"}


def test_it_counts_batches_that_were_learned_from(
    network: Callable[[str], Classifier], batches: Batches
) -> None:
    results = tempora.evaluate(
        network("fashion_resnet"),
        batches,
        ["standard", "neo", Picky],
        [Discrete(interval_ms=60.0), Amortised(budget_ms=120.0)],
        clock=CLOCK,
    )
    rows = results.utilities.set_index(["method", "protocol"])
    stepped, adapted = rows["stepped_fraction"], rows["adapted_fraction"]
    assert (stepped["picky", "offline"], adapted["picky", "offline"]) == (0.5, 1.0)
    assert (stepped["standard", "offline"], adapted["standard", "offline"]) == (0.0, 1.0)
    assert stepped["neo", "offline"] == 1.0  # it learns while it predicts
    # Every second batch is lost; of those served it learns from the first, the third, ...
    served = int(rows["served_batches"]["picky", "discrete"])
    assert served < 8
    assert stepped["picky", "discrete"] == -(-served // 2) / served
    # The budget pays for two batches: the first is learned from, the second is not, and six are frozen.
    assert (stepped["picky", "amortised"], adapted["picky", "amortised"]) == (1 / 8, 2 / 8)
    traces = results.traces[results.traces["method"] == "picky"].groupby("protocol")["stepped"].agg(list)
    assert (traces["offline"], traces["amortised"]) == ([True, False] * 4, [True] + [False] * 7)
    early = results.trace(rows.loc["picky", "offline"]).to_table()
    early = early.set_column(early.column_names.index("stepped"), "stepped", pa.nulls(len(early), pa.bool_()))
    unsaid = Trace.from_table(early)
    assert unsaid.stepped_fraction(unsaid.offline_course()) is None
    assert unsaid.to_table()["stepped"].null_count == len(early)
