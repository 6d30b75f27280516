"""The wheel: complete, without anything foreign, and at work where there is nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
LEFT_BEHIND = ("runs/mine/run.json", "site/index.html", "src/tempora_tta/.cache/old.json")
NOWHERE = "/proc/nobody"
"""A folder that is not there and that not even root can make."""
NO_NETWORK = """
import socket

def refuse(*where):
    raise OSError(f"the test has no network, and something asked for {where}")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""


def ran(*command: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the project with what use leaves behind in it, as `python -m build` does."""
    tree = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, tree / name)
    for name in LEFT_BEHIND:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("left behind")
    ran(sys.executable, "-c", "from setuptools import build_meta; build_meta.build_wheel('dist')", cwd=tree)
    (file,) = (tree / "dist").iterdir()
    return file


def test_the_wheel_is_the_package_all_of_it_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src" / "tempora_tta"
    there = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    installed = {name for name in names if "dist-info" not in name}
    assert installed == {path.relative_to(ROOT / "src").as_posix() for path in there}
    for name in ("licenses/LICENSE", "entry_points.txt"):
        assert any(each.endswith(name) for each in names)


def test_the_demo_runs_from_it_in_an_empty_folder_without_network_or_home(
    wheel: Path, tmp_path: Path
) -> None:
    """In a new environment that finds this one's dependencies, but not this one's tempora_tta."""
    python = tmp_path / "venv" / "bin" / "python"
    ran(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(ran(python, "-c", query, cwd=tmp_path).stdout.strip())
    # A path in a .pth file adds the dependencies but not what their own .pth files say, such as where an editable
    # install of ours is.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    ran(*pip, "--no-index", "--no-deps", wheel, cwd=tmp_path)
    # Not as sitecustomize: some systems have one of their own, which comes first.
    (site / "no_network.py").write_text(NO_NETWORK)
    (site / "no_network.pth").write_text("import no_network\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    caches = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME", "TORCH_HOME"), NOWHERE)
    done = ran(python.parent / "tempora", "demo", "--quick", cwd=empty, PYTHONPATH="", **caches)
    assert "images arrive at" in done.stdout
    assert "Traceback" not in done.stderr
    assert "AdaBN" in (empty / "tempora-demo" / "report.html").read_text(encoding="utf-8")
    assert [path.name for path in empty.iterdir()] == ["tempora-demo"]
