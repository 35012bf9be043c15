"""From the sums of a sweep to its scores: log loss, Brier, slope, swing, and how sure the difference of two settings is.

The games of two settings are the same games, so their losses are compared game by game: what one game's luck did to both cancels.
And games are not independent, for players repeat: every game belongs to two groups of players, and the variance counts what two
games with a group in common have in common (a dyadic cluster-robust variance: Fafchamps and Gubert 2007, J. Dev. Econ. 83: 326-350;
Aronow, Samii and Assenova 2015, Political Analysis 23: 564-577, here with groups of players in place of single ones).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eloreplay.calibration import Z95
from eloreplay.scores import logistic
from eloreplay.sweep_kernel import CARRY, GROUPS, LOGIT_UNITS, SWING_UNITS, UNITS, VOLUMES

#: Fewer groups than this say nothing about how they differ.
FEWEST_GROUPS = 4
#: A week counts as heavy from so many games on (the threshold of the first source), as `VOLUMES` has it.
HEAVY_WEEK = 50
NOTHING = math.nan


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; NaN where it cannot be said."""

    value: float
    low: float = NOTHING
    high: float = NOTHING


def mean_loss(sums: NDArray[np.int64], games: int) -> float:
    """Mean of the losses in a `SUMS` column `(GROUPS * GROUPS, 2)`: the exact sum, divided once."""
    if games == 0:
        return NOTHING
    units = sum(sums[:, 0].tolist()) + CARRY * sum(sums[:, 1].tolist())
    return float(units / (int(UNITS) * games))


def cells(sums: NDArray[np.int64]) -> NDArray[np.float64]:
    """Losses by cell, float64 `(GROUPS, GROUPS)`."""
    both = sums[:, 0].astype(np.float64) + CARRY * sums[:, 1].astype(np.float64)
    return (both / UNITS).reshape(GROUPS, GROUPS)


def cell_differences(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
    """Loss of one setting less that of another by cell, the difference taken in whole units; float64 `(GROUPS, GROUPS)`."""
    units = (one[:, 0] - other[:, 0]).astype(np.float64) + CARRY * (one[:, 1] - other[:, 1]).astype(np.float64)
    return (units / UNITS).reshape(GROUPS, GROUPS)


def _folded(by_cell: NDArray[Any]) -> NDArray[np.float64]:
    """Unordered cells: symmetric, each pair of groups in both places, the diagonal once; float64 `(GROUPS, GROUPS)`."""
    by_cell = by_cell.astype(np.float64)
    return np.asarray(by_cell + by_cell.T - np.diag(np.diag(by_cell)))


def group_sums(by_cell: NDArray[np.float64], games: NDArray[np.int64]) -> NDArray[np.float64]:
    """What the games of each group miss their share of the sum by; float64 `(GROUPS,)`."""
    return np.asarray(_residuals(by_cell, games).sum(axis=1))


def _residuals(by_cell: NDArray[np.float64], games: NDArray[np.int64]) -> NDArray[np.float64]:
    count = int(games.sum())
    return _folded(by_cell - by_cell.sum() / count * games)


def dyadic_variance(by_cell: NDArray[np.float64], games: NDArray[np.int64]) -> float:
    """Variance of the sum of all cells, with what games of a group have in common; NaN with fewer than `FEWEST_GROUPS` groups.

    Sum over groups of (sum of residuals of its games)^2, less the pairs of groups, which that counts twice. Scaled so that it is
    unbiased when nothing is in common (the residuals are from the games' own mean).

    Args:
        by_cell: sums by cell, float64 `(GROUPS, GROUPS)`.
        games: games by cell, int64 `(GROUPS, GROUPS)`.
    """
    if effective_groups(games) < FEWEST_GROUPS:
        return NOTHING
    upper = np.triu_indices(GROUPS, 1)
    left, counts = _residuals(by_cell, games), _folded(games)
    by_group, games_of_group = left.sum(axis=1), counts.sum(axis=1)
    found = float((by_group**2).sum() - (left[upper] ** 2).sum())
    # By chance the first can be below what the cells alone say, or even below 0.
    alone = float((left[upper] ** 2).sum() + (np.diag(left) ** 2).sum())
    total = float(games.sum())
    kept = total - float((games_of_group**2).sum() - (counts[upper] ** 2).sum()) / total
    return max(found, alone) * total / kept if kept > 0 else NOTHING


def effective_groups(games: NDArray[np.int64]) -> float:
    """How many equally busy groups would spread the games as evenly (Kish): 64 at most."""
    by_group = _folded(games).sum(axis=1)
    total = float(by_group.sum())
    return total * total / float((by_group**2).sum()) if total else 0.0


def estimate(by_cell: NDArray[np.float64], games: NDArray[np.int64]) -> Estimate:
    """Mean a game with its 95 % interval; arguments as in `dyadic_variance`."""
    count = int(games.sum())
    if count == 0:
        return Estimate(NOTHING)
    mean = float(by_cell.sum()) / count
    variance = dyadic_variance(by_cell, games)
    if math.isnan(variance):
        return Estimate(mean)
    reach = student_quantile(effective_groups(games) - 1.0) * math.sqrt(variance) / count
    return Estimate(mean, mean - reach, mean + reach)


def student_quantile(freedom: float) -> float:
    """97.5 % quantile of Student's t (Abramowitz and Stegun 26.7.5); within 0.5 % from 3 degrees of freedom on."""
    z = Z95
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))


