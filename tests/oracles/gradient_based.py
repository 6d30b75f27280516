"""Tent, ETA, SHOT-IM, SAR, DeYO, CMF, SPA and ZeroSIAM, restated sample by sample."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import GroupNorm, LayerNorm

from oracles.plain import (
    Image,
    Oracle,
    PlainBatchNorm,
    PlainSGD,
    cosine,
    entropy,
    kl,
    log_probabilities,
    mean,
    probabilities,
)


def norm_affine(network: nn.Module) -> list[str]:
    names = []
    for name, module in network.named_modules():
        if isinstance(module, PlainBatchNorm | GroupNorm | LayerNorm):
            names += [f"{name}.weight", f"{name}.bias"]
    return names


def lower_norm_affine(network: nn.Module) -> list[str]:
    """Without layer4 of the ResNets; without blocks 3 and 4 of our ViT's five, and its final norm."""
    top = ("layer4.", "blocks.3.", "blocks.4.", "norm.")
    return [name for name in norm_affine(network) if not name.startswith(top)]


class GradientOracle(Oracle):
    """One loss, one SGD step with momentum 0.9 per batch."""

    batch_statistics = True
    lr_cnn, lr_vit = 2.5e-4, 1e-3

    def __init__(self, network: nn.Module, *, lr: float | None = None, **settings: Any) -> None:
        super().__init__(network, **settings)
        self.lr = lr or (self.lr_vit if self.is_vit else self.lr_cnn)
        self.trainable = {n: p for n, p in self.network.named_parameters() if n in self.names()}
        for parameter in self.trainable.values():
            parameter.requires_grad_(True)
        self.sgd = PlainSGD(dict.fromkeys(self.trainable, self.lr))

    def names(self) -> list[str]:
        return norm_affine(self.network)

    def loss(self) -> Tensor | None:
        """The loss of the batch just predicted, or None where there is nothing to learn from."""
        raise NotImplementedError

    def gradients(self, loss: Tensor) -> dict[str, Tensor]:
        found = torch.autograd.grad(loss, list(self.trainable.values()))
        return dict(zip(self.trainable, found, strict=True))

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        loss = self.loss()
        if loss is None:
            return "nothing_kept"
        self.sgd.step(self.trainable, self.gradients(loss))
        return "step"


class Tent(GradientOracle):
    def loss(self) -> Tensor:
        return mean([entropy(z) for z in self.z])


class Eta(GradientOracle):
    def __init__(self, network: nn.Module, **settings: Any) -> None:
        super().__init__(network, **settings)
        classes = self.head.out_features
        self.e0 = 0.4 * math.log(classes)
        margins = {1000: 0.05, 100: 0.1, 10: 0.4}
        self.d = margins[min(margins, key=lambda c: abs(math.log(c) - math.log(classes)))]
        self.q: Tensor | None = None

    def loss(self) -> Tensor | None:
        reliable = [z for z in self.z if entropy(z) < self.e0]
        kept = [z for z in reliable if self.q is None or abs(cosine(self.q, probabilities(z))) < self.d]
        self.kept.append((len(self.z), len(reliable), len(kept)))
        if not kept:
            return None
        kept_mean = mean([probabilities(z).detach() for z in kept])
        self.q = kept_mean if self.q is None else 0.9 * self.q + 0.1 * kept_mean
        return mean([math.exp(self.e0 - entropy(z).item()) * entropy(z) for z in kept])


class ShotIM(GradientOracle):
    source_stats = "keep"

    def __init__(self, network: nn.Module, *, params: str = "all", **settings: Any) -> None:
        self.params = params
        super().__init__(network, **settings)

    def names(self) -> list[str]:
        if self.params == "norm":
            return norm_affine(self.network)
        return [n for n, _ in self.network.named_parameters() if not n.startswith(("fc.", "head."))]

    def loss(self) -> Tensor:
        m = mean([probabilities(z) for z in self.z])
        diversity = sum(m_c * torch.log(m_c + 2.0**-23) for m_c in m)
        return mean([entropy(z) for z in self.z]) + diversity


