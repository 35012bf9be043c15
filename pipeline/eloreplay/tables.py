"""Types that several tables share, the table `players`, and the one way in which a table becomes a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.errors import EnvironmentFault
from eloreplay.games import Intake
from eloreplay.kernel import PLAYER_STATE
from eloreplay.rules import Ruleset

ARROW_TYPES = {"BIGINT": pa.int64(), "VARCHAR": pa.string()}
INSTANT = pa.timestamp("us", "UTC")
ROW_GROUP_ROWS = 128 * 1024


def rating_type(ruleset: Ruleset) -> pa.DataType:
    """int32 under integer rules, else float64; for ratings, changes and peaks in every table."""
    return pa.int32() if ruleset.integer_ratings else pa.float64()


def players_table(state: np.ndarray[Any, Any], index: pa.Table, ruleset: Ruleset, intake: Intake, pool: bool) -> pa.Table:
    """The table `players` from the state at the end, in the state's order; `index` has pool and player_id in that order.

    Who has no game, award or start rating (any more) is left out.
    """
    assert state.dtype == PLAYER_STATE
    if not state["seen"].all():
        at = np.flatnonzero(state["seen"])
        state, index = state[at], index.take(pa.array(at))
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


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table so that equal tables give equal bytes: one writer, fixed row groups, one type of text."""
    plain = [field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field for field in table.schema]
    table = table.cast(pa.schema(plain))
    with parquet_writer(path, table.schema) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


def read_kept(path: Path, columns: list[str] | None = None) -> pa.Table:
    """As `read_parquet`, of a file that a published run keeps.

    Raises:
        EnvironmentFault: it is gone or damaged, with what to do.
    """
    with kept_file(path):
        return read_parquet(path, columns)


@contextlib.contextmanager
def kept_file(path: Path) -> Iterator[None]:
    """Say what to do when a file that a published run keeps is gone or damaged.

    Raises:
        EnvironmentFault: then.
    """
    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise EnvironmentFault(
            f"{path}: what the published run keeps to go on from cannot be read ({text}); run eloreplay backfill once more"
        ) from None


#: Columns whose numbers rise, or nearly do, in the order in which tables are written.
RISING = ("seq", "game_id", "played_at", "played_us", "row_no")


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """The one kind of Parquet writer that a run uses.

    Numbers that rise are kept as differences, ids of games as they are (none stands twice), all else under a dictionary, for values
    repeat: half the size of what pyarrow does unasked, in half the time (docs/performance.md).
    """
    numbers = {name for name in RISING if name in schema.names and _is_whole(schema.field(name).type)}
    words = [field.name for field in schema if field.name not in {*numbers, "game_id"} and not pa.types.is_boolean(field.type)]
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=words,
        column_encoding=dict.fromkeys(sorted(numbers), "DELTA_BINARY_PACKED"),
    )


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """A whole Parquet file, or some of its columns; the path is taken as it is, no pattern, address or partition.

    Not `pq.read_table` of a Python file: its threads may still hold that file when the interpreter ends, and then abort the process
    after all is done (exit code 134; apache/arrow issues 33975 and 50482; one of a hundred processes here).

    Raises:
        OSError: the file cannot be read.
        pa.ArrowException: it is damaged.
    """
    with pa.OSFile(str(path), "rb") as file, pq.ParquetFile(file, pre_buffer=False) as parquet:
        return parquet.read(columns=columns, use_threads=False)
