"""The terms of rated games computed again from their timeline rows, by the run's own query and the kernel's own functions.

The kernel's functions are called as plain Python: compiling them would take longer than the answer. Stake, divisor, version and
the k before the week come from `sql/rule_terms.sql`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from eloreplay import kernel
from eloreplay.games import put_rule_versions
from eloreplay.prepare import is_heavy
from eloreplay.queries import Database
from eloreplay.rules import Ruleset, RuleVersion

#: Float rules: another machine's power function may differ in the last bits.
RELATIVE = 1e-9
SIDES = ("winner", "loser")


def _plain_kernel() -> SimpleNamespace:
    """The kernel's functions as plain Python ones that call each other, without compiling anything."""
    plain: dict[str, Any] = dict(vars(kernel))
    for name, value in vars(kernel).items():
        if hasattr(value, "py_func"):
            plain[name] = FunctionType(value.py_func.__code__, plain, name, value.py_func.__defaults__)
    return SimpleNamespace(**plain)


PLAIN = _plain_kernel()


@dataclass(frozen=True)
class SideTerms:
    """One side's terms, computed again.

    Attributes:
        k_usual: k before week and ramp.
        heavy: whether the counted games reduce it; `k_week` is the k after that.
        k_week: see there.
        ramp: factor of the ramp, 1 without one.
        k: the k that holds.
        score: 1, 0.5 or 0.
        expected: expected score.
        unrounded: k · stake · (score − expected).
        rounded: after rounding.
        change: after the bounds.
    """

    k_usual: float
    heavy: bool
    k_week: float
    ramp: float
    k: float
    score: float
    expected: float
    unrounded: float
    rounded: float
    change: float


@dataclass(frozen=True)
class Terms:
    """A game's terms; `divisor` is what the gap is divided by, for this match length."""

    version: RuleVersion
    gap: float
    divisor: float
    stake: float
    sides: tuple[SideTerms, SideTerms]


def recompute(database: Database, ruleset: Ruleset, rows: Sequence[dict[str, Any]]) -> list[Terms]:
    """Each timeline row's terms from its inputs and from what it says of both sides before the game.

    Args:
        database: gets the tables `rule_versions` and `rule_inputs`.
        ruleset: the rules of the run.
        rows: timeline rows; `played_at` as `played_us`, microseconds.
    """
    put_rule_versions(database, ruleset)
    at = range(len(rows))
    types = {
        "played_us": pa.int64(),
        "cube": pa.int64(),
        "match_length": pa.int64(),
        "result": pa.string(),
        "weight": pa.float64(),
        "advantage": pa.float64(),
    }
    inputs = {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    database.put("rule_inputs", pa.table({"place": pa.array(at, pa.int64()), **inputs}))
    found = {row["place"]: row for row in database.arrow("rule_terms").to_pylist()}
    return [_terms(ruleset, row, found[place]) for place, row in enumerate(rows)]


def _terms(ruleset: Ruleset, row: dict[str, Any], rule: dict[str, Any]) -> Terms:
    version = ruleset.version[rule["version_index"]]
    gap = row["winner_rating_before"] + (row["advantage"] or 0.0) - row["loser_rating_before"]
    ks = [side_k(ruleset, rule["version_index"], *_past(row, side)) for side in SIDES]
    score = 0.5 if row["is_draw"] else 1.0
    rounding = kernel.ROUND_HALF_AWAY if ruleset.integer_ratings else kernel.ROUND_NONE
    # As numpy's numbers: a power that is too large is infinite there, as in the compiled kernel, and no exception.
    game = [np.float64(value) for value in (gap, rule["divisor"], ks[0].k, ks[1].k, rule["stake"], score)]
    with np.errstate(all="ignore"):
        expected, *raw = (float(value) for value in PLAIN.rate_game(*game, kernel.ROUND_NONE))
        _, *rounded = (float(value) for value in PLAIN.rate_game(*game, rounding))
    bounds = (
        -math.inf if ruleset.floor is None else float(ruleset.floor),
        math.inf if ruleset.cap is None else float(ruleset.cap),
        math.inf if ruleset.max_change is None else float(ruleset.max_change),
    )
    sides = tuple(
        SideTerms(
            k_usual=k.usual,
            heavy=k.heavy,
            k_week=k.week,
            ramp=k.ramp,
            k=k.k,
            score=score if side == "winner" else 1.0 - score,
            expected=expected if side == "winner" else 1.0 - expected,
            unrounded=raw[i],
            rounded=rounded[i],
            change=float(PLAIN.bounded(float(row[f"{side}_rating_before"]), rounded[i], *bounds)),
        )
        for i, (side, k) in enumerate(zip(SIDES, ks, strict=True))
    )
    return Terms(version, float(gap), rule["divisor"], rule["stake"], (sides[0], sides[1]))


def _past(row: dict[str, Any], side: str) -> tuple[float, int, float, int, int]:
    return (
        float(row[f"{side}_rating_before"]),
        row[f"{side}_games"],
        row[f"{side}_experience"] or 0.0,
        row[f"{side}_recent_games"] or 0,
        row["match_length"] or 0,
    )


@dataclass(frozen=True)
class SideK:
    """A player's k and its parts; see `SideTerms`."""

    usual: float
    heavy: bool
    week: float
    ramp: float
    k: float


def side_k(ruleset: Ruleset, version: int, rating: float, games: int, experience: float, recent: int, match_length: int) -> SideK:
    """The k of a player of whom this is known, under the version at this position."""
    tables = ruleset.kernel_tables()
    terms = {name: values[version] for name, values in ruleset.version_table().items()}
    player = SimpleNamespace(rating=rating, games=games, experience=experience)
    steps = (tables.k_axis[version], tables.k_first[version], tables.k_last[version], tables.k_from, tables.k_value)
    ramp = (tables.ramp_height[version], tables.ramp_length[version], tables.ramp_after[version])
    heavy = bool(is_heavy(ruleset, np.array([version], np.int16), np.array([recent], np.int32))[0])
    before = terms["heavy_k"] if heavy else terms["k"]

    def own_k(k: float, *ramp: Any) -> float:
        return float(PLAIN.own_k(k, player, match_length, *steps, *ramp))

    return SideK(
        usual=own_k(terms["k"], 1.0, 1.0, False),
        heavy=heavy,
        week=own_k(before, 1.0, 1.0, False),
        ramp=float(PLAIN.own_k(1.0, player, match_length, 0, 0, 0, tables.k_from, tables.k_value, *ramp)),
        k=own_k(before, *ramp),
    )


def disagreements(ruleset: Ruleset, row: dict[str, Any], terms: Terms) -> list[str]:
    """What a timeline row says otherwise than its terms computed again, each as a sentence; floats within `RELATIVE`."""
    pairs: list[tuple[str, Any, Any]] = [
        ("rule_version", row["rule_version"], terms.version.name),
        ("winner_expected", row["winner_expected"], terms.sides[0].expected),
        ("stake", row["stake"], terms.stake),
    ]
    for side, found in zip(SIDES, terms.sides, strict=True):
        pairs += [(f"{side}_k", row[f"{side}_k"], found.k), (f"{side}_change", row[f"{side}_change"], found.change)]
    return [
        f"{name} is {there!r} in the timeline and {again!r} computed again"
        for name, there, again in pairs
        if not _same(there, again, exact=name.endswith("change") and ruleset.integer_ratings)
    ]


def _same(there: Any, again: Any, exact: bool) -> bool:
    if exact or isinstance(there, str) or there is None:
        return bool(there == again)
    return math.isclose(there, again, rel_tol=RELATIVE, abs_tol=RELATIVE)
