"""Why a live rating system changed ratings otherwise: each likely mistake is computed, and a game goes to one that explains it.

The formula is the kernel's, applied to arrays; stake, divisor and version come from `sql/rule_terms.sql`, as in a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from eloreplay.games import put_rule_versions
from eloreplay.instants import BEGINNING_US
from eloreplay.kernel import ROUND_NONE, bounded, rate_game, round_each
from eloreplay.queries import Database
from eloreplay.rules import Ruleset, RuleVersion, load_undated, shipped_rulesets

Floats = NDArray[np.float64]
#: Divisors and Ks that rating systems use, tried besides those of the ruleset.
DIVISORS = (200.0, 300.0, 400.0, 480.0, 500.0, 600.0, 800.0, 1000.0, 1200.0, 1500.0, 1600.0, 2000.0)
USUAL_K = (8.0, 10.0, 12.0, 15.0, 16.0, 20.0, 24.0, 25.0, 30.0, 32.0, 40.0, 48.0, 64.0)
#: A mistake that explains so many of the unexplained games, and such a share of them, is taken for a habit of the site: it comes
#: before mistakes that explain a game here and there.
HABIT_GAMES, HABIT_SHARE = 20, 0.2


@njit(nogil=True)
def _rate(gap, divisor, winner_k, loser_k, stake, score):  # type: ignore[no-untyped-def]
    """Unrounded changes of both sides, float64 `(n,)` each."""
    winner, loser = np.empty(gap.size), np.empty(gap.size)
    for i in range(gap.size):
        _, winner[i], loser[i] = rate_game(gap[i], divisor[i], winner_k[i], loser_k[i], stake[i], score[i], ROUND_NONE)
    return winner, loser


@njit(nogil=True)
def _bound(rating, change, floor, cap, max_change):  # type: ignore[no-untyped-def]
    """The changes that are left after the ruleset's bounds, in place."""
    for i in range(change.size):
        change[i] = bounded(rating[i], change[i], floor, cap, max_change)


