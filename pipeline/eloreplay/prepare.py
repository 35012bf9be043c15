"""A stretch of time → the kernel's arrays: order, weekly counts, and every term that does not depend on a rating.

Order, terms and counts are SQL's; where a window begins is looked up in the sorted instants, and the k of a heavy week follows from
the count: a join for either costs several times the window itself.
"""

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
        recent, trailing = _count(database, games, before.since(max(from_us - window_us, BEGINNING_US)), window_us)
        k = k_of_week(ruleset, version, _numbers(rows, "k", np.float64), recent)
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


def _count(database: Database, games: Recent, before: Recent, window_us: int) -> tuple[NDArray[np.int32], Recent]:
    """The weekly counts of `games`, int32 `(2, n_games)`, and the games with those before them."""
    first = before.played_us.size
    both = Recent(
        np.concatenate((before.played_us, games.played_us)),
        np.concatenate((before.winner, games.winner)),
        np.concatenate((before.loser, games.loser)),
    )
    return windowed_counts(database, both, window_us, first), both


def windowed_counts(database: Database, games: Recent, window_us: int, first: int = 0) -> NDArray[np.int32]:
    """How many of the games before each game, and at most `window_us` older, each side has played: `sql/windowed_counts.sql`.

    Args:
        database: where to count.
        games: in their total order.
        window_us: length of the window, microseconds.
        first: the games before this position are only counted.

    Returns:
        int32 `(2, n_games - first)`, row 0 the winner's.
    """
    n = games.played_us.size
    # Narrow numbers are what makes a window query quick.
    kind = np.int32 if 2 * n < 2**31 else np.int64
    slot = np.arange(n, dtype=kind)
    reach = 2 * reach_of(games.played_us, window_us).astype(kind)
    events = pa.table(
        {
            "event": np.concatenate((2 * slot, 2 * slot + 1)),
            "player_index": np.concatenate((games.winner, games.loser)),
            "reach": np.concatenate((reach, reach + 1)),
        }
    )
    with database.registered("side_events", events):
        rows = database.arrow("windowed_counts", {"first_event": 2 * first})
    counts = np.empty(2 * (n - first), np.int32)
    counts[rows["event"].to_numpy() - 2 * first] = rows["recent_games"].to_numpy()
    return np.ascontiguousarray(counts.reshape(-1, 2).T)


def reach_of(played_us: NDArray[np.int64], window_us: int) -> NDArray[np.int64]:
    """How many games before each one lie in its window: a game exactly `window_us` old does.

    Args:
        played_us: int64 `(n_games,)`, rising.
        window_us: length of the window, microseconds.

    Returns:
        int64 `(n_games,)`; games of the same instant that stand earlier are among them.
    """
    least = np.iinfo(np.int64).min
    begins = np.where(played_us < least + window_us, least, played_us - window_us)
    return np.arange(played_us.size) - np.searchsorted(played_us, begins, side="left")


def k_of_week(
    ruleset: Ruleset, version: NDArray[np.int16], k: NDArray[np.float64], recent: NDArray[np.int32]
) -> NDArray[np.float64]:
    """The k of each side after its week: the reduced one from so many games on, where the version in force has one.

    Args:
        ruleset: the rules.
        version: int16 `(n_games,)`.
        k: float64 `(n_games,)`, of the version.
        recent: int32 `(2, n_games)`.

    Returns:
        float64 `(2, n_games)`.
    """
    reduced = np.array([np.nan if value is None else value for value in ruleset.version_table()["heavy_k"]], np.float64)
    return np.where(is_heavy(ruleset, version, recent), reduced[version], k)


def is_heavy(ruleset: Ruleset, version: NDArray[np.int16], recent: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether a week of so many games is a heavy one under the version in force; shapes as in `k_of_week`."""
    never = np.iinfo(np.int64).max
    games = np.array([never if games is None else games for games in ruleset.version_table()["heavy_games"]], np.int64)
    return np.asarray(recent >= games[version])


def _numbers(rows: pa.Table, name: str, dtype: type[Number]) -> NDArray[Number]:
    """A column as a writable array of one type (what Arrow hands out is read-only, which would be another kernel signature)."""
    column = rows[name]
    if column.null_count:
        column = column.fill_null(0)
    return np.array(column.to_numpy(), dtype=dtype)
