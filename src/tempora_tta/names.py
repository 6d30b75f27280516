"""The one list of names: what a user may write for a method, a network, a dataset, a grid, a stream or a suite.

Registries, errors, `tempora list`, the shell's completion and the documentation read it. What a name means is
imported when it is asked for: the shell need not wait for torch. What is not here is the user's own, `module:name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

METHODS: Mapping[str, str] = {
    "standard": "tempora_tta.methods.standard:Standard",
    "adabn": "tempora_tta.methods.adabn:AdaBN",
    "lame": "tempora_tta.methods.lame:LAME",
    "neo": "tempora_tta.methods.neo:NEO",
    "tent": "tempora_tta.methods.tent:Tent",
    "eta": "tempora_tta.methods.eta:ETA",
    "shot_im": "tempora_tta.methods.shot_im:SHOTIM",
    "sar": "tempora_tta.methods.sar:SAR",
    "deyo": "tempora_tta.methods.deyo:DeYO",
    "cmf": "tempora_tta.methods.cmf:CMF",
    "spa": "tempora_tta.methods.spa:SPA",
    "zerosiam": "tempora_tta.methods.zerosiam:ZeroSIAM",
    "alpha_bn": "tempora_tta.methods.alpha_bn:AlphaBN",
    "t3a": "tempora_tta.methods.t3a:T3A",
    "foa": "tempora_tta.methods.foa:FOA",
    "eata": "tempora_tta.methods.eata:EATA",
    "rdumb": "tempora_tta.methods.rdumb:RDumb",
    "cotta": "tempora_tta.methods.cotta:CoTTA",
    "rotta": "tempora_tta.methods.rotta:RoTTA",
    "roid": "tempora_tta.methods.roid:ROID",
    "memo": "tempora_tta.methods.memo:MEMO",
    "settle": "tempora_tta.methods.settle:Settle",
    "pace": "tempora_tta.methods.pace:Pace",
}
"""In the order in which they are listed and run."""

MODELS: Mapping[str, str] = {
    "fashion_resnet": "tempora_tta.models.loading:bundled",
    "fashion_vit": "tempora_tta.models.loading:bundled",
    "fashion_vit_token": "tempora_tta.models.loading:bundled",
    "resnet50": "tempora_tta.models.loading:from_timm",
    "resnet18": "tempora_tta.models.loading:from_timm",
    "vit_b_16": "tempora_tta.models.loading:from_timm",
    "resnet50_gn": "tempora_tta.models.loading:from_timm",
    "cifar_resnet18": "tempora_tta.models.loading:cifar_resnet18",
}
BUNDLED = tuple(name for name, path in MODELS.items() if path.endswith(":bundled"))
"""Models whose weights ship with the package."""

DATASETS: Mapping[str, str] = {
    "cifar10": "tempora_tta.data.cifar:cifar10",
    "cifar100": "tempora_tta.data.cifar:cifar100",
    "cifar100_c": "tempora_tta.data.cifar:cifar100_c",
    "cifar10_1": "tempora_tta.data.cifar:cifar10_1",
    "cifar10_c": "tempora_tta.data.cifar:cifar10_c",
    "fashion": "tempora_tta.data.bundled:fashion",
    "fashion_train": "tempora_tta.data.bundled:fashion_train",
    "folder": "tempora_tta.data.folders:folder",
    "imagenet": "tempora_tta.data.imagenet:imagenet",
    "imagenet_a": "tempora_tta.data.imagenet:imagenet_a",
    "imagenet_c": "tempora_tta.data.imagenet:imagenet_c",
    "imagenet_r": "tempora_tta.data.imagenet:imagenet_r",
    "imagenet_v2": "tempora_tta.data.imagenet:imagenet_v2",
}

SETUPS = (
    *("rn50_inc", "vit_inc", "rn50_inr", "rn50_inv2", "vit_inr", "vit_inv2"),
    *("rn18_c10c_rpi5", "rn18_c10c_rtx4080"),
)
"""Setups of the paper: network, data and, where there are two, machine."""

GRIDS: Mapping[str, str] = {
    "relative": "tempora_tta.scenarios.grids:relative_grid",
    "paper-resnet50": "tempora_tta.scenarios.grids:paper_resnet50",
    "paper-vit": "tempora_tta.scenarios.grids:paper_vit",
    "paper-resnet18": "tempora_tta.scenarios.grids:paper_resnet18",
    **{f"published:{setup}": "tempora_tta.scenarios.grids:published_grid" for setup in SETUPS},
    "camera": "tempora_tta.scenarios.grids:camera",
    "server": "tempora_tta.scenarios.grids:server",
    "kiosk": "tempora_tta.scenarios.grids:kiosk",
    "drone": "tempora_tta.scenarios.grids:drone",
    "wearable": "tempora_tta.scenarios.grids:wearable",
    "alfarra": "tempora_tta.scenarios.grids:alfarra",
    "alfarra-single": "tempora_tta.scenarios.grids:alfarra_single",
    "none": "tempora_tta.scenarios.grids:no_grid",
}

STREAMS: Mapping[str, str] = {
    "single": "tempora_tta.data.sampler:single_stream",
    "continual": "tempora_tta.data.sampler:continual",
    "gradual": "tempora_tta.data.sampler:gradual",
    "recurring": "tempora_tta.data.sampler:recurring",
    "mixed": "tempora_tta.data.sampler:mixed",
}
"""Kinds of streams."""

SUITES: Mapping[str, str] = {
    name: f"tempora_tta.engine.suites:{name}.yaml"
    for name in (
        *(
            f"tempora-fashion-streams-v1/{network}-{kind}"
            for network in ("resnet", "vit")
            for kind in ("continual", "dirichlet", "gradual", "mixed", "recurring")
        ),
        "tempora-fashion-v1/resnet",
        "tempora-fashion-v1/vit",
    )
}
"""Parts of suites, each a file in a package."""

PROFILES: Mapping[str, str] = {
    name: f"tempora_tta.timing.library:{name}.json" for name in ("h200-resnet50", "h200-vit_b_16")
}
"""Latency profiles that ship with Tempora besides the paper's, `--clock library:NAME`, each a file in a package."""

CORRUPTION_GROUPS: Mapping[str, tuple[str, ...]] = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
"""The fifteen common corruptions, in the order of the paper's tables."""
EXTRA_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""Corruptions outside the fifteen: settings are tuned on these, never on what is evaluated."""
SHIFTS = (
    *("all", *CORRUPTION_GROUPS, "extra"),
    *(name for group in CORRUPTION_GROUPS.values() for name in group),
    *EXTRA_CORRUPTIONS,
)
"""Shifts and groups of them, of datasets with corruptions."""

TABLES = (
    *("winners", "offline", "discrete", "continuous", "amortised", "sweep", "overhead", "temporal-factors"),
    *("correlation", "deficit", "below-standard", "solvency", "buffering", "segments", "stream"),
    *("regret", "certainty", "seeds", "settings"),
)
"""Tables of a run; one that has protocols of its own has a table for each."""


def file_of(path: str) -> Path:
    """Return the place of a file `package:file` of one of the lists; its package is not imported."""
    package, _, file = path.partition(":")
    return Path(__file__).parent.joinpath(*package.split(".")[1:], file)


def found(path: str) -> Any:
    """Import what `module:name` of one of the lists names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
