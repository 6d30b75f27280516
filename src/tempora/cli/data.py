"""`tempora data`: what datasets there are, getting them, checking them, corrupting your own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

data_app = typer.Typer(
    name="data", help="Datasets: what exists, fetching, checking, corrupting your own.", no_args_is_help=True
)


@data_app.command("list")
def list_datasets() -> None:
    """What can be opened by name: size, licence, source, and where it goes."""
    from rich.console import Console
    from rich.table import Column, Table

    from tempora.data.registry import data_folder, datasets

    table = Table("name", Column("what, size, licence, source, where it goes", overflow="fold"), box=None)
    for card in datasets().values():
        facts = f"{card.size}; {card.licence}; {card.source}"
        place = f"; goes to {data_folder() / card.folder}" if card.folder else ""
        table.add_row(f"[bold]{card.name}[/]", f"{card.what}\n[dim]{facts}{place}[/]")
    console = Console(highlight=False)
    console.print(table)
    console.print("\nThe data folder is $TEMPORA_DATA, else ./data. `tempora data fetch NAME` fills it.")


@data_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A dataset of `tempora data list`.")],
    to: Annotated[
        Path | None, typer.Option(help="The data folder. Default: $TEMPORA_DATA, else ./data")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this archive of the dataset; may be repeated.")
    ] = None,
) -> None:
    """Download a dataset from its official archive, check it and unpack it. Resumes what broke off."""
    from tempora.data.fetch import fetch as fetch_dataset

    with _progress_bar() as bar:
        tasks = {}

        def show(filename: str, done: int, total: int) -> None:
            if filename not in tasks:
                tasks[filename] = bar.add_task(filename)
            bar.update(tasks[filename], completed=done, total=total or None)

        folder = fetch_dataset(name, to, only or (), progress=show, say=lambda line: bar.console.print(line))
    typer.echo(f"{name} is in {folder}")


@data_app.command()
def verify(
    path: Annotated[
        Path, typer.Argument(help="A dataset's folder, one above several, or an official archive.")
    ],
    name: Annotated[
        str | None, typer.Option(help="Which dataset it is, if the folder's name does not say so.")
    ] = None,
    decode: Annotated[bool, typer.Option("--decode", help="Also decode every image file.")] = False,
) -> None:
    """Check layout, counts and published checksums. Exit status 1 if something is wrong."""
    from tempora.data.verify import verify as findings

    wrong = 0
    with _progress_bar() as bar:
        task = bar.add_task("decoding", visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=done < total)

        for check in findings(path, name, decode, progress=show):
            wrong += not check.ok
            mark = "[green]ok[/]   " if check.ok else "[red]wrong[/]"
            bar.console.print(f"{mark} {check.what}: ", end="")
            bar.console.print(check.detail, markup=False, highlight=False)
    if wrong:
        typer.echo(f"{wrong} problem{'s' if wrong > 1 else ''}")
        raise typer.Exit(1)


@data_app.command()
def corrupt(
    src: Annotated[Path, typer.Argument(help="Clean images, one folder per class.")],
    dst: Annotated[Path, typer.Argument(help="Where CORRUPTION/SEVERITY/CLASS/IMAGE.png are written.")],
    corruptions: Annotated[str, typer.Option(help="Names and groups, separated by commas.")] = "all",
    severity: Annotated[list[int] | None, typer.Option(help="1 to 5; may be repeated. Default: 5")] = None,
    constants: Annotated[
        str, typer.Option(help="imagenet, cifar or fashion: the one made for the nearest image size.")
    ] = "imagenet",
    size: Annotated[int | None, typer.Option(help="Side in pixels. Default: that of the constants")] = None,
    seed: Annotated[int, typer.Option(help="Decides noise and textures.")] = 2025,
    workers: Annotated[int | None, typer.Option(help="Threads. Default: one per core")] = None,
) -> None:
    """Turn your own clean images into a corrupted benchmark. The same command resumes."""
    import shutil

    from tempora.data.corruptions.folder import corrupt_folder

    with _progress_bar() as bar:
        task = bar.add_task("corrupting")
        written = corrupt_folder(
            src,
            dst,
            corruptions,
            severity or [5],
            seed,
            constants,
            size,
            workers,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    classes = src / "classes.txt"
    if classes.is_file():
        shutil.copyfile(classes, dst / "classes.txt")
    typer.echo(f"wrote {written} images; open {dst} as dataset `folder`")


@contextmanager
def _progress_bar() -> Iterator[Progress]:
    """A bar that disappears when done, and that a log file never sees."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar
