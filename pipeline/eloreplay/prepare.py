"""A stretch of time → the kernel's arrays: order, weekly counts, and every term that does not depend on a rating (all by SQL)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.errors import EnvironmentFault
from eloreplay.instants import BEGINNING_US
from eloreplay.queries import Database
from eloreplay.rules import Ruleset

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Recent:
    """The rated games before a stretch that its counting window can reach, in their total order.

    Attributes:
        played_us: int64 `(n_recent,)`.
        winner: int32 `(n_recent,)`, position of the winner in the state; likewise `loser`.
    """

    played_us: NDArray[np.int64]
    winner: NDArray[np.int32]
    loser: NDArray[np.int32]

    @classmethod
    def nothing(cls) -> Recent:
        """What lies before the first game of all."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))

    def since(self, first_us: int) -> Recent:
        """The games from `first_us` on."""
        first = int(np.searchsorted(self.played_us, first_us, side="left"))
        return Recent(self.played_us[first:], self.winner[first:], self.loser[first:])


@dataclass(frozen=True)
class Stretch:
    """The rated games of a stretch of time in their total order, and what the kernel needs of each.

    Attributes:
        rows: the games as Arrow (ids, inputs), `n_games` rows.
        played_us: int64 `(n_games,)`.
        winner: int32 `(n_games,)`, position of the winner in the state; likewise `loser`.
        score: float64 `(n_games,)`, of the winner's side: 1, or 0.5 for a draw.
        advantage: float64 `(n_games,)`; likewise `divisor`, `stake`, `match_length`.
        k: float64 `(2, n_games)`, row 0 the winner's.
        version: int16 `(n_games,)`.
        recent: int32 `(2, n_games)`, or None when the rules count no window.
        trailing: the last games up to the end of the stretch that a later one's window can reach.
        elapsed_s: seconds by step ("reading", "window").
    """

    rows: pa.Table
    played_us: NDArray[np.int64]
    winner: NDArray[np.int32]
    loser: NDArray[np.int32]
    score: NDArray[np.float64]
    advantage: NDArray[np.float64]
    divisor: NDArray[np.float64]
    stake: NDArray[np.float64]
    match_length: NDArray[np.float64]
    k: NDArray[np.float64]
    version: NDArray[np.int16]
    recent: NDArray[np.int32] | None
    trailing: Recent
    elapsed_s: dict[str, float]


def prepare(
    database: Database,
    ruleset: Ruleset,
    from_us: int,
    to_us: int,
    players: int,
    before: Recent,
    reverse_ties: bool = False,
) -> Stretch:
    """Prepare the games of `[from_us, to_us)`.

    Args:
        database: with what `games.open_door` left, `player_index` and the view `rule_terms`.
        ruleset: the rules.
        from_us: first instant, microseconds.
        to_us: end, microseconds, not included.
        players: length of the state; every position is checked against it, for the kernel does not look.
        before: `trailing` of the stretch before: what the counting window reaches back to.
        reverse_ties: put the games of each instant the other way round, only to see what their order does (`ties`).

    Raises:
        EnvironmentFault: disk or memory, or a position outside the state (a fault of ours, never to be computed on).
    """
    started = time.perf_counter()
    rows = database.arrow("chunk_games", {"from_us": from_us, "to_us": to_us})
    if reverse_ties:
        rows = rows.take(pa.array(np.lexsort((-np.arange(len(rows)), rows["played_us"].to_numpy()))))
    games = Recent(
        _numbers(rows, "played_us", np.int64), _numbers(rows, "winner_index", np.int32), _numbers(rows, "loser_index", np.int32)
    )
    version = _numbers(rows, "version_index", np.int16)
    for side in (games.winner, games.loser):
        if side.size and (side.min() < 0 or side.max() >= players):
            raise EnvironmentFault("a player's position lies outside the state; this is a fault in eloreplay, please report it")
    read_s = time.perf_counter() - started

    started = time.perf_counter()
    window_us = ruleset.window_us
    recent, trailing = None, before
    if window_us is None:
        k = np.tile(_numbers(rows, "k", np.float64), (2, 1))
    else:
        recent, k, trailing = _count(database, games, version, before.since(max(from_us - window_us, BEGINNING_US)), window_us)
        trailing = trailing.since(max(to_us - window_us, BEGINNING_US))
    window_s = time.perf_counter() - started

    return Stretch(
        rows=rows,
        played_us=games.played_us,
        winner=games.winner,
        loser=games.loser,
        score=np.where(rows["is_draw"].to_numpy(), 0.5, 1.0),
        advantage=_numbers(rows, "advantage", np.float64),
        divisor=_numbers(rows, "divisor", np.float64),
        stake=_numbers(rows, "stake", np.float64),
        match_length=_numbers(rows, "match_length", np.float64),
        k=k,
        version=version,
        recent=recent,
        trailing=trailing,
        elapsed_s={"reading": read_s, "window": window_s},
    )


def _count(
    database: Database, games: Recent, version: NDArray[np.int16], before: Recent, window_us: int
) -> tuple[NDArray[np.int32], NDArray[np.float64], Recent]:
    """The weekly count and the k of each side, by `sql/windowed_counts.sql` over the games and what lies before them.

    Returns:
        (counts int32 `(2, n_games)`, k float64 `(2, n_games)`, the games with those before them).
    """
    first = before.played_us.size
    both = Recent(
        np.concatenate((before.played_us, games.played_us)),
        np.concatenate((before.winner, games.winner)),
        np.concatenate((before.loser, games.loser)),
    )
    ordered = pa.table(
        {
            "slot": np.arange(both.played_us.size, dtype=np.int64),
            "played_us": both.played_us,
            "winner_index": both.winner,
            "loser_index": both.loser,
            # Whose version is whose matters only for the games that are to be rated.
            "version_index": np.concatenate((np.zeros(first, np.int16), version)),
        }
    )
    with database.registered("ordered_games", ordered):
        rows = database.arrow("windowed_counts", {"window_us": window_us, "first_slot": first})
    slot, side = rows["slot"].to_numpy() - first, rows["side"].to_numpy()
    counts, k = np.empty((2, version.size), np.int32), np.empty((2, version.size), np.float64)
    counts[side, slot] = rows["recent_games"].to_numpy()
    k[side, slot] = rows["k"].to_numpy()
    return counts, k, both


def _numbers(rows: pa.Table, name: str, dtype: type[Number]) -> NDArray[Number]:
    """A column as a writable array of one type (what Arrow hands out is read-only, which would be another kernel signature)."""
    column = rows[name]
    if column.null_count:
        column = column.fill_null(0)
    return np.array(column.to_numpy(), dtype=dtype)
