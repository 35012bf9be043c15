"""A site's own live ratings held against the recomputed ones: how many agree, where each player parts, and why.

A live rating before a game must follow from the game before it, and a live change from live's own ratings before, by the rules.
Where one of them does not, the game has a cause of its own; every other difference is a consequence of an earlier game. Causes are
sought by `sql/reconcile_chain.sql` (ratings before) and by `causes` (changes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eloreplay.again import ruleset_of
from eloreplay.causes import Formula, Games
from eloreplay.chunks import FOLD, read_fold
from eloreplay.errors import UsageFault
from eloreplay.forgotten import read_forgotten
from eloreplay.games import Report
from eloreplay.instants import show_us
from eloreplay.live_ratings import read_live
from eloreplay.publish import read_manifest, versions, write_manifest
from eloreplay.published import chosen_reading
from eloreplay.queries import DEFAULT_MEMORY, Database, all_columns
from eloreplay.rowstore import files_sql, rows_path, undated_path
from eloreplay.rules import Ruleset
from eloreplay.run_tables import insist_tables
from eloreplay.store import database_home
from eloreplay.study_folder import MANIFEST, study_folder
from eloreplay.tables import read_kept, write_parquet

KIND = "reconcile"
FILES = ("reconcile.parquet", "faults.parquet")
#: Games whose changes are computed in one go.
BATCH_GAMES = 1_000_000
EXAMPLES = 3
#: Without a number of games, a live rating counts as an old one of ours only if it is no older than so many games.
BEHIND_GAMES = 5
#: Points by which float ratings may differ unless asked otherwise; whole ratings agree exactly.
FLOAT_TOLERANCE = 1e-6
SQL_TYPES = {"int64": "BIGINT", "string": "VARCHAR"}


@dataclass(frozen=True)
class ReconcileOptions:
    """How live ratings are compared.

    Attributes:
        columns: a columns file that maps their names.
        tolerance: points by which two values may differ; None: by the rules.
        threads: of DuckDB.
        memory_limit: of DuckDB.
    """

    columns: Path | None = None
    tolerance: float | None = None
    threads: int = 2
    memory_limit: str = DEFAULT_MEMORY


@dataclass(frozen=True)
class Reconciled:
    """What was found: its folder, every figure as plain values, one row a player, and the games with a cause of their own."""

    folder: Path
    found: dict[str, Any]
    players: pl.DataFrame
    faults: pl.DataFrame


def reconcile(
    root: Path, live: str, to: Path | None, options: ReconcileOptions, report: Report, note: Callable[[str], None]
) -> Reconciled:
    """Hold live ratings against the published run of an output folder; the run is only read.

    Args:
        root: the output folder.
        live: file, folder or wildcard of the live ratings: one row a game, or one row a player.
        to: where the tables go; `studies/reconcile` of the folder unless given.
        options: how they are compared.
        report: told how far it is.
        note: told what a person should know.

    Raises:
        UsageFault: nothing is published, or `to` holds something else.
        InputRefused: the live ratings cannot be taken.
        EnvironmentFault: disk, memory; the run cannot be read.
    """
    with chosen_reading(root) as (home, run):
        return _reconcile(home, run, live, to, options, report, note)


def _reconcile(
    root: Path,
    run: Path,
    live: str,
    to: Path | None,
    options: ReconcileOptions,
    report: Report,
    note: Callable[[str], None],
) -> Reconciled:
    """As `reconcile`, of a run that is kept from being dropped meanwhile."""
    manifest = read_manifest(run)
    insist_tables(run)
    ruleset = ruleset_of(manifest)
    tolerance = options.tolerance
    if tolerance is None:
        tolerance = 0.0 if ruleset.integer_ratings else FLOAT_TOLERANCE
    with study_folder(root / "studies" / KIND if to is None else to, KIND) as folder, database_home(folder.scratch) as home:
        database = Database(home / "live.duckdb", threads=options.threads, memory_limit=options.memory_limit, spill=home / "spill")
        try:
            work = _Work(database, run, manifest, ruleset, tolerance, report, note)
            grain, rows, left_out = work.read(live, options.columns)
            found, players, faults = work.games() if grain == "game" else work.players()
        finally:
            database.close()
        if not work.pool:
            players, faults = (table.drop("pool", strict=False) for table in (players, faults))
        for table, name in ((players, FILES[0]), (faults, FILES[1])):
            write_parquet(table.to_arrow(), folder.new / name)
        about = {key: manifest.get(key) for key in ("run", "as_of")}
        read = {"live": live, "rows": rows, "rows_left_out": left_out, "grain": grain}
        found = {"run": {"folder": str(run), **about}, "rules": ruleset.name, **read, **found}
        write_manifest(
            folder.new / MANIFEST, {"kind": KIND, "files": list(FILES), **found, "tolerance": tolerance, "versions": versions()}
        )
    return Reconciled(folder.target, found, players, faults)


class _Work:
    """One comparison at work."""

    def __init__(
        self,
        database: Database,
        run: Path,
        manifest: dict[str, Any],
        ruleset: Ruleset,
        tolerance: float,
        report: Report,
        note: Callable[[str], None],
    ) -> None:
        self._database, self._run, self._manifest, self._ruleset = database, run, manifest, ruleset
        # What is computed in float64 may be off by its last bits also where it is meant to be exact.
        self._near = {"tolerance": tolerance + 1e-9}
        self._report, self._note = report, note
        self.pool = manifest["input_options"]["pool"] is not None
        nobody = "" if self.pool else "null::varchar as pool, "
        for name, files in (
            ("timeline", sorted((run / "timeline").glob("*.parquet"))),
            ("awards", [run / "awards.parquet"]),
        ):
            database.execute(
                f"create view {name} as select {nobody}* from read_parquet({files_sql(files)}, hive_partitioning = false)"
            )

    def read(self, live: str, columns: Path | None) -> tuple[str, int, int]:
        """Read the live ratings and what their ids mean."""
        database = self._database
        shape = database.arrow_of("select pool, game_id, winner_id from timeline limit 0").schema
        kinds = [SQL_TYPES[str(field.type)] for field in shape]
        self._types = dict(zip(("pool", "games", "players"), kinds, strict=True))
        self._report("reading live ratings", 0, 0)
        pool = self._manifest["input_options"]["pool"]
        read = read_live(database, live, columns, self._types, pool, read_forgotten(self._run), self._note)
        if not self.pool:
            database.execute("alter table live_staged alter pool set data type varchar using null")
        player = self._types["players"]
        path = files_sql([self._run / FOLD / "aliases.parquet"])
        database.execute(
            f"create table aliases as select {all_columns({'alias_id': player, 'player_id': player})} from read_parquet({path})"
        )
        return read

    # ------------------------------------------------------------ one row a game

    def games(self) -> tuple[dict[str, Any], pl.DataFrame, pl.DataFrame]:
        """Live ratings game by game."""
        database = self._database
        database.create_table("live_rows", "reconcile_live")
        ((first_us, last_us, known),) = database.connection.execute(
            "select min(epoch_us(played_at)), max(epoch_us(played_at)), count(*) from timeline semi join live_rows "
            "on timeline.game_id = live_rows.game_id"
        ).fetchall()
        if not known:
            raise UsageFault(f"none of the live games is a rated game of {self._run}: are the game ids the same ones?")
        self._put_extras()
        self._report("following ratings", 0, 0)
        database.create_table("sides", "reconcile_sides", {"from_us": first_us, "to_us": last_us})
        database.create_table("suspects", "reconcile_suspects", self._near)
        database.create_table("chain", "reconcile_chain", self._near)
        database.put("change_causes", self._change_causes())
        database.create_table("marked", "reconcile_marked", self._near)
        players, faults = (pl.from_arrow(database.arrow(name)) for name in ("reconcile_players", "reconcile_faults"))
        assert isinstance(players, pl.DataFrame)
        assert isinstance(faults, pl.DataFrame)
        players = _with_roots(players)
        ((both, ours, theirs),) = database.connection.execute(
            "select count(*) filter (where kind = 'both'), count(*) filter (where kind = 'only_ours') // 2, "
            "count(distinct game_id) filter (where kind = 'only_live') from sides"
        ).fetchall()
        ((other, follow),) = database.connection.execute(
            "select count(*) filter (where kind = 'both'), count(*) filter (where cause is null) from marked where diverges"
        ).fetchall()
        found = {
            "span": [show_us(first_us), show_us(last_us)],
            "games": {"both": both // 2, "only_ours": ours, "only_live": theirs},
            "sides": {"equal": both - other, "other": other, "consequences": follow},
            "players": {
                "all": players.height,
                "agree": int(players["agrees"].sum()),
                "same_rating": players.filter(
                    (pl.col("rating_live") - pl.col("rating_ours")).abs() <= self._near["tolerance"]
                ).height,
            },
            "causes": _causes(players, faults),
        }
        return found, players, faults

    def _put_extras(self) -> None:
        """The table `extras`: what we know of games that only live has."""
        database, run = self._database, self._run
        fold = read_fold(run)
        player = self._types["players"]
        kinds = {"game_id": self._types["games"], "winner_id": player, "loser_id": player}
        stored = "select null as game_id limit 0"
        if fold is not None:
            paths = [rows_path(run, chunk) for chunk in fold.chunks if chunk.rows] + [undated_path(run)]
            stored = (
                f"select {all_columns(kinds)} from read_parquet({files_sql(paths)}, hive_partitioning = false, "
                "union_by_name = true)"
            )
        database.execute(f"create view stored_rows as {stored}")
        path = files_sql([run / "rejected.parquet"])
        database.execute(f"create view rejected as select game_id, reason from read_parquet({path}, hive_partitioning = false)")
        database.create_table("extras", "reconcile_extras", {"as_of_us": self._manifest["as_of_us"]})

    def _change_causes(self) -> pa.Table:
        """The games whose change does not follow from live's own ratings before, each with its likeliest mistake."""
        database = self._database
        formula = Formula(database, self._ruleset, self._near["tolerance"])
        database.create_table("wrong_games", "reconcile_games", self._near)
        wrong: list[Games] = []
        ((total,),) = database.connection.execute("select count(*) from wrong_games").fetchall()
        for first in range(0, total, BATCH_GAMES):
            self._report("looking for causes", first, total)
            rows = database.arrow_of(
                "select * from wrong_games where rowid >= $first and rowid < $last order by rowid",
                {"first": first, "last": first + BATCH_GAMES},
            )
            games = formula.games(rows)
            wrong.append(games.take(np.flatnonzero(formula.wrong(games) | rows["is_swapped"].to_numpy())))
        if not wrong:
            wrong.append(formula.games(database.arrow_of("select * from wrong_games")))
        rows = pa.concat_tables([games.rows for games in wrong])
        causes, details, also = formula.causes(formula.games(rows))
        return pa.table(
            {
                "pool": rows["pool"],
                "game_id": rows["game_id"],
                **{name: pa.array(texts, pa.string()) for name, texts in (("cause", causes), ("detail", details), ("also", also))},
            }
        )

    # ------------------------------------------------------------ one row a player

    def players(self) -> tuple[dict[str, Any], pl.DataFrame, pl.DataFrame]:
        """Live ratings player by player: who agrees, who is behind, and what his games say."""
        database = self._database
        keys = ["pool", "player_id"]
        live = pl.from_arrow(
            database.arrow_of(
                "select live_staged.pool, coalesce(aliases.player_id, live_staged.player_id) as player_id, rating, games "
                "from live_staged left join aliases on live_staged.player_id = aliases.alias_id "
                "order by all"
            )
        )
        ours = pl.from_arrow(read_kept(self._run / "players.parquet"))
        assert isinstance(live, pl.DataFrame)
        assert isinstance(ours, pl.DataFrame)
        again = live.filter(pl.struct(keys).is_duplicated())
        if again.height:
            self._note(f"{again.select(keys).n_unique()} players stand in the live ratings more than once; the first row counts")
        live = live.unique(keys, keep="first", maintain_order=True)
        ours = ours if self.pool else ours.with_columns(pl.lit(None, pl.String).alias("pool"))
        both = ours.select(*keys, pl.col("rating").cast(pl.Float64).alias("rating_ours"), pl.col("games").alias("games_ours")).join(
            live.rename({"rating": "rating_live", "games": "games_live"}), on=keys, how="full", coalesce=True, nulls_equal=True
        )
        difference = pl.col("rating_live") - pl.col("rating_ours")
        both = both.with_columns((difference.abs() <= self._near["tolerance"]).fill_null(False).alias("agrees"))
        asked = both.filter(~pl.col("agrees") & pl.col("rating_live").is_not_null() & pl.col("rating_ours").is_not_null())
        database.put(
            "asked",
            asked.select(*keys, pl.col("rating_live").alias("rating"), pl.col("games_live").alias("games")).to_arrow(),
        )
        behind = pl.from_arrow(database.arrow("reconcile_behind", self._near | {"within": BEHIND_GAMES}))
        assert isinstance(behind, pl.DataFrame)
        more = pl.col("games_live") - pl.col("games_ours")
        table = both.join(behind, on=keys, how="left", nulls_equal=True).with_columns(
            pl.when("agrees")
            .then(pl.lit(None, pl.String))
            .when(pl.col("rating_live").is_null())
            .then(pl.lit("not in live"))
            .when(pl.col("rating_ours").is_null())
            .then(pl.lit("not here"))
            .when(pl.col("behind").is_not_null())
            .then(pl.lit("behind"))
            .when(more < 0)
            .then(pl.lit("fewer games"))
            .when(more > 0)
            .then(pl.lit("more games"))
            .when(more == 0)
            .then(pl.lit("same number of games, another rating"))
            .otherwise(pl.lit("another rating"))
            .alias("cause"),
            difference.alias("difference"),
        )
        table = table.sort(keys).select(
            *keys, "agrees", "rating_ours", "rating_live", "difference", "games_ours", "games_live", "behind", "cause"
        )
        apart = table.filter(~pl.col("agrees"))["difference"].drop_nulls()
        found = {
            "players": {"all": table.height, "agree": int(table["agrees"].sum())},
            "difference": {"least": apart.min(), "middle": apart.median(), "most": apart.max()},
            "causes": [
                {"cause": cause, "players": part.height, "examples": part.head(EXAMPLES).drop("pool").to_dicts()}
                for (cause,), part in table.filter(~pl.col("agrees"))
                .sort(pl.col("difference").abs(), descending=True, nulls_last=True, maintain_order=True)
                .partition_by("cause", as_dict=True, maintain_order=True)
                .items()
            ],
        }
        return found, table, table.filter(~pl.col("agrees"))


