"""Help and lists: within the window, nothing cut off, and every example one that its command understands."""

from __future__ import annotations

import shlex

import pytest
import typer
from rich.cells import cell_len

from tempora_tta.cli import app
from tempora_tta.cli.examples import EXAMPLES, line


def leaves(command, path=()):
    commands = getattr(command, "commands", None)
    if commands is None:
        yield " ".join(path), command
    for name, inner in (commands or {}).items():
        yield from leaves(inner, (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))
GROUPS = {name.partition(" ")[0] for name in COMMANDS if " " in name}
LINES = [(name, example) for name, examples in EXAMPLES.items() for example in examples]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--help", []),
        *((f"{name} --help", [line(name, one) for one in EXAMPLES[name]]) for name in sorted(GROUPS)),
        *((f"{name} --help", []) for name in COMMANDS),
        ("list methods", ["shot_im", "SHOT-IM, gradient-based; modifies parameters"]),
        ("list models", ["fashion_vit", "ships with Tempora", "timm: resnet50.tv_in1k"]),
        ("list datasets", ["imagenet_c", "about 75 GB", "https://zenodo.org", "goes to"]),
        ("list scenarios", ["interval_ms, or utilisation", "grid paper-vit", "B 80 s"]),
        ("list clocks", ["steady", "measured", "published:rn50_inc", "λ 39.9 ms"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_help_and_lists_fit_the_window(words, parts, said):
    text = said(*words.split())
    assert max(cell_len(each.rstrip()) for each in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert "…" not in text, "something is cut off"
    assert all(part in " ".join(text.split()) for part in parts)


def test_every_command_and_every_group_has_two_examples():
    assert set(EXAMPLES) == {*COMMANDS, *GROUPS}
    assert min(map(len, EXAMPLES.values())) >= 2


@pytest.mark.parametrize(("name", "example"), LINES, ids=[line(*each) for each in LINES])
def test_each_example_is_understood(name, example):
    arguments = shlex.split(example.arguments.partition("|")[0])
    if name in GROUPS:
        name = f"{name} {arguments.pop(0)}"
    COMMANDS[name].make_context(name, arguments)  # raises where an option or an argument is none