class Sar(GradientOracle):
    def __init__(self, network: nn.Module, *, rho: float = 0.05, **settings: Any) -> None:
        super().__init__(network, **settings)
        self.rho = rho
        self.e0 = 0.4 * math.log(self.head.out_features)
        self.initial = {name: p.detach().clone() for name, p in self.trainable.items()}
        self.initial_statistics = {name: b.clone() for name, b in self.statistics().items()}
        self.ema: float | None = None

    def names(self) -> list[str]:
        return lower_norm_affine(self.network)

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        first = [i for i, z in enumerate(self.z) if entropy(z) < self.e0]
        if not first:
            self.kept.append((len(self.z), 0, 0))
            return "nothing_kept"
        gradients = self.gradients(mean([entropy(self.z[i]) for i in first]))
        length = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
        before = {name: p.detach().clone() for name, p in self.trainable.items()}
        for name, p in self.trainable.items():
            p.data = before[name] + self.rho * gradients[name] / length
        z = self.forward(self.x, of_the_stream=False)
        second = [i for i in first if entropy(z[i]) < self.e0]
        self.kept.append((len(self.z), len(first), len(second)))
        if second:
            loss = mean([entropy(z[i]) for i in second])
            gradients = self.gradients(loss)
        for name, p in self.trainable.items():
            p.data = before[name]
        if not second:
            return "nothing_kept"
        self.sgd.step(self.trainable, gradients)
        self.ema = loss.item() if self.ema is None else 0.9 * self.ema + 0.1 * loss.item()
        if self.ema < 0.2:
            self.recover()
            return "recovered"
        return "step"

    def recover(self) -> None:
        for name, p in self.trainable.items():
            p.data = self.initial[name].clone()
        for name, module in self.network.named_modules():
            if isinstance(module, PlainBatchNorm):
                module.running_mean = self.initial_statistics[f"{name}.running_mean"].clone()
                module.running_var = self.initial_statistics[f"{name}.running_var"].clone()
        self.sgd.buffers = {}
        self.ema = None


class Deyo(GradientOracle):
    def __init__(self, network: nn.Module, *, shuffle: Image, **settings: Any) -> None:
        super().__init__(network, **settings)
        self.shuffle = shuffle
        self.log_classes = math.log(self.head.out_features)

    def names(self) -> list[str]:
        return lower_norm_affine(self.network)

    def loss(self) -> Tensor | None:
        z = self.z
        confident = [i for i in range(len(z)) if entropy(z[i]) < 0.5 * self.log_classes]
        terms = []
        if confident:
            with torch.no_grad():
                shuffled = self.forward(self.shuffle(self.x[confident]), of_the_stream=False)
            for i, z_shuffled in zip(confident, shuffled, strict=True):
                c = int(z[i].argmax())
                plpd = (probabilities(z[i])[c] - probabilities(z_shuffled)[c]).item()
                if plpd > 0.2:
                    h = entropy(z[i])
                    weight = math.exp(0.4 * self.log_classes - h.item()) + math.exp(plpd)
                    terms.append(weight * h)
        self.kept.append((len(z), len(confident), len(terms)))
        return mean(terms) if terms else None


def scaled_to_unit(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(v - low) / (high - low) if high > low else 0.0 for v in values]


class Cmf(GradientOracle):
    lr_cnn, lr_vit = 2e-4, 2.5e-4

    def __init__(
        self, network: nn.Module, *, view: Image, noise: float | None = None, **settings: Any
    ) -> None:
        super().__init__(network, **settings)
        self.view = view
        self.noise = noise or (5e-3 if self.is_vit else 2.5e-4)
        classes = self.head.out_features
        self.r = torch.full((classes,), 1 / classes, dtype=torch.float64)
        self.source = {name: p.detach().clone() for name, p in self.trainable.items()}
        self.h = {name: p.detach().clone() for name, p in self.trainable.items()}
        self.v = 0.0

    def scores(self, z: Tensor) -> Tensor:
        if self.frozen:
            return z
        n, classes = z.shape
        mean_p = mean([probabilities(row.detach()) for row in z])
        s = max(1 / n, 1 / classes) / float(mean_p.max())
        return z * (mean_p + s) / (1 + s * classes)

    def loss(self) -> Tensor:
        z, n = self.z, len(self.z)
        p = [probabilities(row) for row in z]
        div = scaled_to_unit([1 - float(cosine(self.r, row.detach())) for row in p])
        cert = scaled_to_unit([-entropy(row).item() for row in z])
        kept = [i for i in range(n) if not div[i] < sum(div) / n]
        self.kept.append((n, len(kept)))
        self.r = 0.9 * self.r + 0.1 * mean([row.detach() for row in p])
        z_view = self.forward(self.view(self.x[kept]), of_the_stream=False)
        total = torch.zeros((), dtype=torch.float64)
        for i, other in zip(kept, z_view, strict=True):
            u = torch.where(p[i] > 0.99, torch.full_like(p[i], 0.99), p[i])
            likelihood = -(u * torch.log(u / (1 - u) + 1e-5)).sum()
            log_p, log_q = log_probabilities(z[i]), log_probabilities(other)
            consistency = -0.5 * (torch.exp(log_p) * log_q).sum() - 0.5 * (torch.exp(log_q) * log_p).sum()
            total = total + math.exp(3 * div[i] * cert[i]) * (likelihood + consistency)
        return total / n

    def adapt(self) -> str:
        action = super().adapt()
        if action == "step":
            self.filter()
        return action

    def filter(self) -> None:
        self.v = 0.99**2 * self.v + self.noise
        b = (1 - self.noise) / (self.v + 1 - self.noise)
        b = 1.0 if b >= 0.9999 else max(b, 0.89)
        self.v = b * self.v
        for name, p in self.trainable.items():
            w = p.detach()
            drawn_back = 0.99 * self.h[name] + 0.01 * self.source[name]
            self.h[name] = b * drawn_back + (1 - b) * w
            p.data = 0.99 * w + 0.01 * self.h[name]


