"""Ratings that others published from real games: a club's own lists, and leagues with many draws.

The club prints whole numbers, so its lists agree within 0.5; experience is exact. Source: `data/README.md` of the shared folder.
"""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest
import support
from support_club import AS_OF, CLUB, COLUMNS, compare, lists, rows_of, snapshots


@pytest.fixture
def club(tmp_path: Path) -> Path:
    path = tmp_path / "club.toml"
    path.write_text(CLUB, encoding="utf-8")
    return path


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
        compare(run_backfill(rows_of(matches), *AS_OF, "--max-rejected", "1", rules=club), snapshot)


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
