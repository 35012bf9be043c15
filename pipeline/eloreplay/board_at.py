"""All players as they stood at any instant, as the published run has it now: the board of a day, and whose week was heavy then.

The ratings come from the states that the run keeps at the ends of its chunks and from the timeline after the last of them, so the
answer does not read the history. (What a board of an earlier run *said* is another question: `boards`.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from eloreplay.asking import Asked
from eloreplay.chunks import FOLD
from eloreplay.errors import UsageFault
from eloreplay.explain_terms import side_k
from eloreplay.instants import BEGINNING_US, show_us
from eloreplay.kernel import PLAYER_STATE
from eloreplay.publish import BoardOptions, put_bands
from eloreplay.rating import initial_state
from eloreplay.rules import Ruleset
from eloreplay.states import restore
from eloreplay.tables import rating_type, read_kept

#: A board without an end.
EVERYBODY = 2**31
HOUR_US = 3_600_000_000
COUNTS = ("games", "wins", "losses", "draws")


def last_game_us(asked: Asked) -> int | None:
    """Instant of the run's last rated game, microseconds; None without one."""
    chunks = asked.rated_chunks
    if not chunks:
        return None
    asked.show(chunks[-1:])
    ((last,),) = asked.database.connection.execute("select epoch_us(max(played_at)) from timeline").fetchall()
    return int(last)


def game_bounds(asked: Asked) -> tuple[int | None, int | None]:
    """Instants of the run's first and last rated game, microseconds; None without one."""
    chunks = asked.rated_chunks
    if not chunks:
        return None, None
    asked.show(chunks[:1])
    ((first,),) = asked.database.connection.execute("select epoch_us(min(played_at)) from timeline").fetchall()
    return int(first), last_game_us(asked)


def outside(at_us: int, first_us: int, last_us: int) -> str | None:
    """On which side of the history an instant lies: "before" its first game, "after" its last one, or None."""
    return "before" if at_us < first_us else "after" if at_us > last_us else None


def put_players(asked: Asked, at_us: int) -> None:
    """The table `players` (as `sql/leaderboard.sql` reads it) of an instant: its own games and awards are in it."""
    database, ruleset = asked.database, asked.ruleset
    index = read_kept(asked.run / FOLD / "players.parquet")
    index = index.append_column("player_index", pa.array(np.arange(len(index), dtype=np.int32)))
    asked.show_side_tables()
    database.put("player_index", index)
    state = initial_state(database, ruleset, len(index))
    kept = [chunk for chunk in asked.rated_chunks if chunk.to_us - 1 <= at_us]
    restore(asked.run, kept, state)
    settled_us = kept[-1].to_us if kept else BEGINNING_US
    put_state(asked, index, state, "state_players")
    asked.show(asked.near(settled_us, at_us))
    database.create_table("board_steps", "board_steps", {"from_us": settled_us, "to_us": at_us})
    database.create_table("plain_players", "board_players")
    rating = "integer" if ruleset.integer_ratings else "double"
    database.execute(f"alter table plain_players alter rating type {rating}")
    put_bands(database, ruleset)
    database.create_table("players", "banded_players")


def put_state(asked: Asked, index: pa.Table, state: np.ndarray[Any, Any], table: str) -> None:
    """A table of those players of a state (`PLAYER_STATE` `(n_players,)`, positions as in `index`) who are known by then."""
    assert state.dtype == PLAYER_STATE
    at = np.flatnonzero(state["seen"])
    state, known = state[at], index.take(pa.array(at))
    played = (state["wins"] + state["losses"] + state["draws"]) > 0
    columns: dict[str, Any] = {
        "pool": known["pool"] if asked.pool else pa.nulls(len(known), pa.int32()),
        "player_id": known["player_id"].cast(asked.schema.field("winner_id").type),
        "rating": pa.array(state["rating"]).cast(rating_type(asked.ruleset)),
        "last_us": pa.array(state["last_us"], pa.int64(), mask=~played),
    }
    columns |= {name: pa.array(np.ascontiguousarray(state[name])) for name in COUNTS}
    if asked.pool:
        columns["pool"] = columns["pool"].cast(asked.schema.field("pool").type)
    asked.database.put(table, pa.table(columns))


def put_present_players(asked: Asked) -> None:
    """The table `players` as the run has it at its end: the same as `put_players` of its as-of, and quicker."""
    players = read_kept(asked.run / "players.parquet")
    if not asked.pool:
        players = players.add_column(0, "pool", pa.nulls(len(players), pa.int32()))
    if "band" not in players.schema.names:
        players = players.append_column("band", pa.nulls(len(players), pa.string()))
    asked.database.put("players", players)


def board_options(asked: Asked, min_games: int | None, active_days: int | None) -> BoardOptions:
    """The run's own board options, with what is asked for instead."""
    own = BoardOptions(**asked.manifest["options"]["board"])
    return BoardOptions(
        own.top,
        own.min_games if min_games is None else min_games,
        own.active_days if active_days is None else active_days,
    )


