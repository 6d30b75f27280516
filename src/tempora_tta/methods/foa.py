"""FOA (Niu et al., 2024): search a transformer's prompt without gradients, and shift its features back."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.methods import LEARNS, NO_OP, UNTIMED, Method, Settings, register, setting
from tempora_tta.methods.cma import CMAES, Covariance
from tempora_tta.methods.functions import entropy
from tempora_tta.models import Classifier

BATCH = 64  # what the published weight of the discrepancy belongs to


@dataclass(frozen=True, kw_only=True)
class FOASettings(Settings):
    """Size and limits of the search.

    prompts: tokens of the prompt. candidates: per batch, the last winner among them.
    discrepancy: weight of the distance to the source's activations (0.2 for ImageNet-R).
    samples: how many source samples those are taken from; 32 suffice.
    covariance: identity leaves the search's covariance as it is, which is nearly the same and costs no matrix.
    """

    prompts: int = setting(3, low=1)
    candidates: int = setting(28, low=4)
    discrepancy: float = setting(0.4, low=0)
    samples: int = setting(2000, low=2)
    covariance: Covariance = "full"


class _Reached(BaseException):
    """The first block is about to run. No `Exception`, which a network may catch."""


class PromptedViT:
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
                f"{method} does not fit {model.name}: it puts prompts next to a class token, and this is no vision "
                "transformer of timm's or torchvision's that classifies by one. Use vit_b_16, or leave it out."
            )
        self.model = model
        self.norms: list[nn.Module] = [getattr(block, norms) for block in self.blocks[1:]] + [final]
        """Norms of the class token after each block: the next one's first norm, and at last the final one."""

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
    """True for a VisionTransformer of that module, which is loaded if there is one: importing it would take
    seconds, only to learn that a network is something else."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(network, loaded.VisionTransformer)


@register
class FOA(Method):
    """CMA-ES over prompts; fitness = sum of H + discrepancy of activations; scores = head(f + shift)."""

    name = "foa"
    label = "FOA"
    modifies = ("input", "activations")
    state = ("search", "winner", "mu")
    actions = {"step": LEARNS, "decomposed": LEARNS, "non_finite": NO_OP, "none": UNTIMED}
    repeats = True
    modes = ("candidates",)
    Settings = FOASettings
    only_by_name = True

    def setup(self) -> None:
        self.tokens = PromptedViT(self.model, self.name)
        width = self.model.num_features
        self.search = CMAES(
            self.settings.prompts * width,
            self.settings.candidates - 1,
            self.settings.covariance,
            self.model.device,
        )
        limit = math.sqrt(6 / (3 * (self.model.patch_size or 16) ** 2 + width))
        uniform = torch.rand(
            self.search.dimensions, dtype=torch.float64, device=self.model.device, generator=self.generator
        )
        self.winner = limit * (2 * uniform - 1)
        self.mu: Tensor | None = None  # running mean of f, over samples and candidates
        self.observe_source(self.source(self.settings.samples))

    @torch.no_grad()
    def observe_source(self, x: Tensor) -> None:
        """Mean and unbiased standard deviation of every activation, without a prompt."""
        g = torch.cat([self.tokens.run(self.tokens.embed(part)) for part in x.split(BATCH)], dim=1)
        self.source_mean, self.source_std = g.mean(dim=1), g.std(dim=1)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        if not self.follows:
            return self.frozen_scores(x)
        if len(x) < 2:
            raise TemporaError(
                "foa: a batch of 1 has no standard deviation to compare with the source's. Use batches of at "
                "least 2."
            )
        tokens, candidates = self.tokens.embed(x), self.candidates()
        at_once = max(1, BATCH // len(x))
        tried = [self.tried(tokens, part) for part in candidates.split(at_once)]
        fitness, f = (torch.cat(parts) for parts in zip(*tried, strict=True))
        usable = fitness.isfinite()
        order = torch.where(usable, fitness, torch.inf).argsort(stable=True)
        self.work = ("candidates", float(len(candidates)))
        self.pending = (candidates, order, usable, f) if self.learning else None
        return self.head(f.index_select(0, order[:1])[0])

    def candidates(self) -> Tensor:
        """Prompts to try on this batch: newly drawn ones and the last batch's winner."""
        return torch.cat([self.search.draw(self.generator), self.winner[None]])

    def tried(self, tokens: Tensor, prompts: Tensor) -> tuple[Tensor, Tensor]:
        """Fitness (k,) and features (k, n, d) of some prompts."""
        k, n = len(prompts), len(tokens)
        prompts = prompts.unflatten(1, (self.settings.prompts, -1))
        g = self.tokens.run(self.tokens.prompted(tokens, prompts)).unflatten(1, (k, n))
        away = (g.mean(dim=2) - self.source_mean[:, None]).square()
        away = away + (g.std(dim=2) - self.source_std[:, None]).square()
        h = entropy(self.model.head(g[-1].flatten(0, 1))).view(k, n).sum(dim=1)
        return h + self.settings.discrepancy * n / BATCH * away.sum(dim=(0, 2)), g[-1]

    def head(self, f: Tensor) -> Tensor:
        """Logits of features, moved by what the stream's mean is away from the source's."""
        return self.model.head(f if self.mu is None else f + (self.source_mean[-1] - self.mu))

    @torch.no_grad()
    def adapt(self) -> str:
        if self.pending is None:
            return "none"
        (candidates, order, usable, f), self.pending = self.pending, None
        if not usable.any():
            return "non_finite"
        seen = torch.where(usable[:, None, None], f, 0).sum(dim=(0, 1)) / (usable.sum() * f.shape[1])
        self.mu = seen if self.mu is None else 0.9 * self.mu + 0.1 * seen
        self.winner = candidates.index_select(0, order[:1])[0]
        return "decomposed" if self.search.update(candidates, order) else "step"

    def frozen_scores(self, x: Tensor) -> Tensor:
        """One forward with the winner and the shift; the network as it is before the first batch."""
        if self.mu is None:
            return self.model(x)
        prompt = self.winner.view(1, self.settings.prompts, -1)
        return self.head(self.tokens.run(self.tokens.prompted(self.tokens.embed(x), prompt))[-1])
