"""Classifiers by name: the paper's, any of timm's, the bundled ones, or weights from a file."""

from __future__ import annotations

import difflib
import inspect
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tempora_tta._own_code import find as find_own
from tempora_tta._own_code import is_own
from tempora_tta.errors import TemporaError
from tempora_tta.models.classifier import Classifier
from tempora_tta.models.wrapping import wrap
from tempora_tta.names import MODELS, found

ALIASES = {
    "resnet50": "resnet50.tv_in1k",
    "resnet18": "resnet18.tv_in1k",
    "vit_b_16": "vit_base_patch16_224.augreg2_in21k_ft_in1k",
    "resnet50_gn": "resnet50_gn.a1h_in1k",
}
"""The paper's networks, as tags of timm."""
CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR_STD = (0.2470, 0.2435, 0.2616)

_SUFFIXES = (".safetensors", ".pt", ".pth")
_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
"""First bytes of the files that torch.save writes, and wrote before version 1.6."""


def names() -> tuple[str, ...]:
    """List the names that Tempora defines; any name that timm knows works too."""
    return tuple(MODELS)


def load(
    name: str,
    *,
    pretrained: bool = True,
    checkpoint: str | Path | None = None,
    num_classes: int | None = None,
) -> Classifier:
    """Load the classifier `name`, in eval mode, on the CPU. `module:function` is one of your own, as that returns it.

    Args:
        pretrained: fetch timm's weights, or take the bundled ones; False leaves them random, for timing and
            tests.
        checkpoint: a file of weights to use instead (.safetensors, .pt, .pth), which tells the number of
            classes.
        num_classes: of a network with weights that are not timm's.
    """
    weights = None if checkpoint is None else read_checkpoint(checkpoint)
    if is_own(name):
        return _own(name, weights, num_classes)
    loader = found(MODELS[name]) if name in MODELS else from_timm
    classifier: Classifier = loader(name, weights, pretrained, num_classes)
    return classifier


def _own(name: str, weights: dict[str, Tensor] | None, num_classes: int | None) -> Classifier:
    """Call the user's function, which returns a Classifier, or a network that `wrap` understands."""
    function = find_own("model", name, "function", callable)
    if not callable(function) or isinstance(function, nn.Module):
        raise TemporaError(
            f"model {name!r}: is a {type(function).__name__}; "
            "expected a function that returns a network or a Classifier"
        )
    if needed := _must_be_given(function):
        raise TemporaError(
            f"model {name!r}: its function has required arguments ({', '.join(needed)}): give each a default"
        )
    made = function()
    if not isinstance(made, nn.Module):
        raise TemporaError(
            f"model {name!r}: its function returned a {type(made).__name__}; expected a network or a Classifier"
        )
    model = wrap(made, name=name)
    if num_classes not in (None, model.num_classes):
        raise TemporaError(
            f"num_classes={num_classes}: {name} has {model.num_classes} classes. Leave it out."
        )
    if weights is not None:
        _fill(model.network, weights, name)
    return model.eval()


