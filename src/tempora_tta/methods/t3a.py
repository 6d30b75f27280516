"""T3A (Iwasawa & Matsuo, 2021): classify by the mean of each class's most certain features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from tempora_tta.errors import TemporaError
from tempora_tta.methods import LEARNS, UNTIMED, LogRange, Method, Settings, register, setting
from tempora_tta.methods.functions import entropy


@dataclass(frozen=True, kw_only=True)
class T3ASettings(Settings):
    """filter_k: how many supports each class keeps, those of least entropy; null keeps all."""

    filter_k: int | None = setting(100, low=1, search=LogRange(30))


@register
class T3A(Method):
    """Supports (f, class, H) collect the stream; scores = f . normalised mean of the class's f / |f|."""

    name = "t3a"
    label = "T3A"
    modifies = ("output",)
    actions = {"none": LEARNS | UNTIMED}
    repeats = True
    state = ("features", "classes", "entropies")
    modes = ("supports",)
    Settings = T3ASettings

    def setup(self) -> None:
        classifier = self.model.classifier
        if not isinstance(classifier, (nn.Linear, nn.Conv2d)):
            raise TemporaError(
                f"t3a does not fit {self.model.name}: it replaces the rows of a linear classifier, and the head is "
                f"a {type(classifier).__name__}. Leave it out, or say wrap(..., head=the last linear layer)."
            )
        rows = classifier.weight.detach().flatten(1)
        self.features = rows[:0]  # unit vectors: their length is all that scores do not need
        self.classes = torch.zeros(0, dtype=torch.long, device=rows.device)
        self.entropies = rows.new_zeros(0)
        with torch.no_grad():
            self.support(rows, self.model.head(rows))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        f = self.model.features(x)
        if self.follows:
            self.support(f, self.model.head(f))
        return self.similarities(f)

    def support(self, f: Tensor, z: Tensor) -> None:
        """Append a batch, of class C where it is not finite, and keep the most certain of each class."""
        usable = f.isfinite().all(dim=1) & z.isfinite().all(dim=1)
        classes = torch.where(usable, z.argmax(dim=1), self.model.num_classes)
        unit = normalize(torch.where(usable[:, None], f, 0), dim=1)
        self.features = torch.cat([self.features, unit])
        self.classes = torch.cat([self.classes, classes])
        self.entropies = torch.cat([self.entropies, torch.where(usable, entropy(z), torch.inf)])
        if self.settings.filter_k is not None:
            self.filter(self.settings.filter_k)
        self.work = ("supports", float(len(self.classes)))

    def filter(self, k: int) -> None:
        """Give up all but the k of least entropy in each class, the earlier of equals.

        How many rows stay is known to the device alone; rather than wait for it, what is given up becomes class C
        and moves to the end, where it falls off beyond the C k rows that can ever be needed.
        """
        num_classes = self.model.num_classes
        order = self.entropies.argsort(stable=True)
        order = order[self.classes[order].argsort(stable=True)]
        counts = torch.zeros(num_classes + 1, dtype=torch.long, device=order.device)
        counts.index_add_(0, self.classes, torch.ones_like(self.classes))
        place = (
            torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[self.classes[order]]
        )
        rank = torch.empty_like(place).scatter_(0, order, place)
        self.classes = torch.where(rank < k, self.classes, num_classes)
        first = (self.classes == num_classes).long().argsort(stable=True)[: num_classes * k]
        self.features, self.classes = self.features[first], self.classes[first]
        self.entropies = self.entropies[first]

    def similarities(self, f: Tensor) -> Tensor:
        """f . centroid of each class; 0 for a class without supports."""
        sums = self.features.new_zeros(self.model.num_classes + 1, self.features.shape[1])
        centroids = normalize(sums.index_add_(0, self.classes, self.features)[:-1], dim=1)
        return f @ centroids.T
