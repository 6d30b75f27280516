"""Methods that misbehave: each fails by itself, says why, and changes no other method's numbers by a bit."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading

import numpy as np
import pytest
import torch
from latencies import CLOCK
from typer.testing import CliRunner

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.cli.app import app
from tempora_tta.engine import Observer
from tempora_tta.engine.build import job_from_python
from tempora_tta.engine.profile_child import subject_of
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method
from tempora_tta.methods.testing import check
from tempora_tta.scenarios import Continuous, Deployment, Discrete
from tempora_tta.timing.record import record

SCENARIOS = [Discrete(utilisation=0.5)]


class Mine(Method):
    name = "mine"

    def predict(self, x):
        return self.model(x)


class LeavesAutocast(Mine):
    def predict(self, x):
        torch.autocast("cpu", torch.bfloat16).__enter__()
        return self.model(x).float()


class LeavesThreadsInSetup(Mine):
    def setup(self):
        torch.set_num_threads(torch.get_num_threads() + 1)


class LeavesInferenceMode(Mine):
    def adapt(self):
        self.mode = torch.inference_mode()
        self.mode.__enter__()
        return "none"


class Exits(Mine):
    def predict(self, x):
        sys.exit()


class ExitsInSetup(Mine):
    def setup(self):
        sys.exit(0)


class RaisesInSetup(Mine):
    def setup(self):
        raise ValueError("no set-up")


class Hangs(Mine):
    calls = 0

    def predict(self, x):
        Hangs.calls += 1
        signal.raise_signal(signal.SIGALRM)  # as the system's timer does when the time is up
        threading.Event().wait()


class OneRow(Mine):
    def predict(self, x):
        return self.model(x)[:1]


class ThreeClasses(Mine):
    def predict(self, x):
        return self.model(x)[:, :3]


class TwentyClasses(Mine):
    def predict(self, x):
        return self.model(x).repeat(1, 2)


class NoTensor(Mine):
    def predict(self, x):
        return self.model(x).tolist()


class SaysNothing(Mine):
    def adapt(self):
        return None


class AllNan(Mine):
    def predict(self, x):
        return self.model(x) * torch.nan


class HalfTheRowsNan(Mine):
    def predict(self, x):
        scores = self.model(x).clone()
        scores[::2] = torch.nan
        return scores


class HalfTheBatchesNan(Mine):
    state = ("count",)

    def setup(self):
        self.count = 0

    def predict(self, x):
        self.count += 1
        return self.model(x) * (torch.nan if self.count % 2 else 1)


class RulesClassesOut(Mine):
    def predict(self, x):
        scores = self.model(x).clone()
        scores[:, 3] = -torch.inf
        return scores


class Draws(Mine):
    """Uses everybody's random numbers."""

    def predict(self, x):
        return self.model(x) + 3 * torch.rand(len(x), 10)


class Seeds(Mine):
    name = "seeds"

    def predict(self, x):
        torch.manual_seed(0)
        return self.model(x)


CLOCK_OF_MINE = {**CLOCK, "mine": (40, 1), "seeds": (40, 1)}


def evaluate(network, batches, methods, **options):
    options = {
        "clock": CLOCK_OF_MINE,
        "scenarios": SCENARIOS,
        "device": "cpu",
        "warmup_batches": 1,
        **options,
    }
    return tempora.evaluate(network("fashion_resnet"), batches[:4], methods, **options)


def statuses(results) -> dict[str, set[str]]:
    return {name: set(rows["status"]) for name, rows in results.utilities.groupby("method")}


class Notes(Observer):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


FAILS = {
    LeavesAutocast: r"mine: predict\(\) changed .*autocast on cpu \(off before, on after\)",
    LeavesInferenceMode: r"mine: adapt\(\) changed inference mode",
    Exits: r"mine: predict\(\) tried to end Python",
    RaisesInSetup: "ValueError: no set-up",
    OneRow: r"mine: predict\(\) returned a tensor of shape \(1, 10\); expected .* 8 rows of 10 classes",
    ThreeClasses: r"a tensor of shape \(8, 3\)",
    TwentyClasses: r"a tensor of shape \(8, 20\)",
    NoTensor: "returned a list",
    SaysNothing: r"mine: adapt\(\) returned None; expected a word",
    AllNan: "every score it gave was NaN",
}


@pytest.mark.parametrize("bad", FAILS, ids=lambda kind: kind.__name__)
def test_it_fails_alone_with_a_reason(network, batches, bad):
    with pytest.warns(TemporaWarning, match=FAILS[bad]):
        found = evaluate(network, batches, ["adabn", bad], scenarios=[])
    assert statuses(found)["adabn"] == {"ok"}
    (status,) = statuses(found)["mine"]
    assert re.search(FAILS[bad], status)


