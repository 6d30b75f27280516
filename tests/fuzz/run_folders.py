"""Run folders: run.json changed, files lost, cut, doubled or exchanged, then read in every way there is.

All that is printed is what the untouched folder says, or comes with a warning or an error.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
from cases import Accepted
from command import Said, restrained, tempora
from mutations import spoil_bytes, spoil_data, spoil_file, spoil_text

from tempora_tta.errors import TemporaWarning

CONFIG: dict[str, Any] = {
    "data.shifts": ["clean", "contrast"],
    "data.workers": 0,
    "methods": ["standard", "adabn", "tent"],
    "grid": "none",
    "scenarios": [
        {"protocol": "discrete", "utilisation": 1.0},
        {"protocol": "continuous", "threshold_x": 2.5},
        {"protocol": "amortised", "budget_x": 0.25},
    ],
    "batches": 3,
    "batch_size": 8,
    "threads": 1,
    "warmup_batches": 0,
    "clock": "published:rn50_inc",
}
COMMANDS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (6, ("show", "run")),
    (2, ("show", "run", "--table", "winners")),
    (2, ("show", "run", "--table", "overhead", "--format", "csv")),
    (2, ("show", "run", "--table", "amortised", "--by-shift", "--format", "json")),
    (2, ("show", "run", "--table", "temporal-factors", "--format", "latex")),
    (4, ("show", "run", "--table", "sweep", "--format", "csv")),
    (4, ("recommend", "run", "--interval-ms", "50")),
    (2, ("recommend", "run", "--fps", "200", "--cameras", "2")),
    (2, ("recommend", "run", "--budget", "0.1")),
    (2, ("recommend", "run", "--interval-ms", "50", "--p90-ms", "60", "--availability", "0.5")),
    (2, ("recommend", "run", "--p90-ms", "60", "--format", "json")),
    (3, ("compare", "run", "other", "--format", "csv")),
    (2, ("compare", "run", "other")),
    (2, ("merge", "run", "other", "--out", "merged")),
    (1, ("compare", "run", "--published", "rn50_inc")),
    (1, ("report", "run")),
    (1, ("audit", "run", "--cells", "2")),
)


def case(rng: Random) -> None:
    folder = copy_of_pristine("run")
    for _ in range(rng.choice((1, 1, 2))):
        spoil_folder(rng, folder)
    read(rng, folder)


def spoil_folder(rng: Random, folder: Path) -> None:
    """Change one file of a run folder."""
    manifest, files = folder / "run.json", sorted(path for path in folder.rglob("*") if path.is_file())
    kind = rng.random()
    if kind < 0.5 and manifest.is_file():
        text = manifest.read_text(encoding="utf-8", errors="replace")
        try:
            spoilt: Any = json.dumps(spoil_data(rng, json.loads(text)), indent=2)
        except ValueError:
            spoilt = None
        if spoilt is None or kind < 0.15:
            spoilt = spoil_text(rng, text)
        manifest.write_bytes(spoilt.encode("utf-8", "surrogatepass"))
    elif kind < 0.9 and files:
        spoil_file(rng, rng.choice(files), files)
    elif kind < 0.93:
        shutil.rmtree(folder / "traces", ignore_errors=True)
    else:
        extra = folder / "traces" / rng.choice(("x.parquet", "x.parquet.1.part", "notes.txt", "sub"))
        extra.parent.mkdir(exist_ok=True)
        extra.write_bytes(spoil_bytes(rng, files[-1].read_bytes() if files else b""))


def read(rng: Random, folder: Path) -> None:
    """Read the folder from Python or with a command, and compare with what the untouched one gives."""
    kind = rng.random()
    if kind < 0.45:
        read_from_python(folder)
    elif kind < 0.97:
        command = rng.choices([command for _, command in COMMANDS], [share for share, _ in COMMANDS])[0]
        copy_of_pristine("other")
        said = tempora(*command)
        assert said.warned or said.out == _expected(command).out, (
            f"{' '.join(command)} says something else, without a warning\n{said.out}\n--- instead of ---\n"
            f"{_expected(command).out}"
        )
    else:
        _go_on(folder)


def read_from_python(folder: Path) -> None:
    import tempora_tta as tempora

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TemporaWarning)
        results = tempora.open_run(folder)
        found = {"utilities": results.utilities, "traces": results.traces}
        specs = [repr(scenario) for scenario in results.scenarios]
        about = dict(results.manifest)
    if any(issubclass(warning.category, TemporaWarning) for warning in caught):
        return
    for name, frame in found.items():
        pd.testing.assert_frame_equal(frame, _frames()[name], obj=f"{name}, without a warning")
    untouched = tempora.open_run(pristine())
    assert about == untouched.manifest, "another manifest, without a warning"
    assert specs == [repr(scenario) for scenario in untouched.scenarios]


def _go_on(folder: Path) -> None:
    """Let the same command mend the damage, or say why it cannot."""
    from tempora_tta.engine import Run
    from tempora_tta.engine.build import build_job
    from tempora_tta.engine.load_config import load_config
    from tempora_tta.store import RunFolder, open_run

    with restrained(), RunFolder.for_writing(folder) as opened:
        Run(build_job(load_config(None, flags=CONFIG)), opened).execute()
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        results = open_run(folder)
        pd.testing.assert_frame_equal(results.utilities, _frames()["utilities"])
        pd.testing.assert_frame_equal(results.traces, _frames()["traces"])


# -- the untouched folder --------------------------------------------------------------------------------------


@cache
def pristine() -> Path:
    """A real run, tiny, with a recorded clock; made once."""
    from tempora_tta.engine import Run
    from tempora_tta.engine.build import build_job
    from tempora_tta.engine.load_config import load_config
    from tempora_tta.store import RunFolder

    place = Path(tempfile.mkdtemp(prefix="tempora-pristine-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    try:
        with restrained(), RunFolder.for_writing(place / "run") as folder:
            Run(build_job(load_config(None, flags=CONFIG)), folder).execute()
    except Accepted:  # or every case would end here, and pass
        raise AssertionError("it takes long work to make the untouched folder") from None
    return place / "run"


def copy_of_pristine(name: str) -> Path:
    """A copy in the case's own folder."""
    return Path(shutil.copytree(pristine(), Path(name), dirs_exist_ok=True))


@cache
def _frames() -> dict[str, pd.DataFrame]:
    from tempora_tta.store import open_run

    results = open_run(pristine())
    return {"utilities": results.utilities, "traces": results.traces}


_said: dict[tuple[str, ...], Said] = {}


def _expected(command: tuple[str, ...]) -> Said:
    """Return what the command says about the untouched folder."""
    if command not in _said:
        for name in ("run", "other", "merged"):
            shutil.rmtree(name, ignore_errors=True)
        copy_of_pristine("run")
        copy_of_pristine("other")
        _said[command] = tempora(*command)
    return _said[command]
