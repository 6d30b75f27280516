"""tempora.deploy: what users hand over wrong, or from places that they did not think of."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

import tempora_tta as tempora
from live_clock import FakeClock, image, tiny_network
from tempora_tta import TemporaError, models
from tempora_tta.errors import TemporaWarning
from tempora_tta.methods import Method
from tempora_tta.scenarios import Poisson

WATCHDOG_S = 600
LAMBDA = r"baseline_ms=.*example="


def images(count: int) -> torch.Tensor:
    return torch.ones(count, 1, 2, 2)


def network(dtype: torch.dtype = torch.float32, **known) -> models.Classifier:
    """Of a known size of images."""
    parts = OrderedDict(flat=nn.Flatten(), head=nn.Linear(4, 3))
    known = {"mean": (0.0,), "std": (1.0,), "input_size": (1, 2, 2), **known}
    return models.wrap(nn.Sequential(parts), features="flat", head="head", **known).to(dtype)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"example": image()}, r"example=.*\(1, 2, 2\).*image"),
        ({"example": "a picture"}, "example='a picture'"),
        ({"example": torch.ones(2, 3, 2, 2)}, "3, 2, 2"),
        ({"example": images(2) * float("nan")}, "example=.*NaN"),
        ({"example": images(2).to("meta")}, "example=.*meta"),
        ({"example": torch.eye(2)[None].to_sparse()}, "example="),
        ({"seed": "a"}, "seed='a'.*whole number"),
        ({"method": 3}, "method 3.*name"),
        ({"model": None}, "model=None.*network"),
        ({"model": network(torch.float64)}, "float64.*float32"),
        ({"model": tiny_network().to(torch.float16)}, "float16.*float32"),
        ({"interval": 33}, "'interval'.*'interval_ms'"),
        ({"budget_x": 0.5}, "budget_ms"),
        ({"fallback": "latest", "fallback_cost": "free"}, "simulated"),
        ({"budget_ms": 5, "rule": "strict", "arrivals": "on_completion"}, "live"),
        ({"batch_size": 0}, "batch_size=0.*whole number"),
        ({"batch_size": 3}, "how long"),
        ({"answer": "at_once"}, "fps"),
        ({"answer": "at_once", "fps": 30, "max_wait_ms": 50.0}, "wait"),
        ({"max_wait_ms": -1.0}, r"max_wait_ms=-1\.0.*finite number"),
        ({"threshold_ms": 100, "model": tiny_network()}, LAMBDA),
        ({"arrivals": Poisson(utilisation=0.5), "model": tiny_network()}, LAMBDA),
        ({"method": "pace", "model": tiny_network()}, LAMBDA),
    ],
)
def test_what_cannot_be_deployed_says_so(given, said):
    with pytest.raises(TemporaError, match=said):
        tempora.deploy(**{"model": network(), "method": "standard", "device": "cpu", **given})


STRANGE = {
    "size": torch.ones(3, 3),
    "empty": images(0),
    "type": images(2).long(),
    "nan": image(float("nan")),
    "str": "a picture",
    "meta": image().to("meta"),
    "sparse": torch.eye(2)[None].to_sparse(),
    "nested": torch.nested.nested_tensor([image(), image()]),
    "jagged": torch.nested.nested_tensor([image(), image()], layout=torch.jagged),
    "mkldnn": image()[None].to_mkldnn(),
    "float8": image().to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("x", STRANGE.values(), ids=STRANGE.keys())
def test_what_no_network_takes_is_refused_before_it_counts_as_an_arrival(x):
    with tempora.deploy(tiny_network(), "standard", device="cpu", example=images(2)) as pipeline:
        with pytest.raises(TemporaError, match=r"\(1, 2, 2\)|floating|NaN|str|values"):
            pipeline.submit(x)
        assert (pipeline.stats()["refused"], pipeline.stats()["arrived"]) == (1, 0)


def test_the_first_answer_and_not_the_first_image_shows_the_shape():
    knobs = {"batch_size": 2, "max_wait_ms": 20, "clock": FakeClock(), "queue": 9}
    with tempora.deploy(tiny_network(), "standard", device="cpu", **knobs) as pipeline:
        wrong, *right = (pipeline.submit(x) for x in (torch.ones(3, 5, 5), image(), image()))
        with pytest.raises(TemporaError, match="answer"):
            wrong.result(WATCHDOG_S)
        assert not any(future.result(WATCHDOG_S).dropped for future in right), (
            "shapes are not collected into one batch"
        )
        assert pipeline.wait(WATCHDOG_S)
        stats = pipeline.stats()
        assert (stats["refused"], stats["failure"], stats["replaced"]) == (1, None, 0)
        with pytest.raises(TemporaError, match=r"\(1, 2, 2\).*example="):
            pipeline.submit(torch.ones(3, 5, 5))


@pytest.mark.parametrize("name", ["tent", "cotta"])
def test_a_client_in_inference_mode_is_learned_from(name, model, batches, tmp_path):
    settings = {"views": 2} if name == "cotta" else {}
    with torch.inference_mode():
        example = batches[0].clone()
        with tempora.deploy(model, (name, settings), device="cpu", example=example) as pipeline:
            for x in batches[:4]:
                pipeline.module()(x.clone())
                pipeline.load(pipeline.save(tmp_path / "state"))
            assert pipeline.wait(WATCHDOG_S)
            stats = pipeline.stats()
    assert (stats["failure"], stats["steps"]) == (None, 4)


@pytest.mark.parametrize(
    "facts",
    [
        *([1], None, {"device": None}, {"froze_itself": "no"}),
        *({"spent_ms": None}, {"spent_ms": -1}, {"spent_ms": float("nan")}),
    ],
)
def test_a_state_whose_facts_were_edited_is_refused(facts, tmp_path):
    with tempora.deploy(tiny_network(), "neo", device="cpu", example=images(1)) as pipeline:
        pipeline.save(tmp_path / "state")
        content = torch.load(tmp_path / "state")
        content["facts"] = {**content["facts"], **facts} if isinstance(facts, dict) else facts
        torch.save(content, tmp_path / "state")
        with pytest.raises(TemporaError, match="save it again"):
            pipeline.load(tmp_path / "state")


def test_a_label_is_a_class_of_the_network_for_a_request_of_this_pipeline():
    with (
        tempora.deploy(tiny_network(), "standard", device="cpu") as one,
        tempora.deploy(tiny_network(), "standard", device="cpu") as other,
    ):
        future = one.submit(image())
        future.result(WATCHDOG_S)
        wrong = [
            3,
            -1,
            999,
            0.5,
            float("nan"),
            True,
            torch.tensor([3]),
            torch.tensor([1], dtype=torch.uint64),
        ]
        for label in wrong:
            with pytest.raises(TemporaError, match="0 to 2"):
                one.label(future, label)
        with pytest.raises(TemporaError, match="pipeline"):
            other.label(future, 0)
        one.label(future, torch.tensor([2]))
        assert (one.stats()["labelled"], other.stats()["labelled"]) == (1, 0)


class Aware(Method):
    """Notes how many images it has seen, and with what it was told."""

    name = "aware"
    time_aware = True

    @torch.no_grad()
    def predict(self, x, moment):
        self.told.append((len(x), moment))
        return self.model(x)

    def adapt(self, moment):
        return "step"


@pytest.mark.parametrize(
    ("said", "size"), [({"example": images(5)}, 5), ({"batch_size": 4, "max_wait_ms": 1.0}, 4), ({}, 2)]
)
def test_a_time_aware_method_is_told_lambda_and_what_its_work_costs(said, size, recwarn):
    """Lambda and the costs of work are those of batches of one size; another one is warned of once."""
    kind = type("Aware", (Aware,), {"told": []})
    with tempora.deploy(network(), kind, device="cpu", interval_ms=60, **said) as pipeline:
        pipeline.submit(images(size)).result(WATCHDOG_S)
        assert not [warning for warning in recwarn if warning.category is TemporaWarning]
        for another in (size + 1, size + 1, size + 2):
            pipeline.submit(images(another)).result(WATCHDOG_S)
    (warning,) = [warning for warning in recwarn if warning.category is TemporaWarning]
    assert all(str(number) in str(warning.message) for number in (size, size + 1))
    assert {seen for seen, _ in kind.told[:4]} == {size}, "it warms up on as many as will come"
    moment = kind.told[4][1]
    assert moment.interval_ms == 60
    assert moment.baseline_ms > 0
    assert list(moment.cost_ms) == ["step"], "its work was tried before it had to decide"
