"""One run of games through the kernel, with the awards and adjustments that fall between them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.compiled import ready
from eloreplay.events import Events, adjust, keep_in_range, record_awards
from eloreplay.kernel import PLAYER_STATE, ROUND_HALF_AWAY, ROUND_NONE, replay_games
from eloreplay.prepare import Recent, Stretch
from eloreplay.queries import Database
from eloreplay.rules import Ruleset


@dataclass
class Outputs:
    """What the kernel fills for a run of games; shapes as in `kernel.replay_games`."""

    before: NDArray[np.float64]
    change: NDArray[np.float64]
    expected: NDArray[np.float64]
    k: NDArray[np.float64]
    games: NDArray[np.int32]
    experience: NDArray[np.float64]

    def followed_by(self, later: Outputs) -> Outputs:
        """These games and then those."""
        pairs = ((getattr(self, field.name), getattr(later, field.name)) for field in fields(self))
        return Outputs(*(np.concatenate(pair) for pair in pairs))


def initial_state(database: Database, ruleset: Ruleset, players: int) -> NDArray[Any]:
    """The state before the first game: the ruleset's start, or the start rating that was given; `PLAYER_STATE` `(players,)`."""
    state = np.zeros(players, PLAYER_STATE)
    state["rating"] = ruleset.start
    state["peak_rating"] = -math.inf
    starts = database.arrow("start_positions")
    at = starts["player_index"].to_numpy()
    state["rating"][at] = starts["rating"].to_numpy()
    state["games"][at] = starts["games"].to_numpy()
    state["experience"][at] = starts["experience"].to_numpy()
    state["seen"][at] = 1
    return state


def rate(
    stretch: Stretch,
    first: int,
    last: int,
    events: Events,
    state: NDArray[Any],
    ruleset: Ruleset,
    to_us: int,
    index: pa.Table,
) -> Outputs:
    """Rate the games `first:last` of a stretch, with every award and adjustment before `to_us`; `state` moves on."""
    n = last - first
    out = Outputs(
        before=np.empty((n, 2)),
        change=np.empty((n, 2)),
        expected=np.empty(n),
        k=np.empty((n, 2)),
        games=np.empty((n, 2), np.int32),
        experience=np.empty((n, 2)),
    )
    at = first
    # An adjustment comes before the awards and games of its instant: it cuts the run of games in two.
    while events.next_adjustment < len(events.adjustments) and events.adjustments[events.next_adjustment].at < to_us:
        adjustment = events.adjustments[events.next_adjustment]
        cut = at + int(np.searchsorted(stretch.played_us[at:last], adjustment.at, side="left"))
        _run_kernel(stretch, at, cut, out, at - first, events, adjustment.at, state, ruleset)
        adjust(adjustment, events, state, ruleset, index)
        at = cut
    _run_kernel(stretch, at, last, out, at - first, events, to_us, state, ruleset)
    return out


def apply_events(events: Events, state: NDArray[Any], ruleset: Ruleset, to_us: int | None, index: pa.Table) -> None:
    """Apply what is left of awards and adjustments before `to_us` (None: all of it), without any game."""
    end = 2**63 - 1 if to_us is None else to_us
    empty = np.empty(0)
    nothing = Stretch(
        rows=events.rows.slice(0, 0),
        played_us=np.empty(0, np.int64),
        winner=np.empty(0, np.int32),
        loser=np.empty(0, np.int32),
        score=empty,
        advantage=empty,
        divisor=empty,
        stake=empty,
        match_length=empty,
        k=np.empty((2, 0)),
        version=np.empty(0, np.int16),
        recent=None,
        trailing=Recent.nothing(),
        elapsed_s={},
    )
    rate(nothing, 0, 0, events, state, ruleset, end, index)


def warm_up(ruleset: Ruleset) -> float:
    """Have the kernel compiled or loaded, by rating nothing with it; returns the seconds that took.

    Meant for a thread of its own while the input is read: compiling and reading hardly wait for each other.
    """
    started = time.perf_counter()
    nothing = pa.table({"pool": pa.nulls(0)})
    events = Events(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0), nothing, ())
    ready(replay_games, lambda: apply_events(events, np.empty(0, PLAYER_STATE), ruleset, None, nothing))
    return time.perf_counter() - started


def _run_kernel(
    stretch: Stretch,
    first: int,
    last: int,
    out: Outputs,
    offset: int,
    events: Events,
    before_us: int,
    state: NDArray[Any],
    ruleset: Ruleset,
) -> None:
    """One call of the kernel: games `first:last`, and the awards before `before_us` that are not yet applied."""
    start = events.next_award
    end = int(np.searchsorted(events.awarded_us, before_us, side="left")) if before_us < 2**63 - 1 else len(events.player)
    end = max(end, start)
    award_before, award_change = np.empty(end - start), np.empty(end - start)
    here = slice(first, last)
    there = slice(offset, offset + last - first)
    replay_games(
        stretch.winner[here],
        stretch.loser[here],
        stretch.played_us[here],
        stretch.score[here],
        stretch.advantage[here],
        stretch.divisor[here],
        stretch.stake[here],
        stretch.k[0, here],
        stretch.k[1, here],
        stretch.match_length[here],
        stretch.version[here],
        events.player[start:end],
        events.awarded_us[start:end],
        events.points[start:end],
        state,
        *ruleset.kernel_tables(),
        ROUND_HALF_AWAY if ruleset.integer_ratings else ROUND_NONE,
        -math.inf if ruleset.floor is None else float(ruleset.floor),
        math.inf if ruleset.cap is None else float(ruleset.cap),
        math.inf if ruleset.max_change is None else float(ruleset.max_change),
        out.before[there],
        out.change[there],
        out.expected[there],
        out.k[there],
        out.games[there],
        out.experience[there],
        award_before,
        award_change,
    )
    keep_in_range(award_before, award_change, "award", events.rows, "award_id", start, ruleset)
    keep_in_range(out.before[there], out.change[there], "game", stretch.rows, "game_id", first, ruleset)
    record_awards(events, end, award_before, award_change)