def test_no_other_method_changes_by_a_bit(network, batches):
    """Autocast left on made AdaBN lose three points."""
    good = ["standard", "adabn", "tent"]
    bad = [LeavesAutocast, OneRow, ThreeClasses, HalfTheBatchesNan]
    alone = evaluate(network, batches, good)
    with pytest.warns(TemporaWarning, match="cells failed"):
        mixed = evaluate(network, batches, [*((kind, {"label": kind.__name__}) for kind in bad), *good])
    assert {kind.__name__ for kind in bad} < set(mixed.utilities["method"])
    kept = mixed.utilities[mixed.utilities["method"].isin(good)].reset_index(drop=True)
    assert kept["utility"].tolist() == alone.utilities["utility"].tolist()


def test_random_numbers_of_one_method_do_not_depend_on_another(network, batches):
    def predicted(methods):
        traces = evaluate(network, batches, methods, scenarios=[]).traces
        return np.concatenate(traces[traces["method"] == "mine"]["predicted"].tolist()).tolist()

    assert predicted([Draws]) == predicted([Seeds, Draws])


@pytest.mark.parametrize("bad", [LeavesThreadsInSetup, ExitsInSetup], ids=lambda kind: kind.__name__)
def test_a_setup_that_does_what_none_may_fails_alone(network, batches, bad):
    threads = torch.get_num_threads()
    said = r"mine: setup\(\) (changed torch's threads|tried to end Python)"
    with pytest.warns(TemporaWarning, match=said):
        found = evaluate(network, batches, ["standard", bad], scenarios=[])
    assert statuses(found)["standard"] == {"ok"}
    assert torch.get_num_threads() == threads
    with pytest.raises(TemporaError, match=f"no method can be made: {said}"):
        evaluate(network, batches, bad)


def test_a_profile_leaves_it_out_and_times_the_others_under_torch_as_it_was(network, batches):
    job = job_from_python(
        network("fashion_resnet"), batches[:3], [LeavesAutocast, "standard", "adabn"], [],
        device="cpu", clock="steady", seeds=[1],
    )  # fmt: skip
    profile = record(subject_of(job), seconds=1.0, labels=["mine", "adabn"])
    assert [method for method, facts in profile.facts.items() if facts.failed] == ["mine"]
    assert {"standard", "adabn"} <= profile.methods
    assert not torch.is_autocast_enabled("cpu")


def test_a_method_that_hangs_fails_once_and_the_others_go_on(network, batches):
    Hangs.calls = 0
    with pytest.warns(TemporaWarning, match=r"mine: predict\(\) took longer than 600 s"):
        found = evaluate(
            network, batches, ["standard", Hangs], scenarios=[*SCENARIOS, Continuous(threshold_x=2)],
            share=False, method_timeout_s=600, warmup_batches=0,
        )  # fmt: skip
    assert statuses(found)["standard"] == {"ok"}
    assert len(found.utilities) == 6
    assert Hangs.calls == 1, "it is not called again"


def test_if_everything_fails_that_is_an_error(network, batches):
    with pytest.raises(TemporaError, match=r"1 of 1 cell failed: mine: predict\(\) tried to end Python"):
        evaluate(network, batches, Exits, scenarios=[])


def test_scores_that_are_partly_nan_are_said_on_screen_and_in_show(network, batches, tmp_path):
    notes = Notes()
    found = evaluate(
        network, batches, ["standard", HalfTheBatchesNan], observer=notes, out=tmp_path / "run", scenarios=[]
    )
    assert "mine on stream: NaN or infinite scores in 2 of 4 batches (16 samples)" in notes.texts
    assert found.manifest["non_finite_scores"] == {"mine": {"batches": 2, "passes": 1, "shifts": ["stream"]}}
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["show", str(tmp_path / "run")]).output
    assert "mine: NaN or infinite scores in 2 batches of 1 pass (stream)" in shown


def test_half_of_the_rows_is_not_every_score(network, batches):
    found = evaluate(network, batches, ["standard", HalfTheRowsNan], scenarios=[])
    assert statuses(found)["mine"] == {"ok"}
    assert found.manifest["non_finite_scores"]["mine"]["batches"] == 4


def test_a_class_ruled_out_by_minus_infinity_is_a_score(network, batches):
    found = evaluate(network, batches, RulesClassesOut, scenarios=[])
    assert found.manifest["non_finite_scores"] == {}


