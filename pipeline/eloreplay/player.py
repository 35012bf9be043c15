"""One player: where he stands, his K of today, his last games, and his rating over time, as plain values (`docs/cli.md`)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eloreplay.asking import Asked, as_id, asked_run, beside, meant, nearest, next_ids
from eloreplay.board_at import EVERYBODY, board_options, last_game_us, put_present_players, version_at
from eloreplay.errors import UsageFault
from eloreplay.explain_terms import side_k
from eloreplay.instants import BEGINNING_US, show_us

#: Parts of time that the line of a rating in text is made of.
SPARK_PARTS = 60
FORM_GAMES = 10


@dataclass(frozen=True)
class History:
    """A player's rating over time: one entry a game, award or adjustment, in order.

    Attributes:
        played_us: int64 `(n,)`, microseconds.
        rating: float64 `(n,)`, after it.
        score: float64 `(n,)`, 1, 0.5 or 0; NaN where it was no game.
        seq: int64 `(n,)`, the game's position in the run's order; 0 where it was no game.
    """

    seq: NDArray[np.int64]
    played_us: NDArray[np.int64]
    rating: NDArray[np.float64]
    score: NDArray[np.float64]


def player(root: Path, wanted: str, pool: str | None, games: int) -> tuple[dict[str, Any], History]:
    """Everything about a player of the published run of `root`.

    Args:
        root: the output folder.
        wanted: his id as it is written; an alias means the player behind it.
        pool: the ladder as it is written; needed when he stands on several.
        games: how many of his last games (awards and adjustments among them) are listed.

    Raises:
        UsageFault: no run, no such player or ladder.
        EnvironmentFault: the run cannot be read.
    """
    with asked_run(root) as asked:
        player_id = as_id(wanted, asked.is_whole("winner_id"), "player")
        asked.show_side_tables()
        behind = asked.database.connection.execute(
            "select player_id from aliases where alias_id = $player", {"player": player_id}
        ).fetchall()
        standing = _standing(asked, behind[0][0] if behind else player_id, wanted, pool)
        history = _history(asked, standing)
        found: dict[str, Any] = {
            "run": asked.run.name,
            "as_of": asked.manifest["as_of"],
            "rules": asked.ruleset.name,
            **({"pool": standing["pool"]} if asked.pool else {}),
            "player_id": standing["player_id"],
            "alias": player_id if behind else None,
            **{name: standing[name] for name in ("rating", "rank", "of", "games", "wins", "losses", "draws", "experience")},
            **({"band": standing["band"]} if asked.ruleset.band else {}),
            "peak_rating": standing["peak_rating"],
            "peak_at": show_us(standing["peak_us"]),
            "last_played_at": show_us(standing["last_us"]),
            "k_now": _k_now(asked, standing, history),
            "form": _form(history),
            "last": _last(asked, standing, history, games),
            "over_time": over_time(history),
        }
        return found, history


def _standing(asked: Asked, player_id: int | str, wanted: str, pool: str | None) -> dict[str, Any]:
    """His row of `players` on the ladder that is meant."""
    database = asked.database
    put_present_players(asked)
    board = board_options(asked, None, None)
    parameters = {"top": EVERYBODY, "min_games": board.min_games, "active_days": board.active_days}
    database.create_table("ranks", "leaderboard", parameters)
    rows: list[dict[str, Any]] = database.arrow("player_standing", {"player": player_id}).to_pylist()
    if not rows:
        raise UsageFault(f"{asked.root}: {_nobody(asked, player_id, wanted)}")
    if pool is None:
        if len(rows) > 1:
            ladders = ", ".join(str(row["pool"]) for row in rows)
            raise UsageFault(f"player {wanted!r} stands on {len(rows)} ladders ({ladders}): say which with --pool")
        return rows[0]
    if not asked.pool:
        raise UsageFault(f"--pool {pool}: run {asked.run.name} has no ladders")
    ladder = as_id(pool, asked.is_whole("pool"), "ladder")
    here = [row for row in rows if row["pool"] == ladder]
    if not here:
        ladders = ", ".join(str(row["pool"]) for row in rows)
        raise UsageFault(f"--pool {pool}: player {wanted!r} does not stand on that ladder, but on {ladders}")
    return here[0]


def _nobody(asked: Asked, player_id: int | str, wanted: str) -> str:
    """Why nothing is known of a player."""
    ((excluded,),) = asked.database.connection.execute(
        "select count(*) from excluded where player_id = $player", {"player": player_id}
    ).fetchall()
    if excluded:
        return f"player {wanted!r} is excluded in run {asked.run.name}: none of his games is rated"
    hint = "" if asked.is_whole("winner_id") else meant(nearest(asked.database, "players", "player_id", wanted))
    hint = hint or next_ids(beside(asked.database, "players", "player_id", player_id))
    return f"player {wanted!r} has no rated game, award or start rating in run {asked.run.name}{hint}"


def _history(asked: Asked, standing: dict[str, Any]) -> History:
    asked.show(asked.rated_chunks)
    rows = asked.database.arrow("player_history", {"pool": standing["pool"], "player": standing["player_id"]})
    return History(
        seq=rows["seq"].fill_null(0).to_numpy(),
        played_us=rows["played_us"].to_numpy(),
        rating=rows["rating_after"].to_numpy().astype(np.float64),
        score=rows["score"].fill_null(np.nan).to_numpy(),
    )


def _k_now(asked: Asked, standing: dict[str, Any], history: History) -> dict[str, Any] | None:
    """His K if he played right after the last rated game of the run; None without one or before the first version."""
    at_us = last_game_us(asked)
    at = None if at_us is None else version_at(asked.ruleset, at_us)
    if at_us is None or at is None:
        return None
    ruleset, version = asked.ruleset, asked.ruleset.version[at]
    recent, until = None, None
    if ruleset.window_us is not None:
        played = history.played_us[~np.isnan(history.score)]
        inside = played[np.searchsorted(played, max(at_us - ruleset.window_us, BEGINNING_US), side="left") :]
        recent = len(inside)
        if version.heavy is not None and recent >= version.heavy.games:
            until = show_us(int(inside[-version.heavy.games]) + ruleset.window_us)
    past = (float(standing["rating"]), standing["games"], standing["experience"] or 0.0)
    k = side_k(ruleset, at, *past, recent or 0, 0)
    return {
        "at": show_us(at_us),
        "version": version.name,
        "k": k.k,
        "k_usual": k.usual,
        "recent_games": recent,
        "window_hours": None if ruleset.count is None else ruleset.count.hours,
        "heavy_from": None if version.heavy is None else version.heavy.games,
        "heavy": k.heavy,
        "heavy_until": until,
        "ramp": k.ramp,
        "ramp_counts_match": version.ramp is not None and version.ramp.experience == "after",
    }


def _form(history: History) -> dict[str, Any]:
    """His last games as letters (the last one at the right), and what they moved in all."""
    scores = history.score[~np.isnan(history.score)][-FORM_GAMES:]
    letters = "".join(np.where(scores == 1, "W", np.where(scores == 0, "L", "D")).tolist())
    return {"games": len(scores), "letters": letters, "score": float(scores.sum())}


def _last(asked: Asked, standing: dict[str, Any], history: History, count: int) -> list[dict[str, Any]]:
    """His last steps, the newest first."""
    if not count:
        return []
    seqs = history.seq[history.seq > 0][-count:]
    chunks = asked.rated_chunks
    # His last games alone: the chunks from the earliest of them on.
    first = bisect_right([chunk.first_seq for chunk in chunks], int(seqs[0])) - 1 if len(seqs) else len(chunks)
    asked.show(chunks[first:])
    parameters = {"pool": standing["pool"], "player": standing["player_id"]}
    rows: list[dict[str, Any]] = asked.database.arrow("player_steps", parameters).to_pylist()
    for row in rows:
        row["played_at"] = show_us(row.pop("played_us"))
    return rows[::-1][:count]


def over_time(history: History, parts: int = SPARK_PARTS) -> dict[str, Any] | None:
    """The rating at the ends of equal parts of the time from his first step to his last; None without a step."""
    if not len(history.played_us):
        return None
    first, last = int(history.played_us[0]), int(history.played_us[-1])
    # From whole numbers: the last edge is the last instant, exactly.
    edges = np.array([first + (last - first) * (part + 1) // parts for part in range(parts)], np.int64)
    at = np.searchsorted(history.played_us, edges, side="right") - 1
    values = history.rating[at]
    return {
        "from": show_us(first),
        "to": show_us(last),
        "low": float(history.rating.min()),
        "high": float(history.rating.max()),
        "ratings": values.tolist(),
    }
