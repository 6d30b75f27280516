"""Streams: how long, in batches of how many, at which severity, in which order; in files, on the command line and as
lists of batches of one's own."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
import yaml
from cases import Accepted
from command import restrained, tempora
from configurations import PROFILE, TINY
from mutations import ODD_NUMBERS, odd_value, spoil_text

LENGTHS = (1, 2, 3, 1000, 10**9, 10**19, 0, -1, 1.0, 1.5, "2", "2 ", None, True, "1:30", "010")
ODD_SEEDS: tuple[Any, ...] = (
    [1],
    [0],
    [1, 2],
    [1, 1],
    [],
    [-1],
    [2**63],
    [2**63 - 1],
    [1.0],
    ["1"],
    1,
    "1,2",
    None,
)
SHIFTS: tuple[Any, ...] = (
    *(
        ["clean"],
        ["contrast", "clean"],
        ["noise"],
        ["all"],
        "clean,contrast",
        ["clean", "clean"],
        [],
        [""],
        "",
        None,
    ),
    *(["clear"], ["Clean"], [1], "all,clean", ["contrast "], {"clean": 5}),
)


KINDS: tuple[Any, ...] = (
    "single",
    "continual",
    "gradual",
    "recurring",
    "mixed",
    "continuous",
    "a:b",
    "",
    None,
    1,
)
RESETS: tuple[Any, ...] = ("never", "shift", 1, 3, 0, -1, 10**19, "3", True, 1.5, [1], None)
CLASSES: tuple[Any, ...] = (
    *("shuffled", "sorted", "random", None, 1, {}, {"dirichlet": 0.1}, {"dirichlet": 1000}, {"dirichlet": 0}),
    *({"dirichlet": "0.1"}, {"dirichlet": float("nan")}, {"dirichlet": 0.1, "slots": 2}, ["sorted"]),
)


def case(rng: Random) -> None:
    depth = rng.random()
    if depth < 0.04:
        _on_the_command_line(rng)
    elif depth < 0.3:
        _of_one_s_own(rng)
    else:
        _in_a_file(rng, whole=depth < 0.4)


def _one(rng: Random, *good: Any) -> Any:
    return odd_value(rng) if rng.random() < 0.1 else rng.choice((*good, rng.choice(ODD_NUMBERS)))


def _stream(rng: Random) -> Any:
    """An order of shifts and classes; half of them only name a kind."""
    kind = _one(rng, *KINDS)
    if rng.random() < 0.3:
        return kind
    knobs = {
        "batches": lambda: _one(rng, *LENGTHS),
        "reset": lambda: _one(rng, *RESETS),
        "classes": lambda: _one(rng, *CLASSES),
        "slots": lambda: _one(rng, *LENGTHS),
        "visits": lambda: _one(rng, *LENGTHS),
        "by": lambda: _one(rng, "sample", "batch", "shift"),
        "resets": lambda: 1,
    }
    return {"kind": kind, **{name: knobs[name]() for name in rng.sample(sorted(knobs), rng.randint(0, 2))}}


def _settings(rng: Random) -> dict[str, Any]:
    """Some knobs of the stream, changed."""
    knobs = {
        "batch_size": lambda: _one(rng, *LENGTHS),
        "batches": lambda: _one(rng, *LENGTHS),
        "seeds": lambda: _one(rng, *ODD_SEEDS),
        "severity": lambda: _one(rng, 1, 2, 3, 4, 5, 0, 6, "3", 2.5, True),
        "shifts": lambda: _one(rng, *SHIFTS),
        "stream": lambda: _stream(rng),
    }
    chosen = rng.sample(sorted(knobs), rng.randint(1, 3))
    return {name: knobs[name]() for name in chosen}


def _in_a_file(rng: Random, whole: bool) -> None:
    """Accepted ones make streams of that many whole batches."""
    from tempora_tta.engine.build import build_job
    from tempora_tta.engine.load_config import load_config

    settings = _settings(rng)
    data = {
        **TINY["data"],
        **{name: settings.pop(name) for name in ("severity", "shifts") if name in settings},
    }
    text = yaml.safe_dump({**TINY, **settings, "data": data})
    if rng.random() < 0.15:
        text = spoil_text(rng, text)
    Path("config.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    Path("clock.json").write_text(json.dumps(PROFILE))
    with restrained():
        config = load_config(Path("config.yaml"))
        assert 1 <= config.data.severity <= 5
        if not whole or not config.model.startswith("fashion"):
            return
        job = build_job(config)
        for source in job.streams:
            assert source.num_batches >= 1
            if not source.settings.over_many:
                assert config.batches is None or source.num_batches <= config.batches
            assert source.batch_size == config.batch_size


def _on_the_command_line(rng: Random) -> None:
    Path("clock.json").write_text(json.dumps(PROFILE))
    Path("config.yaml").write_text(yaml.safe_dump(TINY))
    words = []
    for name, value in _settings(rng).items():
        if name in ("severity",) or rng.random() < 0.5:
            key = f"data.{name}" if name in ("severity", "shifts") else name
            inline = yaml.safe_dump(value, default_flow_style=True).replace("\n...", "").strip()
            words += ["--set", f"{key}={inline}"]
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            words += [f"--{name.replace('_', '-')}", text]
    tempora("run", "config.yaml", *(word.replace("\x00", "") for word in words), "--plain", "--out", "out")


# -- lists of batches ----------------------------------------------------------------------------------------


@cache
def _network() -> Any:
    from tempora_tta import models

    torch.set_num_threads(1)
    return models.load("fashion_resnet")


def _batch(rng: Random, size: int) -> Any:
    """Images and labels; some are not."""
    images: Any = torch.zeros(size, 1, 28, 28)
    labels: Any = torch.tensor([rng.randrange(10) for _ in range(size)])
    kind = rng.randrange(14)
    if kind == 0:
        labels = labels[:-1]
    elif kind == 1:
        images = images[0] if size else images
    elif kind == 2:
        labels = labels.float()
    elif kind == 3 and size:
        labels[0] = rng.choice((-1, 10, 2**40))
    elif kind == 4:
        images = odd_value(rng)
    elif kind == 5:
        labels = odd_value(rng)
    elif kind == 6:
        return images
    elif kind == 7:
        return (images, labels, labels)
    return images, labels


def _of_one_s_own(rng: Random) -> None:
    import tempora_tta as tempora
    from tempora_tta.scenarios import Discrete

    sizes = [rng.choice((4, 4, 4, 1, 3, 0)) for _ in range(rng.choice((0, 1, 2, 3)))]
    if rng.random() < 0.5:
        sizes = [4] * len(sizes)
    stream: Any = [_batch(rng, size) for size in sizes]
    kind = rng.randrange(8)
    if kind == 0:
        stream = {"first": stream, rng.choice(("", "second", "a/b", "\x1b[2J")): stream}
    elif kind == 1:
        stream = iter(stream)
    elif kind == 2:
        stream = odd_value(rng)
    with restrained(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        results = tempora.evaluate(
            _network(),
            stream,
            ["standard"],
            [Discrete(interval_ms=60)],
            device="cpu",
            clock="published:rn50_inc",
        )
    table = results.utilities
    kept = len(sizes) - any("is left out" in str(warning.message) for warning in said)
    assert set(table["batches"].dropna()) <= {kept}, "batches were lost or made up"
    raise Accepted
