"""Pure packages never import torch, and the command answers before anything heavy is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

PURE = ["errors", "scenarios", "published", "store", "analysis", "report"]


def modules_loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


@pytest.mark.parametrize("package", PURE)
def test_pure_packages_do_not_import_torch(package):
    assert "torch" not in modules_loaded_by(f"import tempora.{package}")


def test_the_command_line_starts_light():
    loaded = modules_loaded_by("import tempora.cli")
    assert not loaded & {"torch", "pandas", "pyarrow", "numpy", "pydantic", "scipy", "matplotlib"}
