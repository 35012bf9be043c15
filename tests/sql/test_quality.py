"""The queries behind `eloreplay check`: rows in, rows out, every figure counted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eloreplay.queries import Database

Row = dict[str, Any]
SECOND = 1_000_000
DAY = 86_400 * SECOND
#: 2026-03-01T00:00:00Z
MARCH = 1_772_323_200 * SECOND

GAME = pa.schema(
    [
        ("pool", pa.string()),
        ("game_id", pa.int64()),
        ("played_us", pa.int64()),
        ("winner_id", pa.string()),
        ("loser_id", pa.string()),
        ("is_draw", pa.bool_()),
        ("mode", pa.string()),
        ("cube", pa.int64()),
        ("match_length", pa.int64()),
        ("result", pa.string()),
        ("ended_by", pa.string()),
        ("is_rated", pa.bool_()),
    ]
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(None, threads=1, memory_limit="200MB", spill=tmp_path)
    yield made
    made.close()


def games(database: Database, rows: list[Row]) -> None:
    """The table `quality_games` with these rows, and what stands on it."""
    usual = {"pool": "", "is_draw": False, "is_rated": True}
    full = [{**dict.fromkeys(GAME.names), **usual, "game_id": number, **row} for number, row in enumerate(rows, 1)]
    database.put("quality_games", pa.Table.from_pylist(full, GAME))
    database.create_view("quality_sides", "quality_sides")


def at(us: int, winner: str = "a", loser: str = "b", **more: Any) -> Row:
    return {"played_us": us, "winner_id": winner, "loser_id": loser, **more}


def rows(database: Database, name: str, **parameters: int) -> list[Row]:
    return database.arrow(name, parameters).to_pylist()


def test_games_are_what_was_played(database: Database) -> None:
    schema = pa.schema([*(field for field in GAME if field.name != "is_rated"), ("verdict", pa.string())])
    verdicts = ["missing_id", "missing_time", "voided", "held", "rated", "unrated", "unknown_mode", "bad_cube"]
    judged = [{**dict.fromkeys(schema.names), **at(1), "game_id": n, "verdict": verdict} for n, verdict in enumerate(verdicts)]
    judged += [{**judged[4], "game_id": 50, "loser_id": "a", "verdict": "unrated"}]
    database.put("judged", pa.Table.from_pylist(judged, schema))
    found = rows(database, "quality_games")
    assert sorted((row["game_id"], row["is_rated"]) for row in found) == [(4, True), (5, False), (6, False), (7, False)]


def test_span(database: Database) -> None:
    games(database, [at(MARCH), at(MARCH + 5, is_rated=False), at(MARCH + DAY), at(-1)])
    database.put("judged", pa.table({"verdict": ["held", "held", "rated"], "played_us": [5, 9, 12]}))
    assert rows(database, "quality_span") == [
        {"games": 4, "rated": 3, "first_us": -1, "last_us": MARCH + DAY, "days": 3, "last_held_us": 9}
    ]


def test_span_of_nothing(database: Database) -> None:
    games(database, [])
    database.put("judged", pa.table({"verdict": pa.array([], pa.string()), "played_us": pa.array([], pa.int64())}))
    assert rows(database, "quality_span") == [
        {"games": 0, "rated": 0, "first_us": None, "last_us": None, "days": 0, "last_held_us": None}
    ]


def test_months_are_utc_and_half_open(database: Database) -> None:
    games(database, [at(MARCH - 1), at(MARCH), at(MARCH + 31 * DAY - 1, is_rated=False), at(MARCH + 31 * DAY), at(-1)])
    assert rows(database, "quality_months") == [
        {"month": "1969-12", "games": 1, "rated": 1},
        {"month": "2026-02", "games": 1, "rated": 1},
        {"month": "2026-03", "games": 2, "rated": 1},
        {"month": "2026-04", "games": 1, "rated": 1},
    ]


def test_values_tell_missing_from_present_and_add_up(database: Database) -> None:
    games(database, [at(n, cube=cube) for n, cube in enumerate([1, 1, 1, None, None, 2, 4, 8])])
    found = [row for row in rows(database, "quality_values", shown=3) if row["field"] == "cube"]
    assert [(row["cell"], row["is_missing"], row["games"], row["others"]) for row in found] == [
        ("1", False, 3, 0),
        (None, True, 2, 0),
        ("2", False, 1, 0),
        (None, False, 2, 2),
    ]
    assert {row["field"] for row in rows(database, "quality_values", shown=3)} == {
        "mode", "cube", "match_length", "result", "ended_by", "is_draw",
    }  # fmt: skip


def test_ties_by_instant_and_by_player(database: Database) -> None:
    # MARCH: three games; a plays two of them. Then two strangers' games at one instant, and one game alone.
    games(
        database,
        [at(MARCH), at(MARCH, "a", "c"), at(MARCH, "d", "e"), at(MARCH + SECOND), at(MARCH + SECOND, "c", "d"), at(MARCH + 7)],
    )
    assert rows(database, "quality_ties") == [
        {
            "games": 6,
            "instants": 3,
            "tied_instants": 2,
            "tied_games": 5,
            "largest_instant": 3,
            "largest_instant_us": MARCH,
            "player_instants": 5 + 4 + 2,
            "tied_player_instants": 1,
            "largest_player_instant": 2,
            "whole_second_games": 5,
            "midnight_games": 3,
        }
    ]


def test_one_id_on_two_ladders_is_no_tie(database: Database) -> None:
    games(database, [at(5, pool="x"), at(5, pool="y")])
    (found,) = rows(database, "quality_ties")
    assert (found["tied_games"], found["tied_player_instants"]) == (2, 0)


def test_gaps_longest_first(database: Database) -> None:
    games(database, [at(0), at(0), at(10 * SECOND), at(40 * SECOND), at(50 * SECOND), at(60 * SECOND + 1)])
    found = rows(database, "quality_gaps", shown=3, long_us=10 * SECOND)
    assert [(row["from_us"], row["to_us"], row["gap_s"], row["long_gaps"]) for row in found] == [
        (10 * SECOND, 40 * SECOND, 30.0, 2),
        (50 * SECOND, 60 * SECOND + 1, 10.000001, 2),
        (0, 10 * SECOND, 10.0, 2),
    ]


def test_gap_wider_than_int64(database: Database) -> None:
    games(database, [at(-(2**62) - 5), at(2**62 + 5)])
    (found,) = rows(database, "quality_gaps", shown=3, long_us=1)
    assert found["gap_s"] == pytest.approx(2**63 / 1e6)


def doubles(database: Database) -> list[tuple[int, int, float]]:
    found = rows(database, "quality_double_submits", shown=100, within_us=90 * SECOND)
    return [(row["earlier_game_id"], row["game_id"], row["apart_s"]) for row in found]


@pytest.mark.parametrize(
    ("second", "suspected"),
    [
        (at(90 * SECOND), True),
        (at(90 * SECOND + 1), False),
        (at(5 * SECOND, "b", "a"), False),
        (at(5 * SECOND, "a", "c"), False),
        (at(5 * SECOND, pool="other"), False),
        (at(5 * SECOND, is_draw=True), False),
        (at(0), True),
    ],
    ids=["90 s", "just over", "other winner", "other loser", "other ladder", "a draw", "same instant"],
)
def test_double_submit_is_same_pair_same_result_within_90_s(database: Database, second: Row, suspected: bool) -> None:
    games(database, [at(0), second])
    assert doubles(database) == ([(1, 2, second["played_us"] / SECOND)] if suspected else [])


def test_draws_have_no_sides(database: Database) -> None:
    games(database, [at(0, is_draw=True), at(3 * SECOND, "b", "a", is_draw=True)])
    assert doubles(database) == [(1, 2, 3.0)]


def test_three_submits_are_two_suspects_and_totals_are_of_all(database: Database) -> None:
    games(database, [at(0), at(60 * SECOND), at(120 * SECOND, is_rated=False), at(0, "c", "d"), at(SECOND, "c", "d")])
    assert doubles(database) == [(4, 5, 1.0), (1, 2, 60.0), (2, 3, 60.0)]
    (only,) = rows(database, "quality_double_submits", shown=1, within_us=90 * SECOND)
    assert (only["total"], only["total_rated"], only["pairs"]) == (3, 2, 2)


def test_players_seen_once(database: Database) -> None:
    games(database, [at(0), at(1), at(2, "a", "c"), at(3, "c", "d"), at(4, "e", "f", pool="x")])
    assert rows(database, "quality_players") == [
        {"players": 6, "seen_once": 3, "median_games": 1.5, "most_games": 3, "blank_ids": 0, "blank_games": 0}
    ]


def test_lookalikes(database: Database) -> None:
    games(
        database,
        [
            at(0, "Ann", "ann "),
            at(1, "Jos\u00e9", "Jose\u0301"),
            at(2, "007", "7"),
            at(3, "Bob", "bo b"),
            at(4, "ANN", "Bob"),
            at(5, "ann", "Bob", pool="other"),
        ],
    )
    found = rows(database, "quality_lookalikes", shown=10)
    assert [row["ids"] for row in found] == [["007", "7"], ["ANN", "Ann", "ann "], ["Jose\u0301", "Jos\u00e9"]]
    assert {row["total"] for row in found} == {3}


def days(database: Database, counts: dict[str, list[int]]) -> None:
    """Players with so many games on each day from MARCH on, always against players of their own."""
    made = [
        at(MARCH + day * DAY + n, player, f"{player}-{day}-{n}")
        for player, per_day in counts.items()
        for day, count in enumerate(per_day)
        for n in range(count)
    ]
    games(database, made)
    database.create_table("quality_player_days", "quality_player_days")


def test_player_days_and_their_median(database: Database) -> None:
    days(database, {"a": [1, 0, 3, 8]})
    found = [row for row in rows(database, "quality_player_days") if row["player_id"] == "a"]
    assert sorted((row["day_us"], row["games"], row["days"], row["median_games"]) for row in found) == [
        (MARCH, 1, 3, 3.0),
        (MARCH + 2 * DAY, 3, 3, 3.0),
        (MARCH + 3 * DAY, 8, 3, 3.0),
    ]


def test_largest_days(database: Database) -> None:
    days(database, {"a": [4, 9], "b": [9, 2]})
    found = rows(database, "quality_largest_days", shown=3)
    assert [(row["player_id"], row["day_us"], row["games"]) for row in found] == [
        ("b", MARCH, 9),
        ("a", MARCH + DAY, 9),
        ("a", MARCH, 4),
    ]


@pytest.mark.parametrize(
    ("per_day", "sudden"),
    [([5, 5, 51], True), ([5, 5, 50], False), ([1, 1, 49], False), ([1, 1, 50], True), ([80], False)],
    ids=["over ten times", "exactly ten times", "too few", "exactly enough", "his only day"],
)
def test_sudden_days(database: Database, per_day: list[int], sudden: bool) -> None:
    days(database, {"a": per_day})
    found = rows(database, "quality_sudden_days", shown=5, times=10, at_least=50)
    assert [(row["player_id"], row["day_us"]) for row in found] == ([("a", MARCH + 2 * DAY)] if sudden else [])


def test_sudden_days_totals_are_of_all(database: Database) -> None:
    days(database, {"a": [1, 1, 1, 60, 70], "b": [2, 2, 2, 90]})
    (only,) = rows(database, "quality_sudden_days", shown=1, times=10, at_least=50)
    assert (only["player_id"], only["games"], only["total"], only["players"]) == ("a", 70, 3, 2)


def test_copies(database: Database) -> None:
    database.put("repeated", pa.table({"game_id": [1, 2, 3]}))
    database.put("copy_verdicts", pa.table({"verdict": ["duplicate", "conflicting_copies", "conflicting_copies"]}))
    database.put("conflicting", pa.table({"game_id": [2, 2]}))
    assert rows(database, "quality_copies") == [
        {"repeated_ids": 3, "duplicate_rows": 1, "conflicting_rows": 2, "conflicting_ids": 1}
    ]
