"""The authors' logs: JSON files of others, turned into a run folder and read."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from command import tempora
from mutations import spoil_bytes, spoil_data

BATCHES, BATCH_SIZE = 6, 8
KNOBS: dict[str, dict[str, str]] = {
    "offline": {},
    "discrete": {"interval": "400.0", "queue_size": "1"},
    "continuous": {"response_budget": "100"},
    "amortised": {"overhead_budget": "100"},
}
TIMES_MS = {"basic": (38.0, 0.0), "tent": (41.0, 56.0)}


def case(rng: Random) -> None:
    logs = Path("logs")
    logs.mkdir()
    spoilt = rng.sample(range(len(TIMES_MS) * len(KNOBS)), rng.choice((1, 1, 2)))
    for number, (method, kind) in enumerate((method, kind) for method in TIMES_MS for kind in KNOBS):
        log: Any = _log(rng, method, kind)
        if number in spoilt:
            log = spoil_data(rng, log)
        content = json.dumps(log).encode()
        if number in spoilt and rng.random() < 0.1:
            content = spoil_bytes(rng, content)
        (logs / f"{number}.json").write_bytes(content)
    said = tempora(
        "import",
        "authors",
        "logs",
        "--out",
        "out",
        *rng.choice(((), ("--baseline-ms", "40"), ("--model", "resnet50"))),
    )
    if said.code == 0:
        tempora("show", "out")


def _log(rng: Random, method: str, kind: str) -> dict[str, Any]:
    predict_ms, adapt_ms = TIMES_MS[method]
    rows = [
        {
            "index": i,
            "num_samples": BATCH_SIZE,
            "num_correct": rng.randint(0, BATCH_SIZE),
            "prediction_time": predict_ms + i / 10,
            "adaptation_time": adapt_ms,
            "start_timestamp": 400.0 * i,
            "queue_wait_time": 0.0,
        }
        for i in range(BATCHES)
    ]
    arguments = {
        "method": method,
        "model_arch": "resnet50",
        "dataset_name": "imagenet-c",
        "seed": "1",
        "batch_size": str(BATCH_SIZE),
    }
    results = {
        "num_batches": BATCHES,
        "num_correct": sum(row["num_correct"] for row in rows),
        "batch_summaries": rows,
    }
    return {"arguments": {**arguments, **KNOBS[kind]}, "results": {"fog": results}}
