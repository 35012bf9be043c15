"""Scores and intervals from the sums of a sweep: against definitions written out, and against what is known."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from eloreplay.sweep_kernel import CARRY, GROUPS, LOGIT_BINS, LOGIT_SCALE, LOGIT_UNITS, SUMS, UNITS, _add
from eloreplay.sweep_scores import (
    best_shares,
    cell_differences,
    cells,
    dyadic_variance,
    effective_groups,
    estimate,
    group_sums,
    logit_line,
    mean_loss,
    student_quantile,
    swing,
)


def by_cell(first: Any, second: Any, values: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(sums, games) by cell of games between groups."""
    at = np.asarray(first) * GROUPS + np.asarray(second)
    sums = np.bincount(at, weights=values, minlength=GROUPS * GROUPS).reshape(GROUPS, GROUPS)
    return sums, np.bincount(at, minlength=GROUPS * GROUPS).reshape(GROUPS, GROUPS)


def test_sums_carry_and_stay_exact() -> None:
    sums = np.zeros((3, 2), np.int64)
    sums[1, 0] = CARRY - 5
    _add(sums, 1, 7.0 / UNITS)
    _add(sums, 2, 700.0)
    assert sums.tolist() == [[0, 0], [2, 1], [700 * 2**40, 0]]
    assert mean_loss(sums, 4) == (CARRY + 2 + 700 * 2**40) / 2**42
    wide = np.zeros((GROUPS * GROUPS, 2), np.int64)
    wide[5] = (2**40, 3)
    assert cells(wide)[0, 5] == 1.0 + 3 * 2.0**22
    # The difference of two large sums is taken before it becomes a float.
    other = wide.copy()
    other[5, 0] -= 1
    assert cell_differences(wide, other)[0, 5] == 2.0**-40


