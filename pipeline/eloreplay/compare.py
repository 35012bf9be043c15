"""Are two runs equal? Every table, row by row and value by value, floats bit by bit; the first difference as a sentence.

What "equal" means is the contract's: same schema, same rows in the same order, every value exactly. How the timeline is cut into
files does not matter; refused rows are compared without `file` and `row` and in any order; `changes` is left out, for it
compares with the run before. Files with the very same bytes are not decoded, and nothing is ever held in memory whole.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eloreplay.errors import EnvironmentFault
from eloreplay.instants import show_us
from eloreplay.publish import read_manifest
from eloreplay.queries import DEFAULT_MEMORY, Database, literal_path, quote
from eloreplay.tables import INSTANT

#: The tables in the order in which they are compared; any other Parquet file of a run comes after them.
TABLES = ("timeline", "players", "leaderboard", "awards", "calibration", "summary", "rejected", "rejected_awards")
#: Not compared: what differs by its nature.
LEFT_OUT = frozenset({"changes"})
#: Compared without their place in the input, and in any order.
UNORDERED = frozenset({"rejected", "rejected_awards"})
PLACE = ("file", "row")
#: Columns that say which row is meant, for the sentence.
KEYS = {
    "timeline": ("pool", "game_id"),
    "players": ("pool", "player_id"),
    "leaderboard": ("pool", "player_id"),
    "awards": ("pool", "award_id", "player_id"),
    "calibration": ("pool", "slice", "slice_value", "axis", "bin_low"),
    "summary": ("pool", "statistic", "slice", "slice_value"),
    "rejected": ("pool", "game_id", "reason"),
    "rejected_awards": ("pool", "award_id", "reason"),
}
#: Keys of the manifests that must agree.
COUNTS = ("rows_read", "bins", "award_bins")
BATCH_ROWS = 128 * 1024
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Difference:
    """Where two runs differ first.

    Attributes:
        table: name of the table, or "manifest".
        text: what differs, as a sentence without its subject.
        row: number of the row from 0, where there is one.
        column: the column, where it is one column's value.
        left: its value in the first run; None also when the row is not there.
        right: likewise in the second run.
        key: what tells which row is meant (`{"game_id": …}`), by the first run, or by the second where the first has no such row.
    """

    table: str
    text: str
    row: int | None = None
    column: str | None = None
    left: Any = None
    right: Any = None
    key: dict[str, Any] | None = None

    def __str__(self) -> str:
        where = self.table
        if self.row is not None:
            where += f", row {self.row}"
        if self.key:
            where += " (" + ", ".join(f"{name} {shown(value)}" for name, value in self.key.items()) + ")"
        return f"{where}: {self.text}"


class _Unreadable(Exception):
    """A file of one of the runs cannot be read: a difference, too, and no fault of whoever compares."""

    def __init__(self, path: Path, error: Exception) -> None:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        super().__init__(f"{path.name} of one run cannot be read ({path}: {first})")


def compare_runs(left: Path, right: Path, names: tuple[str, str] = ("the first run", "the second run")) -> Difference | None:
    """The first difference of two run folders, or None when they are equal.

    Args:
        left: a run's folder.
        right: another run's folder.
        names: what the sentence calls the two.

    Raises:
        EnvironmentFault: a manifest or a file may not be read; memory or disk, for a very long list of refused rows.
    """
    for table in _tables(left, right):
        try:
            found = _compare_table(table, left, right, names)
        except _Unreadable as error:
            found = Difference(table, str(error))
        if found is not None:
            return found
    return _compare_counts(read_manifest(left), read_manifest(right), names)


def _tables(left: Path, right: Path) -> list[str]:
    """All tables of both runs: the known ones first, in their order."""
    present = {path.stem for run in (left, right) for path in run.glob("*.parquet")} | {"timeline"}
    known = [name for name in TABLES if name in present]
    return known + sorted(present - set(TABLES) - LEFT_OUT)


def _files(run: Path, table: str) -> list[Path]:
    """A table's files in order."""
    if table == "timeline":
        folder = run / "timeline"
        return sorted(path for path in folder.iterdir() if path.suffix == ".parquet") if folder.is_dir() else []
    path = run / f"{table}.parquet"
    return [path] if path.is_file() else []


