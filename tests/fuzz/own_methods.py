"""Methods of the user's own that misbehave, a few ways at once: nothing ends but the method, and no other changes."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

LEAKS = (
    "torch.autocast('cpu', torch.bfloat16).__enter__()",
    "torch.set_grad_enabled(False)",
    "torch.set_default_dtype(torch.float64)",
    "torch.set_default_device('meta')",
    "torch.inference_mode().__enter__()",
    "torch.use_deterministic_algorithms(True, warn_only=True)",
    "torch.set_float32_matmul_precision('medium')",
    "torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 2)",
    "torch.manual_seed(3)",
    "torch.set_flush_denormal(True)",
    "torch.backends.mkldnn.enabled = False",
)
ENDS = (
    "sys.exit()",
    "raise SystemExit('bye')",
    "raise GeneratorExit",
    "raise ValueError('no')",
    "raise StopIteration",
    "raise type('Odd', (BaseException,), {})('odd')",
    "assert False",
    "1 / 0",
    "hang()",
    "self.predict = None",
    "del self.model",
    "self.trainable = 3",
    "x = object()",
)
SCORES = (
    "self.model(x)",
    "self.model(x)[:1]",
    "self.model(x)[:, :3]",
    "self.model(x).repeat(1, 2)",
    "self.model(x).argmax(1)",
    "self.model(x).numpy()",
    "self.model(x) * float('nan')",
    "self.model(x) / 0",
    "self.model(x).to(torch.complex64)",
    "self.model(x) > 0",
    "self.model(x).to('meta')",
    "self.model(x).requires_grad_()",
    "self.model(x)[None]",
    "self.model(x).to_sparse()",
    "self.model(x).long()",
    "x",
    "None",
)
ACTIONS = ("'step'", "'none'", "None", "3", "'x' * 10**6", "'\\x1b[31m'", "''", "['step']")
DECLARED = (
    "Settings = 42",
    "state = 'abc'",
    "state = ('absent',)",
    "name = None",
    "name = ''",
    "family = 3",
    "label = 7",
)
PLACES = ("import", "setup", "predict", "adapt", "snapshot", "reset", "freeze")


def case(rng: Random) -> None:
    name = f"own_{rng.randrange(10**12)}"
    Path(f"{name}.py").write_text(_source(rng), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check(name) if rng.random() < 0.15 else _evaluate(name)
    assert _standard_alone() == _predictions(["standard"]), "standard inference is no longer what it was"


def _source(rng: Random) -> str:
    """A module with one method that does one to three things wrong."""
    wrong: dict[str, list[str]] = {place: [] for place in PLACES}
    declared, scores, action = [], SCORES[0], ACTIONS[0]
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.random()
        if kind < 0.35:
            wrong[rng.choice(PLACES)].append(rng.choice(LEAKS))
        elif kind < 0.6:
            wrong[rng.choice(PLACES[1:])].append(rng.choice(ENDS))
        elif kind < 0.85:
            scores = rng.choice(SCORES)
        elif kind < 0.93:
            action = rng.choice(ACTIONS)
        else:
            declared.append(rng.choice(DECLARED))
    sometimes = rng.choice(
        ("", "self.seen = getattr(self, 'seen', 0) + 1\n        if self.seen % 2: return self.model(x)")
    )
    parts = [
        "import signal, sys, threading, torch\nfrom tempora_tta.methods import Method",
        # As a call that the system's timer interrupts, without the waiting.
        "def hang():\n    signal.raise_signal(signal.SIGALRM)\n    threading.Event().wait()",
        *(line for line in wrong["import"]),
        "class Mine(Method):\n    name = 'mine'",
        *(f"    {line}" for line in declared),
        _function("setup(self, x=None)", wrong["setup"], "pass"),
        _function("predict(self, x)", [sometimes, *wrong["predict"]], f"return {scores}"),
        _function("adapt(self, x=None)", wrong["adapt"], f"return {action}"),
        *(
            _function(f"{name}(self, x=None)", wrong[name], f"return super().{name}()")
            for name in ("snapshot", "reset", "freeze")
        ),
    ]
    return "\n".join(parts) + "\n"


def _function(signature: str, lines: list[str], last: str) -> str:
    return "\n        ".join([f"    def {signature}:", *(line for line in lines if line), last])


def _evaluate(name: str) -> None:
    found = _run([f"{name}:Mine", "standard"], method_timeout_s=600 if _hangs(name) else None)
    rows = found.utilities[found.utilities["method"] == "standard"]
    assert set(rows["status"]) == {"ok"}, "another method failed"
    assert _of_standard(found) == _standard_alone(), "another method's predictions changed"


def _hangs(name: str) -> bool:
    return " hang()\n" in Path(f"{name}.py").read_text()


def _check(name: str) -> None:
    from tempora_tta.methods.testing import PROMISES, check

    if _hangs(name):
        return  # only Ctrl-C stops a check
    report = check(f"{name}:Mine", _model(), batches=[x for x, _ in _batches()[:1]] * 4)
    assert report.refused or len(report.checks) in (1, len(PROMISES))


def _run(methods: list[str], **options: Any) -> Any:
    import tempora_tta as tempora

    return tempora.evaluate(
        _model(),
        _batches(),
        methods,
        scenarios=tempora.scenarios.Discrete(utilisation=1),
        clock={"baseline_ms": 40, "standard": (38, 0), "mine": (40, 30)},
        device="cpu",
        warmup_batches=1,
        **options,
    )


def _of_standard(found: Any) -> list[int]:
    traces = found.traces
    return np.concatenate(traces[traces["method"] == "standard"]["predicted"].tolist()).tolist()


def _predictions(methods: list[str]) -> list[int]:
    return _of_standard(_run(methods))


@cache
def _standard_alone() -> list[int]:
    return _predictions(["standard"])


@cache
def _model() -> Any:
    from tempora_tta.models import load

    return load("fashion_resnet")


@cache
def _batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    shape = (2, *_model().preprocessing.input_size)
    return [(torch.randn(shape, generator=generator), torch.tensor([1, 2])) for _ in range(3)]
