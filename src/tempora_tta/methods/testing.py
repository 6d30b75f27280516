"""The conformance kit: does a method keep the promises that the engine builds on?

    print(tempora_tta.methods.testing.check("my_package.mine:Mine", model))

Each check makes the method anew and runs it over a short stream of made-up images. The classifier of the copies
is sharpened first, so that methods which learn from certain predictions find some.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from tempora_tta._global_state import GlobalState
from tempora_tta.errors import TemporaError
from tempora_tta.methods._promises import PROMISES, Broken, Kit, contents, has_something_to_change, run
from tempora_tta.methods.contract import Method
from tempora_tta.methods.functions import entropy, max_entropy
from tempora_tta.methods.norm import BatchStatistics
from tempora_tta.methods.registry import create, get
from tempora_tta.models import Classifier, wrap

__all__ = [
    "PROMISES",
    "Check",
    "Report",
    "check",
    "made_up_batches",
    "made_up_images",
    "run",
    "shaken",
    "sharpened",
]

BATCHES, BATCH_SIZE = 4, 8
MOST_BATCHES = 24  # until a method acts
ATTEMPTS = ((0.2, 0.0), (0.02, 0.0), (0.2, 0.5))
"""How certain the network is made (median entropy as a share of ln C) and how far its weights are shaken, in turn,
until the method acts: promises hold for any weights."""
SOURCE_SAMPLES = 64  # for methods that want thousands, which would only take longer here


@dataclass(frozen=True)
class Check:
    """One promise: whether it was kept, and what was seen."""

    promise: str
    passed: bool
    reason: str


@dataclass(frozen=True)
class Report:
    """The outcome for one method on one model. `refused` holds the reason where the method does not fit it."""

    method: str
    model: str
    checks: list[Check] = field(default_factory=list)
    refused: str | None = None

    @property
    def passed(self) -> bool:
        """No promise was broken; a clear refusal breaks none."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        if self.refused is not None:
            return f"{self.method} on {self.model}: refused\n  {self.refused}"
        lines = [
            f"  {'pass' if check.passed else 'FAIL'}  {check.promise}: {check.reason}"
            for check in self.checks
        ]
        return "\n".join([f"{self.method} on {self.model}: {'pass' if self.passed else 'FAIL'}", *lines])


def check(
    method: str | type[Method],
    model: nn.Module,
    *,
    batches: Sequence[Tensor] | None = None,
    seed: int = 2025,
    **settings: Any,
) -> Report:
    """Every promise of `method`, made by `create(method, model, seed, **settings)`, where `model` is.

    batches: four or more batches of images to use instead of made-up ones. Of those there are as many as the
        method needs to act, at most two dozen.
    """
    classifier = wrap(model)
    name = method if isinstance(method, str) else method.__name__
    stream = list(batches) if batches is not None else made_up_batches(classifier, MOST_BATCHES)
    if len(stream) < BATCHES:
        raise TemporaError(f"batches: {len(stream)} given, at least {BATCHES} needed.")
    if any(field.name == "samples" for field in dataclasses.fields(get(method).Settings)):
        settings = {"samples": SOURCE_SAMPLES, **settings}
    options: dict[str, Any] = {"source": partial(made_up_images, classifier), **settings}
    make: Callable[[nn.Module], Method] = partial(create, method, seed=seed, **options)
    before = GlobalState.now()
    try:
        make(classifier)
    except TemporaError as refusal:
        return Report(name, classifier.name, refused=str(refusal))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Report(name, classifier.name, [Check("it can be made", False, f"setup() {_raised(error)}")])
    finally:
        before.put_back()
    for share, shake in ATTEMPTS:
        ready = sharpened(shaken(classifier, shake), stream[0], share)
        needed = _batches_needed(make, ready, stream)
        before.put_back()
        if needed is not None:
            break
    kit = Kit(make, ready, stream if batches is not None else stream[: max(BATCHES, (needed or 0) + 2)])
    return Report(name, classifier.name, [_outcome(promise, test, kit) for promise, test in PROMISES.items()])


def made_up_batches(model: Classifier, count: int = BATCHES) -> list[Tensor]:
    """Smooth random images of the model's size, each batch brighter than the one before, four by four."""
    brightness = torch.linspace(0.4, 1.0, BATCHES).tolist()
    return [
        made_up_images(model, BATCH_SIZE, brightness[index % BATCHES], seed=index) for index in range(count)
    ]


def made_up_images(model: Classifier, count: int, brightness: float = 0.9, seed: int = -1) -> Tensor:
    """Smooth random images, normalised."""
    channels, height, width = model.preprocessing.image_shape
    generator = torch.Generator().manual_seed(seed % 2**32)
    coarse = torch.rand(count, channels, 8, 8, generator=generator)
    images = brightness * interpolate(coarse, (height, width), mode="bilinear")
    low, high = (
        torch.tensor(limits)[:, None, None]
        for limits in (model.preprocessing.lowest, model.preprocessing.highest)
    )
    return (low + (high - low) * images).to(model.device, model.dtype)


def _batches_needed(
    make: Callable[[nn.Module], Method], model: Classifier, stream: Sequence[Tensor]
) -> int | None:
    """How many batches there are until it changes something; None: it never does."""
    try:
        method = make(model)
        if not has_something_to_change(method):
            return 0
        for index, x in enumerate(stream):
            before = contents(method)
            run(method, [x])
            if contents(method) != before:
                return index + 1
    except KeyboardInterrupt:
        raise
    except BaseException:
        return 0  # the promises will say what is wrong
    return None


@torch.no_grad()
def shaken(model: Classifier, size: float) -> Classifier:
    """A copy with noise of that size on every weight: an untrained network hardly looks at its images."""
    copied = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    for parameter in copied.parameters() if size else ():
        parameter.add_(size * torch.randn(parameter.shape, generator=generator).to(parameter))
    return copied


@torch.no_grad()
def sharpened(model: Classifier, x: Tensor, share: float = 0.2) -> Classifier:
    """A copy whose classifier is scaled until the median entropy of `x` is that share of the greatest possible.

    Entropy as adapting methods see it: with batch statistics where there is BatchNorm.
    """
    sharp, probe = copy.deepcopy(model).eval(), copy.deepcopy(model).eval()
    BatchStatistics(probe, source="keep", frozen="batch").freeze()
    for _ in range(30):
        if entropy(probe(x)).median() < share * max_entropy(model.num_classes):
            break
        for parameter in (*sharp.classifier.parameters(), *probe.classifier.parameters()):
            parameter.mul_(1.5)
    return sharp


def _outcome(promise: str, test: Callable[[Kit], str], kit: Kit) -> Check:
    before = GlobalState.now()
    try:
        return Check(promise, True, test(kit))
    except Broken as broken:
        return Check(promise, False, str(broken))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a method must not end whoever runs it
        return Check(promise, False, _raised(error))
    finally:
        before.put_back()  # what one check left must not break the next


def _raised(error: BaseException) -> str:
    return f"raised {type(error).__name__}: {error}"
