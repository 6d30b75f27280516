"""Standard inference and ways to adapt it, one file per method, behind one small contract.

method = tempora.methods.create("tent", model)
scores = method.predict(x)
method.adapt()
"""

from tempora.methods.contract import Method, Moment
from tempora.methods.registry import create, get, names, register
from tempora.methods.settings import Settings, setting
from tempora.methods.wrappers import Every, Reforward, StopAfter

# isort: off
from tempora.methods.standard import Standard
from tempora.methods.adabn import AdaBN
from tempora.methods.lame import LAME
from tempora.methods.neo import NEO

__all__ = [
    "LAME",
    "NEO",
    "AdaBN",
    "Every",
    "Method",
    "Moment",
    "Reforward",
    "Settings",
    "Standard",
    "StopAfter",
    "create",
    "get",
    "names",
    "register",
    "setting",
]
