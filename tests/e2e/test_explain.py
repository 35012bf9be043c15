"""`explain` as support meets it: games that are not rated, awards between games, the turns of K, and what a later run restated."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import nights
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
import support_nightly
from support import Backfill, Out, Row, game

from eloreplay.asking import asked_run
from eloreplay.explain_terms import disagreements, recompute

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOON = support.ts("2026-03-01 12:00:00")
AS_OF = ("--as-of", "2026-06-01", "--max-rejected", "1")


def explain(out: Path, game_id: object, *options: str) -> Out:
    return support_nightly.command(["explain", out, str(game_id), *options], out)


def found(out: Path, game_id: object) -> dict[str, Any]:
    return json.loads(explain(out, game_id, "--json").ok().stdout)


# ---------------------------------------------------------------- every kind of rule


@pytest.mark.parametrize("seed", [14, 26, 18, 9])
def test_every_kind_of_rule_computed_again_is_the_timeline_bit_by_bit(tmp_path: Path, seed: int) -> None:
    """Steps by games and by rating, floors and caps, advantage, weight, seasons with adjustments, ramps, draws, pools."""
    play = nights.Play(nights.scenario(seed), tmp_path)
    play._first()
    with asked_run(play.out) as asked:
        asked.show(asked.rated_chunks)
        rows = asked.database.arrow_of("select * exclude (played_at), epoch_us(played_at) as played_us from timeline").to_pylist()
        assert len(rows) > 5
        for row, terms in zip(rows, recompute(asked.database, asked.ruleset, rows), strict=True):
            assert disagreements(asked.ruleset, row, terms) == []
            again = [(side.k, side.expected, side.change) for side in terms.sides]
            assert again[0] == (row["winner_k"], row["winner_expected"], row["winner_change"])
            assert (again[1][0], again[1][2]) == (row["loser_k"], row["loser_change"])
    row = random.Random(seed).choice(rows)
    assert "Computed again from the timeline's columns by today's code: the same." in explain(play.out, row["game_id"]).ok().stdout


# ---------------------------------------------------------------- games that are not rated


NOT_RATED: dict[str, tuple[Row, str, list[str]]] = {
    "unrated": (game(1, NOON, "a", "b", mode="casual"), "unrated", ["its mode 'casual' is known", "not rated"]),
    "excluded": (game(2, NOON, "cheat", "b"), "unrated", ["player cheat is excluded", "both ways"]),
    "voided": (game(3, NOON, "a", "b", voided=True), "voided", ["the game is voided"]),
    "held": (game(4, "2026-07-01 00:00:00", "a", "b"), "held", ["it ended 2026-07-01", "after the run's as-of"]),
    "unknown mode": (game(5, NOON, "a", "b", mode="rankd"), "unknown_mode", ["the mode 'rankd' is not known"]),
    "self play": (game(6, NOON, "a", "a2"), "self_play", ["the same player, a, after aliases (written as a and a2)"]),
    "bad cube": (game(7, NOON, "a", "b", cube=3), "bad_cube", ["its cube is 3", "a power of two up to 64"]),
    "missing id": (game(8, NOON, "a", None), "missing_id", ["loser_id is missing"]),
    "missing time": (game(9, None, "a", "b"), "missing_time", ["played_at is missing"]),
}


@pytest.fixture(scope="module")
def bins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [game(100 + i, NOON + i * HOUR, "a", "b") for i in range(5)]
    rows += [row for row, _, _ in NOT_RATED.values()]
    rows += [game(50, NOON, "a", "b"), game(50, NOON, "b", "a"), game(51, NOON, "a", "b"), game(51, NOON, "a", "b")]
    run = Backfill(tmp_path_factory.mktemp("bins"))
    inputs: dict[str, Any] = {"excluded": ["cheat"], "aliases": [{"alias_id": "a2", "player_id": "a"}]}
    return run({"x/one.parquet": rows}, *AS_OF, **inputs).ok().folder


@pytest.mark.parametrize("name", NOT_RATED)
def test_a_game_that_is_not_rated_says_why_and_where(bins: Path, name: str) -> None:
    row, verdict, words = NOT_RATED[name]
    said = explain(bins, row["game_id"]).ok().stdout
    assert said.startswith(f"Game {row['game_id']} is not rated: {verdict.replace('_', ' ')}\n")
    at = 5 + list(NOT_RATED).index(name)
    assert f"one.parquet, row {at} (from 0)" in said
    for word in words:
        assert word in said, said
    one = found(bins, row["game_id"])
    assert (one["status"], one["row"], one["row_count"]) == (verdict, at, 1)
    assert "sides" not in one


def test_copies_are_listed(bins: Path) -> None:
    conflict = explain(bins, 50).ok().stdout
    assert "Game 50 is not rated: conflicting copies" in conflict
    assert conflict.count("conflicting_copies (copies of the game's highest revision differ") == 2
    rated = explain(bins, 51).ok().stdout
    assert "Game 51: a beat b" in rated
    assert "Rows of this game in the files: 2" in rated
    assert rated.count(": duplicate (another copy") == 1


def test_the_row_of_each_bin_is_that_of_rejected(bins: Path) -> None:
    for row in pq.read_table(bins / "current" / "rejected.parquet").to_pylist():
        one = found(bins, row["game_id"])
        assert row["row"] in [
            copy["row_no"] for copy in one["rows"] if copy["file"] == row["file"] and copy["verdict"] == row["reason"]
        ]


def test_an_id_that_is_not_there(bins: Path, run_backfill: Backfill) -> None:
    assert explain(bins, "g1").code == 2
    assert "the game ids of this run are whole numbers" in explain(bins, "g1").stderr
    said = explain(bins, 999)
    assert (said.code, said.stdout) == (2, "")
    assert (
        "no row of a game '999' was read by run 000001; its ids are whole numbers from 1 to 104; the next id is 104" in said.stderr
    )
    assert "; the next id is 1\n" in explain(bins, -7).stderr
    gap = run_backfill([game(i, NOON + 86_400_000_000 * i, "a", "b") for i in (10, 30, 20)], *AS_OF, "--chunk", "day").ok().folder
    assert "from 10 to 30; the ids next to it are 10 and 20\n" in explain(gap, 17).stderr
    text = run_backfill([game(f"G-00{i}", NOON + i, "a", "b") for i in range(1, 4)], *AS_OF).ok().folder
    assert "did you mean 'G-002'?" in explain(text, "g-002").stderr
    assert "did you mean 'G-002'?" in explain(text, "2").stderr
    assert "its ids are text, from 'G-001' to 'G-003'\n" in explain(text, "no").stderr
    assert "to 'G-003'; the ids next to it are 'G-001' and 'G-002'\n" in explain(text, "G-001x").stderr
    assert explain(Path(text.parent), "x").code == 2
    empty = run_backfill([game(1, NOON, "a", "b", mode="casual")], *AS_OF).ok().folder
    assert explain(empty, 1).ok().stdout.startswith("Game 1 is not rated: unrated")
    assert explain(empty, 2).code == 2


# ---------------------------------------------------------------- where a rating came from, and the turns of K


def test_awards_between_two_games_are_named(run_backfill: Backfill) -> None:
    games = [game(1, NOON, "a", "b"), game(2, NOON + DAY, "a", "b"), game(3, NOON + DAY, "a", "c")]
    awards = [
        {"award_id": "w0", "awarded_at": NOON, "player_id": "a", "points": 5, "reason": "before the first"},
        {"award_id": "w1", "awarded_at": NOON + HOUR, "player_id": "a", "points": 50, "reason": "podium"},
        {"award_id": "w2", "awarded_at": NOON + DAY, "player_id": "a", "points": -7, "reason": None},
        {"award_id": "w3", "awarded_at": NOON + 2 * DAY, "player_id": "a", "points": 9, "reason": "after"},
    ]
    out = run_backfill(games, *AS_OF, awards=awards).ok().folder
    second = explain(out, 2).ok().stdout
    assert "a stood at 1521 after game 1" in second
    assert "+50 by award w1 podium (2026-03-01 13:00:00 UTC), −7 by award w2 (2026-03-02 12:00:00 UTC): 1564" in second
    first = found(out, 1)["sides"][0]["before_from"]
    assert (first["kind"], [one["award_id"] for one in first["awards"]]) == ("start", ["w0"])
    assert found(out, 3)["sides"][0]["before_from"]["awards"] == []


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 hourly games, a fortnight's pause, two more; a light player who never comes near; days as chunks, so that many are read."""
    rows = [game(f"h{i:02}", NOON + i * HOUR, "a", f"o{i:02}") for i in range(60)]
    rows += [game(f"x{i}", NOON + 14 * DAY + i * HOUR, "a", "o00") for i in range(2)]
    return Backfill(tmp_path_factory.mktemp("heavy"))(rows, *AS_OF, "--chunk", "day").ok().folder


