"""The tables made from a finished fold: players, leaderboard, calibration, summary, the views and the manifest."""

from __future__ import annotations

import json
import platform
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from eloreplay import __version__, calibration
from eloreplay.errors import EnvironmentFault
from eloreplay.games import Intake, write_refused_awards
from eloreplay.queries import Database, failures, literal_path, sql_text
from eloreplay.replay import Replay
from eloreplay.rules import Ruleset
from eloreplay.tables import players_table, write_parquet

SUMMARY_ACTIVE_DAYS = 30


@dataclass(frozen=True)
class BoardOptions:
    """Who stands on the leaderboard: how many, from how many games on, and how recently he must have played."""

    top: int = 100
    min_games: int = 1
    active_days: int | None = None


def write_tables(
    database: Database, folder: Path, result: Replay, intake: Intake, ruleset: Ruleset, board: BoardOptions, pool: bool
) -> None:
    """Write the tables that are made from the state at the end; the timeline is not read again.

    Needs `favourite_counts` and `game_counts` of the whole history, and `refused_kept` (see `games.refused`).

    Raises:
        EnvironmentFault: disk, memory.
    """
    players = players_table(result.state, result.index, ruleset, intake, pool)
    write_parquet(result.awards, folder / "awards.parquet")
    if intake.award_sources:
        write_refused_awards(database, intake, folder / "rejected_awards.parquet", pool)
    database.put("plain_players", players if pool else players.add_column(0, "pool", pa.nulls(len(players), pa.string())))
    put_bands(database, ruleset)
    database.create_table("players", "banded_players")
    database.execute(
        "create or replace table pools as "
        + ("select distinct pool from players order by pool" if pool else "select null::varchar as pool")
    )
    # The order of the players by id is the query's: the state has them in the order in which they were met.
    columns = [*players.schema.names, *(["band"] if ruleset.band else [])]
    ordered = database.arrow_of("select * from players order by pool, player_id").select(columns)
    write_parquet(_plain(ordered, players.schema), folder / "players.parquet")

    rows = database.arrow("leaderboard", {"top": board.top, "min_games": board.min_games, "active_days": board.active_days})
    rows = rows if ruleset.band else rows.drop_columns(["band"])
    write_parquet(_without_pool(_plain(rows, players.schema), pool), folder / "leaderboard.parquet")


def put_bands(database: Database, ruleset: Ruleset) -> None:
    """The table `bands`, one row a named band of ratings; empty when the rules name none."""
    names = pa.array([band.name for band in ruleset.band], pa.string())
    lowest = pa.array([band.from_ for band in ruleset.band], pa.float64())
    database.put("bands", pa.table({"band": names, "from_rating": lowest}))


def _plain(rows: pa.Table, like: pa.Schema) -> pa.Table:
    """Columns that also stand in `players` with the very type they have there."""
    for at, name in enumerate(rows.schema.names):
        if name in like.names:
            rows = rows.set_column(at, name, rows[name].cast(like.field(name).type))
    return rows


def _without_pool(rows: pa.Table, pool: bool) -> pa.Table:
    return rows if pool else rows.drop_columns(["pool"])


def summary(database: Database, intake: Intake, pool: bool) -> pl.DataFrame:
    """The table `summary`: one row a statistic and slice; see `docs/outputs.md` for what each means."""
    rows: list[dict[str, Any]] = []
    counts = pl.from_arrow(database.arrow("summary_counts", {"active_days": SUMMARY_ACTIVE_DAYS}))
    assert isinstance(counts, pl.DataFrame)
    for row in counts.iter_rows(named=True):
        base = {**({"pool": row["pool"]} if pool else {}), "slice": row["slice"], "slice_value": row["slice_value"]}
        if row["statistic"] != "favourite_rate":
            rows.append(
                {**base, "statistic": row["statistic"], "value": row["value"], "low": None, "high": None, "games": row["games"]}
            )
            continue
        games, wins = row["games"], row["half_wins"] / 2
        low, high = calibration.wilson(wins, games)
        expected = int(row["expected_sum"]) / calibration.FIXED_POINT / games
        rows.append({**base, "statistic": "favourite_real_rate", "value": wins / games, "low": low, "high": high, "games": games})
        rows.append({**base, "statistic": "favourite_expected_rate", "value": expected, "low": None, "high": None, "games": games})
    schema: dict[str, Any] = {"pool": pl.Int64 if intake.pool_type == "BIGINT" else pl.String} if pool else {}
    schema |= {
        "statistic": pl.String,
        "slice": pl.String,
        "slice_value": pl.String,
        "value": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "games": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema)


def write_views(folder: Path, target: Path, home: Path, pool: bool) -> None:
    """Write `ratings.duckdb`: a view a table, over absolute paths in `target`, where the run will stand.

    It is made in `home` (see `store.database_home`) and moved into `folder`.
    `set variable eloreplay_dir = '…'` makes the views follow a run that was moved.
    """
    path = home / "ratings.duckdb"
    # Publishing syncs every file; DuckDB need not do it after every statement.
    with failures("ratings.duckdb"), duckdb.connect(str(path), config={"fsync_mode": "NONE"}) as connection:
        connection.execute("set variable eloreplay_dir = $folder", {"folder": literal_path(folder)})
        stands = literal_path(target).replace("'", "''")
        tables = {"timeline": "timeline/*.parquet"}
        tables |= {file.stem: file.name for file in sorted(folder.glob("*.parquet"))}
        for name, pattern in tables.items():
            connection.execute(
                f"create view {name} as select * from "
                f"read_parquet(coalesce(getvariable('eloreplay_dir'), '{stands}') || '/{pattern}', hive_partitioning = false)"
            )
        query = sql_text("player_timeline")
        if pool:
            connection.execute(f"create view player_timeline as {query}")
        else:
            # One text serves both: where there is no pool, it is added for the query and taken off its result.
            connection.execute(
                "create view player_timeline as select * exclude (pool) from (with "
                "timeline as (select null as pool, * from main.timeline), awards as (select null as pool, * from main.awards) "
                f"select * from ({query}))"
            )
    shutil.move(path, folder / path.name)


def versions() -> dict[str, str]:
    """What computed a run: this package, Python and the libraries that could make a difference."""
    names = ("duckdb", "numba", "numpy", "polars", "pyarrow")
    return {
        "eloreplay": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in names},
    }


def write_manifest(path: Path, content: dict[str, Any]) -> None:
    """Write `manifest.json`, keys in the order given."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(run: Path) -> dict[str, Any]:
    """The manifest of a published run.

    Raises:
        EnvironmentFault: it is missing or damaged.
    """
    try:
        content = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EnvironmentFault(f"{run / 'manifest.json'}: the published run's manifest cannot be read: {error}") from None
    assert isinstance(content, dict)
    return content
