"""`tempora export`: a method as ONNX graphs with its state as inputs and outputs, if a replay gives the same.

The folder holds a graph for each batch size and kind of step (`method`; `settled`, once it has settled; `standard`,
to compare with), the first state, export.json, which says what they are, and run.py, which runs them.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tempora_tta.config import RunConfig
from tempora_tta.data import Stream
from tempora_tta.engine.build import build_job
from tempora_tta.engine.job import Job
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.graphs import FREEZE, TOLERANCE, Graph, made_of, need_onnx, state_names, write_graph
from tempora_tta.methods.settle import Settle
from tempora_tta.names import file_of

IMAGES, FEWEST_BATCHES = 512, 8
"""Replayed at each size."""


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
    need_onnx("export")
    if folder.exists() and any(folder.iterdir()):
        raise TemporaError(f"--out {folder}: there are files in it; name another folder, or empty this one")
    with tempfile.TemporaryDirectory() as made:
        agreements = [_export_size(config, Path(made), frozen_after) for config in configs]
        shutil.copytree(made, folder, dirs_exist_ok=True)
    return agreements


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
    names = [] if method.frozen else state_names(method)
    step = Graph(method, names)
    with made_of(method):
        first = step.first(images)
    write_graph(step, images, first, folder / f"method-{len(images)}.onnx")
    if isinstance(method, Settle) and not method.frozen:
        method.settled_on = method.settings.images
        method.freeze()
        kept = {name: value for name, value in first.items() if name != "settled_on"}
        settled = Graph(method, list(kept), changes=False)
        write_graph(settled, images, kept, folder / f"settled-{len(images)}.onnx")
    if not job.methods[0].is_standard:
        plain = job.create(replace(job.methods[0], name="standard", settings={}, label=""), stream.seed)
        write_graph(Graph(plain, []), images, {}, folder / f"standard-{len(images)}.onnx")
    return {name: value.numpy() for name, value in first.items()}


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
