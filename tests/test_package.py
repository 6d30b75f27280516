"""The wheel and the sdist: complete, without anything foreign, and at work where there is nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tempora_tta import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "src", "tests")
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
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build(kind: str, tree: Path, out: Path) -> Path:
    """Build as `python -m build --no-isolation` does: ask the backend that pyproject.toml names."""
    out.mkdir()
    code = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
    ran(sys.executable, "-c", code, cwd=tree)
    (file,) = out.iterdir()
    return file


def files_in(wheel: Path) -> dict[str, int]:
    """Names and checksums of what the wheel installs as the package."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            entry.filename: entry.CRC for entry in archive.infolist() if "dist-info" not in entry.filename
        }


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with what use leaves behind in it."""
    tree = tmp_path_factory.mktemp("project") / "tempora"
    tree.mkdir()
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        else:
            shutil.copy(source, tree / name)
    for left in (
        *("runs/mine/run.json", "tempora-demo/report.html", "data/cifar.txt", "site/index.html"),
        *("src/tempora_tta/__pycache__/app.cpython-311.pyc", "src/tempora_tta/.cache/old.json"),
    ):
        (tree / left).parent.mkdir(parents=True, exist_ok=True)
        (tree / left).write_text("left behind")
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tree, tmp_path_factory.mktemp("wheel") / "dist")


def test_the_wheel_is_the_package_all_of_it_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src" / "tempora_tta"
    there = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert set(files_in(wheel)) == {path.relative_to(ROOT / "src").as_posix() for path in there}
    with zipfile.ZipFile(wheel) as archive:
        about = [name for name in archive.namelist() if "dist-info" in name]
    assert any(name.endswith("licenses/LICENSE") for name in about)
    assert any(name.endswith("entry_points.txt") for name in about)


def test_the_sdist_builds_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    sdist = build("sdist", tree, tmp_path / "dist")
    with tarfile.open(sdist) as archive:
        # Pythons of Debian 12 have no filters yet; the archive is our own.
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    foreign = {"tests", "runs", "tempora-demo", "data", "site"} & {path.name for path in unpacked.iterdir()}
    assert not foreign
    assert files_in(build("wheel", unpacked, tmp_path / "again")) == files_in(wheel)


def fresh_environment(home: Path) -> Path:
    """A new virtual environment that finds this one's dependencies, but not this one's tempora_tta."""
    ran(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(ran(home / "bin" / "python", "-c", query, cwd=home.parent).stdout.strip())
    # A path in a .pth file adds the dependencies but not what their own .pth files say, such as where an editable
    # install of ours is.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return site


def pip(site: Path, *words: str | Path) -> None:
    python = site.parents[2] / "bin" / "python"
    ran(sys.executable, "-m", "pip", "--python", python, *words, "--quiet", cwd=site)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh environment: the wheel, this one's dependencies, and no network."""
    site = fresh_environment(tmp_path_factory.mktemp("fresh") / "venv")
    pip(site, "install", "--no-index", "--no-deps", wheel)
    # Not as sitecustomize: some systems have one of their own, which comes first.
    (site / "no_network.py").write_text(NO_NETWORK)
    (site / "no_network.pth").write_text("import no_network\n")
    return site.parents[2] / "bin"


@pytest.mark.parametrize("ours_first", [True, False])
def test_it_stands_next_to_the_tempora_of_date_arithmetic(
    wheel: Path, tmp_path: Path, ours_first: bool
) -> None:
    """portend brings the package `tempora` along. This test needs a package index."""
    site = fresh_environment(tmp_path / "venv")
    python, command = (site.parents[2] / "bin" / name for name in ("python", "tempora"))
    installs = [("--no-deps", wheel), ("--ignore-installed", "portend")]
    for words in installs if ours_first else reversed(installs):
        pip(site, "install", *words)
    ran(python, "-c", "import tempora, tempora_tta, portend; tempora.parse_timedelta('1 day')", cwd=tmp_path)
    assert __version__ in ran(command, "--version", cwd=tmp_path).stdout
    if ours_first:
        pip(site, "uninstall", "--yes", "tempora")
        assert __version__ in ran(command, "--version", cwd=tmp_path).stdout
    else:
        pip(site, "uninstall", "--yes", "tempora-tta")
        assert not command.exists()
        ran(python, "-c", "import tempora; tempora.parse_timedelta('1 day')", cwd=tmp_path)


def without_network(*command: str | Path) -> list[str | Path]:
    """In a network namespace of its own where that is allowed; `no_network` refuses connections anyway."""
    apart = ["unshare", "--net"]
    allowed = (
        shutil.which("unshare") and subprocess.run([*apart, "true"], capture_output=True).returncode == 0
    )
    return [*(apart if allowed else []), *command]


def test_there_really_is_no_network(installed: Path, tmp_path: Path) -> None:
    code = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9', timeout=1)"
    done = subprocess.run([installed / "python", "-c", code], capture_output=True, text=True)
    assert "the test has no network" in done.stderr


def test_what_is_imported_is_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import tempora_tta as tempora; print(tempora.__file__)"
    found = ran(installed / "python", "-c", code, cwd=tmp_path).stdout
    assert found.startswith(str(installed.parent))


def test_the_demo_runs_from_it_in_an_empty_folder_without_network_or_home(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    caches = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME", "TORCH_HOME"), NOWHERE)
    done = ran(
        *without_network(installed / "tempora", "demo", "--quick"),
        cwd=tmp_path / "empty",
        PYTHONPATH="",
        **caches,
    )
    assert "images arrive at" in done.stdout
    assert "AdaBN" in done.stdout
    page = (tmp_path / "empty" / "tempora-demo" / "report.html").read_text(encoding="utf-8")
    assert "AdaBN" in page
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["tempora-demo"]
    assert "Traceback" not in done.stderr
