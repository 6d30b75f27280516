"""Fixtures that forget, after each test, what pages and examples registered: no other test shall see it."""

from __future__ import annotations

import pytest

from tempora_tta.data import datasets
from tempora_tta.data import registry as data_registry
from tempora_tta.methods import registry as method_registry


@pytest.fixture(autouse=True)
def registries(monkeypatch):
    monkeypatch.setattr(method_registry, "_methods", dict(method_registry._methods))
    monkeypatch.setattr(data_registry, "_DATASETS", datasets())
