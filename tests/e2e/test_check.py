"""`eloreplay check` through the command line: every finding on a table where it is known, and nothing left behind."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
import support
from support import game

ROOT = Path(__file__).parents[2]
MINUTE = 60_000_000
DAY = 86_400_000_000
START = support.ts("2026-03-01 12:00:00")


@dataclass
class Said:
    code: int
    stdout: str
    stderr: str

    @property
    def found(self) -> dict[str, Any]:
        assert self.code == 0, self.stderr
        return json.loads(self.stdout.splitlines()[-1])

    def looks(self) -> set[str]:
        return {section["finding"] for section in self.found["findings"] if section["level"] == "look"}


Check = Callable[..., Said]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Runs the command on rows or paths; afterwards its own temporary folder must be empty."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    def run(games: Any, *options: str, types: dict[str, Any] | None = None) -> Said:
        from eloreplay.cli import main

        if isinstance(games, list):
            games = support.write(tmp_path / "games.parquet", games, types)
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            code = main(["check", str(games), "--threads", "1", *options])
        assert list(scratch.iterdir()) == []
        return Said(code, stdout.getvalue(), stderr.getvalue())

    return run


def ordinary(count: int = 40) -> list[dict[str, Any]]:
    """Games without any finding: ten players, one game every seven minutes, every cube value in turn."""
    return [
        game(n, START + n * 7 * MINUTE + 1, f"p{n % 10}", f"p{(n + 1 + n // 10 % 9) % 10}", mode="ranked", cube=2 ** (n % 7))
        for n in range(count)
    ]


def test_nothing_stands_out(check: Check) -> None:
    said = check(ordinary())
    assert "Nothing stands out." in said.stdout
    assert "A backfill would go through" in said.stdout
    assert check(ordinary(), "--json").looks() == set()


def test_sample_as_text_and_json(check: Check) -> None:
    sample = (ROOT / "data" / "games", "--columns", str(ROOT / "data" / "columns.toml"))
    text = check(*sample).stdout
    assert "201,363 rows in 6 files" in text
    assert "RESULTS SENT TWICE" in text
    assert max(map(len, text.splitlines())) <= 120
    found = check(*sample, "--json").found
    assert found["done"] is True
    assert found["rows_read"] == 201_363
    bins = found["bins"]
    assert sum(count for name, count in bins.items() if name != "rejected") + sum(bins["rejected"].values()) == 201_363
    assert bins["rejected"]["bad_cube"] == 200
    assert found["copies"] == {"repeated_ids": 1363, "duplicate_rows": 1363, "conflicting_rows": 0, "conflicting_ids": 0}
    assert [month["month"] for month in found["months"]] == [f"2026-{m:02}" for m in range(3, 9)]
    assert sum(month["games"] for month in found["months"]) == found["span"]["games"]
    assert found["absent_columns"] == ["match_length", "is_draw", "advantage", "weight"]


def test_the_same_bins_as_a_backfill(check: Check, run_backfill: support.Backfill) -> None:
    rows = [
        *ordinary(),
        game(100, START, "x", "x"),
        game(None, START, "x", "y"),
        game(101, START, "x", "y", mode="odd"),
        ordinary()[3],
    ]
    found = check(rows, "--json", "--max-rejected", "50%").found
    assert found["bins"] == run_backfill(rows, "--max-rejected", "50%").ok().bins()


def test_too_many_refused_is_reported_and_no_error(check: Check) -> None:
    rows = [*ordinary(), game(100, START, "x", "y", mode="odd")]
    said = check(rows)
    assert said.code == 0
    assert "A backfill would stop: 2.44% of the rows are refused, and --max-rejected allows 1.00%" in " ".join(said.stdout.split())
    found = check(rows, "--json").found
    assert found["backfill_would_stop"] is True
    assert {"bins", "values"} == check(rows, "--json").looks()
    assert check(rows, "--json", "--max-rejected", "3%").found["backfill_would_stop"] is False


def test_double_submit(check: Check) -> None:
    twice = game(900, ordinary()[5]["played_at"] + 80_000_000, "p5", ordinary()[5]["loser_id"], mode="ranked", cube=1)
    said = check([*ordinary(), twice], "--json")
    assert "double_submits" in said.looks()
    doubles = said.found["double_submits"]
    assert (doubles["total"], doubles["total_rated"], doubles["pairs"]) == (1, 1, 1)
    (shown,) = doubles["shown"]
    assert (shown["earlier_game_id"], shown["game_id"], shown["apart_s"]) == (5, 900, 80.0)
    assert "900, 80.0 s after 5: p5 beat" in check([*ordinary(), twice]).stdout


def test_ties_and_dates(check: Check) -> None:
    rows = [game(n, START + (n // 2) * MINUTE, "a", f"b{n}", mode="ranked") for n in range(10)]
    said = check(rows, "--json")
    assert "ties" in said.looks()
    assert (said.found["ties"]["tied_instants"], said.found["ties"]["tied_games"]) == (5, 10)
    assert said.found["ties"]["tied_player_instants"] == 5
    midnight = START - START % DAY
    dates = [game(n, midnight + n * DAY, "a", f"b{n}") for n in range(10)]
    assert "Most stamps are dates, not instants" in " ".join(check(dates).stdout.split())


def test_scores_instead_of_a_winner_as_the_tutorial_shows(check: Check, run_backfill: support.Backfill, tmp_path: Path) -> None:
    """The columns file of the tutorial: wins of both sides, a draw that counts half, a game without a score refused."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(\[columns\]\n.*?home_score.*?)```", page, re.DOTALL)
    columns = tmp_path / "columns.toml"
    columns.write_text(toml, encoding="utf-8")
    played = [("a", "b", 2, 1), ("a", "c", 0, 3), ("b", "d", 1, 1), ("c", "d", None, 2)]
    start = dt.datetime(2026, 3, 1)
    rows = [
        {"id": at, "finished": start + dt.timedelta(hours=at), "home": home, "away": away, "home_score": x, "away_score": y}
        for at, (home, away, x, y) in enumerate(played)
    ]
    files = tmp_path / "league"
    files.mkdir()
    pl.DataFrame(rows).write_parquet(files / "games.parquet")
    limit = ("--columns", str(columns), "--max-rejected", "50%")
    options = ("--rules", "chess", *limit)
    found = check(files, "--json", *options).found
    assert found["score_columns"] == []
    assert (found["bins"]["rated"], found["bins"]["rejected"]["missing_id"]) == (3, 1)
    out = run_backfill(files, *limit, rules="chess").ok()
    players = {row["player_id"]: row for row in pl.read_parquet(out.current / "players.parquet").to_dicts()}
    assert {name: (row["wins"], row["losses"]) for name, row in players.items()} == {
        "a": (1, 1),
        "b": (0, 1),
        "c": (1, 0),
        "d": (0, 0),
    }
    assert players["d"]["games"] == 1
    columns.write_text(re.sub("is_draw.*", "", toml), encoding="utf-8")
    lost = check(files, *options)
    assert "Draws may be lost: no is_draw is mapped, and away_score, home_score look like scores" in " ".join(lost.stdout.split())
    assert "values" in check(files, "--json", *options).looks()
    assert "Draws may be lost" not in check(ordinary()).stdout


