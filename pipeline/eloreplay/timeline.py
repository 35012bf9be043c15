"""The timeline's schema, and its files: one row a rated game, written in order while the next stretch is prepared."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.games import Intake
from eloreplay.kernel import PLAYER_STATE
from eloreplay.rules import Ruleset

ARROW_TYPES = {"BIGINT": pa.int64(), "VARCHAR": pa.string()}
INSTANT = pa.timestamp("us", "UTC")
ROW_GROUP_ROWS = 128 * 1024


def rating_type(ruleset: Ruleset) -> pa.DataType:
    """int32 under integer rules, else float64; for ratings, changes and peaks in every table."""
    return pa.int32() if ruleset.integer_ratings else pa.float64()


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


def players_table(state: np.ndarray[Any, Any], index: pa.Table, ruleset: Ruleset, intake: Intake, pool: bool) -> pa.Table:
    """The table `players` from the state at the end; `index` has pool and player_id in the state's order, which is by id."""
    assert state.dtype == PLAYER_STATE
    rating = rating_type(ruleset)
    peaked = np.isfinite(state["peak_rating"])
    last = pa.array(state["last_us"], pa.int64(), mask=(state["wins"] + state["losses"] + state["draws"]) == 0)
    experience = pa.nulls(len(state), pa.float64())
    if ruleset.uses.match_length:
        experience = pa.array(state["experience"], pa.float64())
    columns: dict[str, Any] = {"pool": index["pool"].cast(ARROW_TYPES[intake.pool_type])} if pool else {}
    columns |= {
        "player_id": index["player_id"].cast(ARROW_TYPES[intake.player_id_type]),
        "rating": pa.array(state["rating"]).cast(rating),
        "games": pa.array(state["games"], pa.int32()),
        "wins": pa.array(state["wins"], pa.int32()),
        "losses": pa.array(state["losses"], pa.int32()),
        "draws": pa.array(state["draws"], pa.int32()),
        "experience": experience,
        "peak_rating": pa.array(np.where(peaked, state["peak_rating"], 0.0), pa.float64(), mask=~peaked).cast(rating),
        "peak_at": pa.array(state["peak_us"], pa.int64(), mask=~peaked).cast(INSTANT),
        "last_played_at": last.cast(INSTANT),
    }
    return pa.table(columns)


class TimelineWriter:
    """Writes the timeline's files one after the other on a thread of its own, at most one behind.

    Use as a context manager: leaving it waits for the last file and raises what went wrong in it.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = schema
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        self.files: list[str] = []

    def write(self, label: str, table: pa.Table) -> None:
        """Queue one file; `label` says which stretch it holds. Waits while the file before is still being written."""
        name = f"{len(self.files) + 1:06d}_{label}.parquet"
        self.files.append(name)
        self._wait()
        self._pending = self._thread.submit(write_parquet, table, self._folder / name)

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def __enter__(self) -> TimelineWriter:
        self._folder.mkdir(parents=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                if not self.files:
                    self.write("empty", self._schema.empty_table())
                self._wait()
        finally:
            self._thread.shutdown(wait=True)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table so that equal tables give equal bytes: one writer, fixed row groups, one type of text."""
    plain = [field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field for field in table.schema]
    table = table.cast(pa.schema(plain))
    pq.write_table(table, path, compression="zstd", compression_level=1, row_group_size=ROW_GROUP_ROWS)
