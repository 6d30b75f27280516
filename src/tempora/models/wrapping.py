"""`wrap`: any network as a `Classifier`, automatically for timm and torchvision ones."""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from tempora.errors import TemporaError, unknown
from tempora.models import anatomy
from tempora.models.classifier import Classifier, Family
from tempora.models.preprocessing import Preprocessing

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
        `f(module, x)`. Left out, it is whatever enters the head when the network runs.
    head: the linear classifier, a submodule or its name. Left out, it is the last linear layer.
    mean, std: per channel; needed to load data for the network, and by methods that clip images.
    top: prefixes of module names that form the top of the network, for methods that leave it alone.
    """
    if isinstance(module, Classifier):
        return module
    head_name = _head_name(module, head)
    classes = num_classes or getattr(module.get_submodule(head_name), "out_features", None)
    if not isinstance(classes, int):
        raise TemporaError(
            f"head={head_name!r} does not tell the number of classes: give wrap(..., num_classes=C)."
        )
    kind = family or anatomy.family(module)
    return Classifier(
        module,
        _features(module, features, head_name),
        head_name,
        name=name or type(module).__name__,
        num_classes=classes,
        family=kind,
        preprocessing=_preprocessing(module, mean, std, input_size, crop_pct, interpolation),
        recipe=recipe,
        patch_size=patch_size or anatomy.patch_size(module),
        top=anatomy.top(module, kind) if top is None else tuple(top),
    )


def _is_timm(module: nn.Module) -> bool:
    return all(hasattr(module, part) for part in ("forward_features", "forward_head", "get_classifier"))


def _head_name(module: nn.Module, head: nn.Module | str | None) -> str:
    if isinstance(head, nn.Module):
        return _name_of(module, head, "head")
    if isinstance(head, str):
        return _check_name(module, head, "head")
    if _is_timm(module) and isinstance(module.get_classifier(), nn.Linear):
        return _name_of(module, module.get_classifier(), "head")
    linear = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    if not linear or _is_timm(module):
        raise TemporaError(
            f"{type(module).__name__} has no single linear classifier to find: give wrap(..., head=...), "
            "a submodule or its name."
        )
    return linear[-1]


def _features(
    module: nn.Module, features: Callable[..., Tensor] | nn.Module | str | None, head_name: str
) -> Callable[[nn.Module, Tensor], Tensor]:
    """`features` as a function of (network, x), so that a copied classifier computes with its own network."""
    if features is None:
        if _is_timm(module) and module.get_submodule(head_name) is module.get_classifier():
            return _timm_features
        return partial(_head_input, head_name)
    if isinstance(features, str):
        return partial(_call, _check_name(module, features, "features"))
    if isinstance(features, nn.Module):
        return partial(_call, _name_of(module, features, "features"))
    if not callable(features):
        raise TemporaError(f"features={features!r}: must be a function, a submodule or the name of one.")
    if inspect.ismethod(features) and isinstance(features.__self__, nn.Module):
        return partial(_call_method, _name_of(module, features.__self__, "features"), features.__name__)
    required = [p for p in inspect.signature(features).parameters.values() if p.default is p.empty]
    return features if len(required) == 2 else _Bound(features)


def _timm_features(network: nn.Module, x: Tensor) -> Tensor:
    return network.forward_head(network.forward_features(x), pre_logits=True)


def _head_input(head_name: str, network: nn.Module, x: Tensor) -> Tensor:
    seen: list[Tensor] = []
    hook = network.get_submodule(head_name).register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0])
    )
    try:
        network(x)
    finally:
        hook.remove()
    return seen[-1]


def _call(name: str, network: nn.Module, x: Tensor) -> Tensor:
    return network.get_submodule(name)(x)


def _call_method(owner: str, method: str, network: nn.Module, x: Tensor) -> Tensor:
    return getattr(network.get_submodule(owner), method)(x)


class _Bound:
    """A user's `features(x)` that names the network as an outer variable.

    Methods adapt a copy of the network, and the function must then see that copy: copying this object
    rebuilds the function with every module it refers to replaced by its copy.
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        if not any(isinstance(value, nn.Module) for value in _outer_variables(function).values()):
            raise TemporaError(
                "features= is a function of x alone that does not name the network, so a copy of the network "
                "would still compute the original's features: write it as f(module, x)."
            )
        self.function = function

    def __call__(self, network: nn.Module, x: Tensor) -> Tensor:
        return self.function(x)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Bound:
        old = self.function
        copies = {
            name: copy.deepcopy(value, memo) if isinstance(value, nn.Module) else value
            for name, value in _outer_variables(old).items()
        }
        cells = tuple(types.CellType(copies[name]) for name in old.__code__.co_freevars)
        inside = {name: value for name, value in copies.items() if name in old.__code__.co_names}
        function = types.FunctionType(
            old.__code__, {**old.__globals__, **inside}, old.__name__, old.__defaults__, cells or None
        )
        function.__kwdefaults__ = old.__kwdefaults__
        return _Bound(function)


def _outer_variables(function: Callable[..., Any]) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    outside = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return outside | {name: cell.cell_contents for name, cell in cells}


def _check_name(module: nn.Module, name: str, what: str) -> str:
    names = [key for key, _ in module.named_modules() if key]
    if name not in names:
        raise unknown(f"{what} submodule", name, names)
    return name


def _name_of(module: nn.Module, part: nn.Module, what: str) -> str:
    for name, candidate in module.named_modules():
        if candidate is part:
            return name
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
