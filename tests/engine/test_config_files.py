"""Configuration files that are large, deep or not what they look like: said at once, in a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tempora_tta.engine._config_files import MOST_BYTES
from tempora_tta.engine.load_config import load_config
from tempora_tta.errors import TemporaError


def load(tmp_path: Path, text: str, *overrides: str) -> object:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "baseline_ms: 1:30",
            r"run\.yaml: 1:30 \(line 1\) is minutes and seconds to YAML: write the number out",
        ),
        ("seeds: [1, 1:30:00]", r"1:30:00 \(line 1\) is minutes and seconds"),
        (
            "model: fashion_resnet\nprovision: 190:20:30.15",
            r"190:20:30\.15 \(line 2\) is minutes and seconds",
        ),
        ("scenarios:\n- {protocol: discrete, interval_ms: -1:30.5}", r"-1:30\.5 \(line 2\) is minutes"),
        (f"baseline_ms: {':'.join(['1'] * 400)}.5", "is minutes and seconds"),
        ("batches: 010", r"010 \(line 1\) is an octal number to YAML"),
        ("methods:\n- {name: tent, lr: 0_7}", "is an octal number"),
    ],
)
def test_a_number_that_yaml_reads_as_another_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TemporaError, match=message):
        load(tmp_path, text)


def test_so_it_is_on_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match=r"--set baseline_ms: 1:30 \(line 1\) is minutes and seconds"):
        load(tmp_path, "", "baseline_ms=1:30")


def test_in_quotes_it_is_a_name_and_ordinary_numbers_are_numbers(tmp_path: Path) -> None:
    config = load_config(None, ["methods=[{name: tent, label: '1:30'}]", "baseline_ms=0.5", "batches=0x10"])
    assert config.methods[0].label == "1:30"  # type: ignore[union-attr]
    assert (config.baseline_ms, config.batches) == (0.5, 16)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)  # a hole: it takes no room on the disk
    with pytest.raises(
        TemporaError, match=r"run\.yaml has more than 1 MiB: a configuration is a page of text"
    ):
        load_config(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no endless file on this system")
def test_nor_is_one_without_an_end() -> None:
    with pytest.raises(TemporaError, match="has more than 1 MiB"):
        load_config(Path("/dev/zero"))


def test_many_problems_are_a_short_message(tmp_path: Path) -> None:
    text = "".join(f"{'k' * 60}{number}: 1\n" for number in range(9_000))
    assert len(text) < MOST_BYTES
    with pytest.raises(TemporaError, match="and 8,990 more problems") as raised:
        load(tmp_path, text)
    assert len(str(raised.value)) < 20_000


def test_many_wrong_scenarios_and_long_names_too(tmp_path: Path) -> None:
    with pytest.raises(TemporaError, match="and 1,990 more problems") as raised:
        load(tmp_path, "scenarios: [" + "{protocol: x}," * 2_000 + "]")
    assert len(str(raised.value)) < 20_000
    with pytest.raises(TemporaError, match="unknown key") as raised:
        load(tmp_path, f"? {'x' * 100_000}\n: 1\n")
    assert len(str(raised.value)) < 5_000


@pytest.mark.parametrize("text", ["[" * 50_000, "a: " * 1, "- " * 20_000, "{a: " * 5_000 + "1" + "}" * 5_000])
def test_a_nest_is_a_short_message(tmp_path: Path, text: str) -> None:
    with pytest.raises(TemporaError) as raised:
        load(tmp_path, text)
    assert len(str(raised.value)) < 2_000


def test_aliases_of_aliases_are_not_built(tmp_path: Path) -> None:
    laughs = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]\n" for i in range(12))
    with pytest.raises(TemporaError, match="aliases"):
        load(tmp_path, laughs)
    with pytest.raises(TemporaError, match="aliases"):
        load_config(None, ["model=&a [*a]"])
