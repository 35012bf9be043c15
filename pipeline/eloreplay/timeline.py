"""The timeline's schema, and its files: one row a rated game, written in order while the next stretch is prepared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eloreplay.games import Intake
from eloreplay.prepare import Stretch
from eloreplay.rating import Outputs
from eloreplay.rules import Ruleset
from eloreplay.tables import ARROW_TYPES, INSTANT, ROW_GROUP_ROWS, parquet_writer, rating_type


def timeline_schema(ruleset: Ruleset, intake: Intake, pool: bool) -> pa.Schema:
    """The one schema of all timeline files of a run (SPEC: a run and its outputs)."""
    game_id, player_id = ARROW_TYPES[intake.game_id_type], ARROW_TYPES[intake.player_id_type]
    rating = rating_type(ruleset)
    fields: list[tuple[str, Any]] = [("pool", ARROW_TYPES[intake.pool_type])] if pool else []
    fields += [
        ("seq", pa.int64()),
        ("game_id", game_id),
        ("played_at", INSTANT),
        ("winner_id", player_id),
        ("loser_id", player_id),
        ("is_draw", pa.bool_()),
        ("winner_rating_before", rating),
        ("loser_rating_before", rating),
        ("winner_change", rating),
        ("loser_change", rating),
        ("winner_expected", pa.float64()),
        ("winner_k", pa.float64()),
        ("loser_k", pa.float64()),
        ("stake", pa.float64()),
        ("winner_games", pa.int32()),
        ("loser_games", pa.int32()),
        ("winner_recent_games", pa.int32()),
        ("loser_recent_games", pa.int32()),
        ("winner_experience", pa.float64()),
        ("loser_experience", pa.float64()),
        ("rule_version", pa.string()),
        ("cube", pa.int32()),
        ("match_length", pa.int32()),
        ("result", pa.string()),
        ("weight", pa.float64()),
        ("advantage", pa.float64()),
    ]
    return pa.schema(fields)


def timeline_rows(
    stretch: Stretch,
    first: int,
    last: int,
    out: Outputs,
    first_seq: int,
    version_names: pa.Array,
    schema: pa.Schema,
    ruleset: Ruleset,
) -> pa.Table:
    """The timeline of the games `first:last`, in the run's one schema."""
    n = last - first
    rows = stretch.rows.slice(first, n)
    rating = rating_type(ruleset)
    nothing = pa.nulls(n, pa.int32())
    recent = [nothing, nothing] if stretch.recent is None else [pa.array(side[first:last]) for side in stretch.recent]
    ramp = ruleset.has_ramp
    experience = [_side(out.experience, i) if ramp else pa.nulls(n, pa.float64()) for i in (0, 1)]
    columns = {
        "pool": rows["pool"],
        "seq": pa.array(np.arange(first_seq, first_seq + n, dtype=np.int64)),
        "game_id": rows["game_id"],
        "played_at": rows["played_us"].cast(INSTANT),
        "winner_id": rows["winner_id"],
        "loser_id": rows["loser_id"],
        "is_draw": rows["is_draw"],
        "winner_rating_before": _side(out.before, 0).cast(rating),
        "loser_rating_before": _side(out.before, 1).cast(rating),
        "winner_change": _side(out.change, 0).cast(rating),
        "loser_change": _side(out.change, 1).cast(rating),
        "winner_expected": pa.array(out.expected),
        "winner_k": _side(out.k, 0),
        "loser_k": _side(out.k, 1),
        "stake": pa.array(stretch.stake[first:last]),
        "winner_games": _side(out.games, 0),
        "loser_games": _side(out.games, 1),
        "winner_recent_games": recent[0],
        "loser_recent_games": recent[1],
        "winner_experience": experience[0],
        "loser_experience": experience[1],
        "rule_version": version_names.take(pa.array(stretch.version[first:last])),
        "cube": rows["cube"],
        "match_length": rows["match_length"],
        "result": rows["result"],
        "weight": rows["weight"],
        "advantage": rows["advantage"],
    }
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _side(values: NDArray[Any], side: int) -> pa.Array:
    """One side's column of an output of shape `(n_games, 2)`."""
    return pa.array(np.ascontiguousarray(values[:, side]))


class TimelineWriter:
    """Writes the timeline's files one after the other on a thread of its own, at most one table behind.

    Use as a context manager: leaving it waits for the last file and raises what went wrong in it.

    Args:
        folder: where the files go.
        schema: of every file.
        before: files of the timeline that are there already; the first one written here has the next number.
    """

    def __init__(self, folder: Path, schema: pa.Schema, before: int = 0) -> None:
        self._folder = folder
        self._before = before
        self._schema = schema
        self._thread = ThreadPoolExecutor(1)
        self._pending: list[Future[None]] = []
        self._file: pq.ParquetWriter | None = None
        self._open = False
        self.files: list[str] = []

    def write(self, label: str, table: pa.Table, closes: bool = True) -> str:
        """Queue a table as a file, or as the next part of the file that is open.

        Waits while the table before is still being written.

        Args:
            label: which chunk the file holds, for its name.
            table: the rows.
            closes: whether the file ends with them.

        Returns:
            The file's name.
        """
        self._wait()
        if not self._open:
            self.files.append(f"{self._before + len(self.files) + 1:06d}_{label}.parquet")
        self._pending.append(self._thread.submit(self._append, self._folder / self.files[-1], table, closes))
        self._open = not closes
        return self.files[-1]

    def also(self, write: Callable[..., None], *arguments: Any) -> None:
        """Queue another piece of writing behind the table that was queued last."""
        self._pending.append(self._thread.submit(write, *arguments))

    def _append(self, path: Path, table: pa.Table, closes: bool) -> None:
        """On the writing thread."""
        if self._file is None:
            self._file = parquet_writer(path, table.schema)
        self._file.write_table(table, row_group_size=ROW_GROUP_ROWS)
        if closes:
            self._file.close()
            self._file = None

    def _wait(self) -> None:
        pending, self._pending = self._pending, []
        for one in pending:
            one.result()

    def __enter__(self) -> TimelineWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                if not self.files and not self._before:
                    self.write("empty", self._schema.empty_table())
                self._wait()
        finally:
            self._thread.shutdown(wait=True)
            if self._file is not None:
                with contextlib.suppress(OSError, pa.ArrowException):
                    self._file.close()
