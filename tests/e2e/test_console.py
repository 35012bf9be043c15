"""What a person sees, wherever it goes: what is shown after the switch cannot turn a published run into a failed one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import support
from support import game, ts

START = ts("2026-01-05 00:00:00")
GAMES = [game(i, START + i, "a", "b") for i in range(3)]


def shell(command: str, argv: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs `eloreplay ARGV` in a shell with a redirection behind it; "$@" is the command."""
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {command}', "bash", sys.executable, "-W", "error", "-m", "eloreplay", *argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | env,
    )


EVERYWHERE: list[tuple[str, dict[str, str]]] = [
    (">&-", {}),
    ("2>&-", {}),
    (">&- 2>&-", {}),
    ("| cat", {"PYTHONIOENCODING": "ascii"}),
    ("| cat", {"LC_ALL": "C"}),
]
#: A machine that asks for lines and does not read them is told so while the run is still at work; a page comes after the switch.
PAGE_ONLY: list[tuple[str, dict[str, str]]] = [("> /dev/full", {}), ("| true", {}), ("| head -n 1", {})]


@pytest.mark.parametrize(
    ("command", "env", "mode"),
    [(*where, []) for where in EVERYWHERE + PAGE_ONLY] + [(*where, ["--json"]) for where in EVERYWHERE],
)
def test_wherever_the_page_goes_a_published_run_is_a_success(
    run_backfill: support.Backfill, command: str, env: dict[str, str], mode: list[str]
) -> None:
    argv, out = run_backfill.arguments(GAMES)
    argv.remove("--quiet")
    done = shell(command, [*argv, *mode], run_backfill.base, **env)
    assert done.returncode == 0, done.stderr
    assert "unexpected" not in done.stderr
    assert "as it was" not in done.stderr
    assert os.readlink(out / "current") == "runs/000001"


def test_a_game_before_the_year_1_does_not_spoil_the_page(run_backfill: support.Backfill, tmp_path: Path) -> None:
    argv, out = run_backfill.arguments([game(1, -62135596800000001, "a", "b"), game(2, -(10**18) * 5, "a", "b")])
    argv.remove("--quiet")
    done = shell("", argv, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Leaderboard" in done.stdout
    assert (out / "current").is_symlink()


def test_brackets_in_the_output_folder_show_its_own_board_and_no_neighbours(run_backfill: support.Backfill, tmp_path: Path) -> None:
    neighbour, own = tmp_path / "o1", tmp_path / "o[1]"
    for folder, winner in ((neighbour, "neighbour"), (own, "mine")):
        argv, _ = run_backfill.arguments([game(1, START, winner, "b")], out=folder)
        argv.remove("--quiet")
        done = shell("", argv, tmp_path)
        assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout
    assert "neighbour" not in done.stdout


def test_a_tilde_that_no_shell_wrote_out_is_refused(run_backfill: support.Backfill, tmp_path: Path) -> None:
    for name in ("~", "~/ratings"):
        argv, _ = run_backfill.arguments(GAMES, out=Path(name))
        done = shell("", argv, tmp_path, HOME=str(tmp_path / "home"))
        assert done.returncode == 2
        assert "did not write out the ~" in done.stderr
    assert not (tmp_path / "~").exists()


def test_an_empty_result_after_a_full_one_is_said_aloud(run_backfill: support.Backfill, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    run_backfill(GAMES, out=folder).ok()
    argv, _ = run_backfill.arguments(GAMES, "--as-of", "1999-01-01", out=folder)
    argv.remove("--quiet")
    done = shell("", argv, tmp_path)
    assert done.returncode == 0
    assert "rates no game (3 are held" in done.stderr
    assert "rated 3: its leaderboard will be empty" in done.stderr


@pytest.mark.parametrize("kind", ["link", "file"])
def test_something_else_where_the_work_folder_goes_is_put_aside(run_backfill: support.Backfill, tmp_path: Path, kind: str) -> None:
    folder, elsewhere = tmp_path / "kept", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("still here")
    run_backfill(GAMES, out=folder).ok()
    work = folder / "work"
    work.symlink_to(elsewhere) if kind == "link" else work.write_text("")
    run_backfill(GAMES, out=folder).ok()
    assert (elsewhere / "precious").read_text() == "still here"
    assert not work.exists()
