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
    elapsed_s: dict[str, float]


def prepare(database: Database, ruleset: Ruleset, from_us: int, to_us: int, players: int) -> Stretch:
    """Prepare the games of `[from_us, to_us)`; the window before it is read as context only.

    Args:
        database: with what `games.open_door` left, `player_index` and the view `rule_terms`.
        ruleset: the rules.
        from_us: first instant, microseconds.
        to_us: end, microseconds, not included.
        players: length of the state; every position is checked against it, for the kernel does not look.

    Raises:
        EnvironmentFault: disk or memory, or a position outside the state (a fault of ours, never to be computed on).
    """
    started = time.perf_counter()
    window_us = ruleset.window_us
    context_us = from_us if window_us is None else max(from_us - window_us, BEGINNING_US)
    rows = database.arrow("chunk_games", {"from_us": context_us, "to_us": to_us})
    played_us = _numbers(rows, "played_us", np.int64)
    winner, loser = _numbers(rows, "winner_index", np.int32), _numbers(rows, "loser_index", np.int32)
    version = _numbers(rows, "version_index", np.int16)
    for side in (winner, loser):
        if side.size and (side.min() < 0 or side.max() >= players):
            raise EnvironmentFault("a player's position lies outside the state; this is a fault in eloreplay, please report it")
    read_s = time.perf_counter() - started

    started = time.perf_counter()
    k = np.empty((2, rows.num_rows), np.float64)
    recent = None
    if window_us is None:
        k[:] = _numbers(rows, "k", np.float64)
    else:
        recent = np.empty((2, rows.num_rows), np.int32)
        ordered = pa.table(
            {
                "slot": np.arange(rows.num_rows, dtype=np.int64),
                "played_us": rows["played_us"],
                "winner_index": rows["winner_index"],
                "loser_index": rows["loser_index"],
                "version_index": rows["version_index"],
            }
        )
        with database.registered("ordered_games", ordered):
            counts = database.arrow("windowed_counts", {"window_us": window_us})
        slot, side = counts["slot"].to_numpy(), counts["side"].to_numpy()
        recent[side, slot] = counts["recent_games"].to_numpy()
        k[side, slot] = counts["k"].to_numpy()
    window_s = time.perf_counter() - started

    first = int(np.searchsorted(played_us, from_us, side="left"))
    rows = rows.slice(first)
    draws = rows["is_draw"].to_numpy()
    return Stretch(
        rows=rows,
        played_us=played_us[first:],
        winner=winner[first:],
        loser=loser[first:],
        score=np.where(draws, 0.5, 1.0),
        advantage=_numbers(rows, "advantage", np.float64),
        divisor=_numbers(rows, "divisor", np.float64),
        stake=_numbers(rows, "stake", np.float64),
        match_length=_numbers(rows, "match_length", np.float64),
        k=np.ascontiguousarray(k[:, first:]),
        version=version[first:],
        recent=None if recent is None else recent[:, first:],
        elapsed_s={"reading": read_s, "window": window_s},
    )


def _numbers(rows: pa.Table, name: str, dtype: type[Number]) -> NDArray[Number]:
    """A column as a writable array of one type (what Arrow hands out is read-only, which would be another kernel signature)."""
    column = rows[name]
    if column.null_count:
        column = column.fill_null(0)
    return np.array(column.to_numpy(), dtype=dtype)