def test_gap_and_missing_month(check: Check) -> None:
    rows = [game(n, START + n * DAY // 2, "a", f"b{n % 7}") for n in range(2 * 120) if not 62 <= n < 118]
    said = check(rows, "--json")
    assert {"gaps", "months"} <= said.looks()
    gaps = said.found["gaps"]
    assert gaps["long_gaps"] == 1
    assert gaps["shown"][0]["gap_s"] == 57 * 43_200.0
    assert gaps["shown"][0]["from"] == "2026-04-01T00:00:00Z"
    assert "Here: 2026-04." in check(rows).stdout


def test_seen_once_and_lookalikes(check: Check) -> None:
    said = check([game(n, START + n * MINUTE, f"once{n}", "Ann") for n in range(20)], "--json")
    assert "players" in said.looks()
    assert (said.found["players"]["players"], said.found["players"]["seen_once"]) == (21, 20)
    alike = check([*ordinary(), game(90, START, "Ann", "ann "), game(91, START + 1, "Ann", "ann ")], "--json")
    assert alike.found["lookalikes"]["shown"] == [{"pool": "", "ids": ["Ann", "ann "], "id_count": 2}]


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u00a0\u200b"])
def test_blank_ids_are_a_finding(check: Check, blank: str) -> None:
    rows = [*ordinary(), game(90, START, "p1", blank), game(91, START + 1, blank, "p2")]
    said = check(rows, "--json")
    assert "players" in said.looks()
    assert (said.found["players"]["blank_ids"], said.found["players"]["blank_games"]) == (1, 2)
    assert "1 player id is empty or blank text" in check(rows).stdout
    assert "empty or blank" not in check(ordinary()).stdout


def test_lookalikes_that_print_the_same_show_their_code_points(check: Check) -> None:
    said = check([*ordinary(), game(90, START, "Ren\u00e9", "Rene\u0301"), game(91, START + 1, "Ann", "ann")]).stdout
    assert "‹Ren\u00e9› (U+00E9)" in said
    assert "‹Rene\u0301› (U+0301)" in said
    assert "‹Ann›  ‹ann›" in said


def test_sudden_volume(check: Check) -> None:
    usual = [game(n, START + n * DAY, "a", f"b{n % 5}") for n in range(10)]
    burst = [game(100 + n, START + 20 * DAY + n * MINUTE, "a", f"b{n % 5}") for n in range(60)]
    said = check([*usual, *burst], "--json")
    assert "sudden_days" in said.looks()
    sudden = said.found["sudden_days"]
    assert (sudden["total"], sudden["players"]) == (1, 1)
    assert sudden["shown"] == [
        {"pool": "", "player_id": "a", "day": "2026-03-21T00:00:00Z", "games": 60, "days": 11, "median_games": 1.0}
    ]
    assert said.found["largest_days"][0]["player_id"] == "a"


def test_conflicting_copies(check: Check) -> None:
    rows = [*ordinary(), {**ordinary()[4], "winner_id": "p9"}]
    said = check(rows, "--json", "--max-rejected", "10%")
    assert "copies" in said.looks()
    assert said.found["copies"] == {"repeated_ids": 1, "duplicate_rows": 0, "conflicting_rows": 2, "conflicting_ids": 1}


def test_held_rows_point_to_the_last(check: Check) -> None:
    said = check([*ordinary(), game(99, "2099-01-01 00:00:00", "p1", "p2", mode="ranked", cube=1)], "--as-of", "2026-12-01")
    assert "the last is of 2099-01-01T00:00:00Z" in " ".join(said.stdout.split())
    assert "last 2026-03-01" in said.stdout


def test_aliases_exclusions_rules_and_pools(check: Check, tmp_path: Path) -> None:
    aliases = support.write(tmp_path / "aliases.parquet", [{"alias_id": "p1", "player_id": "p0"}])
    excluded = support.write(tmp_path / "excluded.parquet", [{"player_id": "p9"}])
    rows = [{**row, "ladder": "x"} for row in ordinary()]
    found = check(rows, "--json", "--aliases", str(aliases), "--exclude-players", str(excluded), "--pool", "ladder").found
    assert found["bins"]["rejected"]["self_play"] > 0
    assert found["bins"]["unrated"] > 0
    assert {row["pool"] for row in found["largest_days"]} == {"x"}
    since = ("--since", "1.0.5=2026-03-01", "--since", "1.2.0=2026-03-02", "--since", "1.3.1=2026-03-03")
    assert check(rows, "--json", "--rules", "tavla42-history", *since).found["rules"] == "tavla42-history"


def test_no_rows(check: Check, tmp_path: Path) -> None:
    empty = tmp_path / "empty.parquet"
    pq.write_table(support.table(ordinary(1)).slice(0, 0), empty)
    said = check(empty)
    assert said.code == 0
    assert "0 rows in 1 file" in said.stdout
    assert check(empty, "--json").found["span"]["games"] == 0


HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "‮evil",
    "line\nbreak",
    "\x9b31m",
    "a\tb",
    "x" * 5000,
    "‹quoted›",
    "'; drop table games; --",
]


def test_hostile_names_are_harmless_on_a_terminal(check: Check) -> None:
    rows = [game(f"{name}{k}", START + n * DAY + k, name, name + " ", mode=name) for n, name in enumerate(HOSTILE) for k in (0, 1)]
    types = {"mode": None}
    said = check(rows, types=types)
    assert said.code == 0
    bad = [char for char in said.stdout + said.stderr if not char.isprintable() and char != "\n"]
    assert bad == []
    assert "\\x1b]0;owned" in said.stdout
    assert max(map(len, said.stdout.splitlines())) <= 160
    found = check(rows, "--json", types=types).found
    assert {row["cell"] for row in found["values"] if row["field"] == "mode"} == set(HOSTILE)


def test_hostile_column_and_file_names_are_harmless(check: Check, tmp_path: Path) -> None:
    said = check([{"game\x1b[2J_id": 1, "game_id": "a"}])
    assert said.code == 3
    assert "\x1b" not in said.stderr
    assert "\\x1b[2J" in said.stderr
    path = support.write(tmp_path / "o\x1b[2Jdd.parquet", [{**row, "Voided": 1} for row in ordinary(3)])
    said = check(path)
    assert "note: " in said.stderr
    assert "\x1b" not in said.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["nowhere"], 3), (["--rules", "chess"], 2), (["nowhere", "--json", "--quiet"], 2), (["nowhere", "--rules", "nope"], 2)],
)
def test_faults_have_the_exit_codes_of_a_backfill(arguments: list[str], code: int) -> None:
    from eloreplay.cli import main

    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert main(["check", *arguments]) == code
    assert "Traceback" not in said.getvalue()


