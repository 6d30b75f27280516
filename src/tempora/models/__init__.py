"""Classifiers with `features()` and `head()`: timm networks by name, your own module, the bundled ones.

model = tempora.models.load("resnet50")
model = tempora.models.wrap(my_network, features="backbone", head="fc", mean=(...), std=(...))
"""

from tempora.models.classifier import Classifier
from tempora.models.loading import load, names
from tempora.models.preprocessing import Preprocessing
from tempora.models.trial import try_on
from tempora.models.wrapping import wrap

__all__ = ["Classifier", "Preprocessing", "load", "names", "try_on", "wrap"]
