"""Milliseconds of predict and adapt per method, compared with the least that such work can cost.

    python benchmarks/methods.py --device cuda --model resnet50

A floor is the bare work without the method: a forward; one with batch statistics; a forward and a backward to the
same parameters. A method that makes several of them is held against as many (`counted`).
Methods and floors take turns within every round, so that their ratios survive a drifting clock; medians over rounds.
On a CPU these are CPU times. Filters are opened, so that every method does all the work it can have with a batch;
CoTTA's gate is closed, so that it makes no views. MEMO, which adapts to each image by itself, gets a few of them.
"""

from __future__ import annotations

import copy
import platform
import statistics
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

import torch
import typer
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import tempora_tta.methods
import tempora_tta.models
from common import Device, JsonFile, committed, console, markdown_table, script, timed, write
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.contract import adapt_at, predict_at
from tempora_tta.methods.norm import BatchStatistics
from tempora_tta.methods.testing import sharpened
from tempora_tta.models import Classifier

OPEN: dict[str, dict[str, Any]] = {
    **{name: {"margin": 1.0, "max_similarity": 2.0} for name in ("eta", "eata", "rdumb")},
    "cotta": {"gate": 0.0},
    "sar": {"margin": 1.0, "recover_below": 0.0},
    "deyo": {"max_entropy": 1.0, "min_plpd": -1.0},
}
FORWARD, STATISTICS = "forward", "forward BN"
NORM, ALL = "fwd+bwd norm", "fwd+bwd all"
#: Gradient-based methods are held against a backward to their own parameters, named here.
BACKWARD = {"shot_im": "features", "sar": "lower", "deyo": "lower", "cotta": "all", "memo": "all"}
MEMO_IMAGES = 4
T = TypeVar("T")
Gauge = Callable[[Callable[[], Any], str], tuple[Any, float]]


class Floor:
    """The bare work: logits, and with `wanted` the gradients of their mean to those parameters."""

    time_aware = False

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


def counted(name: str, method: Method, n: int, amount: float) -> dict[str, float]:
    """Count how often a method makes each floor with a batch of n; `amount` is what it said of its work."""
    if name == "roid":
        return {NORM: 1 + amount / n}  # amount: samples kept
    if name == "cotta":
        return {STATISTICS: 2.0, ALL: 1.0}  # anchor and teacher; the student
    if name == "rotta":
        return {FORWARD: 1.0, STATISTICS: amount / n, NORM: amount / n}  # amount: samples of the memory
    if name == "memo":
        views = method.settings.views
        return {ALL: MEMO_IMAGES * views / n, FORWARD: MEMO_IMAGES / n}
    if name == "foa":
        return {FORWARD: amount}  # amount: candidates
    return {floor_of(name): 1.0}


def floor_of(name: str) -> str:
    """The floor that a method is held against."""
    method = tempora_tta.methods.get(name)
    if method.family == "gradient-based":
        return f"fwd+bwd {BACKWARD.get(name, 'norm')}"
    return STATISTICS if name in ("adabn", "alpha_bn") else FORWARD


def subjects(model: Classifier, names: list[str], source: Tensor) -> dict[str, Method | Floor]:
    """The methods that fit the model, and the floors that they need."""
    methods: dict[str, Method | Floor] = {}
    floors: dict[str, Method | Floor] = {
        FORWARD: Floor(model, statistics=False),
        STATISTICS: Floor(model, statistics=True),
    }
    everything = tuple(name for name, _ in model.named_parameters())
    for name in names:
        options = dict(OPEN.get(name, {}))
        if hasattr(tempora_tta.methods.get(name).Settings, "samples"):
            options["samples"] = len(source)
        try:
            method = tempora_tta.methods.create(name, model, source=source, **options)
        except TemporaError:
            continue
        methods[name] = method
        floor = floor_of(name)
        if floor not in floors:
            wanted = everything if floor == ALL else method.updated_parameters
            floors[floor] = Floor(model, True, wanted)
    return floors | methods


class Operators(TorchDispatchMode):
    """Counts what PyTorch is asked to compute: each is a launch or more on a GPU, whose host they keep busy."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator._schema.returns[:1]
        view = bool(result) and result[0].alias_info is not None and not result[0].alias_info.is_write
        self.count += not view and not operator.__name__.startswith(("empty", "new_empty", "_local_scalar"))
        return operator(*args, **(kwargs or {}))


def operators_of(work: Callable[[], T], _device: str) -> tuple[T, float]:
    """Run `work` and return its result and the number of operators that it took, in the place of seconds."""
    with Operators() as counter:
        result = work()
    return result, counter.count


def measure(
    name: str, subject: Method | Floor, x: Tensor, gauge: Gauge = timed
) -> tuple[float, float, str, float]:
    """Seconds of predict and of adapt on one batch, from the initial state; the action; the amount of work."""
    subject.reset()
    if isinstance(subject, Method):
        subject.work = None
        x = x[:MEMO_IMAGES] if name == "memo" else x
    _, predict_s = gauge(lambda: predict_at(subject, x), x.device.type)
    if name == "rotta":
        subject.pending = (x, _of_all_classes(subject.pending[1]))
    action, adapt_s = gauge(lambda: adapt_at(subject), x.device.type)
    work = getattr(subject, "work", None)
    return predict_s, adapt_s, action, work[1] if work else 0.0


def _of_all_classes(z: Tensor) -> Tensor:
    """As if every class were predicted: RoTTA's memory, which is balanced over classes, fills up."""
    labels = torch.arange(len(z), device=z.device) % z.shape[1]
    return 10 * torch.nn.functional.one_hot(labels, z.shape[1]).to(z)


