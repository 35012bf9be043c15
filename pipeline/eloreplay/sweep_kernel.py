"""The loop of a sweep: the games rated under one setting of the rules, and the sums its scores are made of.

It writes no timeline. The formula is the kernel's own (`rate_game`, `own_k`, `bounded`); what is added here is the week's k, for
which games count as heavy is one of the things that vary, and sums. These are whole numbers throughout: counts, and losses in units
of 2^-40. So neither the cut into stretches nor the number of threads can show in a result.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from eloreplay.kernel import LAST_INSTANT, bounded, own_k, rate_game

#: Players are put into so many groups by a hash of their ids; a game belongs to the cell of its two groups.
GROUPS = 64
#: Losses are summed in units of 2^-40.
UNITS = 2.0**40
#: A cell holds less than this; what goes beyond is carried into the cell beside it.
CARRY = 2**62
#: The smallest expected score that a logarithm is taken of.
SMALLEST = 5e-324
#: The favourite's logit is counted in bins of 1/128, the last one open from 16; sums of logits in units of 2^-28.
LOGIT_BINS, LOGIT_SCALE, LOGIT_UNITS, LARGEST_LOGIT = 2048, 128.0, 2.0**28, 64.0
#: Gaps in rating are counted in bins of 25 points, the last one open from 500, as in `sql/favourite_counts.sql`.
GAP_BINS, GAP_WIDTH = 21, 25.0
#: A player's week by his rated games in it: from 1, 10, 50, 100, 200, 300.
VOLUMES = (1, 10, 50, 100, 200, 300)
#: A week's movement is summed in units of 2^-20 points.
SWING_UNITS = 2.0**20
#: What a heavy week is when there is none: more games than a counter can hold.
NEVER_HEAVY = 2**62

#: What a sweep knows of one player under one setting, 40 bytes. `week_change`: points that the scored games of `week` moved him.
SWEEP_STATE = np.dtype(
    [
        ("rating", np.float64),
        ("experience", np.float64),
        ("week_change", np.float64),
        ("games", np.int32),
        ("seen", np.int32),
        ("week", np.int32),
        ("week_games", np.int32),
    ]
)
#: Sums of one part of the games (before and after the instant that parts them). `loss` and `brier` have the carry in column 1.
SUMS = np.dtype(
    [
        ("loss", np.int64, (GROUPS * GROUPS, 2)),
        ("brier", np.int64, (GROUPS * GROUPS, 2)),
        ("logit_games", np.int64, (LOGIT_BINS,)),
        ("logit_half_wins", np.int64, (LOGIT_BINS,)),
        ("logit_sum", np.int64, (LOGIT_BINS,)),
        ("gap_games", np.int64, (GAP_BINS,)),
        ("gap_half_wins", np.int64, (GAP_BINS,)),
        ("gap_expected", np.int64, (GAP_BINS,)),
        ("swing", np.int64, (len(VOLUMES),)),
        ("swing_weeks", np.int64, (len(VOLUMES),)),
    ]
)


@njit(nogil=True)
def game_loss(score, expected):  # type: ignore[no-untyped-def]
    """Log loss of one game, natural logarithm; a draw is half a win and half a loss."""
    if score == 1.0:
        return -math.log(max(expected, SMALLEST))
    return -score * math.log(max(expected, SMALLEST)) - (1.0 - score) * math.log(max(1.0 - expected, SMALLEST))


@njit(nogil=True)
def _add(sums, cell, value):  # type: ignore[no-untyped-def]
    """Add a loss to a cell in whole units, with carry."""
    total = sums[cell, 0] + np.int64(value * UNITS + 0.5)
    if total >= CARRY:
        total -= CARRY
        sums[cell, 1] += 1
    sums[cell, 0] = total


@njit(nogil=True)
def _volume(games):  # type: ignore[no-untyped-def]
    """Position in `VOLUMES` of a week with so many games."""
    at = 0
    for i in range(len(VOLUMES)):
        if games >= VOLUMES[i]:
            at = i
    return at


@njit(nogil=True)
def _close_week(player, sums, part):  # type: ignore[no-untyped-def]
    """Count a player's week that is over."""
    if player.week_games > 0:
        at = _volume(player.week_games)
        sums[part].swing[at] += np.int64(abs(player.week_change) * SWING_UNITS + 0.5)
        sums[part].swing_weeks[at] += 1


@njit(nogil=True)
def _move(player, change, length, week, sums, part):  # type: ignore[no-untyped-def]
    """Write a rating that a game has changed, and what follows from it."""
    player.rating += change
    player.experience += length
    player.games += 1
    player.seen = 1
    if player.week != week:
        _close_week(player, sums, part)
        player.week = week
        player.week_change = 0.0
        player.week_games = 0
    player.week_change += change
    player.week_games += 1


@njit(nogil=True)
def close_weeks(state, sums, part):  # type: ignore[no-untyped-def]
    """Count the weeks that are still open, into one part of the sums, and forget them."""
    for i in range(state.size):
        _close_week(state[i], sums, part)
        state[i].week_games = 0
        state[i].week_change = 0.0