def test_when_k_was_halved_and_came_back(heavy: Path) -> None:
    during = explain(heavy, "h55").ok().stdout
    assert "K of a is 16: 55 rated games in the 7 days before, 50 or more, so 16 instead of 32" in during
    assert "it had been reduced since game h50 (2026-03-03 14:00:00 UTC, 50 before)" in during
    assert "it came back with game x0 (2026-03-15 12:00:00 UTC, 0 before)" in during
    assert "it is reduced from this game on" in explain(heavy, "h50").ok().stdout
    before = explain(heavy, "h49").ok().stdout
    assert "K of a is 32: 49 rated games in the 7 days before, fewer than 50, so the full K" in before
    assert "it was reduced from game h50" in before
    after = explain(heavy, "x0").ok().stdout
    assert "it comes back with this game" in after
    assert "it had come back with game x0" in explain(heavy, "x1").ok().stdout


def test_turns_are_found_however_far_they_are(run_backfill: Backfill) -> None:
    """A week heavy for months: far outside what is looked at first; the answer is that of the whole history."""
    rows = [game(i, NOON + i * 3 * HOUR, "a", f"o{i % 9}") for i in range(500)]
    out = run_backfill(rows, *AS_OF, "--chunk", "day").ok().folder
    side = found(out, 250)["sides"][0]
    assert side["heavy"]
    assert side["heavy_turns"]["since"]["game_id"] == 50
    assert side["heavy_turns"]["until"] is None
    assert "it was still reduced at his last rated game" in explain(out, 250).ok().stdout


