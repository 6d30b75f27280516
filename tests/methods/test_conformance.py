"""Our methods keep every promise on the networks they fit, and the kit notices broken ones."""

from __future__ import annotations

import copy
import dataclasses
import re
import threading
from pathlib import Path

import pytest
import torch
import typer
from torch import Tensor
from typer.testing import CliRunner

import tempora_tta.methods
from tempora_tta.cli.check import check as check_command
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method, Moment, Settings
from tempora_tta.methods.testing import PROMISES, check
from tempora_tta.models import Classifier

ON_VIT_ONLY = ("spa", "zerosiam", "foa")
ON_BATCHNORM_ONLY = ("adabn", "alpha_bn")
SMALL: dict[str, dict[str, object]] = {"memo": {"views": 4}, "cotta": {"views": 2}, "rotta": {"capacity": 16}}
"""So that they take no longer than the others."""


NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if name == "memo" else name
    for name in tempora_tta.methods.names()
]


@pytest.mark.parametrize("name", NAMES)
def test_on_a_batchnorm_resnet(name: str, resnet: Classifier) -> None:
    report = check(name, resnet, **SMALL.get(name, {}))
    assert report.passed, report
    assert (report.refused is not None) == (name in ON_VIT_ONLY)
    if name in ("spa", "zerosiam"):
        assert "BatchNorm" in str(report)


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("standard", "lame", "tent", *ON_VIT_ONLY)
        else pytest.param(name, marks=pytest.mark.slow)
        for name in tempora_tta.methods.names()
    ],
)
def test_on_a_layernorm_vit(name: str, vit: Classifier) -> None:
    report = check(name, vit, **SMALL.get(name, {}))
    assert report.passed, report
    assert (report.refused is not None) == (name in ON_BATCHNORM_ONLY)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("model", ["resnet", "vit"])
@pytest.mark.parametrize("name", tempora_tta.methods.names())
def test_on_a_gpu(name: str, model: str, request: pytest.FixtureRequest) -> None:
    report = check(name, copy.deepcopy(request.getfixturevalue(model)).to("cuda"), **SMALL.get(name, {}))
    assert report.passed, report


