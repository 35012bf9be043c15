"""What became of each run and attempt: `DIR/journal.jsonl`.

One JSON line an attempt that ended, the oldest first. The journal is there for people and monitors: nothing is computed from it,
a line that cannot be written stops no run, and one that cannot be read is passed over.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eloreplay.boards import archive_board, write_whole
from eloreplay.errors import BudgetExceeded, EloreplayError, EnvironmentFault
from eloreplay.instants import now_us, show_us
from eloreplay.publish import read_manifest
from eloreplay.published import published_us
from eloreplay.sources import OUTPUT_MARKER
from eloreplay.store import current_run

NAME = "journal.jsonl"
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


def rewrite(root: Path, lines: list[str]) -> None:
    """Put other lines in the journal's place, in one step, held against other processes for the moment that it takes.

    Raises:
        OSError: it cannot be written.
    """
    with _held(root / NAME):
        write_whole(root / NAME, "".join(f"{line}\n" for line in lines).encode())


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
        seconds = round(time.perf_counter() - started, 3)
        record(root, {"command": command, "outcome": PUBLISHED, "exit_code": 0, **entry, "seconds": seconds} | failure)


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
    found = {"run": manifest.get("run"), **{key: manifest.get(key) for key in FROM_MANIFEST}}
    return found | ({"rollback_of": manifest["rollback_of"]} if "rollback_of" in manifest else {})


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
            record(root, {**line, **wanted, "exit_code": 0, "message": "recorded afterwards, from its manifest"})
        archive_board(root, run)


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
        write_whole(path, b"".join(lines[-KEPT_LINES:]))
