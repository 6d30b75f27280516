"""Tune the methods' settings for the bundled networks, on nothing that is ever evaluated.

    python recipes/tune_fashion.py DATA [--networks fashion_resnet,fashion_vit,fashion_vit_token] [--methods tent,eta]

DATA holds Fashion-MNIST's training images. Tuned on: the 10,000 of them that the networks were not trained on, under
three corruptions outside the fifteen (speckle noise, Gaussian blur, spatter) at severity 5, in streams of 156 batches
of 64. A learning rate climbs a ladder from the method's default as long as the mean accuracy grows, or descends it as
long as that helps or the method does worse than standard inference; a projector's learning rate moves with it.
Everything else keeps its default, except what was made for other numbers of classes or features: SAR's threshold of
recovery (an entropy in nats), FOA's weight of the discrepancy (a sum over all activations), and AlphaBN's and T3A's
one number, which have no learning rate. EATA and RDumb have ETA's recipe, which a derived method gets.

Dearer methods are tuned on the first batches of the same streams (`BATCHES`).

Writes src/tempora_tta/models/recipes.json, method by method; what is there already is not tuned again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor
from train_fashion import HELD_OUT, images_and_labels

from tempora_tta import methods
from tempora_tta.config import RunConfig
from tempora_tta.data import Shift, Stream, array_shift, bundled, open_stream
from tempora_tta.data.corruptions import corrupt
from tempora_tta.engine import images
from tempora_tta.models import Classifier, load

RECIPES = Path(__file__).parents[1] / "src/tempora_tta/models/recipes.json"
LADDER = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1, 2.5e-1)
WORTHWHILE = 0.001  # a change that gains less is noise, and the default stays
EVERYWHERE = ("tent", "eta", "shot_im", "sar", "deyo", "cmf", "roid", "t3a", "rotta", "memo", "cotta")
METHODS = {
    "fashion_resnet": (*EVERYWHERE, "alpha_bn"),
    "fashion_vit": (*EVERYWHERE, "spa", "zerosiam"),
    "fashion_vit_token": ("foa",),
}
BATCHES = {"alpha_bn": 20, "t3a": 20, "roid": 20, "rotta": 52, "cotta": 12, "foa": 4, "memo": 3}
"""Of each stream, where it is not all of them."""
CHOICES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "sar": ("recover_below", (0.07, 0.02)),
    "foa": ("discrepancy", (4.0, 40.0)),
    "alpha_bn": ("alpha", (0.3, 0.5, 0.7, 0.9)),
    "t3a": ("filter_k", (1, 5, 20, 50, None)),
}
"""What else may be changed: the setting, and the values tried beside its default."""

Settings = dict[str, Any]
MODELS: dict[str, Classifier] = {}
MATERIAL: dict[str, list[Stream]] = {}
"""By network."""


@cache
def shifts(data: Path) -> list[Shift]:
    images, labels = images_and_labels(data, "train")
    held_out, labels = images[-HELD_OUT:], labels[-HELD_OUT:].numpy()
    corrupted = {name: corrupt(held_out, name, severity=5, constants="fashion") for name in bundled.TUNING}
    return [array_shift(name, pixels.squeeze(1).numpy(), labels, 10) for name, pixels in corrupted.items()]


def streams(data: Path, model: Classifier) -> list[Stream]:
    return [open_stream(shift, model.preprocessing) for shift in shifts(data)]


def accuracy(method: methods.Method, stream: Stream, batches: int) -> float:
    """Mean over the stream's first batches: each is predicted, then adapted to."""
    method.reset()
    right = []
    for i in range(min(batches, stream.num_batches)):
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


