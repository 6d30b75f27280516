"""`load` finds networks by name and takes weights from files without unpickling anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tempora_tta.errors import TemporaError
from tempora_tta.models import load, names
from tempora_tta.models.loading import read_checkpoint


class Dangerous:
    """Content of a hostile checkpoint: code that runs when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("it_ran"),))


@pytest.mark.parametrize("name", ["fashion_resnet", "fashion_vit"])
def test_bundled_networks_load_by_name(name: str) -> None:
    model = load(name)
    assert (model.name, model.num_classes, model.training) == (name, 10, False)
    assert model(torch.zeros(1, *model.preprocessing.input_size)).shape == (1, 10)


def test_bundled_networks_can_be_random_but_have_their_own_classes() -> None:
    assert load("fashion_resnet", num_classes=10).weights_hash() == load("fashion_resnet").weights_hash()
    assert load("fashion_resnet", pretrained=False).weights_hash() != load("fashion_resnet").weights_hash()
    with pytest.raises(TemporaError, match="num_classes=5: fashion_vit has 10 classes"):
        load("fashion_vit", num_classes=5)


def test_the_paper_s_names_are_tags_of_timm() -> None:
    model = load("resnet18", pretrained=False)
    assert (model.name, model.preprocessing.crop_pct) == ("resnet18", 0.875)
    assert model.network.pretrained_cfg["tag"] == "tv_in1k"


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(TemporaError, match=r"unknown model 'resnet5O': did you mean 'resnet50'\?"):
        load("resnet5O")
    assert "vit_b_16" in names()


def test_weights_that_cannot_be_fetched_leave_two_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise ConnectionError

    monkeypatch.setattr("timm.create_model", offline)
    with pytest.raises(TemporaError, match="give checkpoint=PATH, or pretrained=False"):
        load("resnet50")


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_checkpoint_tells_the_number_of_classes(suffix: str, tmp_path: Path) -> None:
    source = load("cifar_resnet18", pretrained=False, num_classes=4)
    path = tmp_path / f"weights{suffix}"
    prefixed = {f"module.{key}": value for key, value in source.network.state_dict().items()}
    if suffix == ".pt":
        torch.save({"state_dict": prefixed, "epoch": 3}, path)
    else:
        save_file(prefixed, path)
    model = load("cifar_resnet18", checkpoint=path)
    assert model.num_classes == 4
    assert model.weights_hash() == source.weights_hash()


def test_cifar_resnet18_keeps_its_max_pool_and_has_a_small_stem() -> None:
    model = load("cifar_resnet18", pretrained=False)
    x = torch.zeros(1, 3, 32, 32)
    stem = model.network.conv1(x)
    assert stem.shape[-2:] == (32, 32)
    assert model.network.maxpool(stem).shape[-2:] == (16, 16)
    assert model.preprocessing.input_size == (3, 32, 32)
    with pytest.raises(TemporaError, match="has no weights of its own"):
        load("cifar_resnet18")


def test_pickled_objects_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Dangerous()}, "bad.pt")
    with pytest.raises(TemporaError, match="never unpickles"):
        load("cifar_resnet18", checkpoint="bad.pt")
    assert not Path("it_ran").exists()


def test_checkpoints_that_are_missing_or_do_not_fit_say_so(tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match="no such file"):
        load("resnet18", checkpoint=tmp_path / "none.pt")
    with pytest.raises(TemporaError, match="must end in"):
        load("resnet18", checkpoint=tmp_path / "weights.pkl")
    torch.save({"fc.weight": torch.zeros(3, 512)}, tmp_path / "part.pt")
    with pytest.raises(TemporaError, match="does not fit model 'cifar_resnet18'"):
        load("cifar_resnet18", checkpoint=tmp_path / "part.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(TemporaError, match="holds no state dict"):
        load("cifar_resnet18", checkpoint=tmp_path / "list.pt")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("w.pt", b""),
        ("w.pt", b"the weights are in the other folder\n"),
        ("w.pth", b"PK\x03\x04 and nothing else"),
        ("w.pt", b"\x80\x02]"),
        ("w.safetensors", b""),
        ("w.safetensors", b"damaged!"),
        ("w.safetensors", b"\x02\0\0\0\0\0\0\0[]"),
    ],
)
def test_damaged_checkpoints_say_so(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TemporaError, match=f"checkpoint '{name}': is empty, cut short or damaged"):
        load("cifar_resnet18", checkpoint=tmp_path / name)


def test_one_flipped_byte_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    """Torch checks no sum: in the middle of a tensor it would be another weight, without a word."""
    path = tmp_path / "w.pt"
    weights = {"fc.weight": torch.arange(40.0).reshape(4, 10), "fc.bias": torch.zeros(4)}
    torch.save(weights, path)
    sound = path.read_bytes()
    noticed = 0
    for position in range(0, len(sound), 7):
        path.write_bytes(sound[:position] + bytes([sound[position] ^ 16]) + sound[position + 1 :])
        try:
            found = read_checkpoint(path)
        except TemporaError:
            noticed += 1
        else:  # padding between the records
            assert all(torch.equal(found[name], value) for name, value in weights.items())
    assert noticed > 20


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({0: torch.zeros(2), 1: torch.zeros(2)}, "holds no state dict"),
        ({"state_dict": {1: torch.zeros(2)}}, "holds no state dict"),
        ({"fc.weight": torch.zeros(3, device="meta")}, "without values"),
        ({"fc.weight": torch.zeros(3, 4).to_sparse()}, "is sparse"),
        ({"fc.weight": torch.zeros(1).expand(10**9, 512)}, "larger than the file"),
        ({"fc.weight": torch.zeros(())}, r"fc\.weight has shape \(\): expected one row per class"),
        ({"fc.weight": torch.zeros(0, 512)}, r"fc\.weight has shape \(0, 512\)"),
        ({f"layer{i}.weight": torch.zeros(1) for i in range(2000)}, "does not fit model"),
    ],
)
def test_odd_state_dicts_are_named(content: object, match: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(TemporaError, match=match) as caught:
        load("cifar_resnet18", checkpoint=tmp_path / "w.pt")
    assert len(str(caught.value)) < 2500


def test_weights_of_the_oldest_format_are_read(tmp_path: Path) -> None:
    source = load("cifar_resnet18", pretrained=False)
    torch.save(source.network.state_dict(), tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    assert load("cifar_resnet18", checkpoint=tmp_path / "w.pt").weights_hash() == source.weights_hash()
