"""`tempora export`: a method as ONNX graphs with its state as inputs and outputs, if a replay gives the same.

The folder holds a graph for each batch size and kind of step (`method`; `settled`, once it has settled; `standard`,
to compare with), the first state, export.json, which says what they are, and run.py, which runs them.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tempora_tta.config import RunConfig
from tempora_tta.data import Stream
from tempora_tta.engine.build import build_job
from tempora_tta.engine.job import Job
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.custom_norm import update_stats
from tempora_tta.methods.settle import PooledNorm, Settle
from tempora_tta.names import file_of

TOLERANCE = 1e-3
"""Largest difference of two scores, as a share of the largest score."""
IMAGES, FEWEST_BATCHES = 512, 8
"""Replayed at each size."""
FREEZE = "freeze it (--frozen-after 20), or take standard, neo, adabn or settle"


@dataclass(frozen=True)
class Agreement:
    """A replay of a stream by the exported method, held to Tempora's."""

    batch_size: int
    images: int
    same_class: int
    difference: float
    """Of scores, as a share of the largest."""

    @property
    def holds(self) -> bool:
        return self.same_class == self.images and self.difference <= TOLERANCE


def export(configs: Sequence[RunConfig], folder: Path, frozen_after: int | None = None) -> list[Agreement]:
    """Write the first method of these configurations, one for each batch size; return how the replays agree.

    Refuses, and writes nothing, if one does not.
    """
    _need_onnx()
    if folder.exists() and any(folder.iterdir()):
        raise TemporaError(f"--out {folder}: there are files in it; name another folder, or empty this one")
    with tempfile.TemporaryDirectory() as made:
        agreements = [_export_size(config, Path(made), frozen_after) for config in configs]
        shutil.copytree(made, folder, dirs_exist_ok=True)
    return agreements


