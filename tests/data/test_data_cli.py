"""`tempora data`, as typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from tempora_tta import data
from tempora_tta.cli.data import data_app
from tempora_tta.errors import TemporaError

from .trees import CIFAR_LIKE, save_picture


def _run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(data_app, [str(argument) for argument in arguments], env={"COLUMNS": "500"})
    if isinstance(result.exception, TemporaError):
        raise result.exception
    return result.exit_code, result.output


def test_verify_ends_with_status_1_where_something_is_wrong(class_tree: Callable[..., Path]) -> None:
    root = class_tree("mine", ["cat", "dog"])
    (root / "classes.txt").write_text("cat\ndog\n")
    code, output = _run("verify", root, "--name", "folder")
    assert (code, "2 images, 2 of 2 classes" in output) == (0, True)
    bad = root / "dog" / "0.jpg"
    bad.write_bytes(bad.read_bytes()[:300])
    code, output = _run("verify", root, "--name", "folder", "--decode")
    assert code == 1
    assert str(bad) in output
    assert "1 problem" in output


def test_fetch_uses_a_file_put_there_by_hand(tmp_path: Path) -> None:
    images = np.zeros((2000, 32, 32, 3), np.uint8)
    (tmp_path / "CIFAR-10.1").mkdir()
    np.save(tmp_path / "CIFAR-10.1" / "cifar10.1_v6_data.npy", images)
    code, output = _run("fetch", "cifar10_1", "--to", tmp_path, "--only", "cifar10.1_v6_data.npy")
    assert code == 0
    assert "no checksum is published" in output
    assert f"cifar10_1 is in {tmp_path}/CIFAR-10.1" in output


def test_what_corrupt_writes_can_be_opened(tmp_path: Path) -> None:
    src, dst = tmp_path / "clean", tmp_path / "corrupted"
    for name, shade in (("cat", 100), ("dog", 200)):
        save_picture(src / name / "a.png", shade, (40, 32))
    (src / "classes.txt").write_text("dog\ncat\n")
    options = ("--corruptions", "contrast,noise", "--severity", 3, "--constants", "cifar")
    code, output = _run("corrupt", src, dst, *options)
    assert code == 0
    assert "wrote 10 images" in output
    shifts = data.open("folder", dst, severity=3)
    assert list(shifts) == ["clean", "gaussian_noise", "shot_noise", "impulse_noise", "contrast"]
    assert shifts["clean"].source.precropped  # type: ignore[attr-defined]
    assert shifts["contrast"].labels.tolist() == [1, 0]
    assert shifts["contrast"].images([0], CIFAR_LIKE).unique().tolist() == [100]  # flat: nothing to flatten
    assert shifts["contrast"].source.precropped  # type: ignore[attr-defined]
    assert "wrote 0 images" in _run("corrupt", src, dst, *options)[1]
