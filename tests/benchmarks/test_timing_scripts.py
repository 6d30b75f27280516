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

import tempora.methods
from tempora import models
from tempora.data import from_batches


@pytest.mark.parametrize("name", ["pace", "tent"])
def test_a_method_that_looks_at_the_clock_is_timed_as_any_other(name):
    model = models.load("fashion_resnet")
    x = torch.randn(4, *model.preprocessing.input_size)
    method = tempora.methods.create(name, model)
    predict_ms, adapt_ms, action, _ = timing.measure(name, method, x)
    assert predict_ms > 0
    assert adapt_ms >= 0
    assert action in method.actions


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
