"""The scripts that time methods: every kind can be called, and one that does not fit is left out by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import methods as timing

sys.path.pop(0)  # benchmarks/ and tests/ have names in common

import tempora_tta.methods
from tempora_tta import models


@pytest.mark.parametrize("name", ["pace", "tent"])
def test_a_method_that_looks_at_the_clock_is_timed_as_any_other(name):
    model = models.load("fashion_resnet")
    x = torch.randn(4, *model.preprocessing.input_size)
    method = tempora_tta.methods.create(name, model)
    predict_s, adapt_s, action, _ = timing.measure(name, method, x)
    assert predict_s > 0
    assert adapt_s >= 0
    assert action in method.actions


def test_layers_share_what_can_be_computed_together():
    """Beyond a forward in training mode AlphaBN takes a few operators, not some for each layer."""
    model = models.load("fashion_resnet")
    x = torch.randn(4, *model.preprocessing.input_size)
    subjects = timing.subjects(model, ["alpha_bn"], x)
    count = {
        name: sum(timing.measure(name, subject, x, timing.operators_of)[:2])
        for name, subject in subjects.items()
    }
    assert count["alpha_bn"] < count[timing.STATISTICS] + 10
