"""Two runs held against each other: who moves, how the board changes, and from which game on.

Players are few and are compared in memory; games are joined in DuckDB, which spills. Files of the timeline that both runs share,
as a night shares them with the run before, are left out on both sides.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.changes import EVERYBODY
from eloreplay.differences import same_bytes
from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.games import Report
from eloreplay.instants import show_us
from eloreplay.publish import read_manifest
from eloreplay.published import named_run
from eloreplay.queries import DEFAULT_MEMORY, Database
from eloreplay.rankings import kendall, spearman
from eloreplay.rowstore import files_sql
from eloreplay.run_tables import insist_tables
from eloreplay.tables import read_kept

#: Points by which a move is counted, and lengths of the board that are looked at.
STEPS, BOARDS = (25, 50, 100), (20, 100)
QUANTILES = {"least": 0.0, "quarter": 0.25, "middle": 0.5, "three_quarters": 0.75, "most": 1.0}
PLAYER_COLUMNS = ("player_id", "rating", "games", "wins", "losses", "last_played_at")
#: The two runs as the page and the JSON call them.
SIDES = ("a", "b")


@dataclass(frozen=True)
class DiffOptions:
    """How two runs are compared.

    Attributes:
        movers: how many of the largest movers are listed.
        games: games of each that are listed.
        threads: of DuckDB.
        memory_limit: of DuckDB.
    """

    movers: int = 10
    games: int = 3
    threads: int = 2
    memory_limit: str = DEFAULT_MEMORY


@dataclass(frozen=True)
class DiffResult:
    """What was found.

    Attributes:
        found: every figure as plain values, instants as text.
        players: one row a player of either run, see `docs/cli.md`.
    """

    found: dict[str, Any]
    players: pl.DataFrame


def diff(first: str, second: str, options: DiffOptions, report: Report) -> DiffResult:
    """Compare two published runs (see `published.named_run` for how they are named); neither is touched.

    Raises:
        UsageFault: there is no such run, or the two have nothing in common: other types of ids, ladders on one side only.
        EnvironmentFault: a run cannot be read; disk, memory.
    """
    runs = named_run(first), named_run(second)
    manifests = [read_manifest(run) for run in runs]
    for run in runs:
        insist_tables(run)
    tables = [read_kept(run / "players.parquet") for run in runs]
    pool = _insist_comparable(runs, tables)
    with tempfile.TemporaryDirectory(prefix="eloreplay-diff-") as scratch:
        home = Path(scratch)
        database = Database(home / "diff.duckdb", threads=options.threads, memory_limit=options.memory_limit, spill=home / "spill")
        try:
            players = _players(database, tables, manifests, pool)
            report("comparing games", 0, 0)
            _show_games(database, runs, pool)
            database.create_table("diff_games", "diff_games")
            database.create_table("diff_sides", "diff_sides")
            counts = _counts(database)
            firsts = pl.from_arrow(database.arrow("diff_players"))
            assert isinstance(firsts, pl.DataFrame)
            players = players.join(firsts, on=["pool", "player_id"], how="left", nulls_equal=True).with_columns(
                pl.col("differing_games").fill_null(0)
            )
            movers = _movers(database, players, options, pool)
        finally:
            database.close()
    found = {
        **{side: _about(run, manifest) for side, run, manifest in zip(SIDES, runs, manifests, strict=True)},
        "games": {side: manifest["bins"]["rated"] for side, manifest in zip(SIDES, manifests, strict=True)} | counts,
        "players": _moves(players),
        "ladders": [_ladder(part, name) for name, part in _ladders(players, pool)],
        "movers": movers,
    }
    return DiffResult(found, (players if pool else players.drop("pool")).drop("place_a", "place_b"))


def _insist_comparable(runs: tuple[Path, Path], tables: list[pa.Table]) -> bool:
    """Whether there are ladders; refuses two runs whose players cannot be the same."""
    for name in ("pool", "player_id"):
        kinds = [str(table.schema.field(name).type) if name in table.schema.names else None for table in tables]
        if kinds[0] != kinds[1]:
            what = "ladders (pools)" if name == "pool" else "player ids"
            shown = [kind or "none" for kind in kinds]
            raise UsageFault(
                f"{runs[0]} and {runs[1]} have nothing in common to compare by: {what} are {shown[0]} in the first and {shown[1]} "
                "in the second"
            )
    return "pool" in tables[0].schema.names


def _players(database: Database, tables: list[pa.Table], manifests: list[dict[str, Any]], pool: bool) -> pl.DataFrame:
    """Everybody of both runs with rating, games, rank and place on the board (without its end) in each."""
    sides = []
    for side, table, manifest in zip(SIDES, tables, manifests, strict=True):
        if not pool:
            table = table.add_column(0, "pool", pa.nulls(len(table), pa.string()))
        table = table.select(["pool", *PLAYER_COLUMNS]).append_column("band", pa.nulls(len(table), pa.string()))
        database.put("players", table)
        board = manifest["options"]["board"]
        ranks = pl.from_arrow(
            database.arrow("leaderboard", {"top": EVERYBODY, "min_games": board["min_games"], "active_days": board["active_days"]})
        )
        rows = pl.from_arrow(table)
        assert isinstance(ranks, pl.DataFrame)
        assert isinstance(rows, pl.DataFrame)
        ranks = ranks.select("pool", "player_id", pl.col("rank").alias(f"rank_{side}")).with_columns(
            pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("pool").alias(f"place_{side}")
        )
        rows = rows.select(
            "pool",
            "player_id",
            pl.col("rating").cast(pl.Float64).alias(f"rating_{side}"),
            pl.col("games").alias(f"games_{side}"),
        )
        sides.append(rows.join(ranks, on=["pool", "player_id"], how="left", nulls_equal=True))
    both = sides[0].join(sides[1], on=["pool", "player_id"], how="full", coalesce=True, nulls_equal=True)
    columns = [f"{name}_{side}" for name in ("rating", "games", "rank", "place") for side in SIDES]
    return both.select(
        "pool", "player_id", *columns[:2], (pl.col("rating_b") - pl.col("rating_a")).alias("change"), *columns[2:]
    ).sort("pool", "player_id")


def _show_games(database: Database, runs: tuple[Path, Path], pool: bool) -> None:
    """Views of timeline and awards of both runs, without the timeline's files that both share."""
    nobody = "" if pool else "null::varchar as pool, "
    names = [{path.name: path for path in sorted((run / "timeline").glob("*.parquet"))} for run in runs]
    shared = {name for name in names[0].keys() & names[1].keys() if same_bytes(names[0][name], names[1][name])}
    for side, run, files in zip(SIDES, runs, names, strict=True):
        if not files:
            raise EnvironmentFault(f"{run / 'timeline'}: the run's timeline is gone")
        own = [path for name, path in files.items() if name not in shared]
        shown, tail = (own, "") if own else (list(files.values())[:1], " limit 0")
        _readable([*shown, run / "awards.parquet"])
        database.execute(
            f"create view timeline_{side} as select {nobody}* from read_parquet({files_sql(shown)}, "
            f"hive_partitioning = false){tail}"
        )
        database.execute(
            f"create view awards_{side} as select {nobody}* from read_parquet({files_sql([run / 'awards.parquet'])}, "
            "hive_partitioning = false)"
        )
    kinds = [database.arrow_of(f"select game_id from timeline_{side} limit 0").schema.field("game_id").type for side in SIDES]
    if kinds[0] != kinds[1]:
        raise UsageFault(f"{runs[0]} and {runs[1]}: game ids are {kinds[0]} in the first and {kinds[1]} in the second")


