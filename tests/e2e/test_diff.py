"""`eloreplay diff`: who moves between two runs, what the board does, and the games that say why; in text, JSON and Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import Backfill, Out, Row, game, own_rules, write
from support_nightly import command, night

from eloreplay.diff_page import correlation, page

START = "2026-10-0"


def history() -> list[Row]:
    pairs = ["ab", "cd", "ac", "bd", "ad", "bc", "ab", "ab", "cd"]
    return [game(f"g{n}", f"{START}{n // 3 + 1} 1{n % 3}:00:00", pair[0], pair[1]) for n, pair in enumerate(pairs)]


def diff(*arguments: str | Path) -> Out:
    return command(["diff", *arguments, "--threads", "1"], Path())


def as_json(*arguments: str | Path) -> dict[str, Any]:
    last = diff(*arguments, "--json").ok().stdout.splitlines()[-1]
    found = json.loads(last)
    assert isinstance(found, dict)
    return found


def test_two_rule_sets_over_the_same_games(run_backfill: Backfill, tmp_path: Path) -> None:
    rows = history()
    one = run_backfill(rows, rules=own_rules(tmp_path / "one.toml", k=32)).ok()
    two = run_backfill(rows, rules=own_rules(tmp_path / "two.toml", k=16, integer=False)).ok()
    (tmp_path / "to").mkdir()
    found = as_json(one.folder, two.folder, "--to", tmp_path / "to" / "moves.parquet")
    assert found["games"] == {"a": 9, "b": 9, "only_a": 0, "only_b": 0, "differing": 9, "moved_otherwise": 9}
    moves = pl.read_parquet(tmp_path / "to" / "moves.parquet")
    ratings = [out.ratings() for out in (one, two)]
    assert moves["player_id"].to_list() == ["a", "b", "c", "d"]
    for row in moves.iter_rows(named=True):
        assert (row["rating_a"], row["rating_b"]) == tuple(one[row["player_id"]] for one in ratings)
        assert row["change"] == row["rating_b"] - row["rating_a"]
        first = "g0" if row["player_id"] in "ab" else "g1"
        assert (row["first_game_id"], row["first_before_a"], row["first_before_b"]) == (first, 1500, 1500)
        assert abs(row["first_change_a"]) == 16
        assert abs(row["first_change_b"]) == 8
    most = max(abs(ratings[1][player] - ratings[0][player]) for player in "abcd")
    assert found["players"]["distance"]["most"] == most
    assert abs(found["movers"][0]["change"]) == most
    assert found["movers"][0]["differing_games"] == moves.sort(pl.col("change").abs())["differing_games"][-1]
    assert len(found["movers"][0]["games"]) == 3
    assert found["ladders"][0]["boards"]["20"]["stay"] == 4


def test_a_night_and_the_run_before(run_backfill: Backfill, tmp_path: Path) -> None:
    rows = history()
    write(tmp_path / "games" / "a.parquet", rows[:8])
    out = run_backfill(tmp_path / "games", "--as-of", "2026-12-31").ok().folder
    write(tmp_path / "games" / "b.parquet", [rows[8], game("late", "2026-10-02 10:30:00", "d", "a", cube=4)])
    night(tmp_path / "games", out, "--as-of", "2027-01-31", "--accept-changes").ok()
    found = as_json(f"{out}@1", out)
    assert (found["games"]["only_a"], found["games"]["only_b"]) == (0, 2)
    apart = {mover["player_id"]: mover["first"]["game_id"] for mover in found["movers"]}
    assert {apart[player] for player in "ad"} == {"late"}
    late_line = next(line for line in found["movers"] if line["player_id"] == "d")["first"]
    assert (late_line["change_a"], late_line["change_b"] > 0) == (None, True)
    # The other way round, by the runs' own folders, it is the same but for its sign.
    back = as_json(out / "runs" / "000002", out / "runs" / "000001")
    assert (back["games"]["only_a"], back["games"]["only_b"]) == (2, 0)
    assert {m["player_id"]: -m["change"] for m in back["movers"]} == {m["player_id"]: m["change"] for m in found["movers"]}
    text = diff(f"{out}@1", out).ok().stdout
    assert "only in B                  2" in text
    assert "first apart  game late, 2026-10-02T10:30:00Z: A not there, B " in text


def test_the_same_run_and_names_that_are_none(run_backfill: Backfill, tmp_path: Path) -> None:
    out = run_backfill(history()).ok().folder
    found = as_json(out, out / "current")
    assert found["players"]["moved"] == 0
    assert (found["ladders"][0]["spearman"], found["ladders"][0]["kendall"]) == (1.0, 1.0)
    assert "Nobody has another rating." in diff(out, out).ok().stdout
    numbers = run_backfill([game(1, f"{START}1 10:00:00", 7, 8)]).ok().folder
    for wrong, words in (
        ((out, tmp_path / "nowhere"), "no output folder"),
        ((out, f"{out}@7"), "run 7 is not kept; kept are 000001"),
        ((out, numbers), "nothing in common"),
    ):
        refused = diff(*wrong)
        assert refused.code == 2
        assert words in refused.stderr


def test_a_table_takes_the_place_of_nothing_else(run_backfill: Backfill, tmp_path: Path) -> None:
    out = run_backfill(history()).ok().folder
    players = out / "current" / "players.parquet"
    before = players.read_bytes()
    (tmp_path / "README.md").write_text("# Mine\n", encoding="utf-8")
    (tmp_path / "copy.parquet").write_bytes(before)
    (tmp_path / "link.parquet").symlink_to(players)
    (tmp_path / "ring.parquet").symlink_to(tmp_path / "ring.parquet")
    for target, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "d.parquet", "there is no folder"),
        (players, "lies in the output folder"),
        (out / "d.parquet", "lies in the output folder"),
        (out / "studies", "lies in the output folder"),
        (tmp_path / "link.parquet", "lies in the output folder"),
        (tmp_path / "README.md", "is there and is not a table of eloreplay diff"),
        (tmp_path / "copy.parquet", "is there and is not a table of eloreplay diff"),
        (Path("/dev/null"), "is there and is not a table of eloreplay diff"),
    ):
        refused = diff(out, out, "--to", target)
        assert (refused.code, refused.stdout) == (2, "")
        assert f"--to {target}: {words}" in refused.stderr
    refused = diff(out, out, "--to", tmp_path / "ring.parquet")
    assert (refused.code, refused.stdout) == (1, "")
    assert "cannot be written" in refused.stderr
    assert not (tmp_path / "none").exists()
    assert players.read_bytes() == before == (tmp_path / "copy.parquet").read_bytes()
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "# Mine\n"
    # What may be written: a new file, an earlier table, an empty file, and a study's place.
    (out / "studies").mkdir()
    (tmp_path / "empty.parquet").touch()
    for target in (tmp_path / "new.parquet", tmp_path / "new.parquet", tmp_path / "empty.parquet", out / "studies" / "d.parquet"):
        diff(out, out, "--to", target).ok()
        assert pl.read_parquet(target).height == 4


def test_ladders_are_compared_each(run_backfill: Backfill, tmp_path: Path) -> None:
    rows = [{**row, "ladder": ladder, "game_id": f"{row['game_id']}{ladder}"} for row in history() for ladder in "xy"]
    one = run_backfill(rows, "--pool", "ladder").ok().folder
    two = run_backfill([row for row in rows if row["game_id"] != "g8y"], "--pool", "ladder").ok().folder
    found = as_json(one, two)
    assert [(ladder["pool"], ladder["players"]) for ladder in found["ladders"]] == [("x", 4), ("y", 4)]
    assert {mover["pool"] for mover in found["movers"]} == {"y"}
    assert {mover["player_id"] for mover in found["movers"]} == {"c", "d"}
    assert "The order of y, over 4 players in both" in diff(one, two).ok().stdout


@pytest.mark.parametrize("awarded", [True, False])
def test_an_award_is_where_two_runs_part(run_backfill: Backfill, awarded: bool) -> None:
    awards = [{"award_id": 1, "awarded_at": history()[0]["played_at"], "player_id": "c", "points": 40}]
    one = run_backfill(history()).ok().folder
    two = run_backfill(history(), awards=awards).ok().folder
    sides = (one, two) if awarded else (two, one)
    found = as_json(*sides)
    first = next(mover for mover in found["movers"] if mover["player_id"] == "c")["first"]
    assert first["game_id"] is None
    assert first["change_b" if awarded else "change_a"] == 40


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1.0000"),
        (-1.0, "-1.0000"),
        (0.5, "0.5000"),
        (0.99994, "0.9999"),
        (0.999998, "0.999998"),
        (-0.99999999, "-0.99999999"),
        (1 - 2**-53, "0.9999999999999999"),
    ],
)
def test_a_correlation_that_is_not_1_does_not_look_like_it(value: float, shown: str) -> None:
    assert correlation(value) == shown


def test_one_game_differs(run_backfill: Backfill) -> None:
    first = run_backfill([game(1, "2026-10-01 10:00:00", "a", "b")]).ok().folder
    second = run_backfill([game(1, "2026-10-01 10:00:00", "b", "a")]).ok().folder
    found = as_json(first, second)
    assert "1 game differs\n" in page(found) + "\n"
