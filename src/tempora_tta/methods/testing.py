"""The conformance kit: does a method keep the promises that the engine builds on?

    print(tempora_tta.methods.testing.check("my_package.mine:Mine", model))

Each check makes the method again and runs it over a short stream of made-up images. The classifier of the copies
is sharpened first, so that methods which learn from certain predictions find some.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate
from torch.utils._pytree import tree_map

from tempora_tta._global_state import GlobalState
from tempora_tta.errors import TemporaError
from tempora_tta.methods.contract import Method, adapt_at, checked_action, checked_scores, predict_at
from tempora_tta.methods.functions import entropy, max_entropy
from tempora_tta.methods.guard import Guard
from tempora_tta.methods.modules import Parts
from tempora_tta.methods.norm import BatchStatistics
from tempora_tta.methods.registry import create, get
from tempora_tta.methods.state import GeneratorState
from tempora_tta.models import Classifier, wrap

BATCHES, BATCH_SIZE = 4, 8
MOST_BATCHES = 24  # until a method acts
BRANCH = 2  # the batch at which checks save, freeze or part ways
ATTEMPTS = ((0.2, 0.0), (0.02, 0.0), (0.2, 0.5))
"""Certainty that the network is given (median entropy as a share of ln C) and size of the noise on its weights: tried
in turn until the method acts, for promises hold for any weights."""
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
        lines = [f"  {_word(check.passed)}  {check.promise}: {check.reason}" for check in self.checks]
        return "\n".join([f"{self.method} on {self.model}: {_word(self.passed)}", *lines])


def _word(passed: bool) -> str:
    return "pass" if passed else "FAIL"


@dataclass
class Kit:
    """The tools of a check: a way to make the method, a model and a stream."""

    make: Callable[[nn.Module], Method]
    model: Classifier
    batches: list[Tensor]

    def fresh(self) -> Method:
        """The method, newly made."""
        return self.make(self.model)

    def after(self, count: int) -> Method:
        """The method after `count` batches."""
        method = self.fresh()
        run(method, self.batches[:count])
        return method


def check(
    method: str | type[Method],
    model: nn.Module,
    *,
    batches: Sequence[Tensor] | None = None,
    seed: int = 2025,
    **settings: Any,
) -> Report:
    """Check every promise of `method`, made by `create(method, model, seed, **settings)`, where `model` is.

    Args:
        batches: four or more batches of images to use instead of made-up ones. Of those there are as many as
            the method needs to act, at most two dozen.
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
        if needed is not None:
            break
    kit = Kit(make, ready, stream if batches is not None else stream[: max(BATCHES, (needed or 0) + 2)])
    return Report(name, classifier.name, [_outcome(promise, test, kit) for promise, test in PROMISES.items()])


def _outcome(promise: str, test: Callable[[Kit], str], kit: Kit) -> Check:
    """The outcome of one check. What it left behind in the process is put back, and must not break the next."""
    before = GlobalState.now()
    try:
        return Check(promise, True, test(kit))
    except TemporaError as broken:
        return Check(promise, False, str(broken))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a method must not end the process
        return Check(promise, False, _raised(error))
    finally:
        before.put_back()


def _raised(error: BaseException) -> str:
    return f"raised {type(error).__name__}: {error}"


# The stream and the network.


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


def _batches_needed(
    make: Callable[[nn.Module], Method], model: Classifier, stream: Sequence[Tensor]
) -> int | None:
    """Number of batches until it changes something; None: it never does."""
    before = GlobalState.now()
    try:
        method = make(model)
        if not _has_something_to_change(method):
            return 0
        for index, x in enumerate(stream):
            at_first = _contents(method)
            run(method, [x])
            if _contents(method) != at_first:
                return index + 1
    except KeyboardInterrupt:
        raise
    except BaseException:
        return 0  # the promises will say what is wrong
    finally:
        before.put_back()
    return None


# What is compared.


def run(method: Method, batches: Sequence[Tensor]) -> list[tuple[Tensor, str]]:
    """Scores (as they were when emitted) and action of each batch."""
    return [(predict_at(method, x).clone(), adapt_at(method)) for x in batches]


def _has_something_to_change(method: Method) -> bool:
    declared = method.updated_parameters or method.updated_buffers or method.changing or method.state_names()
    return bool(declared) and not method.frozen


def _contents(method: Method) -> str:
    """Everything that adapting may change besides running statistics, as one text to compare."""
    snapshot = method.snapshot()
    snapshot = snapshot.get("inner", snapshot)
    tensors = [*method.trainable.values(), *method.changing.values()]
    state = {part: snapshot.get(part) for part in ("state", "tensors", "module")}
    return str(tree_map(_digest, tensors or state))


def _digest(part: Any) -> str:
    if isinstance(part, Parts):
        return str(tree_map(_digest, [dict(part.network.state_dict()), dict(part.module.state_dict())]))
    part = part.state if isinstance(part, GeneratorState) else part
    if not isinstance(part, Tensor):
        return repr(part)
    held = part.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.sha256(held.numpy().tobytes()).hexdigest()


