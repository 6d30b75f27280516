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
from tempora.methods.tent import Tent
from tempora.methods.eta import ETA
from tempora.methods.shot_im import SHOTIM
from tempora.methods.sar import SAR
from tempora.methods.deyo import DeYO
from tempora.methods.cmf import CMF
from tempora.methods.spa import SPA
from tempora.methods.zerosiam import ZeroSIAM

__all__ = [
    "CMF",
    "ETA",
    "LAME",
    "NEO",
    "SAR",
    "SHOTIM",
    "SPA",
    "AdaBN",
    "DeYO",
    "Every",
    "Method",
    "Moment",
    "Reforward",
    "Settings",
    "Standard",
    "StopAfter",
    "Tent",
    "ZeroSIAM",
    "create",
    "get",
    "names",
    "register",
    "setting",
]
