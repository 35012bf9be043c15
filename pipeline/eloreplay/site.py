"""A made-up site from day to day: who meets whom, what the dice then say, and how strengths and ratings move on.

Every day has its own random stream, so that what is asked of one day cannot move another.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from eloreplay.kernel import ROUND_HALF_AWAY, rate_game
from eloreplay.world import BURST_GAMES, DAY_US, RANKED, IntArray, Players, World, stream, true_win_probability

SITE_DIVISOR, SITE_K, SITE_START = 1200.0, 32.0, 1500.0
"""The rating by which a site matches its players, where it does."""

FIRST_GAME_ID = 1_000_001
CUBES = (1, 2, 4, 8, 16, 32, 64)
_CUBE_SHARES = (0.45, 0.38, 0.13, 0.03, 0.007, 0.002, 0.001)
OUTCOMES = ("single", "gammon", "backgammon")
_OUTCOME_SHARES = (0.72, 0.26, 0.02)

# An evening site: the share of a day's games by UTC hour in which they end.
_HOUR_WEIGHTS = (5, 3, 2, 1, 1, 1, 2, 3, 4, 5, 5, 6, 7, 7, 6, 6, 7, 8, 10, 12, 13, 13, 11, 8)
_WEEKDAY_WEIGHTS = (0.95, 0.93, 0.95, 0.97, 1.02, 1.12, 1.15)


@dataclass
class Rows:
    """Rows of the export as arrays of one length; players and words are codes, -1 and the masks mean NULL."""

    id: IntArray
    ended_us: IntArray
    winner: IntArray
    loser: IntArray
    game_type: IntArray
    cube: IntArray
    outcome: IntArray
    ending: IntArray
    status: IntArray
    rev: IntArray
    id_missing: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.ended_us)

    def take(self, rows: IntArray) -> Rows:
        """The rows at these positions."""
        return Rows(**{name: column[rows] for name, column in vars(self).items()})

    @staticmethod
    def concat(parts: list[Rows]) -> Rows:
        """The rows of all parts, in order."""
        return Rows(**{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])})


def games_per_day(games: int, origin: dt.datetime, days: int) -> IntArray:
    """Spread the games over the days, `(days,)`: the site grows by half over the history, weekends are busier."""
    day = np.arange(days)
    weekday = np.asarray(_WEEKDAY_WEIGHTS)[(origin.weekday() + day) % 7]
    weight = weekday * (1.0 + 0.5 * day / days)
    ends = np.floor(games * np.cumsum(weight) / weight.sum() + 0.5).astype(np.int64)
    ends[-1] = games
    counts: IntArray = np.diff(ends, prepend=0)
    return counts


def burst_plan(people: Players, per_day: IntArray, seed: int, burst_games: int = BURST_GAMES) -> dict[int, IntArray]:
    """Choose for each full week the players who play `burst_games` ranked games more than usual.

    About one player in a thousand has such a week at a time, but together they never play more than a tenth of a
    week's games, so that a small simulation does not consist of them.

    Returns:
        Day from the start → the players (positions) of that day's burst games, one entry a game.
    """
    plan: dict[int, IntArray] = {}
    if burst_games == 0:
        return plan
    for week in range(len(per_day) // 7):
        days = range(7 * week, 7 * week + 7)
        wanted = min(-(-len(people.strength) // 1000), int(per_day[days.start : days.stop].sum()) // (10 * burst_games))
        here = np.flatnonzero(people.joined_day <= days.start)
        if wanted == 0 or len(here) < 2:
            continue
        rng = np.random.default_rng(stream(seed, "bursts", week))
        share = people.activity[here] / people.activity[here].sum()
        chosen = rng.choice(here, size=min(wanted, len(here)), replace=False, p=share)
        for position, day in enumerate(days):
            a_day = burst_games * (position + 1) // 7 - burst_games * position // 7
            plan[day] = np.repeat(chosen, a_day)[: per_day[day]].astype(np.int64)
    return plan


class Standing:
    """How strong the players are and how the site rates them, as the days go by.

    Args:
        people: The players.
        world: What the site is like.
        seed: The simulation's seed.
    """

    def __init__(self, people: Players, world: World, seed: int) -> None:
        self.strength = people.strength
        self.rating = np.full(len(people.strength), SITE_START)
        self.changed = True
        self._world, self._seed = world, seed

    def begin(self, day: int) -> None:
        """Move on to a day: the strengths drift once a week."""
        self.changed = day == 0 or (day % 7 == 0 and self._world.drift > 0)
        if day and self.changed:
            rng = np.random.default_rng(stream(self._seed, "drift", day // 7))
            step = self._world.drift * math.sqrt(7 / 30) * rng.normal(0.0, 1.0, len(self.strength))
            self.strength = np.round(self.strength + step, 1)

    def line(self, here: IntArray) -> IntArray:
        """The players that are there, in the order in which an opponent is looked for."""
        if self._world.matchmaking == "rating":
            return here[np.argsort(self.rating[here], kind="stable")]
        return here[np.argsort(self.strength[here], kind="stable")] if self._world.drift > 0 else here

    def end(self, rows: Rows) -> None:
        """Rate a day's ranked games, if that is what the next day's opponents are chosen by."""
        if self._world.matchmaking == "rating":
            ranked = rows.game_type == RANKED
            _rate_day(self.rating, rows.winner[ranked], rows.loser[ranked], SITE_DIVISOR, SITE_K)


@njit(nogil=True)
def _rate_day(rating, winner, loser, divisor, k):  # type: ignore[no-untyped-def]
    """Rate games one after the other by the plainest of rules; `rating` is read and written."""
    for i in range(winner.size):
        gap = rating[winner[i]] - rating[loser[i]]
        _, up, down = rate_game(gap, divisor, k, k, 1.0, 1.0, ROUND_HALF_AWAY)
        rating[winner[i]] += up
        rating[loser[i]] += down


def draw_day(
    people: Players,
    standing: Standing,
    day: int,
    before: int,
    count: int,
    bursts: dict[int, IntArray],
    seed: int,
    world: World,
) -> Rows:
    """Draw one day's games in the order of their ends, `ended_us` counted from the start of the history.

    Args:
        people: The players.
        standing: Their strengths on that day, and ratings.
        day: Day from the start.
        before: Games of all earlier days: ids go on from there.
        count: Games of this day.
        bursts: The burst plan.
        seed: The simulation's seed.
        world: What the site is like.

    Returns:
        `count` rows without any dirt, strictly ascending in time.
    """
    rng = np.random.default_rng(stream(seed, "day", day))
    ended = day * DAY_US + _times_of_day(rng, count)
    extra = bursts.get(day, np.zeros(0, dtype=np.int64))
    at = rng.permutation(count)[: len(extra)]
    first, second = _pair(rng, people, standing, day, count, at, extra, world)
    wins = rng.random(count) < true_win_probability(standing.strength[first] - standing.strength[second], world.divisor)
    game_type = _draw(rng, world.game_type_shares, count)
    game_type[at] = RANKED
    ending = _draw(rng, world.ending_shares, count)
    # Only a game played to its end can be a gammon; any other is an ordinary loss.
    outcome = np.where(ending == 0, _draw(rng, _OUTCOME_SHARES, count), 0)
    # Ids are given when a game starts, the order is that of the ends: sorting by id alone must not look right.
    started = ended - rng.integers(60_000_000, 1_500_000_000, count)
    number = np.empty(count, dtype=np.int64)
    number[np.argsort(started, kind="stable")] = np.arange(count)
    return Rows(
        id=FIRST_GAME_ID + before + number,
        ended_us=ended,
        winner=np.where(wins, first, second),
        loser=np.where(wins, second, first),
        game_type=game_type,
        cube=np.asarray(CUBES, dtype=np.int64)[_draw(rng, _CUBE_SHARES, count)],
        outcome=outcome,
        ending=ending,
        status=np.zeros(count, dtype=np.int64),
        rev=np.zeros(count, dtype=np.int64),
        id_missing=np.zeros(count, dtype=np.bool_),
    )


def _draw(rng: np.random.Generator, shares: tuple[float, ...], count: int) -> IntArray:
    """Draw codes 0, 1, … with the given shares, `(count,)`."""
    return np.searchsorted(np.cumsum(shares)[:-1], rng.random(count), side="right").astype(np.int64)


def _times_of_day(rng: np.random.Generator, count: int) -> IntArray:
    """Draw strictly ascending times within a day in microseconds, `(count,)`, by the site's daily rhythm."""
    weights = np.cumsum(_HOUR_WEIGHTS) / sum(_HOUR_WEIGHTS)
    drawn = np.interp(rng.random(count), np.concatenate([[0.0], weights]), np.linspace(0.0, 1.0, 25))
    # One microsecond more for each earlier game: equal instants then exist only where they are planted and counted.
    return np.sort((drawn * (DAY_US - count)).astype(np.int64)) + np.arange(count)