# ---------------------------------------------------------------- a timeline that is not what the rules make


def spoil(out: Path, column: str, value: Any) -> None:
    (path,) = (out / "current" / "timeline").glob("*.parquet")
    table = pq.read_table(path)
    values = [value, *table[column].to_pylist()[1:]]
    at = table.column_names.index(column)
    table = table.set_column(at, table.schema.field(column), pa.array(values, table.schema.field(column).type))
    path.unlink()
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("winner_change", 17, "winner_change is 17 in the timeline and 16.0 computed again"),
        ("loser_k", 16.0, "loser_k is 16.0 in the timeline and 32.0 computed again"),
        ("stake", 1.5, "stake is 1.5 in the timeline and 1.0 computed again"),
        ("winner_rating_before", 1501, "winner_rating_before is 1501 in the timeline and 1500 by the steps before it"),
        ("rule_version", "2", "rule_version is '2' in the timeline and '1.3.1' computed again"),
    ],
)
def test_a_timeline_that_disagrees_ends_with_6(run_backfill: Backfill, column: str, value: Any, words: str) -> None:
    out = run_backfill([game(1, NOON, "a", "b"), game(2, NOON + 1, "c", "d")], *AS_OF).ok().folder
    spoil(out, column, value)
    said = explain(out, 1)
    assert said.code == 6
    assert words in said.stdout
    assert "it differs" in said.stdout
    assert explain(out, 2).code == 0


# ---------------------------------------------------------------- what a later run restated


def files(base: Path, number: int, rows: list[Row]) -> None:
    support.write(
        base / "in" / f"part_{number}.parquet", rows, columns=["game_id", "played_at", "winner_id", "loser_id", "voided", "cube"]
    )