def ranked(asked: Asked, board: BoardOptions, top: int) -> list[dict[str, Any]]:
    """The board made from the table `players`: dicts of its columns, instants as text; `pool` and `band` where the run has them."""
    parameters = {"top": top, "min_games": board.min_games, "active_days": board.active_days}
    rows = asked.database.arrow("leaderboard", parameters)
    left_out = [] if asked.pool else ["pool"]
    left_out += [] if asked.ruleset.band else ["band"]
    rows = rows.drop_columns(left_out)
    at = rows.schema.get_field_index("last_played_at")
    texts = [show_us(us) for us in rows["last_played_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()]
    found: list[dict[str, Any]] = rows.set_column(at, "last_played_at", pa.array(texts, pa.string())).to_pylist()
    return found


def board_at(asked: Asked, at_us: int | None, top: int, min_games: int | None, active_days: int | None) -> dict[str, Any]:
    """The leaderboard at an instant, recomputed from the published run; None: at its end.

    Returns:
        `run`, `as_of`, `rules`, `at`, `first_game_at`, `last_game_at`, `outside` ("before" the first rated game, "after" the last
        one, else None), `min_games`, `active_days`, `players` (how many there were) and `rows`.
    """
    board = board_options(asked, min_games, active_days)
    if at_us is None:
        put_present_players(asked)
    else:
        put_players(asked, at_us)
    ((players,),) = asked.database.connection.execute("select count(*) from players").fetchall()
    first_us, last_us = game_bounds(asked)
    return {
        "run": asked.run.name,
        "as_of": asked.manifest["as_of"],
        "rules": asked.ruleset.name,
        "at": show_us(at_us),
        "first_game_at": show_us(first_us),
        "last_game_at": show_us(last_us),
        "outside": None if at_us is None or first_us is None or last_us is None else outside(at_us, first_us, last_us),
        "min_games": board.min_games,
        "active_days": board.active_days,
        "players": players,
        "rows": ranked(asked, board, top),
    }


# ---------------------------------------------------------------- whose week is heavy


def version_at(ruleset: Ruleset, at_us: int) -> int | None:
    """Position of the rule version in force at an instant; None before the first."""
    return max((at for at, version in enumerate(ruleset.version) if version.start_us <= at_us), default=None)


def heavy_board(asked: Asked, at_us: int | None) -> dict[str, Any]:
    """Who would play a game right after an instant (None: that of the last rated game) with a k that a heavy week reduces.

    Returns:
        `run`, `as_of`, `rules`, `at`, `first_game_at`, `last_game_at`, `outside`, `heavy_from`, `window_hours` and `rows`: each
        with k and the usual one, rating, rank among all, and `until`: the last instant of the heavy week if he plays no more.
        The most games first.

    Raises:
        UsageFault: no rated game, or rules without a heavy week.
    """
    database, ruleset, window_us = asked.database, asked.ruleset, asked.ruleset.window_us
    instant = last_game_us(asked) if at_us is None else at_us
    if instant is None:
        raise UsageFault(f"{asked.root}: run {asked.run.name} has no rated game")
    at = version_at(ruleset, instant)
    heavy = None if at is None else ruleset.version[at].heavy
    if at is None or heavy is None or window_us is None:
        which = f"rules {ruleset.name}" + ("" if at is None else f", version {ruleset.version[at].name}")
        raise UsageFault(f"the {which} in force {show_us(instant)} know no heavy week: nobody's k is reduced by how much he plays")
    from_us = max(instant - window_us, BEGINNING_US)
    asked.show(asked.near(from_us, instant))
    database.create_table("heavy", "heavy_players", {"from_us": from_us, "to_us": instant, "heavy_games": heavy.games})
    put_players(asked, instant)
    # Of everybody, whoever may stand on the board.
    database.create_table("ranks", "leaderboard", {"top": EVERYBODY, "min_games": 1, "active_days": None})
    first_us, last_us = game_bounds(asked)
    rows = []
    for row in database.arrow("heavy_standing").to_pylist():
        k = side_k(ruleset, at, float(row["rating"]), row["games"], 0.0, row["recent_games"], 0)
        rows.append(
            {
                **({"pool": row["pool"]} if asked.pool else {}),
                **{name: row[name] for name in ("player_id", "recent_games", "rank", "rating", "games")},
                "k": k.week,
                "k_usual": k.usual,
                "until": show_us(row["least_us"] + window_us),
            }
        )
    return {
        "run": asked.run.name,
        "as_of": asked.manifest["as_of"],
        "rules": asked.ruleset.name,
        "at": show_us(instant),
        "last_game": at_us is None,
        "first_game_at": show_us(first_us),
        "last_game_at": show_us(last_us),
        "outside": None if first_us is None or last_us is None else outside(instant, first_us, last_us),
        "heavy_from": heavy.games,
        "window_hours": window_us / HOUR_US,
        "rows": rows,
    }
