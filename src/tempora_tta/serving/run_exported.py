"""Run a method that `tempora export` wrote here, as run.py; needs NumPy and ONNX Runtime, nothing else.

    from run import Model
    model = Model(batch_size=4)
    scores = model(images)  # float32, normalised as export.json says; the model keeps what it learns

python run.py --profile times every batch size and writes profile-SIZE.json here, a clock for `tempora run --clock`.
Methods that are in such a file already stay in it.
"""

import json
import platform
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

KINDS = ("method", "settled")
ROUNDS, WARM_UP = 50, 5


class Model:
    """The method at one batch size; `reset` forgets what it learned."""

    def __init__(
        self,
        batch_size: int,
        folder: Path = Path(__file__).parent,
        threads: int = 1,
        kinds: tuple[str, ...] = KINDS,
    ) -> None:
        self.about = json.loads((folder / "export.json").read_text(encoding="utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        files = {kind: folder / f"{kind}-{batch_size}.onnx" for kind in kinds}
        self.graphs = {
            kind: onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            for kind, file in files.items()
            if file.exists()
        }
        self.first = dict(np.load(folder / "state.npz"))
        self.reset()

    def reset(self) -> None:
        self.state = dict(self.first)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        settled = "settled" in self.graphs and self.state["settled_on"] >= self.about["settles_on"]
        return self.run("settled" if settled else "method", images)

    def run(self, kind: str, images: np.ndarray) -> np.ndarray:
        graph, given = self.graphs[kind], {"images": images, **self.state}
        scores, *after = graph.run(None, {one.name: given[one.name] for one in graph.get_inputs()})
        if all(np.isfinite(value).all() for value in after):  # what a broken image leaves would stay
            names = (one.name.removeprefix("after.") for one in graph.get_outputs()[1:])
            self.state.update(zip(names, after, strict=True))
        return np.asarray(scores)


def profile(batch_size: int) -> None:
    """Time standard inference and the method in turns, and write a clock."""
    model = Model(batch_size, kinds=("standard", *KINDS))
    shape = (batch_size, *model.about["image_shape"])
    images = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    found: dict[str, list[float]] = {kind: [] for kind in model.graphs}
    for _ in range(WARM_UP + ROUNDS):
        for kind, times in found.items():
            start = time.perf_counter()
            model.run(kind, images)
            times.append((time.perf_counter() - start) * 1000)
    ms = {kind: float(np.median(times[WARM_UP:])) for kind, times in found.items()}
    standard, usual = ms.get("standard", ms["method"]), ms.get("settled", ms["method"])
    while_settling = {"settling": [max(0.0, ms["method"] - usual)]} if "settled" in ms else {}
    own = {"predict_ms": [usual], "adapt_ms": {"*": [0.0], **while_settling}}
    methods = {"standard": {"predict_ms": [standard], "adapt_ms": {"*": [0.0]}}, model.about["method"]: own}
    file = Path(f"profile-{batch_size}.json")
    before = json.loads(file.read_text(encoding="utf-8"))["methods"] if file.exists() else {}
    machine = {"cpu": platform.processor() or platform.machine(), "model": model.about["model"]}
    content = {
        "schema_version": 1,
        "name": f"{platform.node()}-onnx-{batch_size}",
        "baseline_ms": 1.03 * standard,  # as Tempora defines lambda
        "machine": {**machine, "batch_size": batch_size},
        "methods": {**before, **methods},
    }
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print(f"wrote {file}: " + ", ".join(f"{kind} {value:.2f} ms" for kind, value in ms.items()))


if __name__ == "__main__":
    if sys.argv[1:] != ["--profile"]:
        sys.exit(__doc__)
    for size in json.loads((Path(__file__).parent / "export.json").read_text(encoding="utf-8"))[
        "batch_sizes"
    ]:
        profile(size)
