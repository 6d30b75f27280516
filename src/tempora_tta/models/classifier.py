"""The network as methods see it: features, a classifier on top of them, and facts about both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError

Family = Literal["cnn", "vit"]


@dataclass(frozen=True)
class Preprocessing:
    """Resize to `input_size / crop_pct`, crop `input_size` from the centre, scale to [0, 1], normalise.

    Normalise: subtract `mean`, divide by `std`.
    `input_size` is (channels, height, width), None where it is unknown; `mean` and `std` have one entry per channel.
    `assumed` names the fields that neither the network nor the user stated.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    input_size: tuple[int, int, int] | None = None
    crop_pct: float = 0.875
    interpolation: str = "bilinear"
    assumed: tuple[str, ...] = ()

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """`input_size`. Raises where it is unknown."""
        if self.input_size is None:
            raise TemporaError(
                "the image size of this network is unknown, so images cannot be prepared for it: "
                "models.wrap(network, ..., input_size=(channels, height, width)) states it."
            )
        return self.input_size

    @property
    def lowest(self) -> tuple[float, ...]:
        """Per channel, what a black pixel becomes: the least value that a normalised image can hold."""
        return tuple((0.0 - mean) / std for mean, std in zip(self.mean, self.std, strict=True))

    @property
    def highest(self) -> tuple[float, ...]:
        """Per channel, what a white pixel becomes: the greatest value that a normalised image can hold."""
        return tuple((1.0 - mean) / std for mean, std in zip(self.mean, self.std, strict=True))


class Classifier(nn.Module):
    """A network split into `features(x) -> (n, d)` and `head(f) -> logits`. `wrap` and `load` make one.

    Args:
        name: what reports call it.
        head_name: which part of the network the head is.
        num_classes: C, the number of logits.
        family: "cnn" or "vit", which decides defaults such as learning rates.
        recipe: settings that suit this network, per method name.
        patch_size: side of a transformer's patches in pixels; None where there are none.
        top: prefixes of the module names that make up the top of the network.
    """

    def __init__(
        self,
        network: nn.Module,
        features: Callable[[nn.Module, Tensor], Tensor],
        head: str,
        *,
        name: str,
        num_classes: int,
        family: Family,
        preprocessing: Preprocessing | None = None,
        recipe: Mapping[str, Mapping[str, Any]] | None = None,
        patch_size: int | None = None,
        top: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.network = network
        self._features = features
        self.head_name = head
        self.name = name
        self.num_classes = num_classes
        self.family: Family = family
        self._preprocessing = preprocessing
        self.recipe: dict[str, dict[str, Any]] = {method: dict(s) for method, s in (recipe or {}).items()}
        self.patch_size = patch_size
        self.top = top

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the classifier: one vector per image."""
        f = self._features(self.network, x)
        return f if f.ndim == 2 else f.flatten(1)

    def head(self, f: Tensor) -> Tensor:
        """Return the logits of features."""
        classifier = self.classifier
        logits: Tensor
        if isinstance(classifier, nn.Conv2d):  # 1x1, after the pooling, as in timm's older networks
            logits = classifier(f[:, :, None, None]).flatten(1)
        else:
            logits = classifier(f)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))

    if TYPE_CHECKING:  # nn.Module says that a call may return anything

        def __call__(self, x: Tensor) -> Tensor: ...

    @property
    def classifier(self) -> nn.Module:
        """The module that turns features into logits."""
        return self.network.get_submodule(self.head_name)

    @property
    def num_features(self) -> int:
        """d, the length of a feature vector."""
        for layer in self.classifier.modules():
            if isinstance(layer, nn.Linear):
                return layer.in_features
            if isinstance(layer, nn.Conv2d):
                return layer.in_channels
        raise TemporaError(
            f"{self.name}: the number of features is unknown, because its head, a "
            f"{type(self.classifier).__name__}, has no linear layer; methods with a projector need one."
        )

    @property
    def preprocessing(self) -> Preprocessing:
        """Preprocessing of this network. Raises where it is unknown."""
        if self._preprocessing is None:
            raise TemporaError(
                f"{self.name}: its preprocessing is unknown. "
                "State how its images are prepared: models.wrap(network, mean=(...), std=(...), input_size=(...))."
            )
        return self._preprocessing

    def prepare(self, **stated: Any) -> None:
        """Prepare images otherwise: fields of `Preprocessing` that are stated replace the network's own."""
        own = self.preprocessing
        assumed = tuple(name for name in own.assumed if name not in stated)
        self._preprocessing = replace(own, **stated, assumed=assumed)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The weights' floating-point type."""
        return next(self.parameters()).dtype

    def in_top(self, module_name: str) -> bool:
        """Tell whether a module (named as in `named_modules()`) belongs to the top of the network."""
        name = module_name.removeprefix("network.")
        return any(name == prefix or name.startswith(prefix + ".") for prefix in self.top)

    def weights_hash(self) -> str:
        """Hash names, types, shapes and values of the state dict, the same on each device (sha256)."""
        digest = hashlib.sha256()
        for key, value in sorted(self.network.state_dict().items()):
            digest.update(f"{key} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()
