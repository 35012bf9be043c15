"""What became of each run and attempt (`DIR/journal.jsonl`), and every board that was ever published (`DIR/boards`).

One JSON line an attempt that ended, the oldest first. The journal is there for people and monitors: nothing is computed from it,
a line that cannot be written stops no run, and one that cannot be read is passed over. Boards are copies of the published
leaderboards; each says in its own footer of which run it is and when it was published, so it needs no journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.errors import BudgetExceeded, EloreplayError, EnvironmentFault
from eloreplay.instants import now_us, parse_us, show_us
from eloreplay.publish import read_manifest
from eloreplay.sources import OUTPUT_MARKER
from eloreplay.store import current_run, sync_folder

NAME = "journal.jsonl"
BOARDS = "boards"
#: Lines that are kept: thirteen years of nights.
KEPT_LINES = 5_000
#: Longest message of a line, in characters.
MESSAGE_CHARS = 1_000

PUBLISHED = "published"
NOTHING_NEW = "nothing new"
OVER_BUDGET = "stopped by budget"
REFUSED = "refused"
FAILED = "failed"
#: Outcomes of a run that ended as it should.
GOOD = (PUBLISHED, NOTHING_NEW)
#: What a line takes over from a manifest.
FROM_MANIFEST = ("as_of", "rows_read", "bins")
_BOARD_NAME = re.compile(r"[0-9]{6,}(-[0-9]+)?\.parquet")


# ---------------------------------------------------------------- the journal


def record(root: Path, entry: dict[str, Any]) -> bool:
    """Add a line to the journal of an output folder; `time` (now) is put in front unless the entry has it.

    Lines of several processes do not mix, and the journal keeps its last `KEPT_LINES`.

    Returns:
        Whether the line stands on the disk. It does not when the folder is not one of ours, or cannot be written: then there is
        nowhere to say so, and whatever is being recorded has ended anyway.
    """
    if not (root / OUTPUT_MARKER).is_file():
        return False
    line = json.dumps({"time": show_us(now_us()), **entry}, default=str) + "\n"
    try:
        with _held(root / NAME) as stream:
            end = stream.seek(0, os.SEEK_END)
            if end and os.pread(stream.fileno(), 1, end - 1) != b"\n":
                line = "\n" + line  # what a killed process began to write ends here
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())
            _shorten(root / NAME, stream)
    except OSError:
        return False
    return True


def entries(root: Path) -> list[dict[str, Any]]:
    """The journal's lines, oldest first; none where there is no journal. A damaged line is passed over.

    Raises:
        EnvironmentFault: it may not be read.
    """
    try:
        lines = (root / NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise EnvironmentFault(f"{root / NAME}: {error.strerror}") from None
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


@contextlib.contextmanager
def attempt(root: Path, command: str) -> Iterator[dict[str, Any]]:
    """Record how the block ends, whatever happens in it; what the block puts into the dict that it gets stands in the line.

    Without an exception the outcome is "published" unless the block has set `outcome` itself. An exception says it by its
    class, with the exit code and the first line of its message, and goes on its way.
    """
    started = time.perf_counter()
    entry: dict[str, Any] = {}
    failure: dict[str, Any] = {}
    try:
        yield entry
    except BaseException as error:
        failure = _of_failure(error)
        raise
    finally:
        line = {
            "command": command,
            "outcome": PUBLISHED,
            **entry,
            "seconds": round(time.perf_counter() - started, 3),
            "exit_code": 0,
        }
        record(root, line | failure)


def _of_failure(error: BaseException) -> dict[str, Any]:
    if isinstance(error, EloreplayError):
        code = error.exit_code
        outcome = OVER_BUDGET if isinstance(error, BudgetExceeded) else FAILED if code == EnvironmentFault.exit_code else REFUSED
    else:
        code, outcome = (130 if isinstance(error, KeyboardInterrupt) else EnvironmentFault.exit_code), FAILED
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return {"outcome": outcome, "exit_code": code, "message": text[:MESSAGE_CHARS]}


def of_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """What a published run's line says of it."""
    return {"run": manifest.get("run"), **{key: manifest.get(key) for key in FROM_MANIFEST}}


