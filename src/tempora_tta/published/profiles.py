"""Latency profiles and accuracies that the paper prints, for recorded clocks and for sanity checks."""

from __future__ import annotations

from tempora_tta.errors import TemporaError
from tempora_tta.published.methods import STANDARD
from tempora_tta.published.reading import table
from tempora_tta.published.setups import setup, setups

PROFILE_NOTE = "published latencies are means over 11,715 batches: they hide how much LAME, DeYO and CMF vary"
PROFILED = ("rn50_inc", "vit_inc")
"""The setups that print both the time before the emission (e) and after it (l)."""

_CLEAN_ACCURACY = {"resnet50": 0.761}
_MODEL_ALIASES = {"vit_base_patch16_224": "vit_b16", "vit_b_16": "vit_b16"}


def profile(setup_name: str) -> dict[str, float | tuple[float, float]]:
    """Mean (predict_ms, adapt_ms) per method and the setup's `baseline_ms`, ready to be a recorded clock.

    >>> profile("rn50_inc")["baseline_ms"], profile("rn50_inc")["tent"]
    (39.9, (41.1, 56.1))
    """
    found = setup(setup_name)
    if setup_name not in PROFILED:
        raise TemporaError(
            f"published setup {setup_name!r} prints no split of its latency; "
            f"a profile needs one: use {' or '.join(PROFILED)}"
        )
    rows = table("overhead", setup_name)
    times: dict[str, float | tuple[float, float]] = {"baseline_ms": found.baseline_ms}
    for method, predict_ms, adapt_ms in zip(
        rows["method"], rows["predict_ms"], rows["adapt_ms"], strict=True
    ):
        times[method] = (float(predict_ms), float(adapt_ms))
    return times


def known_accuracy(model: str, dataset: str) -> float | None:
    """Published accuracy of standard inference, or None where the paper gives none.

    `dataset` is "imagenet" (clean), "imagenet_c" (mean over 15 corruptions at severity 5), "imagenet_r" or
    "imagenet_v2". Model names may be timm's, with or without the tag of the weights.

    >>> known_accuracy("resnet50", "ImageNet-C")
    0.1816
    """
    model = model.split(".")[0].lower()
    model = _MODEL_ALIASES.get(model, model)
    dataset = dataset.lower().replace("-", "_")
    if dataset == "imagenet":
        return _CLEAN_ACCURACY.get(model)
    for name in setups():
        found = setup(name)
        # CIFAR-10 has no standard weights, so the published accuracy says nothing about a user's ResNet-18.
        if (found.model, found.dataset) == (model, dataset) and dataset.startswith("imagenet"):
            rows = table("offline", name)
            whole = rows["shift"].isin(["all", dataset]) & (rows["method"] == STANDARD)
            return float(rows.loc[whole, "accuracy"].iloc[0])
    return None
