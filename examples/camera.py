"""A camera whose frames do not wait: a video is read frame by frame, at its own pace, by a model that adapts.

    python examples/camera.py --fps 30

Makes a short video first (an animated PNG of Fashion-MNIST pictures in fog), so that nothing has to be downloaded.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

import tempora_tta as tempora
from tempora_tta import data, models


def write_video(path: Path, frames: int, model: models.Classifier) -> np.ndarray:
    """Pictures of one shift as the frames of a video; returns what they show."""
    shift = data.open("fashion", shifts="fog")["fog"]
    pixels = shift.images(range(frames), model.preprocessing)
    pictures = [Image.fromarray(frame[0].numpy()) for frame in pixels]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=33)
    return shift.labels[:frames]


def main(frames: int = 60, fps: float = 30.0) -> dict[str, object]:
    model = models.load("fashion_resnet")
    mean, std = (
        torch.tensor(values)[:, None, None] for values in (model.preprocessing.mean, model.preprocessing.std)
    )
    interval_s = 1 / fps
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fog.png"
        truth = write_video(path, frames, model)
        # Four frames make a batch; a frame that is answered later than 200 ms is worth nothing.
        with (
            tempora.deploy(
                model, "neo", device="cpu", batch_size=4, max_wait_ms=5 * 1000 * interval_s, deadline_ms=200.0
            ) as pipeline,
            Image.open(path) as video,
        ):
            begin = time.perf_counter()
            for index in range(frames):
                video.seek(index)
                pixels = torch.from_numpy(np.asarray(video.convert("L"), dtype=np.float32) / 255)[None]
                time.sleep(max(0.0, begin + index * interval_s - time.perf_counter()))
                future = pipeline.submit((pixels - mean) / std)
                pipeline.label(future, int(truth[index]))
            pipeline.wait()
            stats = pipeline.stats()
    for name in (
        "arrived",
        "answered",
        "dropped",
        "accuracy",
        "responsiveness",
        "utility",
        "response_p50_ms",
    ):
        print(f"{name:16} {stats[name]}")
    return stats


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--fps", type=float, default=30.0)
    main(**vars(parser.parse_args()))
