"""AlphaBN, T3A, EATA, RDumb, ROID, CoTTA, RoTTA, MEMO and FOA, restated sample by sample."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from oracles.gradient_based import Cmf, Eta, GradientOracle
from oracles.plain import (
    Image,
    Oracle,
    PlainBatchNorm,
    entropy,
    log_probabilities,
    mean,
    probabilities,
)


class PlainNesterov:
    """v = 0.9 v + g; w = w - lr (g + 0.9 v)."""

    def __init__(self, lr: float) -> None:
        self.lr = lr
        self.v: dict[str, Tensor] = {}

    def step(self, parameters: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        for name, g in gradients.items():
            self.v[name] = 0.9 * self.v.get(name, torch.zeros_like(g)) + g
            with torch.no_grad():
                parameters[name] -= self.lr * (g + 0.9 * self.v[name])


class PlainAdam:
    """Bias-corrected moments of every gradient; with `decay` the weights shrink first (AdamW)."""

    def __init__(self, lr: float, decay: float = 0.0) -> None:
        self.lr, self.decay, self.t = lr, decay, 0
        self.m: dict[str, Tensor] = {}
        self.v: dict[str, Tensor] = {}

    def step(self, parameters: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        self.t += 1
        for name, g in gradients.items():
            self.m[name] = 0.9 * self.m.get(name, torch.zeros_like(g)) + 0.1 * g
            self.v[name] = 0.999 * self.v.get(name, torch.zeros_like(g)) + 0.001 * g * g
            m, v = self.m[name] / (1 - 0.9**self.t), self.v[name] / (1 - 0.999**self.t)
            with torch.no_grad():
                parameters[name] *= 1 - self.lr * self.decay
                parameters[name] -= self.lr * m / (torch.sqrt(v) + 1e-8)


class MixingNorm(PlainBatchNorm):
    """(1 - a) S + a b; tracks R from S."""

    def __init__(self, source: PlainBatchNorm) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias, self.eps = source.weight, source.bias, source.eps
        self.s = (source.running_mean.clone(), source.running_var.clone())
        self.register_buffer("running_mean", source.running_mean.clone())
        self.register_buffer("running_var", source.running_var.clone())
        self.a, self.how, self.track = 0.1, "mix", False

    def own(self, x: Tensor) -> tuple[Tensor, Tensor]:
        count = x.shape[0] * x.shape[2] * x.shape[3]
        average = x.sum(dim=(0, 2, 3)) / count
        if count == 1:
            return average, self.s[1]
        return average, ((x - average[:, None, None]) ** 2).sum(dim=(0, 2, 3)) / (count - 1)

    def forward(self, x: Tensor) -> Tensor:
        b = tuple(value.detach() for value in self.own(x))
        if self.track:
            self.running_mean = 0.9 * self.running_mean + 0.1 * b[0]
            self.running_var = 0.9 * self.running_var + 0.1 * b[1]
        r = (self.running_mean, self.running_var)
        if self.how == "ema":
            used = r
        elif self.how == "source":
            used = self.s
        else:
            other = r if self.how == "frozen" else b
            used = tuple((1 - self.a) * one + self.a * two for one, two in zip(self.s, other, strict=True))
        normalised = (x - used[0][:, None, None]) / torch.sqrt(used[1][:, None, None] + self.eps)
        return normalised * self.weight[:, None, None] + self.bias[:, None, None]


def replace_by(network: nn.Module, make: Callable[[PlainBatchNorm], nn.Module]) -> list[Any]:
    found = []
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, PlainBatchNorm):
                found.append(make(child))
                setattr(parent, name, found[-1])
    return found


class AlphaBN(Oracle):
    def __init__(
        self,
        network: nn.Module,
        *,
        alpha: float = 0.1,
        prior: float | None = None,
        mode: str = "mix",
        frozen_stats: str = "tracked",
    ) -> None:
        super().__init__(network, frozen_stats=frozen_stats)
        self.norms = replace_by(self.network, MixingNorm)
        self.alpha, self.prior, self.mode = alpha, prior, mode

    def forward(self, x: Tensor, *, of_the_stream: bool) -> Tensor:
        for norm in self.norms:
            norm.a = self.alpha if self.prior is None else len(x) / (self.prior + len(x))
            norm.track = not self.frozen
            tracked = self.frozen and self.frozen_stats == "tracked"
            norm.how = "ema" if self.mode == "ema" else "frozen" if tracked else "mix"
        return self.network(x)


class T3A(Oracle):
    def __init__(self, network: nn.Module, *, filter_k: int | None = 100) -> None:
        super().__init__(network)
        self.k = filter_k
        self.supports: list[tuple[Tensor, int, float]] = []
        self.append(list(self.head.weight.detach()))

    def append(self, features: list[Tensor]) -> None:
        for f in features:
            z = self.head.weight @ f + self.head.bias
            self.supports.append((f, int(z.argmax()), float(entropy(z))))

    def scores(self, z: Tensor) -> Tensor:
        features = list(self.features.detach())
        if not self.frozen:
            self.append(features)
        columns = []
        for c in range(z.shape[1]):
            own = sorted((s for s in self.supports if s[1] == c), key=lambda s: s[2])[: self.k]
            if not own:
                columns.append(torch.zeros(len(features), dtype=torch.float64))
                continue
            centroid = mean([f / torch.sqrt((f * f).sum()) for f, _, _ in own])
            centroid = centroid / torch.sqrt((centroid * centroid).sum())
            columns.append(torch.stack([(f * centroid).sum() for f in features]))
        return torch.stack(columns, dim=1)


class Eata(Eta):
    def __init__(
        self, network: nn.Module, *, source: Tensor, order: list[int], beta: float, **settings: Any
    ) -> None:
        super().__init__(network, **settings)
        self.beta = beta
        self.w0 = {name: p.detach().clone() for name, p in self.trainable.items()}
        self.importance = {name: torch.zeros_like(p) for name, p in self.w0.items()}
        batches = [order[start : start + 64] for start in range(0, len(order), 64)]
        for batch in batches:
            for norm in self.batch_norms:
                norm.use_batch, norm.track = True, False
            z = self.network(source[batch])
            loss = mean([-log_probabilities(row)[int(row.argmax())] for row in z])
            for name, g in self.gradients(loss).items():
                self.importance[name] += g * g / len(batches)

    def gradients(self, loss: Tensor) -> dict[str, Tensor]:
        found = super().gradients(loss)
        if not hasattr(self, "importance") or self.importance_unfinished:
            return found
        return {
            name: g + 2 * self.beta * self.importance[name] * (self.trainable[name].detach() - self.w0[name])
            for name, g in found.items()
        }

    @property
    def importance_unfinished(self) -> bool:
        """Before the first batch of the stream only F itself is computed."""
        return not hasattr(self, "x")


class RDumb(Eta):
    def __init__(self, network: nn.Module, *, reset_every: int, **settings: Any) -> None:
        super().__init__(network, **settings)
        self.reset_every, self.calls = reset_every, 0
        self.again = lambda: RDumb(network, reset_every=reset_every, **settings)

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        self.calls += 1
        if self.calls < self.reset_every:
            return super().adapt()
        self.__dict__.update(self.again().__dict__)
        return "recovered"


class Roid(Cmf):
    lr_cnn, lr_vit = 1e-3, 2.5e-4

    def __init__(self, network: nn.Module, *, prior: str = "logits", **settings: Any) -> None:
        super().__init__(network, **settings)
        self.prior = prior
        self.sgd = PlainNesterov(self.lr) if self.is_vit else PlainAdam(self.lr)

    def scores(self, z: Tensor) -> Tensor:
        if self.prior == "none" or self.frozen:
            return z
        if self.prior == "logits":
            return super().scores(z)
        return z + torch.log(super().scores(torch.ones_like(z)) * 0 + self.smoothed(z))

    def smoothed(self, z: Tensor) -> Tensor:
        mean_p = mean([probabilities(row.detach()) for row in z])
        s = max(1 / len(z), 1 / z.shape[1]) / float(mean_p.max())
        return (mean_p + s) / (1 + s * z.shape[1])

    def filter(self) -> None:
        for name, p in self.trainable.items():
            p.data = 0.99 * p.detach() + 0.01 * self.source[name]


def cross_entropy(p: Tensor, log_u: Tensor) -> Tensor:
    return -(p * log_u).sum()


class Cotta(GradientOracle):
    lr_cnn, lr_vit = 1e-3, 5e-3

    def __init__(
        self,
        network: nn.Module,
        *,
        view: Image,
        mask: Image,
        gate: float = 0.92,
        target: str = "plain",
        **settings: Any,
    ) -> None:
        super().__init__(network, **settings)
        if not self.is_vit:
            self.sgd = PlainAdam(self.lr)
        self.view, self.mask, self.gate, self.target = view, mask, gate, target
        self.teacher, self.anchor = copy.deepcopy(self.network), copy.deepcopy(self.network)
        for other in (self.teacher, self.anchor):
            other.requires_grad_(False)
        self.opened: list[bool] = []

    def names(self) -> list[str]:
        return [name for name, _ in self.network.named_parameters() if name.endswith(("weight", "bias"))]

    def of(self, network: nn.Module, x: Tensor) -> Tensor:
        for module in network.modules():
            if isinstance(module, PlainBatchNorm):
                module.use_batch, module.track = True, False
        with torch.no_grad():
            return network(x)

    def predict(self, x: Tensor) -> Tensor:
        self.x = x
        if self.frozen:
            statistics = self.statistics()
            for name, module in self.teacher.named_modules():
                if isinstance(module, PlainBatchNorm):
                    module.use_batch = False
                    module.running_mean = statistics[f"{name}.running_mean"]
                    module.running_var = statistics[f"{name}.running_var"]
            return self.teacher(x)
        confidence = mean([probabilities(z).max() for z in self.of(self.anchor, x)])
        self.opened.append(bool(confidence < self.gate))
        if self.opened[-1]:
            self.taught = mean([self.of(self.teacher, self.view(x)) for _ in range(32)])
        else:
            self.taught = self.of(self.teacher, x)
        return self.taught

    def loss(self) -> Tensor:
        terms = []
        for taught, z in zip(self.taught, self.forward(self.x, of_the_stream=True), strict=True):
            log_p, log_u = log_probabilities(taught), log_probabilities(z)
            plain = cross_entropy(torch.exp(log_p), log_u)
            symmetric = 0.5 * plain + 0.5 * cross_entropy(torch.exp(log_u), log_p)
            terms.append(plain if self.target == "plain" else symmetric)
        return mean(terms)

    def adapt(self) -> str:
        action = super().adapt()
        if action == "step":
            teacher, source = (dict(net.named_parameters()) for net in (self.teacher, self.anchor))
            for name, w in self.trainable.items():
                teacher[name].data = 0.999 * teacher[name] + 0.001 * w.detach()
                m = self.mask(w).to(w.dtype)
                w.data = m * source[name] + (1 - m) * w.detach()
        return action

    def others(self) -> dict[str, Tensor]:
        teacher = dict(self.teacher.named_parameters())
        return {f"teacher.network.{name}": teacher[name] for name in self.trainable}


class RobustNorm(nn.Module):
    """R' = 0.95 R + 0.05 b with biased variance; normalises with R' while `learning`."""

    def __init__(self, source: PlainBatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = source.weight, source.bias, source.eps
        self.register_buffer("running_mean", source.running_mean.clone())
        self.register_buffer("running_var", source.running_var.clone())
        self.learning = False

    def forward(self, x: Tensor) -> Tensor:
        average, var = self.running_mean, self.running_var
        if self.learning:
            count = x.shape[0] * x.shape[2] * x.shape[3]
            b = x.sum(dim=(0, 2, 3)) / count
            biased = ((x - b[:, None, None]) ** 2).sum(dim=(0, 2, 3)) / count
            average, var = 0.95 * average + 0.05 * b, 0.95 * var + 0.05 * biased
            self.running_mean, self.running_var = average.detach(), var.detach()
        normalised = (x - average[:, None, None]) / torch.sqrt(var[:, None, None] + self.eps)
        return normalised * self.weight[:, None, None] + self.bias[:, None, None]


class Rotta(GradientOracle):
    batch_statistics = False
    lr_cnn = lr_vit = 1e-3

    def __init__(self, network: nn.Module, *, view: Image, capacity: int = 64, **settings: Any) -> None:
        super().__init__(network, **settings)
        self.sgd, self.view, self.capacity = PlainAdam(self.lr), view, capacity
        self.norms = replace_by(self.network, RobustNorm)
        self.teacher = copy.deepcopy(self.network).requires_grad_(False)
        self.norms += [m for m in self.teacher.modules() if isinstance(m, RobustNorm)]
        self.classes = self.head.out_features
        self.memory: list[list[dict[str, Any]]] = [[] for _ in range(self.classes)]
        self.count, self.outcomes = 0, {"added": 0, "evicted": 0, "dropped": 0}

    def predict(self, x: Tensor) -> Tensor:
        self.x = x
        with torch.no_grad():
            self.z = self.teacher(x)
        return self.z

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        updated = False
        for x, z in zip(self.x, self.z, strict=True):
            p = probabilities(z)
            self.offer(x, int(z.argmax()), float(-(p * torch.log(p + 1e-6)).sum()))
            self.count += 1
            if self.count % self.capacity == 0:
                self.update()
                updated = True
        return "step" if updated else "stored"

    def score(self, age: int, u: float) -> float:
        return 1 / (1 + math.exp(-age / self.capacity)) + u / math.log(self.classes)

    def offer(self, x: Tensor, c: int, u: float) -> None:
        held = sum(len(own) for own in self.memory)
        new = {"x": x, "u": u, "age": 0}
        if len(self.memory[c]) < self.capacity / self.classes and held < self.capacity:
            self.memory[c].append(new)
            self.outcomes["added"] += 1
        else:
            searched = [c]
            if len(self.memory[c]) < self.capacity / self.classes:
                most = max(len(own) for own in self.memory)
                searched = [k for k in range(self.classes) if len(self.memory[k]) == most]
            found, highest = None, -math.inf
            for k in searched:
                for position, entry in enumerate(self.memory[k]):
                    if self.score(entry["age"], entry["u"]) >= highest:
                        found, highest = (k, position), self.score(entry["age"], entry["u"])
            if found is not None and highest > self.score(0, u):
                del self.memory[found[0]][found[1]]
                self.memory[c].append(new)
                self.outcomes["evicted"] += 1
            else:
                self.outcomes["dropped"] += 1
        for own in self.memory:
            for entry in own:
                entry["age"] += 1

    def update(self) -> None:
        entries = [entry for own in self.memory for entry in own]
        x = torch.stack([entry["x"] for entry in entries])
        for norm in self.norms:
            norm.learning = True
        with torch.no_grad():
            taught = self.teacher(x)
        student = self.network(self.view(x))
        for norm in self.norms:
            norm.learning = False
        terms = []
        for entry, t, w in zip(entries, taught, student, strict=True):
            e = math.exp(-entry["age"] / self.capacity)
            terms.append(e / (1 + e) * cross_entropy(probabilities(t), log_probabilities(w)))
        self.sgd.step(self.trainable, self.gradients(mean(terms)))
        teacher = dict(self.teacher.named_parameters())
        for name, w in self.trainable.items():
            teacher[name].data = 0.999 * teacher[name] + 0.001 * w.detach()

    def others(self) -> dict[str, Tensor]:
        teacher = dict(self.teacher.named_parameters()) | dict(self.teacher.named_buffers())
        running = [name for name, _ in self.teacher.named_buffers() if "running" in name]
        return {f"teacher.network.{name}": teacher[name] for name in [*self.trainable, *running]}


class Memo(Oracle):
    def __init__(self, network: nn.Module, *, views: Image, lr: float | None = None) -> None:
        super().__init__(network)
        self.views = views
        self.norms = replace_by(self.network, MixingNorm)
        self.lr = lr or (1e-5 if self.is_vit else 5e-3)

    def use(self, how: str) -> None:
        for norm in self.norms:
            norm.how, norm.a = how, 1 / 17

    def predict(self, x: Tensor) -> Tensor:
        if self.frozen:
            self.use("source")
            return self.network(x)
        self.use("mix")
        return torch.cat([self.one(image) for image in x])

    def one(self, image: Tensor) -> Tensor:
        before = copy.deepcopy(self.network)
        parameters = dict(self.network.named_parameters())
        for p in parameters.values():
            p.requires_grad_(True)
        average = mean([probabilities(z) for z in self.network(self.views(image))])
        loss = -(average * torch.log(average)).sum()
        found = torch.autograd.grad(
            loss, list(parameters.values()), allow_unused=True, materialize_grads=True
        )
        gradients = dict(zip(parameters, found, strict=True))
        if self.is_vit:
            PlainAdam(self.lr, decay=0.01).step(parameters, gradients)
        else:
            for name, p in parameters.items():
                p.data = p.detach() - self.lr * gradients[name]
        with torch.no_grad():
            z = self.network(image[None])
        for p, old in zip(self.network.parameters(), before.parameters(), strict=True):
            p.data = old.data
            p.requires_grad_(False)
        return z


class Foa(Oracle):
    """On timm's ViT; `drawn` gives the 27 standard normal draws of each batch, `first` the first winner.

    Candidates are m + sigma K^(1/2) z: distributed as with B diag(l), and the same for any choice of eigenvectors.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        source: Tensor,
        drawn: Callable[[], Tensor],
        first: Tensor,
        identity: bool = False,
    ) -> None:
        super().__init__(network)
        self.drawn, self.identity = drawn, identity
        g = self.activations(source, None)
        self.mean_s, self.std_s = g.mean(1), g.std(1)
        d = self.d = 3 * self.network.embed_dim
        self.m = torch.zeros(d, dtype=torch.float64)
        self.ps, self.pc = torch.zeros_like(self.m), torch.zeros_like(self.m)
        self.sigma, self.t, self.since = 1.0, 0, 0
        self.K = torch.eye(d, dtype=torch.float64)
        self.B, self.l = self.K.clone(), torch.ones(d, dtype=torch.float64)
        self.winner, self.mu = first, None
        w = [math.log(14) - math.log(i) for i in range(1, 28)]
        plus, minus = [v for v in w if v > 0], [v for v in w if v < 0]
        plus = [v / sum(plus) for v in plus]
        self.M = M = 1 / sum(v * v for v in plus)
        self.c1 = 2 / ((d + 1.3) ** 2 + M)
        self.cm = 2 * (M - 1.75 + 1 / M) / ((d + 2) ** 2 + M)
        self.cc = (4 + M / d) / (d + 4 + 2 * M / d)
        self.cs = (M + 2) / (d + M + 3)
        self.damp = 1 + self.cs + 2 * max(0.0, math.sqrt((M - 1) / (d + 1)) - 1)
        n = sum(minus) ** 2 / sum(v * v for v in minus)
        total = min(1 + self.c1 / self.cm, (1 - self.c1 - self.cm) / (d * self.cm), 1 + 2 * n / (M + 2))
        self.w = [*plus, 0.0, 0.0, *(v / abs(sum(minus)) * total for v in minus)]

    def activations(self, x: Tensor, prompt: Tensor | None) -> Tensor:
        net = self.network
        t = net._pos_embed(net.patch_embed(x))
        if prompt is not None:
            t = torch.cat([t[:, :1], prompt.view(1, 3, -1).expand(len(x), -1, -1), t[:, 1:]], dim=1)
        found = []
        for i, block in enumerate(net.blocks):
            t = block(t)
            norm = net.blocks[i + 1].norm1 if i + 1 < len(net.blocks) else net.norm
            found.append(norm(t)[:, 0])
        return torch.stack(found)

    def predict(self, x: Tensor) -> Tensor:
        if self.frozen and self.t == 0:
            return self.network(x)
        shift = 0 if self.mu is None else self.mean_s[-1] - self.mu
        if self.frozen:
            return self.head(self.activations(x, self.winner)[-1] + shift)
        spread = self.B @ torch.diag(self.l) @ self.B.T
        self.tried = [self.m + self.sigma * spread @ z for z in self.drawn()] + [self.winner]
        self.fitness, self.f = [], []
        for prompt in self.tried:
            g = self.activations(x, prompt)
            away = ((g.mean(1) - self.mean_s) ** 2 + (g.std(1) - self.std_s) ** 2).sum()
            h = sum(float(entropy(self.head(f))) for f in g[-1])
            self.fitness.append(h + 0.4 * len(x) / 64 * float(away))
            self.f.append(g[-1])
        self.best = min(range(28), key=self.fitness.__getitem__)
        return self.head(self.f[self.best] + shift)

    def root(self, y: Tensor) -> Tensor:
        return self.B @ ((self.B.T @ y) / self.l)

    def adapt(self) -> str:
        if self.frozen:
            return "none"
        d, M, cs, cc = self.d, self.M, self.cs, self.cc
        average = torch.stack(self.f).mean((0, 1))
        self.mu = average if self.mu is None else 0.9 * self.mu + 0.1 * average
        self.winner = self.tried[self.best]
        self.t += 1
        self.since += 1
        y = [(x - self.m) / self.sigma for x in self.tried]
        length, longest = float(self.root(y[27]).norm()), math.sqrt(d) + 2 * d / (d + 2)
        if length > longest:
            y[27] = y[27] * longest / length
        y = [y[i] for i in sorted(range(28), key=self.fitness.__getitem__)]
        s = sum(w * v for w, v in zip(self.w, y, strict=True) if w > 0)
        self.m = self.m + self.sigma * s
        self.ps = (1 - cs) * self.ps + math.sqrt(cs * (2 - cs) * M) * self.root(s)
        bound = float((self.ps**2).sum()) / (d * (1 - (1 - cs) ** (2 * self.t)))
        h = 1.0 if bound < 2 + 4 / (d + 1) else 0.0
        self.pc = (1 - cc) * self.pc + h * math.sqrt(cc * (2 - cc) * M) * s
        decay = 1 - self.c1 * (1 - (1 - h) * cc * (2 - cc)) - self.cm * sum(self.w)
        K = decay * self.K + self.c1 * torch.outer(self.pc, self.pc)
        for w, v in zip(self.w, y, strict=True):
            k = d / float((self.root(v) ** 2).sum()) if w < 0 else 1.0
            K = K + self.cm * w * k * torch.outer(v, v)
        chi = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
        change = cs / self.damp * (float(self.ps.norm()) / chi - 1)
        self.sigma *= math.exp(min(1.0, max(-1.0, change)))
        if self.identity:
            return "step"
        self.K = K
        if self.since > 1 / (10 * d * (self.c1 + self.cm)):
            values, self.B = torch.linalg.eigh(K)
            self.l, self.since = torch.sqrt(values), 0
            return "decomposed"
        return "step"
