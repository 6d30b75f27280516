"""Help and lists: within the window, nothing cut off, and what each is for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer
from rich.cells import cell_len

from tempora_tta.cli import app


def commands(group: typer.Typer = app, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield above
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*above, command.name or command.callback.__name__)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, (*above, str(inner.typer_instance.info.name)))


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        *(((*command, "--help"), []) for command in commands()),
        (("list", "methods"), ["shot_im", "SHOT-IM, gradient-based; modifies parameters"]),
        (("list", "models"), ["fashion_vit", "ships with Tempora", "timm: resnet50.tv_in1k"]),
        (("list", "datasets"), ["imagenet_c", "about 75 GB", "https://zenodo.org", "goes to"]),
        (("list", "scenarios"), ["interval_ms, or utilisation", "grid paper-vit", "B 80 s"]),
        (("list", "clocks"), ["steady", "measured", "published:rn50_inc", "λ 39.9 ms"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_help_and_lists_fit_the_window(words: tuple[str, ...], parts: list[str], said) -> None:
    text = said(*words)
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert "…" not in text, "something is cut off"
    assert all(part in " ".join(text.split()) for part in parts)
