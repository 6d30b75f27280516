"""An adapting module from outside, as it is: the whole forward is the prediction."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tempora_tta.errors import TemporaError
from tempora_tta.methods import create, from_module, get
from tempora_tta.methods.testing import check, run
from tempora_tta.models import Classifier


class Outside(nn.Module):
    """As in many repositories: forward adapts the model it holds, with noise from the global generator."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        super().__init__()
        self.model, self.optimizer, self.steps = model, optimizer, 0

    def forward(self, x: Tensor) -> Tensor:
        z = self.model(x + 0.01 * torch.randn_like(x))
        loss = -(z.softmax(1) * z.log_softmax(1)).sum(1).mean()
        if loss.isfinite():
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.steps += 1
        return z


def make(network: nn.Module) -> nn.Module:
    """Norm layers, Adam."""
    network.requires_grad_(False)
    for layer in network.modules():
        if isinstance(layer, nn.LayerNorm):
            layer.requires_grad_(True)
    wanted = [p for p in network.parameters() if p.requires_grad]
    return Outside(network, torch.optim.Adam(wanted, lr=1e-2))


def test_it_keeps_every_promise_with_or_without_a_word_on_freezing(vit: Classifier) -> None:
    for freeze in (None, lambda module: module.model):
        report = check(from_module(make, name="outside", freeze=freeze), vit)
        assert report.passed, report


def test_the_forward_is_the_module_s_own(vit: Classifier, batches: list[Tensor]) -> None:
    method = create(from_module(make, name="outside"), vit)
    before = torch.random.get_rng_state()
    scores = [scores for scores, _ in run(method, batches[:3])]
    assert torch.equal(before, torch.random.get_rng_state())  # other methods draw as if it were not there
    assert method.module.steps == 3
    assert not torch.equal(scores[0], method.predict(batches[0]))
    method.reset()
    assert method.module.steps == 0
    assert not method.module.optimizer.state
    assert torch.equal(scores[0], method.predict(batches[0]))


def test_freezing_is_the_user_s_word(vit: Classifier, batches: list[Tensor]) -> None:
    method = create(from_module(make, name="outside", freeze=lambda module: module.model), vit)
    run(method, batches[:2])
    method.freeze()
    with torch.no_grad():
        assert torch.equal(method.predict(batches[0]), method.module.model(batches[0]))
    assert method.module.steps == 2
    method.unfreeze()
    run(method, batches[:1])
    assert method.module.steps == 3


def test_a_file_and_a_function_name_one(
    vit: Classifier, batches: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_adapter.py").write_text(
        "from torch import nn\n"
        "class Same(nn.Module):\n"
        "    def __init__(self, network):\n"
        "        super().__init__()\n"
        "        self.network = network\n"
        "    def forward(self, x):\n"
        "        return self.network(x)\n"
        "def make(network):\n"
        "    return Same(network)\n"
        "def nothing(network):\n"
        "    return 3\n"
    )
    monkeypatch.chdir(tmp_path)
    method = create("their_adapter.py:make", vit)
    assert method.name == "their_adapter"
    assert torch.equal(method.predict(batches[0]), vit(batches[0]))
    assert get("their_adapter.py:make") is get("their_adapter.py:make")
    with pytest.raises(TemporaError, match=r"returned a int; expected the adapting nn\.Module"):
        create("their_adapter.py:nothing", vit)
    with pytest.raises(TemporaError, match=r"there is no file 'elsewhere.py'"):
        create("elsewhere.py:make", vit)
    (tmp_path / "json.py").write_text("def make(network):\n    return network\n")
    with pytest.raises(TemporaError, match="another module is called 'json'"):
        create("json.py:make", vit)
