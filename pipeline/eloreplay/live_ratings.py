"""A site's own ratings, read through the door that all tables go through: one row a player, or one row a game."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from eloreplay.columns import LIVE_GAME_COLUMNS, LIVE_PLAYER_COLUMNS, NO_MAPPING, load_mapping
from eloreplay.errors import InputRefused
from eloreplay.forgotten import Forgotten
from eloreplay.games import GAMES, PLAYERS, POOL
from eloreplay.queries import Database
from eloreplay.reader import TableReader, TableSpec, TypeLedger
from eloreplay.sources import find_sources

Grain = Literal["game", "player"]
WHAT = "live ratings"
NUMBERS = tuple(column.name for column in LIVE_GAME_COLUMNS if column.kind == "number")


def read_live(
    database: Database, live: str, columns: Path | None, types: dict[str, str], pool: str | None, forgotten: Forgotten
) -> tuple[Grain, int]:
    """Read the live ratings into the table `live_staged`; returns their grain and number of rows.

    They are of games when they have (or the columns file maps) a `game_id`, else of players.

    Args:
        database: the working database.
        live: file, folder or wildcard.
        columns: a columns file that maps their names, or None.
        types: SQL type by family of ids, of the run.
        pool: column of the ladder, or None.
        forgotten: players whose ids are replaced as they are read.

    Raises:
        InputRefused: a missing column, a wrong type, or games without any rating.
        UsageFault: the columns file.
    """
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
    return grain, sum(source.rows for source in sources)
