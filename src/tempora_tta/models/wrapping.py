"""`wrap`: any network as a `Classifier`, automatically for timm and torchvision ones; and what it is checked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tempora_tta._global_state import own_randomness
from tempora_tta.errors import TemporaError, unknown
from tempora_tta.models import structure
from tempora_tta.models.classifier import Classifier, Family, Preprocessing

TORCHVISION = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225), "input_size": (3, 224, 224)}
"""Assumed for torchvision's networks: most of its weights were trained so, and a network does not say it itself."""
USUAL = {"crop_pct": 0.875, "interpolation": "bilinear"}
"""Assumed for any network."""
EQUAL = 1e-3
"""Relative difference up to which logits are equal: beyond any rounding, below any effect of dropout or BatchNorm."""


def wrap(
    module: nn.Module,
    features: Callable[..., Tensor] | nn.Module | str | None = None,
    head: nn.Module | str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    *,
    name: str | None = None,
    num_classes: int | None = None,
    input_size: tuple[int, int, int] | None = None,
    crop_pct: float | None = None,
    interpolation: str | None = None,
    family: Family | None = None,
    recipe: Mapping[str, Mapping[str, Any]] | None = None,
    patch_size: int | None = None,
    top: Sequence[str] | None = None,
) -> Classifier:
    """Make a Classifier of `module`, which it holds and does not copy. Networks of timm and torchvision need no more.

    Args:
        features: how images become feature vectors: `f(network, x)`, or a submodule or its name, applied to
            the images. Left out, features are the input of the head when the network runs, and the network
            must give the same logits as head and features do.
        head: the classifier, a submodule or its name. Left out, it is timm's, or else the last linear layer.
        mean: per channel; needed to load data for the network, and by methods that clip images.
        std: per channel, likewise.
        input_size: (channels, height, width); needed to load data for the network.
        top: prefixes of module names that form the top of the network, for methods that leave it alone.
    """
    if isinstance(module, Classifier):
        return module
    head_name = _head_name(module, head)
    kind = family or structure.family(module)
    preprocessing = _preprocessing(module, mean, std, input_size, crop_pct, interpolation)
    model = Classifier(
        module,
        _features(module, features, head_name),
        head_name,
        name=name or type(module).__name__,
        num_classes=num_classes or _classes(module, head_name),
        family=kind,
        preprocessing=preprocessing,
        recipe=recipe,
        patch_size=patch_size or structure.patch_size(module, kind),
        top=structure.top(module, kind) if top is None else tuple(top),
    )
    if preprocessing is not None and preprocessing.input_size is not None:
        if features is None:
            _check_split(model, preprocessing.input_size)
        with suppress(_Unfit):  # the size may only be assumed; the images of a run are checked again
            check_input(model, preprocessing.input_size)
    return model


class _Unfit(TemporaError):
    """The network does not take images of this shape."""


def check_input(model: Classifier, shape: Sequence[int]) -> None:
    """Refuse a network that cannot take float32 images of `shape` (channels, height, width), or whose logits for one
    depend, in eval mode, on more than that image.

    Both batches have two images, since rounding differs between sizes: next to itself an image is as good as alone.
    """
    x = _noise(shape).to(model.device)
    x[1] += 3  # other statistics than those of the first
    with inference(model.network):
        try:
            alone = model(x[[0, 0]])
        except Exception as error:
            raise _Unfit(f"{model.name}: {_reason(model, shape, error)}") from error
        if tuple(alone.shape) != (2, model.num_classes):
            raise _Unfit(
                f"{model.name}: gives {tuple(alone.shape)} for two images; expected (2, {model.num_classes}), one "
                "logit per class"
            )
        first, twin, next_to_another = *alone, model(x)[0]
        if _equal(twin, first) and _equal(next_to_another, first):
            return
        again = model(x[[0, 0]])
    if not _equal(again, alone):
        raise TemporaError(
            f"{model.name}: draws random numbers in eval mode: the same image gets other logits each time. Switch "
            "dropout off with eval(): nn.Dropout does it by itself, functional.dropout by training=self.training"
        )
    raise TemporaError(
        f"{model.name}: BatchNorm stays in training mode: after eval(), the logits of an image still depend on the "
        "other images of its batch. Normalise with running statistics there: track_running_stats=True, "
        "functional.batch_norm(..., training=self.training), and no train() of your own that keeps it on"
    )


