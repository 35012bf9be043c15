"""A difference of two runs as a sentence, and the one way in which files are opened and held against each other by their bytes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.errors import EnvironmentFault
from eloreplay.instants import show_us
from eloreplay.tables import INSTANT

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


class Unreadable(Exception):
    """A file of one of the runs cannot be read: a difference, too, and no fault of whoever compares."""

    def __init__(self, path: Path, error: Exception) -> None:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        super().__init__(f"{path.name} of one run cannot be read ({path}: {first})")


def key_of(table: str, batch: pa.RecordBatch, at: int) -> dict[str, Any]:
    """What tells which row of a table is meant."""
    return {name: plain(batch.column(name)[at]) for name in KEYS.get(table, ()) if name in batch.schema.names}


def plain(value: pa.Scalar) -> Any:
    """A value as Python knows it; an instant as text, for the years that a column can hold reach further than a calendar here."""
    return show_us(value.value) if value.is_valid and value.type == INSTANT else value.as_py()


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """A Parquet file of a run, to be read in batches.

    Raises:
        Unreadable: it is damaged or missing, also when that shows only while it is read.
        EnvironmentFault: no permission.
    """
    try:
        # With pre_buffer what has been read of a file stays in memory until its end. No Python file: see `tables.read_parquet`.
        with pa.OSFile(str(path), "rb") as stream, pq.ParquetFile(stream, pre_buffer=False) as file:
            yield file
    except PermissionError:
        raise EnvironmentFault(f"{path}: no permission to read the file") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Unreadable(path, error) from None


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
