"""Random small histories, full of ties and of gaps of exactly 168 hours, against the slow twin.

Two kinds. Thousands of histories of a few players each stand side by side in one backfill: their players differ, so they
do not touch, and window query and kernel see thousands of patterns in a few runs. And a few hundred whole runs of one small
dirty history each: copies, revisions, voided and held rows, aliases, exclusions, awards, pools, every shipped ruleset, any
chunk length and thread count; there every table is compared.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import naive
import pyarrow as pa
import pytest
import support

START = support.ts("2026-01-28")
AS_OF = "2026-06-01"
WEEK = 168 * naive.HOUR_US
OFFSETS = (0, 0, 0, 1, -1, WEEK, WEEK, WEEK + 1, WEEK - 1, naive.HOUR_US, naive.DAY_US)


def instants(rng: random.Random, n: int, span_days: int) -> list[int]:
    """Instants that repeat, lie exactly a week apart, or miss that by a microsecond."""
    some = [START + rng.randrange(span_days * 24) * naive.HOUR_US]
    while len(some) < n:
        some.append(rng.choice(some) + rng.choice(OFFSETS))
        if rng.random() < 0.1:
            some.append(START + rng.randrange(span_days * 24) * naive.HOUR_US)
    return some[:n]


# ---------------------------------------------------------------- many at once


def little_histories(rng: random.Random, how_many: int, games: range, id_of: Any) -> list[support.Row]:
    rows = []
    for h in range(how_many):
        n = rng.choice(games)
        players = [f"h{h}p{i}" for i in range(rng.choice((2, 2, 3, 5)))]
        for at in instants(rng, n, rng.choice((1, 9, 30))):
            winner, loser = rng.sample(players, 2)
            rows.append({"played_at": at, "winner_id": winner, "loser_id": loser, "cube": 2 ** rng.choice((0, 0, 1, 3, 6))})
    ids = rng.sample(range(10 * len(rows)), len(rows))
    for row, number in zip(rows, ids, strict=True):
        row["game_id"] = id_of(number)
    rng.shuffle(rows)
    return rows


@pytest.mark.parametrize("seed", range(10))
def test_three_thousand_little_histories(run_backfill: support.Backfill, seed: int) -> None:
    rng = random.Random(seed)
    todays_rule = seed % 5 == 0
    rows = little_histories(rng, 300, range(50, 110) if todays_rule else range(20, 61), (int, str)[seed % 2])
    options = ["--as-of", AS_OF, "--chunk", rng.choice(("month", "week", "day")), "--threads", str(rng.choice((1, 2)))]
    if todays_rule:
        rules, twin_rules = "tavla42", naive.TAVLA42
    else:  # a lower threshold, so that most histories cross it, both ways and often
        own = {"heavy": (rng.randrange(3, 15), rng.choice((16, 12.5))), "cube": True, "divisor": rng.choice((400, 1200))}
        rules, twin_rules = support.own_rules(run_backfill.base / "own.toml", **own), support.own_twin(**own)
    out = run_backfill(rows, *options, rules=rules).ok()
    twin = naive.replay(rows, twin_rules, as_of=support.ts(AS_OF), top=100)
    assert len({line["winner_k"] for line in twin.timeline}) == 2
    support.assert_same(out, twin, twin_rules)


# ---------------------------------------------------------------- one at a time, dirty

NAMES = ["Ann", "ann ", "ann", "Zoë", "Zoe\u0308", "007", "7", "\uff5a", "\U0001f3b2", "", "O'Hara", 'a"b', "x,y"]
SHIPPED = ("tavla42", "tavla42-history", "nardy", "fibs", "chess", "fibs-1pt", "own")


@dataclass
class Case:
    """One dirty history with its rules and options."""

    files: dict[str, list[support.Row]]
    rules: str
    twin_rules: naive.Rules
    options: list[str]
    inputs: dict[str, Any] = field(default_factory=dict)
    twin_options: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)


def one_row(rng: random.Random, game_id: Any, at: int, players: list[Any], dirt: float) -> support.Row:
    winner, loser = rng.sample(players, 2)
    row = support.game(
        game_id,
        at,
        winner,
        loser,
        mode=rng.choice(("ranked", "ranked", "ranked", None, "ranked", "boosted", "casual", "tournament")),
        cube=rng.choice((1, 1, 2, 4, 8, 16, 32, 64, None)),
        match_length=rng.choice((1, 3, 5, 7, 25, 64, 999)),
        result=rng.choice(("single", "single", None, "gammon", "backgammon")),
        ended_by=rng.choice((None, "resigned", "disconnected")),
        is_draw=rng.choice((False, False, None, False, True)),
        voided=rng.choice((False, False, None)),
        revision=rng.choice((None, None, 0, 1)),
        weight=rng.choice((None, 1.0, 1.0, 0.5, 2.0)),
        advantage=rng.choice((None, 0.0, 0.0, 65.0, -100.0)),
    )
    if row["is_draw"]:
        row["result"] = None
    if rng.random() < dirt:
        column, value = rng.choice(
            (
                ("game_id", None),
                ("winner_id", None),
                ("loser_id", None),
                ("played_at", None),
                ("voided", True),
                ("played_at", support.ts(AS_OF)),
                ("played_at", support.ts(AS_OF) + 1),
                ("played_at", support.ts("2099-01-01")),
                ("mode", "ranqued"),
                ("loser_id", winner),
                ("cube", rng.choice((0, 3, -2, 128, 1_712_345_678))),
                ("match_length", rng.choice((None, 0, -1, 1000, 2**40))),
                ("result", "triple"),
                ("weight", rng.choice((float("nan"), float("inf"), -1.0))),
                ("advantage", rng.choice((float("nan"), float("inf"), float("-inf")))),
            )
        )
        row[column] = value
    return row


def copies(rng: random.Random, rows: list[support.Row], dirt: float) -> list[support.Row]:
    """Replays, older and newer revisions, and changed copies of some rows."""
    more = []
    for row in rows:
        if row["game_id"] is None or rng.random() > dirt:
            continue
        for _ in range(rng.randrange(1, 4)):
            other = dict(row)
            kind = rng.randrange(5)
            if kind in (1, 2):
                other["revision"] = rng.choice((None, -1, 0, 1, 2, 3))
            if kind == 2:
                other["winner_id"], other["loser_id"] = row["loser_id"], row["winner_id"]
            if kind == 3:
                change = (("cube", 8), ("voided", True), ("ended_by", "left"), ("mode", "boosted"), ("match_length", 9))
                other |= dict([rng.choice(change)])
            if kind == 4:  # the same content, written otherwise
                other["mode"] = "ranked" if row["mode"] is None else row["mode"]
                other["cube"] = None if row["cube"] == 1 else row["cube"]
                other["voided"] = bool(row["voided"])
                other["is_draw"] = bool(row["is_draw"])
                other["weight"] = 1.0 if row["weight"] is None else row["weight"]
                other["advantage"] = 0.0 if row["advantage"] is None else row["advantage"]
            more.append(other)
    return more


def in_files(rng: random.Random, rows: list[support.Row]) -> dict[str, list[support.Row]]:
    """The rows in any order, in one to three files whose names say nothing."""
    rows = list(rows)
    rng.shuffle(rows)
    names = rng.sample(["part_1.parquet", "part_2.parquet", "part_10.parquet", "a/b.parquet"], rng.randrange(1, 4))
    files: dict[str, list[support.Row]] = {name: [] for name in names}
    for row in rows:
        files[rng.choice(names)].append(row)
    return files


def make(seed: int) -> Case:
    """The case of this seed."""
    rng = random.Random(1_000_000 + seed)
    number_ids, number_players = rng.random() < 0.5, rng.random() < 0.4
    count = rng.randrange(2, 9)
    players: list[Any] = rng.sample(range(-3, 40), count) if number_players else rng.sample(NAMES, count)
    n = rng.randrange(1, 130)
    ids: list[Any] = rng.sample(range(-50, 1000), n)
    if not number_ids:
        ids = [rng.choice(("g", "G", "é", "")) + str(i) for i in ids]
    dirt = rng.choice((0.0, 0.05, 0.3))
    rows = [
        one_row(rng, game_id, at, players, dirt) for game_id, at in zip(ids, instants(rng, n, rng.choice((2, 9, 40))), strict=True)
    ]
    rows += copies(rng, rows, dirt)
    pool = rng.random() < 0.15
    if pool:
        ladder: dict[Any, str] = {}
        for row in rows:  # copies of one game stand in one ladder
            row["ladder"] = ladder.setdefault(row["game_id"], rng.choice(("gold", "silver", "Ä")))

    case = Case(in_files(rng, rows), SHIPPED[seed % len(SHIPPED)], naive.TAVLA42, [])
    case.options = ["--as-of", AS_OF, "--max-rejected", "100%", "--chunk", rng.choice(("month", "week", "day"))]
    case.options += ["--threads", str(rng.choice((1, 2)))]
    choose_rules(rng, case)

    if rng.random() < 0.4:
        case.inputs["aliases"] = alias_table(rng, players, number_players)
    merged = {row["alias_id"] for row in case.inputs.get("aliases", [])}
    whole_people = [p for p in players if p not in merged]
    if rng.random() < 0.3:
        case.inputs["excluded"] = whole_people[:1]
    if not pool:
        extra_tables(rng, case, [p for p in whole_people if p not in case.inputs.get("excluded", [])])
    if pool:
        case.options += ["--pool", "ladder"]
        case.twin_options["pool"] = "ladder"
    if rng.random() < 0.3:
        top, least = rng.choice((1, 3)), rng.choice((1, 10))
        case.options += ["--top", str(top), "--min-games", str(least)]
        case.twin_options |= {"top": top, "min_games": least}
    if rng.random() < 0.3:
        days = rng.choice((1, 7, 30))
        case.options += ["--active-days", str(days)]
        case.twin_options["active_days"] = days
    return case


def choose_rules(rng: random.Random, case: Case) -> None:
    """Fills in the twin's rules and the options that the ruleset needs."""
    if case.rules == "tavla42-history":
        starts = sorted(START + rng.randrange(30 * 24) * naive.HOUR_US + rng.choice((0, 1)) for _ in range(3))
        if len(set(starts)) < 3:
            starts = [START, START + naive.DAY_US, START + WEEK]
        since = dict(zip(("1.0.5", "1.2.0", "1.3.1"), starts, strict=True))
        case.twin_rules = naive.tavla42_history(since)
        case.options += [part for name, at in since.items() for part in ("--since", f"{name}={support.iso(at)}")]
    elif case.rules == "own":
        case.own = {
            "heavy": rng.choice((None, (3, 12.5), (10, 16))),
            "cube": rng.random() < 0.5,
            "weight": True,
            "advantage": True,
            "divisor": rng.choice((400, 1200)),
            "integer": rng.random() < 0.7,
        }
        case.twin_rules = support.own_twin(**case.own)
    else:
        case.twin_rules = {
            "tavla42": naive.TAVLA42,
            "nardy": naive.NARDY,
            "fibs": naive.FIBS,
            "chess": naive.CHESS,
            "fibs-1pt": naive.FIBS_1PT,
        }[case.rules]


