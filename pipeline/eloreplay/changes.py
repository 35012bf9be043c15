"""What a run changed against the run before: the table `changes`, and the board's entries and exits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.games import Intake
from eloreplay.publish import BoardOptions
from eloreplay.queries import Database
from eloreplay.rules import Ruleset
from eloreplay.tables import ARROW_TYPES, rating_type, read_kept, read_parquet, write_parquet

#: A board without an end: ranks of everybody who may stand on it.
EVERYBODY = 2**31


@dataclass(frozen=True)
class Before:
    """The published run that this one is compared with; see `look_back`.

    Attributes:
        run: its folder, or None when there is none to compare with.
        horizon_us: instant of its last rated game or award, or None.
        players: how many it had.
    """

    run: Path | None
    horizon_us: int | None
    players: int


def look_back(
    database: Database, run: Path | None, manifest: dict[str, Any] | None, intake: Intake, ruleset: Ruleset, pool: bool
) -> Before:
    """Load players and ranks of the run before (tables `players_before`, `ranks_before`).

    A run with other types of ids, or with pools where this one has none, cannot be compared: then it counts as no run before.
    """
    types = pa.schema([("pool", ARROW_TYPES[intake.pool_type]), ("player_id", ARROW_TYPES[intake.player_id_type])])
    empty = pa.schema([*types, ("rating", rating_type(ruleset)), ("games", pa.int32())]).empty_table()
    database.put("players_before", empty)
    database.put("ranks_before", pa.schema([*types, ("rank", pa.int64())]).empty_table())
    if run is None or manifest is None:
        return Before(None, None, 0)
    players = read_kept(run / "players.parquet")
    names = players.schema.names
    if ("pool" in names) != pool or players.schema.field("player_id").type != types.field("player_id").type:
        return Before(None, None, 0)
    if not pool:
        players = players.add_column(0, "pool", pa.nulls(len(players), types.field("pool").type))
    elif players.schema.field("pool").type != types.field("pool").type:
        return Before(None, None, 0)
    if "band" not in names:
        players = players.append_column("band", pa.nulls(len(players), pa.string()))
    database.put("players", players)
    _ranks(database, "ranks_before", BoardOptions(**manifest["options"]["board"]))
    rating = "integer" if ruleset.integer_ratings else "double"
    database.execute(
        f"create or replace table players_before as select pool, player_id, try_cast(rating as {rating}) as rating, games "
        "from players"
    )
    return Before(run, manifest.get("horizon_us"), len(players))


def _ranks(database: Database, table: str, board: BoardOptions) -> None:
    parameters = {"top": EVERYBODY, "min_games": board.min_games, "active_days": board.active_days}
    database.create_table(table, "leaderboard", parameters)


def write_changes(
    database: Database,
    folder: Path,
    index: pa.Table,
    horizon_ratings: NDArray[np.float64] | None,
    board: BoardOptions,
    ruleset: Ruleset,
    pool: bool,
) -> pa.Table:
    """Write the table `changes`, from the table `players` and what `look_back` has loaded; returns it.

    Args:
        database: with both.
        folder: the run's.
        index: pool and player_id by position.
        horizon_ratings: this run's ratings at the horizon, float64 `(n_players,)`; None without a run before.
        board: who may stand on the board.
        ruleset: the rules.
        pool: whether tables carry the pool.
    """
    _ranks(database, "ranks_after", board)
    rating = rating_type(ruleset)
    if horizon_ratings is None:
        at_horizon = database.arrow_of("select pool, player_id, rating from players_before where false")
    else:
        nothing = pa.nulls(len(index), index["pool"].type)
        at_horizon = pa.table(
            {
                "pool": index["pool"] if pool else nothing,
                "player_id": index["player_id"],
                "rating": pa.array(horizon_ratings[: len(index)]).cast(rating),
            }
        )
    with database.registered("horizon_ratings", at_horizon):
        rows = database.arrow("changes")
    for name in ("rating_before", "rating_after", "change", "restated_change"):
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(rating))
    at = rows.schema.get_field_index("games")
    rows = rows.set_column(at, "games", rows["games"].cast(pa.int32()))
    rows = rows if pool else rows.drop_columns(["pool"])
    write_parquet(rows, folder / "changes.parquet")
    return rows


def board_moves(before: Path | None, after: Path) -> tuple[list[Any], list[Any]]:
    """Who came onto the leaderboard and who left it, as (pool, player) or player, in the board's order."""
    new = _board(after)
    old = [] if before is None else _board(before)
    return [one for one in new if one not in set(old)], [one for one in old if one not in set(new)]


def _board(run: Path) -> list[Any]:
    table = read_parquet(run / "leaderboard.parquet")
    names = [name for name in ("pool", "player_id") if name in table.schema.names]
    columns = [table[name].to_pylist() for name in names]
    return list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))
