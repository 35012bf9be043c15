"""A table of a published run that is damaged is named, with what to do: by every command that reads a run, and by `status`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Backfill, game, write
from support_nightly import command

GAMES = [game(n, f"2026-03-0{n} 12:00:00", "ab"[n % 2], "cd"[n % 3 % 2]) for n in range(1, 8)]
ASKING = (
    ("explain", "OUT", "3"),
    ("player", "OUT", "a"),
    ("top", "OUT", "--min-games", "2"),
    ("top", "OUT", "--at", "2026-03-04"),
    ("top", "OUT", "--heavy"),
    ("ties", "OUT"),
    ("diff", "OUT", "WHOLE"),
    ("diff", "WHOLE", "OUT"),
    ("reconcile", "OUT", "LIVE"),
)


def without(path: Path, *columns: str) -> None:
    table = pq.read_table(path).drop_columns(list(columns))
    path.unlink()
    pq.write_table(table, path)


@pytest.fixture
def out(run_backfill: Backfill) -> Path:
    return run_backfill(GAMES).ok().folder


@pytest.mark.parametrize(
    ("name", "columns", "words"),
    [
        ("players.parquet", ("rating",), "players.parquet is not what a run writes (column 'rating' is missing)"),
        ("players.parquet", ("wins", "losses"), "(columns 'wins', 'losses' are missing)"),
        ("leaderboard.parquet", ("rank",), "leaderboard.parquet is not what a run writes (column 'rank' is missing)"),
        ("awards.parquet", ("change",), "awards.parquet is not what a run writes (column 'change' is missing)"),
        ("timeline", ("winner_change",), ".parquet is not what a run writes (column 'winner_change' is missing)"),
        ("fold/players.parquet", ("player_id",), "fold/players.parquet is not what a run writes (column 'player_id' is missing)"),
        ("fold/aliases.parquet", ("alias_id",), "fold/aliases.parquet is not what a run writes (column 'alias_id' is missing)"),
    ],
)
def test_a_table_that_has_lost_columns_is_named(
    name: str, columns: tuple[str, ...], words: str, out: Path, run_backfill: Backfill, tmp_path: Path
) -> None:
    whole = run_backfill(GAMES).ok().folder
    live = tmp_path / "live.parquet"
    pq.write_table(pa.table({"player_id": ["a", "b"], "rating": [1500, 1501]}), live)
    places = {"OUT": out, "WHOLE": whole, "LIVE": live}
    for asked in ASKING:
        command([places.get(word, word) for word in asked], out).ok()
    path = out / "current" / name
    without(path if path.suffix else sorted(path.iterdir())[-1], *columns)
    for asked in ASKING:
        said = command([places.get(word, word) for word in asked], out)
        assert (said.code, said.stdout) == (1, ""), asked
        assert f"{words}: run eloreplay backfill or rollback" in said.stderr, asked
        assert "please report it" not in said.stderr
        assert "Error" not in said.stderr
    said = command(["status", out], out)
    assert said.code == 1
    assert f"  damaged      {out.resolve()}" in said.stdout
    assert words in said.stdout
    assert words in said.stderr
    said = command(["status", out, "--json"], out)
    assert said.code == 1
    assert [words in text for text in json.loads(said.stdout)["damaged"]] == [True]
    assert json.loads(command(["status", whole, "--json"], out).ok().stdout)["damaged"] == []


@pytest.mark.parametrize("name", ["players", "leaderboard", "summary", "calibration"])
def test_the_page_names_a_table_that_has_lost_columns(name: str, out: Path) -> None:
    path = out / "current" / f"{name}.parquet"
    before = (out / "current" / "report.html").read_bytes()
    without(path, "games")
    said = command(["report", out], out)
    assert (said.code, said.stdout) == (1, "")
    assert f"{name}.parquet is not what a run writes (column 'games' is missing): run eloreplay backfill or rollback" in said.stderr
    path.write_bytes(b"PAR1")
    said = command(["report", out], out)
    assert said.code == 1
    assert f"{name}.parquet is not what a run writes (it cannot be read: " in said.stderr
    path.unlink()
    said = command(["report", out], out)
    assert said.code == 1
    assert f"{name}.parquet is gone: run eloreplay backfill or rollback" in said.stderr
    assert (out / "current" / "report.html").read_bytes() == before


def test_the_published_board_names_what_it_has_lost(out: Path) -> None:
    without(out / "current" / "leaderboard.parquet", "rating")
    said = command(["top", out], out)
    assert (said.code, said.stdout) == (1, "")
    assert "leaderboard.parquet is not what a run writes (column 'rating' is missing)" in said.stderr


def test_status_counts_what_is_gone(out: Path) -> None:
    run = out / "current"
    for path in (run / "timeline").iterdir():
        path.unlink()
    (run / "awards.parquet").unlink()
    said = command(["status", out], out)
    assert said.code == 1
    assert "awards.parquet is gone: run eloreplay backfill or rollback (and 1 more such files)" in said.stderr
    assert f"{run.resolve() / 'timeline'} is gone" in said.stdout


def test_every_kind_of_run_is_what_a_run_writes(run_backfill: Backfill, tmp_path: Path) -> None:
    write(tmp_path / "games" / "a.parquet", GAMES[:4])
    out = run_backfill(tmp_path / "games", "--as-of", "2026-12-31").ok().folder
    write(tmp_path / "games" / "b.parquet", GAMES[4:])
    for step in (
        ["nightly", tmp_path / "games", "--out", out, "--as-of", "2027-01-31", "--accept-changes", "--quiet"],
        ["forget", out, "c", "--quiet"],
        ["rollback", out, "2", "--quiet"],
    ):
        command(step, out).ok()
        assert json.loads(command(["status", out, "--json"], out).ok().stdout)["damaged"] == []
        command(["report", out, "--quiet"], out).ok()
    empty = run_backfill([game(1, "2026-03-01", "a", "a")], "--max-rejected", "100%").ok().folder
    assert json.loads(command(["status", empty, "--json"], out).ok().stdout)["damaged"] == []
    ladders = run_backfill([{**row, "ladder": "x"} for row in GAMES], "--pool", "ladder").ok().folder
    assert json.loads(command(["status", ladders, "--json"], out).ok().stdout)["damaged"] == []
    command(["report", ladders, "--quiet"], out).ok()