def alias_table(rng: random.Random, players: list[Any], numbers: bool) -> list[support.Row]:
    """A chain of aliases through known and unknown ids, never a cycle."""
    chain = [*rng.sample(players, min(len(players), rng.randrange(1, 4))), 777 if numbers else "nobody"]
    if rng.random() < 0.5:
        chain.reverse()
    rows = [{"alias_id": a, "player_id": b} for a, b in pairwise(chain)]
    rng.shuffle(rows)
    return rows


def extra_tables(rng: random.Random, case: Case, people: list[Any]) -> None:
    """Start ratings and awards, of whole points under integer rules."""
    as_rating = int if case.twin_rules.whole else float
    ramp = any(v.ramp for v in case.twin_rules.versions)
    if people and rng.random() < 0.3:
        case.inputs["starts"] = [
            {
                "player_id": p,
                "rating": as_rating(rng.randrange(1000, 2200)),
                "games": rng.choice((None, 0, 12)),
                **({"experience": rng.choice((None, 0.0, 399.0, 450.0))} if ramp else {}),
            }
            for p in rng.sample(people, rng.randrange(1, len(people) + 1))
        ]
        case.inputs["starts"][0]["games"] = 3  # a column of NULLs only would have no type
        if ramp:
            case.inputs["starts"][0]["experience"] = 120.0
    if people and rng.random() < 0.4:
        times = [r["played_at"] for rows in case.files.values() for r in rows if r["played_at"] is not None]
        case.inputs["awards"] = [
            {
                "award_id": number,
                "awarded_at": rng.choice(times or [START]) + rng.choice((0, 0, 1, -1, WEEK)),
                "player_id": rng.choice(people),
                "points": as_rating(rng.choice((50, 25, 15, -30, 0))),
                "reason": "podium",
            }
            for number in rng.sample(range(100), rng.randrange(1, 8))
        ]


