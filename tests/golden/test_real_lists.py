"""Ratings that others published from real games: a club's own lists, and leagues with many draws.

The club prints whole numbers, so its lists agree within 0.5; experience is exact. Source: `data/README.md` of the shared folder.
"""

from __future__ import annotations

import functools
import math
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import support

AS_OF = ("--as-of", "2027-01-01")
CLUB = """
name = "club"
start = 1800
rounding = "none"

[[version]]
name = "1"
divisor = 2000
divide_by = "sqrt_match_length"
k = 1
stake = { base = 4, match_length = "sqrt" }
"""
COLUMNS = ("played_at", "winner_id", "loser_id", "match_length")
Match = tuple[Any, ...]


@pytest.fixture
def club(tmp_path: Path) -> Path:
    path = tmp_path / "club.toml"
    path.write_text(CLUB, encoding="utf-8")
    return path


@functools.cache
def lists(folder: Path) -> dict[str, list[Match]]:
    """The list of matches after each commit: deletes from the back (old positions), then the rest in order (new positions)."""
    edits = pl.read_parquet(folder / "bkk_backgammon_edits.parquet").sort("edit_no")
    now: list[Match] = []
    after = {}
    for (commit,), part in edits.group_by("commit", maintain_order=True):
        for edit in part.filter(op="delete").sort("index", descending=True).to_dicts():
            del now[edit["index"]]
        for edit in part.filter(pl.col("op") != "delete").to_dicts():
            match = tuple(edit[c] for c in ("date", *COLUMNS[1:]))
            if edit["op"] == "replace":
                now[edit["index"]] = match
            elif edit["op"] == "insert":
                now.insert(edit["index"], match)
            else:
                assert edit["index"] == len(now)
                now.append(match)
        after[str(commit)] = list(now)
    return after


@functools.cache
def snapshots(folder: Path) -> pl.DataFrame:
    """The lists that were computed afresh from all matches of their moment, where that moment is known."""
    found = pl.read_parquet(folder / "bkk_backgammon_snapshots.parquet").filter("fresh")
    return found.filter(pl.col("commit").is_in(list(lists(folder))))


def compare(out: support.Out, snapshot: pl.DataFrame) -> None:
    players = {row["player_id"]: row for row in out.ok().rows("players")}
    assert set(players) == set(snapshot["player_id"])
    for row in snapshot.to_dicts():
        mine = players[row["player_id"]]
        assert abs(mine["rating"] - row["rating"]) <= 0.5, (row, mine)
        assert mine["experience"] == row["experience"], (row, mine)


def test_the_club_s_last_list(shared: Path, club: Path, run_backfill: support.Backfill) -> None:
    games = shared / "data" / "bkk_backgammon.parquet"
    out = run_backfill(games, *AS_OF, rules=club).ok()
    last = snapshots(shared / "data").filter(pl.col("snapshot_id") == pl.col("snapshot_id").max())
    assert last["n_games"][0] == pl.read_parquet(games).height == 2802
    compare(out, last)
    assert out.bins() == {
        "rated": 2801, "unrated": 0, "voided": 0, "held": 0, "duplicate": 0,
        "rejected": dict.fromkeys(out.bins()["rejected"], 0) | {"self_play": 1},
    }  # fmt: skip


def test_the_edits_rebuild_the_club_s_games(shared: Path) -> None:
    games = pl.read_parquet(shared / "data" / "bkk_backgammon.parquet").sort("game_id").select(COLUMNS)
    *_, final = lists(shared / "data").values()
    assert final == games.with_columns(pl.col("played_at").dt.date()).rows()


def check_earlier(shared: Path, club: Path, run_backfill: support.Backfill, how_many: int) -> None:
    found = snapshots(shared / "data")
    ids = found["snapshot_id"].unique().sort().to_list()[:-1]
    assert len(ids) == 2807
    for i in range(how_many):
        snapshot = found.filter(snapshot_id=ids[(len(ids) - 1) * i // (how_many - 1)])
        matches = lists(shared / "data")[snapshot["commit"][0]]
        # The file's order is the club's order; at two commits its dates are not.
        days = accumulate((match[0] for match in matches), max)
        rows = [
            support.game(at, f"{day} 00:00:00", winner, loser, match_length=length)
            for at, (day, (_, winner, loser, length)) in enumerate(zip(days, matches, strict=True))
        ]
        compare(run_backfill(rows, *AS_OF, "--max-rejected", "1", rules=club), snapshot)


def test_earlier_lists_of_the_club(shared: Path, club: Path, run_backfill: support.Backfill) -> None:
    check_earlier(shared, club, run_backfill, 8)


@pytest.mark.long
def test_a_hundred_earlier_lists_of_the_club(shared: Path, club: Path, run_backfill: support.Backfill) -> None:
    check_earlier(shared, club, run_backfill, 100)


@pytest.mark.parametrize(
    ("league", "games", "draws"), [("england_football", 208_028, 52_000), ("international_football", 49_520, 10_000)]
)
def test_points_move_and_none_is_made_or_lost(
    shared: Path, run_backfill: support.Backfill, league: str, games: int, draws: int
) -> None:
    out = run_backfill(shared / "data" / f"{league}.parquet", *AS_OF, rules="chess").ok()
    timeline = out.frame("timeline")
    assert out.bins()["rated"] == timeline.height == games
    assert timeline["is_draw"].sum() > draws
    net = (timeline["winner_change"] + timeline["loser_change"]).to_list()
    total, at = 0.0, 0
    for chunk in out.manifest()["chunks"]:
        total = math.fsum((total, *net[at : at + chunk["games"]]))
        at += chunk["games"]
        assert abs(total) < 1e-9, chunk
    assert at == games
    ratings = out.ratings().values()
    assert math.isclose(math.fsum(ratings), 1500 * len(ratings), rel_tol=1e-12)
