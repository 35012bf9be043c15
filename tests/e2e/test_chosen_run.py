"""How a command line names one run: `DIR`, `DIR/current`, `DIR@N` and `DIR/runs/N`, in every command that reads one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import support
from support import Backfill, game
from support_nightly import command

NOON = support.ts("2026-03-01 12:00:00")
AS_OF = ("--as-of", "2026-06-01")


@pytest.fixture
def out(run_backfill: Backfill) -> Path:
    """Run 1 knows a game, run 2 another one as well; both are kept."""
    rows = [game(1, NOON, "a", "b"), game(2, NOON + 1, "a", "b")]
    folder = run_backfill(rows[:1], *AS_OF).ok().folder
    return run_backfill(rows, *AS_OF, out=folder).ok().folder


def test_every_command_that_reads_a_run_takes_every_name_of_it(out: Path, tmp_path: Path) -> None:
    live = support.write(tmp_path / "live.parquet", [{"player_id": "a", "rating": 1500.0}, {"player_id": "b", "rating": 1500.0}])
    names = {"": 2, "/current": 2, "@2": 2, "/runs/000002": 2, "@1": 1, "@000001": 1, "/runs/000001": 1}
    for name, number in names.items():
        run, folder = f"{out}{name}", f"{number:06d}"
        explained = json.loads(command(["explain", run, "1", "--json"], out).ok().stdout)
        assert (explained["run"], explained["past"]) == (folder, []), name
        player = json.loads(command(["player", run, "a", "--json"], out).ok().stdout)
        assert (player["run"], player["games"]) == (folder, number), name
        assert json.loads(command(["top", run, "--json"], out).ok().stdout)["run"] == folder, name
        assert json.loads(command(["top", run, "--min-games", "1", "--json"], out).ok().stdout)["rows"][0]["games"] == number, name
        tied = json.loads(command(["ties", run, "--json"], out).ok().stdout.splitlines()[-1])
        assert (tied["run"], tied["games"]) == (folder, number), name
        page = command(["report", run, "--to", tmp_path / "page.html"], out).ok().stdout
        assert page.startswith(f"Ratings, run {number}:"), name
        held = json.loads(command(["reconcile", run, live, "--json"], out).ok().stdout.splitlines()[-1])
        assert held["run"]["run"] == folder, name
        assert Path(held["folder"]) == out / "studies" / "reconcile", name
        same = json.loads(command(["diff", run, f"{out}@{number}", "--json"], out).ok().stdout.splitlines()[-1])
        assert same["games"]["differing"] == 0, name
        made = json.loads(command(["calibrate", run, "--json", "--min-games", "1"], out).ok().stdout.splitlines()[-1])
        assert (made["run"]["run"], Path(made["folder"])) == (folder, out / "studies" / "calibrate"), name


def test_a_run_that_is_not_kept_and_a_folder_of_somebody_else(out: Path, tmp_path: Path) -> None:
    for words in (["explain", "1"], ["player", "a"], ["top"], ["ties"], ["report"], ["reconcile", "live.parquet"]):
        for name in ("@7", "/runs/000007"):
            said = command([words[0], f"{out}{name}", *words[1:]], out)
            assert (said.code, "run 7 is not kept; kept are 000001, 000002" in said.stderr) == (2, True), said.stderr
        said = command([words[0], f"{tmp_path}@1", *words[1:]], out)
        assert (said.code, "no output folder" in said.stderr) == (2, True), said.stderr
    said = command(["top", f"{out}@1", "--published-on", "2026-10-01"], out)
    assert (said.code, "goes with the folder itself" in said.stderr) == (2, True)


def test_a_run_that_was_copied_away_is_a_folder_of_its_own(out: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "000001"
    shutil.copytree(out / "runs" / "000001", copy)
    assert json.loads(command(["player", copy, "a", "--json"], out).ok().stdout)["games"] == 1