def _readable(paths: list[Path]) -> None:
    for path in paths:
        try:
            with path.open("rb") as file:
                pq.read_metadata(file)
        except (OSError, pa.ArrowException) as error:
            raise EnvironmentFault(f"{path}: the run cannot be read: {error}") from None


def _counts(database: Database) -> dict[str, int]:
    ((only_a, only_b, other, changed),) = database.connection.execute(
        "select count(*) filter (where winner_b is null), count(*) filter (where winner_a is null), "
        "count(*) filter (where winner_a is not null and winner_b is not null), "
        "count(*) filter (where winner_change_a <> winner_change_b or loser_change_a <> loser_change_b) from diff_games"
    ).fetchall()
    return {"only_a": only_a, "only_b": only_b, "differing": other, "moved_otherwise": changed}


def _movers(database: Database, players: pl.DataFrame, options: DiffOptions, pool: bool) -> list[dict[str, Any]]:
    """The players who move most, each with the games that say why."""
    order = players.filter(pl.col("change").is_not_null() & (pl.col("change") != 0)).sort(
        pl.col("change").abs(), "pool", "player_id", descending=[True, False, False]
    )
    top = order.head(options.movers)
    database.put("movers", top.select("pool", "player_id").to_arrow())
    games = database.arrow("diff_mover_games", {"games": options.games})
    by_player: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in _plain(games):
        key = row.pop("pool"), row.pop("player_id")
        by_player.setdefault(key, []).append(row)
    found = []
    for row in _plain(top.drop("place_a", "place_b").to_arrow()):
        first = {name.removeprefix("first_"): row.pop(name) for name in list(row) if name.startswith("first_")}
        listed = {**row, "first": first, "games": by_player.get((row["pool"], row["player_id"]), [])}
        if not pool:
            del listed["pool"]
        found.append(listed)
    return found


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """Few rows as plain values, instants as text."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            texts = [show_us(us) for us in table[at].cast(pa.int64()).to_pylist()]
            table = table.set_column(at, field.name, pa.array(texts, pa.string()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _about(run: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    return {"folder": str(run), "run": run.name, "rules": manifest["rules"]["name"], "as_of": manifest["as_of"]}


def _moves(players: pl.DataFrame) -> dict[str, Any]:
    """How far everybody moves."""
    change = players["change"].drop_nulls()
    moved = change.filter(change != 0)
    return {
        "both": len(change),
        "only_a": players["rating_b"].is_null().sum(),
        "only_b": players["rating_a"].is_null().sum(),
        "moved": len(moved),
        "change": {name: change.quantile(share, "linear") for name, share in QUANTILES.items()},
        "distance": {name: change.abs().quantile(share, "linear") for name, share in QUANTILES.items()},
        "beyond": {str(step): int((change.abs() > step).sum()) for step in STEPS},
    }


def _ladders(players: pl.DataFrame, pool: bool) -> list[tuple[Any, pl.DataFrame]]:
    if not pool:
        return [(None, players)]
    return [(key[0], part) for key, part in players.partition_by("pool", as_dict=True, maintain_order=True).items()]


def _ladder(players: pl.DataFrame, name: Any) -> dict[str, Any]:
    """Correlation of the order and moves on the board, of one ladder."""
    both = players.filter(pl.col("rating_a").is_not_null() & pl.col("rating_b").is_not_null())
    pair = both["rating_a"].to_numpy(), both["rating_b"].to_numpy()
    return {
        **({} if name is None else {"pool": name}),
        "players": both.height,
        "spearman": spearman(*pair),
        "kendall": kendall(*pair),
        "boards": {str(length): _board(players, length) for length in BOARDS},
    }


def _board(players: pl.DataFrame, length: int) -> dict[str, Any]:
    """Who comes onto the first `length` places, who leaves them, and who moves on them."""
    on_a, on_b = ((pl.col(f"place_{side}") <= length).fill_null(False) for side in SIDES)
    columns = ["player_id", "rank_a", "rank_b", "rating_a", "rating_b"]
    stays = players.filter(on_a & on_b)
    return {
        "stay": stays.height,
        "same_rank": stays.filter(pl.col("rank_a") == pl.col("rank_b")).height,
        "entries": players.filter(on_b & ~on_a).sort("place_b").select(columns).to_dicts(),
        "exits": players.filter(on_a & ~on_b).sort("place_a").select(columns).to_dicts(),
        "moves": stays.filter(pl.col("rank_a") != pl.col("rank_b")).sort("place_b").select(columns).to_dicts(),
    }
