"""The floor: bare DuckDB and Parquet doing only what no replay of these games can do without. Nothing is rated.

    python tests/bench/floor.py GAMES_FOLDER TIMELINE_FOLDER OUT_FOLDER

What it leaves out, and a product cannot: bad and voided rows, copies (it only makes sure that there are none), alias and award
tables, any type or column but the simulation's, states and rows kept for a next night, players, boards, a manifest. What a kernel
would make (ratings, changes, expected scores, k, games before) is copied from one month of a finished timeline, so that columns of
the same types with values of the same kind are encoded; reading that month is taken off the time (`loading_s`).

Each step is the fastest exact form that was found: see the comment beside it.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

WINDOW_US = 168 * 3_600_000_000
HEAVY_GAMES = 50
ROW_GROUP_ROWS = 131_072
READ = ["id", "ended_at", "winner", "loser", "game_type", "cube_value", "status"]
WORDS = ["winner", "loser", "game_type", "status"]
#: Columns of the timeline that only a kernel can fill.
RATED = [f"{side}_{name}" for name in ("rating_before", "change", "k", "games") for side in ("winner", "loser") if name != "k"] + [
    "winner_expected"
]
#: A dictionary pays where values repeat; numbers that rise are smallest and quickest as differences.
RISING = {"seq": "DELTA_BINARY_PACKED", "played_at": "DELTA_BINARY_PACKED"}


class Steps:
    """Seconds by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


