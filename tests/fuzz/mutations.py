"""Ways to spoil text, bytes and plain data. All take the case's own random numbers."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from random import Random
from typing import Any

ODD_NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 0.5, -0.0, 1e-300, 1e300, math.nan, math.inf, -math.inf),
    *(2**31, 2**63, 10**30, -(10**30), 99999, 1.5),
)
ODD_TEXTS: tuple[str, ...] = (
    *("", " ", "all", "none", "null", "true", "0", "-1", "nan", "1e-3", "1_000", "tent", "tnet", "TENT"),
    *(
        "fog",
        "noise",
        "clean",
        "../x",
        "a/b",
        "a:b",
        "a:",
        ":b",
        "os:path",
        "json:loads",
        "math:inf",
        "a=b",
        "=",
        ",",
    ),
    *(
        "[/]",
        "[red]x[/red]",
        "<b>&amp;",
        "%s%d",
        "{0}",
        "${HOME}",
        "'",
        '"',
        "\\",
        "\n",
        "\t",
        "\x00",
        "é",
        "λ",
        "９",
    ),
    *(
        "\x1b[2J",
        "=1+1",
        "\u202e",
        "\ufeff",
        "\udcff",
        "😀",
        "x" * 300,
        "published:",
        "published:rn50",
        "published:rn50_inc",
    ),
    *("eager", "amp+tf32", "+", "cuda", "cuda:99", "cpu:x", "meta", "auto", "mps", "measured"),
)
ODD_VALUES: tuple[Any, ...] = (
    *ODD_NUMBERS,
    *ODD_TEXTS,
    None,
    True,
    False,
    [],
    {},
    [[]],
    {"": ""},
    [None],
    {"a": {"b": 1}},
)


def odd_value(rng: Random) -> Any:
    return copy.deepcopy(rng.choice(ODD_VALUES))


def spoil_text(rng: Random, text: str) -> str:
    """A few characters, words or lines changed."""
    for _ in range(rng.randint(1, 3)):
        lines = text.split("\n")
        at, place = rng.randrange(len(lines)), rng.randrange(len(text) + 1)
        kind = rng.randrange(8)
        if kind == 0:
            text = text[:place] + text[place + rng.randint(1, 5) :]
        elif kind == 1:
            text = text[:place] + rng.choice([*"{}[]:,-#&*!|>'\"%@`\t\n ~?=0", *ODD_TEXTS]) + text[place:]
        elif kind == 2:
            text = "\n".join(lines[:at] + lines[at + 1 :])
        elif kind == 3:
            text = "\n".join([*lines[:at], lines[at], *lines[at:]])
        elif kind == 4:
            text = "\n".join([*lines[:at], " " * rng.randint(1, 4) + lines[at], *lines[at + 1 :]])
        elif kind == 5:
            text = "\n".join([*lines[:at], lines[at].strip(), *lines[at + 1 :]])
        elif kind == 6:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            text = "\n".join(lines)
        else:
            text = text[:place]
    return text


def spoil_bytes(rng: Random, content: bytes) -> bytes:
    """Bits flipped, parts lost, zeroed, doubled or made up."""
    for _ in range(rng.randint(1, 3)):
        place, length = rng.randrange(len(content) + 1), rng.choice((1, 4, 16, 200))
        kind = rng.randrange(7)
        if kind == 0:
            content = content[:place]
        elif kind == 1 and content:
            flipped = bytearray(content)
            flipped[min(place, len(content) - 1)] ^= 1 << rng.randrange(8)
            content = bytes(flipped)
        elif kind == 2:
            content = content[:place] + bytes(min(length, len(content) - place)) + content[place + length :]
        elif kind == 3:
            content = content[:place] + content[place + length :]
        elif kind == 4:
            content = content[:place] + rng.randbytes(length) + content[place + length :]
        elif kind == 5:
            content = content[:place] + content[place : place + length] * 2 + content[place + length :]
        else:
            content = rng.choice((b"", b"\x00", b"PAR1", content * 2, rng.randbytes(64)))
    return content


def spoil_data(rng: Random, data: Any) -> Any:
    """Plain data with one entry, anywhere, replaced, lost, renamed, doubled or wrapped."""
    data = copy.deepcopy(data)
    places = list(_places(data))
    if not places:
        return odd_value(rng)
    holder, key = rng.choice(places)
    kind = rng.randrange(9)
    if kind <= 3:
        holder[key] = odd_value(rng)
    elif kind == 4:
        del holder[key]
    elif kind == 5 and isinstance(holder, dict):
        holder[misspelt(rng, str(key))] = holder.pop(key)
    elif kind == 6 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif kind == 7:
        holder[key] = [holder[key]] if rng.random() < 0.5 else {str(key): holder[key]}
    else:
        other, there = rng.choice(places)
        holder[key] = copy.deepcopy(other[there])
    return data


def _places(data: Any) -> Any:
    if isinstance(data, dict):
        for key, value in data.items():
            yield data, key
            yield from _places(value)
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield data, position
            yield from _places(value)


def misspelt(rng: Random, word: str) -> str:
    if not word:
        return "x"
    at = rng.randrange(len(word))
    return rng.choice(
        (word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:], word.upper(), f"{word}_x", word[::-1])
    )


def spoil_file(rng: Random, path: Path, others: list[Path]) -> None:
    """A file lost, emptied, cut, doubled, exchanged, or no file any more."""
    kind = rng.randrange(8)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.write_bytes(b"")
    elif kind <= 3:
        path.write_bytes(spoil_bytes(rng, path.read_bytes()))
    elif kind == 4:
        path.with_name(f"{path.stem}-copy{path.suffix}").write_bytes(path.read_bytes())
    elif kind == 5:
        other = rng.choice(others)
        mine, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(mine)
    elif kind == 6:
        path.unlink()
        path.mkdir()
    else:
        path.unlink()
        path.symlink_to(path.name if rng.random() < 0.5 else "nowhere")
