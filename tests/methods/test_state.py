"""State that a method may keep: saved, restored and reset to the bit, or refused with a reason."""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method, create
from tempora_tta.methods.state import restored, saved
from tempora_tta.methods.testing import check, run
from tempora_tta.models import Classifier

OPTIMISERS = [
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.NAdam,
    torch.optim.LBFGS,
]


class Pair(NamedTuple):
    mean: Tensor
    count: int


class Counted(nn.Module):
    """A layer with a buffer that is no part of its state_dict, and a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("hidden", torch.zeros(2), persistent=False)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.hidden += x.mean(dim=0).detach()
        return self.linear(x) + self.hidden


def test_containers_come_back_as_what_they_were() -> None:
    held = {
        "pair": Pair(torch.ones(2), 3),
        "counts": defaultdict(list, {"a": [torch.zeros(1)]}),
        "recent": deque([torch.ones(1)], maxlen=2),
        "ordered": OrderedDict(b=1, a=2),
        "nested": [(1, {"x": torch.arange(3)})],
    }
    copied = saved(held)
    held["pair"].mean.zero_()
    held["counts"]["a"].append(torch.ones(1))
    held["recent"].append(torch.zeros(1))
    back = restored(held, copied)
    assert isinstance(back["pair"], Pair)
    assert back["pair"].mean.tolist() == [1, 1]
    assert back["counts"]["new"] == []
    assert len(back["counts"]["a"]) == 1
    assert back["recent"].maxlen == 2
    assert len(back["recent"]) == 1
    assert list(back["ordered"]) == ["b", "a"]
    back["nested"][0][1]["x"].zero_()
    assert copied["nested"][0][1]["x"].tolist() == [0, 1, 2]  # a copy stays good for more


@pytest.mark.parametrize("kind", OPTIMISERS, ids=lambda kind: kind.__name__)
def test_any_optimiser_of_pytorch_goes_on_as_if_nothing_had_happened(
    kind: type[torch.optim.Optimizer],
) -> None:
    network = nn.ModuleList([Counted(), Counted()])
    optimizer = kind(network.parameters(), lr=0.1)  # type: ignore[call-arg]
    held: dict[str, Any] = {
        "network": network,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2),
    }

    def step() -> Tensor:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = sum(module(torch.ones(3, 2)).square().sum() for module in network)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        held["scheduler"].step()
        return loss.detach().clone()

    def kept() -> dict[str, Any]:
        return {name: saved(value) for name, value in held.items()}

    start = kept()
    losses = [step() for _ in range(2)]
    middle = kept()
    losses += [step() for _ in range(3)]
    for copied, after in ((middle, 2), (start, 0), (middle, 2)):
        for name, value in held.items():
            assert restored(value, copied[name]) is value
        assert [step() for _ in losses[after:]] == losses[after:]


@pytest.mark.parametrize("part", [nn.Linear(2, 2), nn.Parameter(torch.ones(1)), torch.Generator()])
def test_what_others_hold_is_not_copied_out_of_a_container(part: Any) -> None:
    with pytest.raises(TemporaError, match=rf"mine.bank: a {type(part).__name__} .* make it an attribute"):
        saved({"bank": [part]}, "mine.bank")


def test_what_cannot_be_saved_is_refused_with_what_to_do() -> None:
    with pytest.raises(TemporaError, match=r"mine.iterator: a generator cannot be copied .* keep tensors"):
        saved(iter_of(), "mine.iterator")
    with pytest.raises(TemporaError, match=r"parts or their shapes changed .* in setup\(\)"):
        restored(nn.Linear(2, 3), saved(nn.Linear(2, 2)))


def test_a_parameter_is_written_in_place() -> None:
    parameter = nn.Parameter(torch.ones(2))
    copied = saved(parameter)
    with torch.no_grad():
        parameter.zero_()
    assert restored(parameter, copied) is parameter
    assert parameter.tolist() == [1, 1]


def iter_of() -> Any:
    yield 1


class Keeper(Method):
    """A student and a teacher, a PyTorch optimiser, a default dict, a named tuple."""

    name = "keeper"
    state = ("teacher", "optimizer", "seen", "last", "dice")

    def setup(self) -> None:
        self.teacher = copy.deepcopy(self.model)
        self.trainable = {"network.fc.weight": self.model.classifier.weight}
        assert self.model.classifier.weight.requires_grad  # so that setup can differentiate
        self.optimizer = torch.optim.Adam(self.trainable.values(), lr=0.01)
        self.seen: defaultdict[str, int] = defaultdict(int)
        self.last = Pair(torch.zeros(1), 0)
        self.dice = torch.Generator().manual_seed(self.seed)

    def predict(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            z = self.model(x + 0.1 * torch.rand(1, generator=self.dice))
        self.pending = None if self.frozen else z
        return self.teacher(x).detach() + self.seen["batches"] + self.last.mean

    def adapt(self) -> str:
        if self.pending is None:
            return "none"
        self.optimizer.zero_grad()
        self.pending.logsumexp(dim=1).mean().backward()
        self.optimizer.step()
        with torch.no_grad():
            self.teacher.classifier.weight.lerp_(self.model.classifier.weight, 0.5)
        self.seen["batches"] += 1
        self.last = Pair(self.pending.detach().mean().view(1), self.last.count + 1)
        return "step"


def test_a_method_of_many_parts_is_reset_and_restored(resnet: Classifier, batches: list[Tensor]) -> None:
    method = create(Keeper, resnet)
    first = run(method, batches[:4])
    saved_here = method.snapshot()
    rest = run(method, batches[4:])
    for snapshot, expected, stream in (
        (None, first, batches[:4]),
        (saved_here, rest, batches[4:]),
    ):
        method.reset() if snapshot is None else method.restore(snapshot)
        again = run(method, stream)
        assert all(torch.equal(one, two) for (one, _), (two, _) in zip(expected, again, strict=True))
    report = check(Keeper, resnet)
    broken = {row.promise for row in report.checks if not row.passed}
    assert broken <= {"frozen, it changes nothing", "no NaN reaches the weights"}, (
        report
    )  # it draws when frozen


def test_promises_and_labels_are_not_inherited(resnet: Classifier, batches: list[Tensor]) -> None:
    class Like(tempora_class("lame")):  # type: ignore[misc]
        name = "like"

    assert (Like.history_free, Like.stateless, Like.label) == (False, False, "")
    assert tempora_class("lame").stateless
    stopped = create("tent", resnet, stop_after=1)
    assert stopped.label == "Tent"
    assert create("adabn", resnet, reforward=True).history_free


def tempora_class(name: str) -> Any:
    from tempora_tta.methods import get

    return get(name)


def test_a_derived_method_gets_the_recipe_of_what_it_is_derived_from(resnet: Classifier) -> None:
    model = copy.deepcopy(resnet)
    model.recipe = {"tent": {"lr": 0.5}, "eta": {"lr": 0.25, "margin": 0.7}}

    class Mine(tempora_class("eta")):  # type: ignore[misc]
        name = "mine"

    method = create(Mine, model)
    assert (method.settings.lr, method.settings.margin, method.recipe_of) == (0.25, 0.7, "eta")
    assert create("rdumb", model).recipe_of == "eta"
    model.recipe["mine"] = {"lr": 0.125}
    assert (create(Mine, model).settings.lr, create(Mine, model).recipe_of) == (0.125, "mine")
    assert create("neo", model).recipe_of is None
    assert create(Mine, model, recipe=False).recipe_of is None


def test_nan_never_enters_tracked_statistics(resnet: Classifier, batches: list[Tensor]) -> None:
    for name in ("adabn", "tent", "cotta", "alpha_bn"):
        spoilt, spared = (create(name, resnet, **({"views": 1} if name == "cotta" else {})) for _ in range(2))
        for x in batches[:2]:
            run(spoilt, [x])
            run(spared, [x])
        run(spoilt, [torch.full_like(batches[2], torch.nan)])
        for key in spoilt.updated_buffers:
            if key.startswith("network.") and "num_batches" not in key:
                mine, other = (dict(m.model.named_buffers())[key] for m in (spoilt, spared))
                assert torch.equal(mine, other), (name, key)


def test_work_says_how_much_was_done(resnet: Classifier, batches: list[Tensor]) -> None:
    for name in ("eta", "sar", "deyo", "cmf", "roid"):
        method = create(name, resnet)
        run(method, batches[:1])
        mode, amount = method.work
        assert mode in method.modes, name
        assert 0 <= amount <= len(batches[0])
    lame = create("lame", resnet, every=1)
    lame.predict(batches[0])
    assert lame.work[0] == "iterations"
    assert 3 <= lame.work[1] <= 100


def test_source_samples_are_asked_for_and_given(vit: Classifier, batches: list[Tensor]) -> None:
    with pytest.raises(TemporaError, match=r"eata needs 2000 clean unlabelled samples .*source=images"):
        create("eata", vit)
    images = torch.cat(batches)
    with pytest.raises(
        TemporaError, match=r"eata needs 2000 clean samples and the source has 48: .*samples=48"
    ):
        create("eata", vit, source=images)
    with pytest.raises(TemporaError, match=r"torch.int64 .* expected normalised images"):
        create("eata", vit, source=images.long(), samples=8)
    with pytest.raises(TemporaError, match="NaN or infinity"):
        create("eata", vit, source=images * torch.nan, samples=8)
    given, made = (
        create("eata", vit, source=images, samples=32),
        create("eata", vit, source=lambda n: images[:n], samples=32),
    )
    assert all(map(torch.equal, given.importance, made.importance))
