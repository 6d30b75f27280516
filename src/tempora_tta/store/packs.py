"""A run in one file to send: the files of its folder in a ZIP archive, with the checksum of each.

Nothing in a pack is trusted: only the files that a run folder has are taken, each as large and with the bytes that
the list says, and what they hold is checked as in a run folder before anything is shown. The same run gives the same
bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tempora_tta._version import __version__
from tempora_tta.errors import TemporaError, TemporaWarning
from tempora_tta.store import integrity
from tempora_tta.store.atomic import write_atomically
from tempora_tta.store.belonging import check_belonging
from tempora_tta.store.folder import RunFolder
from tempora_tta.store.plausible import check_cells
from tempora_tta.store.record import MOST_BYTES as MOST_RECORD_BYTES

SUFFIX = ".tempora"
LIST = "pack.json"
FORMAT = 1
TABLES = (
    *("run.json", "profile.json", "utilities.parquet", "segments.parquet", "certainty.parquet"),
    "pictures.json",
)
MOST_FILES = 100_000
MOST_BYTES = 4 << 30
"""Of all files together. Real packs have a few megabytes."""
MOST_RATIO = 200
"""Bytes that come out of one byte that went in; tables and profiles give 2 to 20."""
MOST_VALUES = 500_000_000
"""Numbers in all tables together: a column of equal numbers takes no room in a file, but it does in memory."""
_PLAIN = 1 << 20
"""So little may be anything's size."""
_NAME = re.compile(r"traces/[A-Za-z0-9_.-]{1,250}\.parquet")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, RecursionError)
"""What `zipfile` raises over bytes that are no archive, or one with odd members."""


def pack(run: Path | str, out: Path | str | None = None, traces: bool = True) -> Path:
    """Put a finished run into one file, by default beside its folder; without `traces` it is smaller, and has nothing
    about single batches."""
    folder = RunFolder(run)
    if not folder.has_manifest():
        folder.manifest()  # says what a run folder is
    with _nothing_changed(f"{run} cannot be packed"):
        if not folder.manifest()["finished"]:
            raise TemporaError("it is not finished: let the same command go on first")
        check_files(folder)
    place = folder.path.resolve()
    target = place.with_name(place.name + SUFFIX) if out is None else Path(out)
    names = [name for name in TABLES if (folder.path / name).exists()]
    if traces:
        names += sorted(path.relative_to(folder.path).as_posix() for path in _trace_files(folder))
    for name in names:
        if not _is_ours(name):
            raise TemporaError(f"{folder.path / name}: no name of a trace; give the file its own name back")
    write_atomically(target, lambda part: _write(part, folder.path, names, traces))
    return target


def _write(part: Path, folder: Path, names: list[str], traces: bool) -> None:
    contents = {name: (folder / name).read_bytes() for name in names}
    files = {name: {"bytes": len(data), "sha256": _sha256(data)} for name, data in contents.items()}
    told = {"format": FORMAT, "tempora": __version__, "traces": traces, "files": files}
    about = json.dumps({**told, "checksum": integrity.checksum(told)}, indent=1).encode()
    with zipfile.ZipFile(part, "w") as archive:
        for name, data in ({LIST: about} | contents).items():
            member = zipfile.ZipInfo(name, _EPOCH)
            member.create_system, member.external_attr = 3, 0o644 << 16  # the same on every system
            archive.writestr(member, data, zipfile.ZIP_DEFLATED, 9)


def sha256_of(path: Path) -> str:
    """Of a pack: two people who read the same one have the same file."""
    return _sha256(path.read_bytes())


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
            listed = _listed(archive, path)
            members = _members(archive, listed["files"], path)
            (target / "traces").mkdir()
            for name, member in members.items():
                _extract(archive, member, target / name, listed["files"][name], path)
    except TemporaError:
        raise
    except _UNREADABLE as error:
        raise _damaged(path, str(error) or "it ends too early") from error
    folder = RunFolder(target)
    folder.packed_without_traces = not listed["traces"]
    with _nothing_changed(f"{path} was changed after it was packed", target, path):
        _check_sizes(target, path)
        check_files(folder)
    return folder


def check_files(folder: RunFolder) -> None:
    """Read every file of a run; warns where one is not as it was written, or of another run."""
    manifest, utilities = folder.manifest(), folder.utilities()
    check_cells(utilities, manifest, folder.utilities_parquet)
    check_belonging(folder, utilities, manifest)
    folder.segments()
    folder.certainty()
    for stored in folder.passes().values():
        stored.trace()


# -- reading what a stranger wrote -----------------------------------------------------------------------------


