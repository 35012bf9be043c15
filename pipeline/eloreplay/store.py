"""The output folder: its lock, its runs and the one switch that publishes.

    DIR/eloreplay.json   says that the folder is ours
    DIR/lock             held (flock) by the run that is at work; says who
    DIR/work/            what that run has so far; the next run removes what a killed one left
    DIR/runs/000042/     a published run, never changed again
    DIR/current          link to the published run, replaced atomically
    DIR/refused/         the refused rows of a run that stopped because of them

Nothing outside `work` changes before the switch, so a failed or killed run leaves the last published result as it was.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eloreplay.errors import EnvironmentFault, FolderBusy, UsageFault
from eloreplay.instants import now_us, show_us
from eloreplay.sources import OUTPUT_MARKER as MARKER

FORMAT = 1
_RUN_NAME = re.compile(r"[0-9]{6,}")


class OutputFolder:
    """An output folder that this process holds; get one from `hold`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.run = self.work / "run"
        self.notes: list[str] = []

    @property
    def current(self) -> Path | None:
        """The published run's folder, or None before the first."""
        return current_run(self.root)

    def begin(self) -> Path:
        """Clear what a killed run left and make room for a new one; returns the folder to write into."""
        if self.work.is_symlink() or self.work.is_file():
            self.work.unlink()
        elif self.work.exists():
            shutil.rmtree(self.work)
        current = self.current
        for folder in self._runs():
            # A run beyond the current one was moved into place and never switched to: nobody has seen it.
            if current is None or int(folder.name) > int(current.name):
                shutil.rmtree(folder)
        for pattern in (".current-*", f".{MARKER}-*", "boards/.*-*", ".journal*-*"):
            for leftover in self.root.glob(pattern):
                leftover.unlink()
        self.run.mkdir(parents=True)
        return self.run

    def next_run(self) -> Path:
        """Where the run will stand when it is published."""
        current = self.current
        return self.root / "runs" / f"{1 if current is None else int(current.name) + 1:06d}"

    def publish(self, keep: int) -> Path:
        """Move the run into place, switch `current` to it and drop what is older than the last `keep` runs.

        A run that somebody reads for long (`reading`) stays until a later one is published.
        """
        target = self.next_run()
        target.parent.mkdir(exist_ok=True)
        sync_tree(self.run)
        try:
            os.rename(self.run, target)
        except OSError as error:
            raise EnvironmentFault(f"{target}: the finished run cannot be put in its place: {error.strerror}") from None
        sync_folder(target.parent)
        link = self.root / f".current-{os.getpid()}"
        try:
            os.symlink(f"runs/{target.name}", link)
            os.replace(link, self.root / "current")
        except BaseException:
            # Not published: what nobody has seen must not stay (the next run would remove it as well).
            shutil.rmtree(target, ignore_errors=True)
            raise
        sync_folder(self.root)
        # Published. What cannot be removed now is removed by the next run, and is no failure of this one.
        for folder in self._runs()[:-keep]:
            _drop(folder)
        shutil.rmtree(self.root / "refused", ignore_errors=True)
        self.clean()
        return target

    def clean(self) -> None:
        """Drop the work folder."""
        shutil.rmtree(self.work, ignore_errors=True)

    def _runs(self) -> list[Path]:
        folder = self.root / "runs"
        if not folder.is_dir():
            return []
        return sorted((path for path in folder.iterdir() if _RUN_NAME.fullmatch(path.name)), key=lambda path: int(path.name))

    def require_space(self, needed: int) -> None:
        """Refuse to start what cannot end.

        Raises:
            EnvironmentFault: less than `needed` bytes are free.
        """
        free = shutil.disk_usage(self.root).free
        if free < needed:
            raise EnvironmentFault(
                f"{self.root}: about {needed >> 20} MiB are needed for this run and {free >> 20} MiB are free; nothing was started"
            )


def current_run(root: Path) -> Path | None:
    """The published run of an output folder, resolved, or None before the first.

    Raises:
        UsageFault: `current` is something else than a link to a run of this folder (a copy that followed the link, say).
    """
    link = root / "current"
    if not os.path.lexists(link):
        return None
    where = Path(os.readlink(link)) if link.is_symlink() else Path()
    if len(where.parts) == 2 and where.parts[0] == "runs" and _RUN_NAME.fullmatch(where.name) and (root / where).is_dir():
        return root / where
    raise UsageFault(
        f"{link}: does not lead to a published run of this folder ({where if link.is_symlink() else 'it is no link'}), so nothing "
        "here is touched: make it a link to the run that is in force (ln -sfn runs/000001 current) or choose another --out"
    )


