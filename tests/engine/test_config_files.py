"""Configuration files that are large, deep or not what they look like: said at once, in a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tempora_tta.engine.load_config import load_config
from tempora_tta.errors import TemporaError

LAUGHS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]\n" for i in range(12))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("baseline_ms: 1:30", r"run\.yaml: 1:30 \(line 1\)"),
        ("seeds: [1, 1:30:00]", r"1:30:00 \(line 1\)"),
        ("model: fashion_resnet\nprovision: 190:20:30.15", r"190:20:30\.15 \(line 2\)"),
        ("scenarios:\n- {protocol: discrete, interval_ms: -1:30.5}", r"-1:30\.5 \(line 2\)"),
        (f"baseline_ms: {':'.join(['1'] * 400)}.5", "minutes"),
        ("batches: 010", r"010 \(line 1\).*octal"),
        ("methods:\n- {name: tent, lr: 0_7}", "octal"),
        ("".join(f"{'k' * 60}{number}: 1\n" for number in range(9_000)), "8,990 more"),
        ("scenarios: [" + "{protocol: x}," * 2_000 + "]", "1,990 more"),
        (f"? {'x' * 100_000}\n: 1\n", "unknown key"),
        ("[" * 5_000, "deep"),
        ("- " * 20_000, "deep"),
        (LAUGHS, "aliases"),
        ("#" * (2 << 20), "1 MiB"),
    ],
    ids=range(14),
)
def test_what_is_no_configuration_is_said_in_a_short_message(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TemporaError, match=said) as raised:
        load_config(path)
    assert len(str(raised.value)) < 20_000


@pytest.mark.parametrize(
    ("override", "said"), [("baseline_ms=1:30", r"--set.*1:30 \(line 1\)"), ("model=&a [*a]", "aliases")]
)
def test_so_it_is_on_the_command_line(override: str, said: str) -> None:
    with pytest.raises(TemporaError, match=said):
        load_config(None, [override])


def test_in_quotes_it_is_a_name_and_ordinary_numbers_are_numbers() -> None:
    config = load_config(None, ["methods=[{name: tent, label: '1:30'}]", "baseline_ms=0.5", "batches=0x10"])
    assert config.methods[0].label == "1:30"  # type: ignore[union-attr]
    assert (config.baseline_ms, config.batches) == (0.5, 16)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no endless file on this system")
def test_a_file_without_an_end_is_not_read() -> None:
    with pytest.raises(TemporaError, match="1 MiB"):
        load_config(Path("/dev/zero"))
