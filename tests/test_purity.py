"""Pure packages never import torch, and the command answers before anything heavy is loaded."""

from __future__ import annotations

import subprocess
import sys

PURE = ["errors", "config", "scenarios", "published", "store", "analysis", "report"]


def modules_loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_pure_packages_do_not_import_torch():
    """One process for all of them, in the order of the layers: the first that imports it is named."""
    imports = "\n".join(
        f"import tempora_tta.{name}\nif 'torch' in sys.modules: sys.exit('torch, by {name}')" for name in PURE
    )
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys\n{imports}"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_the_command_line_starts_light():
    loaded = modules_loaded_by("import tempora_tta.cli")
    assert not loaded & {"torch", "pandas", "pyarrow", "numpy", "pydantic", "scipy", "matplotlib"}
