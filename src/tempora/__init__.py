"""Tempora: which test-time adaptation method is worth its time in your deployment?"""

from tempora._version import __version__
from tempora.errors import TemporaError

__all__ = ["TemporaError", "__version__"]
