"""A site's own ratings, read through the door that all tables go through: one row a player, or one row a game."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from eloreplay.columns import LIVE_GAME_COLUMNS, LIVE_PLAYER_COLUMNS, NO_MAPPING, load_mapping
from eloreplay.console import counted
from eloreplay.errors import InputRefused
from eloreplay.forgotten import Forgotten
from eloreplay.games import GAMES, PLAYERS, POOL
from eloreplay.queries import Database
from eloreplay.reader import TableReader, TableSpec, TypeLedger
from eloreplay.sources import Source, find_sources

Grain = Literal["game", "player"]
WHAT = "live ratings"
NUMBERS = tuple(column.name for column in LIVE_GAME_COLUMNS if column.kind == "number")


def read_live(
    database: Database,
    live: str,
    columns: Path | None,
    types: dict[str, str],
    pool: str | None,
    forgotten: Forgotten,
    note: Callable[[str], None],
) -> tuple[Grain, int, int]:
    """Read the live ratings into the table `live_staged`; returns their grain, the number of rows, and of those left out.

    They are of games when they have (or the columns file maps) a `game_id`, else of players.

    Args:
        database: the working database.
        live: file, folder or wildcard.
        columns: a columns file that maps their names, or None.
        types: SQL type by family of ids, of the run.
        pool: column of the ladder, or None.
        forgotten: players whose ids are replaced as they are read.
        note: told which rows are left out, and which figures are no numbers.

    Raises:
        InputRefused: no Parquet, no row, a missing column, a wrong type, or games without any rating.
        UsageFault: the columns file.
    """
    _insist_parquet(live)
    sources = find_sources([live], WHAT)
    mapping = NO_MAPPING
    if columns is not None:
        both = {column.name: column for column in (*LIVE_GAME_COLUMNS, *LIVE_PLAYER_COLUMNS)}
        mapping = load_mapping(columns, tuple(both.values()))
    named = {name for source in sources for name in source.names} | set(mapping.sources)
    grain: Grain = "game" if "game_id" in named else "player"
    if grain == "player" and "player_id" not in named:
        raise InputRefused(
            f"{live}: neither a column 'game_id' (one row a game) nor 'player_id' (one row a player); it has "
            f"{', '.join(sorted({name for source in sources for name in source.names}))}; map one in a columns file (--columns)"
        )
    known = LIVE_GAME_COLUMNS if grain == "game" else LIVE_PLAYER_COLUMNS
    families = {"game_id": GAMES, "winner_id": PLAYERS, "loser_id": PLAYERS, "player_id": PLAYERS, "pool": POOL}
    if grain == "game" and not named & set(NUMBERS):
        raise InputRefused(
            f"{live}: no rating in it; of {', '.join(NUMBERS)} at least one is needed (map your own names in a columns file)"
        )
    ledger = TypeLedger(id_types={family: (sql_type, "the published run") for family, sql_type in types.items()})
    reader = TableReader(database, TableSpec(WHAT, known, families, mapping, pool=pool, forgotten=forgotten), ledger)
    reader.plan(sources)
    reader.create("live_staged")
    reader.stage("live_staged", sources)
    rows = sum(source.rows for source in sources)
    if not rows:
        raise InputRefused(f"{live}: not one row in it, so there is nothing to hold against the run: was it exported whole?")
    # A figure that is no number says as much as one that is not there.
    numbers = NUMBERS if grain == "game" else ("rating",)
    odd = " or ".join(f"not isfinite({name})" for name in numbers)
    _say(database, sources, odd, "a rating or change that is no number (NaN or infinite), which counts as not given", note)
    sets = ", ".join(f"{name} = case when isfinite({name}) then {name} end" for name in numbers)
    database.execute(f"update live_staged set {sets} where {odd}")
    missing, what = ("game_id is null", "no game_id") if grain == "game" else ("player_id is null", "no player_id")
    if grain == "player":
        missing, what = f"{missing} or rating is null", f"{what} or no rating"
    left_out = _say(database, sources, missing, f"{what}: left out", note)
    database.execute(f"delete from live_staged where {missing}")
    if left_out == rows:
        raise InputRefused(f"{live}: every row has {what}, so there is nothing to hold against the run")
    return grain, rows, left_out


def _insist_parquet(live: str) -> None:
    """Refuse a file of another format, by its name and its first bytes."""
    path = Path(live)
    if path.suffix == ".parquet" or not path.is_file():
        return
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return
    raise InputRefused(f"{live}: LIVE must be Parquet, and this is something else (CSV?): write it as Parquet first")


def _say(database: Database, sources: Sequence[Source], condition: str, what: str, note: Callable[[str], None]) -> int:
    """Say how many rows of `live_staged` meet a condition, and which is the first; returns how many."""
    ((rows, first),) = database.connection.execute(
        f"select count(*), min((file_no, row_no)) from live_staged where {condition}"
    ).fetchall()
    if rows:
        file_no, row_no = first.values() if isinstance(first, dict) else first
        have = counted(rows, "row of the live ratings has", "rows of the live ratings have")
        note(f"{have} {what}; the first is row {row_no} (from 0) of {sources[file_no].shown}")
    return int(rows)