@pytest.mark.parametrize("seed", [*range(160), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(160, 400))])
def test_whole_run_equals_the_twin(run_backfill: support.Backfill, seed: int) -> None:
    case = make(seed)
    rules: Any = case.rules
    if rules == "own":
        rules = support.own_rules(run_backfill.base / "own.toml", **case.own)
    first = next(row for rows in case.files.values() for row in rows)
    numbers = {
        name: any(isinstance(r[name], int) for rows in case.files.values() for r in rows)
        for name in ("game_id", "winner_id", "loser_id")
    }
    types: dict[str, Any] = {name: pa.int64() if whole else pa.string() for name, whole in numbers.items()}
    columns = {name: list(first) for name in case.files}
    out = run_backfill(case.files, *case.options, rules=rules, types=types, columns=columns, **case.inputs)
    twin = naive.replay(case.files, case.twin_rules, as_of=support.ts(AS_OF), **case.inputs, **case.twin_options)
    support.assert_same(out, twin, case.twin_rules)


# The least forms of what the random runs have found: games as (winner, loser, mode), the aliases, in any order of names.
MERGES = {
    "both accounts have rated games": ([("x", "y", "ranked"), ("z", "x", "ranked")], [("y", "z")]),
    "the other account has unrated games": ([("x", "y", "ranked"), ("z", "y", "casual")], [("y", "z")]),
    "a chain from an id without games": ([("x", "y", "ranked")], [("w", "y"), ("y", "z")]),
}


@pytest.mark.parametrize("names", ["wxyz", "zyxw", "xwzy", "yzwx"])
@pytest.mark.parametrize("merge", MERGES)
def test_merged_accounts_lose_no_game_and_leave_no_player_behind(run_backfill: support.Backfill, merge: str, names: str) -> None:
    """A rated game is in the timeline, and `players` holds no account that was merged into another."""
    games, pairs = MERGES[merge]
    name = dict(zip("wxyz", names, strict=True))
    rows = [support.game(i, START + i, name[w], name[l], mode=mode) for i, (w, l, mode) in enumerate(games)]  # noqa: E741
    aliases = [{"alias_id": name[a], "player_id": name[b]} for a, b in pairs]
    out = run_backfill(rows, "--as-of", AS_OF, aliases=aliases)
    twin = naive.replay(rows, naive.TAVLA42, as_of=support.ts(AS_OF), aliases=aliases)
    support.assert_same(out, twin, naive.TAVLA42)
