"""Random views of images: jitter for CoTTA, RoTTA and ROID, crops for CMF, and AugMix for MEMO.

Draws that decide what is computed come from a generator on the host, so that the device is never waited for.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import conv2d, grid_sample, pad
from torchvision.transforms.v2.functional import equalize_image

from tempora_tta.errors import TemporaError
from tempora_tta.methods.functions import sent
from tempora_tta.models import Classifier

# Pixels.


class Pixels:
    """Normalised images of a network as pixels in [0, 1], and back."""

    def __init__(self, model: Classifier, method: str) -> None:
        preprocessing = model.preprocessing
        if len(preprocessing.mean) not in (1, 3):
            raise TemporaError(
                f"{method} does not fit {model.name}: its views are made of grey or RGB pixels, and its images have "
                f"{len(preprocessing.mean)} channels."
            )
        self.mean, self.std = (
            torch.tensor(values, device=model.device, dtype=model.dtype)[:, None, None]
            for values in (preprocessing.mean, preprocessing.std)
        )


# Colour jitter, a small affine move, blur and noise.

Draws = Literal["batch", "sample"]
MARGIN = 2  # pixels that a blur of 5x5 looks beyond the crop


@dataclass(frozen=True)
class Drawn:
    """One draw of everything but the noise."""

    order: list[int]
    brightness: float
    contrast: float
    saturation: float
    hue: float
    gamma: float
    degrees: float
    scale: float
    shift: tuple[int, int]
    """To the right and down, in pixels."""
    sigma: float
    flip: bool


class Jitter(Pixels):
    """One random view of each image of a normalised batch.

    padding: what lies beyond the edge: it is repeated ("border") or mirrored ("reflection").
    soften: whether the view is blurred and gets noise.
    """

    def __init__(
        self,
        model: Classifier,
        method: str,
        *,
        padding: Literal["border", "reflection"] = "border",
        soften: bool = True,
    ) -> None:
        super().__init__(model, method)
        self.padding, self.soften = padding, soften

    def __call__(self, x: Tensor, dice: torch.Generator, noise: torch.Generator, draws: Draws) -> Tensor:
        """All draws but the noise are shared by the batch, or made per image (draws="sample")."""
        if draws == "sample" and len(x) > 1:
            return torch.cat([self(image, dice, noise, "batch") for image in x.split(1)])
        pixels = torch.addcmul(self.mean, x, self.std).clamp_(0, 1)
        drawn = draw(dice, *x.shape[-2:])
        pixels = self.moved(coloured(pixels, drawn), drawn)
        if drawn.flip:
            pixels = pixels.flip(-1)
        if self.soften:
            grain = torch.randn(pixels.shape, device=x.device, dtype=x.dtype, generator=noise)
            pixels = pixels.add(grain, alpha=0.005)
        return pixels.clamp(0, 1).sub_(self.mean).div_(self.std)

    def moved(self, pixels: Tensor, drawn: Drawn) -> Tensor:
        """Padded, turned, scaled, shifted, blurred and cropped: only the pixels of the crop are computed."""
        margin = MARGIN if self.soften else 0
        moved = affine(pixels, drawn.degrees, drawn.scale, drawn.shift, self.padding, margin)
        return blurred(moved, drawn.sigma) if self.soften else moved


def draw(dice: torch.Generator, height: int, width: int) -> Drawn:
    """Draws for images of that size."""
    u: list[float] = torch.rand(11, dtype=torch.float64, generator=dice).tolist()

    def between(low: float, high: float) -> float:
        return low + (high - low) * u.pop()

    return Drawn(
        order=torch.randperm(5, generator=dice).tolist(),
        brightness=between(0.6, 1.4),
        contrast=between(0.7, 1.3),
        saturation=between(0.5, 1.5),
        hue=between(-0.06, 0.06),
        gamma=between(0.7, 1.3),
        degrees=between(-15, 15),
        scale=between(0.9, 1.1),
        shift=(round(between(-1 / 16, 1 / 16) * 2 * width), round(between(-1 / 16, 1 / 16) * 2 * height)),
        sigma=between(0.001, 0.5),
        flip=u.pop() < 0.5,
    )


def coloured(pixels: Tensor, drawn: Drawn) -> Tensor:
    """Brightness, contrast, saturation, hue and gamma, in the order drawn, each within [0, 1].

    What torchvision's `adjust_*` compute, in half as many launches.
    """
    changes = (
        lambda image: (image * drawn.brightness).clamp_(0, 1),
        lambda image: mixed(grey(image.mean((-2, -1), keepdim=True)), image, drawn.contrast),
        lambda image: mixed(grey(image), image, drawn.saturation),
        lambda image: hue_turned(image, drawn.hue),
        lambda image: image.clamp(1e-8, 1).pow_(drawn.gamma),
    )
    for index in drawn.order:
        pixels = changes[index](pixels)
    return pixels


def grey(pixels: Tensor) -> Tensor:
    """Brightness."""
    if pixels.shape[-3] == 1:
        return pixels
    red, green, blue = pixels.split(1, dim=-3)
    brightness: Tensor = (red * 0.2989).add_(green, alpha=0.587).add_(blue, alpha=0.114)
    return brightness


def mixed(start: Tensor, end: Tensor, share: float) -> Tensor:
    """From `start` a share of the way to `end`, which may be more than all of it; within [0, 1]."""
    return torch.lerp(start, end, share).clamp_(0, 1)


def hue_turned(pixels: Tensor, turns: float) -> Tensor:
    """The hue moved round its circle; brightest and darkest channel of every pixel stay. Grey images have no hue.

    What torchvision's `adjust_hue` computes, without the six candidates for each channel that it chooses from.
    """
    if pixels.shape[-3] == 1:
        return pixels
    red, green, blue = pixels.unbind(-3)
    top, low = pixels.amax(-3), pixels.amin(-3)
    chroma = top - low
    scale = chroma.clamp(min=torch.finfo(chroma.dtype).tiny).reciprocal_()
    sixths = torch.where(
        top == red,
        (green - blue) * scale,
        torch.where(top == green, (blue - red) * scale + 2, (red - green) * scale + 4),
    )
    # Where the circle's sixths begin for red, green and blue: 5, 3 and 1.
    begins = torch.arange(5, 0, -2, device=pixels.device, dtype=pixels.dtype).add_(6 * turns)
    k = (sixths.unsqueeze(-3) + begins[:, None, None]).remainder_(6)
    fall = torch.minimum(k, 4 - k).clamp_(0, 1)
    return torch.addcmul(top.unsqueeze(-3), chroma.unsqueeze(-3), fall, value=-1)


def affine(
    pixels: Tensor, degrees: float, scale: float, shift: tuple[int, int], padding: str, margin: int
) -> Tensor:
    """The image turned clockwise and scaled about its centre, then shifted; `margin` more pixels on each side.

    Bilinear. What padding would add is read from the edge itself: the move reaches less than half an image away.
    """
    n, _, height, width = pixels.shape
    angle = math.radians(degrees)
    half_w, half_h = (width - 1) / 2, (height - 1) / 2
    cos, sin = math.cos(angle) / scale, math.sin(angle) / scale
    options: dict[str, Any] = {"device": pixels.device, "dtype": pixels.dtype}
    right = torch.arange(-margin, width + margin, **options) - (half_w + shift[0])
    down = torch.arange(-margin, height + margin, **options)[:, None] - (half_h + shift[1])
    x = torch.add(right * (cos / max(half_w, 0.5)), down, alpha=sin / max(half_w, 0.5))
    y = torch.add(down * (cos / max(half_h, 0.5)), right, alpha=-sin / max(half_h, 0.5))
    grid = torch.stack([x, y], dim=2)
    return grid_sample(
        pixels, grid.expand(n, *grid.shape), mode="bilinear", padding_mode=padding, align_corners=True
    )


def blurred(pixels: Tensor, sigma: float) -> Tensor:
    """A Gaussian blur of 5x5 that leaves its margin out."""
    weights = [math.exp(-0.5 * (k / sigma) ** 2) for k in range(-MARGIN, MARGIN + 1)]
    line = sent(torch.tensor(weights, dtype=torch.float64).div(sum(weights)).to(pixels.dtype), pixels.device)
    n, channels, height, width = pixels.shape
    flat = pixels.reshape(n * channels, 1, height, width)
    flat = conv2d(conv2d(flat, line.view(1, 1, 1, -1)), line.view(1, 1, -1, 1))
    return flat.view(n, channels, *flat.shape[-2:])


# Random resized crops and flips, each image with a crop of its own.

SCALE = (0.5, 1.0)  # share of the image's area
ASPECT = (3 / 4, 4 / 3)  # width over height
ATTEMPTS = 10  # at drawing a crop that lies within the image


def random_resized_crops(x: Tensor, generator: torch.Generator, scale: tuple[float, float] = SCALE) -> Tensor:
    """One random crop of each image, scaled back to its size, and flipped sideways half of the time.

    Crops are never larger than the image, so scaling only enlarges: antialiasing has nothing to smooth, and
    bilinear sampling between the crop's own pixels is the whole of it. The generator may be on the host.
    """
    n, _, height, width = x.shape
    crop_h, crop_w = crop_sizes(n, height, width, generator, scale)
    top = random_offsets(height - crop_h, generator)
    left = random_offsets(width - crop_w, generator)
    flip = torch.rand(n, device=generator.device, generator=generator) < 0.5
    rows = _sources(top, crop_h, height, x.dtype)
    columns = _sources(left, crop_w, width, x.dtype)
    columns = torch.where(flip[:, None], columns.flip(1), columns)
    rows, columns = sent(rows, x.device)[:, :, None], sent(columns, x.device)[:, None, :]
    grid = torch.stack([columns.expand(n, height, width), rows.expand(n, height, width)], dim=3)
    return grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def crop_sizes(
    n: int, height: int, width: int, generator: torch.Generator, scale: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Height and width of each crop: area and aspect drawn at random until one fits, else the whole image."""
    area, aspect = torch.rand(
        2, n, ATTEMPTS, dtype=torch.float64, device=generator.device, generator=generator
    )
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    low, high = (math.log(limit) for limit in ASPECT)
    aspect = (low + (high - low) * aspect).exp()
    heights, widths = (area / aspect).sqrt().round(), (area * aspect).sqrt().round()
    fits = (heights <= height) & (widths <= width) & (heights >= 1) & (widths >= 1)
    first = fits.int().argmax(dim=1, keepdim=True)
    found = fits.any(dim=1)
    crop_h = torch.where(found, heights.gather(1, first).squeeze(1), height)
    crop_w = torch.where(found, widths.gather(1, first).squeeze(1), width)
    return crop_h, crop_w