def _everything(method: Method) -> dict[str, Tensor]:
    """All tensors of the model and of the method, by name."""
    own = {**method.model.state_dict(), **method.trainable, **method.changing}
    return {name: tensor.detach().clone() for name, tensor in own.items()}


def _changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> list[str]:
    return [name for name, tensor in before.items() if not torch.equal(tensor, after[name])]


def _counted(results: Sequence[tuple[Tensor, str]]) -> str:
    return ", ".join(f"{action} {count}" for action, count in Counter(one for _, one in results).items())


def _must(kept: object, otherwise: str) -> None:
    if not kept:
        raise TemporaError(otherwise)


def _same(expected: list[tuple[Tensor, str]], given: list[tuple[Tensor, str]], when: str) -> None:
    for index, ((scores, action), (scores_now, action_now)) in enumerate(zip(expected, given, strict=True)):
        away = (scores - scores_now).abs().max().item()
        _must(
            torch.equal(scores, scores_now), f"{when}, the scores of batch {index} differ by up to {away:.3g}"
        )
        _must(
            action == action_now,
            f"{when}, adapt() on batch {index} returned {action_now!r} instead of {action!r}",
        )


def _open_files() -> set[str]:
    """Files that this process holds open, where the system tells."""
    folder = Path("/proc/self/fd")
    found = set()
    for entry in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            found.add(f"{entry.name} -> {entry.readlink()}")
    return {name for name in found if not name.endswith("/fd")}


# The promises: each returns what was seen, or raises what is broken.


def _acts(kit: Kit) -> str:
    """A pass that changed nothing shows nothing."""
    method = kit.fresh()
    before = _contents(method)
    seen = _counted(run(method, kit.batches))
    if _contents(method) != before:
        return f"something changed within {len(kit.batches)} batches: {seen}"
    _must(
        not _has_something_to_change(method),
        f"it never did: nothing changed in {len(kit.batches)} batches ({seen}), so nothing was checked: give "
        "settings under which it acts (--set)",
    )
    return f"has nothing to change: {seen}"


def _scores(kit: Kit) -> str:
    method = kit.fresh()
    for index, x in enumerate(kit.batches):
        scores = checked_scores("it", predict_at(method, x), len(x), kit.model.num_classes)
        checked_action("it", adapt_at(method))
        whose = f"scores of batch {index}, a clean one,"
        _must(scores.is_floating_point(), f"{whose} are {scores.dtype}; expected floating point")
        _must(scores.isfinite().all(), f"{whose} are not all finite")
    return f"(images, classes) = {tuple(scores.shape)}, all finite"


def _global_state(kit: Kit) -> str:
    def guarded(name: str, call: Callable[..., Any], *given: Any) -> Any:
        with Guard("it")(name):
            return call(*given)

    method = guarded("setup", kit.fresh)
    for x in kit.batches[:BRANCH]:
        guarded("predict", predict_at, method, x)
        guarded("adapt", adapt_at, method)
    saved = guarded("snapshot", method.snapshot)
    guarded("freeze", method.freeze)
    guarded("predict", predict_at, method, kit.batches[BRANCH])
    guarded("restore", method.restore, saved)
    guarded("reset", method.reset)
    return "torch's switches are as they were after every call"


def _reset(kit: Kit) -> str:
    method = kit.fresh()
    first = run(method, kit.batches)
    method.freeze()
    method.reset()
    _must(method.frozen == kit.fresh().frozen, "reset() left it frozen")
    _same(first, run(method, kit.batches), "after reset()")
    return "scores and actions repeat bit for bit"


def _same_seed(kit: Kit) -> str:
    first = run(kit.fresh(), kit.batches)
    _same(first, run(kit.fresh(), kit.batches), "made a second time")
    return f"two of them agree; actions: {_counted(first)}"


def _snapshot(kit: Kit) -> str:
    method, rest = kit.after(BRANCH), kit.batches[BRANCH:]
    saved = method.snapshot()
    expected = run(method, rest)
    method.restore(saved)
    _same(expected, run(method, rest), "after the first restore()")
    method.freeze()
    method.restore(saved)
    _same(expected, run(method, rest), "after the second restore()")
    return "the rest of the stream repeats bit for bit, twice from one snapshot"


def _frozen(kit: Kit) -> str:
    method = kit.after(BRANCH)
    method.freeze()
    before = _everything(method)
    first = run(method, kit.batches)
    _same(first, run(method, kit.batches), "frozen")
    _must({action for _, action in first} == {"none"}, "frozen, adapt() returned something else than 'none'")
    changed = _changed(before, _everything(method))
    _must(not changed, f"frozen, it changed {', '.join(changed[:3])}")
    return "predictions repeat and nothing changes"


