"""The promises that the engine builds on, each with the check that a method keeps it."""

from __future__ import annotations

import copy
import hashlib
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.methods.contract import Method, adapt_at, predict_at
from tempora_tta.methods.guard import Guard
from tempora_tta.methods.registry import create
from tempora_tta.methods.state import InPlace
from tempora_tta.models import Classifier

BRANCH = 2  # the batch at which checks save, freeze or part ways


class Broken(Exception):
    """A promise was not kept; the message says how."""


def has_something_to_change(method: Method) -> bool:
    """Whether it declares anything that adapting changes."""
    declared = method.trainable or method.changing or method.updated_buffers or method._state_names()
    return bool(declared) and not method.frozen


def contents(method: Method) -> str:
    """Everything that adapting may change beside running statistics, as one text to compare."""
    snapshot = method.snapshot()
    while "inner" in snapshot:
        snapshot = snapshot["inner"]
    tensors = [tensor for name, tensor in method.trainable.items()] + list(method.changing.values())
    held = [] if tensors else [snapshot["state"], [buffer.clone() for buffer in snapshot["tensors"]]]
    digest = hashlib.sha256(pickle.dumps([[_bytes(tensor) for tensor in tensors], _plain(held)]))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _plain(value: Any) -> Any:
    """Tensors as bytes, whatever holds them."""
    if isinstance(value, Tensor):
        return _bytes(value)
    if isinstance(value, InPlace):
        return _plain(value.held)
    if isinstance(value, dict):
        return [(str(key), _plain(entry)) for key, entry in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return repr(value)


@dataclass
class Kit:
    """What checks work with: a way to make the method, a model and a stream."""

    make: Callable[[nn.Module], Method]
    model: Classifier
    batches: list[Tensor]

    def fresh(self) -> Method:
        """The method, newly made."""
        return self.make(self.model)

    def after(self, count: int) -> Method:
        """The method after so many batches."""
        method = self.fresh()
        run(method, self.batches[:count])
        return method


def run(method: Method, batches: Sequence[Tensor]) -> list[tuple[Tensor, str]]:
    """Scores (as they were when emitted) and action of each batch."""
    return [(predict_at(method, x).clone(), adapt_at(method)) for x in batches]


def _same(expected: list[tuple[Tensor, str]], given: list[tuple[Tensor, str]], when: str) -> None:
    for index, ((scores, action), (scores_now, action_now)) in enumerate(zip(expected, given, strict=True)):
        if not torch.equal(scores, scores_now):
            difference = (scores - scores_now).abs().max().item()
            raise Broken(f"{when}, the scores of batch {index} differ by up to {difference:.3g}")
        if action != action_now:
            raise Broken(f"{when}, adapt() on batch {index} returned {action_now!r} instead of {action!r}")


def _everything(method: Method) -> dict[str, Tensor]:
    """All tensors of the model and of the method, by name."""
    own = {**method.trainable, **method.changing}
    return {name: tensor.detach().clone() for name, tensor in {**method.model.state_dict(), **own}.items()}


def _changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> list[str]:
    return [name for name, tensor in before.items() if not torch.equal(tensor, after[name])]


def _acts(kit: Kit) -> str:
    """A pass that changed nothing shows nothing."""
    method = kit.fresh()
    before = contents(method)
    actions = Counter(action for _, action in run(method, kit.batches))
    seen = ", ".join(f"{action} {count}" for action, count in actions.items())
    if contents(method) != before:
        return f"something changed within {len(kit.batches)} batches: {seen}"
    if has_something_to_change(method):
        raise Broken(
            f"it never did: nothing changed in {len(kit.batches)} batches ({seen}), so nothing was checked: "
            "give settings under which it acts (--set)"
        )
    return f"has nothing to change: {seen}"


def _scores(kit: Kit) -> str:
    method = kit.fresh()
    for index, x in enumerate(kit.batches):
        scores = predict_at(method, x)
        action = adapt_at(method)
        wanted = (len(x), kit.model.num_classes)
        if not isinstance(scores, Tensor) or scores.shape != wanted:
            shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise Broken(f"scores of batch {index} have shape {shape}; expected (images, classes) = {wanted}")
        if not scores.is_floating_point():
            raise Broken(f"scores of batch {index} are {scores.dtype}; expected floating point")
        if not scores.isfinite().all():
            raise Broken(f"scores of batch {index}, a clean one, are not all finite")
        if not isinstance(action, str):
            raise Broken(f"adapt() on batch {index} returned {action!r:.60}; expected a word such as 'step'")
    return f"(images, classes) = {wanted}, all finite"


def _leaves_nothing_open(kit: Kit) -> str:
    method = kit.fresh()
    run(method, kit.batches[:1])
    threads, files = set(threading.enumerate()), _open_files()
    run(method, kit.batches)
    left = [thread.name for thread in threading.enumerate() if thread not in threads]
    if left:
        raise Broken(f"it left threads running: {', '.join(left[:3])}")
    if opened := sorted(_open_files() - files):
        raise Broken(f"it left files open: {', '.join(opened[:3])}")
    return "no thread and no file"


def _open_files() -> set[str]:
    """What this process holds open, where the system tells."""
    folder = Path("/proc/self/fd")
    found = set()
    for entry in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            found.add(f"{entry.name} -> {entry.readlink()}")
    return {name for name in found if not name.endswith("/fd")}


def _reset(kit: Kit) -> str:
    method = kit.fresh()
    first = run(method, kit.batches)
    method.freeze()
    method.reset()
    if method.frozen != kit.fresh().frozen:
        raise Broken("reset() left it frozen")
    _same(first, run(method, kit.batches), "after reset()")
    return "scores and actions repeat bit for bit"


def _same_seed(kit: Kit) -> str:
    _same(run(kit.fresh(), kit.batches), run(kit.fresh(), kit.batches), "made a second time")
    actions = Counter(action for _, action in run(kit.fresh(), kit.batches))
    return "two of them agree; actions: " + ", ".join(
        f"{action} {count}" for action, count in actions.items()
    )


def _snapshot(kit: Kit) -> str:
    method = kit.after(BRANCH)
    saved = method.snapshot()
    rest = run(method, kit.batches[BRANCH:])
    for attempt in ("first", "second"):
        if attempt == "second":
            method.freeze()
        method.restore(saved)
        _same(rest, run(method, kit.batches[BRANCH:]), f"after the {attempt} restore()")
    return "the rest of the stream repeats bit for bit, twice from one snapshot"


def _frozen(kit: Kit) -> str:
    method = kit.after(BRANCH)
    method.freeze()
    before = _everything(method)
    first = run(method, kit.batches)
    _same(first, run(method, kit.batches), "frozen")
    if {action for _, action in first} != {"none"}:
        raise Broken("frozen, adapt() returned something else than 'none'")
    if changed := _changed(before, _everything(method)):
        raise Broken(f"frozen, it changed {', '.join(changed[:3])}")
    return "predictions repeat and nothing changes"


def _declared(kit: Kit) -> str:
    original = _copy_of_state(kit.model)
    method = kit.fresh()
    before = _everything(method)
    changed: set[str] = set()
    for x in kit.batches:
        run(method, [x])
        changed.update(_changed(before, _everything(method)))
    declared = {*method.updated_parameters, *method.updated_buffers}
    if undeclared := sorted(changed - declared):
        raise Broken(f"it changed {', '.join(undeclared[:3])} without declaring it")
    if _changed(original, kit.model.state_dict()):
        raise Broken("it changed the caller's model")
    return f"{len(changed)} tensors changed, {len(declared)} declared"


def _copy_of_state(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _global_state(kit: Kit) -> str:
    guard = Guard("it")
    try:
        with guard("setup"):
            method = kit.fresh()
        for x in kit.batches[:BRANCH]:
            with guard("predict"):
                predict_at(method, x)
            with guard("adapt"):
                adapt_at(method)
        with guard("snapshot"):
            saved = method.snapshot()
        with guard("freeze"):
            method.freeze()
        with guard("predict"):
            predict_at(method, kit.batches[BRANCH])
        with guard("restore"):
            method.restore(saved)
        with guard("reset"):
            method.reset()
    except TemporaError as changed:
        raise Broken(str(changed)) from None
    return "torch's switches are as they were after every call"


def _causal(kit: Kit) -> str:
    method = kit.fresh()
    for index, x in enumerate(kit.batches):
        given = x.clone()
        scores = predict_at(method, x)
        if scores.requires_grad:
            raise Broken("scores carry a gradient graph: return them detached")
        emitted = scores.clone()
        adapt_at(method)
        if not torch.equal(scores, emitted):
            raise Broken(f"adapt() changed the scores of batch {index} after they were emitted")
        if not torch.equal(x, given):
            raise Broken(f"it changed the images of batch {index} in place")
    return "scores stay as emitted, images as given; labels and later batches are never shown"


def _history_free(kit: Kit) -> str:
    if not kit.fresh().history_free:
        return "not claimed"
    *earlier, last = kit.batches
    method = kit.after(len(earlier))
    if not torch.equal(predict_at(method, last), predict_at(kit.fresh(), last)):
        raise Broken("claimed, but the scores of a batch depend on the batches before it")
    return "claimed, and scores do not depend on earlier batches"


def _stateless(kit: Kit) -> str:
    if not kit.fresh().stateless:
        return "not claimed"
    method = kit.after(BRANCH)
    method.freeze()
    standard = create("standard", kit.model)
    for x in kit.batches:
        if not torch.equal(predict_at(method, x).argmax(1), standard.predict(x).argmax(1)):
            raise Broken("claimed, but frozen it predicts other classes than Standard")
    return "claimed, and frozen it predicts what Standard predicts"


def _batch_of_one(kit: Kit) -> str:
    method = kit.fresh()
    try:
        scores = predict_at(method, kit.batches[0][:1])
    except TemporaError as refusal:
        return f"refused: {refusal}"
    adapt_at(method)
    if scores.shape != (1, kit.model.num_classes):
        raise Broken(f"scores of one image have shape {tuple(scores.shape)}")
    run(method, [x[:1] for x in kit.batches])
    return "works"


def _nothing_to_learn(kit: Kit) -> str:
    """With a classifier of zeros every class is equally likely: the least informative batch there is."""
    blank = copy.deepcopy(kit.model)
    with torch.no_grad():
        for parameter in blank.classifier.parameters():
            parameter.zero_()
    method = kit.make(blank)
    before = _everything(method)
    actions = [action for _, action in run(method, kit.batches)]
    parameters = set(method.updated_parameters)
    changed = [name for name in _changed(before, _everything(method)) if name in parameters]
    if set(actions) == {"nothing_kept"} and changed:
        raise Broken(f"adapt() returned 'nothing_kept' and yet changed {', '.join(changed[:3])}")
    return f"works: {actions[0]}"


def _not_finite(kit: Kit) -> str:
    method = kit.after(BRANCH)
    actions = []
    for value in (torch.nan, torch.inf):
        poisoned = kit.batches[BRANCH].clone()
        poisoned[0, 0, 0, 0] = value
        predict_at(method, poisoned)
        actions.append(adapt_at(method))
    for name, tensor in _everything(method).items():
        if name in (*method.updated_parameters, *method.updated_buffers) and not tensor.isfinite().all():
            raise Broken(f"a batch with NaN made {name} non-finite")
    if not predict_at(method, kit.batches[-1]).isfinite().all():
        raise Broken("after a batch with NaN, scores of a clean batch are not finite")
    return f"weights stay finite: {', '.join(actions)}"


PROMISES: dict[str, Callable[[Kit], str]] = {
    "it acts": _acts,
    "scores are one row per image": _scores,
    "nothing global changes": _global_state,
    "reset is bit-exact": _reset,
    "same seed, same result": _same_seed,
    "snapshot and restore are exact mid-stream": _snapshot,
    "frozen, it changes nothing": _frozen,
    "only declared tensors change": _declared,
    "a prediction is final when emitted": _causal,
    "history_free is true": _history_free,
    "stateless is true": _stateless,
    "a batch of one works or is refused": _batch_of_one,
    "a batch with nothing to learn from works": _nothing_to_learn,
    "no NaN reaches the weights": _not_finite,
    "nothing is left open": _leaves_nothing_open,
}
