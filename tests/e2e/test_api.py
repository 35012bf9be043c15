"""The Python API: what is in memory is rated as the command rates files, its folders go, and a user's types hold."""

from __future__ import annotations

import doctest
import gc
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import polars as pl
import pytest
from support import Backfill, game
from support_nightly import differences, tables

import eloreplay
from eloreplay.cli import main
from eloreplay.errors import InputRefused, UsageFault

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "data" / "games").glob("*.parquet"))[:1]
COLUMNS = {
    "game_id": "id",
    "played_at": "ended_at",
    "winner_id": "winner",
    "loser_id": "loser",
    "mode": "game_type",
    "cube": "cube_value",
    "result": "outcome",
    "voided": "status = 'cancelled'",
    "revision": "rev",
}
AS_OF = "2026-09-01"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made during a test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_frame_a_relation_and_an_arrow_table_are_rated_like_the_files(tmp_path: Path, scratch: Path) -> None:
    command = ["backfill", *map(str, FILES), "--columns", str(ROOT / "data" / "columns.toml"), "--rules", "tavla42"]
    assert main([*command, "--as-of", AS_OF, "--out", str(tmp_path / "cli"), "--no-study", "--quiet"]) == 0
    games = pl.concat([pl.read_parquet(path) for path in FILES])
    connection = duckdb.connect()
    connection.execute("set timezone = 'Asia/Tokyo'")
    forms = {
        "frame": games,
        "lazy": games.lazy(),
        "relation": connection.sql(f"select * from read_parquet({[str(path) for path in FILES]})"),
        "arrow": games.to_arrow(),
        "paths": FILES,
    }
    wanted = tables(tmp_path / "cli" / "current")
    for form, given in forms.items():
        with eloreplay.replay(given, rules="tavla42", columns=COLUMNS, as_of=AS_OF, threads=1) as rated:
            found = tables(rated.folder)
            for name, table in wanted.items():
                assert found[name].equals(table), f"{form}: {name}"
            if form == "frame":
                assert rated.timeline.equals(wanted["timeline"])
                assert rated.players.equals(wanted["players"])
                assert rated.leaderboard.equals(wanted["leaderboard"])
                assert set(rated.rejected["file"]) == {"games"}
                assert rated.bins["rows"].sum() == games.height == rated.manifest["rows_read"]
                steps = rated.player_timeline
                assert steps.height == 2 * wanted["timeline"].height
                following = (pl.col("rating_before") + pl.col("change")).shift(1).over("player_id")
                assert steps.filter(following.is_not_null() & (following != pl.col("rating_before"))).is_empty()
                rated.save(tmp_path / "saved")
    connection.close()
    assert list(scratch.iterdir()) == []
    assert differences(tmp_path / "saved", tmp_path / "cli", views=True) == []
    again = eloreplay.open_run(tmp_path / "saved")
    assert again.players.equals(wanted["players"])
    assert eloreplay.open_run(f"{tmp_path / 'saved'}@1").folder == again.folder
    with pytest.raises(UsageFault, match="holds published runs"):
        again.save(tmp_path / "cli")
    studied = eloreplay.calibrate(again, by=["month"], threads=1)
    bare = eloreplay.calibrate(again.timeline, rules="tavla42", by=["month"], threads=1)
    assert studied.curve.equals(bare.curve)
    assert studied.scores.equals(bare.scores)
    assert studied.curve.filter(slice="all", axis="gap")["games"].sum() > 0


def test_what_is_in_memory_is_called_by_its_name(run_backfill: Backfill, scratch: Path) -> None:
    rows = [game(1, "2026-10-01 12:00:00", "a", "b"), game(2, "2026-10-01 13:00:00", "b", "a")]
    games = pl.DataFrame(rows).with_columns(pl.from_epoch("played_at", "us").dt.replace_time_zone("UTC"))
    with pytest.raises(InputRefused, match=r"^games: column 'winner_id' is missing"):
        eloreplay.replay(games.drop("winner_id"))
    with pytest.raises(InputRefused, match=r"^awards: column 'points' is missing"):
        eloreplay.replay(games, awards=pl.DataFrame({"award_id": [1], "awarded_at": games["played_at"][:1], "player_id": ["a"]}))
    with pytest.raises(InputRefused, match=r"^games: column 'played_at' has stamps without a zone"):
        eloreplay.replay(games.with_columns(pl.col("played_at").dt.replace_time_zone(None)))
    with pytest.raises(UsageFault, match="unknown column 'winer'"):
        eloreplay.replay(games, columns={"winer": "w"})
    with pytest.raises(UsageFault, match="int is no table"):
        eloreplay.replay(7)  # type: ignore[arg-type]
    with pytest.raises(UsageFault, match="not an instant"):
        eloreplay.replay(games, as_of="soon")
    assert list(scratch.iterdir()) == []
    excluded = pl.DataFrame({"player_id": ["b"]})
    rated = eloreplay.replay(games, excluded=excluded, study=True)
    assert rated.players.is_empty()
    assert rated.bins.filter(bin="unrated")["rows"].to_list() == [2]
    with pytest.raises(UsageFault, match="no such table; there are timeline, awards"):
        rated.scan("nothing")
    assert list(scratch.iterdir()) != []
    del rated
    gc.collect()
    assert list(scratch.iterdir()) == []


def test_the_names_are_functions_whatever_was_imported() -> None:
    for name in ("replay", "calibrate"):
        module = importlib.import_module(f"eloreplay.{name}")
        assert module is not getattr(eloreplay, name)
        assert callable(getattr(eloreplay, name))
    assert set(eloreplay.__all__) <= set(dir(eloreplay))
    found = doctest.testmod(importlib.import_module("eloreplay.api"))
    assert (found.failed, found.attempted > 0) == (0, True)


def test_importing_is_light() -> None:
    code = "import sys, eloreplay; print([m for m in ('duckdb', 'numba', 'polars', 'pyarrow', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_a_users_types_hold(tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(
        "import duckdb\nimport polars as pl\nimport eloreplay\n\n"
        "rated: eloreplay.Replay = eloreplay.replay(pl.DataFrame(), rules='tavla42', as_of='2026-10-01')\n"
        "board: pl.DataFrame = rated.leaderboard\n"
        "also = eloreplay.replay(duckdb.connect().table('games'))\n"
        "curve: pl.DataFrame = eloreplay.calibrate(rated, by=['month']).curve\n"
        "wrong: int = eloreplay.open_run('x')\n"
        "eloreplay.replay(3.5)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "--config-file", "", str(user)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[1] for line in errors] == ["9", "10"], done.stdout
