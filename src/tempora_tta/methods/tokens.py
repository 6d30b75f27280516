"""Inside a vision transformer: its tokens before the first block, and its class token after each."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.models import Classifier


class _Reached(BaseException):
    """The first block is about to run. No `Exception`, which a network may catch."""


class ClassTokens:
    """A transformer with a class token, taken apart: `embed` an image, then `run` its blocks over any tokens."""

    def __init__(self, model: Classifier, method: str) -> None:
        network: Any = model.network
        if _is_transformer(network, "timm.models.vision_transformer"):
            self.blocks, norms, final = list(network.blocks), "norm1", network.norm
            ready = network.cls_token is not None and network.global_pool == "token"
        elif _is_transformer(network, "torchvision.models.vision_transformer"):
            self.blocks, norms, final = list(network.encoder.layers), "ln_1", network.encoder.ln
            ready = True
        else:
            ready = False
        if not ready:
            raise TemporaError(
                f"{method} does not fit {model.name}: it puts prompts beside a class token, and this is no vision "
                "transformer of timm's or torchvision's that classifies by one. Use vit_b_16, or leave it out."
            )
        self.model = model
        self.norms: list[nn.Module] = [getattr(block, norms) for block in self.blocks[1:]] + [final]
        """What the class token passes after each block: the next one's first norm, and at last the final one."""

    def embed(self, x: Tensor) -> Tensor:
        """Tokens (n, t, d) as the first block gets them, the class token first."""
        seen: list[Tensor] = []

        def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen.append(inputs[0])
            raise _Reached

        hook = self.blocks[0].register_forward_pre_hook(note)
        try:
            self.model.features(x)
        except _Reached:
            pass
        finally:
            hook.remove()
        return seen[0]

    def run(self, tokens: Tensor) -> Tensor:
        """The normalised class token after every block, (blocks, n, d); the last is what the head gets."""
        found = []
        for block, norm in zip(self.blocks, self.norms, strict=True):
            tokens = block(tokens)
            found.append(norm(tokens[:, 0]))
        return torch.stack(found)

    def prompted(self, tokens: Tensor, prompts: Tensor) -> Tensor:
        """Each prompt's p tokens (k, p, d) behind the class token of each image, (k n, t + p, d)."""
        k, (n, _, _) = len(prompts), tokens.shape
        images = tokens.expand(k, *tokens.shape).flatten(0, 1)
        prompts = prompts.to(tokens).repeat_interleave(n, dim=0)
        return torch.cat([images[:, :1], prompts, images[:, 1:]], dim=1)


def _is_transformer(network: nn.Module, module: str) -> bool:
    """Whether it is a VisionTransformer of that module, which is loaded if there is one: importing it would take
    seconds, only to learn that a network is something else."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(network, loaded.VisionTransformer)
