"""The normalised rows that a run keeps, chunk by chunk, and the sorted keys by which a game id is looked up in years of history.

Keys are the ids themselves where they are integers, else a 64-bit hash of the text. A key only says where to look: what is found
there is compared by the id itself, so two ids of one key cost a look and nothing else.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eloreplay.chunks import DAY_US, FOLD, Chunk
from eloreplay.queries import Database, literal_path
from eloreplay.tables import ROW_GROUP_ROWS, kept_file, parquet_writer, write_parquet

#: Rows that are fetched by one query.
STRETCH_ROWS = 1_000_000
UNDATED = "undated"


def key_check(database: Database) -> str:
    """The hash of a few fixed texts: if it changes with a new DuckDB, the keys of older chunks must be made anew."""
    ((found,),) = database.connection.execute(
        "select concat_ws(' ', hash('eloreplay'), hash('ж'), hash(repeat('tavla', 20)))"
    ).fetchall()
    return str(found)


def rows_path(run: Path, chunk: Chunk) -> Path:
    """Where a chunk's rows are."""
    return run / FOLD / "rows" / f"{chunk.stem}.parquet"


def ids_path(run: Path, chunk: Chunk) -> Path:
    """Where the sorted keys of a chunk's game ids are."""
    return run / FOLD / "ids" / f"{chunk.stem}.npy"


def undated_path(run: Path) -> Path:
    """Where the rows that belong to no chunk are."""
    return run / FOLD / "rows" / f"{UNDATED}.parquet"


@dataclass
class _Part:
    """A part of a chunk that is fetched in one go."""

    chunk: Chunk
    from_us: int
    to_us: int
    rows: int
    closes: bool


def write_rows(database: Database, run: Path, chunks: Sequence[Chunk], day_rows: Mapping[int, int]) -> dict[int, tuple[Any, Any]]:
    """Write rows and keys of `chunks` from the view `kept_rows`.

    Args:
        database: with `kept_rows`.
        run: the run's folder.
        chunks: what to write, in order, each with at least one row.
        day_rows: rows by UTC day, to fetch large chunks in parts.

    Returns:
        Least and greatest game id by the chunks' first instants.
    """
    for name in ("rows", "ids"):
        (run / FOLD / name).mkdir(parents=True, exist_ok=True)
    bounds: dict[int, tuple[Any, Any]] = {}
    with ThreadPoolExecutor(1) as thread:
        writer = _Writer(run)
        pending: Future[None] | None = None
        for group in _groups(_parts(chunks, day_rows)):
            rows = database.arrow("chunk_rows", {"from_us": group[0].from_us, "to_us": group[-1].to_us})
            if pending is not None:
                pending.result()
            pending = thread.submit(writer.take, group, rows)
        if pending is not None:
            pending.result()
        bounds = writer.bounds
    return bounds


