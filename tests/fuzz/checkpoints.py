"""Files of weights: damaged, of odd tensors and keys, or of another network; the weights come out, or a sentence."""

from __future__ import annotations

import pickle
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from command import restrained, tempora
from mutations import odd_value, spoil_bytes, spoil_data
from safetensors.torch import save_file

DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)
SUFFIXES = (".pt", ".pth", ".safetensors")


def case(rng: Random) -> None:
    path = Path(f"weights{rng.choice(SUFFIXES)}")
    weights = {name: value.clone() for name, value in _weights().items()}
    plain = rng.random() < 0.4
    _write(rng, path, weights if plain else _odd(rng, weights))
    damaged = rng.random() < 0.6
    if damaged:
        path.write_bytes(_damaged(rng, path.read_bytes()))
    if rng.random() < 0.1:
        words = ("--methods", "standard", "--shifts", "clean", "--batches", "1", "--batch-size", "4")
        tempora("run", "--set", f"checkpoint={path}", *words, "--clock", "published:rn50_inc", "--plain")
        return
    _load(path, expected=weights if plain and path.suffix != ".safetensors" else None)


def _load(path: Path, expected: dict[str, torch.Tensor] | None) -> None:
    from tempora_tta.models import load

    with restrained():
        model = load("fashion_resnet", checkpoint=path)
    logits = model(torch.zeros(2, 1, 28, 28))
    assert logits.shape == (2, 10)
    if expected is not None and zipfile.is_zipfile(path):
        found = model.network.state_dict()
        assert all(torch.equal(found[name], value) for name, value in expected.items()), (
            "other weights than were saved, without a word"
        )


def _odd(rng: Random, weights: dict[str, torch.Tensor]) -> Any:
    name = rng.choice(list(weights))
    kind = rng.randrange(9)
    if kind == 0:
        weights[name] = weights[name].to(rng.choice(DTYPES))
    elif kind == 1:
        weights[name] = rng.choice(
            (weights[name].reshape(-1)[:0], weights[name].flatten(), weights[name][None])
        )
    elif kind == 2:
        weights[name] = weights[name].reshape(-1)[:1].expand(10 ** rng.choice((3, 9, 15)), 64)
    elif kind == 3:
        del weights[name]
    elif kind == 4:
        return {rng.choice(("state_dict", "model", "weights", "")): weights, "epoch": odd_value(rng)}
    elif kind == 5:
        return {f"{rng.choice(('module.', 'network.', ''))}{key}": value for key, value in weights.items()}
    elif kind == 6:
        return {rng.choice((0, 1.5, None, (1, 2), name)): value for value in weights.values()}
    elif kind == 7:
        return spoil_data(rng, {"state_dict": {"a": 1}, "list": [1, 2]})
    else:
        weights[name] = rng.choice(
            (
                torch.empty_like(weights[name], device="meta"),
                weights[name].to_sparse(),
                torch.full_like(weights[name], float("nan"))
                if weights[name].is_floating_point()
                else weights[name],
            )
        )
    return weights


def _write(rng: Random, path: Path, content: Any) -> None:
    if path.suffix == ".safetensors":
        try:
            content = {key: value for key, value in dict(content).items() if value.numel() < 10**6}
            save_file({str(key): value.contiguous() for key, value in dict(content).items()}, path)
        except Exception:  # it cannot hold everything that pickles can
            path.write_bytes(rng.randbytes(100))
        return
    if rng.random() < 0.1:
        path.write_bytes(pickle.dumps(rng.choice((print, content))))
        return
    torch.save(content, path, _use_new_zipfile_serialization=rng.random() < 0.8)


def _damaged(rng: Random, content: bytes) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(
            (b"", b"these are the weights\n", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x80\x02.")
        )
    if kind == 1:
        return spoil_bytes(rng, content)
    flipped = bytearray(content)
    flipped[rng.randrange(len(flipped) if kind == 2 else min(400, len(flipped)))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


@cache
def _weights() -> dict[str, torch.Tensor]:
    from tempora_tta.models import load

    return dict(load("fashion_resnet").network.state_dict())