def random_offsets(room: Tensor, generator: torch.Generator) -> Tensor:
    """A whole number from 0 to `room`, both included, for each image."""
    share = torch.rand(room.shape, dtype=room.dtype, device=room.device, generator=generator)
    return torch.minimum((share * (room + 1)).floor(), room)


def _sources(start: Tensor, length: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Place at which each of `size` output pixels reads, in grid_sample's units: -1 and 1 are the outer edges."""
    centres = torch.arange(size, dtype=torch.float64, device=start.device) + 0.5
    within = (centres * length[:, None] / size - 0.5).clamp(min=0)
    pixel = start[:, None] + torch.minimum(within, length[:, None] - 1)
    return ((2 * pixel + 1) / size - 1).to(dtype)


# AugMix (Hendrycks et al., 2020): all views of an image together. Its pixels are whole numbers from 0 to 255.

SMALL = 64  # side of images up to which views are shifted crops and not zoomed ones
SHIFT = 4  # pixels of black around small images
CHAINS, DEPTH = 3, 3
FILL = (128.0, 0.0, 0.0)  # what PIL makes of fillcolor=128 in RGB
POINTWISE = ("autocontrast", "equalize", "posterize", "solarize")
GEOMETRIC = ("rotate", "shear_x", "shear_y", "shift_x", "shift_y")
OPERATIONS = (*POINTWISE, *GEOMETRIC)


def augmix(image: Tensor, count: int, dice: torch.Generator) -> Tensor:
    """`count` views of one image (c, h, w) of pixels in [0, 1]."""
    start = base(image, count, dice).mul_(255).clamp_(0, 255).round_()  # o
    chains = start.repeat(CHAINS, 1, 1, 1)
    length = torch.randint(1, DEPTH + 1, (len(chains),), generator=dice)
    for step in range(DEPTH):
        operation = torch.randint(len(OPERATIONS), (len(chains),), generator=dice)
        strength = 0.1 + 0.9 * torch.rand(len(chains), dtype=torch.float64, generator=dice)
        sign = 1 - 2 * torch.randint(2, (len(chains),), generator=dice)
        operate(chains, operation.where(length > step, -1), strength, sign)
    weights = -torch.rand(CHAINS, count, dtype=torch.float64, generator=dice).log()
    share = torch.rand(1, count, dtype=torch.float64, generator=dice)
    drawn = torch.cat([weights / weights.sum(dim=0), share]).to(image.dtype)
    parts = sent(drawn, image.device)[:, :, None, None, None]
    mixed = (parts[:CHAINS] * chains.unflatten(0, (CHAINS, count))).sum(dim=0)
    return torch.lerp(mixed, start, parts[CHAINS]).div_(255)


def base(image: Tensor, count: int, dice: torch.Generator) -> Tensor:
    """Random crops, flipped half of the time."""
    if max(image.shape[-2:]) > SMALL:
        views = image.expand(count, *image.shape)
        return random_resized_crops(views, dice, scale=(0.08, 1.0))
    height, width = image.shape[-2:]
    padded = pad(image, (SHIFT,) * 4)
    top, left = torch.randint(2 * SHIFT + 1, (count, 2), generator=dice).unsqueeze(2).unbind(1)
    flip = torch.rand(count, 1, generator=dice) < 0.5
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    columns = torch.where(flip, columns.flip(1), columns)
    rows, columns = sent(rows, image.device), sent(columns, image.device)
    return padded[:, rows[:, :, None], columns[:, None, :]].transpose(0, 1).contiguous()


def operate(x: Tensor, operation: Tensor, strength: Tensor, sign: Tensor) -> None:
    """Put each image under its operation (an index, -1: none), in place: those with the same one together."""
    sorted_, order = operation.sort(stable=True)
    limits = [*torch.searchsorted(sorted_, torch.arange(len(POINTWISE) + 1)).tolist(), len(order)]
    places = sent(order, x.device)
    for index, (start, end) in enumerate(itertools.pairwise(limits)):
        if start == end:
            continue
        where, chosen = places[start:end], order[start:end]
        images = x.index_select(0, where)
        if index < len(POINTWISE):
            images = _POINTWISE[POINTWISE[index]](images, strength[chosen])
        else:
            drawn = zip(*(part[chosen].tolist() for part in (operation, strength, sign)), strict=True)
            moves = [matrix(OPERATIONS[kind], level, turn, *x.shape[-2:]) for kind, level, turn in drawn]
            images = warped(images, torch.tensor(moves, dtype=torch.float64))
        x.index_copy_(0, where, images)


def autocontrast(x: Tensor, _strength: Tensor) -> Tensor:
    """Each channel stretched to 0 ... 255."""
    low, high = (edge.double() for edge in torch.aminmax(x.flatten(2), dim=2, keepdim=True))
    scale = torch.full_like(low, 255).div((high - low).clamp_(min=1))  # 255 / x would be 255 * (1 / x)
    stretched = (x.flatten(2) * scale).sub_(low * scale).floor_().clamp_(0, 255)
    return torch.where((high > low)[..., None], stretched.to(x.dtype).view(x.shape), x)


def equalize(x: Tensor, _strength: Tensor) -> Tensor:
    """Each channel with a histogram as flat as whole steps make it."""
    equalized: Tensor = equalize_image(x.nan_to_num().to(torch.uint8))
    return equalized.to(x)


def posterize(x: Tensor, _strength: Tensor) -> Tensor:
    """The four highest bits: no strength reaches the next number of bits."""
    return (x / 16).floor() * 16


def solarize(x: Tensor, strength: Tensor) -> Tensor:
    """Inverted from a threshold on."""
    threshold = sent((256 - (25.6 * strength).floor()).to(x.dtype), x.device)[:, None, None, None]
    return torch.where(x < threshold, x, 255 - x)


_POINTWISE = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "solarize": solarize,
}