def _parts(chunks: Sequence[Chunk], day_rows: Mapping[int, int]) -> Iterator[_Part]:
    days = sorted(day_rows)
    starts = np.array(days, np.int64)
    for chunk in chunks:
        if chunk.rows <= STRETCH_ROWS:
            yield _Part(chunk, chunk.from_us, chunk.to_us, chunk.rows, True)
            continue
        first, last = np.searchsorted(starts, [chunk.from_us // DAY_US, -(-chunk.to_us // DAY_US)])
        start, size = chunk.from_us, 0
        for day in days[first:last]:
            if size and size + day_rows[day] > STRETCH_ROWS:
                yield _Part(chunk, start, day * DAY_US, size, False)
                start, size = day * DAY_US, 0
            size += day_rows[day]
        yield _Part(chunk, start, chunk.to_us, size, True)


def _groups(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    group: list[_Part] = []
    size = 0
    for part in parts:
        # Only what touches is fetched together: between two chunks may lie others that stay as they are.
        if group and (size + part.rows > STRETCH_ROWS or part.from_us != group[-1].to_us):
            yield group
            group, size = [], 0
        group.append(part)
        size += part.rows
    if group:
        yield group


class _Writer:
    """Writes what was fetched, on a thread of its own."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._file: Any = None
        self._keys: list[NDArray[Any]] = []
        self._bounds: list[tuple[Any, Any]] = []
        self.bounds: dict[int, tuple[Any, Any]] = {}

    def take(self, group: list[_Part], rows: pa.Table) -> None:
        """Write the parts of a group from the rows of its stretch."""
        played = rows["played_us"].to_numpy()
        edges = np.searchsorted(played, [part.to_us for part in group], side="left").tolist()
        first = 0
        for part, last in zip(group, edges, strict=True):
            self._append(part, rows.slice(first, last - first))
            first = last

    def _append(self, part: _Part, rows: pa.Table) -> None:
        kept = rows.drop_columns(["id_key"])
        if self._file is None:
            self._file = parquet_writer(rows_path(self._run, part.chunk), kept.schema)
        self._file.write_table(kept, row_group_size=ROW_GROUP_ROWS)
        self._keys.append(_keys(rows))
        if rows.num_rows:
            self._bounds.append(id_bounds(rows["game_id"]))
        if part.closes:
            self._file.close()
            self._file = None
            content = io.BytesIO()
            np.save(content, np.sort(np.concatenate(self._keys)))
            # Not np.save to the file itself: on a full disk its error does not say so.
            ids_path(self._run, part.chunk).write_bytes(content.getbuffer())
            self.bounds[part.chunk.from_us] = (min(low for low, _ in self._bounds), max(high for _, high in self._bounds))
            self._keys, self._bounds = [], []


def _keys(rows: pa.Table) -> NDArray[Any]:
    """The keys of the rows' ids: int64 for integers, else uint64; `(n_rows,)`."""
    name = "game_id" if pa.types.is_integer(rows.schema.field("game_id").type) else "id_key"
    return np.asarray(rows[name].to_numpy())


def id_bounds(ids: pa.ChunkedArray) -> tuple[Any, Any]:
    """Least and greatest id, text by its UTF-8 bytes."""
    if pa.types.is_integer(ids.type):
        found = pc.min_max(ids)
        return found["min"].as_py(), found["max"].as_py()
    found = pc.min_max(ids.cast(pa.large_binary()))
    return found["min"].as_py().decode(), found["max"].as_py().decode()


def write_undated(database: Database, run: Path) -> None:
    """Write the rows that belong to no chunk."""
    (run / FOLD / "rows").mkdir(parents=True, exist_ok=True)
    write_parquet(database.arrow("undated_rows"), undated_path(run))


def chunks_with(run: Path, chunks: Sequence[Chunk], ids: pa.Table) -> list[Chunk]:
    """The chunks that may hold one of the ids.

    Args:
        run: the run that keeps them.
        chunks: where to look.
        ids: columns `game_id` and `id_key` (the hash), none NULL.
    """
    if ids.num_rows == 0:
        return []
    keys = np.sort(_keys(ids))
    low, high = id_bounds(ids["game_id"])
    found = []
    for chunk in chunks:
        # As text is ordered by its code points here and by its bytes in UTF-8, which is the same order.
        if chunk.rows == 0 or chunk.id_low > high or chunk.id_high < low:
            continue
        with kept_file(ids_path(run, chunk)):
            known = np.load(ids_path(run, chunk), mmap_mode="r")
        at = np.searchsorted(known, keys)
        inside = at < known.size
        if bool((known[at[inside]] == keys[inside]).any()):
            found.append(chunk)
    return found


def whole_neighbours(run: Path, chunks: Sequence[Chunk], wanted: int) -> tuple[int | None, int | None]:
    """The whole-number ids next below and next above one that no row has, by the sorted ids of the chunks; None at an end."""
    below, above = [], []
    for chunk in chunks:
        if not chunk.rows:
            continue
        with kept_file(ids_path(run, chunk)):
            known = np.load(ids_path(run, chunk), mmap_mode="r")
        at = int(np.searchsorted(known, wanted))
        if at:
            below.append(int(known[at - 1]))
        if at < known.size:
            above.append(int(known[at]))
    return max(below, default=None), min(above, default=None)


def files_sql(paths: Iterable[Path]) -> str:
    """Paths of ours as an SQL list for read_parquet."""
    return "[" + ", ".join("'" + literal_path(path).replace("'", "''") + "'" for path in paths) + "]"


def link(source: Path, target: Path) -> None:
    """Give a file that never changes a second name; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copy2(source, target)
