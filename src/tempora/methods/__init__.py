"""Standard inference and ways to adapt it, one file per method, behind one small contract.

method = tempora.methods.create("tent", model)
scores = method.predict(x)
method.adapt()
"""

from tempora.methods.contract import Method, Moment
from tempora.methods.modules import from_module
from tempora.methods.registry import create, get, names, recipe_for, register
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
from tempora.methods.alpha_bn import AlphaBN
from tempora.methods.t3a import T3A
from tempora.methods.foa import FOA
from tempora.methods.eata import EATA
from tempora.methods.rdumb import RDumb
from tempora.methods.cotta import CoTTA
from tempora.methods.rotta import RoTTA
from tempora.methods.roid import ROID
from tempora.methods.memo import MEMO

__all__ = [
    "CMF",
    "EATA",
    "ETA",
    "FOA",
    "LAME",
    "MEMO",
    "NEO",
    "ROID",
    "SAR",
    "SHOTIM",
    "SPA",
    "T3A",
    "AdaBN",
    "AlphaBN",
    "CoTTA",
    "DeYO",
    "Every",
    "Method",
    "Moment",
    "RDumb",
    "Reforward",
    "RoTTA",
    "Settings",
    "Standard",
    "StopAfter",
    "Tent",
    "ZeroSIAM",
    "create",
    "from_module",
    "get",
    "names",
    "recipe_for",
    "register",
    "setting",
]