def best_shares(
    losses: NDArray[np.float64], by_group: NDArray[np.float64], scale: NDArray[np.float64], draws: int, seed: int
) -> NDArray[np.float64]:
    """In which share of bootstrap draws each setting has the lowest loss; float64 `(n_settings,)`, adding up to 1.

    Groups of players are drawn with replacement. A game moves with the weights of both its groups, less one; as that alone
    spreads a mean too widely, each setting's draws are scaled to its own dyadic variance.

    Args:
        losses: mean loss by setting less that of the first, `(n_settings,)`.
        by_group: `group_sums` of those differences, `(n_settings, GROUPS)`.
        scale: factor of each setting's draws, `(n_settings,)`.
        draws: how many.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(GROUPS, np.full(GROUPS, 1.0 / GROUPS), size=draws) - 1
    drawn = losses[:, None] + scale[:, None] * (by_group @ weights.T.astype(np.float64))
    return np.bincount(np.argmin(drawn, axis=0), minlength=len(losses)) / draws


def logit_line(sums: NDArray[Any]) -> tuple[float, float]:
    """Slope and intercept of the favourites' results on the logit of what they were expected to score (`scores.logistic`).

    Args:
        sums: a record of `SUMS`; the logits stand in bins of 1/128 with their own means.

    Returns:
        (slope, intercept); NaN where the results cannot tell (one bin only, or favourites that always won).
    """
    held = sums["logit_games"] > 0
    games = sums["logit_games"][held].astype(np.float64)
    logit = sums["logit_sum"][held] / LOGIT_UNITS / np.maximum(games, 1.0)
    points = sums["logit_half_wins"][held] / 2.0
    fit = logistic([np.ones_like(logit), logit], games, [math.fsum(points), math.fsum(points * logit)])
    if fit is None:
        return NOTHING, NOTHING
    return float(fit.coefficients[1]), float(fit.coefficients[0])


def swings(sums: NDArray[Any]) -> list[tuple[int, int, float]]:
    """By volume of a week (`VOLUMES`): least games, weeks, and the mean distance in points that it moved a player (NaN: none)."""
    rows = zip(VOLUMES, sums["swing_weeks"].tolist(), sums["swing"].tolist(), strict=True)
    return [(games, weeks, units / SWING_UNITS / weeks if weeks else NOTHING) for games, weeks, units in rows]


def swing(sums: NDArray[Any], *, heavy: bool) -> float:
    """Mean distance in points that a player's rated games moved him within a calendar week; heavy: from `HEAVY_WEEK` games on."""
    held = [(games >= HEAVY_WEEK) == heavy for games in VOLUMES]
    weeks = int(sums["swing_weeks"][held].sum())
    return int(sums["swing"][held].sum()) / SWING_UNITS / weeks if weeks else NOTHING
