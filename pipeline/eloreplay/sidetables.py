"""The small tables beside the games: who is whom, who does not count, who starts where. Few rows, and each must be right."""

from __future__ import annotations

import polars as pl

from eloreplay.errors import InputRefused
from eloreplay.queries import Database
from eloreplay.rules import Ruleset
from eloreplay.sources import Source


def _frame(database: Database, table: str) -> pl.DataFrame:
    frame = pl.from_arrow(database.arrow_of(f"select * from {table} order by file_no, row_no"))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _refuse_row(sources: list[Source], row: dict[str, object], fault: str) -> InputRefused:
    source = sources[int(str(row["file_no"]))]
    return InputRefused(f"{source.shown}: row {row['row_no']}: {fault}; correct the table and run again")


def put_aliases(database: Database, sources: list[Source]) -> None:
    """The table `aliases` with chains resolved.

    Raises:
        InputRefused: a missing id, two targets for one alias, or a cycle.
    """
    frame = _frame(database, "aliases_staged")
    for row in frame.filter(pl.col("alias_id").is_null() | pl.col("player_id").is_null()).head(1).iter_rows(named=True):
        raise _refuse_row(sources, row, "alias_id or player_id is missing")
    links = frame.select("alias_id", "player_id", "file_no", "row_no").unique(
        ["alias_id", "player_id"], keep="first", maintain_order=True
    )
    for row in links.filter(pl.col("alias_id").is_duplicated()).head(1).iter_rows(named=True):
        raise _refuse_row(sources, row, f"alias {row['alias_id']!r} stands for two different players")
    step = links.select("alias_id", "player_id")
    # Pointer doubling: after k rounds every link spans up to 2^k steps, so a chain of n aliases is short after log2(n) rounds.
    for _ in range(max(1, step.height).bit_length() + 1):
        step = step.join(step.rename({"alias_id": "player_id", "player_id": "further"}), on="player_id", how="left").select(
            "alias_id", pl.coalesce("further", "player_id").alias("player_id")
        )
    circular = step.filter(pl.col("player_id").is_in(step["alias_id"].implode()))
    if circular.height:
        name = circular.sort("player_id")["player_id"][0]
        row = links.filter(pl.col("alias_id") == name).row(0, named=True)
        raise _refuse_row(sources, row, f"the aliases go in a circle through {name!r}")
    database.put("aliases", step.sort("alias_id").to_arrow())


def put_excluded(database: Database, sources: list[Source]) -> None:
    """The table `excluded`; an alias in the list means the player behind it."""
    frame = _frame(database, "excluded_staged")
    for row in frame.filter(pl.col("player_id").is_null()).head(1).iter_rows(named=True):
        raise _refuse_row(sources, row, "player_id is missing")
    database.execute(
        "create or replace table excluded as select distinct coalesce(aliases.player_id, excluded_staged.player_id) as player_id "
        "from excluded_staged left join aliases on excluded_staged.player_id = aliases.alias_id"
    )


#: What a message shows of a row of start ratings: its word and the column.
SHOWN = {"player": "player_id", "rating": "rating"}


def _short(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else repr(value)


def put_start_ratings(database: Database, sources: list[Source], ruleset: Ruleset, *, pooled: bool) -> None:
    """The table `start_ratings`: pool, player_id, rating, games, experience; `pooled`: there is a column of the ladder.

    Raises:
        InputRefused: a missing or impossible value, or two rows for one player (also through an alias).
    """
    frame = _frame(database, "starts_staged")
    if frame.height:
        aliases = pl.from_arrow(database.arrow_of("select alias_id as player_id, player_id as known_as from aliases"))
        assert isinstance(aliases, pl.DataFrame)
        frame = frame.join(aliases, on="player_id", how="left", maintain_order="left").with_columns(
            pl.coalesce("known_as", "player_id").alias("player_id"),
            pl.col("games").fill_null(0),
            pl.col("experience").fill_null(0.0),
        )
    needed = ["pool", "player_id", "rating"] if pooled else ["player_id", "rating"]
    whole = pl.col("rating") != pl.col("rating").floor() if ruleset.integer_ratings else pl.lit(False)
    faults = {
        f"{', '.join(needed[:-1])} or rating is missing": pl.any_horizontal(pl.col(needed).is_null()),
        "rating is not a finite number": ~pl.col("rating").is_finite(),
        f"rating is not a whole number, as the rules {ruleset.name} need": whole,
        "rating is below -2147483647 or above 2147483647": (pl.col("rating").abs() > 2**31 - 1) & pl.lit(ruleset.integer_ratings),
        "games is below 0 or above a thousand million": ~pl.col("games").is_between(0, 10**9),
        "experience is below 0 or not finite": ~(pl.col("experience").is_finite() & (pl.col("experience") >= 0)),
        "the player has two start ratings": pl.struct("pool", "player_id").is_duplicated(),
    }
    for fault, condition in faults.items():
        for row in frame.filter(condition).head(1).iter_rows(named=True):
            known = [f"{key} {_short(row[name])}" for key, name in SHOWN.items() if row[name] is not None]
            raise _refuse_row(sources, row, f"{fault} ({', '.join(known)})" if known else fault)
    database.put(
        "start_ratings", frame.select("pool", "player_id", "rating", "games", "experience").sort("pool", "player_id").to_arrow()
    )
