"""Exported methods against PyTorch's eager: agreement, time, memory, and seconds to the first answer.

python benchmarks/exported.py --model fashion_resnet      a network that ships with Tempora
python benchmarks/exported.py --model resnet50            timm's with random weights, images of 224 pixels

Times are medians of rounds in which eager and ONNX Runtime take turns, in one thread. The first answer is that of a
new process, at the first size, memory its peak (Linux).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from tempora_tta import methods, models
from tempora_tta.engine.load_config import load_configs
from tempora_tta.serving import export as exporting
from tempora_tta.serving.run_exported import Model

METHODS = {"standard": {}, "neo": {}, "settle": {"alarm": 0}, "adabn": {}}
EAGER = "import torch; from tempora_tta import models; x = torch.zeros({shape}); {load}.eval()(x)"
LOAD = {"resnet50": "import timm; timm.create_model('resnet50')"}
EXPORTED = (
    "import sys; sys.path.insert(0, {folder!r}); from run import Model; import numpy as np; "
    "Model({shape}[0])(np.zeros({shape}, dtype=np.float32)); assert 'torch' not in sys.modules"
)


def resnet50() -> models.Classifier:
    import timm

    torch.manual_seed(0)
    network = timm.create_model("resnet50", num_classes=10)
    imagenet = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    return models.wrap(network.eval(), **imagenet, input_size=(3, 224, 224), name="resnet50 (random)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="fashion_resnet")
    parser.add_argument("--sizes", default="1,8,64")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    large = given.model == "resnet50"
    named = f"{Path(__file__).resolve()}:resnet50" if large else given.model
    network = resnet50() if large else models.load(given.model)
    if large:
        exporting.IMAGES, exporting.FEWEST_BATCHES = 32, 2
        METHODS["settle"]["images"] = 16
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        for name, settings in METHODS.items():
            folder = Path(place) / name
            flags = {"model": named, "methods": [{"name": name, **settings}], "data.shifts": "contrast"}
            sizes = {"batch_size": given.sizes, "grid": "none", "device": "cpu", "threads": 1}
            try:
                found = exporting.export(load_configs(None, flags=flags | sizes), folder)
            except exporting.TemporaError as error:
                print(f"{name}: {error}")
                continue
            same, images = sum(one.same_class for one in found), sum(one.images for one in found)
            print(f"{name}: {same} of {images} classes the same, {max(one.difference for one in found):.0e}")
            for size in map(int, given.sizes.split(",")):
                compare(name, settings, network, folder, size, given.rounds)
        shape = (int(given.sizes.split(",")[0]), *network.preprocessing.image_shape)
        load = LOAD.get(given.model, f"models.load({given.model!r})")
        first_answer("PyTorch", EAGER.format(shape=shape, load=load))
        first_answer("exported", EXPORTED.format(folder=str(Path(place) / "standard"), shape=shape))


def compare(
    name: str, settings: dict, network: models.Classifier, folder: Path, size: int, rounds: int
) -> None:
    """Print what both take, a settled Settle included."""
    eager, exported = methods.create(name, network, **settings), Model(size, folder)
    images = torch.randn(size, *network.preprocessing.image_shape, generator=torch.Generator().manual_seed(0))
    array, taken = images.numpy(), {"eager": [], "exported": []}
    if name == "settle":  # by far most of its batches
        eager.settled_on = exported.state["settled_on"] = np.float32(settings.get("images", 256))
    for _ in range(rounds + 2):
        for label, call in (("eager", lambda: eager.predict(images)), ("exported", lambda: exported(array))):
            start = time.perf_counter()
            call()
            taken[label].append((time.perf_counter() - start) * 1000)
    ms = {label: float(np.median(times[2:])) for label, times in taken.items()}
    ratio = ms["exported"] / ms["eager"]
    print(
        f"  {size:3}: eager {ms['eager']:8.2f} ms, exported {ms['exported']:8.2f} ms, {ratio:.2f}", flush=True
    )


def first_answer(label: str, code: str) -> None:
    """Print the seconds and the peak memory of a new process that answers once."""
    measured = f"{code}; print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    start = time.perf_counter()
    ran = subprocess.run([sys.executable, "-c", measured], check=True, capture_output=True, text=True)
    took = time.perf_counter() - start
    print(f"{label}: first answer after {took:.1f} s, {int(ran.stdout) / 1024:.0f} MB")


if __name__ == "__main__":
    main()
