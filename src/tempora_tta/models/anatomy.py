"""What a network's module tree tells about it: its family, its patch size, and where its top begins."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tempora_tta.models.classifier import Family

_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
_TOKENS = re.compile(r"(cls|class)_token|pos(ition(al)?)?_emb", re.IGNORECASE)
_STAGE = re.compile(r"(layer|level|stage|denseblock|block|s)\d+")
_CONTAINERS = ("blocks", "layers", "stages")


def family(network: nn.Module) -> Family:
    """ "vit" where tokens attend to each other, else "cnn".

    Vaguer signs than a class called ...Attention count only where tokens are normalised one by one: ResNets have
    their SplitAttn and AttentionPool.
    """
    classes = [type(module).__name__ for module in network.modules()]
    if any(name.endswith("Attention") for name in classes):
        return "vit"
    parameters = [name for name, _ in network.named_parameters()]
    hinted = any(map(_ATTENTION.search, classes)) or any(map(_TOKENS.search, parameters))
    return "vit" if hinted and _normalises_tokens(network) else "cnn"


def patch_size(network: nn.Module, kind: Family) -> int | None:
    """The side of the patches that a transformer cuts its image into."""
    size = getattr(getattr(network, "patch_embed", network), "patch_size", None)
    if size is None and kind == "vit":
        size = _side_of_patches(network)
    if isinstance(size, (tuple, list)):
        size = size[0]
    return size if isinstance(size, int) else None


def _side_of_patches(network: nn.Module) -> int | None:
    """The step of the first convolution, which sees the image, where its windows neither overlap nor leave gaps."""
    first = next((module for module in network.modules() if isinstance(module, nn.Conv2d)), None)
    if first is None or first.kernel_size != first.stride or first.stride[0] == 1:
        return None
    return first.stride[0]


def top(network: nn.Module, kind: Family) -> tuple[str, ...]:
    """Names of the modules from the last stage on, or from the last quarter of the blocks (rounded up) on.

    Empty for a network without recognisable stages: all of it then counts as lower, unless `wrap` is told.
    """
    parts = (_blocks(network) if kind == "vit" else []) or _stages(network)
    if not parts:
        return ()
    size = math.ceil(len(parts) / 4) if kind == "vit" else 1
    names = (parts[-size], *_after(network, parts[-size]))
    return names + _norm_before(network, parts[-1]) if kind == "vit" else names


def _blocks(network: nn.Module) -> list[str]:
    """A transformer's blocks in order, over all its stages: the members of its innermost rows of blocks."""
    rows = {
        _join(name, ""): module for name, module in network.named_modules() if _is_row_of(_is_block, module)
    }
    inner = [name for name in rows if not any(row != name and row.startswith(name) for row in rows)]
    return [name + key for name in inner for key, _ in rows[name].named_children()]


def _is_row_of(kind: Callable[[nn.Module], bool], module: nn.Module) -> bool:
    members = list(module.children()) if isinstance(module, (nn.Sequential, nn.ModuleList)) else []
    return bool(members) and all(map(kind, members))


def _is_block(module: nn.Module) -> bool:
    """Whether it normalises tokens and mixes channels, as patch embeddings and bare layers do not."""
    return _normalises_tokens(module) and any(isinstance(part, nn.Linear) for part in module.modules())


def _stages(network: nn.Module) -> list[str]:
    """The stages nearest the root, in order: `layer1` ... `layer4`, or the children of `stages`."""
    shallow = sorted((name for name, _ in network.named_modules() if name), key=lambda name: name.count("."))
    for parent in ("", *shallow):
        container = parent.rpartition(".")[2]
        children = dict(network.get_submodule(parent).named_children())
        children = {key: child for key, child in children.items() if _has_parts(child)}
        staged = [key for key in children if _STAGE.fullmatch(key)]
        if len(staged) < 2 and container in _CONTAINERS:
            staged = list(children)
        if len(staged) < 2 and container == "features":  # torchvision's stages, between single layers
            staged = [key for key, child in children.items() if _is_row_of(_has_parts, child)]
        if len(staged) > 1:
            return [_join(parent, key) for key in staged]
    return []


def _has_parts(module: nn.Module) -> bool:
    return any(True for _ in module.children())


def _after(network: nn.Module, name: str) -> tuple[str, ...]:
    """Whatever was registered after `name`, in its own container and in those around it."""
    names = []
    while name:
        parent, _, child = name.rpartition(".")
        siblings = [key for key, _ in network.get_submodule(parent).named_children()]
        names += [_join(parent, key) for key in siblings[siblings.index(child) + 1 :]]
        name = parent
    return tuple(names)


def _norm_before(network: nn.Module, last_block: str) -> tuple[str, ...]:
    """The final norm of a transformer that registers it before its blocks, and none after them."""
    if any(
        _is_norm(part)
        for name in _after(network, last_block)
        for part in network.get_submodule(name).modules()
    ):
        return ()
    name = last_block
    while name:
        parent, _, child = name.rpartition(".")
        siblings = dict(network.get_submodule(parent).named_children())
        earlier = list(siblings)[: list(siblings).index(child)]
        norms = [key for key in earlier if _is_norm(siblings[key]) and "pre" not in key]
        if norms:
            return (_join(parent, norms[-1]),)
        name = parent
    return ()


def _is_norm(module: nn.Module) -> bool:
    return isinstance(module, (_BatchNorm, nn.GroupNorm)) or _is_token_norm(module)


def _is_token_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.LayerNorm) or "rmsnorm" in type(module).__name__.lower()


def _normalises_tokens(module: nn.Module) -> bool:
    return any(_is_token_norm(part) for part in module.modules())


def _join(parent: str, child: str) -> str:
    return f"{parent}.{child}" if parent else child