def matrix(name: str, strength: float, sign: int, height: int, width: int) -> list[list[float]]:
    """Matrix that leads from a point of the view to the one it shows, in pixels from the upper-left corner."""
    if name == "rotate":
        angle = sign * math.radians(int(3 * strength))
        cos, sin, x, y = math.cos(angle), math.sin(angle), width / 2, height / 2
        return [[cos, -sin, x - cos * x + sin * y], [sin, cos, y - sin * x - cos * y]]
    if name == "shear_x":
        return [[1, sign * 0.03 * strength, 0], [0, 1, 0]]
    if name == "shear_y":
        return [[1, 0, 0], [sign * 0.03 * strength, 1, 0]]
    if name == "shift_x":
        return [[1, 0, sign * int(strength * width / 30)], [0, 1, 0]]
    return [[1, 0, 0], [0, 1, sign * int(strength * height / 30)]]


def warped(x: Tensor, matrices: Tensor) -> Tensor:
    """Bilinear, rounded to whole numbers; what lies outside is filled."""
    channels, height, width = x.shape[1:]
    options: dict[str, Any] = {"device": x.device, "dtype": x.dtype}
    right, down = torch.arange(0.5, width, **options), torch.arange(0.5, height, **options)[:, None]
    # In grid_sample's units: -1 and 1 are the outer edges.
    size = torch.tensor([[width], [height]], dtype=torch.float64)
    scaled = 2 * matrices / size - torch.tensor([0.0, 0.0, 1.0])
    by_right, by_down, offset = sent(scaled.to(x.dtype), x.device)[..., None, None].unbind(2)
    grid = torch.addcmul(torch.addcmul(offset, by_down, down), by_right, right)
    inside = ((grid >= -1) & (grid < 1)).all(dim=1, keepdim=True)
    sampled = grid_sample(
        x, grid.permute(0, 2, 3, 1), mode="bilinear", padding_mode="border", align_corners=False
    )
    fill = torch.tensor(FILL if channels == 3 else (FILL[0],) * channels, dtype=x.dtype)
    return torch.where(inside, sampled.round_(), sent(fill, x.device)[:, None, None])
