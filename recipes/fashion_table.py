"""Measure the bundled benchmark and write its tables into docs/fashion.md.

    python recipes/fashion_table.py [--networks fashion_resnet] [--seeds 2025,2026,2027] [--batches 156] [--jobs 16]

Every method with the settings of src/tempora_tta/models/recipes.json, offline, over the clean images and the fifteen
corruptions at severity 5, 156 batches of 64, one order of the images per seed. Every finished stream is kept in
runs/fashion_table.jsonl, and the same command goes on from there: about two hours of one core in all.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from tempora_tta import methods
from tempora_tta.data import CORRUPTIONS, Stream, bundled, open_stream
from tempora_tta.models import Classifier, load

ROOT = Path(__file__).parents[1]
PASSES = ROOT / "runs/fashion_table.jsonl"
PAGE = ROOT / "docs/fashion.md"
SEEDS = (2025, 2026, 2027)
ALL_BATCHES = 156
METHODS = {
    "fashion_resnet": ("standard", "adabn", "lame", "neo", "tent", "eta", "shot_im", "sar", "deyo", "cmf"),
    "fashion_vit": (
        "standard",
        "lame",
        "neo",
        "tent",
        "eta",
        "shot_im",
        "sar",
        "deyo",
        "cmf",
        "spa",
        "zerosiam",
    ),
}


class StreamToMake(NamedTuple):
    network: str
    seed: int
    shift: str
    batches: int
    methods: list[str]


def run(name: str, model: Classifier, stream: Stream) -> dict[str, object]:
    """One pass: accuracy, its first and last quarter, signs of collapse, and how often adapt() did what."""
    method = methods.create(name, model, seed=stream.seed)
    right, predictions, actions = [], [], Counter[str]()
    for i in range(stream.num_batches):
        predicted = method.predict(stream.batch(i)).argmax(1).numpy()
        actions[method.adapt()] += 1
        predictions.append(predicted)
        right.append(np.mean(predicted == stream.labels(i)))
    quarter = len(right) // 4
    late = np.bincount(np.concatenate(predictions[-quarter:]))
    return {
        "accuracy": float(np.mean(right)),
        "first_quarter": float(np.mean(right[:quarter])),
        "last_quarter": float(np.mean(right[-quarter:])),
        "largest_class": float(late.max() / late.sum()),
        "actions": dict(actions),
    }


def streams_to_make(networks: list[str], seeds: list[int], batches: int) -> list[StreamToMake]:
    """Every stream that some method has not gone through yet, with those methods."""
    done = {(p["network"], p["seed"], p["shift"], p["method"], p["batches"]) for p in finished_passes()}
    streams = []
    for seed in seeds:
        for network in networks:
            for shift in bundled.NAMES:
                missing = [m for m in METHODS[network] if (network, seed, shift, m, batches) not in done]
                if missing:
                    streams.append(StreamToMake(network, seed, shift, batches, missing))
    return streams


def finished_passes() -> list[dict[str, object]]:
    return [json.loads(line) for line in PASSES.read_text().splitlines()] if PASSES.exists() else []


def make(given: StreamToMake) -> list[dict[str, object]]:
    """All missing methods over one stream."""
    torch.set_num_threads(1)  # the networks are small
    model = load(given.network)
    shift = bundled.shifts([given.shift])[given.shift]
    stream = open_stream(shift, model.preprocessing, seed=given.seed, limit_batches=given.batches)
    key = {"network": given.network, "seed": given.seed, "shift": given.shift, "batches": given.batches}
    return [key | {"method": method} | run(method, model, stream) for method in given.methods]


def make_passes(networks: list[str], seeds: list[int], batches: int, jobs: int) -> None:
    PASSES.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(make, stream) for stream in streams_to_make(networks, seeds, batches)]
        for future in as_completed(futures):
            with PASSES.open("a") as file:
                file.writelines(json.dumps(outcome) + "\n" for outcome in future.result())


def complete(passes: pd.DataFrame) -> pd.DataFrame:
    """Per network, the seeds for which every pass is there: at the length with the most seeds, then the longest."""
    kept = []
    for network, members in METHODS.items():
        wanted = len(members) * len(bundled.NAMES)
        own = passes[passes.network == network]
        whole = own.groupby(["batches", "seed"]).filter(lambda group, wanted=wanted: len(group) == wanted)
        if len(whole):
            seeds = whole.groupby("batches").seed.nunique()
            longest = max(seeds.index, key=lambda batches, seeds=seeds: (seeds[batches], batches))
            kept.append(whole[whole.batches == longest])
    return pd.concat(kept) if kept else passes.iloc[:0]


def streams_used(passes: pd.DataFrame) -> str:
    """Which streams the tables are of, in a sentence per network."""
    return "\n".join(
        f"- `{network}`: {int(own.batches.iloc[0])} batches of 64 per shift, seeds "
        f"{', '.join(str(seed) for seed in sorted(own.seed.unique()))}"
        for network, own in passes.groupby("network")
    )


def percent(value: float) -> str:
    return "–" if np.isnan(value) else f"{100 * value:.1f}"


def markdown(table: pd.DataFrame, first: str) -> str:
    rows = [[first, *table.columns], ["---", *["---:"] * len(table.columns)]]
    rows += [
        [str(label), *map(str, values)] for label, values in zip(table.index, table.to_numpy(), strict=True)
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def per_shift(passes: pd.DataFrame) -> str:
    """Standard inference and AdaBN on every shift, both networks."""
    chosen = passes[passes.method.isin(["standard", "adabn"])]
    table = chosen.pivot_table(index="shift", columns=["network", "method"], values="accuracy")
    table = table.reindex(list(bundled.NAMES))
    table.loc["mean of the fifteen"] = table.loc[list(CORRUPTIONS)].mean()
    columns = [("fashion_resnet", "standard"), ("fashion_resnet", "adabn"), ("fashion_vit", "standard")]
    table = table.reindex(columns=columns).map(percent)
    table.columns = [f"{network}, {method}" for network, method in columns]
    return markdown(table, "shift")


def per_method(passes: pd.DataFrame) -> str:
    """Mean over the fifteen of every method, with the spread over seeds, and on clean images."""
    corrupted = passes[passes["shift"] != "clean"].groupby(["network", "method", "seed"]).accuracy.mean()
    clean = passes[passes["shift"] == "clean"].groupby(["network", "method"]).accuracy.mean()
    order = list(dict.fromkeys(method for members in METHODS.values() for method in members))
    columns = {}
    for network in METHODS:
        mean = corrupted[network].groupby("method").mean().reindex(order)
        spread = corrupted[network].groupby("method").std().reindex(order)
        columns[f"{network}, fifteen"] = [
            "–" if np.isnan(m) else f"{100 * m:.1f}" + ("" if np.isnan(s) else f" ± {100 * s:.1f}")
            for m, s in zip(mean, spread, strict=True)
        ]
        columns[f"{network}, clean"] = [percent(value) for value in clean[network].reindex(order)]
    return markdown(pd.DataFrame(columns, index=order), "method")


def per_shift_and_method(passes: pd.DataFrame, network: str) -> str:
    own = passes[passes.network == network]
    table = own.pivot_table(index="shift", columns="method", values="accuracy")
    return markdown(
        table.reindex(index=list(bundled.NAMES), columns=list(METHODS[network])).map(percent), "shift"
    )


def evidence(passes: pd.DataFrame) -> str:
    """How accuracy moves along the stream, how one-sided predictions become, and how often nothing was learned."""
    corrupted = passes[passes["shift"] != "clean"]
    rows = {}
    for network, members in METHODS.items():
        for method in members:
            group = corrupted[(corrupted.network == network) & (corrupted.method == method)]
            total = sum((Counter(counts) for counts in group.actions), Counter[str]())
            rows[f"{method}, {network}"] = {
                "first quarter": percent(group.first_quarter.mean()),
                "last quarter": percent(group.last_quarter.mean()),
                "largest class": percent(group.largest_class.mean()),
                "no sample kept": percent(total["nothing_kept"] / total.total()),
                "recovered": percent(total["recovered"] / total.total()),
            }
    return markdown(pd.DataFrame(rows).T, "method, network")


def write_page(tables: dict[str, str]) -> None:
    """Put each table between `<!-- name -->` and `<!-- end -->`; the words around them are written by hand."""
    page = PAGE.read_text()
    for name, table in tables.items():
        before, found, rest = page.partition(f"<!-- {name} -->\n")
        if not found:
            raise SystemExit(f"{PAGE} has no line <!-- {name} -->")
        page = before + found + table + "\n" + rest[rest.index("<!-- end -->") :]
    PAGE.write_text(page)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default=",".join(METHODS))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--batches", type=int, default=ALL_BATCHES)
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one core each")
    arguments = parser.parse_args()

    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    make_passes(arguments.networks.split(","), seeds, arguments.batches, arguments.jobs)
    passes = complete(pd.DataFrame(finished_passes()))
    if set(passes.network) == set(METHODS):
        write_page(
            {
                "streams": streams_used(passes),
                "per shift": per_shift(passes),
                "per method": per_method(passes),
                "evidence": evidence(passes),
                **{network: per_shift_and_method(passes, network) for network in METHODS},
            }
        )


if __name__ == "__main__":
    main()
