"""Tests run on one thread: their results, never their times, decide."""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Printed output is tested as in a plain terminal, in all terminals: typer and rich read these when imported.
for variable in (
    *("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("COLUMNS", "LINES"),
):
    os.environ.pop(variable, None)
if os.environ.get("TERM") in ("dumb", "unknown"):
    os.environ["TERM"] = "xterm-256color"

# Servers of tests are on this machine, and a proxy of the user's is not asked for them.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"
# Ray's sockets have long names already: under a long TMPDIR they would be too long for the system.
os.environ.setdefault("RAY_TMPDIR", "/tmp")

settings.register_profile("tempora", deadline=None, print_blob=True)
settings.load_profile("tempora")
