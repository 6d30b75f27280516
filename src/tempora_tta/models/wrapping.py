"""`wrap`: any network as a `Classifier`, automatically for timm and torchvision ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError, unknown
from tempora_tta.models import anatomy
from tempora_tta.models.classifier import Classifier, Family
from tempora_tta.models.following import Following
from tempora_tta.models.preprocessing import Preprocessing

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


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
    """`module` as a Classifier (which holds it, not a copy). timm and torchvision networks need nothing else.

    features: how images become feature vectors: a submodule or its name, applied to the images; `f(x)`; or
        `f(module, x)`. Left out, it is whatever enters the head when the network runs, and the network must
        give the same logits as head and features do.
    head: the classifier, a submodule or its name. Left out, it is timm's, or else the last linear layer.
    mean, std: per channel; needed to load data for the network, and by methods that clip images.
    top: prefixes of module names that form the top of the network, for methods that leave it alone.
    """
    if isinstance(module, Classifier):
        return module
    head_name = _head_name(module, head)
    kind = family or anatomy.family(module)
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
        patch_size=patch_size or anatomy.patch_size(module, kind),
        top=anatomy.top(module, kind) if top is None else tuple(top),
    )
    if features is None and preprocessing is not None:
        _check_split(model, preprocessing.input_size)
    return model


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
    """What timm applies to `forward_head(..., pre_logits=True)`; None where it is not one module."""
    classifier = network.get_classifier()
    if hasattr(classifier, "global_pool"):  # sequencer2d counts the pooling in
        classifier = classifier.fc
    several = isinstance(classifier, (tuple, nn.ModuleList))
    return None if several or isinstance(classifier, nn.Identity) else classifier


def _head_name(module: nn.Module, head: nn.Module | str | None) -> str:
    if isinstance(head, nn.Module):
        return _name_of(module, head, "head")
    if isinstance(head, str):
        return _check_name(module, head, "head")
    if _is_timm(module):
        classifier = _timm_classifier(module)
        if classifier is None:
            raise TemporaError(
                f"{type(module).__name__} has no classifier, or several that vote: give "
                "wrap(..., features=..., head=...), the head as a submodule or its name."
            )
        return _name_of(module, classifier, "head")
    linear: list[str] = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    if not linear:
        raise TemporaError(
            f"{type(module).__name__} has no linear classifier to find: give wrap(..., head=...), "
            "a submodule or its name."
        )
    return linear[-1]


def _features(
    module: nn.Module, features: Callable[..., Tensor] | nn.Module | str | None, head_name: str
) -> Callable[[nn.Module, Tensor], Tensor]:
    """`features` as a function of (network, x), so that a copied classifier computes with its own network."""
    if features is None:
        if _is_timm(module) and module.get_submodule(head_name) is _timm_classifier(module):
            return _timm_features
        return partial(_head_input, head_name)
    if isinstance(features, str):
        features = module.get_submodule(_check_name(module, features, "features"))
    if not callable(features):
        raise TemporaError(f"features={features!r}: must be a function, a submodule or the name of one.")
    return features if _takes_two(features) else Following(features, module)


def _takes_two(function: Callable[..., Tensor]) -> bool:
    """Whether it is an f(module, x): two arguments that it cannot do without."""
    if isinstance(function, nn.Module):
        return False
    try:
        arguments = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return False
    positional = [p for p in arguments if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in positional) == 2


def _timm_features(network: Any, x: Tensor) -> Tensor:
    f: Tensor = network.forward_head(network.forward_features(x), pre_logits=True)
    return f


class _Reached(BaseException):
    """The head is about to run. No `Exception`, which a network may catch."""


def _head_input(head_name: str, network: nn.Module, x: Tensor) -> Tensor:
    """What enters the head. The network stops there, because `Classifier` applies the head itself.

    A compiler cannot follow an exception through the network; it drops what is computed in vain.
    """
    seen: list[Tensor] = []

    def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0])
        if not torch.compiler.is_compiling():
            raise _Reached

    hook = network.get_submodule(head_name).register_forward_pre_hook(note)
    try:
        network(x)
    except _Reached:
        pass
    finally:
        hook.remove()
    if not seen:
        raise TemporaError(f"head={head_name!r} takes no part when the network runs: give another head.")
    return seen[0]


def _check_split(model: Classifier, size: tuple[int, int, int]) -> None:
    """Refuse a split found automatically that computes something else than the network does.

    Networks that return the logits' probabilities, or their logarithms, are split where methods want them to be.
    Nothing is said of networks that do not take images of the assumed size, or give more than one tensor.
    """
    weight = next(model.parameters())
    x = torch.randn(2, *size, generator=torch.Generator().manual_seed(0)).to(weight)
    with inference(model.network):
        try:
            expected = model.network(x)
        except Exception:
            return
        if not isinstance(expected, Tensor):
            return
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
    scale = expected.nan_to_num().abs().max().item()
    for output in (logits, logits.log_softmax(1), logits.softmax(1)):
        if torch.allclose(output, expected, rtol=0, atol=1e-2 * scale, equal_nan=True):
            return None
    off = (logits - expected).abs().max().item()
    return f"gives other logits than the network (by up to {off:.2g} where the largest is {scale:.2g})"


@contextmanager
def inference(network: nn.Module) -> Iterator[None]:
    """Eval mode without gradients, and afterwards every module as it was."""
    modes = {part: part.training for part in network.modules()}
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _check_name(module: nn.Module, name: str, what: str) -> str:
    names = [key for key, _ in module.named_modules() if key]
    if name not in names:
        raise unknown(f"{what} submodule", name, names)
    return name


def _name_of(module: nn.Module, part: nn.Module, what: str) -> str:
    for name, candidate in module.named_modules():
        if candidate is part:
            return str(name)
    raise TemporaError(f"{what}={type(part).__name__}: is not a part of this {type(module).__name__}.")


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
    if not config and type(module).__module__.startswith("torchvision."):
        config = {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    given = {
        "mean": mean,
        "std": std,
        "input_size": input_size,
        "crop_pct": crop_pct,
        "interpolation": interpolation,
    }
    known = {key: config[key] for key in given if config.get(key) is not None}
    known |= {key: value for key, value in given.items() if value is not None}
    if "mean" not in known:
        return None
    for key in ("mean", "std", "input_size"):
        if key in known:
            known[key] = tuple(known[key])
    if input_size is None and len(known["mean"]) != known.get("input_size", (3,))[0]:
        known["input_size"] = (len(known["mean"]), *known.get("input_size", (3, 224, 224))[1:])
    return Preprocessing(**known)