def row(name: str, times: list[tuple[float, float, str, float]]) -> dict[str, Any]:
    """Medians of one subject."""
    predict_ms, adapt_ms = (1000 * statistics.median(entry[part] for entry in times) for part in (0, 1))
    total_ms = 1000 * statistics.median(entry[0] + entry[1] for entry in times)
    actions = sorted({entry[2] for entry in times})
    return {
        "name": name,
        "predict_ms": predict_ms,
        "adapt_ms": adapt_ms,
        "total_ms": total_ms,
        "actions": actions,
        "amount": statistics.median(entry[3] for entry in times),
    }


def told(rows: list[dict[str, Any]]) -> str:
    """Return one line per floor and method, as Markdown."""
    lines = []
    for entry in rows:
        times = [f"{entry[key]:.2f}" for key in ("predict_ms", "adapt_ms", "total_ms")]
        ratio = f"{entry['ratio']:.2f}" if "ratio" in entry else ""
        lines.append((entry["name"], *times, ratio, entry.get("floor", "")))
    return markdown_table(("", "predict ms", "adapt ms", "total ms", "× floor", "floor"), lines)


def page() -> Iterator[str]:
    yield "Methods against their floors"
    yield ABOUT
    for found in committed("*-methods-*").values():
        yield f"## {found['title']}"
        yield told(found["rows"])


ABOUT = """\
`python benchmarks/methods.py --device cuda --model resnet50`, and with other networks, methods and rounds as
the titles say. The floor is the least that a method's work can cost: a bare forward (with batch statistics
where the method uses them), or a bare forward and backward of the same parameters. SAR, DeYO, CMF and SPA do
more than one forward: their ratio is above one by design. ROID, CoTTA (gate closed), RoTTA, MEMO (four
images) and FOA are held against as many forwards and backwards as their algorithms make. Synchronising
between predict and adapt is part of both sides. Weights are random on the large networks, and filters are
opened, so that every method does its full work.

On CPUs these are CPU times of one core that other programs used too: compare ratios only. The second table of
ViT-B/16 was taken while the machine's other cores were busy."""


def main(
    device: Device = "cpu",
    model: Annotated[str, typer.Option(help="Any name that tempora_tta.models.load takes.")] = "resnet50",
    batch: Annotated[int, typer.Option(help="Images per batch.")] = 64,
    repeats: Annotated[int, typer.Option(help="Rounds to take the median over.")] = 20,
    warmup: Annotated[int, typer.Option(help="Rounds before them.")] = 3,
    pretrained: Annotated[bool, typer.Option(help="Fetch weights; random ones take as long.")] = False,
    method: Annotated[list[str] | None, typer.Option(help="Only these; repeat for more.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Print the table."""
    torch.manual_seed(0)
    classifier = tempora_tta.models.load(model, pretrained=pretrained).to(device)
    x = torch.randn(batch, *classifier.preprocessing.input_size, device=device)
    source = torch.randn(128, *x.shape[1:], device=device)
    names = method or tempora_tta.methods.names()
    contenders = subjects(sharpened(classifier, x), names, source)
    times: dict[str, list[tuple[float, float, str, float]]] = {name: [] for name in contenders}
    for _ in range(warmup):
        for name, subject in contenders.items():
            measure(name, subject, x)
    for _ in range(repeats):
        for name, subject in contenders.items():
            times[name].append(measure(name, subject, x))
    rows = {name: row(name, entries) for name, entries in times.items()}
    for name, subject in contenders.items():
        if isinstance(subject, Method):
            counts = counted(name, subject, batch, rows[name]["amount"])
            rows[name]["floor"] = " + ".join(
                floor if count == 1 else f"{count:.3g} {floor}" for floor, count in counts.items() if count
            )
            floor_ms = sum(count * rows[floor]["total_ms"] for floor, count in counts.items() if count)
            rows[name]["ratio"] = rows[name]["total_ms"] / floor_ms
    machine = torch.cuda.get_device_name() if device.startswith("cuda") else platform.processor()
    title = f"{model}, batch {batch}, {device} ({machine}), torch {torch.__version__}, {repeats} rounds"
    console.print(title, told(list(rows.values())), sep="\n\n", markup=False, soft_wrap=True)
    write({"title": title, "rows": list(rows.values())}, json_file)


if __name__ == "__main__":
    script(lambda: typer.run(main), page)
