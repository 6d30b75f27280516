"""Hundreds of spoilt inputs; tests/fuzz/run.py makes as many as you like."""

from __future__ import annotations

import signal
from random import Random

import cases
import pytest
import run
import run_folders

from tempora_tta.errors import TemporaError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", run.TARGETS)
def test_no_traceback_no_hang_no_wrong_result(target: str):
    failures = run.run([case for case in run.plan(300) if case[0] == target])
    assert not failures, "\n".join(map(str, failures))


# -- would a failure be noticed? -------------------------------------------------------------------------------


def _raises_a_key_error(rng: Random) -> None:
    raise KeyError("baseline")


def _shows_the_inside(rng: Random) -> None:
    raise TemporaError("KeyError: 'baseline' while reading the thing")


def _never_ends(rng: Random) -> None:
    signal.raise_signal(signal.SIGALRM)  # the limit's own timer goes off


@pytest.mark.parametrize("target", [_raises_a_key_error, _shows_the_inside, _never_ends])
def test_what_must_not_happen_is_a_failure_that_says_how_to_see_it_again(target):
    failure = cases.run_case("configurations", target, 7)
    assert "--target configurations --seed 7 --cases 1" in str(failure)


def test_a_wrong_result_without_a_warning_is_a_failure(monkeypatch):
    """Without the checksums an edited name would go unnoticed by Tempora."""
    for room in ("check", "record", "results"):
        monkeypatch.setattr(f"tempora_tta.store.{room}.warn", lambda *_, **__: None)

    def edited(rng: Random) -> None:
        manifest = run_folders.copy_of_pristine("run") / "run.json"
        manifest.write_text(manifest.read_text().replace('"clean"', '"clear"'))
        run_folders.read_from_python(manifest.parent)

    failure = cases.run_case("run_folders", edited, 0)
    assert failure is not None
    assert "without a warning" in failure.reason
