"""Every command has at least two examples, and each of them is one that the command understands."""

from __future__ import annotations

import shlex

import pytest
import typer
from typer.testing import CliRunner

from tempora_tta.cli import app
from tempora_tta.cli.examples import EXAMPLES, line

ROOT = typer.main.get_command(app)


def _leaves(command, path=()):
    commands = getattr(command, "commands", None)
    if commands is None:
        yield " ".join(path), command
        return
    for name, inner in commands.items():
        yield from _leaves(inner, (*path, name))


COMMANDS = dict(_leaves(ROOT))
GROUPS = {name for name, command in ROOT.commands.items() if name not in COMMANDS}
LINES = [(name, example) for name, examples in EXAMPLES.items() for example in examples]


def test_every_command_and_every_group_has_two():
    assert {name for name in {*COMMANDS, *GROUPS} if len(EXAMPLES.get(name, ())) < 2} == set()
    assert set(EXAMPLES) <= {*COMMANDS, *GROUPS}


@pytest.mark.parametrize(("name", "example"), LINES, ids=[line(*each) for each in LINES])
def test_each_is_understood(name, example):
    arguments = shlex.split(example.arguments.partition("|")[0])
    if name in GROUPS:
        name = f"{name} {arguments.pop(0)}"
    COMMANDS[name].make_context(name, arguments)  # raises where an option or an argument is none


def test_help_shows_them():
    shown = CliRunner().invoke(app, ["recommend", "--help"], env={"COLUMNS": "120"}).output
    assert "tempora recommend runs/mine --fps 30 --cameras 8" in " ".join(shown.split())
