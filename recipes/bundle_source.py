"""Cut the source samples that ship with the package out of Fashion-MNIST's training images.

    python recipes/bundle_source.py DATA

DATA holds the four gzipped IDX files of Fashion-MNIST (Debian: dataset-fashion-mnist). The first 2,000 training
images, which the bundled networks were trained on, become src/tempora_tta/data/fashion/train2k-*.gz: clean samples of
the source domain that are part of no stream, neither the benchmark's (test images) nor the tuning's (the last
10,000 training images).
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import numpy as np

from tempora_tta.data.bundled import SOURCE_SAMPLES, parse_idx

FOLDER = Path(__file__).parents[1] / "src/tempora_tta/data/fashion"


def idx(array: np.ndarray) -> bytes:
    """An array of unsigned bytes as a gzipped IDX file; the same bytes every time."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.tobytes(), compresslevel=9, mtime=0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    for part in ("images-idx3", "labels-idx1"):
        whole = parse_idx((data / f"train-{part}-ubyte.gz").read_bytes())
        (FOLDER / f"train2k-{part}-ubyte.gz").write_bytes(idx(whole[:SOURCE_SAMPLES]))


if __name__ == "__main__":
    main()
