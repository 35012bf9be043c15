"""The sequential part: what depends on ratings, and nothing else. Read this first if you read one thing.

Everything that does not depend on a rating (order, counts, rule version, divisor, stake, k from the week) arrives as arrays.
Left here are, per game: two reads, one expectation, two changes, two writes, and the player's own past (experience, games, peak).

Formula (docs/rulesets.md): expected = 1 / (1 + 10^(-gap / divisor)), change = k * stake * (score - expected), with the winner's
expectation in both lines, so that equal k gives exact opposites. Every rule value is an argument: a global would be frozen
into the compiled code. No fastmath: results must not depend on the machine's mood.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

K_BY_GAMES = 1
K_BY_RATING = 2
ROUND_NONE = 0
ROUND_HALF_AWAY = 1
LAST_INSTANT = 2**63 - 1

#: What a run knows of one player, 64 bytes: one cache line, for players are touched in no order. `peak_rating` is -inf before the
#: first game or award; instants are microseconds; `seen`: has a game, an award or a start rating.
PLAYER_STATE = np.dtype(
    [
        ("rating", np.float64),
        ("experience", np.float64),
        ("peak_rating", np.float64),
        ("peak_us", np.int64),
        ("last_us", np.int64),
        ("games", np.int32),
        ("wins", np.int32),
        ("losses", np.int32),
        ("draws", np.int32),
        ("seen", np.int64),
    ]
)


@njit(nogil=True)
def round_half_away(x):  # type: ignore[no-untyped-def]
    """Nearest whole number, halves away from zero (12.5 -> 13, -12.5 -> -13, 0.49999999999999994 -> 0); float64."""
    whole = math.trunc(x)
    if abs(x - whole) >= 0.5:
        whole += 1.0 if x > 0.0 else -1.0
    return float(whole)


@njit(nogil=True)
def round_each(values):  # type: ignore[no-untyped-def]
    """`round_half_away` of each value, in place; float64 `(n,)`."""
    for i in range(values.size):
        values[i] = round_half_away(values[i])


@njit(nogil=True)
def expected_score(gap, divisor):  # type: ignore[no-untyped-def]
    """Expected score of a side that is `gap` points above the other; float64 in [0, 1]."""
    return 1.0 / (1.0 + 10.0 ** (-gap / divisor))


@njit(nogil=True)
def rate_game(gap, divisor, winner_k, loser_k, stake, score, rounding):  # type: ignore[no-untyped-def]
    """One game: expected score of the winner's side and both changes.

    Args:
        gap: winner's rating (with any advantage) minus loser's, points.
        divisor: points; `divisor / sqrt(N)` for a match of N points.
        winner_k: the winner's own k.
        loser_k: the loser's own k.
        stake: multiplies both changes.
        score: 1 for a win, 0.5 for a draw.
        rounding: ROUND_NONE or ROUND_HALF_AWAY, of each change, once.

    Returns:
        (winner's expected score, winner's change, loser's change), float64.
    """
    expected = expected_score(gap, divisor)
    winner_change = winner_k * stake * (score - expected)
    loser_change = loser_k * stake * (expected - score)
    if rounding == ROUND_HALF_AWAY:
        winner_change = round_half_away(winner_change)
        loser_change = round_half_away(loser_change)
    return expected, winner_change, loser_change


@njit(nogil=True)
def bounded(rating, change, floor, cap, max_change):  # type: ignore[no-untyped-def]
    """The change that is left after the ruleset's bounds on a change and on a rating, points."""
    change = min(max(change, -max_change), max_change)
    after = rating + change
    # A rating that already stands outside (a start rating, an earlier version) is not moved back by a bound, only not further out.
    if change < 0.0 and after < floor:
        change = min(floor - rating, 0.0)
    elif change > 0.0 and after > cap:
        change = max(cap - rating, 0.0)
    return change


@njit(nogil=True)
def _table_k(x, first, last, k_from, k_value):  # type: ignore[no-untyped-def]
    """The k of the last step that starts at or below `x`; the first step's below all of them."""
    k = k_value[first]
    for step in range(first + 1, last):
        if k_from[step] <= x:
            k = k_value[step]
    return k


@njit(nogil=True)
def own_k(k, player, length, axis, first, last, k_from, k_value, height, ramp_length, ramp_after):  # type: ignore[no-untyped-def]
    """A player's k from the k that SQL computed, his games or rating (tables) and his experience (ramp)."""
    if axis != 0:
        x = float(player.games) if axis == K_BY_GAMES else player.rating
        k *= _table_k(x, first, last, k_from, k_value)
    if height > 1.0:
        experience = player.experience + length if ramp_after else player.experience
        k *= max(1.0, height - (height - 1.0) * experience / ramp_length)
    return k


@njit(nogil=True)
def _move(player, change, now):  # type: ignore[no-untyped-def]
    """Write a changed rating and what follows from it."""
    player.rating += change
    player.seen = 1
    if player.rating > player.peak_rating:
        player.peak_rating = player.rating
        player.peak_us = now


@njit(nogil=True)
def replay_games(  # type: ignore[no-untyped-def]
    winner,
    loser,
    played_us,
    score,
    advantage,
    divisor,
    stake,
    winner_k,
    loser_k,
    match_length,
    version,
    award_player,
    award_us,
    award_points,
    state,
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
    out_before,
    out_change,
    out_expected,
    out_k,
    out_games,
    out_experience,
    award_before,
    award_change,
):
    """Rate a run of games in their total order, with the awards of the same stretch as a second sorted cursor.

    Args:
        winner: int32 `(n_games,)`, the winner's position in `state` (checked by the caller, not here).
        loser: int32 `(n_games,)`.
        played_us: int64 `(n_games,)`, rising.
        score: float64 `(n_games,)`, 1 or 0.5 (a draw).
        advantage: float64 `(n_games,)`, points added to the winner's rating for the expectation only.
        divisor: float64 `(n_games,)`, points; already divided by the root of the match length where the rules say so.
        stake: float64 `(n_games,)`.
        winner_k: float64 `(n_games,)`, from version and weekly count.
        loser_k: float64 `(n_games,)`.
        match_length: float64 `(n_games,)`, what a match adds to both sides' experience.
        version: int16 `(n_games,)`, position in the arrays by version.
        award_player: int32 `(n_awards,)`; awards in order; all of this stretch are applied, those at a game's instant before it.
        award_us: int64 `(n_awards,)`.
        award_points: float64 `(n_awards,)`.
        state: `PLAYER_STATE` `(n_players,)`, read and written.
        k_axis: and the next seven: `rules.KernelTables`.
        k_first: see there.
        k_last: see there.
        k_from: see there.
        k_value: see there.
        ramp_height: see there.
        ramp_length: see there.
        ramp_after: see there.
        rounding: ROUND_NONE or ROUND_HALF_AWAY.
        floor: lowest rating, or -inf.
        cap: highest rating, or inf.
        max_change: largest change of one game, or inf.
        out_before: filled, float64 `(n_games, 2)`, column 0 the winner's; likewise `out_change`, `out_k`, `out_experience`.
        out_change: filled.
        out_expected: filled, float64 `(n_games,)`, the winner's expected score.
        out_k: filled.
        out_games: filled, int32 `(n_games, 2)`, rated games before.
        out_experience: filled.
        award_before: filled, float64 `(n_awards,)`.
        award_change: filled, float64 `(n_awards,)`, the points less what a floor or cap took.
    """
    award = 0
    for i in range(winner.size + 1):
        now = played_us[i] if i < winner.size else LAST_INSTANT
        while award < award_player.size and award_us[award] <= now:
            player = state[award_player[award]]
            change = bounded(player.rating, award_points[award], floor, cap, math.inf)
            award_before[award] = player.rating
            award_change[award] = change
            _move(player, change, award_us[award])
            award += 1
        if i == winner.size:
            break

        w = state[winner[i]]
        lo = state[loser[i]]
        v = version[i]
        length = match_length[i]
        # Both sides are read before either is written.
        w_rating = w.rating
        l_rating = lo.rating
        w_k = own_k(
            winner_k[i], w, length, k_axis[v], k_first[v], k_last[v], k_from, k_value, ramp_height[v], ramp_length[v], ramp_after[v]
        )
        l_k = own_k(
            loser_k[i], lo, length, k_axis[v], k_first[v], k_last[v], k_from, k_value, ramp_height[v], ramp_length[v], ramp_after[v]
        )
        expected, w_change, l_change = rate_game(
            w_rating + advantage[i] - l_rating, divisor[i], w_k, l_k, stake[i], score[i], rounding
        )
        w_change = bounded(w_rating, w_change, floor, cap, max_change)
        l_change = bounded(l_rating, l_change, floor, cap, max_change)

        out_before[i, 0] = w_rating
        out_before[i, 1] = l_rating
        out_change[i, 0] = w_change
        out_change[i, 1] = l_change
        out_expected[i] = expected
        out_k[i, 0] = w_k
        out_k[i, 1] = l_k
        out_games[i, 0] = w.games
        out_games[i, 1] = lo.games
        out_experience[i, 0] = w.experience
        out_experience[i, 1] = lo.experience

        if score[i] == 1.0:
            w.wins += 1
            lo.losses += 1
        else:
            w.draws += 1
            lo.draws += 1
        w.games += 1
        lo.games += 1
        w.experience += length
        lo.experience += length
        w.last_us = now
        lo.last_us = now
        _move(w, w_change, now)
        _move(lo, l_change, now)
