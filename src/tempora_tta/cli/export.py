"""`tempora export`: a method for a device without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempora_tta import names
from tempora_tta.cli import completion, options
from tempora_tta.cli.check import setting
from tempora_tta.cli.execute import prepare_environment
from tempora_tta.cli.terminal import say
from tempora_tta.config import DataConfig


def export(
    model: Annotated[
        str,
        typer.Argument(
            help="A network's name, or module:function.", autocompletion=completion.one_of(names.MODELS)
        ),
    ],
    method: Annotated[
        str,
        typer.Argument(
            help="standard, neo, adabn, settle, or any other together with --frozen-after.",
            autocompletion=completion.one_of(names.METHODS),
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write: new, or empty.")],
    batch_size: Annotated[str, typer.Option(help="Images per batch; several with commas: 1,4.")] = "1",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value, a setting of the method's; may be repeated."),
    ] = None,
    frozen_after: Annotated[
        int | None,
        typer.Option(
            min=0, help="Adapt to this many batches of the data first, and export what is then frozen."
        ),
    ] = None,
    dataset: Annotated[str, options.DATASET] = DataConfig.dataset,
    root: Annotated[Path | None, options.ROOT] = None,
) -> None:
    """Write a method as ONNX graphs that need no PyTorch, if a replay gives the same classes and scores."""
    prepare_environment()
    from tempora_tta.engine.load_config import load_configs
    from tempora_tta.serving.export import export as write

    given = dict(setting(text) for text in settings or ())
    flags = {
        "model": model,
        "methods": [{"name": method, **given}],
        "data.dataset": dataset,
        "data.root": root,
        "batch_size": batch_size,
        "grid": "none",
        "device": "cpu",
    }
    for found in write(load_configs(None, flags=flags), out, frozen_after):
        say(
            f"batch size {found.batch_size}: the same class for all of {found.images} images, scores within "
            f"{found.difference:.0e} of the largest"
        )
    say(f"wrote {out}; on the device, with NumPy and ONNX Runtime: python {out / 'run.py'} --profile")
