"""Two tables side by side: row by row in their order, value by value, whatever their cut into files."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from eloreplay.differences import Difference, key_of, opened, plain, same_bytes, shown_pair

BATCH_ROWS = 128 * 1024


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
        with opened(self.files.pop(0)) as file:
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
        with opened(path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                if batch.num_rows:
                    yield batch


def compare_ordered(table: str, left_files: list[Path], right_files: list[Path], names: tuple[str, str]) -> Difference | None:
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
            return Difference(table, text, row=row, key=key_of(table, batch, 0))
    return None


def _row_count(path: Path) -> int:
    with opened(path) as file:
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
    values = plain(left.column(number)[at]), plain(right.column(number)[at])
    name = left.schema.names[number]
    return Difference(
        table,
        f"{name} is {shown_pair(*values, names)}",
        row=first_row + at,
        column=name,
        left=values[0],
        right=values[1],
        key=key_of(table, left, at),
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
