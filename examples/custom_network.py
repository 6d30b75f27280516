"""Your own network, from an `nn.Module` to a table of utilities: `python custom_network.py`.

A small network is trained on the first 5,000 bundled images and evaluated on the other 5,000, corrupted. Replace
`Net` and `trained` by what you have; the rest stays.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import tempora_tta as tempora
from tempora_tta import data, models
from tempora_tta.scenarios import Amortised, Continuous, Discrete
from tempora_tta.store import Results

TRAIN = range(5_000)
SERVED = range(5_000, 5_000 + 20 * 64)


class Net(nn.Module):
    """Two convolutions with BatchNorm, then a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(2), nn.Flatten()),
        )
        self.fc = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.backbone(x))


def batches(model: models.Classifier, shift: data.Shift, indices: range) -> list[tuple[Tensor, Tensor]]:
    """Images as the model wants them, with labels: what `tempora.evaluate` takes."""
    preprocessing = model.preprocessing
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (preprocessing.mean, preprocessing.std))
    x = (shift.images(indices, preprocessing) / 255 - mean) / std
    return list(zip(x.split(64), torch.from_numpy(shift.labels[indices]).split(64), strict=True))


def trained(model: models.Classifier, stream: list[tuple[Tensor, Tensor]], epochs: int = 2) -> None:
    """Train in place; a network of your own comes with weights."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(epochs):
        for x, y in stream:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    model.eval()


def main(clock: str | dict[str, object] = "measured") -> Results:
    torch.manual_seed(0)
    # features and head say where the classifier begins; mean and std how images are normalised.
    model = models.wrap(
        Net(),
        features="backbone",
        head="fc",
        mean=(0.286,),
        std=(0.353,),
        input_size=(1, 28, 28),
        crop_pct=1.0,
    )
    shifts = data.open("fashion", shifts="clean, gaussian_noise, contrast")
    trained(model, batches(model, shifts.pop("clean"), TRAIN))

    results = tempora.evaluate(
        model,
        {name: batches(model, shift, SERVED) for name, shift in shifts.items()},
        methods=["standard", "adabn", "tent", ("tent", {"lr": 0.002, "label": "tent@fast"})],
        scenarios=[Discrete(utilisation=1.0), Continuous(threshold_x=2.5), Amortised(budget_x=0.25)],
        clock=clock,
    )
    table = results.utilities.pivot_table("utility", ["protocol", "label", "method"], "shift")
    print(table.round(3).to_string())
    print(results.manifest["verdict"]["text"])
    return results


if __name__ == "__main__":
    main()
