"""Predictions in another runtime than the one that is timed: only where both agree, and always said."""

from __future__ import annotations

import pytest
import torch
from watching import Watches

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.engine.predicting import check_predict_with
from tempora_tta.methods import Method
from tempora_tta.scenarios import Amortised, Discrete

CLOCK = {"baseline_ms": 10.0, "standard": (9.5, 0.0), "lame": (10.0, 0.0), "tent": (10.0, 14.0)}
SCENARIOS = [Discrete(utilisation=0.5), Amortised(budget_x=0.25)]


class Fickle(Method):
    """Predicts another class in bfloat16."""

    name = "fickle"

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.model(x)
        return scores.roll(1, dims=1) if torch.is_autocast_enabled("cpu") else scores


def evaluate(network, batches, methods, **more):
    options = {"scenarios": SCENARIOS, "device": "cpu", "clock": CLOCK} | more
    return tempora.evaluate(network("fashion_resnet"), batches, methods, **options)


def test_what_was_shown_is_kept_with_every_pass_the_run_and_its_report(network, batches, tmp_path):
    few = batches[:5]
    run = evaluate(network, few, ["standard", "tent"], predict_with="channels_last", out=tmp_path / "run")
    passes = list(run.folder.passes().values())
    assert {stored.identity["predict_with"] for stored in passes} == {"channels_last"}
    for stored in passes:
        told = stored.facts["predict_with"]
        assert told | {"runtime": "channels_last", "batches": 5, "used": True} == told
        assert 0.99 <= told["agreement"] <= 1
    summary = run.manifest["predict_with"]
    assert summary["runtime"] == "channels_last"
    assert summary["as_timed"] == []
    unshared = evaluate(network, few, ["standard", "tent"], predict_with="channels_last", share=False)
    assert unshared.utilities["utility"].equals(run.utilities["utility"])
    assert unshared.traces["correct"].equals(run.traces["correct"])

    timed = evaluate(network, few, ["standard", "tent"])
    assert not {stored.key for stored in passes} & set(timed.folder.passes())
    assert timed.manifest["predict_with"] is None
    assert run.traces["predict_ms"].equals(timed.traces["predict_ms"]), "times are the timed runtime's"


def test_a_method_that_predicts_otherwise_is_run_as_it_is_timed(network, batches):
    observer = Watches()
    run = evaluate(
        network,
        batches[:2],
        ["standard", (Fickle, {"times_as": "lame"})],
        predict_with="amp",
        scenarios=[],
        observer=observer,
    )
    timed = evaluate(network, batches[:2], [(Fickle, {"times_as": "lame"})], scenarios=[])
    assert run.manifest["predict_with"]["as_timed"] == ["fickle on stream"]
    assert run.manifest["predict_with"]["least_agreement"] < 0.5
    assert any(note.startswith("fickle on stream: amp agrees with") for note in observer.notes)
    offline = run.utilities[run.utilities["method"] == "fickle"]
    assert offline["utility"].tolist() == timed.utilities["utility"].tolist()


def test_the_profile_times_the_runtime_that_is_asked_about(network, batches):
    asked = []

    class AtAPrompt(Method):
        """Lives in this process alone, so that it is profiled here."""

        name = "at_a_prompt"

        def predict(self, x: torch.Tensor) -> torch.Tensor:
            asked.append(torch.is_autocast_enabled("cpu"))
            return self.model(x)

    options = {"clock": "steady", "profile_s": 0.05, "predict_with": "amp", "scenarios": []}
    run = evaluate(network, batches[:2], ["standard", AtAPrompt], **options)
    assert run.manifest["predict_with"]["as_timed"] == []
    # Profiled, then compared with (two batches); compared and run (two batches each).
    assert asked[-4:] == [True] * 4
    assert len(asked) > 6
    assert not any(asked[:-4])


@pytest.mark.parametrize(
    ("text", "measured", "said"),
    [
        ("tf32", False, "tf32.*cpu"),
        ("amp", True, "measured"),
        ("compile", False, "compile"),
        ("ampp", False, "'ampp'.*'amp'"),
    ],
)
def test_refused_with_a_reason(text, measured, said):
    with pytest.raises(TemporaError, match=said):
        check_predict_with(text, torch.device("cpu"), measured)
