"""How long corrupting takes: milliseconds per image, beside the outside implementation, in one run.

    python benchmarks/corruptions.py [--side 224] [--images 32] [--device cuda]

Needs imagecorruptions-imaug (the `test` extra). The bundled 10,000 images of 28 px: --side 28 --constants fashion
--images 10000 (the outside package refuses images below 32 px, so that column stays empty).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import imagecorruptions
import torch

from tempora.data.corruptions import corrupt, names


def ms_per_image(work: Callable[[], object], images: int) -> float:
    began = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - began) / images


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--constants", default="imagenet")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    channels = 1 if arguments.constants == "fashion" else 3
    shape = (arguments.images, channels, arguments.side, arguments.side)
    batch = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).byte()
    pictures = batch.permute(0, 2, 3, 1).numpy()
    on_device = batch.to(arguments.device)

    print(f"{'':20}{'ours':>9}{'outside':>9}  ms per image, severity 5")
    for name in names():
        if name == "saturate" and channels == 1:
            continue
        corrupt(on_device[:30], name, constants=arguments.constants)  # makes the textures of frost
        ours = ms_per_image(
            lambda name=name: corrupt(on_device, name, constants=arguments.constants), len(batch)
        )
        theirs = "–"
        if arguments.side >= 32 and channels == 3:
            imagecorruptions.corrupt(pictures[0], corruption_name=name)  # compiles its loop
            few = pictures[:4]
            took = ms_per_image(
                lambda name=name, few=few: [
                    imagecorruptions.corrupt(p, severity=5, corruption_name=name) for p in few
                ],
                len(few),
            )
            theirs = f"{took:.2f}"
        print(f"{name:20}{ours:9.2f}{theirs:>9}", flush=True)


if __name__ == "__main__":
    main()
