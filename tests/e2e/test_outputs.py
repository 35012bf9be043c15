"""The published folder: schemas, views, the board, the curve, the manifest."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import polars.selectors as selectors
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
from support import game, iso, ts

HOUR = 3_600_000_000
DAY = 24 * HOUR
START = ts("2026-01-05 00:00:00")

I32, I64, F64, TEXT, FLAG, TIME = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us", "UTC")


def schemas(rating: pa.DataType, game_id: pa.DataType, player: pa.DataType) -> dict[str, list[tuple[str, pa.DataType]]]:
    """SPEC section 5, column by column."""
    return {
        "timeline": [
            ("seq", I64), ("game_id", game_id), ("played_at", TIME), ("winner_id", player), ("loser_id", player), ("is_draw", FLAG),
            ("winner_rating_before", rating), ("loser_rating_before", rating), ("winner_change", rating), ("loser_change", rating),
            ("winner_expected", F64), ("winner_k", F64), ("loser_k", F64), ("stake", F64), ("winner_games", I32), ("loser_games", I32),
            ("winner_recent_games", I32), ("loser_recent_games", I32), ("winner_experience", F64), ("loser_experience", F64),
            ("rule_version", TEXT), ("cube", I32), ("match_length", I32), ("result", TEXT), ("weight", F64), ("advantage", F64),
        ],
        "players": [
            ("player_id", player), ("rating", rating), ("games", I32), ("wins", I32), ("losses", I32), ("draws", I32), ("experience", F64),
            ("peak_rating", rating), ("peak_at", TIME), ("last_played_at", TIME),
        ],
        "leaderboard": [
            ("rank", I64), ("player_id", player), ("rating", rating), ("games", I32), ("wins", I32), ("losses", I32), ("last_played_at", TIME),
        ],
        "calibration": [
            ("slice", TEXT), ("slice_value", TEXT), ("axis", TEXT), ("bin_low", F64), ("bin_high", F64), ("games", I64),
            ("favourite_wins", F64), ("real_rate", F64), ("real_low", F64), ("real_high", F64), ("cluster_low", F64), ("cluster_high", F64),
            ("expected_rate", F64),
        ],
        "summary": [
            ("statistic", TEXT), ("slice", TEXT), ("slice_value", TEXT), ("value", F64), ("low", F64), ("high", F64), ("games", I64),
        ],
        "rejected": [
            ("file", TEXT), ("row", I64), ("reason", TEXT), ("game_id", TEXT), ("played_at", TEXT), ("winner_id", TEXT), ("loser_id", TEXT),
            ("mode", TEXT), ("cube", TEXT), ("match_length", TEXT), ("result", TEXT), ("ended_by", TEXT), ("is_draw", TEXT),
            ("voided", TEXT), ("revision", TEXT), ("advantage", TEXT), ("weight", TEXT),
        ],
    }  # fmt: skip


def found_schema(path: Path) -> list[tuple[str, pa.DataType]]:
    """Names and types."""
    return [(field.name, field.type) for field in pq.read_schema(path)]


def history(pool: bool = False, integer_ids: bool = False, days: int = 3) -> list[dict[str, Any]]:
    name = (lambda i: i) if integer_ids else (lambda i: f"p{i}")
    rows = []
    for i in range(days * 24):
        more = {"ladder": "east" if i % 3 else "west"} if pool else {}
        rows.append(game(i, START + i * HOUR, name(i % 5), name(5 + i % 4), match_length=1 + i % 7, **more))
    return rows


@pytest.mark.parametrize(("rules", "rating"), [("tavla42", I32), ("nardy", F64)])
@pytest.mark.parametrize("integer_ids", [False, True])
@pytest.mark.parametrize("pool", [False, True])
def test_every_table_has_the_schema_of_the_specification(
    run_backfill: support.Backfill, rules: str, rating: pa.DataType, integer_ids: bool, pool: bool
) -> None:
    options = ["--pool", "ladder"] if pool else []
    out = run_backfill(history(pool, integer_ids), *options, "--chunk", "day", rules=rules).ok()
    for table, columns in schemas(rating, I64, I64 if integer_ids else TEXT).items():
        wanted = [("pool", TEXT), *columns] if pool else columns
        files = sorted((out.current / "timeline").glob("*.parquet")) if table == "timeline" else [out.current / f"{table}.parquet"]
        assert files
        for file in files:
            assert found_schema(file) == wanted, file.name


def test_no_game_at_all_still_gives_every_table(run_backfill: support.Backfill) -> None:
    nothing = {"games.parquet": [game(1, START, "a", "b")]}
    out = run_backfill(nothing, "--as-of", iso(START - 1)).ok()
    assert out.bins()["held"] == 1
    for table, columns in schemas(I32, I64, TEXT).items():
        files = list((out.current / "timeline").glob("*.parquet")) if table == "timeline" else [out.current / f"{table}.parquet"]
        assert [found_schema(file) for file in files] == [columns]
        if table != "calibration":
            assert out.frame(table).filter(pl.lit(table != "summary")).height == 0
    curve = out.frame("calibration")
    assert curve["games"].sum() == 0
    assert curve["real_rate"].null_count() == curve.height


def test_the_files_of_the_timeline_are_in_order_by_name(run_backfill: support.Backfill) -> None:
    out = run_backfill(history(days=12), "--chunk", "day").ok()
    files = sorted((out.current / "timeline").glob("*.parquet"))
    assert len(files) == 12
    assert pl.concat(pl.read_parquet(file) for file in files)["seq"].to_list() == list(range(1, 12 * 24 + 1))
    chunks = out.manifest()["chunks"]
    assert [Path(chunk["file"]).name for chunk in chunks] == [file.name for file in files]
    assert sum(chunk["games"] for chunk in chunks) == 12 * 24


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(folder / "ratings.duckdb"), read_only=True)


@pytest.mark.parametrize("pool", [False, True])
def test_the_views_show_the_tables_from_any_folder(
    run_backfill: support.Backfill, pool: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--pool", "ladder"] if pool else []
    awards = [{"award_id": 1, "awarded_at": START + HOUR, "player_id": "p1", "points": 50, "reason": "1st", "ladder": "east"}]
    if not pool:
        del awards[0]["ladder"]
    out = run_backfill(history(pool), *options, awards=awards).ok()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with connect(out.current) as connection:
        for view in ("timeline", "players", "leaderboard", "awards", "rejected", "calibration", "summary"):
            # DuckDB labels an instant with the session's zone; which instant it is does not change.
            shown = connection.sql(f"from {view}").pl().with_columns(selectors.datetime().dt.convert_time_zone("UTC"))
            assert shown.equals(out.frame(view)), view
        steps = connection.sql("from player_timeline").pl()
    assert (steps.columns[0] == "pool") == pool
    assert steps.height == 2 * out.frame("timeline").height + 1
    if not pool:
        assert "pool" not in steps.columns
    keys = ["pool", "player_id"] if pool else ["player_id"]
    chained = steps.sort(*keys, "played_at", pl.col("seq").is_not_null(), "seq").with_columns(
        (pl.col("rating_before") + pl.col("change")).shift(1).over(keys).alias("carried")
    )
    assert chained.filter(pl.col("carried").is_not_null() & (pl.col("carried") != pl.col("rating_before"))).height == 0
    assert steps.filter(pl.col("award_id").is_not_null())["points"].to_list() == [50]
    assert steps.filter(score=1.0).height == steps.filter(score=0.0).height


def test_the_columns_of_player_timeline(run_backfill: support.Backfill) -> None:
    out = run_backfill(history()).ok()
    with connect(out.current) as connection:
        names = connection.sql("from player_timeline").columns
    assert names == [
        "player_id", "seq", "played_at", "game_id", "opponent_id", "score", "rating_before", "change", "rating_after", "expected", "k",
        "stake", "games", "recent_games", "experience", "rule_version", "award_id", "points",
    ]  # fmt: skip


def test_a_moved_run_is_read_after_setting_one_variable(run_backfill: support.Backfill, tmp_path: Path) -> None:
    out = run_backfill(history()).ok()
    moved = tmp_path / "it's moved [1]"
    shutil.copytree(out.current.resolve(), moved)
    shutil.rmtree(out.folder)
    with connect(moved) as connection:
        with pytest.raises(duckdb.IOException):
            connection.sql("from players").pl()
        bracketed = str(moved).replace("[", "[[]")
        connection.execute("set variable eloreplay_dir = $folder", {"folder": bracketed})
        assert connection.sql("from players").pl().height == 9
        assert connection.sql("from player_timeline").pl().height == 2 * 72


def test_an_output_folder_with_a_hostile_name(run_backfill: support.Backfill, tmp_path: Path) -> None:
    folder = tmp_path / "o'ut; drop [table] *?"
    out = run_backfill(history(), out=folder).ok()
    with connect(out.current) as connection:
        assert connection.sql("from timeline").pl().height == 72


def board(out: support.Out) -> list[tuple[int, str]]:
    return [(row["rank"], row["player_id"]) for row in out.rows("leaderboard")]


def test_case_44_ranks_ties_minimum_and_activity(run_backfill: support.Backfill) -> None:
    """a and b both win once (1516); c and d both lose once; e beats f long before; ranks 1, 1, 1, 4, 4, 4 and the options."""
    games = [
        game(1, START, "e", "f"),
        game(2, START + 40 * DAY, "b", "d"),
        game(3, START + 40 * DAY, "a", "c"),
    ]
    out = run_backfill(games).ok()
    assert board(out) == [(1, "a"), (1, "b"), (1, "e"), (4, "c"), (4, "d"), (4, "f")]
    assert board(run_backfill(games, "--active-days", "30").ok()) == [(1, "a"), (1, "b"), (3, "c"), (3, "d")]
    assert board(run_backfill(games, "--active-days", "40").ok())[2] == (1, "e")
    assert board(run_backfill(games, "--top", "2").ok()) == [(1, "a"), (1, "b")]
    assert board(run_backfill(games, "--min-games", "2").ok()) == []


def test_case_44_within_a_tie_more_games_come_first(run_backfill: support.Backfill) -> None:
    """a and b both stand at 1516 after beating a newcomer, but b brought seven games along."""
    starts = [{"player_id": "a", "rating": 1500, "games": 0}, {"player_id": "b", "rating": 1500, "games": 7}]
    games = [game(1, START, "a", "x"), game(2, START, "b", "y")]
    out = run_backfill(games, starts=starts).ok()
    assert board(out)[:2] == [(1, "b"), (1, "a")]


def test_peaks_are_the_highest_after_a_game_and_the_first_time_of_it(run_backfill: support.Backfill) -> None:
    games = [game(i, START + i * HOUR, *pair) for i, pair in enumerate([("a", "b"), ("b", "a"), ("a", "b"), ("c", "a")])]
    rows = {row["player_id"]: row for row in run_backfill(games).ok().rows("players")}
    assert rows["a"]["peak_rating"] == 1516
    assert rows["a"]["peak_at"] == START
    # b fell to 1484, rose by 16 against a's 1516 (expected 0.485 at ÷1200) and fell again: the start he was given is no peak.
    assert rows["b"]["peak_rating"] == 1500
    assert rows["b"]["peak_at"] == START + HOUR
    assert rows["c"]["peak_rating"] == rows["c"]["rating"]


def test_the_manifest_says_what_was_done(run_backfill: support.Backfill) -> None:
    out = run_backfill(history(), "--as-of", "2026-06-01", "--since", "1.3.1=2020-01-01").ok()
    manifest = out.manifest()
    assert manifest["rows_read"] == 72
    assert manifest["as_of"] == "2026-06-01T00:00:00Z"
    bins = manifest["bins"]
    assert set(bins) == {"rated", "unrated", "voided", "held", "duplicate", "rejected"}
    assert set(bins["rejected"]) == {
        "missing_id", "missing_time", "conflicting_copies", "unknown_mode", "self_play", "bad_cube", "bad_match_length", "bad_result",
        "bad_weight", "bad_advantage", "before_first_rule_version",
    }  # fmt: skip
    assert sum(v for k, v in bins.items() if k != "rejected") + sum(bins["rejected"].values()) == 72
    assert manifest["rules"]["content"]["version"][0]["from"] == "2020-01-01T00:00:00Z"
    (source,) = manifest["inputs"]
    assert len(source["sha256"]) == 64
    assert source["rows"] == 72
    assert set(manifest["timings"]) >= {"input", "reading", "window", "kernel", "writing", "tables", "total"}


def test_json_lines_quiet_and_text(run_backfill: support.Backfill, capsys: pytest.CaptureFixture[str]) -> None:
    from eloreplay.cli import main

    argv, _ = run_backfill.arguments(history())
    argv.remove("--quiet")
    assert main([*argv, "--json"]) == 0
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    assert captured.err == ""
    assert lines[-1]["done"] is True
    assert lines[-1]["bins"]["rated"] == 72
    assert {line.get("step") for line in lines} >= {"reading", "rating", "writing tables", "publishing"}
    assert main([*argv, "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "Leaderboard" in text
    assert "The tables are in" in text
    assert main([*argv, "--json", "--quiet"]) == 2


def test_the_curve_and_the_summary_add_up_with_the_timeline(run_backfill: support.Backfill) -> None:
    out = run_backfill(history(days=30), rules="nardy").ok()
    timeline, curve, summary = out.frame("timeline"), out.frame("calibration"), out.frame("summary")
    favourites = timeline.filter(pl.col("winner_expected") != 0.5).with_columns(
        won=(pl.col("winner_expected") > 0.5).cast(pl.Float64),
        p=pl.max_horizontal("winner_expected", 1 - pl.col("winner_expected")),
    )
    for axis, bins in (("gap", 21), ("probability", 20)):
        rows = curve.filter(axis=axis, slice="all", slice_value="")
        assert rows.height == bins
        assert rows["games"].sum() == favourites.height
        assert rows["favourite_wins"].sum() == favourites["won"].sum()
        assert rows["bin_low"].to_list() == sorted(rows["bin_low"].to_list())
        for row in rows.filter(pl.col("games") > 0).iter_rows(named=True):
            value = (pl.col("winner_rating_before") - pl.col("loser_rating_before")).abs() if axis == "gap" else pl.col("p")
            upper = pl.lit(True) if row["bin_high"] in (None, 1.0) else value < row["bin_high"]
            inside = favourites.filter((value >= row["bin_low"]) & upper)
            assert inside.height == row["games"]
            assert inside["p"].mean() == pytest.approx(row["expected_rate"], abs=1e-11)
            assert inside["won"].mean() == pytest.approx(row["real_rate"], abs=1e-12)
            assert row["real_low"] <= row["real_rate"] <= row["real_high"]
    gap = curve.filter(axis="gap", slice="all")
    assert gap["bin_low"].to_list() == [25.0 * i for i in range(21)]
    assert gap["bin_high"].to_list()[-1] is None

    def value(statistic: str, part: str = "all", which: str = "") -> Any:
        return summary.filter(statistic=statistic, slice=part, slice_value=which)["value"].item()

    assert value("games") == timeline.height
    assert value("games_without_favourite") == timeline.height - favourites.height
    assert value("favourite_real_rate") == pytest.approx(favourites["won"].mean(), abs=1e-12)
    assert value("favourite_expected_rate") == pytest.approx(favourites["p"].mean(), abs=1e-11)
    months = summary.filter(statistic="games", slice="month")
    wanted = timeline.group_by(pl.col("played_at").dt.strftime("%Y-%m").alias("month")).len().sort("month")
    assert months["slice_value"].to_list() == wanted["month"].to_list()
    assert months["value"].to_list() == wanted["len"].to_list()
    ratings = out.frame("players")["rating"]
    quartiles = [ratings.quantile(q, "linear") for q in (0.25, 0.75)]
    assert value("rating_middle_half_width") == pytest.approx(quartiles[1] - quartiles[0], abs=1e-9)
    assert value("rating_median") == pytest.approx(ratings.median(), abs=1e-9)


def test_keep_drops_older_runs_and_numbers_go_on(run_backfill: support.Backfill, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    for _ in range(4):
        run_backfill(history(), "--keep", "2", out=folder).ok()
    assert sorted(os.listdir(folder / "runs")) == ["000003", "000004"]
    assert os.readlink(folder / "current") == "runs/000004"
    assert sorted(os.listdir(folder)) == ["boards", "current", "eloreplay.json", "journal.jsonl", "lock", "runs"]


def test_a_run_without_as_of_holds_what_lies_ahead(run_backfill: support.Backfill) -> None:
    ahead = int((dt.datetime.now(dt.UTC) + dt.timedelta(days=2)).timestamp() * 1e6)
    out = run_backfill([game(1, START, "a", "b"), game(2, ahead, "a", "b")]).ok()
    assert (out.bins()["rated"], out.bins()["held"]) == (1, 1)
