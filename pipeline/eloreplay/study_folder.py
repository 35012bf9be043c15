"""A folder that a study writes: whole or not at all, and never into a folder that is not one of its own.

DIR/                 manifest.json (its `kind` says whose it is) and tables, replaced together
.DIR.KIND/           beside it while the study works: lock, scratch/, new/, and for a moment old/
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from eloreplay.errors import EnvironmentFault, FolderBusy, UsageFault
from eloreplay.store import sync_folder, sync_tree
from eloreplay.tables import write_parquet

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class StudyFolder:
    """Where a study works (`scratch`) and what it makes (`new`); get one from `study_folder`."""

    target: Path
    scratch: Path
    new: Path


@contextlib.contextmanager
def study_folder(out: Path, kind: str) -> Iterator[StudyFolder]:
    """Room for a study; at the end of the block what it made takes the place of `out`. An error leaves `out` as it was.

    Args:
        out: new, empty, or made by a study of this kind.
        kind: what kind, as its manifest says.

    Raises:
        UsageFault: `out` holds something else; nothing is touched.
        FolderBusy: another study is writing it.
        EnvironmentFault: it cannot be written.
    """
    target = Path(os.path.realpath(out))
    if Path.cwd().is_relative_to(target):
        raise UsageFault(f"{out}: is the folder that you are in, which cannot be replaced; give one of its own, such as {kind}")
    beside = target.parent / f".{target.name}.{kind}"
    _require_ours(target, kind)
    try:
        beside.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _lock(beside, out)
    except OSError as error:
        raise EnvironmentFault(f"{out}: the folder cannot be made: {error.strerror}") from None
    try:
        old = beside / "old"
        if old.exists() and not target.exists():
            # A study was killed between the two steps of its switch: what it was to replace comes back.
            os.rename(old, target)
        for name in ("old", "new", "scratch"):
            shutil.rmtree(beside / name, ignore_errors=True)
        folder = StudyFolder(target, beside / "scratch", beside / "new")
        folder.scratch.mkdir()
        folder.new.mkdir()
        yield folder
        _switch(folder, old, kind)
    except OSError as error:
        if error.errno != errno.ENOSPC and "No space left" not in str(error):
            raise
        raise EnvironmentFault(f"{out}: the disk is full; nothing was written there: free some space and run again") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        os.close(descriptor)


def _require_ours(target: Path, kind: str) -> None:
    try:
        names = sorted(os.listdir(target))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise UsageFault(f"{target}: not a folder") from None
    except OSError as error:
        raise EnvironmentFault(f"{target}: the folder cannot be read: {error.strerror}") from None
    if not names:
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        content = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
        if content.get("kind") == kind and set(names) <= {MANIFEST, *content.get("files", [])}:
            return
    raise UsageFault(f"{target}: holds something that no {kind} of ours wrote, and is not touched; choose a new or empty folder")


def _lock(beside: Path, out: Path) -> int:
    while True:
        beside.mkdir(exist_ok=True)
        try:
            descriptor = os.open(beside / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:  # whoever held it has just cleared it away
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise FolderBusy(f"{out}: another study is writing this folder; wait for it or choose another one") from None
        # The file may have been cleared away between opening and locking: then the lock is nobody's.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(beside / "lock").st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)


def _switch(folder: StudyFolder, old: Path, kind: str) -> None:
    sync_tree(folder.new)
    _require_ours(folder.target, kind)
    replaced = folder.target.exists()
    if replaced:
        os.rename(folder.target, old)
    try:
        os.rename(folder.new, folder.target)
    except BaseException:
        if replaced:
            os.rename(old, folder.target)
        raise
    sync_folder(folder.target.parent)


def write_table(table: pa.Table, target: Path) -> None:
    """Write a table as one Parquet file, whole or not at all; an earlier file of that name is replaced.

    Raises:
        UsageFault: there is a folder of that name.
        EnvironmentFault: it cannot be written.
    """
    if target.is_dir():
        raise UsageFault(f"{target}: is a folder; name a file such as {target / 'table.parquet'}")
    partial = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_parquet(table, partial)
        sync_folder(partial)
        os.replace(partial, target)
    except OSError as error:
        raise EnvironmentFault(f"{target}: the file cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