def _listed(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    """The list of files, checked."""
    if len(archive.infolist()) > MOST_FILES:
        raise _damaged(path, f"it has more than {MOST_FILES} files")
    if LIST not in archive.namelist():
        raise TemporaError(f"{path} is not a pack: it has no {LIST} (tempora pack RUN makes one)")
    with archive.open(_plain(archive.getinfo(LIST), path)) as file:
        sealed = json.loads(_limited(file, MOST_RECORD_BYTES, path, LIST))
    if not isinstance(sealed, dict) or not isinstance(sealed.get("format"), int):
        raise _damaged(path, f"its {LIST} is no list")
    if sealed["format"] > FORMAT:
        raise TemporaError(
            f"{path} has format {sealed['format']}, this Tempora reads {FORMAT}: update Tempora"
        )
    told = {name: value for name, value in sealed.items() if name != "checksum"}
    if sealed.get("checksum") != integrity.checksum(told):
        raise _damaged(path, f"its {LIST} was changed")
    files = told.get("files")
    traces = told.get("traces")
    if (
        not isinstance(files, dict)
        or not all(map(_is_entry, files.values()))
        or not isinstance(traces, bool)
        or (not traces and any(map(_NAME.fullmatch, files)))
    ):
        raise _damaged(path, f"its {LIST} does not say what is in it")
    return told


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("bytes")) is int
        and entry["bytes"] >= 0
        and isinstance(entry.get("sha256"), str)
    )


def _members(archive: zipfile.ZipFile, files: Mapping[str, Any], path: Path) -> dict[str, zipfile.ZipInfo]:
    """The members by name: exactly those listed, each a file of a run folder, none too large."""
    found = [info for info in archive.infolist() if info.filename != LIST]
    members = {info.filename: _plain(info, path) for info in found}
    if odd := sorted(name for name in members if not _is_ours(name)):
        raise _damaged(path, f"it holds {odd[0]!r}, which no run folder has")
    if len(members) < len(found) or members.keys() != files.keys():
        raise _damaged(path, "its files are not those that it lists")
    together = sum(entry["bytes"] for entry in files.values())
    if together > min(MOST_BYTES, _PLAIN + MOST_RATIO * path.stat().st_size):
        raise _damaged(path, f"{together} bytes would come out of it, more than a run has")
    return members


def _plain(info: zipfile.ZipInfo, path: Path) -> zipfile.ZipInfo:
    """A member that is stored in the one way that packs have."""
    if info.compress_type != zipfile.ZIP_DEFLATED or info.flag_bits & 0x1:
        raise _damaged(path, f"{info.filename!r} is stored in a way that packs do not have")
    return info


def _is_ours(name: str) -> bool:
    return name in TABLES or _NAME.fullmatch(name) is not None


def _extract(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, entry: Mapping[str, Any], path: Path
) -> None:
    """Write one file, no byte more than listed, and compare it with its checksum."""
    name, size = member.filename, int(entry["bytes"])
    with archive.open(member) as file:
        data = _limited(file, size, path, name)
    if len(data) != size or _sha256(data) != entry["sha256"]:
        raise _damaged(path, f"{name} is not what was packed")
    target.write_bytes(data)


def _limited(file: IO[bytes], most: int, path: Path, name: str) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        raise _damaged(path, f"{name} is larger than it may be")
    return data


def _check_sizes(folder: Path, path: Path) -> None:
    """Refuse tables that would fill the memory, before any is read."""
    values = 0
    for table in (*folder.glob("*.parquet"), *folder.glob("traces/*.parquet")):
        try:
            about = pq.read_metadata(table, filesystem=integrity.LOCAL)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise integrity.damaged(table, error) from error
        for group in range(about.num_row_groups):
            part = about.row_group(group)
            values += sum(part.column(column).num_values for column in range(part.num_columns))
    if values > MOST_VALUES:
        raise _damaged(path, f"its tables have {values} numbers, more than a run has")


@contextmanager
def _nothing_changed(what: str, shown: Path | None = None, pack: Path | None = None) -> Iterator[None]:
    """A warning about a file is an error here; in a `pack` whose files lie in a passing place it names the pack, and
    says what can be done by somebody who has nothing else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", TemporaWarning)
        try:
            yield
        except integrity.OtherVersion:
            raise
        except (TemporaError, TemporaWarning) as error:
            reason = str(error)
            if pack is not None:
                told = str(getattr(error, "what", reason)).replace(str(shown), str(pack))
                reason = f"{told}: ask for it again, or pack the run anew"
            raise TemporaError(f"{what}: {reason}") from error


def _trace_files(folder: RunFolder) -> Iterator[Path]:
    return (folder.path / "traces").glob("*.parquet")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _damaged(path: Path, why: str) -> TemporaError:
    return TemporaError(
        f"{path} is damaged or no pack of ours ({why}): ask for it again, or pack the run anew"
    )