@pytest.mark.parametrize(
    "settings", [{"every": 2}, {"stop_after": 2}, {"reforward": True}, {"preset": "paper"}]
)
def test_wrapped_and_preset_methods_too(settings: dict[str, object], resnet: Classifier) -> None:
    report = check("deyo", resnet, **settings)
    assert report.passed, report
    assert len(report.checks) == len(PROMISES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForgetfulSettings(Settings):
    """broken: which promise to break."""

    broken: str = ""


class Forgetful(Method):
    """Adds to the logits how many batches it has seen; breaks one promise when asked."""

    name = "forgetful"
    Settings = ForgetfulSettings
    state = ("seen",)

    def setup(self) -> None:
        self.seen = 0
        self.hidden = 0
        self.weight = dict(self.model.named_parameters())["network.fc.weight"]
        self.history_free = self.stateless = self.settings.broken == "claims"
        if self.settings.broken == "weights":
            self.trainable = {"network.fc.weight": self.weight}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        broken = self.settings.broken
        if broken == "random":
            return self.model(x) + torch.rand(1)
        if broken == "images":
            x.add_(1)
        if not self.frozen or broken == "frozen":
            self.seen += 1
            self.hidden += 1
        self.scores = self.model(x) + 1.0
        self.scores[:, 0] += 1000 * (self.hidden if broken == "reset" else self.seen)
        return self.scores

    @torch.no_grad()
    def adapt(self) -> str:
        if self.settings.broken == "undeclared":
            self.weight.add_(1)
        if self.settings.broken == "weights":
            self.weight.add_(self.scores.mean())
        if self.settings.broken == "scores":
            self.scores.zero_()
        if self.settings.broken == "word":
            return "busy"
        return "none" if self.frozen else "counted"


BREAKS = {
    "reset": {"reset is bit-exact", "snapshot and restore are exact mid-stream"},
    "random": {"same seed, same result"},
    "frozen": {"frozen, it changes nothing"},
    "word": {"frozen, it changes nothing"},
    "undeclared": {"only declared tensors change"},
    "scores": {"a prediction is final when emitted"},
    "images": {"a prediction is final when emitted"},
    "claims": {"history_free is true", "stateless is true"},
    "weights": {"no NaN reaches the weights"},
}


def test_an_author_s_own_method_passes(resnet: Classifier) -> None:
    assert check(Forgetful, resnet).passed


@pytest.mark.parametrize("broken", list(BREAKS))
def test_the_kit_notices(broken: str, resnet: Classifier) -> None:
    report = check(Forgetful, resnet, broken=broken)
    failed = {row.promise for row in report.checks if not row.passed}
    assert failed >= BREAKS[broken], report
    assert not report.passed


class Clockwatcher(Method):
    """Needs a moment."""

    name = "clockwatcher"
    time_aware = True

    @torch.no_grad()
    def predict(self, x: Tensor, moment: Moment) -> Tensor:  # type: ignore[override]
        return self.model(x) + moment.now_ms

    def adapt(self, moment: Moment) -> str:  # type: ignore[override]
        return "none"


def test_time_aware_methods_get_a_moment(resnet: Classifier) -> None:
    assert check(Clockwatcher, resnet).passed


def test_too_few_batches_are_refused(resnet: Classifier, batches: list[Tensor]) -> None:
    with pytest.raises(TemporaError, match="at least 4 needed"):
        check("tent", resnet, batches=batches[:2])


def test_the_command_prints_a_table_and_fails_if_a_promise_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    app.command()(check_command)
    monkeypatch.setenv("COLUMNS", "200")
    good = CliRunner().invoke(app, ["adabn"])
    assert good.exit_code == 0
    assert "adabn on fashion_resnet" in good.output
    assert "refused" in good.output  # on fashion_vit
    bad = CliRunner().invoke(app, [f"{__name__}:Drifting", "--model", "fashion_vit"])
    assert bad.exit_code == 1
    assert "FAIL" in bad.output


class Drifting(Method):
    """Forgets to declare what it changes."""

    name = "drifting"

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        next(self.model.parameters()).add_(0.1)
        return self.model(x)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SloppySettings(Settings):
    """wrong: what is wrong with its scores, or with what it leaves behind."""

    wrong: str = ""


class Sloppy(Method):
    """Counts batches, and returns what no run can use."""

    name = "sloppy"
    Settings = SloppySettings
    state = ("seen",)
    done = threading.Event()

    def setup(self) -> None:
        self.seen = 0
        self.opened: list[object] = []

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        wrong, z = self.settings.wrong, self.model(x)
        if not self.frozen and wrong != "idle":
            self.seen += 1
        if wrong == "thread":
            threading.Thread(target=self.done.wait, daemon=True).start()
        if wrong == "file":
            self.opened.append(open(__file__))  # noqa: SIM115 (the mistake to notice)
        altered = {"rows": z[:1], "classes": z[:, :3], "nan": z * torch.nan if self.seen % 2 else z}
        return altered.get(wrong, z)


@pytest.mark.parametrize(
    ("wrong", "promise", "seen"),
    [
        ("rows", "scores are one row per image", r"of shape \(1, 10\); expected .* 8 rows"),
        ("classes", "scores are one row per image", r"of shape \(8, 3\)"),
        ("nan", "scores are one row per image", "a clean one, are not all finite"),
        ("idle", "it acts", "it never did: nothing changed in 4 batches"),
        ("thread", "nothing is left open", "it left threads running"),
        ("file", "nothing is left open", "it left files open"),
    ],
)
def test_the_kit_notices_what_no_run_can_use(wrong: str, promise: str, seen: str, resnet: Classifier) -> None:
    if wrong == "file" and not Path("/proc/self/fd").is_dir():
        pytest.skip("this system does not tell which files are open")
    Sloppy.done.clear()
    try:
        report = check(Sloppy, resnet, wrong=wrong)
    finally:
        Sloppy.done.set()  # its threads end
    (row,) = (row for row in report.checks if row.promise == promise)
    assert not row.passed
    assert re.search(seen, row.reason)


def test_the_same_method_without_the_mistakes_passes(resnet: Classifier) -> None:
    assert check(Sloppy, resnet).passed


def test_the_command_takes_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    app.command()(check_command)
    monkeypatch.setenv("COLUMNS", "200")
    command = [f"{__name__}:Sloppy", "--model", "fashion_resnet"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert CliRunner().invoke(app, [*command, "--set", "wrong=rows"]).exit_code == 1
    assert isinstance(CliRunner().invoke(app, [*command, "--set", "wrong"]).exception, TemporaError)
