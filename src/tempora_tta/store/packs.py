"""A run in one file to send: the files of its folder in a ZIP archive.

Nothing in a pack is trusted: only the files that a run folder has are taken, none larger than a run's can be; they
must be those that its run.json lists, and what they hold is checked before anything is shown. The same run gives the
same bytes.
"""

from __future__ import annotations

import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.store import check, files
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.folder import FILES, RunFolder

SUFFIX = ".tempora"
MOST_FILES = 100_000
MOST_BYTES = 4 << 30
"""Of all files together. Real packs have a few megabytes."""
MOST_RATIO = 200
"""Bytes that come out of one byte that went in; tables and profiles give 2 to 20."""
MOST_VALUES = 500_000_000
"""Numbers in all tables together: a column of equal numbers takes no room in a file, but it does in memory."""
_PLAIN = 1 << 20
"""So little may be anything's size."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, RecursionError)
"""What `zipfile` raises over bytes that are no archive, or one with odd members."""


def pack(run: Path | str, out: Path | str | None = None, traces: bool = True) -> Path:
    """Put a finished run into one file, by default next to its folder; without `traces` it is smaller, and has
    nothing about single batches."""
    folder = RunFolder(run)
    if not folder.has_manifest():
        folder.record()  # says what a run folder is
    with _nothing_changed(f"{run} cannot be packed"):
        if not folder.record().finished:
            raise TemporaError("it is not finished: let the same command go on first")
        _check_all(folder)
    place = folder.path.resolve()
    target = place.with_name(place.name + SUFFIX) if out is None else Path(out)
    paths = [folder.run_json, *folder.listed_files(), *(folder.trace_files() if traces else ())]
    write_atomically(target, lambda part: _write(part, folder.path, paths))
    return target


def _write(part: Path, folder: Path, paths: list[Path]) -> None:
    with zipfile.ZipFile(part, "w") as archive:
        for path in paths:
            member = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            member.create_system, member.external_attr = 3, 0o644 << 16  # the same on every system
            archive.writestr(member, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def open_folder(path: Path | str) -> tuple[RunFolder, tempfile.TemporaryDirectory[str] | None]:
    """A run folder for reading; a pack's lies in a temporary folder, which lives as long as what is returned."""
    if not Path(path).is_file():
        return RunFolder(path), None
    kept = tempfile.TemporaryDirectory(prefix="tempora-pack-")
    return _unpacked(Path(path), Path(kept.name)), kept


def _unpacked(path: Path, target: Path) -> RunFolder:
    """The folder with the files of a pack, as they were packed."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = _members(archive, path)
            (target / "traces").mkdir()
            for member in members:
                with archive.open(member) as packed:
                    # One byte more than it says it has: a liar is caught by its checksum, and fills no memory.
                    (target / member.filename).write_bytes(packed.read(member.file_size + 1))
    except TemporaError:
        raise
    except _UNREADABLE as error:
        raise _damaged(path, str(error) or "it ends too early") from error
    folder = RunFolder(target)
    folder.packed_without_traces = not folder.trace_files()
    with _nothing_changed(f"{path} was changed after it was packed", target, path):
        _check_sizes(folder, path)
        _check_all(folder)
    return folder


def _check_all(folder: RunFolder) -> None:
    """Read every file of a run; warns where one is not as it was written, and refuses what no run leaves."""
    check.warn_of_problems(folder)
    check.check_cells(folder.utilities(), folder.record(), folder.utilities_parquet)
    folder.segments()
    folder.certainty()
    for stored in folder.passes().values():
        stored.check()


# -- reading what a stranger wrote -----------------------------------------------------------------------------


def _members(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    """The members: each a file of a run folder, once, stored as packs have it, none too large."""
    members = archive.infolist()
    names = {member.filename for member in members}
    if odd := sorted(name for name in names if not _is_ours(name)):
        raise _damaged(path, f"it holds {odd[0]!r}, which no run folder has")
    if "run.json" not in names or len(names) < len(members) or len(members) > MOST_FILES:
        raise _damaged(path, "it lacks run.json, or has a file twice")
    if any(member.compress_type != zipfile.ZIP_DEFLATED or member.flag_bits & 0x1 for member in members):
        raise _damaged(path, "its files are stored in a way that packs do not have")
    together = sum(member.file_size for member in members)
    if together > min(MOST_BYTES, _PLAIN + MOST_RATIO * path.stat().st_size):
        raise _damaged(path, f"{together} bytes would come out of it, more than a run has")
    return members


def _is_ours(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    if folder == "traces":
        return check.TRACE_NAME.fullmatch(file) is not None
    return folder == "" and file in ("run.json", *FILES)


def _check_sizes(folder: RunFolder, path: Path) -> None:
    """Refuse tables that would fill the memory, before any is read."""
    values = 0
    for table in (*folder.path.glob("*.parquet"), *folder.trace_files()):
        with files.reading(table):
            about = pq.read_metadata(table, filesystem=files.LOCAL)
        for group in range(about.num_row_groups):
            part = about.row_group(group)
            values += sum(part.column(column).num_values for column in range(part.num_columns))
    if values > MOST_VALUES:
        raise _damaged(path, f"its tables have {values} numbers, more than a run has")


@contextmanager
def _nothing_changed(what: str, shown: Path | None = None, pack: Path | None = None) -> Iterator[None]:
    """A warning about a file is an error here; in a `pack` whose files lie in a passing place it names the pack, and
    says what its reader, who has nothing else, can do."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        try:
            yield
        except files.OtherVersion:
            raise
        except (TemporaError, TemporaWarning) as error:
            reason = str(error)
            if pack is not None:
                told = str(getattr(error, "what", reason)).replace(str(shown), str(pack))
                reason = f"{told}: ask for it again, or pack the run again"
            raise TemporaError(f"{what}: {reason}") from error


def _damaged(path: Path, why: str) -> TemporaError:
    return TemporaError(
        f"{path} is damaged or no pack of ours ({why}): ask for it again, or pack the run again"
    )
