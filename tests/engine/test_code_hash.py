"""Editing any file of one's own that a method runs makes it another method; other people's files do not count."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest
from latencies import CLOCK

import tempora_tta as tempora
from tempora_tta.engine.code_hash import code_hash
from tempora_tta.methods import Method, Tent

MINE = """
from tempora_tta.methods import Method
from {package}.base import Base
import {package}.tools as tools

class Mine(Base):
    name = "mine"
    def predict(self, x):
        import {package}.late
        return tools.scaled(self.model(x))
"""
FILES = {
    "__init__.py": "",
    "mine.py": MINE,
    "base.py": "from tempora_tta.methods import Method\nfrom .deeper import FACTOR\nclass Base(Method):\n    pass\n",
    "deeper.py": "FACTOR = 1\n",
    "tools.py": "def scaled(x):\n    return x\n",
    "late.py": "NOTHING = 0\n",
    "unrelated.py": "NOTHING = 0\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """A package of the user's own, under a name of its own in every test."""
    name = f"own_{abs(hash(request.node.name)) % 10**9}"
    folder = tmp_path / name
    folder.mkdir()
    for file, text in FILES.items():
        (folder / file).write_text(text.replace("{package}", name))
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    forget(name)


def forget(name: str) -> None:
    """As a new process would begin."""
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        del sys.modules[module]
    importlib.invalidate_caches()


def hashed(package: Path) -> str | None:
    forget(package.name)
    return code_hash(importlib.import_module(f"{package.name}.mine").Mine).hash


@pytest.mark.parametrize(
    ("file", "more"),
    [(file, b"ANOTHER = 1") for file in FILES if file != "unrelated.py"]
    + [("late.py", more) for more in (b"def (", b"\0", b"# \xe9", b"import os.nothing, ...", b"(" * 10_000)],
)
def test_an_edited_file_behind_a_method_makes_it_another_readable_or_not(package, file, more):
    before = hashed(package)
    (package / file).write_bytes((package / file).read_bytes() + more)
    assert before != hashed(package) == hashed(package)


def test_a_file_that_it_does_not_import_changes_nothing(package):
    before = hashed(package)
    (package / "unrelated.py").write_text("NOTHING = 1\n")
    assert hashed(package) == before


def test_what_python_runs_counts_and_not_what_stands_in_the_file_by_now(package):
    before = hashed(package)
    kind = sys.modules[f"{package.name}.mine"].Mine
    (package / "tools.py").write_text("def scaled(x):\n    return -x\n")
    assert code_hash(kind).hash == before
    importlib.reload(sys.modules[f"{package.name}.tools"])
    assert code_hash(kind).hash != before


def test_methods_of_ours_have_no_source_of_their_own():
    assert code_hash(Tent, Method).hash is None


def test_code_that_cannot_be_followed_is_said(package):
    (package / "tools.py").write_text(
        "import importlib\ndef scaled(x):\n    return importlib.import_module('own' + 'x').f(x.eval())\n"
    )
    forget(package.name)
    found = code_hash(importlib.import_module(f"{package.name}.mine").Mine)
    assert found.not_followed == ("tools.py, line 3",)


def test_packages_without_init_are_followed(package):
    (package / "__init__.py").unlink()
    before = hashed(package)
    (package / "late.py").write_text("NOTHING = 1\n")
    assert hashed(package) != before


def test_a_module_that_was_loaded_from_elsewhere_counts(package, tmp_path_factory):
    """As of an editable install, whose folder is not where Python looks."""
    file = tmp_path_factory.mktemp("elsewhere") / "helper.py"
    (package / "tools.py").write_text(f"def scaled(x):\n    import {package.name}_helper\n    return x\n")
    found = []
    for text in ("NOTHING = 0\n", "NOTHING = 1\n"):
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(f"{package.name}_helper", file)
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        found.append(hashed(package))
        del sys.modules[spec.name]
    assert found[0] != found[1]


def test_what_was_typed_is_never_taken_for_the_same(package, monkeypatch):
    space = {"Method": Method, "__name__": "prompt"}
    exec("def helper(x):\n  return x\n", space)
    exec("class Mine(Method):\n def predict(self, x):\n  return helper(self.model(x))", space)
    before = code_hash(space["Mine"]).hash
    exec("def helper(x):\n  return -x\n", space)
    assert code_hash(space["Mine"]).hash != before
    kind = importlib.import_module(f"{package.name}.mine").Mine
    before = code_hash(kind).hash
    kind.predict = space["Mine"].predict
    monkeypatch.setitem(sys.modules, "prompt", types.ModuleType("prompt"))
    assert code_hash(kind).hash != before


@pytest.mark.slow
def test_a_script_is_the_same_in_every_process_and_another_one_when_a_file_of_it_was_edited(package):
    (package / "script.py").write_text(
        "import tools\n"
        "from tempora_tta.engine.code_hash import code_hash\n"
        "class Mine:\n    pass\n"
        "print(code_hash(Mine).hash)\n"
    )

    def run() -> str:
        command = [sys.executable, str(package / "script.py")]
        return subprocess.run(command, cwd=package.parent, check=True, capture_output=True, text=True).stdout

    first = run()
    assert run() == first
    (package / "tools.py").write_text("NOTHING = 1\n")
    assert run() != first


def test_the_code_of_a_network_counts_too(package, network, batches, tmp_path):
    (package / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, inner):\n        super().__init__()\n        self.inner = inner\n"
        "    def forward(self, x):\n        return self.inner(x)\n"
    )
    for edit in ("", "    # another forward, with the same weights\n"):
        path = package / "net.py"
        path.write_text(path.read_text() + edit)
        forget(package.name)
        net = importlib.import_module(f"{package.name}.net").Net(network("fashion_resnet").network)
        tempora.evaluate(
            net, batches[:2], "standard", scenarios=[], clock=CLOCK, out=tmp_path / "run", device="cpu"
        )
    assert len(list(tmp_path.glob("run/traces/*.parquet"))) == 2