@njit(nogil=True)
def sweep_games(  # type: ignore[no-untyped-def]
    winner,
    loser,
    played_us,
    score,
    advantage,
    weight,
    match_length,
    version,
    term,
    recent,
    cell,
    week,
    award_player,
    award_us,
    award_points,
    divisor,
    stake,
    k,
    heavy_games,
    heavy_k,
    k_axis,
    k_first,
    k_last,
    k_from,
    k_value,
    ramp_height,
    ramp_length,
    ramp_after,
    rounding,
    floor,
    cap,
    max_change,
    part,
    state,
    sums,
):
    """Rate a run of games under one setting and add up its scores; see `kernel.replay_games`, whose order of events this keeps.

    Args:
        winner: int32 `(n_games,)`, position in `state`; likewise `loser`.
        loser: see there.
        played_us: int64 `(n_games,)`, rising.
        score: float64 `(n_games,)`, 1 or 0.5.
        advantage: float64 `(n_games,)`, points added to the winner's rating for the expectation only.
        weight: float64 `(n_games,)`, multiplies the stake.
        match_length: float64 `(n_games,)`, adds to both sides' experience.
        version: int16 `(n_games,)`.
        term: int32 `(n_games,)`, position in `divisor` and `stake`.
        recent: int32 `(2, n_games)`, rated games in the counting window before, row 0 the winner's.
        cell: int16 `(n_games,)`, the winner's group times `GROUPS` plus the loser's.
        week: int32 `(n_games,)`, the calendar week of the game.
        award_player: int32 `(n_awards,)`; as in the kernel, all are applied, those at a game's instant before it.
        award_us: int64 `(n_awards,)`.
        award_points: float64 `(n_awards,)`.
        divisor: float64 `(n_terms,)`, points; of this setting, by the game's version, cube, match length and result.
        stake: float64 `(n_terms,)`, without the weight.
        k: float64 `(n_versions,)`; likewise `heavy_k`.
        heavy_games: int64 `(n_versions,)`, from so many recent games on `heavy_k` is in force.
        heavy_k: see `k`.
        k_axis: and the next seven: `rules.KernelTables`.
        k_first: see there.
        k_last: see there.
        k_from: see there.
        k_value: see there.
        ramp_height: see there.
        ramp_length: see there.
        ramp_after: see there.
        rounding: kernel.ROUND_NONE or ROUND_HALF_AWAY.
        floor: lowest rating, or -inf.
        cap: highest rating, or inf.
        max_change: largest change of one game, or inf.
        part: which part of the sums the games belong to.
        state: `SWEEP_STATE` `(n_players,)`, read and written.
        sums: `SUMS` `(n_parts,)`, added to.
    """
    here = sums[part]
    award = 0
    for i in range(winner.size + 1):
        now = played_us[i] if i < winner.size else LAST_INSTANT
        while award < award_player.size and award_us[award] <= now:
            player = state[award_player[award]]
            player.rating += bounded(player.rating, award_points[award], floor, cap, math.inf)
            player.seen = 1
            award += 1
        if i == winner.size:
            break

        w = state[winner[i]]
        lo = state[loser[i]]
        v = version[i]
        length = match_length[i]
        w_k = heavy_k[v] if recent[0, i] >= heavy_games[v] else k[v]
        l_k = heavy_k[v] if recent[1, i] >= heavy_games[v] else k[v]
        w_k = own_k(
            w_k, w, length, k_axis[v], k_first[v], k_last[v], k_from, k_value, ramp_height[v], ramp_length[v], ramp_after[v]
        )
        l_k = own_k(
            l_k, lo, length, k_axis[v], k_first[v], k_last[v], k_from, k_value, ramp_height[v], ramp_length[v], ramp_after[v]
        )
        w_rating = w.rating
        l_rating = lo.rating
        gap = w_rating + advantage[i] - l_rating
        expected, w_change, l_change = rate_game(gap, divisor[term[i]], w_k, l_k, stake[term[i]] * weight[i], score[i], rounding)
        w_change = bounded(w_rating, w_change, floor, cap, max_change)
        l_change = bounded(l_rating, l_change, floor, cap, max_change)

        _add(here.loss, cell[i], game_loss(score[i], expected))
        _add(here.brier, cell[i], (score[i] - expected) * (score[i] - expected))
        # At equality there is no favourite.
        if expected != 0.5:
            half_wins = 1 if score[i] == 0.5 else 2 if expected > 0.5 else 0
            logit = min(abs(gap) / divisor[term[i]] * math.log(10.0), LARGEST_LOGIT)
            at = min(int(logit * LOGIT_SCALE), LOGIT_BINS - 1)
            here.logit_games[at] += 1
            here.logit_half_wins[at] += half_wins
            here.logit_sum[at] += np.int64(logit * LOGIT_UNITS + 0.5)
            at = min(int(min(abs(gap) / GAP_WIDTH, 1000.0)), GAP_BINS - 1)
            here.gap_games[at] += 1
            here.gap_half_wins[at] += half_wins
            here.gap_expected[at] += np.int64(max(expected, 1.0 - expected) * UNITS + 0.5)

        _move(w, w_change, length, week[i], sums, part)
        _move(lo, l_change, length, week[i], sums, part)
