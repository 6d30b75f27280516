"""Tests run on one thread: their results, never their times, decide."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("tempora", deadline=None, print_blob=True)
settings.load_profile("tempora")