@dataclass(frozen=True)
class Games:
    """Games with what decides their changes; arrays of shape `(n,)`, pairs are (winner's, loser's).

    Attributes:
        rows: the result of `sql/reconcile_games.sql`.
        before: live's ratings before; `stale` those before the players' last games.
        change: live's changes, NaN where unknown.
        k: our k.
        divisor: and `stake`, `score`, `advantage`.
    """

    rows: pa.Table
    before: tuple[Floats, Floats]
    stale: tuple[Floats, Floats]
    change: tuple[Floats, Floats]
    k: tuple[Floats, Floats]
    divisor: Floats
    stake: Floats
    score: Floats
    advantage: Floats

    def take(self, at: NDArray[np.int64]) -> Games:
        """Some of the games."""

        def pair(two: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
            return two[0][at], two[1][at]

        pairs = pair(self.before), pair(self.stale), pair(self.change), pair(self.k)
        one = self.divisor[at], self.stake[at], self.score[at], self.advantage[at]
        return Games(self.rows.take(pa.array(at)), *pairs, *one)


class Formula:
    """The run's formula over arrays, and its likely mistakes.

    Args:
        database: with nothing of the names `rule_inputs`, `rule_versions`, which this uses.
        ruleset: the run's rules.
        tolerance: points by which a change may differ.
    """

    def __init__(self, database: Database, ruleset: Ruleset, tolerance: float) -> None:
        self._database, self._ruleset, self._tolerance = database, ruleset, tolerance
        self._bounds = (
            -math.inf if ruleset.floor is None else float(ruleset.floor),
            math.inf if ruleset.cap is None else float(ruleset.cap),
            math.inf if ruleset.max_change is None else float(ruleset.max_change),
        )
        self._bounded = any(limit is not None for limit in (ruleset.floor, ruleset.cap, ruleset.max_change))
        self._others = _other_versions(ruleset)

    def games(self, rows: pa.Table) -> Games:
        """The games of some rows of `sql/reconcile_games.sql`."""
        terms = self._terms(rows, self._ruleset)
        k = self._k_at_live(rows, terms["version_index"].to_numpy())
        return Games(
            rows,
            _pair(rows, "before"),
            (_floats(rows, "winner_before_1"), _floats(rows, "loser_before_1")),
            _pair(rows, "change"),
            k,
            _floats(terms, "divisor"),
            _floats(terms, "stake"),
            np.where(rows["is_draw"].to_numpy(), 0.5, 1.0),
            np.nan_to_num(_floats(rows, "advantage")),
        )

    def wrong(self, games: Games) -> NDArray[np.bool_]:
        """Games whose change is not what the rules give from live's own ratings before; bool `(n,)`."""
        return ~self._fits(games, self._changes(games))

    def causes(self, games: Games) -> tuple[list[str], list[str], list[str]]:
        """The likeliest mistake of each game (cause and detail), and the causes that would explain it as well.

        Args:
            games: as `wrong` found them.
        """
        n = len(games.rows)
        tried = [(cause, detail, self._fits(games, changes)) for cause, detail, changes in self._hypotheses(games)]
        swapped = games.rows["is_swapped"].to_numpy()
        tried.insert(0, ("wrong side", "live calls the winner the loser", swapped))
        fits = np.array([one[2] for one in tried]).reshape(len(tried), n)
        support = fits.sum(axis=1)
        habit = np.where(support >= max(HABIT_GAMES, HABIT_SHARE * n), support, 0)
        # Of those that fit: habits by their size, then the first in the order of the hypotheses.
        order = np.lexsort((np.arange(len(tried)), -habit))
        ranked = fits[order]
        found = ranked.any(axis=0)
        best = order[ranked.argmax(axis=0)]
        # One text a pattern of mistakes that fit, and there are few patterns.
        patterns, which = np.unique(np.vstack([fits, np.where(found, best, -1)]), axis=1, return_inverse=True)
        said = [_said(tried, np.flatnonzero(pattern[:-1]), pattern[-1]) for pattern in patterns.T]
        return tuple([said[i][part] for i in which.ravel()] for part in range(3))  # type: ignore[return-value]

    # ------------------------------------------------------------ the mistakes

    def _hypotheses(self, games: Games) -> Iterator[tuple[str, str, tuple[Floats, Floats]]]:
        """Each mistake with the changes that it would give; what is more likely for a single game comes first."""
        exact = self._unrounded(games)
        right = self._rounded(games, exact)
        zero = np.zeros(len(games.rows))
        reversed_score = self._unrounded(games, score=1.0 - games.score)
        yield "wrong side", "the change of the other result", self._rounded(games, reversed_score)
        yield "counted twice", "twice the change", (2 * right[0], 2 * right[1])
        yield "not counted", "a change of 0", (zero, zero)
        if self._ruleset.integer_ratings:
            yield "rounding", "half to even", (np.rint(exact[0]), np.rint(exact[1]))
        yield from self._other_k(games)
        if self._ruleset.uses.cube:
            for cube in (2**n for n in range(int(math.log2(self._ruleset.max_cube)) + 1)):
                yield "other cube", f"cube {cube}", self._with_stake(games, cube)
        for version in self._others:
            yield "other version", f"version {version.name}", self._with_version(games, version)
        if self._ruleset.integer_ratings:
            yield from self._other_rounding(games, exact)
        for divisor in DIVISORS:
            scale = np.sqrt(np.maximum(np.nan_to_num(_floats(games.rows, "match_length"), nan=1.0), 1.0))
            by_length = np.array([version.divide_by != "none" for version in self._ruleset.version]).any()
            with_it = self._unrounded(games, divisor=divisor / scale if by_length else np.full(len(games.rows), divisor))
            yield "formula constants", f"divisor {divisor:g}", self._rounded(games, with_it)
        for name, before in (
            ("the winner's", (games.stale[0], games.before[1])),
            ("the loser's", (games.before[0], games.stale[1])),
            ("both", games.stale),
        ):
            yield (
                "stale rating",
                f"{name} rating before the last game" if name != "both" else "both ratings before the last game",
                self._rounded(games, self._unrounded(games, before=before)),
            )

    def _other_k(self, games: Games) -> Iterator[tuple[str, str, tuple[Floats, Floats]]]:
        heavy = {version.heavy.games for version in self._ruleset.version if version.heavy is not None}
        own = {v.k for v in self._ruleset.version if v.k} | {
            v.heavy.k for v in self._ruleset.version if v.heavy is not None and v.heavy.k
        }
        recent = [_floats(games.rows, f"{side}_recent_games") for side in ("winner", "loser")]
        for k in sorted(own) + [k for k in USUAL_K if k not in own]:
            other = np.full(len(games.rows), k)
            for sides, whose in (((0,), "the winner"), ((1,), "the loser"), ((0, 1), "both")):
                pair = (other if 0 in sides else games.k[0], other if 1 in sides else games.k[1])
                changes = self._rounded(games, self._unrounded(games, k=pair))
                edge = np.logical_and.reduce([np.isin(recent[side], [n + d for n in heavy for d in (-1, 0)]) for side in sides])
                if heavy and k in own:
                    at_edge = tuple(np.where(edge, change, np.nan) for change in changes)
                    yield "other k", f"k {k:g} for {whose}: the count is off by one at the threshold", _never(at_edge)
                yield "other k", f"k {k:g} for {whose}", changes

    def _other_rounding(self, games: Games, exact: tuple[Floats, Floats]) -> Iterator[tuple[str, str, tuple[Floats, Floats]]]:
        kinds: tuple[tuple[str, Callable[[Floats], Floats]], ...] = (
            ("always down", np.floor),
            ("towards zero", np.trunc),
            ("always up", np.ceil),
            ("half up", lambda x: np.floor(x + 0.5)),
        )
        for detail, kind in kinds:
            yield "rounding", detail, (kind(exact[0]), kind(exact[1]))
        more: tuple[tuple[str, Callable[[Floats], Floats]], ...] = (
            ("half to even", np.rint),
            ("as the rules say", lambda x: self._rounded(games, (x, x))[0]),
        )
        for detail, kind in (*kinds, *more):
            yield "rounding", f"{detail}, with the other sign for the loser", (kind(exact[0]), -kind(exact[0]))
            yield "rounding", f"{detail}, with the other sign for the winner", (-kind(exact[1]), kind(exact[1]))
        for places in (1, 2):
            once = [np.round(x, places) for x in exact]
            yield "rounding", f"twice: first to {places} decimals", self._rounded(games, (once[0], once[1]))
        yield "rounding", "none", exact

    def _with_stake(self, games: Games, cube: int) -> tuple[Floats, Floats]:
        at = games.rows.schema.get_field_index("cube")
        rows = games.rows.set_column(at, "cube", pa.array(np.full(len(games.rows), cube, np.int32)))
        other = rows.filter(pa.compute.not_equal(games.rows["cube"], cube))
        stake = np.full(len(games.rows), np.nan)
        mask = games.rows["cube"].to_numpy() != cube
        stake[mask] = _floats(self._terms(other, self._ruleset), "stake")
        return _never(self._rounded(games, self._unrounded(games, stake=stake)))

    def _with_version(self, games: Games, version: RuleVersion) -> tuple[Floats, Floats]:
        only = self._ruleset.model_copy(update={"version": (version.model_copy(update={"from_": BEGINNING_US}),)})
        rows = games.rows
        for name, value in (("cube", 1), ("result", "single"), ("match_length", 1)):
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.compute.fill_null(rows[name], value))
        terms = self._terms(rows, only)
        pair = []
        for side in (0, 1):
            if version.k is None or version.ramp is not None:
                pair.append(games.k[side])
                continue
            count = _floats(rows, f"{('winner', 'loser')[side]}_recent_games")
            heavy = version.heavy
            reduced = version.k if heavy is None else heavy.k if heavy.k is not None else version.k * (heavy.factor or 1.0)
            pair.append(np.where(count >= (math.inf if heavy is None else heavy.games), reduced, version.k))
        exact = self._unrounded(games, divisor=_floats(terms, "divisor"), stake=_floats(terms, "stake"), k=(pair[0], pair[1]))
        return self._rounded(games, exact)

    # ------------------------------------------------------------ the formula

    def _changes(self, games: Games) -> tuple[Floats, Floats]:
        return self._rounded(games, self._unrounded(games))

    def _unrounded(
        self,
        games: Games,
        *,
        before: tuple[Floats, Floats] | None = None,
        divisor: Floats | None = None,
        k: tuple[Floats, Floats] | None = None,
        stake: Floats | None = None,
        score: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        winner, loser = before or games.before
        k = k or games.k
        found = _rate(
            winner + games.advantage - loser,
            games.divisor if divisor is None else divisor,
            k[0],
            k[1],
            games.stake if stake is None else stake,
            games.score if score is None else score,
        )
        return found[0], found[1]

    def _rounded(self, games: Games, exact: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        pair = exact[0].copy(), exact[1].copy()
        for side, change in enumerate(pair):
            if self._ruleset.integer_ratings:
                known = np.isfinite(change)
                rounded = change[known]
                round_each(rounded)
                change[known] = rounded
            if self._bounded:
                _bound(games.before[side], change, *self._bounds)
        return pair

    def _fits(self, games: Games, changes: tuple[Floats, Floats]) -> NDArray[np.bool_]:
        """Whether changes are what live has, as far as live says; a game of which it says nothing fits none but the truth."""
        known = [np.isfinite(side) for side in games.change]
        close = [np.abs(a - b) <= self._tolerance for a, b in zip(games.change, changes, strict=True)]
        return (close[0] | ~known[0]) & (close[1] | ~known[1])

    def _terms(self, rows: pa.Table, ruleset: Ruleset) -> pa.Table:
        """Divisor, stake and version of games, in their order."""
        names = ["played_us", "cube", "match_length", "result", "weight"]
        put_rule_versions(self._database, ruleset)
        numbered = rows.select(names).append_column("at", pa.array(np.arange(len(rows), dtype=np.int64)))
        with self._database.registered("rule_inputs", numbered):
            found = self._database.arrow("rule_terms")
        return found.sort_by("at")

    def _k_at_live(self, rows: pa.Table, version: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Our k, except that a k by rating is looked up at live's rating."""
        pair = []
        for side in ("winner", "loser"):
            k = _floats(rows, f"{side}_k")
            for number, one in enumerate(self._ruleset.version):
                if one.k_by_rating:
                    steps, values = (np.array([getattr(step, name) for step in one.k_by_rating]) for name in ("from_", "k"))
                    ours, live = (
                        values[np.maximum(np.searchsorted(steps, _floats(rows, name), side="right") - 1, 0)]
                        for name in (f"{side}_before_ours", f"{side}_before")
                    )
                    k = np.where(version == number, k / ours * live, k)
            pair.append(k)
        return pair[0], pair[1]


def _said(tried: list[tuple[str, str, NDArray[np.bool_]]], fitting: NDArray[np.int64], best: int) -> tuple[str, str, str]:
    """Cause, detail and other causes, of a game that these mistakes fit."""
    if best < 0:
        return "unexplained", "no mistake that was tried gives this change", ""
    cause, detail, _ = tried[best]
    return cause, detail, ", ".join(dict.fromkeys(tried[one][0] for one in fitting if tried[one][0] != cause))


def _never(changes: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    """Changes of which some are no hypothesis (NaN): those fit nothing."""
    return np.nan_to_num(changes[0], nan=math.inf), np.nan_to_num(changes[1], nan=math.inf)


def _other_versions(ruleset: Ruleset) -> list[RuleVersion]:
    """The ruleset's versions, and those of its shipped history where it has one."""
    found = {version.name: version for version in ruleset.version}
    name = f"{ruleset.name}-history"
    if name in shipped_rulesets():
        found |= {version.name: version for version in load_undated(name).version if version.name not in found}
    return list(found.values())


def _floats(rows: pa.Table, name: str) -> Floats:
    """A column as float64, NULL as NaN."""
    return np.array(rows[name].cast(pa.float64()).to_numpy(), np.float64)


def _pair(rows: pa.Table, name: str) -> tuple[Floats, Floats]:
    return _floats(rows, f"winner_{name}"), _floats(rows, f"loser_{name}")
