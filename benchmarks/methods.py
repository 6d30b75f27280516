"""Milliseconds of predict and adapt per method, beside the least that such work can cost.

    python benchmarks/methods.py --device cuda --model resnet50

A floor is the bare work without the method: a forward; one with batch statistics; a forward and a backward to the
same parameters. Methods and floors take turns within every round, so that their ratios survive a drifting clock;
medians over rounds. On a CPU these are CPU times. Filters are opened, so that every method does all the work it can
have with a batch.
"""

from __future__ import annotations

import copy
import platform
import statistics
from typing import Annotated, Any

import torch
import typer
from rich.table import Table
from torch import Tensor

import tempora.methods
import tempora.models
from common import Device, JsonFile, console, timed, write
from tempora.errors import TemporaError
from tempora.methods import Method
from tempora.methods.norm import BatchStatistics
from tempora.methods.testing import sharpened
from tempora.models import Classifier

OPEN = {
    "eta": {"margin": 1.0, "max_similarity": 2.0},
    "sar": {"margin": 1.0, "recover_below": 0.0},
    "deyo": {"max_entropy": 1.0, "min_plpd": -1.0},
}
FORWARD, STATISTICS = "forward", "forward BN"
#: Gradient-based methods are held against a backward to their own parameters, named here.
BACKWARD = {"shot_im": "features", "sar": "lower", "deyo": "lower"}


class Floor:
    """The bare work: logits, and with `wanted` the gradients of their mean to those parameters."""

    def __init__(self, model: Classifier, statistics: bool, wanted: tuple[str, ...] = ()) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        if statistics:
            BatchStatistics(self.model, "reset", "tracked").adapt()
        parameters = dict(self.model.named_parameters())
        self.wanted = [parameters[name].requires_grad_() for name in wanted if name in parameters]

    def predict(self, x: Tensor) -> None:
        with torch.set_grad_enabled(bool(self.wanted)):
            self.z = self.model(x)

    def adapt(self) -> str:
        if self.wanted:
            torch.autograd.grad(self.z.mean(), self.wanted)
        return "none"

    def reset(self) -> None:
        self.z = None


def floor_of(name: str) -> str:
    """The floor that a method is held against."""
    method = tempora.methods.get(name)
    if method.family == "gradient-based":
        return f"fwd+bwd {BACKWARD.get(name, 'norm')}"
    return STATISTICS if name == "adabn" else FORWARD


def subjects(model: Classifier, names: list[str], settings: dict[str, Any]) -> dict[str, Method | Floor]:
    """The methods that fit the model, and the floors that they need."""
    methods: dict[str, Method | Floor] = {}
    floors: dict[str, Method | Floor] = {FORWARD: Floor(model, statistics=False)}
    for name in names:
        try:
            method = tempora.methods.create(name, model, **OPEN.get(name, {}), **settings.get(name, {}))
        except TemporaError:
            continue
        methods[name] = method
        floor = floor_of(name)
        if floor not in floors:
            floors[floor] = Floor(model, method.statistics is not None, method.updated_parameters)
    return floors | methods


def measure(subject: Method | Floor, x: Tensor) -> tuple[float, float, str]:
    """Milliseconds of predict and of adapt on one batch, from the initial state, and the action."""
    subject.reset()
    _, predict_s = timed(lambda: subject.predict(x), x.device.type)
    action, adapt_s = timed(subject.adapt, x.device.type)
    return 1000 * predict_s, 1000 * adapt_s, action


def row(name: str, times: list[tuple[float, float, str]]) -> dict[str, Any]:
    """Medians of one subject."""
    predict_ms, adapt_ms = (statistics.median(entry[part] for entry in times) for part in (0, 1))
    total_ms = statistics.median(entry[0] + entry[1] for entry in times)
    actions = sorted({entry[2] for entry in times})
    return {
        "name": name,
        "predict_ms": predict_ms,
        "adapt_ms": adapt_ms,
        "total_ms": total_ms,
        "actions": actions,
    }


def table(rows: list[dict[str, Any]], title: str) -> Table:
    """One line per floor and method."""
    shown = Table(title=title, title_justify="left")
    for column in ("", "predict ms", "adapt ms", "total ms", "x floor", "floor", "actions"):
        shown.add_column(column, justify="right" if "ms" in column or column == "x floor" else "left")
    for entry in rows:
        ratio = f"{entry['ratio']:.3f}" if "ratio" in entry else ""
        times = [f"{entry[key]:.2f}" for key in ("predict_ms", "adapt_ms", "total_ms")]
        shown.add_row(entry["name"], *times, ratio, entry.get("floor", ""), ", ".join(entry["actions"]))
    return shown


def main(
    device: Device = "cpu",
    model: Annotated[str, typer.Option(help="Any name that tempora.models.load takes.")] = "resnet50",
    batch: Annotated[int, typer.Option(help="Images per batch.")] = 64,
    repeats: Annotated[int, typer.Option(help="Rounds to take the median over.")] = 20,
    warmup: Annotated[int, typer.Option(help="Rounds before them.")] = 3,
    pretrained: Annotated[bool, typer.Option(help="Fetch weights; random ones take as long.")] = False,
    method: Annotated[list[str] | None, typer.Option(help="Only these; repeat for more.")] = None,
    kept_only: Annotated[bool, typer.Option(help="Set kept_only for the methods that have it.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Print the table."""
    torch.manual_seed(0)
    classifier = tempora.models.load(model, pretrained=pretrained).to(device)
    x = torch.randn(batch, *classifier.preprocessing.input_size, device=device)
    settings = {name: {"kept_only": kept_only} for name in OPEN} if kept_only else {}
    usual = [name for name in tempora.methods.names() if not tempora.methods.get(name).costly]
    contenders = subjects(sharpened(classifier, x), method or usual, settings)
    times: dict[str, list[tuple[float, float, str]]] = {name: [] for name in contenders}
    for _ in range(warmup):
        for subject in contenders.values():
            measure(subject, x)
    for _ in range(repeats):
        for name, subject in contenders.items():
            times[name].append(measure(subject, x))
    rows = {name: row(name, entries) for name, entries in times.items()}
    for name, subject in contenders.items():
        if isinstance(subject, Method):
            rows[name]["floor"] = floor_of(name)
            rows[name]["ratio"] = rows[name]["total_ms"] / rows[floor_of(name)]["total_ms"]
    machine = torch.cuda.get_device_name() if device.startswith("cuda") else platform.processor()
    title = f"{model}, batch {batch}, {device} ({machine}), torch {torch.__version__}, {repeats} rounds"
    console.print(table(list(rows.values()), title))
    write({"title": title, "rows": list(rows.values())}, json_file)


if __name__ == "__main__":
    typer.run(main)
