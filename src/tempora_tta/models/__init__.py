"""Classifiers with `features()` and `head()`: timm networks by name, your own module, the bundled ones.

model = tempora_tta.models.load("resnet50")
model = tempora_tta.models.wrap(my_network, features="backbone", head="fc", mean=(...), std=(...))
"""

from tempora_tta.models.classifier import Classifier, Preprocessing
from tempora_tta.models.loading import load, names
from tempora_tta.models.wrapping import check_input, wrap

__all__ = ["Classifier", "Preprocessing", "check_input", "load", "names", "wrap"]
