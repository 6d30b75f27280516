"""Facts read off a network's modules: its family, its patch size and the modules of its top."""

from __future__ import annotations

import math
import re

from torch import nn

from tempora_tta.models.classifier import Family

_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
_TOKENS = re.compile(r"(cls|class)_token|pos(ition(al)?)?_emb", re.IGNORECASE)
_OTHERS = {
    "stem": r"^(?:conv1|bn1|conv_proj|patch_embed|class_token|encoder\.pos_embedding)",
    "blocks": r"^(?:layer|blocks\.|encoder\.layers\.encoder_layer_)(\d+)\.",
}
"""The layers of networks that are not timm's, if they use the names of torchvision's ResNet and ViT."""


def family(network: nn.Module) -> Family:
    """Return "vit" where tokens attend to each other, else "cnn".

    Vaguer signs than a class called ...Attention count only with token norms: ResNets have SplitAttn.
    """
    classes = [type(module).__name__ for module in network.modules()]
    if any(name.endswith("Attention") for name in classes):
        return "vit"
    parameters = [name for name, _ in network.named_parameters()]
    hinted = any(map(_ATTENTION.search, classes)) or any(map(_TOKENS.search, parameters))
    token_norms = any(name == "LayerNorm" or "rmsnorm" in name.lower() for name in classes)
    return "vit" if hinted and token_norms else "cnn"


def patch_size(network: nn.Module, kind: Family) -> int | None:
    """Return the side of the patches that a transformer cuts its image into."""
    size = getattr(getattr(network, "patch_embed", network), "patch_size", None)
    if size is None and kind == "vit":  # the first convolution, if its windows neither overlap nor leave gaps
        first = next((part for part in network.modules() if isinstance(part, nn.Conv2d)), None)
        if first is not None and first.kernel_size == first.stride != (1, 1):
            size = first.stride
    if isinstance(size, (tuple, list)):
        size = size[0]
    return size if isinstance(size, int) else None


def top(network: nn.Module, kind: Family) -> tuple[str, ...]:
    """Name the modules with parameters from the last stage on, or from the last quarter of the blocks (rounded up).

    timm says which layers follow each other. Empty for a network without known layers: `wrap(..., top=...)` tells.
    """
    from timm.models._manipulate import group_parameters  # timm takes a second to import

    known = hasattr(network, "group_matcher")
    layers = network.group_matcher(coarse=kind == "cnn") if known else _OTHERS  # type: ignore[operator]
    depth_of = group_parameters(network, layers, reverse=True)
    depth = max(depth_of.values(), default=0)  # 0 is the stem, the last is the head
    if depth < 2:
        return ()
    first = depth - (math.ceil((depth - 1) / 4) if kind == "vit" else 1)
    return tuple(dict.fromkeys(name.rpartition(".")[0] for name, at in depth_of.items() if at >= first))