class Projected(GradientOracle):
    """Norm affine and a projector W between features and head, each with its own learning rate."""

    batch_statistics = False
    projector_lr_cnn, projector_lr_vit = 2.5e-2, 5e-2

    def __init__(self, network: nn.Module, *, projector_lr: float | None = None, **settings: Any) -> None:
        super().__init__(network, **settings)
        size = self.head.in_features
        self.w = torch.eye(size, dtype=torch.float64, requires_grad=True)
        self.trainable["projector"] = self.w
        default = self.projector_lr_vit if self.is_vit else self.projector_lr_cnn
        self.sgd.lr["projector"] = projector_lr or default

    def predict(self, x: Tensor) -> Tensor:
        scores = super().predict(x)
        self.clean_features = self.features
        return scores

    def extra_state(self) -> dict[str, Tensor]:
        return {"projector": self.w}

    def projected(self, features: Tensor) -> list[Tensor]:
        return [self.head(self.w @ f) for f in features]


class Spa(Projected):
    """``mask`` makes view (a), ``noise`` the noise image of view (b), clipped to ``limits`` per channel."""

    lr_cnn, lr_vit = 2.5e-3, 1e-2

    def __init__(
        self,
        network: nn.Module,
        *,
        mask: Image,
        noise: Image,
        limits: list[tuple[float, float]],
        **settings: Any,
    ) -> None:
        super().__init__(network, **settings)
        self.mask, self.noise, self.limits = mask, noise, limits
        self.patch = 8 if self.is_vit else 16
        self.ratio = 0.4 if self.is_vit else 0.1
        self.s: Tensor | None = None
        self.s_momentum: Tensor | None = None

    def noisy(self, x: Tensor, s: Tensor) -> Tensor:
        noise, size, out = self.noise(x), self.patch, x.clone()
        across = x.shape[-1] // size
        for k in range(len(s)):
            top, left = k // across * size, k % across * size
            area = (..., slice(top, top + size), slice(left, left + size))
            out[area] = (1 - s[k] ** 2) * x[area] + s[k] ** 2 * noise[area]
        channels = [out[:, c].clamp(low, high) for c, (low, high) in enumerate(self.limits)]
        return torch.stack(channels, dim=1)

    def extra_state(self) -> dict[str, Tensor]:
        return super().extra_state() | ({} if self.s is None else {"strength": self.s})

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        if self.s is None:
            count = (self.x.shape[-2] // self.patch) * (self.x.shape[-1] // self.patch)
            self.s = torch.full((count,), math.sqrt(self.ratio), dtype=torch.float64)
            self.s_momentum = torch.zeros_like(self.s)
        s = self.s.clone().requires_grad_(True)
        clean = [log_probabilities(z.detach()) for z in self.z]
        loss, counts = None, []
        for view in (self.mask(self.x), self.noisy(self.x, s)):
            self.forward(view, of_the_stream=False)
            terms = []
            for log_p, z in zip(clean, self.projected(self.features), strict=True):
                log_q = log_probabilities(z)
                if torch.exp(log_p).max() > torch.exp(log_q).max():
                    terms.append(kl(log_p, log_q))
            counts.append(len(terms))
            if terms:
                loss = mean(terms) if loss is None else loss + mean(terms)
        self.kept.append((len(clean), *counts))
        if loss is None:
            return "nothing_kept"
        wanted = [*self.trainable.values(), s]
        *gradients, s_gradient = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
        self.sgd.step(self.trainable, dict(zip(self.trainable, gradients, strict=True)))
        self.s_momentum = 0.9 * self.s_momentum + s_gradient
        moved = self.s + self.s_momentum
        moved = moved * math.sqrt(self.ratio / float((moved**2).mean()))
        self.s = moved.clamp(-1, 1)
        return "step"


class ZeroSiam(Projected):
    lr_cnn, lr_vit = 2.5e-3, 5e-3
    projector_lr_cnn, projector_lr_vit = 2.5e-2, 5e-3

    def loss(self) -> Tensor:
        terms = []
        for z, z_projected in zip(self.z, self.projected(self.clean_features), strict=True):
            log_p, log_q = log_probabilities(z.detach()), log_probabilities(z_projected)
            terms.append(entropy(z_projected) + kl(log_p, log_q) + kl(log_q, log_p))
        return mean(terms)
