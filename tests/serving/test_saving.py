"""A pipeline's state on disk: a restart goes on to the bit; what does not belong to it is refused."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass

import pytest
import torch

import tempora_tta as tempora
from live_clock import image, tiny_network
from tempora_tta import TemporaError, models
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method, names
from tempora_tta.methods import get as method_class

WATCHDOG_S = 600


KINDS = ("standard", "neo", "lame", "t3a", "tent", "cmf", "eata", "sar", "rotta", "pace")
"""One of each kind of state; the others with the slow tests."""


def answers(pipeline, batches):
    return torch.stack([pipeline.submit(x).result(WATCHDOG_S).scores for x in batches])


@pytest.mark.parametrize(
    "name",
    [
        name if name in KINDS else pytest.param(name, marks=pytest.mark.slow)
        for name in names()
        if not method_class(name).only_by_name
    ],
)
def test_a_restart_goes_on_from_the_saved_state(name, model, batches, tmp_path):
    if name in ("spa", "zerosiam"):  # they need a network without BatchNorm
        model = models.load("fashion_vit")
    source = {"source": torch.cat(batches)[:16]} if name in ("eata", "foa") else {}
    settings = {"samples": 16} if source else {}
    knobs = {"device": "cpu", "arrivals": "on_completion", "baseline_ms": 10.0, **source}
    with tempora.deploy(model, (name, settings), **knobs) as pipeline:
        answers(pipeline, batches[:3])
        saved = pipeline.save(tmp_path / "state")
        expected = answers(pipeline, batches[3:6])
        assert pipeline.stats()["failure"] is None
    with tempora.deploy(model, (name, settings), **knobs) as restarted:
        answers(restarted, batches[6:7])
        restarted.load(saved)
        assert torch.equal(answers(restarted, batches[3:6]), expected)


class Counting(Method):
    """Adds its steps to its scores."""

    name = "counting"
    state = ("seen",)
    broken = False

    def setup(self):
        self.seen = 0

    @torch.no_grad()
    def predict(self, x):
        if self.broken:
            raise RuntimeError("out of luck")
        return self.model(x) + self.seen

    def adapt(self):
        self.seen += not self.frozen
        return "step"


def test_a_given_up_method_comes_back_with_a_saved_state(tmp_path):
    kind = type("Counting", (Counting,), {})
    with tempora.deploy(tiny_network(), kind, device="cpu") as pipeline:
        fresh = answers(pipeline, [image()])
        pipeline.save(tmp_path / "state")
        kind.broken = True
        with pytest.warns(TemporaWarning, match="load"):
            answers(pipeline, [image()])
        assert pipeline.stats()["failure"] is not None
        kind.broken = False
        pipeline.load(tmp_path / "state")
        assert torch.allclose(answers(pipeline, [image()]), fresh + 1)
        assert pipeline.wait(WATCHDOG_S)
        assert (pipeline.stats()["failure"], pipeline.stats()["steps"]) == (None, 2)


def test_a_state_of_something_else_is_refused(tmp_path):
    network, other = tiny_network(), tiny_network()
    assert network.name == other.name
    with tempora.deploy(network, Counting, device="cpu") as pipeline:
        answers(pipeline, [image()])
        pipeline.save(tmp_path / "state")
        (tmp_path / "other").write_bytes(b"junk")
        for path in ("other", "none"):
            with pytest.raises(TemporaError, match=path):
                pipeline.load(tmp_path / path)
        for place in (tmp_path / "missing" / "state", tmp_path / "state" / "state", tmp_path):
            with pytest.raises(TemporaError, match="another place"):
                pipeline.save(place)
    assert {path.name for path in tmp_path.iterdir()} == {"state", "other"}
    for model, method, said in (
        (network, "standard", "'counting'"),
        (other, Counting, "weights.*same model"),
    ):
        with tempora.deploy(model, method, device="cpu") as pipeline, pytest.raises(TemporaError, match=said):
            pipeline.load(tmp_path / "state")


@dataclass
class Note:
    """A part of a state that a method defines itself."""

    values: torch.Tensor


class Keeping(Counting):
    name = "keeping"
    state = ("kept",)

    def setup(self):
        super().setup()
        self.kept = deque([Note(torch.arange(3.0)), (1, "a", None, {"b": [True]})], maxlen=2)

    def predict(self, x):
        return super().predict(x) + self.kept[0].values

    def adapt(self):
        self.kept.appendleft(Note(self.kept[0].values + 1))
        return super().adapt()


def test_a_state_may_hold_plain_values_and_a_methods_own_dataclasses_and_nothing_that_could_run(tmp_path):
    kind = type("Keeping", (Keeping,), {})
    with tempora.deploy(tiny_network(), kind, device="cpu") as pipeline:
        answers(pipeline, [image()])
        pipeline.save(tmp_path / "state")
        expected = answers(pipeline, [image()] * 2)
        pipeline.load(tmp_path / "state")
        assert torch.equal(answers(pipeline, [image()] * 2), expected)
        kind.snapshot = lambda self: {**Keeping.snapshot(self), "more": print}
        with pytest.raises(TemporaError, match="print"):
            pipeline.save(tmp_path / "other")
        assert not (tmp_path / "other").exists()
        content = torch.load(tmp_path / "state", weights_only=False)
        torch.save({**content, "snapshot": Runs(tmp_path)}, tmp_path / "edited")
        with pytest.raises(TemporaError, match="edited"):
            pipeline.load(tmp_path / "edited")
        assert not (tmp_path / "ran").exists()


class Runs:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / "ran"),)
