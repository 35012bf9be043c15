"""Helpers of the tests of sweeps: random rulesets as files, and the scores of a timeline by a plain sum."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import support

from eloreplay.rules import Ruleset, load_ruleset

START = support.ts("2026-01-28")
AS_OF = "2026-06-01"
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
WEEK_US = 7 * DAY_US


def spelled(value: Any) -> str:
    """A value as TOML; what is None is left out."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{key}" = {spelled(item)}' for key, item in value.items() if item is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(spelled(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def write_rules(path: Path, content: dict[str, Any]) -> Path:
    """A ruleset given as plain values, as a TOML file."""
    path.write_text("".join(f"{key} = {spelled(value)}\n" for key, value in content.items() if value is not None), encoding="utf-8")
    return path


def write_setting(path: Path, ruleset: Ruleset) -> Path:
    """A settled ruleset as a TOML file that means the same."""
    write_rules(path, ruleset.as_dict())
    assert load_ruleset(str(path)).digest == ruleset.digest
    return path


def random_rules(rng: random.Random) -> dict[str, Any]:
    """A ruleset with any of the rules there are."""
    whole = rng.random() < 0.5
    content: dict[str, Any] = {
        "name": "random",
        "start": 1500 if whole else rng.choice((1500.0, 1300.5)),
        "rounding": "half-away-from-zero" if whole else "none",
        "advantage": rng.random() < 0.4,
        "count": {"hours": rng.choice((24.0, 168.0))} if rng.random() < 0.6 else None,
        "floor": rng.choice((None, None, 1450.0)),
        "cap": rng.choice((None, None, 1560.0)),
        "max_change": rng.choice((None, None, 20.0)),
    }
    starts = sorted({START + rng.randrange(1, 30) * DAY_US for _ in range(rng.randrange(3))})
    content["version"] = [version(rng, content["count"] is not None, at) for at in [None, *starts]]
    content["adjustment"] = [
        {
            "name": f"step {at}",
            "at": support.iso(at),
            **rng.choice(({"add": 7.0}, {"pull_to": 1500.0, "factor": 0.5}, {"floor": 1490.0})),
        }
        for at in sorted({START + rng.randrange(30) * DAY_US for _ in range(rng.choice((0, 0, 1, 2)))})
    ]
    return content


def version(rng: random.Random, counted: bool, at: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": f"v{at}",
        "from": None if at is None else support.iso(at),
        "divisor": rng.choice((400.0, 1200.0, 777.7)),
        "divide_by": rng.choice(("none", "none", "sqrt_match_length")),
        "stake": {
            "base": rng.choice((1.0, 1.0, 2.5)),
            "cube": rng.choice(("none", "log2", "log2", "times")),
            "match_length": rng.choice(("none", "none", "sqrt")),
            "result": rng.choice((None, {"single": 1.0, "gammon": 1.5, "backgammon": 2.0})),
            "weight": rng.random() < 0.4,
        },
    }
    kind = rng.choice(("k", "k", "games", "rating"))
    if kind == "k":
        found["k"] = rng.choice((32.0, 24.0, 12.5))
    elif kind == "games":
        found["k_by_games"] = [{"from": 0.0, "k": 40.0}, {"from": 5.0, "k": 20.0}, {"from": 12.0, "k": 10.0}]
    else:
        found["k_by_rating"] = [{"from": 0.0, "k": 32.0}, {"from": 1510.0, "k": 16.0}]
    if counted and rng.random() < 0.8:
        heavy = rng.choice(("k", "factor")) if kind == "k" else "factor"
        found["heavy"] = {"games": rng.randrange(2, 8), heavy: rng.choice((16.0, 9.0)) if heavy == "k" else 0.5}
    if rng.random() < 0.3:
        found["ramp"] = {"height": 5.0, "length": rng.choice((10.0, 40.0)), "experience": rng.choice(("before", "after"))}
    return found


def random_games(rng: random.Random, n: int, players: Sequence[Any]) -> list[support.Row]:
    """Games of a few players, many at one instant, with every input that a rule can use."""
    rows = []
    at = START
    for number in rng.sample(range(10 * n), n):
        at += rng.choice((0, 0, 1, HOUR_US, 6 * HOUR_US, DAY_US))
        winner, loser = rng.sample(players, 2)
        draw = rng.random() < 0.15
        rows.append(
            support.game(
                number,
                at,
                winner,
                loser,
                mode="ranked",
                cube=2 ** rng.choice((0, 0, 1, 2, 6)),
                match_length=rng.choice((1, 3, 7, 25)),
                result=None if draw else rng.choice((None, "single", "gammon", "backgammon")),
                is_draw=draw,
                weight=rng.choice((1.0, 1.0, 0.37, 2.0)),
                advantage=rng.choice((0.0, 0.0, 60.5, -100.0)),
            )
        )
    return rows


def plain_scores(timeline: Iterable[support.Row]) -> tuple[float, float, int]:
    """(log loss, Brier score, games) of timeline rows, each added up with `math.fsum`."""
    losses, squares = [], []
    for row in timeline:
        expected, score = row["winner_expected"], 0.5 if row["is_draw"] else 1.0
        # Where an expected score has become 0 or 1 in floats, a logarithm is taken of the least float there is.
        loss = -score * math.log(max(expected, 5e-324))
        if score != 1.0:
            loss -= (1.0 - score) * math.log(max(1.0 - expected, 5e-324))
        losses.append(loss)
        squares.append((score - expected) ** 2)
    return math.fsum(losses) / len(losses), math.fsum(squares) / len(squares), len(losses)


def plain_swings(timeline: Iterable[support.Row]) -> dict[bool, float]:
    """Mean distance a player moved in a calendar week, by whether he played 50 games or more in it."""
    weeks: dict[tuple[Any, int], list[float]] = {}
    for row in timeline:
        week = (row["played_at"] // DAY_US + 3) // 7
        for side in ("winner", "loser"):
            weeks.setdefault((row[f"{side}_id"], week), []).append(row[f"{side}_change"])
    found: dict[bool, list[float]] = {False: [], True: []}
    for changes in weeks.values():
        found[len(changes) >= 50].append(abs(sum(changes)))
    return {heavy: sum(moves) / len(moves) for heavy, moves in found.items() if moves}
