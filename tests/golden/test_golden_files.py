"""The golden files: right answers of an independent program in another language, every row of them.

Integer rules agree exactly. The match ratings agree to 1e-9: the power function of two languages may differ in the last
bit.
"""

from __future__ import annotations

import math
from pathlib import Path

import naive
import polars as pl
import pytest
import support

AS_OF = support.ts("2027-01-01")
SINCE = {"1.0.5": "1970-01-01", "1.2.0": "2026-03-22", "1.3.1": "2026-04-12"}
SINCE_OPTIONS = [part for name, at in SINCE.items() for part in ("--since", f"{name}={at}")]
RATINGS = ("game_id", "winner_rating_before", "loser_rating_before")
COUNTS = (*RATINGS, "winner_recent_games", "loser_recent_games", "winner_change", "loser_change")
MATCHES = (*RATINGS, "winner_experience", "loser_experience", "winner_change", "loser_change")


@pytest.fixture(scope="module")
def changes(shared: Path) -> pl.DataFrame:
    frame = pl.read_parquet(shared / "golden" / "tavla42_changes.parquet")
    assert frame.height == 100_884
    return frame


def small(shared: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(shared / "golden" / f"tavla_small_{name}.parquet")


def small_rows(shared: Path, *without: str) -> list[support.Row]:
    return small(shared, "games").drop(without).with_columns(pl.col("played_at").dt.epoch("us")).to_dicts()


def check(found: list[support.Row], columns: tuple[str, ...], golden: pl.DataFrame, tolerance: float = 0.0) -> None:
    """Row for row, in order."""
    assert len(found) == golden.height
    for i, (row, wanted) in enumerate(zip(found, golden.iter_rows(), strict=True)):
        for column, value in zip(columns, wanted, strict=True):
            if tolerance and column != "game_id":
                assert math.isclose(row[column], value, rel_tol=tolerance, abs_tol=tolerance), (i, column, row, wanted)
            else:
                assert row[column] == value, (i, column, row, wanted)


def test_twin_gives_every_change_of_the_golden_table(changes: pl.DataFrame) -> None:
    for divisor, gap, winner_k, loser_k, cube, winner_change, loser_change in changes.iter_rows():
        stake = 1 + math.log2(cube) / 6
        p = naive.expected(gap, 0, divisor)
        found = (naive.half_away(winner_k * stake * (1 - p)), naive.half_away(-loser_k * stake * (1 - p)))
        assert found == (winner_change, loser_change), (divisor, gap, winner_k, loser_k, cube)


def test_kernel_gives_every_change_of_the_golden_table(changes: pl.DataFrame) -> None:
    from eloreplay.kernel import rate_game

    for divisor, gap, winner_k, loser_k, cube, winner_change, loser_change in changes.iter_rows():
        stake = 1 + math.log2(cube) / 6
        p, *found = rate_game(float(gap), float(divisor), float(winner_k), float(loser_k), stake, 1.0, 1)
        assert found == [winner_change, loser_change], (divisor, gap, winner_k, loser_k, cube)
        assert math.isclose(p, 1 / (1 + 10 ** (-gap / divisor)), rel_tol=1e-14)


def test_twin_gives_the_small_history_under_todays_rule(shared: Path) -> None:
    twin = naive.replay(small_rows(shared), naive.TAVLA42, as_of=AS_OF)
    check(twin.timeline, COUNTS, small(shared, "current"))


def test_twin_gives_the_small_history_under_all_versions(shared: Path) -> None:
    rules = naive.tavla42_history({name: support.ts(at) for name, at in SINCE.items()})
    check(naive.replay(small_rows(shared), rules, as_of=AS_OF).timeline, COUNTS, small(shared, "history"))


def test_twin_gives_the_small_history_as_matches(shared: Path) -> None:
    twin = naive.replay(small_rows(shared, "mode", "cube"), naive.NARDY, as_of=AS_OF)
    check(twin.timeline, MATCHES, small(shared, "match"), 1e-9)


@pytest.mark.parametrize("chunk", ["month", "week", "day"])
def test_small_history_under_todays_rule(shared: Path, run_backfill: support.Backfill, chunk: str) -> None:
    games = shared / "golden" / "tavla_small_games.parquet"
    out = run_backfill(games, "--chunk", chunk, "--as-of", "2027-01-01").ok()
    check(out.rows("timeline"), COUNTS, small(shared, "current"))


@pytest.mark.parametrize("chunk", ["month", "week", "day"])
def test_small_history_under_all_versions(shared: Path, run_backfill: support.Backfill, chunk: str) -> None:
    games = shared / "golden" / "tavla_small_games.parquet"
    options = ("--chunk", chunk, "--as-of", "2027-01-01", *SINCE_OPTIONS)
    out = run_backfill(games, *options, rules="tavla42-history").ok()
    check(out.rows("timeline"), COUNTS, small(shared, "history"))


@pytest.mark.parametrize("chunk", ["month", "week", "day"])
def test_small_history_as_matches(shared: Path, run_backfill: support.Backfill, chunk: str) -> None:
    rows = small_rows(shared, "mode", "cube")
    out = run_backfill(rows, "--chunk", chunk, "--as-of", "2027-01-01", rules="nardy").ok()
    check(out.rows("timeline"), MATCHES, small(shared, "match"), 1e-9)
