"""Other ways to rate the same games, each in its fastest mode: arrays in memory to ratings in memory, nothing read or written.

    python tests/bench/peers.py export TIMELINE_FOLDER GAMES.npz   (with the product's Python)
    python tests/bench/peers.py NAME GAMES.npz COUNT               (with the peers' Python)

What is timed is the pass alone (`pass_s`): imports, reading the games and making their players are not. A peer knows neither the
weekly count nor stakes nor rounding: it rates the same games by plain Elo (k 32, divisor 1200), or by its own model where it has no
Elo. `plain` is Elo in a plain loop; `plain_same` is such a loop that does the product's job, weekly count and rounding included,
and must end with the product's ratings.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

WINDOW_US = 168 * 3_600_000_000
START, K, DIVISOR = 1500.0, 32.0, 1200.0


@dataclass(frozen=True)
class Games:
    """Games in their order: positions of the players int32 `(n,)`, instants, stakes, and how many players there are."""

    winner: Any
    loser: Any
    played_us: Any
    stake: Any
    players: int


def plain(games: Games) -> Any:
    """Elo in a plain Python loop over lists; both ratings before each game are kept."""
    ratings = [START] * games.players
    before: list[tuple[float, float]] = []
    for winner, loser in zip(games.winner.tolist(), games.loser.tolist(), strict=True):
        own, other = ratings[winner], ratings[loser]
        change = K * (1.0 - 1.0 / (1.0 + 10.0 ** ((other - own) / DIVISOR)))
        before.append((own, other))
        ratings[winner] = own + change
        ratings[loser] = other - change
    return ratings


def plain_same(games: Games) -> Any:
    """The product's job in a plain Python loop: a queue of instants a player for the weekly count, each change rounded."""
    ratings = [START] * games.players
    weeks: list[deque[int]] = [deque() for _ in range(games.players)]
    before: list[tuple[float, float, float, float, int, int]] = []
    whole = math.floor
    lists = (games.winner.tolist(), games.loser.tolist(), games.played_us.tolist(), games.stake.tolist())
    for winner, loser, now, stake in zip(*lists, strict=True):
        won, lost = weeks[winner], weeks[loser]
        since = now - WINDOW_US
        while won and won[0] < since:
            won.popleft()
        while lost and lost[0] < since:
            lost.popleft()
        own, other = ratings[winner], ratings[loser]
        miss = 1.0 - 1.0 / (1.0 + 10.0 ** ((other - own) / DIVISOR))
        up = float(whole((16.0 if len(won) >= 50 else 32.0) * stake * miss + 0.5))
        down = float(whole((16.0 if len(lost) >= 50 else 32.0) * stake * miss + 0.5))
        before.append((own, other, up, -down, len(won), len(lost)))
        ratings[winner] = own + up
        ratings[loser] = other - down
        won.append(now)
        lost.append(now)
    return ratings


def riix_dataset(games: Games, steps: Any) -> Any:
    from riix.utils.data_utils import MatchupDataset

    pairs = np.stack((games.winner, games.loser), axis=1)
    return MatchupDataset.init_from_arrays(steps, pairs, np.ones(len(pairs)), list(range(games.players)))


def riix(games: Games, steps: Any, method: str, each: bool) -> Any:
    """riix, whose Elo takes the games of a time step together.

    `iterative` rates the games of a step one after the other, but tells ratings only as they were before the step; `batched` rates
    them all from those. So each game's ratings need a step a game.
    """
    from riix.models.elo import Elo

    system = Elo(list(range(games.players)), START, K, math.log(10.0) / DIVISOR, method)
    system.fit_dataset(riix_dataset(games, steps), return_pre_match_probs=each, return_pre_match_ratings=each)
    return system.ratings


def riix_final(games: Games) -> Any:
    return riix(games, np.zeros(games.winner.size, np.int32), "iterative", each=False)


def riix_each(games: Games) -> Any:
    return riix(games, np.arange(games.winner.size, dtype=np.int32), "iterative", each=True)