def _need_onnx() -> None:
    missing = [
        name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise TemporaError(f"export needs {', '.join(missing)}: pip install 'tempora-tta[onnx]'")


def _export_size(config: RunConfig, folder: Path, frozen_after: int | None) -> Agreement:
    batches = (frozen_after or 0) + max(FEWEST_BATCHES, IMAGES // config.batch_size)
    job = build_job(replace(config, batches=batches))
    stream = job.open_stream(job.streams[0])
    label = job.methods[0].label
    first = _write_graphs(job, stream, folder, frozen_after)
    np.savez(folder / "state.npz", allow_pickle=False, **first)
    shutil.copyfile(file_of("tempora_tta.serving:run_exported.py"), folder / "run.py")
    said = folder / "export.json"
    about = json.loads(said.read_text()) if said.exists() else {"batch_sizes": [], "agreement": []}
    method = _ready(job, stream, frozen_after)
    about |= {
        "model": job.model.name,
        "method": f"{label} frozen" if frozen_after is not None else label,
        "settles_on": method.settings.images if isinstance(method, Settle) else None,
        "image_shape": list(stream.batch(0).shape[1:]),
        "mean": list(job.model.preprocessing.mean),
        "std": list(job.model.preprocessing.std),
        "batch_sizes": [*about["batch_sizes"], stream.batch_size],
    }
    said.write_text(json.dumps(about, indent=1), encoding="utf-8")
    found = _replay(method, stream, folder)
    if not found.holds:
        raise TemporaError(
            f"{label} is not exported: at batch size {found.batch_size} its graph gives the class that Tempora gives "
            f"for {found.same_class} of {found.images} images, and scores that differ by up to "
            f"{found.difference:.1g} of the largest (allowed: every class, {TOLERANCE:g}): {FREEZE}"
        )
    about["agreement"].append(vars(found))
    said.write_text(json.dumps(about, indent=1), encoding="utf-8")
    return found


def _ready(job: Job, stream: Stream, frozen_after: int | None) -> Method:
    """The method as it is exported: reset, or frozen after some batches of the stream."""
    method = job.create(job.methods[0], stream.seed)
    if frozen_after is not None:
        for index in range(frozen_after):
            method.predict(stream.batch(index))
            method.adapt()
        method.freeze()
    return method


def _write_graphs(job: Job, stream: Stream, folder: Path, frozen_after: int | None) -> dict[str, np.ndarray]:
    """Write the graphs of one batch size; return the first state."""
    images, method = stream.batch(0), _ready(job, stream, frozen_after)
    names = [] if method.frozen else _state_names(method)
    step = Graph(method, names)
    with _made_of(method):
        first = step.first(images)
    _write(step, images, first, folder / f"method-{len(images)}.onnx")
    if isinstance(method, Settle) and not method.frozen:
        method.settled_on = method.settings.images
        method.freeze()
        kept = {name: value for name, value in first.items() if name != "settled_on"}
        settled = Graph(method, list(kept), changes=False)
        _write(settled, images, kept, folder / f"settled-{len(images)}.onnx")
    if not job.methods[0].is_standard:
        plain = job.create(replace(job.methods[0], name="standard", settings={}, label=""), stream.seed)
        _write(Graph(plain, []), images, {}, folder / f"standard-{len(images)}.onnx")
    return {name: value.numpy() for name, value in first.items()}


def _state_names(method: Method) -> list[str]:
    """Buffers of the network and attributes of the method that a batch changes, or the reason not to export it."""
    buffers = [*(method.statistics.buffers() if method.statistics else ()), *method.changing]
    if isinstance(method, Settle):
        if method.settings.alarm:
            raise TemporaError(
                "settle: its alarm looks at many batches together, which is no graph: --set alarm=0 exports it "
                "without, to settle once, on the images after it starts"
            )
        return ["settled_on", "centre", *buffers]
    if method.trainable or method.time_aware or type(method).adapt is not Method.adapt:
        raise TemporaError(
            f"{method.name}: only a method that learns while it predicts is exported: {FREEZE}"
        )
    return [*method.state_names(), *buffers]


class Graph(nn.Module):
    """One step of a method as a function of images and state, for the exporter."""

    def __init__(self, method: Method, names: Sequence[str], changes: bool = True) -> None:
        super().__init__()
        self.method, self.model, self.names, self.changes = method, method.model, list(names), changes

    def forward(self, images: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad(), self._state(state), WrittenOut():
            return self._scores(images), *(self._now() if self.changes else ())

    def _scores(self, images: Tensor) -> Tensor:
        if isinstance(self.method, Settle) and not self.method.frozen:
            return self.method.settle_on(images)
        return self.method.predict(images)

    def first(self, images: Tensor) -> dict[str, Tensor]:
        """The state before the first batch, in the shapes that it has after it."""
        before = [torch.as_tensor(value, dtype=_type_of(value)).clone() for value in self._now()]
        _, *after = self(images, *before)
        shaped = [old.broadcast_to(new.shape).clone() for old, new in zip(before, after, strict=True)]
        return dict(zip(self.names, shaped, strict=True))

    def _now(self) -> list[Any]:
        return [place[key] for place, key in self._places()]

    def _places(self) -> Iterator[tuple[dict[str, Any], str]]:
        for name in self.names:
            layer, _, key = name.rpartition(".")
            yield (self.model.get_submodule(layer)._buffers if layer else vars(self.method)), key

    @contextmanager
    def _state(self, state: Sequence[Tensor]) -> Iterator[None]:
        """Inside, the method has this state; what it had is put back."""
        pooled = [vars(layer) for layer in self.model.modules() if isinstance(layer, PooledNorm)]
        places = [*self._places(), *((place, "share") for place in pooled)]
        before = [place[key] for place, key in places]
        given = [*state, *(place["share"] for place in pooled)]
        try:
            for (place, key), value in zip(places, given, strict=True):
                place[key] = value.clone()
            yield
        finally:
            for (place, key), value in zip(places, before, strict=True):
                place[key] = value


def _type_of(value: Any) -> torch.dtype:
    return value.dtype if isinstance(value, Tensor) else torch.float32


class WrittenOut(TorchFunctionMode):
    """Inside, BatchNorm that follows the batch is written out: the exporter takes it for BatchNorm that does not."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.batch_norm:
            return _batch_norm(*args, **kwargs or {})
        if func is torch.batch_norm:
            x, weight, bias, mean, var, *how, _ = args
            return _batch_norm(x, mean, var, weight, bias, *how)
        if func is update_stats:
            return _statistics(args[0])
        return func(*args, **kwargs or {})


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    var, mean = torch.var_mean(x, dim=[0, *range(2, x.ndim)], correction=0)
    return mean, var


def _batch_norm(
    x: Tensor,
    mean: Tensor | None,
    var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """functional.batch_norm, in which a batch's statistics are computed, tracked and used one after the other."""
    if training:
        own_mean, own_var = _statistics(x)
        if mean is not None and var is not None:
            count = x.numel() // x.shape[1]
            mean.lerp_(own_mean, momentum)
            var.lerp_(own_var * (count / max(1, count - 1)), momentum)
        mean, var = own_mean, own_var
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


@contextmanager
def _made_of(method: Method) -> Iterator[None]:
    """Inside, what keeps PyTorch from making a graph of the method is the reason not to export it."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except Exception as error:
        reason = next(iter(str(error.__cause__ or error).splitlines()), type(error).__name__)
        raise TemporaError(
            f"{method.name} is not exported: PyTorch cannot make a graph of it ({reason:.200}): {FREEZE}"
        ) from error


def _write(graph: Graph, images: Tensor, state: Mapping[str, Tensor], file: Path) -> None:
    with _made_of(graph.method):
        torch.onnx.export(
            graph,
            (images, *state.values()),
            file,
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=["images", *state],
            output_names=["scores", *(f"after.{name}" for name in state if graph.changes)],
        )


def _replay(method: Method, stream: Stream, folder: Path) -> Agreement:
    """Give both the batches of the stream; the exported one runs as it will on the device, by its own run.py."""
    spec = importlib.util.spec_from_file_location("exported", folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    exported = runner.Model(stream.batch_size, folder)
    same, largest, difference = 0, 0.0, 0.0
    for index in range(stream.num_batches):
        images = stream.batch(index)
        ours = method.predict(images).detach().numpy()
        method.adapt()
        theirs = exported(images.numpy())
        same += int((ours.argmax(axis=1) == theirs.argmax(axis=1)).sum())
        largest = max(largest, float(np.abs(ours).max()))
        difference = max(difference, float(np.abs(ours - theirs).max()))
    images_seen = stream.num_batches * stream.batch_size
    return Agreement(stream.batch_size, images_seen, same, difference / largest)
