"""Command lines: every command with its options, good and odd values, words lost, doubled, exchanged or made up."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from command import tempora
from configurations import PROFILE, TINY
from image_files import TREES
from mutations import ODD_TEXTS, misspelt, spoil_text
from run_folders import copy_of_pristine

TABLES = (
    "winners",
    "offline",
    "sweep",
    "overhead",
    "correlation",
    "deficit",
    "below-standard",
    "buffering",
    "response",
)
GOOD: dict[str, tuple[str, ...]] = {
    "run": ("run", "other", "run/", "run/run.json", "photos", "nowhere"),
    "other": ("other", "run", "nowhere"),
    "runs": ("run", "other"),
    "config": ("config.yaml", "nowhere.yaml", "run"),
    "out": ("out", "out/deep", "run", "photos/cat/0.jpg", "config.yaml"),
    "method": ("tent", "standard", "tnet", "json:JSONDecoder", "nowhere:Mine"),
    "methods": ("standard", "standard,tent", "all", "tnet", "", ",", "tent,tent"),
    "model": ("fashion_resnet", "fashion_vit", "fashion_resnt", "cifar_resnet18"),
    "network": ("fashion_resnet", "fashion_vit"),
    "dataset": ("fashion", "folder", "fashon", "cifar10"),
    "root": ("photos", "nowhere", "config.yaml"),
    "path": ("photos", "nowhere", "config.yaml", "run"),
    "src": ("photos", "run", "nowhere"),
    "dst": ("out", "config.yaml", "photos"),
    "name": ("folder", "cifar10", "fashion", "imagenet_c", "nosuch"),
    "shifts": ("clean", "contrast", "clean,contrast", "noise", "all", "clear"),
    "shift": ("clean", "contrast", "fog"),
    "corruptions": ("contrast", "fog,brightness", "noise", "nosuch"),
    "constants": ("imagenet", "cifar", "fashion"),
    "severity": ("5", "1", "6"),
    "size": ("16", "32", "0", "-3", "1"),
    "grid": ("none", "relative", "papr"),
    "table": TABLES,
    "scenario": ("offline", "discrete", "ρ 100 %"),
    "format": ("terminal", "csv", "json", "latex", "markdown", "table", "svg"),
    "published": ("rn50_inc", "vit_inc", "rn50"),
    "clock": ("clock.json", "published:rn50_inc", "measured", "config.yaml"),
    "device": ("cpu", "auto", "cuda:7"),
    "executor": ("local", "rya"),
    "address": ("auto",),
    "runtime": ("eager", "channels_last", "nosuch"),
    "set": ("batches=1", "batch_size=4", "data.severity=3", "grid=none", "seeds=[1]"),
    "what": ("methods", "models", "datasets", "scenarios", "clocks", "method"),
    "only": ("x.tar", "fog.tar"),
    "to": ("out", "config.yaml"),
    "batches": ("1", "2", "0"),
    "batch_size": ("4", "8", "0", "100000"),
    "seeds": ("1", "1,2", "1,1", "-1", "x", "18446744073709551616"),
    "threads": ("1", "2", "0"),
    "cells": ("1", "2", "0"),
    "workers": ("1", "0", "-1"),
    "interval_ms": ("50", "0", "-1", "nan", "inf", "1e-9"),
    "threshold_ms": ("100", "1", "nan"),
    "budget_s": ("0.1", "0", "-1", "inf"),
    "fps": ("200", "0", "-5", "inf", "1e308"),
    "cameras": ("1", "0", "-1"),
}
SMALL = (
    "--methods",
    "standard",
    "--batches",
    "1",
    "--batch-size",
    "4",
    "--shifts",
    "clean",
    "--grid",
    "none",
    "--clock",
    "clock.json",
    "--set",
    "data.workers=0",
)
LEFT_OUT = ("--install-completion", "--show-completion")
"""They change the user's shell, or need one."""
SLOW = ("demo", "check", "report")
ODD_WORDS = tuple(text for text in ODD_TEXTS if "\x00" not in text)


def case(rng: Random) -> None:
    for name in ("run", "other"):
        copy_of_pristine(name)
    TREES["folder"](rng, Path("photos"))
    Path("config.yaml").write_text(yaml.safe_dump(TINY))
    Path("clock.json").write_text(json.dumps(PROFILE))
    words = _command_line(rng)
    if rng.random() < 0.4:
        words = _spoilt(rng, words)
    encoding = rng.choice(("utf-8", "utf-8", "utf-8", "ascii", "cp1252"))
    if not {"ray", *LEFT_OUT} & set(words):
        tempora(*words, encoding=encoding)


@cache
def _commands() -> list[tuple[list[str], Any]]:
    """Every command of the app by the words that call it."""
    import typer

    from tempora_tta.cli import app

    def below(words: list[str], command: Any) -> list[tuple[list[str], Any]]:
        inner = getattr(command, "commands", None)
        if not inner:
            return [(words, command)]
        return [found for name, one in inner.items() for found in below([*words, name], one)]

    return below([], typer.main.get_command(app))


def _command_line(rng: Random) -> list[str]:
    words, command = rng.choice(_commands())
    if words[0] in SLOW and rng.random() < 0.7:
        words, command = rng.choice(_commands())
    words = [*words, *(SMALL if words == ["run"] and rng.random() < 0.5 else ())]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            if parameter.required or rng.random() < 0.5:
                words += [_value(rng, parameter.name) for _ in range(2 if parameter.nargs == -1 else 1)]
        elif not set(parameter.opts) & set(LEFT_OUT) and (parameter.required or rng.random() < 0.12):
            words.append(rng.choice([*parameter.opts, *parameter.secondary_opts]))
            if not parameter.is_flag:
                words.append(_value(rng, parameter.name))
    return words


def _value(rng: Random, name: str | None) -> str:
    good = GOOD.get((name or "").rstrip("_"), ("1", "x"))
    return rng.choice(ODD_WORDS) if rng.random() < 0.15 else rng.choice(good)


def _spoilt(rng: Random, words: list[str]) -> list[str]:
    """One word lost, doubled, misspelt, exchanged, split or made up."""
    at, other = rng.randrange(len(words)), rng.randrange(len(words))
    kind = rng.randrange(8)
    if kind == 0:
        return words[:at] + words[at + 1 :]
    if kind == 1:
        return words[: at + 1] + words[at:]
    if kind == 2:
        return [*words[:at], misspelt(rng, words[at]), *words[at + 1 :]]
    if kind == 3:
        words[at], words[other] = words[other], words[at]
        return words
    if kind == 4:
        return [
            *words[:at],
            rng.choice((*ODD_WORDS, "--help", "-h", "--version", "--", "-", "--nosuch", "--out")),
            *words[at:],
        ]
    if kind == 5:
        return words[:at]
    if kind == 6 and at + 1 < len(words):
        return [*words[:at], f"{words[at]}={words[at + 1]}", *words[at + 2 :]]
    return [*words[:at], spoil_text(rng, words[at]).replace("\x00", ""), *words[at + 1 :]]
