"""Rows in, rows out, for the queries that decide what is counted and which copy stays."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eloreplay.prepare import Recent, k_of_week, windowed_counts
from eloreplay.queries import Database, quote, sql_folder, sql_text
from eloreplay.rules import Ruleset, load_ruleset

HOUR = 3_600_000_000
WEEK = 168 * HOUR
TAVLA42 = load_ruleset("tavla42")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(None, threads=2, memory_limit="200MB", spill=tmp_path / "spill")
    yield made
    made.close()


def counts(
    database: Database, games: list[tuple[int, int, int]], window_us: int = WEEK, ruleset: Ruleset = TAVLA42
) -> list[tuple[int, int, float, float]]:
    """(winner's count, loser's count, winner's k, loser's k) for (played_us, winner, loser) in their total order."""
    ordered = Recent(
        np.array([g[0] for g in games], np.int64),
        np.array([g[1] for g in games], np.int32),
        np.array([g[2] for g in games], np.int32),
    )
    recent = windowed_counts(database, ordered, window_us)
    k = k_of_week(ruleset, np.zeros(len(games), np.int16), np.full(len(games), 32.0), recent)
    assert recent.dtype == np.int32
    assert recent.shape == k.shape == (2, len(games))
    return list(zip(*recent.tolist(), *k.tolist(), strict=True))


def test_a_game_exactly_168_hours_old_counts_and_one_a_microsecond_older_does_not(database: Database) -> None:
    found = counts(database, [(0, 1, 2), (1, 1, 3), (WEEK, 1, 4), (WEEK + 1, 1, 5), (WEEK + 2, 1, 6)])
    assert [row[0] for row in found] == [0, 1, 2, 2, 2]


def test_of_games_at_one_instant_the_earlier_in_the_order_count_and_the_later_do_not(database: Database) -> None:
    found = counts(database, [(0, 1, 2), (0, 2, 1), (0, 1, 3), (WEEK, 1, 2), (WEEK, 2, 1)])
    assert [row[:2] for row in found] == [(0, 0), (1, 1), (2, 0), (3, 2), (3, 4)]


def test_both_roles_count(database: Database) -> None:
    found = counts(database, [(0, 2, 1), (1, 2, 1), (2, 1, 2)])
    assert found[2][:2] == (2, 2)


def test_k_changes_with_the_fiftieth_earlier_game_and_for_that_side_alone(database: Database) -> None:
    found = counts(database, [(i, 1, 100 + i) for i in range(52)])
    assert [row[2] for row in found] == [32.0] * 50 + [16.0] * 2
    assert {row[3] for row in found} == {32.0}


def test_without_a_heavy_week_the_count_stands_and_k_stays(database: Database) -> None:
    plain = TAVLA42.model_copy(update={"version": tuple(v.model_copy(update={"heavy": None}) for v in TAVLA42.version)})
    found = counts(database, [(i, 1, 100 + i) for i in range(52)], ruleset=plain)
    assert found[-1] == (51, 0, 32.0, 32.0)


def test_instants_near_the_ends_of_int64_do_not_overflow(database: Database) -> None:
    low, high = -(2**62), 2**62
    found = counts(database, [(low, 1, 2), (low + WEEK, 1, 2), (high, 1, 2), (high + WEEK, 1, 2)])
    assert [row[0] for row in found] == [0, 1, 0, 1]


def test_thousands_of_random_small_histories_agree_with_counting_by_hand(database: Database) -> None:
    """3,000 histories of up to 30 games, side by side as players who never meet; many ties and exact 168 h gaps."""
    chance = random.Random(20261130)
    games: list[tuple[int, int, int, int]] = []
    for history in range(3000):
        now = chance.randrange(-3, 3) * WEEK
        for _ in range(chance.randrange(1, 30)):
            now += chance.choice([0, 0, 0, 1, HOUR, WEEK // 2, WEEK - 1, WEEK, WEEK + 1])
            winner, loser = chance.sample(range(4), 2)
            games.append((now, len(games), history * 4 + winner, history * 4 + loser))
    games.sort(key=lambda game: game[:2])
    ordered = [(now, winner, loser) for now, _, winner, loser in games]
    found = counts(database, ordered)
    past: dict[int, list[int]] = {}
    for (now, winner, loser), row in zip(ordered, found, strict=True):
        for player, count in ((winner, row[0]), (loser, row[1])):
            assert count == sum(then >= now - WEEK for then in past.get(player, []))
        for player in (winner, loser):
            past.setdefault(player, []).append(now)


COLUMNS: dict[str, tuple[str, Any]] = {
    "file_no": ("BIGINT", 0),
    "row_no": ("BIGINT", None),
    "pool": ("VARCHAR", ""),
    "game_id": ("BIGINT", 1),
    "played_us": ("BIGINT", 0),
    "winner_id": ("VARCHAR", "a"),
    "loser_id": ("VARCHAR", "b"),
    "mode": ("VARCHAR", None),
    "cube": ("BIGINT", None),
    "match_length": ("BIGINT", None),
    "result": ("VARCHAR", None),
    "ended_by": ("VARCHAR", None),
    "is_draw": ("BOOLEAN", None),
    "voided": ("BOOLEAN", None),
    "revision": ("BIGINT", None),
    "advantage": ("DOUBLE", None),
    "weight": ("DOUBLE", None),
}


def stage(database: Database, rows: list[dict[str, Any]]) -> None:
    database.execute("create or replace table staged (" + ", ".join(f"{quote(n)} {t}" for n, (t, _) in COLUMNS.items()) + ")")
    for number, row in enumerate(rows):
        values = {name: row.get(name, number if name == "row_no" else default) for name, (_, default) in COLUMNS.items()}
        database.execute(f"insert into staged values ({', '.join('$' + name for name in COLUMNS)})", values)


def verdicts(database: Database, rows: list[dict[str, Any]]) -> list[str]:
    """What becomes of each copy: "stays" or its verdict, in the order of the rows."""
    stage(database, rows)
    database.create_table("repeated", "repeated_ids")
    database.create_table("copy_verdicts", "copy_verdicts")
    found = dict(
        database.connection.execute(
            "select staged.row_no, verdict from copy_verdicts inner join staged on staged.rowid = copy_verdicts.row_key"
        ).fetchall()
    )
    return [found.get(number, "stays") for number in range(len(rows))]


CONFLICT, DUPLICATE, STAYS = "conflicting_copies", "duplicate", "stays"


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([{}, {"game_id": 2}], [STAYS, STAYS]),
        ([{}, {}, {}], [STAYS, DUPLICATE, DUPLICATE]),
        # NULL and the default are the same content; so are NULL revisions.
        ([{"cube": 1, "mode": "ranked", "voided": False, "is_draw": False, "weight": 1.0, "advantage": 0.0}, {}], [STAYS, DUPLICATE]),
        # The top revision stays; NULL is lower than any number.
        ([{"revision": 2}, {"revision": 1, "winner_id": "c"}, {"winner_id": "d"}], [STAYS, DUPLICATE, DUPLICATE]),
        ([{}, {"revision": -(2**63), "winner_id": "c"}], [DUPLICATE, STAYS]),
        # Copies of the top revision that differ: all of them go, older ones are duplicates all the same.
        ([{"revision": 1}, {"revision": 1, "winner_id": "c"}, {"revision": 0}], [CONFLICT, CONFLICT, DUPLICATE]),
        ([{}, {}, {"loser_id": "c"}], [CONFLICT, CONFLICT, CONFLICT]),
        # A row without ids or time is no copy.
        ([{}, {"winner_id": None}, {"played_us": None}], [STAYS, STAYS, STAYS]),
        ([{"result": "single"}, {"result": None}], [CONFLICT, CONFLICT]),
        ([{"match_length": None}, {"match_length": None}], [STAYS, DUPLICATE]),
        ([{"weight": float("nan")}, {"weight": float("nan")}], [STAYS, DUPLICATE]),
        ([{"game_id": 7, "revision": 1}, {"game_id": 8, "revision": 2}], [STAYS, STAYS]),
    ],
)  # fmt: skip
def test_which_copy_stays(database: Database, rows: list[dict[str, Any]], wanted: list[str]) -> None:
    assert verdicts(database, rows) == wanted


@pytest.mark.parametrize(
    "change",
    [
        {"played_us": 1}, {"winner_id": "z"}, {"loser_id": "z"}, {"mode": "boosted"}, {"cube": 2}, {"match_length": 3},
        {"result": "gammon"}, {"ended_by": "left"}, {"is_draw": True}, {"voided": True}, {"advantage": 1.0}, {"weight": 2.0}, {"pool": "p"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_every_canonical_column_is_content(database: Database, change: dict[str, Any]) -> None:
    assert verdicts(database, [{}, change]) == [CONFLICT, CONFLICT]


def test_the_order_of_the_rows_does_not_decide_which_content_stays(database: Database) -> None:
    rows = [{"revision": 3}, {"revision": 1, "winner_id": "c"}, {"revision": 3}, {"winner_id": "e"}]
    for order in itertools.permutations(rows):
        found = verdicts(database, list(order))
        assert sorted(found) == [DUPLICATE, DUPLICATE, DUPLICATE, STAYS]
        assert order[found.index(STAYS)] == {"revision": 3}


def judged(database: Database, row: dict[str, Any], **settings: Any) -> str:
    stage(database, [row])
    database.put("aliases", pa.table({"alias_id": ["old"], "player_id": ["b"]}))
    database.put("excluded", pa.table({"player_id": ["cheat"]}))
    database.put("known_modes", pa.table({"mode": ["ranked", "casual"], "is_rated": [True, False]}))
    defaults: dict[str, Any] = {
        "as_of_us": 1000, "all_modes": False, "uses_cube": True, "max_cube": 64, "uses_match_length": True, "max_match_length": 999,
        "uses_result": True, "uses_weight": True, "uses_advantage": True, "first_rule_us": -100, "whole_points": True,
    }  # fmt: skip
    database.put("settings", pa.table({key: [value] for key, value in (defaults | settings).items()}))
    database.create_view("judged", "judged")
    return str(database.arrow_of("select verdict from judged")["verdict"][0])


ALL_WRONG: dict[str, Any] = {
    "game_id": None, "played_us": None, "voided": True, "mode": "nonsense", "winner_id": "cheat", "loser_id": "cheat", "cube": 3,
    "match_length": 0, "result": "triple", "weight": -1.0, "advantage": float("inf"),
}  # fmt: skip
#: Mending the first fault brings the next to light: the order of the specification, step by step.
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("missing_id", {"game_id": 1}),
    ("missing_time", {"played_us": 1001}),
    ("voided", {"voided": None}),
    ("held", {"played_us": -101}),
    ("unknown_mode", {"mode": "casual"}),
    ("unrated", {"mode": None}),
    ("unrated", {"winner_id": "old", "loser_id": "b"}),
    ("self_play", {"winner_id": "a"}),
    ("bad_cube", {"cube": None}),
    ("bad_match_length", {"match_length": 5}),
    ("bad_result", {"result": None}),
    ("bad_weight", {"weight": None}),
    ("bad_advantage", {"advantage": None}),
    ("before_first_rule_version", {"played_us": -100}),
    ("rated", {}),
]


def test_the_first_fault_that_matches_is_the_verdict(database: Database) -> None:
    row = {**ALL_WRONG, "match_length": 0}
    for wanted, mend in STEPS:
        assert judged(database, row) == wanted
        row |= mend


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"cube": 1}, "rated"), ({"cube": 64}, "rated"), ({"cube": 128}, "bad_cube"), ({"cube": 0}, "bad_cube"), ({"cube": -2}, "bad_cube"),
        ({"cube": 3}, "bad_cube"), ({"cube": 1712345678}, "bad_cube"), ({"cube": -(2**63)}, "bad_cube"), ({"cube": 2**62}, "bad_cube"),
        ({"match_length": 999}, "rated"), ({"match_length": 1000}, "bad_match_length"), ({"match_length": -1}, "bad_match_length"),
        ({"match_length": None}, "bad_match_length"), ({"weight": 0.0}, "rated"), ({"weight": float("nan")}, "bad_weight"),
        ({"weight": float("inf")}, "bad_weight"), ({"advantage": -65.5}, "rated"), ({"advantage": float("nan")}, "bad_advantage"),
        ({"played_us": 1000}, "rated"), ({"played_us": 1001}, "held"), ({"mode": "Ranked"}, "unknown_mode"), ({"mode": ""}, "unknown_mode"),
        ({"result": "backgammon"}, "rated"), ({"result": "Gammon"}, "bad_result"), ({"pool": None}, "missing_id"),
        ({"winner_id": "b ", "loser_id": "b"}, "rated"),
    ],
)  # fmt: skip
def test_edges_of_the_verdicts(database: Database, row: dict[str, Any], wanted: str) -> None:
    assert judged(database, {"match_length": 1, **row}) == wanted


def test_columns_that_the_rules_do_not_use_are_not_looked_at(database: Database) -> None:
    row = {"cube": 3, "match_length": -1, "result": "?", "weight": float("nan"), "advantage": float("inf"), "mode": "whatever"}
    unused = {f"uses_{name}": False for name in ("cube", "match_length", "result", "weight", "advantage")}
    assert judged(database, row, all_modes=True, **unused) == "rated"


def test_every_query_says_what_it_is_for() -> None:
    for path in sql_folder().glob("*.sql"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("-- Purpose: "), path.name
        assert "-- Grain: " in text, path.name
        assert sql_text(path.stem)
