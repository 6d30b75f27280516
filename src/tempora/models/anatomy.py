"""What a network's module tree tells about it: its family, its patch size, and where its top begins."""

from __future__ import annotations

import math
import re

from torch import nn

from tempora.models.classifier import Family

_STAGE = re.compile(r"(layer|stage|denseblock|block|s)\d+")
_CONTAINERS = ("blocks", "layers", "stages", "features")


def family(network: nn.Module) -> Family:
    """ "vit" where anything attends, else "cnn"."""
    attends = any(type(module).__name__.endswith("Attention") for module in network.modules())
    return "vit" if attends else "cnn"


def patch_size(network: nn.Module) -> int | None:
    """The side of the patches that a transformer cuts its image into."""
    size = getattr(getattr(network, "patch_embed", network), "patch_size", None)
    if isinstance(size, (tuple, list)):
        size = size[0]
    return size if isinstance(size, int) else None


def top(network: nn.Module, kind: Family) -> tuple[str, ...]:
    """Names of the modules from the last stage on, or from the last quarter of the blocks (rounded up) on.

    Empty for a network without recognisable stages: all of it then counts as lower, unless `wrap` is told.
    """
    stages = _stages(network)
    if not stages:
        return ()
    size = math.ceil(len(stages) / 4) if kind == "vit" else 1
    return _onwards(network, stages[-size])


def _stages(network: nn.Module) -> list[str]:
    """The stages or blocks nearest the root, in order: `layer1` ... `layer4`, or the children of `blocks`."""
    shallow = sorted((name for name, _ in network.named_modules() if name), key=lambda name: name.count("."))
    for parent in ("", *shallow):
        module = network.get_submodule(parent)
        children = [_join(parent, child) for child, _ in module.named_children()]
        staged = [name for name in children if _STAGE.fullmatch(name.rpartition(".")[2])]
        if len(staged) > 1:
            return staged
        if parent.rpartition(".")[2] in _CONTAINERS and len(children) > 1:
            return children
    return []


def _onwards(network: nn.Module, name: str) -> tuple[str, ...]:
    """`name` and whatever was registered after it, in its own container and in those around it."""
    names = [name]
    while name:
        parent, _, child = name.rpartition(".")
        siblings = [key for key, _ in network.get_submodule(parent).named_children()]
        names += [_join(parent, key) for key in siblings[siblings.index(child) + 1 :]]
        name = parent
    return tuple(names)


def _join(parent: str, child: str) -> str:
    return f"{parent}.{child}" if parent else child
