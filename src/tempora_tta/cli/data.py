"""`tempora data`: getting datasets, checking them, corrupting your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tempora_tta import names
from tempora_tta.cli import completion
from tempora_tta.cli.terminal import console, resumable, say, steps

data_app = typer.Typer(
    name="data", help="Datasets: fetching, checking, corrupting your own.", no_args_is_help=True
)


@data_app.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="A dataset of `tempora list datasets`.", autocompletion=completion.one_of(names.DATASETS)
        ),
    ],
    to: Annotated[
        Path | None, typer.Option(help="The data folder. Default: $TEMPORA_DATA, else ./data.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this archive of the dataset; may be repeated.")
    ] = None,
) -> None:
    """Download a dataset from its official archive, check it and unpack it. Resumes what broke off."""
    from tempora_tta.data.fetch import fetch as fetch_dataset

    out = console()
    with resumable(out, "what was fetched is kept"), steps(out) as show:
        folder = fetch_dataset(
            name,
            to,
            only or (),
            progress=show,
            say=lambda line: out.print(line, markup=False, soft_wrap=True),
        )
    say(f"{name} is in {folder}")


@data_app.command()
def verify(
    path: Annotated[Path, typer.Argument(help="A dataset's folder, or one above several.")],
    name: Annotated[
        str | None,
        typer.Option(
            help="Which dataset it is, if the folder's name does not say so.",
            autocompletion=completion.one_of(names.DATASETS),
        ),
    ] = None,
    decode: Annotated[bool, typer.Option("--decode", help="Also decode every image file.")] = False,
) -> None:
    """Open a dataset and count its images. Exit status 1 if something is wrong."""
    from rich.text import Text

    from tempora_tta.data.verify import verify as findings

    out, wrong = console(), 0
    with steps(out) as show:
        for check in findings(path, name, decode, progress=show):
            wrong += not check.ok
            ok = ("note ", "yellow") if check.note else ("ok   ", "green")
            mark = ok if check.ok else ("wrong", "bold red")
            out.print(Text.assemble(mark, f" {check.what}: {check.detail}"), soft_wrap=True)
    if wrong:
        out.print(f"{wrong} problem{'s' if wrong > 1 else ''}")
        raise typer.Exit(1)


@data_app.command()
def corrupt(
    src: Annotated[Path, typer.Argument(help="Clean images, one folder per class.")],
    dst: Annotated[Path, typer.Argument(help="Where CORRUPTION/SEVERITY/CLASS/IMAGE.png are written.")],
    corruptions: Annotated[
        str,
        typer.Option(
            help="Names and groups, with commas; or all.",
            autocompletion=completion.some_of(names.SHIFTS),
        ),
    ] = "all",
    severity: Annotated[list[int] | None, typer.Option(help="1 to 5; may be repeated. Default: 5.")] = None,
    constants: Annotated[
        Literal["imagenet", "cifar", "fashion"], typer.Option(help="Those made for the nearest image size.")
    ] = "imagenet",
    size: Annotated[
        int | None,
        typer.Option(help="Side in pixels. Default: that of the constants, if no image is smaller."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides noise and textures.")] = 2025,
    workers: Annotated[int | None, typer.Option(help="Threads. Default: one per core.")] = None,
) -> None:
    """Turn your own clean images into a corrupted benchmark. The same command resumes."""
    import shutil
    from functools import partial

    from tempora_tta.data.corruptions.folder import corrupt_folder

    out = console()
    with resumable(out, "what was written is kept"), steps(out) as show:
        written = corrupt_folder(
            src,
            dst,
            corruptions,
            severity or [5],
            seed,
            constants,
            size,
            workers,
            progress=partial(show, "corrupting"),
            say=lambda note: typer.echo(f"note: {note}"),
        )
    classes = src / "classes.txt"
    if classes.is_file():
        shutil.copyfile(classes, dst / "classes.txt")
    say(f"wrote {written} images; open {dst} as dataset `folder`")
