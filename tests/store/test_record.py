"""run.json: what readers need is there, and what no run leaves is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tempora_tta.errors import TemporaError
from tempora_tta.store import RunFolder
from tempora_tta.store.record import RunRecord
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
"""Keys that every run.json has."""


def test_the_least_is_enough(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_manifest(RunRecord.model_validate(LEAST))
    found = RunFolder(tmp_path).manifest()
    assert found["baseline"]["baseline_ms"] == 10
    assert verdict_of(found).text == "no verdict yet"
    assert all(field.description for field in RunRecord.model_fields.values())


def refused(folder: Path, content: dict[str, Any], said: str) -> None:
    text = json.dumps({"schema_version": RunRecord.model_fields["schema_version"].default, **content})
    (folder / "run.json").write_text(text)
    with pytest.raises(TemporaError, match=f"run.json is damaged.*{said}"):
        RunFolder(folder).record()


@pytest.mark.parametrize("name", LEAST)
def test_what_is_missing_is_named(tmp_path: Path, name: str) -> None:
    refused(tmp_path, {key: value for key, value in LEAST.items() if key != name}, name)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": 3}, "model.* is 3"),
        ({"seeds": [True]}, "seeds.* is True"),
        ({"batch_size": 8.0}, "batch_size.* is 8.0"),
        ({"batch_size": 0}, "batch_size.* is 0"),
        ({"baseline": {}}, "baseline_ms"),
        ({"baseline": {"baseline_ms": float("inf")}}, "baseline_ms.* is inf"),
        ({"batches": {}}, "batches.* is {}"),
        ({"machine": {"command": "tempora"}}, "machine.command.* is 'tempora'"),
        ({"config": {"scenarios": [3]}}, "config.scenarios.* is 3"),
        ({"verdict": {"status": "FINE", "text": ""}}, "verdict.status.* is 'FINE'"),
        ({"cards": {"methods": {"tent": 3}}}, "cards.* is 3"),
        ({"of_another_program": 1}, "of_another_program.* is 1"),
    ],
    ids=str,
)
def test_what_no_run_leaves_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    refused(tmp_path, LEAST | changes, said)


def test_a_verdict_is_stored_and_read_as_it_was_said() -> None:
    for verdict in (
        Verdict(),
        Verdict("WARN", ("a", "b")),
        Verdict(said="VALID: recorded clock"),
        Verdict("WARN", ("busy",), said="WARN: busy"),
    ):
        assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    assert str(Verdict("WARN", ("a",))).startswith("WARN: a; close other programs")
