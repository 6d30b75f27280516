"""How long corrupting takes: milliseconds per image, beside the outside implementation, in one run.

    python benchmarks/corruptions.py [--side 224] [--images 32] [--device cuda]

On a CPU these are CPU times. Needs imagecorruptions-imaug (the `test` extra). The bundled 10,000 images of 28 px:
--side 28 --constants fashion --images 10000 (the outside package refuses images below 32 px: an empty column).
"""

from __future__ import annotations

from statistics import geometric_mean

import imagecorruptions
import numpy as np
import torch
import typer

from common import Device, JsonFile, console, timed, write
from tempora_tta.data.corruptions import corrupt, names

OUTSIDE_IMAGES = 4


def ours_ms(batch: torch.Tensor, name: str, constants: str, device: str) -> float:
    """Per image."""
    corrupt(batch[:30], name, constants=constants)  # makes the textures of frost
    return 1000 * timed(lambda: corrupt(batch, name, constants=constants), device)[1] / len(batch)


def outside_ms(pictures: np.ndarray, name: str) -> float:
    """Per image."""
    imagecorruptions.corrupt(pictures[0], corruption_name=name)  # compiles its loop
    few = pictures[:OUTSIDE_IMAGES]
    _, seconds = timed(lambda: [imagecorruptions.corrupt(p, severity=5, corruption_name=name) for p in few])
    return 1000 * seconds / len(few)


def main(
    side: int = 224,
    images: int = 32,
    constants: str = "imagenet",
    device: Device = "cpu",
    json_file: JsonFile = None,
) -> None:
    """Print and write milliseconds per image."""
    channels = 1 if constants == "fashion" else 3
    generator = torch.Generator().manual_seed(0)
    batch = torch.randint(0, 256, (images, channels, side, side), generator=generator).byte()
    pictures = batch.permute(0, 2, 3, 1).numpy()
    outside_can = side >= 32 and channels == 3

    rows: dict[str, dict[str, float]] = {}
    console.print(f"{'':20}{'ours':>9}{'outside':>9}  ms per image, severity 5")
    for name in names():
        if name == "saturate" and channels == 1:
            continue
        row = rows[name] = {"ours_ms": ours_ms(batch.to(device), name, constants, device)}
        if outside_can:
            row["outside_ms"] = outside_ms(pictures, name)
        console.print(f"{name:20}" + "".join(f"{ms:9.2f}" for ms in row.values()))
    figures: dict[str, object] = {"side": side, "images": images, "rows": rows}
    if outside_can:
        faster = geometric_mean(row["outside_ms"] / row["ours_ms"] for row in rows.values())
        console.print(f"{faster:.2f} times the outside's speed, geometric mean")
        figures["times_faster"] = faster
    write(figures, json_file)


if __name__ == "__main__":
    typer.run(main)
