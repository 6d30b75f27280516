"""A few hundred spoilt inputs in every test run; tests/fuzz/run.py makes as many as you like."""

from __future__ import annotations

import signal
import warnings
from random import Random

import cases
import command
import pytest
import run
import run_folders

from tempora_tta.errors import TemporaError, TemporaWarning

QUICK = {name: kind.quick for name, kind in run.TARGETS.items()}


def test_every_target_is_tried():
    assert all(QUICK.values())
    assert {name for name, _ in run.plan(len(QUICK))} == set(QUICK)


@pytest.mark.parametrize("target", QUICK)
def test_no_traceback_no_hang_no_wrong_result(target: str):
    failures = run.run(list(run.plan(QUICK[target], only=target)))
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.slow
@pytest.mark.parametrize("target", QUICK)
def test_more_of_the_same(target: str):
    planned = [case for case in run.plan(300, seed=10_000) if case[0] == target]
    failures = run.run(planned)
    assert not failures, "\n".join(map(str, failures))


# -- would a failure be noticed? -------------------------------------------------------------------------------


def _raises_a_key_error(rng: Random) -> None:
    raise KeyError("baseline")


def _shows_the_inside(rng: Random) -> None:
    raise TemporaError("KeyError: 'baseline' while reading the thing")


def _says_nothing(rng: Random) -> None:
    raise TemporaError("oops")


def _never_ends(rng: Random) -> None:
    signal.raise_signal(signal.SIGALRM)  # the limit's own timer goes off


@pytest.mark.parametrize("target", [_raises_a_key_error, _shows_the_inside, _says_nothing, _never_ends])
def test_what_must_not_happen_is_a_failure_that_says_how_to_see_it_again(target):
    failure = cases.run_case("configurations", target, 7)
    assert failure is not None
    assert str(failure).startswith("python tests/fuzz/run.py --target configurations --seed 7 --cases 1\n")


def test_what_may_happen_passes():
    def a_mistake(rng: Random) -> None:
        raise TemporaError("batch_size=0: must be at least 1; write batch_size: 64")

    assert cases.run_case("configurations", a_mistake, 0) is None
    assert cases.run_case("configurations", lambda rng: None, 0) is None


def test_a_case_is_its_target_and_its_seed():
    seen = []
    for _ in range(2):
        cases.run_case("configurations", lambda rng: seen.append(rng.random()), 3)
    assert seen[0] == seen[1]


def test_a_wrong_result_without_a_warning_would_be_a_failure(monkeypatch):
    """Without the checksums, an edited time would go unnoticed by Tempora, and the case would fail."""
    for room in ("check", "record", "results"):
        monkeypatch.setattr(f"tempora_tta.store.{room}.warn", lambda *_, **__: None)

    def edited(rng: Random) -> None:
        folder = run_folders.copy_of_pristine("run")
        manifest = folder / "run.json"
        manifest.write_text(manifest.read_text().replace('"clean"', '"clear"'))
        run_folders._read_from_python(folder)

    failure = cases.run_case("run_folders", edited, 0)
    assert failure is not None
    assert "without a warning" in failure.reason


def test_a_command_that_shows_the_inside_is_a_failure(monkeypatch):
    def broken(*_: object) -> None:
        raise TemporaError("ArrowInvalid: not a Parquet file, and so on")

    monkeypatch.setattr("tempora_tta.store.folder.RunFolder.record", broken)
    with pytest.raises(AssertionError, match="ArrowInvalid"):
        command.tempora("show", "nowhere")


def test_a_folder_that_lost_files_is_really_mended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = run_folders.copy_of_pristine("run")
    for path in (folder / "utilities.parquet", *folder.glob("traces/clean--tent*")):
        path.unlink()
    run_folders._go_on(folder)
    assert len(list(folder.glob("traces/*.parquet"))) == len(list(run_folders.pristine().glob("traces/*")))


def test_the_untouched_folder_gives_no_warning():
    import tempora_tta as tempora

    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        assert not tempora.open_run(run_folders.pristine()).traces.empty
