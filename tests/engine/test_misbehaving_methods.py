"""Methods that misbehave: each fails by itself, says why, and changes no other method's numbers by a bit."""

from __future__ import annotations

import re
import signal
import sys
import threading

import pandas as pd
import pytest
import torch
from latencies import CLOCK
from typer.testing import CliRunner
from watching import Watches

import tempora_tta as tempora
from tempora_tta import TemporaError
from tempora_tta.cli.app import app
from tempora_tta.engine.build import job_from_python
from tempora_tta.engine.profile_child import subject_of
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method
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


class RaisesInSetup(Mine):
    def setup(self):
        raise ValueError("no set-up")


class Hangs(Mine):
    calls = 0

    def predict(self, x):
        Hangs.calls += 1
        signal.raise_signal(signal.SIGALRM)  # as the system's timer does when the time is up
        threading.Event().wait()


def mine(name, **calls):
    """A method of one's own, of which these calls are other ones."""
    return type(name, (Mine,), calls)


OneRow = mine("OneRow", predict=lambda self, x: self.model(x)[:1])
SaysNothing = mine("SaysNothing", adapt=lambda self: None)
AllNan = mine("AllNan", predict=lambda self, x: self.model(x) * torch.nan)
Exits = mine("Exits", predict=lambda self, x: sys.exit())
ExitsInSetup = mine("ExitsInSetup", setup=lambda self: sys.exit(0))
Draws = mine("Draws", predict=lambda self, x: self.model(x) + 3 * torch.rand(len(x), 10))
Seeds = mine("Seeds", predict=lambda self, x: torch.manual_seed(0) and self.model(x))


class SometimesNan(Mine):
    """Rules one class out, and gives no number for half the rows of every other batch."""

    state = ("count",)

    def setup(self):
        self.count = 0

    def predict(self, x):
        self.count += 1
        scores = self.model(x).clone()
        scores[:, 3] = -torch.inf
        scores[:: self.count % 2 * 2 or len(x)] *= torch.nan if self.count % 2 else 1
        return scores


REASONS = {
    LeavesAutocast: r"predict\(\).*autocast on cpu \(off before, on after\)",
    LeavesInferenceMode: r"adapt\(\).*inference mode",
    Exits: r"predict\(\).*end Python",
    RaisesInSetup: "ValueError: no set-up",
    OneRow: r"predict\(\).*\(1, 10\).*8 rows of 10 classes",
    SaysNothing: r"adapt\(\).*None",
    AllNan: "NaN",
}
GOOD = ["standard", "adabn", (Draws, {"label": "draws"})]


def evaluate(network, batches, methods, **options):
    options = {
        "clock": CLOCK
        | dict.fromkeys(("mine", "draws", "seeds", *(kind.__name__ for kind in REASONS)), (40, 1)),
        "scenarios": SCENARIOS,
        "device": "cpu",
        "warmup_batches": 1,
        **options,
    }
    return tempora.evaluate(network("fashion_resnet"), batches[:4], methods, **options)


def statuses(results) -> dict[str, set[str]]:
    return {name: set(rows["status"]) for name, rows in results.utilities.groupby("method")}


@pytest.mark.parametrize("bad", [LeavesThreadsInSetup, ExitsInSetup], ids=lambda kind: kind.__name__)
def test_a_setup_that_does_what_none_may_fails_alone(network, batches, bad):
    threads = torch.get_num_threads()
    said = r"mine: setup\(\) (changed torch's threads|tried to end Python)"
    with pytest.warns(TemporaWarning, match=said):
        found = evaluate(network, batches, ["standard", bad], scenarios=[])
    assert statuses(found)["standard"] == {"ok"}
    assert torch.get_num_threads() == threads
    with pytest.raises(TemporaError, match=said):
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


def test_what_a_module_changes_when_it_is_imported_is_put_back(tmp_path, monkeypatch, network, batches):
    (tmp_path / "imports_loudly.py").write_text(
        "import torch\nfrom tempora_tta.methods import Method\ntorch.set_default_dtype(torch.float64)\n"
        "class Mine(Method):\n    name = 'mine'\n    def predict(self, x):\n        return self.model(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(TemporaWarning, match="imports_loudly.*default type"):
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


# -- what may be given -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(network, batches):
    """The good ones by themselves."""
    return evaluate(network, batches, GOOD)


def test_each_fails_alone_with_its_reason_and_no_other_method_changes_by_a_bit(network, batches, alone):
    """Autocast left on made AdaBN lose three points."""
    bad = [(kind, {"label": kind.__name__}) for kind in REASONS]
    with pytest.warns(TemporaWarning, match="failed"):
        mixed = evaluate(network, batches, [*bad, (Seeds, {"label": "seeds"}), *GOOD])
    for kind, reason in REASONS.items():
        assert all(re.search(reason, status) for status in statuses(mixed)[kind.__name__])
    labels = alone.utilities["method"].unique()
    for one, other in ((alone.utilities, mixed.utilities), (alone.traces, mixed.traces)):
        kept = other[other["method"].isin(labels)].reset_index(drop=True)
        columns = ["method", *({"utility", "correct", "predicted"} & set(kept))]
        pd.testing.assert_frame_equal(one[columns], kept[columns], check_exact=True)


def test_if_everything_fails_that_is_an_error(network, batches):
    with pytest.raises(TemporaError, match=r"1 of 1 cell.*predict\(\).*end Python"):
        evaluate(network, batches, Exits, scenarios=[])


def test_scores_that_are_partly_nan_are_said_on_screen_and_in_show(network, batches, tmp_path):
    notes = Watches()
    found = evaluate(
        network, batches, ["standard", SometimesNan], observer=notes, out=tmp_path / "run", scenarios=[]
    )
    assert statuses(found)["mine"] == {"ok"}
    assert any("mine on stream" in note and "2 of 4 batches (8 samples)" in note for note in notes.notes)
    assert found.manifest["non_finite_scores"] == {"mine": {"batches": 2, "passes": 1, "shifts": ["stream"]}}
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["show", str(tmp_path / "run")]).output
    assert "2 batches of 1 pass" in shown


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("queue=99999999999999999999", "queue=.*2147483647"),
        ("threads=100000", "threads=100000"),
        ("device=meta", "'meta'"),
        (
            "scenarios=[{protocol: discrete, utilisation: 1, queue: 99999999999999999999}]",
            "queue=.*2147483647",
        ),
        ("scenarios=[{protocol: deployment, arrivals: [0.0]}]", "1 time.*2 batches"),
    ],
)
def test_settings_that_cannot_be_had_are_refused_before_anything_runs(override, said, tmp_path):
    out = ["--out", str(tmp_path / "run"), "--batches", "2", "--dataset", "fashion", "--shifts", "clean"]
    result = CliRunner().invoke(app, ["run", *out, "--set", override, "--methods", "standard"])
    assert isinstance(result.exception, TemporaError)
    assert re.search(said, str(result.exception))
    assert not list(tmp_path.glob("run/traces/*"))