def _reason(model: Classifier, shape: Sequence[int], error: Exception) -> str:
    """Name the usual mistakes; quote torch for the others."""
    if model.dtype != torch.float32:
        kind = str(model.dtype).removeprefix("torch.")
        return f"its weights are {kind}, but images come as float32: give network.float()"
    first = next((part for part in model.network.modules() if isinstance(part, nn.Conv2d)), None)
    if first is not None and first.in_channels != shape[0]:
        return (
            f"takes images of {first.in_channels} channels, but these have {shape[0]}: choose a network trained for "
            "such images; one of your own says what it takes by wrap(..., input_size=(channels, height, width))"
        )
    return f"fails on images of shape {tuple(shape)} ({error!s:.300})"


def _noise(shape: Sequence[int]) -> Tensor:
    """Make two images, the same ones each time."""
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))


def _equal(logits: Tensor, others: Tensor, tolerance: float = EQUAL) -> bool:
    scale = others.nan_to_num().abs().max().item()
    return torch.allclose(logits, others, rtol=0, atol=tolerance * scale, equal_nan=True)


def _classes(network: nn.Module, head_name: str) -> int:
    head = network.get_submodule(head_name)
    for owner, attribute in ((head, "out_features"), (head, "out_channels"), (network, "num_classes")):
        classes = getattr(owner, attribute, None)
        if isinstance(classes, int):
            return classes
    raise TemporaError(
        f"head={head_name!r} does not tell the number of classes: give wrap(..., num_classes=C)."
    )


def _is_timm(module: nn.Module) -> bool:
    return all(hasattr(module, part) for part in ("forward_features", "forward_head", "get_classifier"))


def _timm_classifier(network: Any) -> nn.Module | None:
    """The module that timm applies to `forward_head(..., pre_logits=True)`; None where it is not one module."""
    classifier = network.get_classifier()
    if hasattr(classifier, "global_pool"):  # sequencer2d counts the pooling in
        classifier = classifier.fc
    several = isinstance(classifier, (tuple, nn.ModuleList))
    return None if several or isinstance(classifier, nn.Identity) else classifier


def _head_name(module: nn.Module, head: nn.Module | str | None) -> str:
    if head is None:
        return _found_head(module)
    names: dict[nn.Module, str] = {part: name for name, part in module.named_modules() if name}
    if isinstance(head, nn.Module):
        if head not in names:
            raise TemporaError(f"head={type(head).__name__}: is not a part of this {type(module).__name__}.")
        return names[head]
    if head not in names.values():
        raise unknown("head submodule", head, list(names.values()))
    return head


def _found_head(module: nn.Module) -> str:
    names: dict[nn.Module, str] = {part: name for name, part in module.named_modules()}
    if not _is_timm(module):
        linear = [name for part, name in names.items() if isinstance(part, nn.Linear)]
        if linear:
            return linear[-1]
    elif (classifier := _timm_classifier(module)) is not None:
        return names[classifier]
    raise TemporaError(
        f"{type(module).__name__} has no linear classifier, or several that vote: give "
        "wrap(..., features=..., head=...), the head as a submodule or its name."
    )


def _features(
    module: nn.Module, features: Callable[..., Tensor] | nn.Module | str | None, head_name: str
) -> Callable[[nn.Module, Tensor], Tensor]:
    """Return `features` as a function of (network, x), so that a copied classifier computes with its own network."""
    if features is None:
        timms = _is_timm(module) and module.get_submodule(head_name) is _timm_classifier(module)
        return _timm_features if timms else partial(_head_input, head_name)
    if isinstance(features, str):
        names = [name for name, _ in module.named_modules() if name]
        if features not in names:
            raise unknown("features submodule", features, names)
        return partial(_submodule, features)
    if isinstance(features, nn.Module):
        if set(features.parameters()) <= set(module.parameters()):
            return partial(
                _applied, features
            )  # a deep copy of the classifier copies the arguments of a partial
    elif getattr(features, "__self__", None) is module:
        function: Callable[[nn.Module, Tensor], Tensor] = features.__func__  # type: ignore[attr-defined]
        return function
    elif _takes_two(features):
        return features
    raise TemporaError(
        f"features={features!r}: in a copy of the network it would still compute the original's features. Write it "
        "as f(network, x), or give a submodule or its name."
    )


def _takes_two(function: object) -> bool:
    """Tell whether it is an f(network, x): two arguments that it cannot do without."""
    try:
        arguments = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):  # not callable, or written in C
        return False
    positional = [p for p in arguments if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in positional) == 2


