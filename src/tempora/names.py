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
    "standard": "tempora.methods.standard:Standard",
    "adabn": "tempora.methods.adabn:AdaBN",
    "lame": "tempora.methods.lame:LAME",
    "neo": "tempora.methods.neo:NEO",
    "tent": "tempora.methods.tent:Tent",
    "eta": "tempora.methods.eta:ETA",
    "shot_im": "tempora.methods.shot_im:SHOTIM",
    "sar": "tempora.methods.sar:SAR",
    "deyo": "tempora.methods.deyo:DeYO",
    "cmf": "tempora.methods.cmf:CMF",
    "spa": "tempora.methods.spa:SPA",
    "zerosiam": "tempora.methods.zerosiam:ZeroSIAM",
    "alpha_bn": "tempora.methods.alpha_bn:AlphaBN",
    "t3a": "tempora.methods.t3a:T3A",
    "foa": "tempora.methods.foa:FOA",
    "eata": "tempora.methods.eata:EATA",
    "rdumb": "tempora.methods.rdumb:RDumb",
    "cotta": "tempora.methods.cotta:CoTTA",
    "rotta": "tempora.methods.rotta:RoTTA",
    "roid": "tempora.methods.roid:ROID",
    "memo": "tempora.methods.memo:MEMO",
    "settle": "tempora.methods.settle:Settle",
    "pace": "tempora.methods.pace:Pace",
}
"""In the order in which they are listed and run."""

MODELS: Mapping[str, str] = {
    "fashion_resnet": "tempora.models.loading:bundled",
    "fashion_vit": "tempora.models.loading:bundled",
    "fashion_vit_token": "tempora.models.loading:bundled",
    "resnet50": "tempora.models.loading:from_timm",
    "resnet18": "tempora.models.loading:from_timm",
    "vit_b_16": "tempora.models.loading:from_timm",
    "resnet50_gn": "tempora.models.loading:from_timm",
    "cifar_resnet18": "tempora.models.loading:cifar_resnet18",
}
BUNDLED = tuple(name for name, path in MODELS.items() if path.endswith(":bundled"))
"""Those whose weights ship with the package."""

DATASETS: Mapping[str, str] = {
    "cifar10": "tempora.data.loaders.cifar:cifar10",
    "cifar100": "tempora.data.loaders.cifar:cifar100",
    "cifar100_c": "tempora.data.loaders.cifar_c:cifar100_c",
    "cifar10_1": "tempora.data.loaders.cifar10_1:cifar10_1",
    "cifar10_c": "tempora.data.loaders.cifar_c:cifar10_c",
    "fashion": "tempora.data.loaders.fashion:fashion",
    "fashion_train": "tempora.data.loaders.fashion:fashion_train",
    "folder": "tempora.data.loaders.folder:folder",
    "imagenet": "tempora.data.loaders.imagenet:imagenet",
    "imagenet_a": "tempora.data.loaders.imagenet_a:imagenet_a",
    "imagenet_c": "tempora.data.loaders.imagenet_c:imagenet_c",
    "imagenet_r": "tempora.data.loaders.imagenet_r:imagenet_r",
    "imagenet_v2": "tempora.data.loaders.imagenet_v2:imagenet_v2",
}

GRIDS: Mapping[str, str] = {
    "relative": "tempora.scenarios.grids:relative_grid",
    "paper-resnet50": "tempora.scenarios.grids:paper_resnet50",
    "paper-vit": "tempora.scenarios.grids:paper_vit",
    "paper-resnet18": "tempora.scenarios.grids:paper_resnet18",
    "camera": "tempora.scenarios.grids:camera",
    "server": "tempora.scenarios.grids:server",
    "kiosk": "tempora.scenarios.grids:kiosk",
    "drone": "tempora.scenarios.grids:drone",
    "wearable": "tempora.scenarios.grids:wearable",
    "alfarra": "tempora.scenarios.grids:alfarra",
    "none": "tempora.scenarios.grids:no_grid",
}

STREAMS: Mapping[str, str] = {
    "single": "tempora.data.sampler:single_stream",
    "continual": "tempora.data.sampler:continual",
    "gradual": "tempora.data.sampler:gradual",
    "recurring": "tempora.data.sampler:recurring",
    "mixed": "tempora.data.sampler:mixed",
}
"""Kinds of streams."""

SUITES: Mapping[str, str] = {
    name: f"tempora.engine.suites:{name}.yaml"
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
    name: f"tempora.measure.library:{name}.json" for name in ("h200-resnet50", "h200-vit_b_16")
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


def file_of(path: str) -> Path:
    """Where the file `package:file` of one of the lists lies; its package is not imported."""
    package, _, file = path.partition(":")
    return Path(__file__).parent.joinpath(*package.split(".")[1:], file)


def found(path: str) -> Any:
    """What `module:name` of one of the lists names, imported now."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
