"""Making methods: names, settings, presets, recipes, refusals, and what a method may touch."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tempora_tta.methods
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method, create, get, names, register
from tempora_tta.models import Classifier, load, wrap

PAPER = (
    "standard",
    "adabn",
    "lame",
    "neo",
    "tent",
    "eta",
    "shot_im",
    "sar",
    "deyo",
    "cmf",
    "spa",
    "zerosiam",
)


def test_the_paper_s_methods_are_there_in_its_order() -> None:
    assert names()[: len(PAPER)] == PAPER
    assert [get(name).label for name in ("shot_im", "adabn", "deyo")] == ["SHOT-IM", "AdaBN", "DeYO"]
    free = [name for name in PAPER if get(name).family == "gradient-free"]
    assert free == ["standard", "adabn", "lame", "neo"]
    assert [name for name in PAPER if get(name).history_free] == ["standard", "adabn", "lame"]
    assert [name for name in PAPER if get(name).stateless] == ["standard", "lame"]


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("tnet", {}, r"unknown method 'tnet': did you mean 'tent'\? Allowed: adabn, "),
    (
        "tent",
        {"learning_rate": 1},
        "unknown setting of tent 'learning_rate': allowed: every, frozen_stats, lr",
    ),
    ("eta", {"margins": 1}, r"unknown setting of eta 'margins': did you mean 'margin'\?"),
    ("tent", {"lr": -1}, r"tent: lr=-1: must be greater than 0"),
    ("tent", {"lr": "1e-3"}, "must be a number .YAML reads 1e-3 as text"),
    ("tent", {"lr": float("nan")}, "must be a finite number"),
    ("tent", {"momentum": 1.5}, "must be at most 1"),
    ("tent", {"every": 0}, "tent: every=0: must be at least 1"),
    ("tent", {"every": 1.5}, "must be a valid integer"),
    ("tent", {"reforward": 1}, "must be a valid boolean"),
    ("tent", {"source_stats": "kept"}, r"source_stats='kept': did you mean 'keep'\? Allowed: keep, reset"),
    ("zerosiam", {"passes": 3}, "allowed: 1, 2"),
    ("tent", {"preset": "papers"}, r"unknown preset 'papers': did you mean 'paper'\?"),
    ("neo", {"every": 2}, "has no effect"),
    ("nowhere:Mine", {}, "there is no module 'nowhere'"),
    ("json:Decoder", {}, r"unknown class of json 'Decoder': did you mean 'JSONDecoder'\?"),
    ("json:JSONDecoder", {}, "is not a subclass of tempora_tta.methods.Method"),
]


@pytest.mark.parametrize(("name", "settings", "message"), MISTAKES)
def test_mistakes_are_answered(name: str, settings: dict[str, Any], message: str, vit: Classifier) -> None:
    with pytest.raises(TemporaError, match=message):
        create(name, vit, **settings)


@pytest.mark.parametrize("name", PAPER)
def test_settings_are_resolved_and_can_be_stored(name: str, resnet: Classifier, vit: Classifier) -> None:
    method = create(name, resnet if name == "adabn" else vit)
    stored = json.loads(json.dumps(dataclasses.asdict(method.settings)))
    assert all(value is not None for key, value in stored.items() if key != "stop_after")
    again = create(name, method.model, **stored)
    assert again.settings == method.settings


def test_defaults_follow_the_family_and_the_number_of_classes(resnet: Classifier, vit: Classifier) -> None:
    assert (create("tent", resnet).settings.lr, create("tent", vit).settings.lr) == (2.5e-4, 1e-3)
    assert (create("cmf", resnet).settings.noise, create("cmf", vit).settings.noise) == (2.5e-4, 5e-3)
    assert create("spa", vit).settings.projector_lr == 5e-2
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    limits = {
        classes: create("eta", wrap(nn.Sequential(*network, nn.Linear(4, classes)))).settings.max_similarity
        for classes in (2, 10, 31, 32, 100, 200, 1000, 21000)
    }
    assert limits == {2: 0.4, 10: 0.4, 31: 0.4, 32: 0.1, 100: 0.1, 200: 0.1, 1000: 0.05, 21000: 0.05}


def test_what_is_given_wins_over_the_preset_that_over_the_recipe(resnet: Classifier) -> None:
    model = copy.deepcopy(resnet)
    model.recipe = {"sar": {"lr": 0.5, "track": "stream", "rho": 0.1, "every": 3}}
    assert create("sar", model).settings.lr == 0.5
    assert create("sar", model, recipe=False).settings.lr == 2.5e-4
    settings = create("sar", model, preset="paper", rho=0.2).settings
    assert (settings.lr, settings.track, settings.rho, settings.every) == (0.5, "every_forward", 0.2, 3)


@pytest.mark.parametrize("name", PAPER)
def test_the_preset_changes_what_the_tables_did_differently(
    name: str, resnet: Classifier, vit: Classifier
) -> None:
    model = resnet if name == "adabn" else vit
    ours, paper = (dataclasses.asdict(create(name, model, preset=p).settings) for p in (None, "paper"))
    changed = {key: paper[key] for key in ours if ours[key] != paper[key]}
    expected: dict[str, object] = {}
    if name in ("sar", "deyo", "cmf"):
        expected = {"track": "every_forward"}
    elif name == "shot_im":
        expected = {"params": "published"}
    elif name == "spa":
        expected = {"passes": 3, "mask": "published"}
    elif name == "zerosiam":
        expected = {"passes": 2}
    assert changed == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "published", "features"),
    [
        ("vit_b_16", 29_129_472, 85_798_656),
        ("resnet50", 23_508_032, 23_508_032),
        ("cifar_resnet18", 11_168_832, 11_168_832),
    ],
)
def test_shot_im_trains_what_the_published_code_did(network: str, published: int, features: int) -> None:
    """Counted on the published code: on the ViT its rule leaves out all MLPs."""
    model = load(network, pretrained=False)
    for params, expected in {"published": published, "features": features}.items():
        trained = create("shot_im", model, params=params).trainable.values()
        assert sum(parameter.numel() for parameter in trained) == expected


def test_methods_that_do_not_fit_say_why(resnet: Classifier, vit: Classifier) -> None:
    with pytest.raises(TemporaError, match=r"adabn does not fit tiny_vit: .* no BatchNorm layer"):
        create("adabn", vit)
    for name in ("spa", "zerosiam"):
        with pytest.raises(TemporaError, match=f"{name} does not fit tiny_resnet: .*LayerNorm or GroupNorm"):
            create(name, resnet)
    bare = wrap(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), name="bare")
    with pytest.raises(TemporaError, match="tent does not fit bare: it has no normalisation layer"):
        create("tent", bare)


def test_spa_needs_to_know_the_range_of_an_image(vit: Classifier) -> None:
    with pytest.raises(TemporaError, match="preprocessing is unknown"):
        create("spa", wrap(vit.network))


def test_a_method_works_on_its_own_copy_of_any_module(resnet: Classifier, batches: list[Tensor]) -> None:
    network = copy.deepcopy(resnet.network).train().requires_grad_(True)
    before = copy.deepcopy(network.state_dict())
    method = create("tent", network)
    method.predict(batches[0])
    assert method.adapt() == "step"
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert network.training


@pytest.mark.parametrize("name", ["adabn", "tent", "shot_im"])
def test_batch_statistics_leave_dropout_and_stochastic_depth_off(
    name: str, resnet: Classifier, batches: list[Tensor]
) -> None:
    method = create(name, resnet)
    method.predict(batches[0])
    training = {type(module).__name__ for module in method.model.modules() if module.training}
    assert training == {"BatchNorm2d"}


def test_only_what_is_updated_gets_a_gradient(resnet: Classifier, vit: Classifier) -> None:
    lower = create("sar", resnet)
    assert not any("layer4" in name for name in lower.updated_parameters)
    assert any("layer3" in name for name in lower.updated_parameters)
    wanted = {name for name, parameter in lower.model.named_parameters() if parameter.requires_grad}
    assert wanted == set(lower.updated_parameters)
    shot = create("shot_im", vit)
    everything = {name for name, _ in vit.named_parameters()}
    assert everything - set(shot.updated_parameters) == {"network.head.weight", "network.head.bias"}
    assert create("zerosiam", vit).updated_parameters[-1] == "projector"


def test_your_own_method_by_module_and_class(
    vit: Classifier, batches: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_methods.py").write_text(
        "import torch\n"
        "from tempora_tta.methods import Method\n"
        "class Shy(Method):\n"
        "    name = 'shy'\n"
        "    @torch.no_grad()\n"
        "    def predict(self, x):\n"
        "        return -self.model(x)\n"
    )
    monkeypatch.chdir(tmp_path)
    method = create("my_methods:Shy", vit, stop_after=1)
    assert torch.equal(method.predict(batches[0]), -vit(batches[0]))
    assert (method.name, method.adapt(), method.frozen) == ("shy", "none", True)


def test_names_are_taken_once() -> None:
    class Unnamed(Method):
        pass

    class Impostor(Method):
        name = "tent"

    with pytest.raises(TemporaError, match="has no name"):
        register(Unnamed)
    with pytest.raises(TemporaError, match="already a method 'tent'"):
        register(Impostor)
    assert get("tent") is tempora_tta.methods.Tent


def test_what_a_class_declares_is_checked() -> None:
    wrong: dict[str, Any] = {"state": "average", "actions": ("step",), "Settings": dict, "stateless": "yes"}
    for attribute, value in wrong.items():
        kind = type("Mine", (Method,), {"name": "mine", attribute: value})
        with pytest.raises(TemporaError, match=f"'Mine': {attribute} = .* must be "):
            get(kind)


def test_another_package_offers_a_method_by_an_entry_point(
    vit: Classifier, batches: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text(
        "from tempora_tta.methods import Method\n"
        "class Same(Method):\n"
        "    name = 'same'\n"
        "    def predict(self, x):\n"
        "        return self.model(x).detach()\n"
    )
    (tmp_path / "theirs-1.dist-info").mkdir()
    (tmp_path / "theirs-1.dist-info" / "METADATA").write_text("Name: theirs\nVersion: 1\n")
    (tmp_path / "theirs-1.dist-info" / "entry_points.txt").write_text(
        "[tempora_tta.methods]\nsame = theirs:Same\ntent = theirs:Same\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "same" in names()
    assert torch.equal(create("same", vit).predict(batches[0]), vit(batches[0]).detach())
    assert get("tent") is tempora_tta.methods.Tent
