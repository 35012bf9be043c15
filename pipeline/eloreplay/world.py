"""What a made-up site is like (luck, how far its players are apart, whom they meet), and the players themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eloreplay.errors import UsageFault

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

TRUE_DIVISOR = 1200.0
"""Divisor of the true winning probability, in rating points."""
STRENGTH_SPREAD = 250.0
"""Standard deviation of the true strengths, in points.

So wide that ratings find a part of it: replayed at a divisor of 800, favourites win 57 to 58 % where about 60 % is
promised, which is what the first source says of its site.
"""
STRENGTH_ACTIVITY = 0.15
"""Correlation of true strength and the logarithm of activity: who plays more is a little stronger."""
ACTIVITY_SPREAD = 1.3
"""Standard deviation of the logarithm of activity: a few players play most of the games."""
DAY_US = 86_400_000_000
BURST_GAMES = 300
"""Ranked games a player of a burst week plays on top of his usual ones (the figure is the first source's own)."""

GAME_TYPES = ("ranked", "boosted", "casual", "tournament", "rankd")
RANKED, UNKNOWN = 0, 4
_GAME_TYPE_SHARES = (0.72, 0.12, 0.09, 0.07)
RANKED_SHARE = 0.72
ENDINGS = ("finished", "resigned", "left", "disconnected", "timeout")
_ENDING_SHARES = (0.70, 0.18, 0.05, 0.04, 0.03)
FORFEIT_SHARE = 0.3

Matchmaking = Literal["strength", "rating", "random"]


@dataclass(frozen=True)
class World:
    """What a site is like; the defaults are those of the shipped sample.

    Attributes:
        divisor: Of the true winning probability, points: how much luck there is.
        spread: Standard deviation of the true strengths at the start, points.
        drift: Standard deviation of what a player's true strength moves in 30 days, points; it moves once a week.
        activity: Standard deviation of the logarithm of activity; 0 makes all play alike.
        matchmaking: "strength": mostly anybody, with a mild pull towards a similar true strength; "rating": a near
            rating of the evening before, as the site's own rule gives it; "random": anybody.
        burst_games: Ranked games that the player of a burst week has on top; 0 for no bursts.
        ranked: Share of ranked games; None for the sample's 72 %.
        forfeits: Share of games that end early (resigned, left, disconnected, timeout); None for the sample's 30 %.
    """

    divisor: float = TRUE_DIVISOR
    spread: float = STRENGTH_SPREAD
    drift: float = 0.0
    activity: float = ACTIVITY_SPREAD
    matchmaking: Matchmaking = "strength"
    burst_games: int = BURST_GAMES
    ranked: float | None = None
    forfeits: float | None = None

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("divisor", self.divisor, 1e-3, 1e9),
            ("spread", self.spread, 0.0, 1e6),
            ("drift", self.drift, 0.0, 1e6),
            ("activity", self.activity, 0.0, 5.0),
            ("burst games", self.burst_games, 0, 10**6),
            ("ranked share", self.ranked, 0.0, 1.0),
            ("share of forfeits", self.forfeits, 0.0, 1.0),
        ):
            # The comparison is also false for a NaN.
            if value is not None and not low <= value <= high:
                raise UsageFault(f"{name} is {value}: it must be between {low:g} and {high:g}")

    @property
    def game_type_shares(self) -> tuple[float, ...]:
        """Shares of `GAME_TYPES`, the unknown one left out."""
        return _with_first(_GAME_TYPE_SHARES, self.ranked)

    @property
    def ending_shares(self) -> tuple[float, ...]:
        """Shares of `ENDINGS`."""
        return _with_first(_ENDING_SHARES, None if self.forfeits is None else 1.0 - self.forfeits)


def _with_first(shares: tuple[float, ...], first: float | None) -> tuple[float, ...]:
    """The shares with another first one, the others in their old proportions."""
    if first is None:
        return shares
    return (first, *(share * (1.0 - first) / sum(shares[1:]) for share in shares[1:]))


@dataclass(frozen=True)
class Players:
    """The hidden truth about the players, in ascending order of true strength.

    Attributes:
        strength: True strength in rating points, `(n_players,)` float64.
        activity: Relative number of games, `(n_players,)` int64, at least 1, heavy-tailed.
        joined_day: First day a player can play, in days from the start, `(n_players,)` int64.
        number: The number in the player's id, `(n_players,)` int64: ids are given in the order of joining.
    """

    strength: FloatArray
    activity: IntArray
    joined_day: IntArray
    number: IntArray

    def ids(self) -> pa.Array:
        """Return the player ids as the export prints them, `(n_players,)` string."""
        return pa.array([f"p{number:06d}" for number in self.number.tolist()], pa.string())


def stream(seed: int, purpose: str, number: int = 0) -> np.random.SeedSequence:
    """Return the seed of one independent stream: numbering them keeps a change in one from moving all the others."""
    purposes = ("players", "bursts", "day", "plant", "drift")
    return np.random.SeedSequence(seed, spawn_key=(purposes.index(purpose), number))


def draw_players(players: int, days: int, seed: int, world: World = World()) -> Players:
    """Draw the players' hidden strengths, activities and join dates.

    Args:
        players: Number of players, at least 2.
        days: Length of the history in days.
        seed: The simulation's seed.
        world: What the site is like.

    Returns:
        The players in ascending order of strength: the order in which pairing looks for an opponent.
    """
    rng = np.random.default_rng(stream(seed, "players"))
    # Strength and activity are rounded so that the last bit of a platform's exp or log cannot change a game.
    skill = np.sort(rng.normal(0.0, 1.0, players))
    strength = np.round(1500.0 + world.spread * skill, 1)
    zeal = STRENGTH_ACTIVITY * skill + math.sqrt(1.0 - STRENGTH_ACTIVITY**2) * rng.normal(0.0, 1.0, players)
    activity = np.maximum(np.round(100.0 * np.exp(world.activity * zeal)), 1.0).astype(np.int64)
    joined_day = np.where(rng.random(players) < 0.5, 0, rng.integers(0, max(days, 1), players))
    # Somebody must be there on the first day for the first game to have two sides.
    joined_day[rng.permutation(players)[:2]] = 0
    number = np.empty(players, dtype=np.int64)
    number[np.lexsort((rng.permutation(players), joined_day))] = np.arange(1, players + 1)
    return Players(strength, activity, joined_day.astype(np.int64), number)


def true_win_probability(difference: FloatArray, divisor: float = TRUE_DIVISOR) -> FloatArray:
    """Return the true probability to win a game, by the difference of true strengths in points (own − opponent)."""
    return np.asarray(1.0 / (1.0 + np.power(10.0, -difference / divisor)), dtype=np.float64)