@pytest.mark.parametrize("seed", range(5))
def test_variance_is_the_sum_over_all_pairs_of_games_that_share_a_group(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 120
    first, second = rng.integers(0, 9, n), rng.integers(0, 9, n)
    values = rng.normal(0.3, 1.0, n) + 2.0 * np.linspace(-1, 1, 9)[first]
    left = values - values.mean()
    every = sum(
        left[i] * left[j] for i, j in itertools.product(range(n), repeat=2) if {first[i], second[i]} & {first[j], second[j]}
    )
    # The scale: what that sum is, on average, when the games have nothing in common, over the true variance.
    share = np.array(
        [[bool({a, b} & {c, d}) for c, d in zip(first, second, strict=True)] for a, b in zip(first, second, strict=True)]
    )
    kept = np.trace((np.eye(n) - 1 / n) @ share @ (np.eye(n) - 1 / n)) / n
    sums, games = by_cell(first, second, values)
    found = dyadic_variance(sums, games)
    assert every > 0
    assert math.isclose(found, every / kept, rel_tol=1e-9)


def test_few_groups_say_nothing() -> None:
    sums, games = by_cell([0, 0, 1], [1, 2, 2], [1.0, 2.0, 3.0])
    assert math.isnan(dyadic_variance(sums, games))
    found = estimate(sums, games)
    assert (found.value, math.isnan(found.low)) == (2.0, True)
    nothing = np.zeros((GROUPS, GROUPS), np.int64)
    assert math.isnan(estimate(nothing.astype(float), nothing).value)


def test_effective_groups() -> None:
    pairs = list(itertools.combinations(range(GROUPS), 2))
    _, games = by_cell(*zip(*pairs, strict=True), np.zeros(len(pairs)))
    assert math.isclose(effective_groups(games), GROUPS)
    assert effective_groups(np.zeros((GROUPS, GROUPS), np.int64)) == 0.0


@pytest.mark.parametrize(
    ("freedom", "printed"), [(3, 3.182446), (4, 2.776445), (5, 2.570582), (10, 2.228139), (30, 2.042272), (60, 2.000298)]
)
def test_student_quantiles_are_the_printed_ones(freedom: int, printed: float) -> None:
    """Table of Student's t, 97.5 %; the series leaves out terms of the fifth order."""
    assert math.isclose(student_quantile(freedom), printed, rel_tol=5e-3 if freedom < 5 else 1e-3)


def coverage(effect: float, studies: int) -> tuple[int, float]:
    """In how many studies the interval holds the true mean 0, and its mean width in standard errors of the games alone."""
    rng = np.random.default_rng(7)
    held, width = 0, 0.0
    players, n = 300, 2500
    group = rng.integers(0, GROUPS, players)
    busy = np.exp(rng.normal(0.0, 1.0, players))
    for _ in range(studies):
        first, second = (rng.choice(players, n, p=busy / busy.sum()) for _ in range(2))
        own = rng.normal(0.0, effect, players)
        sums, games = by_cell(group[first], group[second], rng.normal(0.0, 1.0, n) + own[first] + own[second])
        found = estimate(sums, games)
        held += found.low <= 0.0 <= found.high
        width += (found.high - found.low) / 2 * math.sqrt(n) / 1.96
    return held, width / studies


def test_intervals_cover_games_that_have_nothing_in_common_without_being_wide() -> None:
    """Of 400 seeded studies 95 % are 380; 363 to 394 is four standard deviations of that number."""
    held, width = coverage(0.0, 400)
    assert 363 <= held <= 394
    assert width < 1.15


def test_intervals_cover_games_whose_players_differ() -> None:
    """Players' own effects make the games' own interval several times too narrow; the groups' covers all the same."""
    held, width = coverage(0.5, 400)
    assert held >= 360
    assert width > 3.0


def test_best_shares_follow_the_distance_and_add_up() -> None:
    rng = np.random.default_rng(3)
    by_group = np.vstack([np.zeros(GROUPS), rng.normal(0.0, 0.01, (2, GROUPS))])
    shares = best_shares(np.array([0.0, -0.05, 5.0]), by_group, np.ones(3), 4000, 1)
    assert shares.sum() == 1.0
    assert 0.6 < shares[1] < 0.9
    assert shares[2] == 0.0
    assert np.array_equal(shares, best_shares(np.array([0.0, -0.05, 5.0]), by_group, np.ones(3), 4000, 1))
    assert not np.array_equal(shares, best_shares(np.array([0.0, -0.05, 5.0]), by_group, np.ones(3), 4000, 2))


def test_group_sums_add_up_to_nothing_when_no_game_stays_within_a_group() -> None:
    rng = np.random.default_rng(4)
    first = rng.integers(0, GROUPS, 500)
    sums, games = by_cell(first, (first + rng.integers(1, GROUPS, 500)) % GROUPS, rng.normal(size=500))
    assert abs(group_sums(sums, games).sum()) < 1e-9


@pytest.mark.parametrize("slope", [0.4, 1.0, 1.7])
def test_the_line_through_the_logits_is_found(slope: float) -> None:
    sums = np.zeros(1, SUMS)[0]
    at = np.arange(10, 200, 3)
    logit = (at + 0.3) / LOGIT_SCALE
    games = np.full(len(at), 10**9)
    sums["logit_games"][at] = games
    sums["logit_sum"][at] = np.round(logit * LOGIT_UNITS).astype(np.int64) * games
    sums["logit_half_wins"][at] = np.round(2 * games / (1 + np.exp(-(slope * logit + 0.1)))).astype(np.int64)
    found = logit_line(sums)
    assert math.isclose(found[0], slope, rel_tol=1e-6)
    assert math.isclose(found[1], 0.1, rel_tol=1e-6)


def test_no_line_where_the_results_cannot_tell() -> None:
    sums = np.zeros(1, SUMS)[0]
    assert all(math.isnan(value) for value in logit_line(sums))
    sums["logit_games"][[3, 9]] = 5
    sums["logit_sum"][[3, 9]] = [5 * 2**22, 5 * 2**24]
    for wins in (0, 10):  # never, always
        sums["logit_half_wins"][[3, 9]] = wins
        assert all(math.isnan(value) for value in logit_line(sums))
    assert LOGIT_BINS > 9


def test_swing_parts_light_and_heavy_weeks() -> None:
    sums = np.zeros(1, SUMS)[0]
    sums["swing"][:] = np.array([10, 20, 0, 300, 0, 0]) * 2**20
    sums["swing_weeks"][:] = [4, 2, 0, 3, 0, 0]
    assert swing(sums, heavy=False) == 5.0
    assert swing(sums, heavy=True) == 100.0
    sums["swing_weeks"][:] = 0
    assert math.isnan(swing(sums, heavy=True))
