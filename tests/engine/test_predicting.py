"""Predictions in another runtime than the one that is timed: only where both agree, and always said."""

from __future__ import annotations

import pytest
import torch

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.config import checked
from tempora_tta.engine import Observer
from tempora_tta.engine.on_ray import driver_job
from tempora_tta.engine.predicting import check_predict_with
from tempora_tta.methods import Method
from tempora_tta.report.html import write_report
from tempora_tta.scenarios import Amortised, Discrete

CLOCK = {"baseline_ms": 10.0, "standard": (9.5, 0.0), "lame": (10.0, 0.0), "tent": (10.0, 14.0)}
SCENARIOS = [Discrete(utilisation=0.5), Amortised(budget_x=0.25)]


class Notes(Observer):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


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
    assert "channels_last, which agrees with what is timed on" in write_report(run).read_text(
        encoding="utf-8"
    )

    timed = evaluate(network, few, ["standard", "tent"])
    assert not {stored.key for stored in passes} & set(timed.folder.passes())
    assert timed.manifest["predict_with"] is None
    assert run.traces["predict_ms"].equals(timed.traces["predict_ms"]), "times are the timed runtime's"


@pytest.mark.parametrize("runtime", ["amp", "channels_last"])
def test_shared_and_unshared_agree_to_the_bit(network, batches, runtime):
    runs = [
        evaluate(network, batches[:4], ["standard", "tent"], predict_with=runtime, share=share)
        for share in (True, False)
    ]
    left, right = (run.utilities["utility"] for run in runs)
    assert left.equals(right)
    assert runs[0].traces["correct"].equals(runs[1].traces["correct"])


def test_a_method_that_predicts_otherwise_is_run_as_it_is_timed(network, batches):
    observer = Notes()
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

    run = evaluate(
        network,
        batches[:2],
        ["standard", AtAPrompt],
        clock="steady",
        profile_s=0.05,
        predict_with="amp",
        scenarios=[],
    )
    assert run.manifest["predict_with"]["as_timed"] == []
    # Profiled, then compared with (two batches); compared and run (two batches each).
    assert asked[-4:] == [True] * 4
    assert len(asked) > 6
    assert not any(asked[:-4])
    page = write_report(run).read_text(encoding="utf-8")
    assert "of standard inference times 1.03, over" in page
    assert "1.03 σ" not in page


@pytest.mark.parametrize(
    ("text", "measured", "message"),
    [
        ("tf32", False, "tf32 needs an NVIDIA GPU, and the device is cpu"),
        ("amp", True, "with the measured clock, which times predictions as they are made"),
        ("compile", False, "compile is a runtime that may be timed"),
        ("ampp", False, "unknown runtime 'ampp'"),
    ],
)
def test_refused_with_a_reason(text, measured, message):
    with pytest.raises(TemporaError, match=message):
        check_predict_with(text, torch.device("cpu"), measured)


def test_a_configuration_and_a_driver_know_it():
    config = checked(
        {
            "predict_with": "tf32",
            "device": "cpu",
            "clock": "published:rn50_inc",
            "methods": ["standard"],
            "data": {"dataset": "fashion", "shifts": ["contrast"]},
            "batches": 1,
        }
    )
    assert driver_job(config).predict_with == "tf32", (
        "the workers' devices may have what the driver's has not"
    )