def test_a_late_game_that_reached_two_players_through_others(tmp_path: Path) -> None:
    """a-b comes late; b meets c afterwards, c meets d: d's game is another one because of a game that he never saw."""
    games = [game(10, NOON + DAY, "b", "c", cube=64), game(20, NOON + 2 * DAY, "c", "d"), game(30, NOON + 3 * DAY, "x", "y")]
    files(tmp_path, 1, games)
    out = tmp_path / "out"
    argv = ["backfill", tmp_path / "in", "--rules", "tavla42", "--out", out, "--quiet", "--no-study", "--as-of", "2026-03-20"]
    support_nightly.command(argv, out).ok()
    files(tmp_path, 2, [game(5, NOON, "a", "b", cube=64), game(40, NOON + 4 * DAY, "x", "y")])
    support_nightly.night(tmp_path / "in", out, "--as-of", "2026-03-21", "--accept-changes").ok()

    said = " ".join(explain(out, 20).ok().stdout.split())
    assert "run 000002" in said
    assert "restated it; in run 000001 it was" in said
    assert "because game 5 (a against b, 2026-03-01 12:00:00 UTC) came late; it reached c through game 10 of b against c" in said, (
        said
    )
    (past,) = found(out, 20)["past"]
    assert (past["run"], past["before_run"], past["kind"]) == ("000002", "000001", "restated")
    was, now = past["was"], past["is"]
    assert (was["winner_rating_before"], now["winner_rating_before"]) == (1468, 1467)
    (cause,) = past["causes"]
    assert (cause["kind"], cause["id"], cause["players"]) == ("late", 5, ["c"])
    assert [step["game_id"] for step in cause["via"]] == [10]
    assert found(out, 30)["past"] == []
    assert explain(out, 20, "--no-past").ok().stdout.count("restated") == 0
    first = explain(out, 5).ok().stdout
    assert "is the first that rates it after run 000001, which did not know it" in first


def test_each_kind_of_cause_is_named(tmp_path: Path) -> None:
    """One night corrects, voids and withdraws a game each, and brings an award: what followed from which."""
    rows = [game(i, NOON + i * HOUR, f"w{i}", f"l{i}", cube=1, voided=False) for i in range(1, 5)]
    later = [game(10 + i, NOON + DAY + i * HOUR, f"w{i}", "n", cube=1) for i in range(1, 5)]
    files(tmp_path, 1, rows)
    files(tmp_path, 2, later)
    awards = tmp_path / "awards.parquet"
    types = {"points": pa.float64()}
    one = {"award_id": 1, "awarded_at": NOON, "player_id": "z", "points": 1.0, "reason": "hello"}
    support.write(awards, [one], types)
    out = tmp_path / "out"
    argv = ["backfill", tmp_path / "in", "--rules", "tavla42", "--out", out, "--quiet", "--no-study", "--as-of", "2026-03-20"]
    support_nightly.command([*argv, "--awards", awards], out).ok()
    rows[0]["cube"] = 64
    rows[1]["voided"] = True
    del rows[2]
    files(tmp_path, 1, rows)
    support.write(
        awards, [one, {"award_id": 2, "awarded_at": NOON + HOUR, "player_id": "w4", "points": 90.0, "reason": "cup"}], types
    )
    support_nightly.night(tmp_path / "in", out, "--as-of", "2026-03-21", "--accept-changes").ok()
    because = {i: " ".join(explain(out, 10 + i).ok().stdout.split()) for i in range(1, 5)}
    assert "because game 1 (w1 against l1, 2026-03-01 13:00:00 UTC) was corrected" in because[1]
    assert "because game 2 (w2 against l2, 2026-03-01 14:00:00 UTC) is not rated any more: voided" in because[2]
    assert "because game 3 (w3 against l3, 2026-03-01 15:00:00 UTC) is not rated any more: withdrawn" in because[3]
    assert "because award 2 cup of +90 for w4 (2026-03-01 13:00:00 UTC) has come" in because[4]
    assert "has other facts of it; in run 000001 it was played 2026-03-01 13:00:00 UTC" in explain(out, 1).ok().stdout
    voided = explain(out, 2).ok().stdout
    assert voided.startswith("Game 2 is not rated: voided")
    assert "no longer rates it; in run 000001 it was\n    w2: 1500 +16, K 32\n    l2: 1500 −16, K 32" in voided
    gone = explain(out, 3).ok().stdout
    assert gone.startswith("Game 3 is not rated: withdrawn\n  no file has it any more")
