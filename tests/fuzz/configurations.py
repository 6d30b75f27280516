"""Configurations: YAML, overrides and latency profiles, as text and as data, read and turned into a job."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from command import restrained, tempora
from mutations import misspelt, odd_value, spoil_bytes, spoil_data, spoil_text

CONFIGS = Path(__file__).parents[2] / "configs"
TINY: dict[str, Any] = {
    "model": "fashion_resnet",
    "data": {"dataset": "fashion", "shifts": ["clean"], "severity": 3, "workers": 0, "root": None},
    "methods": ["standard", "adabn", {"name": "tent", "label": "slow tent", "lr": 0.001, "every": 2}],
    "grid": "none",
    "scenarios": [
        {"protocol": "discrete", "utilisation": 0.5, "queue": 2},
        {"protocol": "deployment", "interval_ms": 60, "threshold_ms": 100, "budget_ms": 100},
        {"protocol": "amortised", "budget_x": 0.25, "rule": "overshoot"},
        {"protocol": "deployment", "arrivals": [0, 10, 50, 90], "name": "bursts"},
        {"protocol": "continuous", "threshold_x": 2.5},
    ],
    "queue": 1,
    "rule": "strict",
    "runtimes": ["eager"],
    "seeds": [1],
    "batch_size": 4,
    "batches": 2,
    "clock": "clock.json",
    "baseline_ms": 40.0,
    "threads": 1,
    "warmup_batches": 0,
    "calibration_batches": 2,
    "provision": 6.0,
    "share": True,
    "device": "cpu",
}
PROFILE: dict[str, Any] = {
    "schema_version": 1,
    "name": "made up",
    "baseline_ms": 40.0,
    "machine": {"cpu": "none"},
    "methods": {
        name: {
            "predict_ms": [38.0, 40.5],
            "adapt_ms": {"*": [55.0], "step": [56.0, 57.0]},
            "frozen_ms": [38.0],
        }
        for name in ("standard", "adabn", "tent", "slow tent")
    },
}
OVERRIDES = (
    "data.severity=3",
    "batches=1",
    "scenarios=[{protocol: offline}]",
    "methods=[standard]",
    "grid=none",
)


def case(rng: Random) -> None:
    text, overrides = _configuration(rng)
    Path("config.yaml").write_bytes(text)
    Path("clock.json").write_bytes(_profile(rng))
    depth = rng.random()
    if depth < 0.02:
        more = [word for override in overrides for word in ("--set", override)]
        tempora(
            "run",
            "config.yaml",
            *more,
            *(["--dry-run"] if rng.random() < 0.3 else []),
            "--plain",
            "--out",
            "out",
        )
        return
    with restrained():
        _read(overrides, whole=depth < 0.08)


def _configuration(rng: Random) -> tuple[bytes, list[str]]:
    overrides = [_override(rng) for _ in range(rng.choice((0, 0, 1, 2)))]
    kind = rng.random()
    if kind < 0.6:
        data: Any = TINY
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            data = spoil_data(rng, data) if isinstance(data, (dict, list)) else data
        text = yaml.safe_dump(data, sort_keys=False, default_flow_style=rng.choice((None, True, False)))
        return text.encode("utf-8", "surrogatepass"), overrides
    text = spoil_text(rng, rng.choice(_texts()))
    content = text.encode("utf-8", "surrogatepass")
    return spoil_bytes(rng, content) if kind > 0.9 else content, overrides


@cache
def _texts() -> list[str]:
    from tempora_tta.config import template

    shipped = [path.read_text(encoding="utf-8") for path in sorted(CONFIGS.glob("*.yaml"))]
    loops = "model: &m [*m]\n"
    laughs = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]\n" for i in range(12))
    return [yaml.safe_dump(TINY), template(), *shipped, loops, laughs]


def _override(rng: Random) -> str:
    key, _, value = rng.choice(OVERRIDES).partition("=")
    return rng.choice(
        (
            f"{key}={odd_value(rng)}",
            f"{misspelt(rng, key)}={value}",
            f"{key}.x={value}",
            f"{rng.choice(list(TINY))}={odd_value(rng)}",
            f"{key}={spoil_text(rng, value)}",
            key,
        )
    )


def _profile(rng: Random) -> bytes:
    if rng.random() < 0.7:
        return json.dumps(PROFILE).encode()
    if rng.random() < 0.7:
        return json.dumps(spoil_data(rng, PROFILE)).encode()
    return spoil_bytes(rng, json.dumps(PROFILE).encode())


def _read(overrides: list[str], whole: bool) -> None:
    """As far as `tempora run` goes before it loads anything; `whole`: as far as it goes before the first batch."""
    import torch

    from tempora_tta.config import checked
    from tempora_tta.engine.build import build_job, scenarios_of
    from tempora_tta.engine.clocks import open_clock
    from tempora_tta.engine.job import with_offline
    from tempora_tta.engine.load_config import load_config
    from tempora_tta.engine.runtime import Runtime
    from tempora_tta.timing import choose_device

    config = load_config(Path("config.yaml"), overrides)
    stored = json.loads(json.dumps(config.plain()))
    assert repr(checked(stored)) == repr(config), "run.json would hold another configuration"
    found = with_offline(scenarios_of(config))
    for runtime in config.runtimes:
        Runtime.parse(runtime)
    _, baseline = open_clock(config.clock, choose_device(config.device), config.baseline_ms)
    baseline_ms = 40.0 if baseline is None else baseline.baseline_ms
    for scenario in found:
        assert scenario.label, f"a scenario without a name: {scenario}"
        if scenario.not_applicable(baseline_ms) is None:
            scenario.resolve(num_batches=3, baseline_ms=baseline_ms)
    if whole and config.model.startswith("fashion") and (config.threads or 1) < 64:
        torch.manual_seed(0)
        build_job(config)