class Players:
    """A small whole number for every player, in the order in which they come: what the window is partitioned by."""

    def __init__(self) -> None:
        self._known: pa.Array | None = None

    def numbers(self, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        """int32 `(n,)`; whole numbers stand for themselves, for the simulation's are small."""
        if pa.types.is_integer(column.type):
            return column.to_numpy().astype(np.int32)
        # The words are dictionaries in the file already: each is looked up once, not once a row.
        column = column.unify_dictionaries()
        words = column.chunk(0).dictionary
        if self._known is None:
            self._known = words
        at = pc.index_in(words, self._known)
        if at.null_count:
            self._known = pa.concat_arrays([self._known, words.filter(pc.is_null(at))])
            at = pc.index_in(words, self._known)
        places = at.to_numpy(zero_copy_only=False).astype(np.int32)
        return np.concatenate([places[chunk.indices.to_numpy()] for chunk in column.chunks])


def refuse_repeated(database: duckdb.DuckDBPyConnection, files: list[Path]) -> int:
    """Make sure that no id stands twice: sorting 64 bits of each takes half the time of grouping by the ids.

    Returns:
        Rows.
    """
    names = ", ".join(f"'{file}'" for file in files)
    integer = pa.types.is_integer(pq.read_schema(files[0]).field("id").type)
    key = "id" if integer else "hash(id)"
    keys = database.sql(f"select {key} as k from read_parquet([{names}])").fetchnumpy()["k"]
    keys = np.ma.getdata(keys)
    keys.sort()
    if (keys[1:] == keys[:-1]).any() and (
        integer or database.sql(f"select id from read_parquet([{names}]) group by id having count(*) > 1").fetchall()
    ):
        sys.exit("an id stands twice")
    return len(keys)


def in_order(month: pa.Table) -> pa.Table:
    """The rated games by instant and id: one stable sort of the instants, and only games of one instant are held by their ids."""
    rated = pc.and_(pc.equal(month["game_type"], "ranked"), pc.not_equal(month["status"], "cancelled"))
    month = month.select(["id", "ended_at", "winner", "loser", "cube_value"]).filter(rated)
    played = month["ended_at"].cast(pa.int64()).to_numpy()
    order = np.argsort(played, kind="stable")
    played = played[order]
    same = np.flatnonzero(played[1:] == played[:-1])
    if same.size:
        tied = np.union1d(same, same + 1)
        few = pa.table({"at": played[tied], "id": month["id"].take(pa.array(order[tied]))})
        order[tied] = order[tied][pc.sort_indices(few, sort_keys=[("at", "ascending"), ("id", "ascending")]).to_numpy()]
    return month.take(pa.array(order))


def window(
    database: duckdb.DuckDBPyConnection,
    played: np.ndarray[Any, Any],
    winner: np.ndarray[Any, Any],
    loser: np.ndarray[Any, Any],
    first: int,
) -> np.ndarray[Any, Any]:
    """Each side's games in the window before, int32 `(n - first, 2)`; the games before `first` are only counted.

    One event a side, numbered `2 * game + side`, and how far back its window reaches, both int32: a binary search in the sorted
    instants gives the reach in a hundredth of the time of a join, and the counts are put back by number, not by a join or sort.
    """
    n = played.size
    game = np.arange(n, dtype=np.int32)
    reach = 2 * (game - np.searchsorted(played, played - WINDOW_US, side="left").astype(np.int32))
    events = pa.table(
        {
            "event": np.concatenate((2 * game, 2 * game + 1)),
            "player": np.concatenate((winner, loser)),
            "reach": np.concatenate((reach, reach + 1)),
        }
    )
    database.register("events", events)
    counted = database.sql(
        "select event, count(*) over (partition by player order by event range between reach preceding and current row) - 1 as c "
        "from events"
    ).to_arrow_table()
    database.unregister("events")
    counts = np.empty(2 * n, np.int32)
    counts[counted["event"].to_numpy()] = counted["c"].to_numpy()
    return counts.reshape(n, 2)[first:]


def timeline(games: pa.Table, counts: np.ndarray[Any, Any], seq: int, rated: dict[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """The columns of the product's timeline, in its types; what a kernel makes is copied from `rated`."""
    n = len(games)
    cube = games["cube_value"].to_numpy()
    stakes = np.array([1.0 + np.log2(2.0**doublings) / 6.0 for doublings in range(7)])
    k = np.where(counts >= HEAVY_GAMES, 16.0, 32.0)
    columns: dict[str, Any] = {
        "seq": pa.array(np.arange(seq, seq + n, dtype=np.int64)),
        "game_id": games["id"],
        "played_at": games["ended_at"],
        "winner_id": games["winner"],
        "loser_id": games["loser"],
        "is_draw": pa.array(np.zeros(n, np.bool_)),
        "stake": pa.array(stakes[np.frexp(cube)[1] - 1]),
        "cube": games["cube_value"],
        "rule_version": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), pa.array(["1.3.1"])),
    }
    for number, side in enumerate(("winner", "loser")):
        columns[f"{side}_k"] = pa.array(k[:, number])
        columns[f"{side}_recent_games"] = pa.array(np.ascontiguousarray(counts[:, number]))
    columns |= {name: values.take(pa.array(np.arange(n) % len(values))) for name, values in rated.items()}
    return pa.table({field.name: columns.get(field.name, pa.nulls(n, field.type)) for field in schema})


def floor(folder: Path, finished: Path, out: Path) -> dict[str, Any]:
    """All of it, month by month; returns rows, games and seconds by step."""
    out.mkdir(parents=True)
    files = sorted(folder.glob("*.parquet"))
    started = time.perf_counter()
    largest = max(finished.glob("*.parquet"), key=lambda file: pq.read_metadata(file).num_rows)
    schema = pq.read_schema(largest)
    rated = {name: column.combine_chunks() for name, column in zip(RATED, pq.read_table(largest, columns=RATED), strict=True)}
    loading_s = time.perf_counter() - started

    steps = Steps()
    database = duckdb.connect(config={"preserve_insertion_order": False})
    database.execute("set enable_progress_bar = false")
    rows = refuse_repeated(database, files)
    steps.lap("repeated ids")
    players = Players()
    seq = 1
    before = (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    pending: Future[None] | None = None
    with ThreadPoolExecutor(1) as thread:
        for file in files:
            games = in_order(pq.ParquetFile(file, read_dictionary=WORDS).read(columns=READ))
            now = (
                games["ended_at"].cast(pa.int64()).to_numpy(),
                players.numbers(games["winner"]),
                players.numbers(games["loser"]),
            )
            steps.lap("decode and order")
            # The week before is carried along as three numbers a game.
            first = before[0].size
            both = tuple(np.concatenate(pair) for pair in zip(before, now, strict=True))
            counts = window(database, *both, first)
            week = int(np.searchsorted(both[0], both[0][-1] - WINDOW_US)) if both[0].size else 0
            before = (both[0][week:], both[1][week:], both[2][week:])
            steps.lap("window")
            table = timeline(games, counts, seq, rated, schema)
            seq += len(games)
            # One month is written, on a thread of its own, while the next is made.
            if pending is not None:
                pending.result()
            pending = thread.submit(write, table, out / file.name)
            steps.lap("encode")
        if pending is not None:
            pending.result()
        steps.lap("encode")
    return {"rows": rows, "games": seq - 1, "loading_s": loading_s, "steps": steps.seconds}


def write(table: pa.Table, path: Path) -> None:
    """Encode and compress a month, with the product's compression and size of row groups."""
    rising = dict(RISING)
    if pa.types.is_integer(table.schema.field("game_id").type):
        rising["game_id"] = "DELTA_BINARY_PACKED"
    words = [name for name in table.schema.names if name not in {*rising, "game_id", "is_draw"}]
    with pq.ParquetWriter(
        path, table.schema, compression="zstd", compression_level=1, use_dictionary=words, column_encoding=rising
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(floor(*map(Path, sys.argv[1:4]))) + "\n")
