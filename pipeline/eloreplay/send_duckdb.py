"""A run into one DuckDB file: written beside it and renamed over it, so that whoever has it open goes on reading what he had.

DuckDB lets nobody write into a file that another process reads, so there is nothing to be sent in part: the file is always made
as a whole, which takes about a second for a million games.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.queries import Database, failures, first_line, literal_path, quote, sql_text
from eloreplay.send_source import TIMELINE, Progress, RunFiles
from eloreplay.store import sync_folder

RUN, CHUNKS = "eloreplay_run", "eloreplay_chunks"


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Wait until nobody else writes a file into this folder; ends with the process, however that ends.

    Raises:
        EnvironmentFault: the folder is missing or cannot be read.
    """
    try:
        descriptor = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise EnvironmentFault(f"{path.absolute().parent}: {error.strerror}; make the folder first") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def what_is_there(path: Path) -> tuple[str, set[tuple[str, str, int]]] | None:
    """Run and files that the file holds; None when there is no file.

    Raises:
        UsageFault: it is a file that eloreplay did not make.
    """
    if "?" in str(path):
        raise UsageFault(f"--to {path}: DuckDB takes what stands behind a ? for settings: choose another name")
    if not os.path.lexists(path):
        return None
    try:
        with duckdb.connect(str(path.absolute()), read_only=True) as connection:
            run = connection.execute(f"select run from {RUN}").fetchall()
            known = connection.execute(f"select table_name, sha256, first_seq from {CHUNKS}").fetchall()
    except duckdb.IOException as error:
        if "lock" in str(error):
            raise EnvironmentFault(f"{path}: another process writes it: {first_line(error)}") from None
        raise _not_ours(path) from None
    except duckdb.Error:
        raise _not_ours(path) from None
    return str(run[0][0]), set(known)


def _not_ours(path: Path) -> UsageFault:
    return UsageFault(f"--to {path}: the file is there and eloreplay did not make it, so it was not touched: choose another")


def write(path: Path, files: RunFiles, progress: Progress, threads: int, memory_limit: str) -> int:
    """Put a run into the file's place; returns the rows written.

    Raises:
        EnvironmentFault: disk, permission, memory.
    """
    beside = path.absolute().parent / f".{path.name}-{os.getpid()}"
    # Of a publish that was killed; nobody else is at work here.
    for leftover in path.absolute().parent.iterdir():
        if re.fullmatch(rf"\.{re.escape(path.name)}-[0-9]+", leftover.name):
            _remove(leftover)
    try:
        rows = _fill(beside, files, progress, threads, memory_limit)
        sync_folder(beside)
        os.replace(beside, path)
        sync_folder(path.absolute().parent)
    except OSError as error:
        raise EnvironmentFault(f"{path}: {error.strerror}; what was published there is as it was") from None
    finally:
        _remove(beside)
    return rows


def _fill(beside: Path, files: RunFiles, progress: Progress, threads: int, memory_limit: str) -> int:
    total, done = sum(part.rows for part in files.parts), 0
    database = Database(beside, threads=threads, memory_limit=memory_limit, spill=beside.with_name(beside.name + ".tmp"))
    try:
        with failures(f"{beside.name}"):
            # The order of a table is the order of its file.
            database.execute("set preserve_insertion_order = true")
            for part in files.parts:
                made = f"create table if not exists {quote(part.table)} as select * from {{}} limit 0"
                rows = "read_parquet($path, hive_partitioning = false)"
                database.execute(made.format(rows), {"path": literal_path(part.path)})
                database.execute(f"insert into {quote(part.table)} select * from {rows}", {"path": literal_path(part.path)})
                done += part.rows
                progress("writing", done, total)
            query = sql_text("player_timeline")
            if not files.pool:
                # As in `ratings.duckdb`: one text serves both, where there is no pool it is added and taken off again.
                query = (
                    "select * exclude (pool) from (with timeline as (select null as pool, * from main.timeline), "
                    f"awards as (select null as pool, * from main.awards) select * from ({query}))"
                )
            database.execute(f"create view player_timeline as {query}")
            chunks = [
                {"table_name": part.table, "file": part.name, "sha256": part.sha256, "first_seq": part.first_seq}
                for part in files.parts
            ]
            database.put(CHUNKS, pa.Table.from_pylist(chunks))
            database.put("facts", pa.Table.from_pylist([files.facts()]))
            database.execute(
                f"create table {RUN} as select * replace "
                "(cast(as_of as timestamptz) as as_of, cast(made_at as timestamptz) as made_at) from facts"
            )
            database.execute("drop table facts")
            database.execute("checkpoint")
    finally:
        database.close()
    assert total == done
    assert files.of(TIMELINE)
    return done


def _remove(path: Path) -> None:
    for name in (path, path.with_name(path.name + ".wal")):
        with contextlib.suppress(OSError):
            name.unlink()
    with contextlib.suppress(OSError):
        path.with_name(path.name + ".tmp").rmdir()