def _submodule(name: str, network: nn.Module, x: Tensor) -> Tensor:
    f: Tensor = network.get_submodule(name)(x)
    return f


def _applied(features: nn.Module, network: nn.Module, x: Tensor) -> Tensor:
    f: Tensor = features(x)
    return f


def _timm_features(network: Any, x: Tensor) -> Tensor:
    f: Tensor = network.forward_head(network.forward_features(x), pre_logits=True)
    return f


class _Reached(BaseException):
    """The head is about to run. No `Exception`, which a network may catch."""


def _head_input(head_name: str, network: nn.Module, x: Tensor) -> Tensor:
    """Run the network up to its head. `Classifier` applies the head: twice, its BatchNorm would count a batch twice.

    A compiler cannot follow an exception through the network; it drops results that no code uses.
    """
    seen: list[Tensor] = []

    def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0])
        if not torch.compiler.is_compiling():
            raise _Reached

    hook = network.get_submodule(head_name).register_forward_pre_hook(note)
    try:
        with suppress(_Reached):
            network(x)
    finally:
        hook.remove()
    if not seen:
        raise TemporaError(f"head={head_name!r} takes no part when the network runs: give another head.")
    return seen[0]


def _check_split(model: Classifier, size: tuple[int, int, int]) -> None:
    """Refuse a split found automatically that computes something else than the network does.

    A network may return probabilities, or their logarithms. Networks that fail on images of the assumed size, or
    return more than one tensor, are not compared.
    """
    x = _noise(size).to(next(model.parameters()))
    with inference(model.network):
        try:
            expected = model.network(x)
        except Exception:
            return
    if not isinstance(expected, Tensor):
        return
    with inference(model.network):
        difference = _difference(model, x, expected)
    if difference:
        raise TemporaError(
            f"{model.name}: its head {model.head_name!r}, applied to what it takes for features, {difference}; "
            "the network does more than that. Give wrap(..., features=..., head=...)."
        )


def _difference(model: Classifier, x: Tensor, expected: Tensor) -> str | None:
    try:
        logits = model(x)
    except Exception as error:
        return f"fails ({error})"
    if logits.shape != expected.shape:
        return f"gives {tuple(logits.shape)} for two images where the network gives {tuple(expected.shape)}"
    if any(_equal(output, expected, 1e-2) for output in (logits, logits.log_softmax(1), logits.softmax(1))):
        return None
    off, scale = (logits - expected).abs().max().item(), expected.nan_to_num().abs().max().item()
    return f"gives other logits than the network (by up to {off:.2g} where the largest is {scale:.2g})"


@contextmanager
def inference(network: nn.Module) -> Iterator[None]:
    """Eval mode without gradients, the same random numbers each time; afterwards modules and buffers as they were."""
    modes = {part: part.training for part in network.modules()}
    buffers = {buffer: buffer.clone() for buffer in network.buffers()}
    network.eval()
    try:
        with torch.no_grad(), own_randomness(0):
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode
        for buffer, before in buffers.items():
            if not torch.equal(buffer, before):  # a view of one number many times cannot be written to
                buffer.copy_(before)


def _preprocessing(
    module: nn.Module,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
    input_size: tuple[int, int, int] | None,
    crop_pct: float | None,
    interpolation: str | None,
) -> Preprocessing | None:
    if (mean is None) != (std is None):
        raise TemporaError(f"mean={mean}, std={std}: give both or neither.")
    config: dict[str, Any] = dict(getattr(module, "pretrained_cfg", None) or {})
    torchvisions = not config and type(module).__module__.startswith("torchvision.")
    assumed: dict[str, Any] = {**USUAL, **(TORCHVISION if torchvisions else {})}
    given = {
        "mean": mean,
        "std": std,
        "input_size": input_size,
        "crop_pct": crop_pct,
        "interpolation": interpolation,
    }
    known = {key: config[key] for key in given if config.get(key) is not None}
    known |= {key: value for key, value in given.items() if value is not None}
    found = {**assumed, **known}
    if "mean" not in found:
        return None
    for key in ("mean", "std", "input_size"):
        if key in found:
            found[key] = tuple(found[key])
    if input_size is None and "input_size" in found:
        found["input_size"] = (len(found["mean"]), *found["input_size"][1:])
    return Preprocessing(**found, assumed=tuple(key for key in assumed if key not in known))