def _must_be_given(function: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C
        return ["what Python cannot tell"]
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return [one.name for one in named if one.default is one.empty]


def bundled(
    name: str, weights: dict[str, Tensor] | None, pretrained: bool, num_classes: int | None
) -> Classifier:
    from tempora_tta.models import bundled as ours

    if num_classes not in (None, ours.NUM_CLASSES):
        raise TemporaError(
            f"num_classes={num_classes}: {name} has {ours.NUM_CLASSES} classes. Leave num_classes out, or wrap "
            "a network of your own."
        )
    model = ours.load(name, pretrained=pretrained and weights is None)
    if weights is not None:
        _fill(model.network, weights, name)
    return model.eval()


def cifar_resnet18(
    name: str, weights: dict[str, Tensor] | None, pretrained: bool, num_classes: int | None
) -> Classifier:
    """Build ResNet-18 for 32 pixels: a 3x3 stem without stride; the max-pool stays."""
    if weights is None and pretrained:
        raise TemporaError(
            f"{name} has no weights of its own: give checkpoint=PATH, or pretrained=False for random ones."
        )
    from timm.models.resnet import resnet18

    network = resnet18(num_classes=num_classes or _classes_of(weights, "fc") or 10)
    network.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    if weights is not None:
        _fill(network, weights, name)
    return wrap(
        network,
        name=name,
        mean=CIFAR_MEAN,
        std=CIFAR_STD,
        input_size=(3, 32, 32),
        crop_pct=1.0,
        interpolation="bilinear",
    ).eval()


def from_timm(
    name: str, weights: dict[str, Tensor] | None, pretrained: bool, num_classes: int | None
) -> Classifier:
    import timm

    tag = ALIASES.get(name, name)
    if not timm.is_model(tag.partition(".")[0]):
        raise _unknown_model(name, timm.list_models())
    fetch = pretrained and weights is None
    try:
        network: Any = timm.create_model(tag, pretrained=fetch)  # with more than an nn.Module has
    except Exception as error:
        if not fetch:
            raise TemporaError(
                f"model {name!r}: timm cannot build {tag!r} ({error}). Update timm, or use another network."
            ) from error
        raise TemporaError(
            f"model {name!r}: its weights ({tag}) could not be fetched ({type(error).__name__}). "
            "Go online once, give checkpoint=PATH, or pretrained=False for random weights."
        ) from error
    classes = num_classes or _classes_of(weights, network.pretrained_cfg.get("classifier"))
    if classes is not None and classes != network.num_classes:
        network.reset_classifier(classes)
    if weights is not None:
        _fill(network, weights, name)
    return wrap(network, name=name).eval()


def _classes_of(weights: dict[str, Tensor] | None, classifier: object) -> int | None:
    """Count the rows of the classifier's weight in a checkpoint."""
    weight = (weights or {}).get(f"{classifier}.weight")
    if weight is None:
        return None
    if weight.ndim < 2 or not weight.shape[0]:
        raise TemporaError(
            f"the checkpoint's {classifier}.weight has shape {tuple(weight.shape)}: expected one row per class"
        )
    return weight.shape[0]


def _fill(network: nn.Module, weights: dict[str, Tensor], name: str) -> None:
    try:
        with torch.no_grad():
            network.load_state_dict(weights)
    except Exception as error:
        raise TemporaError(
            f"the checkpoint does not fit model {name!r}: {error!s:.1500}\n"
            "Give one of that architecture, or name its own."
        ) from error


def _unknown_model(name: str, known_to_timm: list[str]) -> TemporaError:
    close = difflib.get_close_matches(name, [*names(), *known_to_timm], n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return TemporaError(
        f"unknown model {name!r}: {hint}Allowed: {', '.join(names())}, or any name that timm knows "
        '(python -c "import timm; print(timm.list_pretrained())"), or module:function.'
    )


# -- weights from a file: safetensors, or PyTorch's own format read without unpickling objects -----------------


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """Read the state dict in `path`, on the CPU.

    A training checkpoint may hold it under "state_dict" or "model"; "module." before every name is dropped.
    """
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise TemporaError(f"checkpoint {path.name!r}: must end in {', '.join(_SUFFIXES)}.")
    if not path.is_file():
        raise TemporaError(
            f"checkpoint {str(path)!r}: there is no such file. Give the path of a {', '.join(_SUFFIXES)} file."
        )
    content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    return _state_dict(content, path)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except Exception as error:  # the reader raises many kinds of errors on a damaged header
        raise _damaged(path, error) from error


def _read_torch(path: Path) -> Any:
    _check_zip(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd formats, which are refused below in our own words
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise TemporaError(
            f"checkpoint {path.name!r}: is not a plain file of tensors, and Tempora never unpickles objects. "
            "Save it with torch.save(model.state_dict(), ...) or as safetensors."
        ) from error
    except Exception as error:  # torch raises many kinds of errors on a damaged file
        raise _damaged(path, "torch cannot read it") from error


def _check_zip(path: Path) -> None:
    """Refuse a damaged archive: torch itself looks at no checksum, and would take flipped bits for weights."""
    with path.open("rb") as file:
        beginning = file.read(4)
    if beginning[:1] == _PICKLE:  # the format of torch before 1.6, which has no checksums
        return
    if beginning != _ZIP:
        raise _damaged(path, "it is no file of torch.save")
    try:
        with zipfile.ZipFile(path) as archive:
            spoilt = archive.testzip()
    except Exception as error:  # zipfile raises many kinds of errors
        raise _damaged(path, error) from error
    if spoilt is not None:
        raise _damaged(path, f"the checksum of {spoilt!r} in it is wrong")


def _damaged(path: Path, reason: object) -> TemporaError:
    return TemporaError(
        f"checkpoint {path.name!r}: is empty, cut short or damaged ({reason}). Copy or save it again."
    )


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    named = isinstance(content, dict) and all(isinstance(name, str) for name in content)
    if not named or not all(isinstance(value, Tensor) for value in content.values()):
        raise TemporaError(
            f"checkpoint {path.name!r}: holds no state dict (names and tensors). Save model.state_dict()."
        )
    for name, value in content.items():
        if not _is_plain(value):
            raise TemporaError(
                f"checkpoint {path.name!r}: {name!r} is sparse, quantised, without values or larger than the file. "
                "Save the network's own weights, model.state_dict()."
            )
    if all(name.startswith("module.") for name in content):
        return {name.removeprefix("module."): value for name, value in content.items()}
    return dict(content)


def _is_plain(value: Tensor) -> bool:
    """Tell whether a tensor has all its values, each in its own place."""
    if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()