def _pair(
    rng: np.random.Generator,
    people: Players,
    standing: Standing,
    day: int,
    count: int,
    at: IntArray,
    extra: IntArray,
    world: World,
) -> tuple[IntArray, IntArray]:
    """Draw both sides of each game by activity, with a pull towards an opponent who is near.

    All who have joined lie on a line in the order of strength (or of rating), each as long as his activity. The opponent
    is anywhere on the line (in three fifths of the games; by rating in a tenth), else a wide normal step along it away
    (by rating a narrow one), reflected at the ends so that nobody is favoured.

    Returns:
        Positions of the first and of the second side, each `(count,)`, never equal; `extra` is the first side at `at`.
    """
    here = standing.line(np.flatnonzero(people.joined_day <= day))
    far, reach = {"strength": (0.6, 0.25), "rating": (0.1, 0.03), "random": (1.0, 0.25)}[world.matchmaking]
    ends = np.cumsum(people.activity[here])
    total = int(ends[-1])
    spot = rng.integers(0, total, count)
    place = np.zeros(len(people.strength), dtype=np.int64)
    place[here] = np.arange(len(here))
    burst = place[extra]
    spot[at] = ends[burst] - (people.activity[extra] + 1) // 2
    first = np.searchsorted(ends, spot, side="right")
    step = np.round(rng.normal(0.0, reach * total, count)).astype(np.int64)
    other = np.mod(spot + step, 2 * total)
    other = np.where(other >= total, 2 * total - 1 - other, other)
    anywhere = rng.random(count) < far
    other = np.where(anywhere, rng.integers(0, total, count), other)
    second = np.searchsorted(ends, other, side="right")
    # Who met himself meets a neighbour in strength.
    second = np.where(second == first, np.where(first + 1 < len(here), first + 1, first - 1), second)
    return here[first], here[second]
