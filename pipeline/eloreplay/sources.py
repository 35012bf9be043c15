"""Finds the Parquet files that an argument means, and reads their footers before any row is read."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.errors import EnvironmentFault, InputRefused
from eloreplay.objects import fetch, is_object

#: The file that says that a folder is one of our output folders.
OUTPUT_MARKER = "eloreplay.json"


@dataclass(frozen=True)
class Source:
    """One input file, its footer read.

    Attributes:
        path: absolute path, links resolved.
        shown: the path as the user would write it, for messages and for `rejected`.
        size: bytes.
        rows: rows, by the footer.
        names: top-level column names in the file's order.
        schema_key: equal for files of the same schema.
        identity: inode, size and time of the last change when the footer was read; see `refuse_changed`.
        changed_ns: when anything about the file changed last, its name and rights included (ctime).
    """

    path: Path
    shown: str
    size: int
    rows: int
    names: tuple[str, ...]
    schema_key: str
    identity: tuple[int, int, int]
    changed_ns: int = 0


def find_sources(arguments: Iterable[str], what: str, known: Mapping[Path, Source] | None = None) -> list[Source]:
    """The files behind files, folders (`**/*.parquet`) and wildcards, each once, in the order of their paths.

    Names that start with `s3://` mean objects, of which there are local copies then; see `objects`.
    A file in `known` that nobody has touched since is taken from there: its footer is not read again.
    In folders, names that start with `.` or `_` and output folders of ours are skipped; no column is taken from a folder's name.

    Raises:
        InputRefused: no file at all, or one that is not a whole Parquet file.
        EnvironmentFault: a file or folder that may not be read.
    """
    found: dict[Path, str] = {}
    arguments = list(arguments)
    objects = [argument for argument in arguments if is_object(argument)]
    if objects:
        found |= fetch(objects)
    for argument in arguments:
        if is_object(argument):
            continue
        matches = _expand(argument)
        if not matches:
            reason = "holds no .parquet file" if os.path.isdir(argument) else "no such file, folder or match"
            raise InputRefused(f"{what} {argument}: {reason}; nothing was read and nothing was published")
        for path in matches:
            found.setdefault(Path(os.path.realpath(path)), path)
    for name in (name for real, given in found.items() for name in (str(real), given)):
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            shown = os.fsencode(name).decode("utf-8", "backslashreplace")
            raise InputRefused(f"{shown}: the file's name is not UTF-8; rename it") from None
    if not found:
        raise InputRefused(f"no {what} file was given; nothing was published")
    known = known or {}
    return [_untouched(known.get(path), found[path]) or read_footer(path, found[path]) for path in sorted(found, key=os.fsencode)]


def _untouched(known: Source | None, shown: str) -> Source | None:
    """The known source, if the file still is the very same one; a changed ctime alone already makes it another."""
    if known is None:
        return None
    try:
        status = known.path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or (_identity(status), status.st_ctime_ns) != (known.identity, known.changed_ns):
        return None
    return replace(known, shown=shown)


def _expand(argument: str) -> list[str]:
    if os.path.isdir(argument):
        return _walk(argument)
    if os.path.lexists(argument):
        return [argument]
    matches: list[str] = []
    for match in sorted(glob.glob(argument, recursive=True)):
        matches.extend(_walk(match) if os.path.isdir(match) else [match])
    return matches


def _walk(folder: str) -> list[str]:
    def refuse(error: OSError) -> None:
        raise EnvironmentFault(f"{error.filename}: the folder cannot be read: {error.strerror}")

    files: list[str] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        if OUTPUT_MARKER in names:
            # An output folder that lies among the games holds ratings, no games.
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        files.extend(os.path.join(parent, name) for name in names if name.endswith(".parquet") and not name.startswith((".", "_")))
    return files


def read_footer(path: Path, shown: str) -> Source:
    """Read a file's footer.

    Raises:
        InputRefused: not a regular file, of 0 bytes, cut, or not Parquet.
        EnvironmentFault: it may not be read.
    """
    try:
        status = path.stat()
    except PermissionError:
        raise EnvironmentFault(f"{shown}: no permission to read the file") from None
    except OSError as error:
        raise InputRefused(f"{shown}: the file cannot be found: {error.strerror}; does a link lead nowhere?") from None
    try:
        if not stat.S_ISREG(status.st_mode):
            raise InputRefused(f"{shown}: not a regular file")
        if status.st_size == 0:
            raise InputRefused(f"{shown}: the file is empty (0 bytes), so a copy or an export was cut; deliver it again")
        with pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except PermissionError:
        raise EnvironmentFault(f"{shown}: no permission to read the file") from None
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, UnicodeDecodeError) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputRefused(
            f"{shown}: not a whole Parquet file ({status.st_size} bytes): {text}; it was cut, damaged or is another format: "
            "deliver it again"
        ) from None
    if rows < 0:
        raise InputRefused(f"{shown}: its footer claims {rows} rows: the file is damaged; deliver it again")
    try:
        names = tuple(schema.names)
        key = hashlib.sha256(repr([(field.name, str(field.type)) for field in schema]).encode(errors="replace")).hexdigest()
    except UnicodeDecodeError:
        raise InputRefused(f"{shown}: a column's name is not UTF-8: the file is damaged; deliver it again") from None
    return Source(
        path=path,
        shown=shown,
        size=status.st_size,
        rows=rows,
        names=names,
        schema_key=key,
        identity=_identity(status),
        changed_ns=status.st_ctime_ns,
    )


def refuse_changed(source: Source) -> None:
    """Refuse a file that is no longer the one whose footer was read: its rows, its digest and its schema could be of two files.

    Raises:
        InputRefused: it was replaced, written to or removed.
    """
    try:
        same = _identity(source.path.stat()) == source.identity
    except OSError:
        same = False
    if not same:
        raise InputRefused(
            f"{source.shown}: the file was changed while it was read; nothing was published: deliver under another name, "
            "rename when it is whole, and run again"
        )


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def file_digest(source: Source) -> str:
    """SHA-256 of the file's bytes.

    Raises:
        EnvironmentFault: the file can no longer be read.
    """
    try:
        with source.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise EnvironmentFault(f"{source.shown}: {error.strerror}") from None
