"""Tune the methods' settings for the bundled networks, on nothing that is ever evaluated.

    python recipes/tune_fashion.py DATA [--networks fashion_resnet,fashion_vit] [--methods tent,eta]

DATA holds Fashion-MNIST's training images. Tuned on: the 10,000 of them that the networks were not trained on, under
three corruptions outside the fifteen (speckle noise, Gaussian blur, spatter) at severity 5, in streams of 156 batches
of 64. A learning rate climbs a ladder from the method's default as long as the mean accuracy grows, or descends it as
long as that helps or the method does worse than standard inference; a projector's learning rate moves with it.
Everything else keeps its default, except SAR's threshold of recovery: an entropy in nats that was made for 1000
classes, so smaller ones are tried too.

Writes src/tempora/models/recipes.json, method by method; what is there already is not tuned again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from train_fashion import HELD_OUT, images_and_labels

from tempora import methods
from tempora.data import Stream, array_shift, bundled, open_stream
from tempora.data.corruptions import corrupt
from tempora.models import Classifier, load

RECIPES = Path(__file__).parents[1] / "src/tempora/models/recipes.json"
LADDER = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1, 2.5e-1)
WORTHWHILE = 0.001  # a change that gains less is noise, and the default stays
METHODS = {
    "fashion_resnet": ("tent", "eta", "shot_im", "sar", "deyo", "cmf"),
    "fashion_vit": ("tent", "eta", "shot_im", "sar", "deyo", "cmf", "spa", "zerosiam"),
}
RECOVER_BELOW = (0.07, 0.02)

Settings = dict[str, Any]


def streams(data: Path, model: Classifier) -> list[Stream]:
    images, labels = images_and_labels(data, "train")
    held_out, labels = images[-HELD_OUT:], labels[-HELD_OUT:].numpy()
    corrupted = {name: corrupt(held_out, name, severity=5, constants="fashion") for name in bundled.TUNING}
    return [
        open_stream(array_shift(name, pixels.squeeze(1).numpy(), labels, 10), model.preprocessing)
        for name, pixels in corrupted.items()
    ]


def accuracy(method: methods.Method, stream: Stream) -> float:
    """Mean over the stream's batches: each is predicted, then adapted to."""
    method.reset()
    right = []
    for i in range(stream.num_batches):
        predicted = method.predict(stream.batch(i)).argmax(1)
        method.adapt()
        right.append(np.mean(predicted.numpy() == stream.labels(i)))
    return float(np.mean(right))


def climb(score: Callable[[float], float], start: float, harmless: float) -> tuple[float, float]:
    """The best rung and its score: up from `start` as long as it pays, or else down.

    Down, it also goes on as long as the best is still worse than `harmless`.
    """
    place = LADDER.index(start)
    best, best_score = start, score(start)
    for rung in LADDER[place + 1 :]:
        if score(rung) <= best_score + WORTHWHILE:
            break
        best, best_score = rung, score(rung)
    for rung in LADDER[:place][::-1] if best == start else ():
        if score(rung) <= best_score + WORTHWHILE and best_score >= harmless:
            break
        if score(rung) > best_score:
            best, best_score = rung, score(rung)
    return best, best_score


def tune(name: str, model: Classifier, material: list[Stream]) -> Settings:
    """The settings that reach the highest mean accuracy."""
    defaults = methods.create(name, model, recipe=False).settings

    def settings_at(lr: float) -> Settings:
        if hasattr(defaults, "projector_lr"):
            return {"lr": lr, "projector_lr": float(f"{lr * defaults.projector_lr / defaults.lr:.6g}")}
        return {"lr": lr}

    @cache
    def score(lr: float, **more: float) -> float:
        method = methods.create(name, model, recipe=False, **settings_at(lr), **more)
        value = float(np.mean([accuracy(method, stream) for stream in material]))
        print(f"{model.name} {name} lr={lr:g} {more or ''} {value:.4f}", flush=True)
        return value

    standard = methods.create("standard", model)
    harmless = float(np.mean([accuracy(standard, stream) for stream in material]))
    lr, best = climb(score, _nearest(defaults.lr), harmless)
    settings = settings_at(lr)
    if name == "sar":
        threshold = max(RECOVER_BELOW, key=lambda value: score(lr, recover_below=value))
        if score(lr, recover_below=threshold) > best + WORTHWHILE:
            settings["recover_below"] = threshold
    return settings


def _nearest(lr: float) -> float:
    return min(LADDER, key=lambda rung: abs(np.log(rung / lr)))


def read_recipes() -> dict[str, dict[str, Settings]]:
    return json.loads(RECIPES.read_text()) if RECIPES.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--networks", default=",".join(METHODS))
    parser.add_argument("--methods", help="which to tune (default: all that have a learning rate)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the networks are small

    for network in arguments.networks.split(","):
        model = load(network)
        material = streams(arguments.data, model)
        for name in arguments.methods.split(",") if arguments.methods else METHODS[network]:
            if name in read_recipes().get(network, {}):
                continue
            settings = tune(name, model, material)
            recipes = read_recipes()  # another process may tune the other network meanwhile
            recipes.setdefault(network, {})[name] = settings
            RECIPES.write_text(json.dumps(recipes, indent=2) + "\n")


if __name__ == "__main__":
    main()
