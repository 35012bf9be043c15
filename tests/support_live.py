"""A site's live rating system, for the tests of `reconcile`: it rates games one by one, with a mistake here and there.

It knows the rules on its own (division, K, cube, rounding in plain Python) and takes from our timeline only the order, the players, the
cube and which K the week gives. What follows from a mistake is replayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Game = dict[str, Any]
Pair = tuple[float, float]
START = 1500.0


def half_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


def changes(
    winner: float,
    loser: float,
    game: Game,
    *,
    divisor: float = 1200,
    k: Pair | None = None,
    cube: int | None = None,
    rounding: Callable[[float], float] = half_away,
) -> Pair:
    """Both changes of a game under rules 1.3.1, or something near them."""
    expected = 1 / (1 + 10 ** ((loser - winner) / divisor))
    stake = 1 + math.log2(cube or game["cube"]) / 6
    own = k or (game["winner_k"], game["loser_k"])
    return rounding(own[0] * stake * (1 - expected)), rounding(own[1] * stake * (expected - 1))


@dataclass
class Site:
    """The live ratings, and the rows that the site exports."""

    ratings: dict[Any, float] = field(default_factory=dict)
    before: dict[Any, float] = field(default_factory=dict)
    rows: list[Game] = field(default_factory=list)

    def rating(self, player: Any) -> float:
        return self.ratings.get(player, START)

    def play(self, game: Game, pair: Pair | None = None, stale: Any = None, applied: int = 1, listed: bool = True) -> None:
        """Rate a game: with these changes instead of the right ones, with a lost update of `stale`, or applied more than once."""
        winner, loser = game["winner_id"], game["loser_id"]
        if stale is not None:
            self.ratings[stale] = self.before[stale]
        found = self.rating(winner), self.rating(loser)
        pair = pair or changes(*found, game)
        if listed:
            self.rows.append(
                {
                    "game_id": game["game_id"],
                    "winner_id": winner,
                    "loser_id": loser,
                    "winner_before": found[0],
                    "loser_before": found[1],
                    "winner_change": pair[0],
                    "loser_change": pair[1],
                }
            )
        for player, rating, change in zip((winner, loser), found, pair, strict=True):
            self.before[player] = rating
            self.ratings[player] = rating + applied * change


def likely(winner: float, loser: float, game: Game) -> dict[str, set[Pair]]:
    """What each kind of mistake could give for a game, to plant only what can be told from the others."""
    right = changes(winner, loser, game)
    own = game["winner_k"], game["loser_k"]
    other = changes(loser, winner, {**game, "winner_k": own[1], "loser_k": own[0]})
    kinds = {
        "right": {right},
        "wrong side": {(other[1], other[0])},
        "counted twice": {(2 * right[0], 2 * right[1])},
        "not counted": {(0.0, 0.0)},
        "other k": {
            changes(winner, loser, game, k=pair)
            for k in (8, 10, 12, 15, 16, 20, 24, 25, 30, 32, 40, 48, 64)
            for pair in ((k, own[1]), (own[0], k), (k, k))
            if pair != own
        },
        "other cube": {changes(winner, loser, game, cube=2**n) for n in range(7) if 2**n != game["cube"]},
        "other version": {changes(winner, loser, game, divisor=d, k=(32, 32)) for d in (400, 800)},
        "rounding": {changes(winner, loser, game, rounding=kind) for kind in (math.floor, math.ceil, math.trunc)},
        "formula constants": {changes(winner, loser, game, divisor=d) for d in (300, 500, 600, 1000, 1500, 2000)},
    }
    return kinds