def _compare_table(table: str, left: Path, right: Path, names: tuple[str, str]) -> Difference | None:
    sides = _files(left, table), _files(right, table)
    missing = [name for name, files in zip(names, sides, strict=True) if not files]
    if missing:
        return Difference(table, f"the table is missing in {' and in '.join(missing)}")
    found = _compare_schemas(table, *sides, names)
    if found is not None:
        return found
    if table in UNORDERED:
        return None if same_bytes(sides[0][0], sides[1][0]) else _compare_unordered(table, sides[0][0], sides[1][0], names)
    return _compare_ordered(table, *sides, names)


# ---------------------------------------------------------------- schema


def _compare_schemas(table: str, left: list[Path], right: list[Path], names: tuple[str, str]) -> Difference | None:
    """Every file of both sides must have the schema of the first: names, types, and whether a column may be NULL, in order."""
    wanted = _fields(_schema(left[0]))
    for side, path in [*((0, path) for path in left[1:]), *((1, path) for path in right)]:
        found = _fields(_schema(path))
        for number, pair in enumerate(zip_longest(wanted, found, fillvalue=("", "missing"))):
            if pair[0] != pair[1]:
                return Difference(
                    table,
                    f"the schema differs: column {number + 1} is {pair[0][1]} in {names[0]} ({left[0].name}) and {pair[1][1]} in "
                    f"{names[side]} ({path.name})",
                    column=pair[0][0] or pair[1][0],
                )
    return None


def _fields(schema: pa.Schema) -> list[tuple[str, str]]:
    """Each column's name, and all that must agree about it."""
    return [(field.name, f"{field.name!r} {field.type}" + ("" if field.nullable else " not null")) for field in schema]


def _schema(path: Path) -> pa.Schema:
    with _opened(path) as file:
        return file.schema_arrow


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        # With pre_buffer what has been read of a file stays in memory until its end. No Python file: see `tables.read_parquet`.
        with pa.OSFile(str(path), "rb") as stream, pq.ParquetFile(stream, pre_buffer=False) as file:
            yield file
    except PermissionError:
        raise EnvironmentFault(f"{path}: no permission to read the file") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _Unreadable(path, error) from None


# ---------------------------------------------------------------- tables in order