@pytest.mark.parametrize(
    ("bad", "promise", "seen"),
    [
        (LeavesAutocast, "nothing global changes", "autocast on cpu"),
        (OneRow, "scores are one row per image", "(1, 10)"),
        (Exits, "reset is bit-exact", "raised SystemExit"),
        (SaysNothing, "scores are one row per image", "None"),
        (RaisesInSetup, "it can be made", "setup() raised ValueError: no set-up"),
        (ExitsInSetup, "it can be made", "setup() raised SystemExit"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_check_finds_it(network, bad, promise, seen):
    report = check(bad, network("fashion_resnet"))
    assert not report.passed
    (found,) = [one for one in report.checks if one.promise == promise]
    assert not found.passed
    assert seen in found.reason
    assert not torch.is_autocast_enabled("cpu")


def test_check_on_the_command_line_fails_where_python_would_end(tmp_path, monkeypatch):
    (tmp_path / "exits_early.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(app, ["check", "exits_early:Mine"])
    assert isinstance(result.exception, TemporaError)
    assert "importing exits_early ends Python" in str(result.exception)


def test_what_a_module_changes_when_it_is_imported_is_put_back(tmp_path, monkeypatch, network, batches):
    (tmp_path / "imports_loudly.py").write_text(
        "import torch\nfrom tempora_tta.methods import Method\ntorch.set_default_dtype(torch.float64)\n"
        "class Mine(Method):\n    name = 'mine'\n    def predict(self, x):\n        return self.model(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(TemporaWarning, match="importing imports_loudly changed the default type of numbers"):
        evaluate(network, batches, "imports_loudly:Mine", scenarios=[])
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("Settings", 42), ("state", "average"), ("state", 3), ("name", 5), ("history_free", "yes")],
)
def test_what_a_class_declares_wrongly_is_said(network, batches, attribute, value):
    kind = type("Odd", (Mine,), {attribute: value})
    with pytest.raises(TemporaError, match=f"method 'Odd': {attribute} = "):
        evaluate(network, batches, kind)


# -- scenarios and settings that cannot be had -----------------------------------------------------------------


def test_recorded_times_that_are_too_few_are_refused_before_anything_runs(network, batches, tmp_path):
    short = Deployment(arrivals=[0, 10, 20])
    with pytest.raises(
        TemporaError, match=r"recorded arrivals.*arrivals hold 3 times and the stream has 4 batches"
    ):
        evaluate(network, batches, ["standard"], scenarios=short, out=tmp_path / "run")
    assert not list(tmp_path.glob("run/traces/*"))


def test_where_some_streams_are_short_enough_only_the_others_cells_lack_it(network, batches):
    streams = {"long": batches[:4], "short": batches[:3]}
    found = tempora.evaluate(
        network("fashion_resnet"), streams, ["standard", "tent"], Deployment(arrivals=[0, 10, 20]),
        clock=CLOCK, device="cpu", warmup_batches=1,
    ).utilities  # fmt: skip
    status = found.set_index(["shift", "protocol"])["status"]
    assert set(status["short"]) == {"ok"}
    assert set(status["long", "offline"]) == {"ok"}
    assert status["long", "deployment"].str.startswith("not applicable: arrivals hold 3 times").all()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("queue=99999999999999999999", "queue=.*at most 2147483647"),
        ("threads=100000", "threads=100000: this machine has"),
        ("device=meta", "device 'meta' computes nothing here"),
        ("scenarios=[{protocol: discrete, utilisation: 1, queue: 99999999999999999999}]", "queue=.*at most"),
        ("method_timeout_s=0", "method_timeout_s=0"),
    ],
)
def test_settings_that_cannot_be_had(override, said, tmp_path):
    out = ["--out", str(tmp_path / "run"), "--batches", "1", "--dataset", "fashion", "--shifts", "clean"]
    result = CliRunner().invoke(app, ["run", *out, "--set", override, "--methods", "standard"])
    assert isinstance(result.exception, TemporaError)
    assert re.search(said, str(result.exception))
    assert not os.path.exists(tmp_path / "run")


# -- what may be given -----------------------------------------------------------------------------------------


def test_all_one_and_a_pair_are_methods_and_one_scenario_is_enough(network, batches):
    everything = evaluate(network, batches[:2], "all", scenarios=Continuous(threshold_x=2))
    assert {"standard", "tent", "adabn"} <= set(everything.utilities["method"])
    assert set(everything.utilities["protocol"]) == {"offline", "continuous"}
    assert set(evaluate(network, batches, "tent", scenarios=[]).utilities["method"]) == {"tent"}
    one = evaluate(
        network,
        batches,
        ("tent", {"lr": 0.1, "label": "fast"}),
        scenarios=[],
        clock={**CLOCK, "fast": (1, 1)},
    )
    assert set(one.utilities["method"]) == {"fast"}