@contextlib.contextmanager
def reading(root: Path, kept: Path | None = None) -> Iterator[Path | None]:
    """The published run of `root`, or its run `kept`, kept from being dropped for the length of the block; None before the first.

    Any number of readers may do this at once, and no run has to wait for them. The hold is a shared `flock` on the run's folder:
    it needs no right to write, and it ends with the process however that ends.

    Raises:
        UsageFault: `current` is no link to a run; the run `kept` has been dropped.
    """
    while True:
        run = current_run(root) if kept is None else kept
        if run is None:
            yield None
            return
        try:
            descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            if kept is not None:
                raise UsageFault(f"{kept}: the run is no longer kept") from None
            continue  # dropped since the link was read: another one is in force
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # it is being dropped
            except OSError:
                pass  # a file system without locks: read as before there were any
            if not _is_at(descriptor, run):
                continue
            yield run
            return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open folder still stands at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _drop(run: Path) -> None:
    """Remove a run that is kept no longer, unless somebody reads it."""
    try:
        descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
        shutil.rmtree(run, ignore_errors=True)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold(root: Path) -> Iterator[OutputFolder]:
    """Hold an output folder for the length of a run; makes it when it does not exist.

    The lock belongs to the process: it ends with it however it ends, so a stale one is simply taken over (and noted).

    Raises:
        UsageFault: the folder holds something that is not ours.
        FolderBusy: another run holds it.
        EnvironmentFault: it cannot be made or locked.
    """
    claim(root)
    try:
        descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise EnvironmentFault(f"{root}: the lock cannot be made: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise EnvironmentFault(f"{root}: the folder cannot be locked on this file system: {error.strerror}") from None
            raise FolderBusy(
                f"{root}: another run holds this folder ({_holder(descriptor) or 'it has just begun'}); wait for it or choose "
                "another --out"
            ) from None
        folder = OutputFolder(root)
        left = _holder(descriptor)
        if left:
            folder.notes.append(f"took over the lock of a run that ended without giving it back ({left})")
        os.ftruncate(descriptor, 0)
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": show_us(now_us()), "began": _began(os.getpid())}
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield folder
        os.ftruncate(descriptor, 0)
    except BaseException as error:
        # A run that fails gives the lock back in order; only a killed one leaves its name in it.
        if not isinstance(error, FolderBusy):
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
        raise
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0) or b"null")
    except ValueError:
        return "its name cannot be read"
    if not isinstance(holder, dict):
        return ""
    return f"process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')}"


def at_work(root: Path) -> dict[str, Any] | None:
    """Which run holds the folder now: `pid`, `host`, `since`, and whether that is `certain`; None: nobody does.

    Looks without touching the lock, for whoever tried it could turn away a run that begins at that moment. A process of this
    machine is asked for; of another machine's it is only known that it has not given the lock back.
    """
    try:
        holder = json.loads((root / "lock").read_bytes()[:4096] or b"null")
    except (OSError, ValueError):
        return None
    if not isinstance(holder, dict) or not isinstance(holder.get("pid"), int) or holder["pid"] < 1:
        return None
    here = holder.get("host") == socket.gethostname()
    if here and not _is_alive(holder["pid"], holder.get("began")):
        return None
    return {"pid": holder["pid"], "host": holder.get("host"), "since": holder.get("since"), "certain": here}


def _is_alive(pid: int, began: int | None) -> bool:
    """Whether that process is still there; another one that has got its number since began at another moment."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # somebody else's
    return began is None or _began(pid) in (None, began)


def _began(pid: int) -> int | None:
    """When a process began, in the system's own units; -1 when it has ended, None where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return -1 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def claim(root: Path) -> None:
    """Make sure that the folder is ours, or empty, in which case it becomes ours.

    Raises:
        UsageFault: it holds something else; nothing is touched.
        EnvironmentFault: it cannot be made or written.
    """
    marker = root / MARKER
    try:
        str(root.absolute()).encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(root).decode("utf-8", "backslashreplace")
        raise UsageFault(f"{shown}: the folder's name is not UTF-8; choose another --out") from None
    if "\\" in str(root.absolute()):
        raise UsageFault(f"{root}: the path has a backslash, which DuckDB takes for a slash; choose another --out")
    try:
        root.mkdir(parents=True, exist_ok=True)
        if marker.is_file():
            content = json.loads(marker.read_text(encoding="utf-8") or "{}")
            found = content.get("format", FORMAT) if isinstance(content, dict) else None
            if found != FORMAT:
                raise UsageFault(f"{root}: made by another version of eloreplay (format {found}, this one writes {FORMAT})")
            return
        # A run that was killed, or met a full disk, at this very place has left a marker that was not yet in force; and a fresh
        # file system has a folder of its own.
        strangers = sorted(
            path.name for path in root.iterdir() if not path.name.startswith(f".{MARKER}-") and path.name != "lost+found"
        )
        if strangers:
            raise UsageFault(
                f"{root}: the folder is not empty and not one of ours (it holds {', '.join(strangers[:3])}"
                f"{', …' if len(strangers) > 3 else ''}); choose an empty or new folder for --out"
            )
        partial = root / f".{MARKER}-{os.getpid()}"
        partial.write_text(json.dumps({"format": FORMAT}) + "\n", encoding="utf-8")
        # Another run that began at the same instant may have put its own marker there and cleared ours away.
        with contextlib.suppress(FileNotFoundError):
            os.replace(partial, marker)
    except (FileExistsError, NotADirectoryError):
        raise UsageFault(f"{root}: not a folder") from None
    except ValueError:
        raise UsageFault(f"{marker}: cannot be read; is the folder one of ours?") from None
    except OSError as error:
        raise EnvironmentFault(f"{root}: the folder cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def database_home(folder: Path) -> Iterator[Path]:
    """A folder that DuckDB can keep a database in: `folder`, unless its path has a "?", behind which DuckDB expects settings.

    Then it is a temporary folder, removed at the end.
    """
    if "?" not in str(folder.resolve()):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="eloreplay-") as elsewhere:
        yield Path(elsewhere)


def sync_tree(folder: Path) -> None:
    """Have every file and folder below on the disk before anything points to them."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync_folder(Path(parent) / name)
        sync_folder(Path(parent))


def sync_folder(path: Path) -> None:
    """`fsync` of a file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
