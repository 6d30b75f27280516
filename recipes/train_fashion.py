"""Train the bundled Fashion-MNIST networks: about twelve minutes on two CPU cores.

    python recipes/train_fashion.py DATA [--networks fashion_resnet,fashion_vit,fashion_vit_token]

DATA holds the four gzipped IDX files of Fashion-MNIST (Debian: dataset-fashion-mnist). The last 10,000
training images are held out: recipes/tune_fashion.py needs images that the networks have not seen and
nobody evaluates on. The augmentation is a shift and a mirror image only; anything stronger would teach the
networks the corruptions. `fashion_vit_token` goes on from `fashion_vit`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tempora_tta.data.bundled import parse_idx
from tempora_tta.models.bundled import MEAN, NAMES, STD, architecture

HELD_OUT = 10_000
BATCH_SIZE = 128
EPOCHS = {"fashion_resnet": 12, "fashion_vit": 16, "fashion_vit_token": 4}
OPTIMISERS = {
    "fashion_resnet": lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.9, nesterov=True, weight_decay=5e-4),
    "fashion_vit": lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.05),
    "fashion_vit_token": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.05),
}
WEIGHTS = Path(__file__).parents[1] / "src/tempora_tta/models/weights"


def begin(name: str) -> nn.Module:
    """An untrained network; the one with a class token begins as `fashion_vit`, whose patches it shares."""
    network = architecture(name)
    if name == "fashion_vit_token":
        known = safetensors.torch.load_file(
            WEIGHTS / "fashion_vit.safetensors", torch.get_default_device().type
        )
        known["pos_embed"] = torch.cat([network.state_dict()["pos_embed"][:, :1], known["pos_embed"]], dim=1)
        network.load_state_dict(known, strict=False)  # all but the token itself
    return network


def images_and_labels(data: Path, split: str) -> tuple[Tensor, Tensor]:
    """One split ("train" or "t10k"): images (n, 1, 28, 28) uint8 and labels int64."""
    images = parse_idx((data / f"{split}-images-idx3-ubyte.gz").read_bytes())
    labels = parse_idx((data / f"{split}-labels-idx1-ubyte.gz").read_bytes())
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels).long()


def normalise(images: Tensor) -> Tensor:
    return (images.float() / 255 - MEAN[0]) / STD[0]


def augment(images: Tensor, generator: torch.Generator, largest_shift: int = 2) -> Tensor:
    """Move each image by up to two pixels (black comes in) and mirror half of them."""
    n, _, height, width = images.shape
    padded = F.pad(images, [largest_shift] * 4)
    shift = torch.randint(0, 2 * largest_shift + 1, (2, n, 1), generator=generator)
    rows = shift[0] + torch.arange(height)
    columns = shift[1] + torch.arange(width)
    mirrored = torch.rand(n, 1, generator=generator) < 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    return padded[torch.arange(n)[:, None, None], 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)


def train(network: nn.Module, name: str, images: Tensor, labels: Tensor, seed: int) -> None:
    """One cycle of the learning rate over all epochs, in place."""
    generator = torch.Generator(images.device).manual_seed(seed)
    optimiser = OPTIMISERS[name](network.parameters())
    epochs, steps = EPOCHS[name], len(images) // BATCH_SIZE
    peak = optimiser.param_groups[0]["lr"]
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, peak, total_steps=epochs * steps, pct_start=0.2, cycle_momentum=False
    )
    for epoch in range(epochs):
        network.train()
        began, total = time.perf_counter(), 0.0
        order = torch.randperm(len(images), generator=generator)[: steps * BATCH_SIZE]
        for chosen in order.split(BATCH_SIZE):
            loss = F.cross_entropy(network(normalise(augment(images[chosen], generator))), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += loss.item()
        seconds = time.perf_counter() - began
        print(f"{name} epoch {epoch + 1}/{epochs}: loss {total / steps:.4f}, {seconds:.0f} s", flush=True)


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    network.eval()
    predicted = torch.cat([network(normalise(batch)).argmax(1) for batch in images.split(500)])
    return (predicted == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--networks", default=",".join(NAMES), help="which to train (default: all)")
    parser.add_argument("--seed", type=int, default=2025)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    torch.set_default_device(arguments.device)
    images, labels = (part.to(arguments.device) for part in images_and_labels(arguments.data, "train"))
    test = [part.to(arguments.device) for part in images_and_labels(arguments.data, "t10k")]
    for name in arguments.networks.split(","):
        torch.manual_seed(arguments.seed)
        network = begin(name)
        train(network, name, images[:-HELD_OUT], labels[:-HELD_OUT], arguments.seed)
        print(f"{name}: held-out accuracy {accuracy(network, images[-HELD_OUT:], labels[-HELD_OUT:]):.4f}")
        print(f"{name}: test accuracy {accuracy(network, *test):.4f}")
        safetensors.torch.save_file(network.state_dict(), WEIGHTS / f"{name}.safetensors")


if __name__ == "__main__":
    main()
