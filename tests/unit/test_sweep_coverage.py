"""The interval of a paired difference, where ratings are really played out: does it hold the truth as often as it says?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from eloreplay.kernel import ROUND_HALF_AWAY
from eloreplay.sweep_kernel import GROUPS, NEVER_HEAVY, SUMS, SWEEP_STATE, sweep_games
from eloreplay.sweep_scores import cell_differences, cells, estimate

PLAYERS, GAMES = 300, 6_000


def rated(winner: Any, loser: Any, group: Any, divisor: float) -> Any:
    """The sums of games rated at a divisor with K 32."""
    n = len(winner)
    state = np.zeros(PLAYERS, SWEEP_STATE)
    state["rating"] = 1500.0
    sums = np.zeros(1, SUMS)
    ones, none, zero = np.ones(n), np.empty(0), np.zeros(1, np.int64)
    games = (winner, loser, np.arange(n), ones, np.zeros(n), ones, np.zeros(n), np.zeros(n, np.int16), np.zeros(n, np.int32))
    more = (np.zeros((2, n), np.int32), (group[winner] * GROUPS + group[loser]).astype(np.int16), np.zeros(n, np.int32))
    awards = (np.empty(0, np.int32), np.empty(0, np.int64), none)
    rules = (np.array([divisor]), np.ones(1), np.array([32.0]), np.array([NEVER_HEAVY]), np.ones(1))
    tables = (np.zeros(1, np.int8), zero, zero, none, none, np.ones(1), np.ones(1), np.zeros(1, np.bool_))
    sweep_games(*games, *more, *awards, *rules, *tables, ROUND_HALF_AWAY, -math.inf, math.inf, math.inf, 0, state, sums)
    return sums[0]


@pytest.mark.parametrize("activity", [0.0, 1.3])
def test_paired_intervals_cover_and_are_narrower_than_unpaired_ones(activity: float) -> None:
    """300 seeded studies, each with players of its own, for it is they who are drawn: 95 % are 285; 270 to 298 is four deviations."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(300):
        strength = rng.normal(0.0, 250.0, PLAYERS)
        busy = np.exp(rng.normal(0.0, activity, PLAYERS))
        group = rng.integers(0, GROUPS, PLAYERS)
        first = rng.choice(PLAYERS, GAMES, p=busy / busy.sum())
        second = rng.choice(PLAYERS, GAMES, p=busy / busy.sum())
        second = np.where(first == second, (second + 1) % PLAYERS, second)
        wins = rng.random(GAMES) < 1.0 / (1.0 + 10.0 ** (-(strength[first] - strength[second]) / 1200.0))
        winner, loser = np.where(wins, first, second).astype(np.int32), np.where(wins, second, first).astype(np.int32)
        games = np.bincount(group[winner] * GROUPS + group[loser], minlength=GROUPS**2).reshape(GROUPS, GROUPS)
        now, then = (rated(winner, loser, group, divisor) for divisor in (1200.0, 600.0))
        paired = estimate(cell_differences(then["loss"], now["loss"]), games)
        alone = [estimate(cells(sums["loss"]), games) for sums in (now, then)]
        found.append((paired.value, paired.low, paired.high, math.hypot(*(one.high - one.low for one in alone))))
    value, low, high, unpaired = np.array(found).T
    truth = value.mean()
    held = int(((low <= truth) & (truth <= high)).sum())
    assert 270 <= held <= 298, held
    # And not by being wide: the intervals are about as wide as the differences spread.
    assert 0.8 < np.mean(high - low) / (2 * 1.96 * value.std()) < 1.4
    assert ((high - low) < 0.5 * unpaired).all()
