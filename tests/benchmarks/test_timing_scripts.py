"""The scripts that time methods: every kind can be called, and one that does not fit is left out by name."""

from __future__ import annotations

import sys
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import methods as timing
import steady
import timed_passes

sys.path.pop(0)  # benchmarks/ and tests/ have names in common

import tempora_tta.methods
from tempora_tta import models
from tempora_tta.data import from_batches


@pytest.mark.parametrize("name", ["pace", "tent"])
def test_a_method_that_looks_at_the_clock_is_timed_as_any_other(name):
    model = models.load("fashion_resnet")
    x = torch.randn(4, *model.preprocessing.input_size)
    method = tempora_tta.methods.create(name, model)
    predict_s, adapt_s, action, _ = timing.measure(name, method, x)
    assert predict_s > 0
    assert adapt_s >= 0
    assert action in method.actions


def test_parameters_and_layers_share_what_can_be_computed_together():
    """Beyond their forwards and backwards CoTTA and AlphaBN take a few operators, not some for each parameter."""
    model = models.load("fashion_resnet")
    x = torch.randn(4, *model.preprocessing.input_size)
    subjects = timing.subjects(model, ["cotta", "alpha_bn"], x)
    count = {
        name: sum(timing.measure(name, subject, x, timing.operators_of)[:2])
        for name, subject in subjects.items()
    }
    assert count["alpha_bn"] < count[timing.STATISTICS] + 10
    assert count["cotta"] < 2 * count[timing.STATISTICS] + count[timing.ALL] + 50


def test_methods_that_do_not_fit_are_left_out_with_their_own_words():
    parts = OrderedDict(flat=nn.Flatten(), head=nn.Linear(4, 3))
    network = models.wrap(nn.Sequential(parts), features="flat", head="head")
    found = steady.unfit(network, ["standard", "adabn", "neo"])
    assert list(found) == ["adabn"]
    assert "BatchNorm" in found["adabn"]


def test_a_pass_and_a_bare_loop_are_timed_in_turns():
    model = models.load("fashion_resnet")
    given = [(torch.randn(2, *model.preprocessing.input_size), torch.zeros(2, dtype=torch.int64))] * 2
    found = timed_passes.measured(model, "tent", from_batches("some", given, 10), rounds=1)
    assert list(found) == ["bare", "pass", "snapshots", "a thread", "main thread"]
    assert found["bare"]["x"] == 1
    assert all(one["ms"] > 0 for one in found.values())