class Tuning:
    """The accuracies of settings, each measured once, several at a time."""

    def __init__(self, pool: Executor, network: str, name: str) -> None:
        self.pool, self.network, self.name = pool, network, name
        self.asked: dict[str, Future[float]] = {}
        model = MODELS[network]
        self.defaults = methods.create(name, model, recipe=False, source=source_images(model)).settings

    def ask(self, settings: Settings, method: str = "") -> Future[float]:
        key = json.dumps([settings, method])
        if key not in self.asked:
            self.asked[key] = self.pool.submit(
                measured, self.network, method or self.name, settings, self.name
            )
        return self.asked[key]

    def at(self, lr: float) -> Settings:
        if hasattr(self.defaults, "projector_lr"):
            projector_lr = lr * self.defaults.projector_lr / self.defaults.lr
            return {"lr": lr, "projector_lr": float(f"{projector_lr:.6g}")}
        return {"lr": lr}

    def tuned(self) -> Settings:
        """The settings that reach the highest mean accuracy."""
        settings: Settings = {}
        if hasattr(self.defaults, "lr"):
            start = _nearest(self.defaults.lr)
            place = LADDER.index(start)
            for rung in LADDER[max(place - 1, 0) : place + 2] if not isinstance(self.pool, Here) else ():
                self.ask(self.at(rung))  # will be wanted, so that it may begin
            harmless = self.ask({}, "standard").result()
            lr, best = climb(lambda rung: self.ask(self.at(rung)).result(), start, harmless)
            settings = self.at(lr)
        else:
            best = self.ask(settings).result()
        key, values = CHOICES.get(self.name, ("", ()))
        for value in values:
            self.ask({**settings, key: value})
        for value in values:
            found = self.ask({**settings, key: value}).result()
            if found > best + WORTHWHILE:
                settings, best = {**settings, key: value}, found
        return settings


class Here(Executor):
    """Everything at once, in this process."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **more))
        return done


def prepare(data: Path, networks: list[str]) -> None:
    """The networks and their streams, once per process."""
    torch.set_num_threads(1)  # the networks are small
    for network in networks:
        MODELS[network] = load(network)
        MATERIAL[network] = streams(data, MODELS[network])


_writing = Lock()


def tune(pool: Executor, network: str, name: str) -> None:
    """Tune one method and write its recipe."""
    settings = Tuning(pool, network, name).tuned()
    with _writing:
        recipes = read_recipes()  # another process may tune other methods meanwhile
        recipes.setdefault(network, {})[name] = settings
        RECIPES.write_text(json.dumps(recipes, indent=2) + "\n")


def measured(network: str, method: str, settings: Settings, tuned: str) -> float:
    """The mean accuracy over all streams, as long as they are for the method that is `tuned`."""
    model = MODELS[network]
    made = methods.create(method, model, recipe=False, source=source_images(model), **settings)
    batches = BATCHES.get(tuned, MATERIAL[network][0].num_batches)
    value = float(np.mean([accuracy(made, stream, batches) for stream in MATERIAL[network]]))
    print(f"{network} {method} {settings} {value:.4f}", flush=True)
    return value


def source_images(model: Classifier) -> Tensor:
    """The clean images that ship with the package, as a run on the bundled benchmark gives them."""
    return images.source_images(RunConfig(), model)


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
    parser.add_argument("--methods", help="which to tune (default: all that have something to tune)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one core each")
    arguments = parser.parse_args()
    networks = arguments.networks.split(",")
    prepare(arguments.data, networks)

    wanted = set(arguments.methods.split(",")) if arguments.methods else None
    todo = [
        (network, name)
        for network in networks
        for name in METHODS[network]
        if (wanted is None or name in wanted) and name not in read_recipes().get(network, {})
    ]
    if arguments.jobs == 1:
        for entry in todo:
            tune(Here(), *entry)
        return
    # Spawned, not forked: threads ask for them, and a fork beside threads may wait for ever.
    with (
        ProcessPoolExecutor(
            arguments.jobs, get_context("spawn"), initializer=prepare, initargs=(arguments.data, networks)
        ) as pool,
        ThreadPoolExecutor(max(len(todo), 1)) as threads,
    ):
        list(threads.map(lambda entry: tune(pool, *entry), todo))


if __name__ == "__main__":
    main()