def test_a_damaged_file_leaves_nothing_behind(check: Check, tmp_path: Path) -> None:
    whole = support.write(tmp_path / "whole.parquet", ordinary()).read_bytes()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole[:-20])
    assert check(cut).code == 3
    middle = tmp_path / "middle.parquet"
    middle.write_bytes(whole[:40] + bytes(200) + whole[240:])
    assert check(middle).code in (0, 3)


def test_quiet_says_nothing(check: Check) -> None:
    said = check(ordinary(), "--quiet")
    assert (said.code, said.stdout, said.stderr) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_removes_its_folder(tmp_path: Path, number: signal.Signals) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    arguments = ["check", str(ROOT / "data" / "games"), "--columns", str(ROOT / "data" / "columns.toml"), "--threads", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "eloreplay", *arguments],
        env=os.environ | {"TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not list(scratch.glob("*/check.duckdb")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr
    assert list(scratch.iterdir()) == []


def test_an_interrupt_that_duckdb_has_swallowed_is_one(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB turns a Ctrl-C during a query into an error of its own."""
    for error in (RuntimeError("Query interrupted"), duckdb.InterruptException("INTERRUPT Error: Interrupted!")):

        def interrupted(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("eloreplay.check.open_door", interrupted)
        said = check(ordinary())
        assert (said.code, said.stderr.count("interrupted; ")) == (130, 1)


def test_no_room_and_no_folder(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("eloreplay.check.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
        said = check(ordinary())
        assert said.code == 1
        assert "set TMPDIR to a folder with more room" in said.stderr

    def refuse(prefix: str) -> str:
        raise PermissionError(13, "Permission denied", prefix)

    monkeypatch.setattr("eloreplay.check.tempfile.mkdtemp", refuse)
    said = check(ordinary())
    assert said.code == 1
    assert "Permission denied; set TMPDIR to one that can be written" in said.stderr


def test_the_share_is_judged_as_a_backfill_judges_it(check: Check) -> None:
    """29 of 100 is exactly 29 %, though 0.29 * 100 is a little less than 29."""
    rows = [game(n, START + n * MINUTE, "a", "b", mode="ranked" if n >= 29 else "odd") for n in range(100)]
    assert check(rows, "--json", "--max-rejected", "29%").found["backfill_would_stop"] is False
    assert check(rows, "--json", "--max-rejected", "28%").found["backfill_would_stop"] is True