def riix_periods(games: Games) -> Any:
    """Periods of about 64 games, near the best that batches reach: their cost grows with games times players of a period."""
    return riix(games, (np.arange(games.winner.size) // 64).astype(np.int32), "batched", each=True)


def elote(games: Games) -> Any:
    """elote: one object a player; ratings before each game are read from them."""
    from elote import EloCompetitor

    players = [EloCompetitor(initial_rating=START, k_factor=K) for _ in range(games.players)]
    before: list[tuple[float, float]] = []
    for winner, loser in zip(games.winner.tolist(), games.loser.tolist(), strict=True):
        own, other = players[winner], players[loser]
        before.append((own.rating, other.rating))
        own.beat(other)
    return [player.rating for player in players]


def openskill(games: Games) -> Any:
    """openskill has no Elo; of its models this one was the quickest. The rating before each game is the object it replaces."""
    from openskill.models import BradleyTerryFull

    model = BradleyTerryFull()
    players = [[model.rating()] for _ in range(games.players)]
    before: list[tuple[Any, Any]] = []
    for winner, loser in zip(games.winner.tolist(), games.loser.tolist(), strict=True):
        own, other = players[winner], players[loser]
        before.append((own, other))
        players[winner], players[loser] = model.rate([own, other])
    return players


def evalica(games: Games) -> Any:
    """evalica's compiled Elo: final ratings only, from names; the players are indexed by it as well."""
    import evalica as library

    names = [f"p{number}" for number in range(games.players)]
    winners = [names[number] for number in games.winner.tolist()]
    losers = [names[number] for number in games.loser.tolist()]
    return library.elo(winners, losers, [library.Winner.X] * len(winners), initial=START, k=K, scale=DIVISOR)


@dataclass(frozen=True)
class Peer:
    """A way to rate: the package it comes from, whether it tells each game's ratings, and how many games it is given at most."""

    rate: Callable[[Games], Any]
    package: str | None
    each: bool
    games: int
    shown: str


PEERS = {
    "riix_each": Peer(riix_each, "riix", True, 300_000, "riix, each game's ratings (a step a game)"),
    "riix_final": Peer(riix_final, "riix", False, 700_000, "riix, final ratings only (one step, `iterative`)"),
    "riix_periods": Peer(riix_periods, "riix", False, 700_000, "riix, ratings a period (64 games a step, `batched`)"),
    "elote": Peer(elote, "elote", True, 700_000, "elote, each game's ratings"),
    "openskill": Peer(openskill, "openskill", True, 100_000, "openskill, each game's ratings (BradleyTerryFull)"),
    "evalica": Peer(evalica, "evalica", False, 7_000_000, "evalica, final ratings only"),
    "plain": Peer(plain, None, True, 7_000_000, "a plain Python loop, Elo alone"),
    "plain_same": Peer(plain_same, None, True, 7_000_000, "a plain Python loop, the same job"),
}


def export(timeline: Path, target: Path) -> None:
    """Write the games of a finished timeline as arrays, with the ratings that the product ends with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["winner_id", "loser_id", "played_at", "stake", "winner_change", "loser_change"]
    rows = pa.concat_tables([pq.read_table(file, columns=names) for file in sorted(timeline.glob("*.parquet"))])
    ids = pa.chunked_array([*rows["winner_id"].chunks, *rows["loser_id"].chunks]).dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in ids.chunks]).astype(np.int32)
    n = len(rows)
    np.savez(
        target,
        winner=codes[:n],
        loser=codes[n:],
        played_us=rows["played_at"].cast(pa.int64()).to_numpy(),
        stake=rows["stake"].to_numpy(),
        change=np.stack((rows["winner_change"].to_numpy(), rows["loser_change"].to_numpy()), axis=1),
    )


def read(path: Path, count: int) -> tuple[Games, Any]:
    """The first `count` games, and the ratings they leave in the product."""
    with np.load(path) as found:
        winner, loser = found["winner"][:count], found["loser"][:count]
        players = int(max(found["winner"].max(), found["loser"].max())) + 1
        ratings = np.full(players, START)
        np.add.at(ratings, np.stack((winner, loser), axis=1).ravel(), found["change"][:count].ravel().astype(np.float64))
        return Games(winner, loser, found["played_us"][:count], found["stake"][:count], players), ratings


def main() -> None:
    name, path, *rest = sys.argv[1:]
    if name == "export":
        export(Path(path), Path(rest[0]))
        return
    peer = PEERS[name]
    games, expected = read(Path(path), min(int(rest[0]), peer.games))
    if peer.package is not None:
        # Not the pass's affair: a package and what it compiles are loaded on a few games first.
        few = Games(games.winner[:100], games.loser[:100], games.played_us[:100], games.stake[:100], games.players)
        peer.rate(few)
    started = time.perf_counter()
    found = peer.rate(games)
    pass_s = time.perf_counter() - started
    if name == "plain_same" and not np.array_equal(np.asarray(found), expected):
        sys.exit("the plain loop and the product do not end with the same ratings")
    version = None if peer.package is None else importlib.metadata.version(peer.package)
    result = {"games": int(games.winner.size), "pass_s": pass_s, "version": version}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