def repair(root: Path) -> None:
    """Give the published run its line and its board, should the process have been killed between publishing and writing them.

    Call it while the folder is held. What cannot be read or written is left as it is, like in `record`.
    """
    with contextlib.suppress(EloreplayError, OSError):
        run = current_run(root)
        if run is None:
            return
        manifest = read_manifest(run)
        wanted = of_manifest(manifest)
        # The counts as well: a number is given again when somebody points `current` at an older run by hand.
        if not any(entry.get("outcome") == PUBLISHED and wanted.items() <= entry.items() for entry in entries(root)):
            line = {"time": show_us(published_us(run, manifest)), "command": manifest.get("kind", "backfill"), "outcome": PUBLISHED}
            record(
                root, {**line, **wanted, "exit_code": 0, "message": "recorded later: the run was cut off after it had published"}
            )
        archive_board(root, run)


def published_us(run: Path, manifest: dict[str, Any]) -> int:
    """When a run was published, in microseconds: its manifest says it, else the manifest's age does."""
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        return parse_us(manifest["made_at"])
    return (run / "manifest.json").stat().st_mtime_ns // 1000


@contextlib.contextmanager
def _held(path: Path) -> Iterator[io.FileIO]:
    """The journal, open for adding and held against other processes for the moment that a line takes."""
    while True:
        with open(path, "ab+", buffering=0) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            # While this process waited, another one may have put a shorter journal in its place.
            if path.exists() and os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                yield stream
                return


def _shorten(path: Path, stream: io.FileIO) -> None:
    """Put the last lines in the journal's place, in one step, when there are too many."""
    stream.seek(0)
    lines = stream.readall().splitlines(keepends=True)
    if len(lines) > KEPT_LINES:
        _write_whole(path, b"".join(lines[-KEPT_LINES:]))


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        partial.write_bytes(content)
        sync_folder(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


# ---------------------------------------------------------------- the boards


def archive_board(root: Path, run: Path) -> Path | None:
    """Copy a published run's leaderboard to `DIR/boards/000042.parquet`, for good; a second call does nothing.

    The copy's footer says of which run it is, when that was published and what as-of it had. Where a run number is given a second
    time (somebody has pointed `current` at an older run by hand), the second board gets a name of its own.

    Returns:
        The copy, or None when it cannot be written.

    Raises:
        EnvironmentFault: the run's manifest or leaderboard cannot be read.
    """
    manifest = read_manifest(run)
    about = {
        "run": str(manifest.get("run", run.name)),
        "published_at": show_us(published_us(run, manifest)),
        "as_of": manifest.get("as_of"),
        "rules": manifest.get("rules", {}).get("name"),
    }
    try:
        with (run / "leaderboard.parquet").open("rb") as file:
            table = pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise EnvironmentFault(f"{run / 'leaderboard.parquet'}: the published leaderboard cannot be read: {error}") from None
    folder = root / BOARDS
    number = 1
    while True:
        path = folder / (f"{run.name}.parquet" if number == 1 else f"{run.name}-{number}.parquet")
        if not path.exists():
            break
        if about_board(path) == about:
            return path
        number += 1
    content = io.BytesIO()
    with pq.ParquetWriter(content, table.schema, compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"eloreplay": json.dumps(about)})
    try:
        folder.mkdir(exist_ok=True)
        _write_whole(path, content.getvalue())
    except OSError:
        return None
    return path


def about_board(path: Path) -> dict[str, Any] | None:
    """What an archived board says of itself: `run`, `published_at`, `as_of`, `rules`; None when it is none of ours or damaged."""
    try:
        with path.open("rb") as file:
            about = json.loads((pq.read_metadata(file).metadata or {}).get(b"eloreplay", b"null"))
    except (OSError, ValueError, pa.ArrowException):
        return None
    return about if isinstance(about, dict) else None


def boards(root: Path) -> list[Path]:
    """The archived boards by run number."""
    folder = root / BOARDS
    found = [path for path in folder.iterdir() if _BOARD_NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: [int(part) for part in path.stem.split("-")])


def board_of(root: Path, instant_us: int) -> Path | None:
    """The board that stood published at an instant: the last one published not after it; None before the first."""
    best: tuple[int, int] | None = None
    found = boards(root)
    for number, path in enumerate(found):
        about = about_board(path)
        with contextlib.suppress(TypeError, KeyError, ValueError, AttributeError):
            published = parse_us((about or {})["published_at"])
            if published <= instant_us and (best is None or (published, number) > best):
                best = published, number
    return None if best is None else found[best[1]]
