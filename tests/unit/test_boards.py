"""The archive of boards: copies that know what they are, one a published run, for good."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import support
from support import Backfill, game

from eloreplay import boards
from eloreplay.published import published_us

NOON = support.ts("2026-03-01 12:00:00")
SECOND = 1_000_000


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("journal")
    games = [game(f"g{i}", NOON + i * SECOND, f"p{i % 3}", "q") for i in range(9)]
    return Backfill(base)(games, "--as-of", "2026-04-01").ok().folder


@pytest.fixture
def site(published: Path, tmp_path: Path) -> Path:
    """A folder with a published run without an archive."""
    out = Path(shutil.copytree(published, tmp_path / "site", symlinks=True))
    shutil.rmtree(out / "boards", ignore_errors=True)
    return out


def about(out: Path, **more: Any) -> Path:
    """The published run with other words in its manifest."""
    path = out / "current" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | more), encoding="utf-8")
    return (out / "current").resolve()


def test_a_board_is_a_copy_that_knows_what_it_is(site: Path) -> None:
    run = about(site, made_at="2026-04-01T02:30:00.000001Z")
    path = boards.archive_board(site, run)
    assert path == site / "boards" / "000001.parquet"
    assert pq.read_table(path).equals(pq.read_table(run / "leaderboard.parquet"))
    assert pq.read_schema(path).remove_metadata() == pq.read_schema(run / "leaderboard.parquet").remove_metadata()
    assert boards.about_board(path) == {
        "run": "000001",
        "published_at": "2026-04-01T02:30:00.000001Z",
        "as_of": "2026-04-01T00:00:00Z",
        "rules": "tavla42",
    }
    content = path.read_bytes()
    assert boards.archive_board(site, run) == path
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["000001.parquet"]


def test_a_manifest_without_its_time_has_its_age(site: Path) -> None:
    path = site / "current" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest.pop("made_at", None)
    path.write_text(json.dumps(manifest), encoding="utf-8")
    seconds = path.stat().st_mtime_ns // 1000
    assert published_us((site / "current").resolve(), manifest) == seconds


def test_a_number_that_is_given_again_has_a_board_of_its_own(site: Path) -> None:
    first = boards.archive_board(site, about(site, made_at="2026-04-01T00:00:00Z"))
    second = boards.archive_board(site, about(site, made_at="2026-04-02T00:00:00Z"))
    third = boards.archive_board(site, about(site, made_at="2026-04-03T00:00:00Z"))
    assert [p and p.name for p in (first, second, third)] == ["000001.parquet", "000001-2.parquet", "000001-3.parquet"]
    assert boards.boards(site) == [first, second, third]
    found = boards.board_until(site, support.ts("2026-04-02 12:00:00"))
    assert found is not None
    assert found[0] == second


def test_the_board_that_stood_at_an_instant(site: Path) -> None:
    times = ["2026-04-01T02:30:00Z", "2026-04-02T02:30:00Z", "2026-04-04T02:30:00.000001Z"]
    for number, time in enumerate(times, 9):
        run = about(site, made_at=time, run=f"{number:06d}")
        named = run.rename(run.with_name(f"{number:06d}"))
        (site / "current").unlink()
        (site / "current").symlink_to(f"runs/{named.name}")
        assert boards.archive_board(site, named) == site / "boards" / f"{named.name}.parquet"
    (site / "boards" / "000099.parquet").write_bytes(b"damaged")
    (site / "boards" / "notes.txt").write_text("a stranger")
    assert [path.name for path in boards.boards(site)] == ["000009.parquet", "000010.parquet", "000011.parquet", "000099.parquet"]
    for instant, wanted in (
        ("2026-04-01 02:29:59.999999", None),
        ("2026-04-01 02:30:00", "000009"),
        ("2026-04-02 02:29:59", "000009"),
        ("2026-04-03 00:00:00", "000010"),
        ("2026-04-04 02:30:00", "000010"),
        ("2026-04-04 02:30:00.000001", "000011"),
        ("2030-01-01 00:00:00", "000011"),
    ):
        found = boards.board_until(site, support.ts(instant))
        assert (found and found[1]["run"]) == wanted, instant


def test_no_boards_at_all(tmp_path: Path) -> None:
    assert boards.boards(tmp_path) == []
    assert boards.board_until(tmp_path, NOON) is None


def test_boards_that_cannot_be_written_stop_nobody(site: Path) -> None:
    (site / "boards").write_text("a file")
    assert boards.archive_board(site, (site / "current").resolve()) is None