def _with_roots(players: pl.DataFrame) -> pl.DataFrame:
    """Add, for who parts without a cause of his own, from whom it came: `root_player_id`, `root_game_id`, `root_cause`.

    Who parts first at a game without a cause has an opponent who was elsewhere already, and parted earlier. Following these links,
    the steps doubled each time, ends at a player with a cause.
    """
    at = players.with_row_index("at").select("at", "pool", "player_id")
    linked = players.join(
        at.rename({"player_id": "first_opponent_id", "at": "opponent_at"}),
        on=["pool", "first_opponent_id"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    own = np.arange(players.height)
    inherits = (linked["cause"].is_null() & linked["first_game_id"].is_not_null() & linked["opponent_at"].is_not_null()).to_numpy()
    root = np.where(inherits, linked["opponent_at"].fill_null(0).to_numpy().astype(np.int64), own)
    for _ in range(max(1, players.height).bit_length()):
        root = root[root]
    at_root = players[root.tolist()] if players.height else players
    parted = pl.col("first_game_id").is_not_null()
    return players.with_columns(
        pl.when(parted).then(at_root["player_id"]).alias("root_player_id"),
        pl.when(parted).then(at_root["first_game_id"]).alias("root_game_id"),
        pl.when(parted).then(at_root["cause"]).alias("root_cause"),
    )


def _causes(players: pl.DataFrame, faults: pl.DataFrame) -> list[dict[str, Any]]:
    """The causes, the one with the most games first: games, players who part by it, players whom it reached through others."""
    rows = []
    for (cause,), part in faults.partition_by("cause", as_dict=True, maintain_order=True).items():
        details = part.group_by("detail").agg(pl.col("game_id").n_unique().alias("games"))
        examples = part.unique("game_id", keep="first", maintain_order=True).head(EXAMPLES)
        rows.append(
            {
                "cause": cause,
                "games": part["game_id"].n_unique(),
                "first_of": players.filter(cause=cause).height,
                "reached": players.filter(pl.col("cause").is_null(), root_cause=cause).height,
                "details": details.sort("games", "detail", descending=[True, False]).to_dicts(),
                "examples": examples.with_columns(
                    pl.Series("played_at", [show_us(us) for us in examples["played_at"].dt.epoch("us").to_list()], pl.String)
                ).to_dicts(),
            }
        )
    return sorted(rows, key=lambda row: (-row["games"], row["cause"]))