class _Rows:
    """The rows of some files one after the other, as far as they have been asked for; the next batch is read meanwhile."""

    def __init__(self, files: list[Path]) -> None:
        self.files = list(files)
        self._thread = ThreadPoolExecutor(1)
        self._batches: Generator[pa.RecordBatch] | None = None
        self._pending: Future[pa.RecordBatch | None] | None = None
        self._rest: pa.RecordBatch | None = None

    def at_start_of_file(self) -> bool:
        """Whether the next row is the first one of `files[0]`, and that file is not open yet."""
        self._fetch()
        return self._batches is None and bool(self.files)

    def skip_file(self) -> int:
        """Pass the next file over, which is not open yet; returns its rows."""
        with _opened(self.files.pop(0)) as file:
            return int(file.metadata.num_rows)

    def peek(self) -> pa.RecordBatch | None:
        """Some of the rows that come next, at least one; None at the very end."""
        while self._rest is None and self.files:
            if self._batches is None:
                self._batches = self._read(self.files[0])
                self._ask()
            self._fetch()
        return self._rest

    def take(self, n: int) -> None:
        """`n` of the rows that were shown are done with."""
        assert self._rest is not None
        self._rest = self._rest.slice(n) if n < self._rest.num_rows else None

    def close(self) -> None:
        """End the reading; what is being read is waited for."""
        self._thread.shutdown(wait=True)
        if self._batches is not None:
            self._batches.close()

    def _fetch(self) -> None:
        """Have the open file's next rows at hand; where it has no more, it is closed."""
        if self._rest is not None or self._pending is None:
            return
        self._rest = self._pending.result()
        if self._rest is not None:
            self._ask()
        else:
            self._batches = self._pending = None
            self.files.pop(0)

    def _ask(self) -> None:
        batches = self._batches
        assert batches is not None
        self._pending = self._thread.submit(lambda: next(batches, None))

    @staticmethod
    def _read(path: Path) -> Generator[pa.RecordBatch]:
        with _opened(path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                if batch.num_rows:
                    yield batch


def _compare_ordered(table: str, left_files: list[Path], right_files: list[Path], names: tuple[str, str]) -> Difference | None:
    """Both sides side by side, whatever the cut into files."""
    left, right = _Rows(left_files), _Rows(right_files)
    row = 0
    try:
        while True:
            while left.at_start_of_file() and right.at_start_of_file() and same_bytes(left.files[0], right.files[0]):
                row += left.skip_file()
                right.files.pop(0)
            batches = left.peek(), right.peek()
            a, b = batches
            if a is None or b is None:
                return _one_is_longer(table, row, batches, left_files, right_files, names)
            n = min(a.num_rows, b.num_rows)
            found = _first_difference(table, a.slice(0, n), b.slice(0, n), row, names)
            if found is not None:
                return found
            left.take(n)
            right.take(n)
            row += n
    finally:
        left.close()
        right.close()


def _one_is_longer(
    table: str,
    row: int,
    batches: tuple[pa.RecordBatch | None, pa.RecordBatch | None],
    left: list[Path],
    right: list[Path],
    names: tuple[str, str],
) -> Difference | None:
    for side, batch in enumerate(batches):
        if batch is not None:
            counts = [sum(_row_count(path) for path in files) for files in (left, right)]
            text = f"only {names[side]} has this row ({counts[0]} rows in {names[0]}, {counts[1]} in {names[1]})"
            return Difference(table, text, row=row, key=_key(table, batch, 0))
    return None


def _row_count(path: Path) -> int:
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def _first_difference(
    table: str, left: pa.RecordBatch, right: pa.RecordBatch, first_row: int, names: tuple[str, str]
) -> Difference | None:
    """The first value that differs in batches of one schema and length: the topmost row, and of it the leftmost column."""
    best: tuple[int, int] | None = None
    for number in range(left.num_columns):
        a, b = exact(left.column(number)), exact(right.column(number))
        if a.equals(b):
            continue
        at = _first_unequal(a, b)
        if best is None or at < best[0]:
            best = at, number
    if best is None:
        return None
    at, number = best
    values = _plain(left.column(number)[at]), _plain(right.column(number)[at])
    name = left.schema.names[number]
    return Difference(
        table,
        f"{name} is {shown_pair(*values, names)}",
        row=first_row + at,
        column=name,
        left=values[0],
        right=values[1],
        key=_key(table, left, at),
    )


def exact(values: pa.Array) -> pa.Array:
    """An array that is equal to another exactly when every value is: floats as their bits, so that -0.0 is not 0.0."""
    if pa.types.is_float64(values.type):
        return values.view(pa.int64())
    if pa.types.is_float32(values.type):
        return values.view(pa.int32())
    return values


def _first_unequal(left: pa.Array, right: pa.Array) -> int:
    """Index of the first unequal pair of arrays that are not equal; NULL equals only NULL."""
    unequal = pc.fill_null(pc.not_equal(left, right), False)
    one_null = pc.xor(pc.is_null(left), pc.is_null(right))
    return int(pc.index(pc.or_(unequal, one_null), True).as_py())


def _key(table: str, batch: pa.RecordBatch, at: int) -> dict[str, Any]:
    return {name: _plain(batch.column(name)[at]) for name in KEYS.get(table, ()) if name in batch.schema.names}


def _plain(value: pa.Scalar) -> Any:
    """A value as Python knows it; an instant as text, for the years that a column can hold reach further than a calendar here."""
    return show_us(value.value) if value.is_valid and value.type == INSTANT else value.as_py()


# ---------------------------------------------------------------- tables in any order


def _compare_unordered(table: str, left: Path, right: Path, names: tuple[str, str]) -> Difference | None:
    """Both sides as multisets of rows without their place: counted in DuckDB, which spills."""
    columns = [name for name in _schema(left).names if name not in PLACE]
    with tempfile.TemporaryDirectory(prefix="eloreplay-compare-") as scratch:
        database = Database(None, threads=2, memory_limit=DEFAULT_MEMORY, spill=Path(scratch) / "spill")
        try:
            for view, path in (("left_rows", left), ("right_rows", right)):
                stands = literal_path(path).replace("'", "''")
                database.execute(
                    f"create view {view} as select {', '.join(map(quote, columns))} "
                    f"from read_parquet('{stands}', hive_partitioning = false)"
                )
            rows = database.arrow("unpaired_rows").to_pylist()
        except EnvironmentFault:
            _insist_readable(left)
            _insist_readable(right)
            raise
        finally:
            database.close()
    for row in rows:
        surplus = row["surplus"]
        text = f"{names[surplus < 0]} has this row {abs(surplus)} times more than {names[surplus > 0]}: " + ", ".join(
            f"{name} {shown(row[name])}" for name in columns if row[name] is not None
        )
        key = {name: row[name] for name in KEYS[table] if name in row}
        return Difference(table, text, key=key)
    return None


def _insist_readable(path: Path) -> None:
    """Decode a file, only to say that it is the file which cannot be read."""
    with _opened(path) as file:
        for _ in file.iter_batches(batch_size=BATCH_ROWS):
            pass


# ---------------------------------------------------------------- counts, bytes, words


def _compare_counts(left: dict[str, Any], right: dict[str, Any], names: tuple[str, str]) -> Difference | None:
    for key in COUNTS:
        for name, a, b in _leaves(key, left.get(key), right.get(key)):
            if a != b:
                return Difference("manifest", f"{name} is {shown_pair(a, b, names)}", column=name, left=a, right=b)
    return None


def _leaves(name: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    """The single values of two nested dicts, side by side, under names such as `bins.rejected.self_play`."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys([*left, *right]):
            yield from _leaves(f"{name}.{key}", left.get(key), right.get(key))
    else:
        yield name, left, right


def same_bytes(left: Path, right: Path) -> bool:
    """Whether two files have the very same bytes; one file under two names is not read.

    A file that cannot be read is equal to none: whoever decodes it says why.
    """
    try:
        with left.open("rb") as a, right.open("rb") as b:
            here, there = os.fstat(a.fileno()), os.fstat(b.fileno())
            if os.path.samestat(here, there):
                return True
            if here.st_size != there.st_size:
                return False
            while True:
                block = a.read(BLOCK_BYTES)
                if block != b.read(BLOCK_BYTES):
                    return False
                if not block:
                    return True
    except OSError:
        return False


def shown(value: Any) -> str:
    """A value as a person can tell it from another."""
    return "NULL" if value is None else repr(value) if isinstance(value, str | float | int) else str(value)


def shown_pair(left: Any, right: Any, names: tuple[str, str]) -> str:
    """Two values that differ; floats that read alike (two kinds of NaN) with their bits."""
    pair = [shown(left), shown(right)]
    if pair[0] == pair[1] and isinstance(left, float) and isinstance(right, float):
        pair = [f"{text} (bits {struct.pack('>d', value).hex()})" for text, value in zip(pair, (left, right), strict=True)]
    return f"{pair[0]} in {names[0]} and {pair[1]} in {names[1]}"
