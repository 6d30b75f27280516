"""run.json: what readers need is there, what they do not know is left alone, and all of it is documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tempora_tta.errors import TemporaError
from tempora_tta.store import RunFolder, manifest
from tempora_tta.store.verdicts import Verdict, verdict_of

LEAST: dict[str, Any] = {
    "model": "net",
    "methods": ["standard"],
    "shifts": ["fog"],
    "seeds": [1],
    "batch_size": 8,
    "batches": {"fog": 4},
    "scenarios": [{"protocol": "offline"}],
    "clock": "measured",
    "baseline": {"baseline_ms": 10},
    "finished": False,
}
"""What every run.json has."""


def read_back(folder: Path, **changes: Any) -> manifest.Manifest:
    RunFolder(folder).write_manifest(LEAST | changes)
    return RunFolder(folder).manifest()


def test_the_least_is_enough_and_more_is_kept(tmp_path: Path) -> None:
    found = read_back(tmp_path, of_a_later_tempora={"a": 1})
    assert found["baseline"]["baseline_ms"] == 10
    assert found["of_a_later_tempora"] == {"a": 1}  # type: ignore[typeddict-item]
    assert verdict_of(found).text == "no verdict yet"


@pytest.mark.parametrize("name", LEAST)
def test_what_is_missing_is_named(tmp_path: Path, name: str) -> None:
    text = manifest.as_text({key: value for key, value in LEAST.items() if key != name})
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        TemporaError, match=f"run.json is damaged or not a manifest of ours .it lacks '{name}'.:"
    ):
        RunFolder(tmp_path).manifest()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": 3}, "'model' is 3"),
        ({"seeds": [True]}, r"'seeds' is \[True\]"),
        ({"batch_size": 8.0}, r"'batch_size' is 8\.0"),
        ({"baseline": {}}, "'baseline' is {}"),
        ({"baseline": {"baseline_ms": float("inf")}}, "batch_size, batches and baseline_ms are above 0"),
        ({"batches": {}}, "batch_size, batches and baseline_ms are above 0"),
        ({"machine": {"command": "tempora"}}, "'machine.command' is 'tempora'"),
        ({"config": {"scenarios": [3]}}, r"'config.scenarios' is \[3\]"),
        (
            {"verdict": {"status": "FINE", "text": ""}},
            "its verdict is 'FINE'; there are VALID, WARN, INVALID",
        ),
        ({"cards": {"methods": {"tent": 3}}}, "'cards' is "),
    ],
    ids=str,
)
def test_what_no_run_leaves_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(TemporaError, match=said):
        read_back(tmp_path, **changes)


def test_a_verdict_is_stored_and_read_as_it_was_said() -> None:
    for verdict in (
        Verdict(),
        Verdict("WARN", ("a", "b")),
        Verdict(said="VALID: recorded clock"),
        Verdict("WARN", ("busy",), said="WARN: busy"),
    ):
        assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    assert str(Verdict("WARN", ("a",))).startswith("WARN: a; close other programs")