def _declared(kit: Kit) -> str:
    original = {name: tensor.clone() for name, tensor in kit.model.state_dict().items()}
    method = kit.fresh()
    before = _everything(method)
    changed: set[str] = set()
    for x in kit.batches:
        run(method, [x])
        changed.update(_changed(before, _everything(method)))
    declared = {*method.updated_parameters, *method.updated_buffers}
    undeclared = sorted(changed - declared)
    _must(not undeclared, f"it changed {', '.join(undeclared[:3])} without declaring it")
    _must(not _changed(original, kit.model.state_dict()), "it changed the caller's model")
    return f"{len(changed)} tensors changed, {len(declared)} declared"


def _final(kit: Kit) -> str:
    method = kit.fresh()
    for index, x in enumerate(kit.batches):
        given, scores = x.clone(), predict_at(method, x)
        _must(not scores.requires_grad, "scores carry a gradient graph: return them detached")
        emitted = scores.clone()
        adapt_at(method)
        same = torch.equal(scores, emitted)
        _must(same, f"adapt() changed the scores of batch {index} after they were emitted")
        _must(torch.equal(x, given), f"it changed the images of batch {index} in place")
    return "scores stay as emitted, images as given; labels and later batches are never shown"


def _history_free(kit: Kit) -> str:
    if not kit.fresh().history_free:
        return "not claimed"
    *earlier, last = kit.batches
    same = torch.equal(predict_at(kit.after(len(earlier)), last), predict_at(kit.fresh(), last))
    _must(same, "claimed, but the scores of a batch depend on the batches before it")
    return "claimed, and scores do not depend on earlier batches"


def _stateless(kit: Kit) -> str:
    method, standard = kit.after(BRANCH), create("standard", kit.model)
    if not method.stateless:
        return "not claimed"
    method.freeze()
    for x in kit.batches:
        same = torch.equal(predict_at(method, x).argmax(1), standard.predict(x).argmax(1))
        _must(same, "claimed, but frozen it predicts other classes than Standard")
    return "claimed, and frozen it predicts what Standard predicts"


def _batch_of_one(kit: Kit) -> str:
    method = kit.fresh()
    try:
        scores = predict_at(method, kit.batches[0][:1])
    except TemporaError as refusal:
        return f"refused: {refusal}"
    adapt_at(method)
    _must(scores.shape == (1, kit.model.num_classes), f"scores of one image have shape {tuple(scores.shape)}")
    run(method, [x[:1] for x in kit.batches])
    return "works"


def _nothing_to_learn(kit: Kit) -> str:
    """With a classifier of zeros every class is equally likely: the least informative batch there is."""
    blank = copy.deepcopy(kit.model)
    for parameter in blank.classifier.parameters():
        nn.init.zeros_(parameter)
    method = kit.make(blank)
    before = _everything(method)
    actions = [action for _, action in run(method, kit.batches)]
    changed = sorted(set(_changed(before, _everything(method))) & set(method.updated_parameters))
    kept_none = set(actions) == {"nothing_kept"}
    _must(
        not (kept_none and changed),
        f"adapt() returned 'nothing_kept' and yet changed {', '.join(changed[:3])}",
    )
    return f"works: {actions[0]}"


def _not_finite(kit: Kit) -> str:
    method, actions = kit.after(BRANCH), []
    for value in (torch.nan, torch.inf):
        poisoned = kit.batches[BRANCH].clone()
        poisoned[0, 0, 0, 0] = value
        actions += [action for _, action in run(method, [poisoned])]
    updated = {*method.updated_parameters, *method.updated_buffers}
    for name, tensor in _everything(method).items():
        _must(name not in updated or tensor.isfinite().all(), f"a batch with NaN made {name} non-finite")
    finite = predict_at(method, kit.batches[-1]).isfinite().all()
    _must(finite, "after a batch with NaN, scores of a clean batch are not finite")
    return f"weights stay finite: {', '.join(actions)}"


def _leaves_nothing_open(kit: Kit) -> str:
    method = kit.after(1)
    threads, files = set(threading.enumerate()), _open_files()
    run(method, kit.batches)
    left = [thread.name for thread in threading.enumerate() if thread not in threads]
    _must(not left, f"it left threads running: {', '.join(left[:3])}")
    opened = sorted(_open_files() - files)
    _must(not opened, f"it left files open: {', '.join(opened[:3])}")
    return "no thread and no file"


PROMISES: dict[str, Callable[[Kit], str]] = {
    "it acts": _acts,
    "scores are one row per image": _scores,
    "nothing global changes": _global_state,
    "reset is bit-exact": _reset,
    "same seed, same result": _same_seed,
    "snapshot and restore are exact mid-stream": _snapshot,
    "frozen, it changes nothing": _frozen,
    "only declared tensors change": _declared,
    "a prediction is final when emitted": _final,
    "history_free is true": _history_free,
    "stateless is true": _stateless,
    "a batch of one works or is refused": _batch_of_one,
    "a batch with nothing to learn from works": _nothing_to_learn,
    "no NaN reaches the weights": _not_finite,
    "nothing is left open": _leaves_nothing_open,
}
