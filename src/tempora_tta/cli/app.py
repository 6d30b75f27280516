"""The command's frame: registers the subcommands and prints user mistakes without a traceback.

Nothing heavy is imported at module level here or in the subcommand files, so that `tempora --help`
answers in a fraction of a second.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from contextlib import suppress
from typing import TextIO

import typer

from tempora_tta._version import __version__
from tempora_tta.cli.audit import audit
from tempora_tta.cli.check import check
from tempora_tta.cli.compare import compare
from tempora_tta.cli.data import data_app
from tempora_tta.cli.demo import demo
from tempora_tta.cli.examples import add_examples
from tempora_tta.cli.export import export
from tempora_tta.cli.files import merge, pack
from tempora_tta.cli.list_ import list_
from tempora_tta.cli.profile import profile
from tempora_tta.cli.recommend import recommend
from tempora_tta.cli.report import report
from tempora_tta.cli.reproduce import reproduce
from tempora_tta.cli.run import run
from tempora_tta.cli.show import show
from tempora_tta.cli.terminal import cannot_print, forget_no_width, print_error, print_warning, say
from tempora_tta.cli.tune import tune
from tempora_tta.errors import TemporaError, TemporaWarning

app = typer.Typer(
    name="tempora",
    help="Which test-time adaptation method is worth its time in your deployment?",
    epilog="Exit status: 0 done; 1 a mistake that the message explains, or a check or some cells failed; "
    "2 no such command or option; 130 stopped with Ctrl-C.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


for command in (
    *(demo, run, show, report, recommend, compare),
    *(reproduce, profile, tune, check, audit, export, list_, pack, merge),
):
    app.command(command.__name__.rstrip("_"))(command)
app.add_typer(data_app)
add_examples(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"tempora {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Which test-time adaptation method is worth its time in your deployment?"""


def main() -> None:
    """Entry point: user mistakes end with one readable message and exit status 1, warnings are one line each."""
    forget_no_width()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a λ, or a file name of any bytes, is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        try:
            try:
                app()
            finally:
                _flush()
        except TemporaError as error:
            print_error(str(error))
            sys.exit(1)
        except OSError as error:
            if (explained := _explained(error)) is None:
                raise
            if explained:
                print_error(explained)
            sys.exit(1)


def _flush() -> None:
    """Notice output that cannot be written here, where it can be said, not while Python shuts down."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _explained(error: OSError) -> str | None:
    """Return the message for the user; empty where the reader is gone; None where it is a fault of ours."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}; name another place, or make this one usable"
    if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return None
    if sys.stdout is not None:  # what is left in its buffer would be tried again when Python ends
        with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return "" if error.errno == errno.EPIPE else cannot_print(error)


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print our warnings as a sentence, those of libraries as Python does."""
    if issubclass(category, TemporaWarning):
        print_warning(str(message))
    else:
        say(warnings.formatwarning(message, category, filename, lineno), nl=False, err=True)
