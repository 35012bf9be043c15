"""`verify`, `status`, `runs` and `top` as a user meets them: what they say, their exit codes, and that they leave everything as it was."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
from support import Backfill, Row, game
from support_killed import wait_for
from warm import Run, Warm

from eloreplay import journal, lookback, store
from eloreplay.cli import main

NOON = support.ts("2026-03-01 12:00:00")
MINUTE, DAY = 60_000_000, 86_400_000_000
AS_OF = ("--as-of", "2026-06-01")


@dataclass
class Said:
    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        return json.loads(self.stdout)

    def last(self) -> Any:
        return json.loads(self.stdout.splitlines()[-1])


def call(*arguments: object) -> Said:
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main([str(argument) for argument in arguments])
    assert "Traceback" not in stderr.getvalue()
    assert "unexpected" not in stderr.getvalue()
    return Said(code, stdout.getvalue(), stderr.getvalue())


def rows(n: int = 40, first: int = 0) -> list[Row]:
    return [game(first + i, NOON + (first + i) * DAY, f"p{i % 7}", f"q{i % 5}") for i in range(n)]


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file below, with its digest and the time of its last change; links by where they lead."""
    return {
        str(path.relative_to(folder)): (os.readlink(path), 0)
        if path.is_symlink()
        else (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() or path.is_symlink()
    }


@dataclass
class Site:
    base: Path
    games: Path
    out: Path

    def verify(self, *more: object, games: object = None) -> Said:
        return call("verify", self.games if games is None else games, "--out", self.out, "--quiet", *more)

    def backfill(self, *more: object, games: object = None) -> Said:
        where = self.games if games is None else games
        return call("backfill", where, "--rules", "tavla42", "--out", self.out, *AS_OF, "--quiet", "--no-study", *more)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("site")
    support.write(base / "games" / "a.parquet", [*rows(), game(900, NOON, "p1", "p1")])
    support.write(base / "games" / "b.parquet", rows(20, 40))
    Backfill(base)(base / "games", *AS_OF, "--max-rejected", "1", "--chunk", "week", out=base / "out").ok()
    return base


@pytest.fixture
def site(template: Path, tmp_path: Path) -> Site:
    shutil.copytree(template / "games", tmp_path / "games")
    shutil.copytree(template / "out", tmp_path / "out", symlinks=True)
    return Site(tmp_path, tmp_path / "games", tmp_path / "out")


def spoil(path: Path, column: str, row: int, value: Any) -> None:
    table = pq.read_table(path)
    values = table[column].to_pylist()
    values[row] = value
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, table.schema.field(column), pa.array(values, table.schema.field(column).type)), path)


# ---------------------------------------------------------------- verify


def test_verify_says_equal_and_touches_nothing(site: Site) -> None:
    before = contents(site.out / "runs")
    said = call("verify", site.games, "--out", site.out)
    assert (said.code, said.stderr) == (0, "")
    assert said.stdout.startswith("equal: run 000001, computed again from zero: 60 games, 12 players, 1 refused row, 61 rows read")
    assert contents(site.out / "runs") == before
    assert not (site.out / "work").exists()
    assert os.readlink(site.out / "current") == "runs/000001"
    assert (site.out / "lock").read_bytes() == b""
    line = journal.entries(site.out)[-1]
    assert (line["command"], line["outcome"], line["exit_code"], line["run"]) == ("verify", "equal", 0, "000001")


def test_verify_as_json(site: Site) -> None:
    said = call("verify", site.games, "--out", site.out, "--json")
    assert said.code == 0
    found = said.last()
    assert found["done"] is True
    assert found["equal"] is True
    assert found["difference"] is None
    assert found["inputs_changed"] == []
    assert found["bins"]["rated"] == 60
    assert {"step": "comparing", "done": 0, "total": 0}.items() <= json.loads(said.stdout.splitlines()[-2]).items()


SPOILED: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "a rating": (
        lambda run: spoil(run / "players.parquet", "rating", 2, 9999),
        ["run 000001 differs: players, row 2 (player_id 'p2'): rating is 9999 in the published run and", "in the recomputed one"],
    ),
    "a game": (
        lambda run: spoil(sorted((run / "timeline").iterdir())[1], "winner_change", 3, 99),
        ["timeline, row 4 (game_id 4): winner_change is 99 in the published run"],
    ),
    "a timeline file": (lambda run: sorted((run / "timeline").iterdir())[-1].unlink(), ["timeline, row "]),
    "a damaged file": (lambda run: (run / "summary.parquet").write_bytes(b"PAR1"), ["summary", "cannot be read"]),
    "a table": (lambda run: (run / "calibration.parquet").unlink(), ["calibration: the table is missing in the published run"]),
    "a refused row": (
        lambda run: spoil(run / "rejected.parquet", "winner_id", 0, "a stranger"),
        ["rejected", "this row 1 times more", "a stranger"],
    ),
}


@pytest.mark.parametrize("name", sorted(SPOILED))
def test_verify_finds_what_is_not_as_it_was(site: Site, name: str) -> None:
    change, words = SPOILED[name]
    change((site.out / "current").resolve())
    before = contents(site.out / "runs")
    said = site.verify()
    assert (said.code, said.stdout) == (6, "")
    for word in words:
        assert word in said.stderr
    assert "no longer" not in said.stderr
    assert contents(site.out / "runs") == before
    assert not (site.out / "work").exists()
    line = journal.entries(site.out)[-1]
    assert (line["outcome"], line["exit_code"]) == ("differs", 6)


def test_verify_finds_a_count_that_is_wrong(site: Site) -> None:
    path = site.out / "current" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["bins"]["rated"] += 1
    path.write_text(json.dumps(manifest), encoding="utf-8")
    said = call("verify", site.games, "--out", site.out, "--json")
    assert said.code == 6
    assert said.last()["difference"]["column"] == "bins.rated"
    assert "manifest: bins.rated is 61 in the published run and 60 in the recomputed one" in said.stderr


def test_verify_with_everything_that_a_run_can_have(run_backfill: Backfill) -> None:
    games = [
        {**game(f"g{i:03}", NOON + i * DAY // 3, f"p{i % 9}", f"p{(i * 5 + 1) % 9}"), "ladder": "ab"[i % 2]} for i in range(90)
    ]
    games = [row | {"match_length": 1 + i % 7, "weight": 1.0} for i, row in enumerate(games)]
    out = run_backfill(
        games,
        *AS_OF,
        *("--pool", "ladder", "--chunk", "week", "--top", "3", "--min-games", "2", "--max-rejected", "1"),
        rules="nardy",
        aliases=[{"alias_id": "p8", "player_id": "p7"}],
        excluded=["p6"],
        starts=[{"player_id": "p0", "rating": 1400.5, "ladder": "a"}],
        awards=[{"award_id": "x", "awarded_at": NOON + DAY, "player_id": "p1", "points": 2.25, "reason": "cup", "ladder": "b"}],
    ).ok()
    said = call("verify", out.folder.parent / "in", "--out", out.folder)
    assert said.code == 0, said.stderr
    assert "equal: run 000001" in said.stdout


def test_verify_after_nights(site: Site) -> None:
    late = game(700, NOON + 3 * DAY + 1, "p1", "q2")
    support.write(site.games / "c.parquet", [*rows(10, 60), late])
    for as_of in ("2026-06-02", "2026-06-03"):
        said = call(
            "nightly", site.games, "--out", site.out, "--as-of", as_of, "--accept-changes", "--max-rejected", "1", "--quiet"
        )
        assert said.code == 0, said.stderr
    said = call("verify", site.games, "--out", site.out)
    assert said.code == 0, said.stderr
    assert said.stdout.startswith("equal: run 000003, computed again from zero: 71 games")
    # A state that went wrong between two nights shows in what was rated after it.
    spoil(site.out / "current" / "players.parquet", "games", 0, 1)
    assert site.verify().code == 6


def test_verify_with_an_archived_file(site: Site) -> None:
    options = ("--out", site.out, "--as-of", "2026-06-02", "--max-rejected", "1", "--quiet")
    support.write(site.games / "c.parquet", rows(10, 60))
    (site.games / "a.parquet").rename(site.base / "archived.parquet")
    assert call("nightly", site.games, *options, "--sealed-before", "2026-05-01").code == 0
    said = call("verify", site.games, "--out", site.out)
    assert said.code == 0, said.stderr
    assert "archived files from the stored rows: 70 games" in said.stdout
    assert "no longer" not in said.stdout
    said = call("verify", site.games, "--out", site.out, "--sample", "2")
    assert said.code == 0, said.stderr
    assert "no longer" not in said.stdout


# ---------------------------------------------------------------- verify from stored states


def test_a_sample_begins_at_stored_states(site: Site) -> None:
    before = contents(site.out / "runs")
    texts = []
    for seed in ("7", "7", "8"):
        said = call("verify", site.games, "--out", site.out, "--sample", "4", "--seed", seed)
        assert said.code == 0, said.stderr
        texts.append(said.stdout)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].count("from the state before 2026-") == 4
    assert contents(site.out / "runs") == before
    assert not (site.out / "work").exists()
    said = call("verify", site.games, "--out", site.out, "--sample", "100000", "--json")
    chunks = json.loads((site.out / "current" / "manifest.json").read_text(encoding="utf-8"))["chunks"]
    assert len(said.last()["computed"]) == len(chunks) == 10


def test_a_sample_finds_a_state_that_is_wrong(site: Site) -> None:
    """Nobody sees it in the tables, but the next late game would be rated from it."""
    state = sorted((site.out / "current" / "fold" / "state").iterdir())[4]
    rating = pq.read_table(state)["rating"][0].as_py()
    spoil(state, "rating", 0, rating + 50)
    assert site.verify().code == 0
    said = site.verify("--sample", "100000")
    assert said.code == 6
    assert "timeline, row" in said.stderr
    assert "in the recomputed one" in said.stderr


def test_a_sample_finds_a_stored_row_that_is_wrong(site: Site) -> None:
    stored = sorted((site.out / "current" / "fold" / "rows").iterdir())[6]
    names = pq.read_schema(stored).names
    table = pq.read_table(stored)
    swapped = [{"winner_id": "loser_id", "loser_id": "winner_id"}.get(name, name) for name in names]
    pq.write_table(table.rename_columns(swapped).select(names), stored)
    said = site.verify("--sample", "100000")
    assert said.code == 6, said.stderr
    assert "timeline, row" in said.stderr


def test_a_sample_with_other_files_says_so(site: Site) -> None:
    support.write(site.games / "z.parquet", rows(3, 200))
    said = call("verify", site.games, "--out", site.out, "--sample", "1")
    assert said.code == 0
    assert f"1 new: {site.games / 'z.parquet'}" in said.stdout


def test_a_sample_of_nothing(run_backfill: Backfill) -> None:
    out = run_backfill([game(1, "2026-09-01 00:00:00", "a", "b")], *AS_OF).ok()
    said = call("verify", out.folder.parent / "in", "--out", out.folder, "--sample", "2")
    assert said.code == 2
    assert "no game is rated" in said.stderr
    assert call("verify", out.folder.parent / "in", "--out", out.folder, "--sample", "0").code == 2


def test_verify_says_when_the_files_are_others(site: Site) -> None:
    os.rename(site.games / "b.parquet", site.games / "c.parquet")
    said = call("verify", site.games, "--out", site.out)
    assert said.code == 0  # a new name alone is no change
    assert "no longer" not in said.stdout

    support.write(site.games / "z.parquet", [game(950, "2026-09-01 00:00:00", "p1", "p2")])  # held, and so counted
    said = site.verify()
    assert said.code == 6
    assert "manifest: rows_read is 61 in the published run and 62 in the recomputed one" in said.stderr
    assert (
        f"the files are no longer those that run 000001 read (1 new: {site.games / 'z.parquet'}): then a difference" in said.stderr
    )

    support.write(site.games / "c.parquet", rows(19, 40))
    (site.games / "z.parquet").unlink()
    said = call("verify", site.games, "--out", site.out, "--json")
    assert said.code == 6
    assert said.last()["inputs_changed"] == [
        f"1 gone: {site.games / 'b.parquet'}".replace(str(site.games), str(Path(read_paths(site)[1]).parent)),
        f"1 new: {site.games / 'c.parquet'}",
    ]


def read_paths(site: Site) -> list[str]:
    manifest = json.loads((site.out / "current" / "manifest.json").read_text(encoding="utf-8"))
    return [item["path"] for item in manifest["inputs"]]


def test_verify_names_a_file_that_was_rewritten(site: Site) -> None:
    # The same games, written in another way: the bytes are others, the rows are not.
    pq.write_table(pq.read_table(site.games / "a.parquet"), site.games / "a.parquet", compression="gzip")
    said = call("verify", site.games, "--out", site.out)
    assert said.code == 0
    assert f"1 changed: {site.games / 'a.parquet'}" in said.stdout


def test_verify_from_another_folder_with_relative_paths(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site.base)
    assert call("verify", "games", "--out", "out", "--quiet").code == 0
    monkeypatch.chdir(site.games)
    assert call("verify", "../games", "--out", "../out", "--quiet").code == 0


def test_verify_takes_the_columns_as_they_were_mapped(tmp_path: Path) -> None:
    path = support.write(tmp_path / "games.parquet", [{**row, "id": row["game_id"]} for row in rows()], columns=None)
    table = pq.read_table(path).drop_columns(["game_id"])
    pq.write_table(table, path)
    columns = tmp_path / "columns.toml"
    columns.write_text('[columns]\ngame_id = "id"\n', encoding="utf-8")
    out = tmp_path / "out"
    assert call("backfill", path, "--rules", "tavla42", "--out", out, "--columns", columns, *AS_OF, "--quiet").code == 0
    columns.write_text('[columns]\ngame_id = "id"\nwinner_id = "loser_id"\n', encoding="utf-8")
    assert call("verify", path, "--out", out, "--quiet").code == 0
    assert call("verify", path, "--out", out, "--quiet", "--sample", "2").code == 0
    columns.unlink()
    assert call("verify", path, "--out", out, "--quiet").code == 0


def test_verify_with_a_side_table_that_has_moved(run_backfill: Backfill) -> None:
    out = run_backfill(rows(), *AS_OF, aliases=[{"alias_id": "p1", "player_id": "p2"}]).ok()
    games, aliases = out.folder.parent / "in", out.folder.parent / "aliases.parquet"
    moved = aliases.rename(aliases.with_name("moved.parquet"))
    said = call("verify", games, "--out", out.folder, "--quiet")
    assert said.code == 3
    assert "aliases" in said.stderr
    assert call("verify", games, "--out", out.folder, "--quiet", "--aliases", moved).code == 0
    assert call("verify", games, "--out", out.folder, "--quiet", "--aliases", moved, "--sample", "2").code == 0
    support.write(moved, [{"alias_id": "p1", "player_id": "p3"}])
    said = call("verify", games, "--out", out.folder, "--quiet", "--aliases", moved)
    assert said.code == 6
    assert "1 gone" in said.stderr


@pytest.mark.parametrize("case", ["no folder", "a stranger", "nothing published", "no such file", "an old manifest"])
def test_verify_cannot_begin(site: Site, case: str) -> None:
    before = contents(site.out)
    stranger = site.base / "stranger"
    code, out, games, word = 2, site.out, site.games, ""
    if case == "no folder":
        out, word = site.base / "none", "no output folder of eloreplay"
    elif case == "a stranger":
        stranger.mkdir()
        (stranger / "notes.txt").write_text("mine")
        out, word = stranger, "no output folder of eloreplay"
    elif case == "nothing published":
        (stranger).mkdir()
        (stranger / "eloreplay.json").write_text('{"format": 1}')
        out, word = stranger, "nothing is published there yet"
    elif case == "no such file":
        code, games, word = 3, site.base / "nothing-here", "no such file"
    else:
        path = site.out / "current" / "manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        del manifest["input_options"]
        path.write_text(json.dumps(manifest), encoding="utf-8")
        before, word = contents(site.out), "has no input_options"
    said = call("verify", games, "--out", out, "--quiet")
    assert (said.code, said.stdout) == (code, "")
    assert word in said.stderr
    assert not (site.base / "none").exists()
    if case == "a stranger":
        assert [path.name for path in stranger.iterdir()] == ["notes.txt"]
    after = contents(site.out)
    for extra in (journal.NAME, "lock"):
        before.pop(extra, None)
        after.pop(extra, None)
    assert after == before
    assert not (site.out / "work").exists()


def test_verify_of_a_folder_that_is_held(site: Site) -> None:
    with store.hold(site.out):
        said = site.verify()
    assert said.code == 4
    line = journal.entries(site.out)[-1]
    assert (line["command"], line["outcome"], line["exit_code"]) == ("verify", "refused", 4)


def started(site: Site, warm: Warm) -> Run:
    """A verification in a process of its own that has begun to compute."""
    run = warm.start(["verify", str(site.games), "--out", str(site.out), "--quiet"], said=site.base / "said")
    assert wait_for(run, site.out / "work" / "verify" / "1"), run.said
    return run


def test_a_night_cannot_begin_while_a_run_is_verified(site: Site, warm: Warm) -> None:
    run = started(site, warm)
    said = site.backfill("--max-rejected", "1")
    assert said.code == 4
    assert run.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_verification_that_is_asked_to_end_leaves_nothing(site: Site, warm: Warm, number: signal.Signals) -> None:
    before = contents(site.out / "runs")
    run = started(site, warm)
    run.send_signal(number)
    assert run.wait() == 130, run.said
    assert not (site.out / "work").exists()
    assert contents(site.out / "runs") == before
    line = journal.entries(site.out)[-1]
    assert (line["command"], line["outcome"], line["exit_code"]) == ("verify", "failed", 130)


def test_a_verification_that_is_killed_is_cleared_away_by_the_next_run(site: Site, warm: Warm) -> None:
    before = contents(site.out / "runs")
    run = started(site, warm)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert contents(site.out / "runs") == before
    assert (site.out / "work").exists()
    assert site.verify().code == 0
    assert not (site.out / "work").exists()


def test_verify_in_a_folder_with_an_odd_name(template: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s [a] *?{b} "out"'
    shutil.copytree(template / "games", odd / "games")
    games = odd / "games" / "a.parquet"
    assert call("backfill", games, "--rules", "tavla42", "--out", odd / "out", *AS_OF, "--max-rejected", "1", "--quiet").code == 0
    said = call("verify", games, "--out", odd / "out")
    assert said.code == 0, said.stderr
    assert call("verify", games, odd / "games" / "b.parquet", "--out", odd / "out", "--quiet").code == 6


# ---------------------------------------------------------------- status


def write_journal(out: Path, *lines: dict[str, Any]) -> None:
    (out / journal.NAME).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def manifest_with(out: Path, **more: Any) -> None:
    path = out / "current" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | more), encoding="utf-8")


def test_status_says_what_is_published(site: Site) -> None:
    before = contents(site.out)
    said = call("status", site.out)
    assert (said.code, said.stderr) == (0, "")
    for words in (
        f"{site.out}: run 000001 is published (backfill)",
        "as of        2026-06-01T00:00:00Z (",
        "last game    2026-04-29T12:00:00Z (",
        "rules        tavla42",
        "rows read    61: 60 rated, 1 rejected",
        "players      12",
    ):
        assert words in said.stdout, said.stdout
    assert contents(site.out) == before


def test_status_as_json(site: Site) -> None:
    found = call("status", site.out, "--json").json()
    assert found["run"] == "000001"
    assert found["kind"] == "backfill"
    assert found["rollback_of"] is None
    assert found["as_of"] == found["fresh_at"] == "2026-06-01T00:00:00Z"
    assert found["last_game_at"] == "2026-04-29T12:00:00Z"
    assert found["rows_read"] == 61
    assert found["bins"]["rejected"]["self_play"] == 1
    assert found["players"] == 12
    assert found["age_s"] > 0
    assert found["bytes"] > 10_000
    assert found["too_old"] is None
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    section = page.split("## `eloreplay status")[1].split("\n## ")[0]
    for key in found:
        assert f"`{key}`" in section or key == "folder", f"docs/cli.md does not name {key}"


NOW = support.ts("2026-06-02 02:00:00")
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("as_of", "made_at", "lines", "fresh"),
    [
        # The as-of is what the ratings hold up to.
        ("2026-06-01 00:00:00", "2026-06-01T02:00:00Z", [], "2026-06-01T00:00:00Z"),
        # One that lies later than the run itself counts only up to its end.
        ("2030-01-01 00:00:00", "2026-06-01T02:00:00Z", [], "2026-06-01T02:00:00Z"),
        # A night that found nothing new has looked, too.
        (
            "2026-06-01 00:00:00",
            "2026-06-01T02:00:00Z",
            [{"outcome": "nothing new", "as_of": "2026-06-02T00:00:00Z", "time": "2026-06-02T01:00:00Z"}],
            "2026-06-02T00:00:00Z",
        ),
        (
            "2026-06-01 00:00:00",
            "2026-06-01T02:00:00Z",
            [{"outcome": "nothing new", "as_of": "2031-06-02T00:00:00Z", "time": "2026-06-02T01:00:00Z"}],
            "2026-06-02T01:00:00Z",
        ),
        (
            "2026-06-01 00:00:00",
            "2026-06-01T02:00:00Z",
            [{"outcome": "nothing new", "time": "2026-06-02T01:00:00Z"}],
            "2026-06-02T01:00:00Z",
        ),
        # What failed has not.
        (
            "2026-06-01 00:00:00",
            "2026-06-01T02:00:00Z",
            [{"outcome": "failed", "as_of": "2026-06-02T00:00:00Z", "time": "2026-06-02T01:00:00Z"}],
            "2026-06-01T00:00:00Z",
        ),
        # Before the run that is published now, it was another one.
        (
            "2026-05-01 00:00:00",
            "2026-06-02T01:30:00Z",
            [
                {"outcome": "nothing new", "as_of": "2026-06-02T00:00:00Z", "time": "2026-06-02T01:00:00Z"},
                {"outcome": "published", "command": "rollback", "run": "000001", "time": "2026-06-02T01:30:00Z"},
            ],
            "2026-05-01T00:00:00Z",
        ),
        # Lines that are not what they should be.
        (
            "2026-06-01 00:00:00",
            "2026-06-01T02:00:00Z",
            [{"outcome": "nothing new", "as_of": 7, "time": None}, {"outcome": "nothing new"}, {"outcome": ["x"]}],
            "2026-06-01T00:00:00Z",
        ),
    ],
)
def test_how_old_it_is(site: Site, as_of: str, made_at: str, lines: list[dict[str, Any]], fresh: str) -> None:
    manifest_with(site.out, as_of_us=support.ts(as_of), made_at=made_at)
    write_journal(site.out, *lines)
    found = lookback.status(site.out, NOW)
    assert found["fresh_at"] == fresh
    assert found["age_s"] == (NOW - support.ts(fresh.replace("T", " ").rstrip("Z"))) // 1_000_000


def test_which_run_is_at_work(site: Site) -> None:
    """The holder while it holds, nobody afterwards, and nobody when it was killed; another machine cannot be asked."""
    assert lookback.status(site.out, NOW)["at_work"] is None
    with store.hold(site.out):
        before = (site.out / "lock").read_bytes()
        found = json.loads(call("status", site.out, "--json").stdout)["at_work"]
        assert (found["pid"], found["host"], found["certain"]) == (os.getpid(), socket.gethostname(), True)
        assert f"at work      process {os.getpid()} on {socket.gethostname()}, since 20" in call("status", site.out).stdout
        assert (site.out / "lock").read_bytes() == before
    assert "at work" not in call("status", site.out).stdout
    holder = json.loads(before)
    for changed, certain in (({"began": holder["began"] + 1}, None), ({"pid": 2**22 + 1}, None), ({"host": "elsewhere"}, False)):
        (site.out / "lock").write_text(json.dumps(holder | changed), encoding="utf-8")
        one = lookback.status(site.out, NOW)["at_work"]
        assert one == certain if one is None else one["certain"] is certain
    assert "(another machine: at work, or killed there)" in call("status", site.out).stdout
    for damaged in (b"\xff", b"[1]", b'{"pid": "1"}', b'{"pid": -1}'):
        (site.out / "lock").write_bytes(damaged)
        assert lookback.status(site.out, NOW)["at_work"] is None


def test_max_age(site: Site) -> None:
    said = call("status", site.out, "--max-age", "36500d")
    assert (said.code, said.stderr) == (0, "")
    said = call("status", site.out, "--max-age", "1s")
    assert said.code == 1
    assert "older than --max-age allows" in said.stderr
    found = call("status", site.out, "--max-age", "26h", "--json")
    assert found.code == 1
    assert found.json()["too_old"] is True
    assert found.json()["max_age_s"] == 26 * 3600
    age = found.json()["age_s"]
    assert call("status", site.out, "--max-age", f"{age + 60}s", "--json").json()["too_old"] is False
    assert call("status", site.out, "--max-age", f"{age - 60}s", "--json").json()["too_old"] is True


@pytest.mark.parametrize("text", ["26", "h", "-1h", "1w", "1e3s", "٣h", "", "1 h 2 min", "nan s"])
def test_an_age_that_is_none(site: Site, text: str) -> None:
    said = call("status", site.out, "--max-age", text)
    assert said.code == 2
    assert "is not a length of time such as 26h" in said.stderr


def test_status_before_the_first_run(tmp_path: Path) -> None:
    with store.hold(tmp_path / "out"):
        pass
    journal.record(tmp_path / "out", {"command": "backfill", "outcome": "refused", "message": "a.parquet: cut"})
    said = call("status", tmp_path / "out")
    assert said.code == 0
    assert "nothing is published yet" in said.stdout
    assert "a.parquet: cut" in said.stdout
    assert call("status", tmp_path / "out", "--json").json()["run"] is None
    assert call("status", tmp_path / "out", "--max-age", "1000d").code == 1


@pytest.mark.parametrize("command", ["status", "runs", "top"])
def test_a_folder_that_is_not_ours(tmp_path: Path, command: str) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        said = call(command, folder)
        assert (said.code, said.stdout) == (2, "")
        assert "no output folder of eloreplay" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_last_ten_nights(site: Site) -> None:
    lines = [
        {"time": f"2026-05-{day:02}T02:30:00Z", "command": "nightly", "outcome": "published", "run": f"{day:06d}"}
        for day in range(1, 15)
    ]
    lines[-1] |= {"command": "forget"}
    verified = [{"time": "2026-05-20T00:00:00Z", "command": "verify", "outcome": "equal", "run": "000014"}]
    write_journal(site.out, *lines, *verified)
    found = call("status", site.out, "--json").json()
    assert [line["run"] for line in found["nights"]] == [f"{day:06d}" for day in range(5, 15)]
    assert found["last_verified"] == verified[0]
    text = call("status", site.out).stdout
    assert (text.count("nightly"), text.count("forget")) == (9, 1)
    assert "verified     2026-05-20T00:00:00Z verify    equal" in text


def test_hostile_text_is_shown_harmlessly(site: Site) -> None:
    nasty = "\x1b]0;x\x07\nforged line\u202e"
    write_journal(
        site.out,
        {"time": nasty, "command": nasty, "outcome": nasty, "run": nasty, "seconds": nasty, "message": nasty},
        {"command": "nightly", "outcome": nasty, "time": 7, "run": [1], "seconds": True, "message": {"a": nasty}},
        {"command": "nightly", "outcome": "published", "run": "000000000000007", "bins": [], "time": nasty, "as_of": nasty},
    )
    path = site.out / "current" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["rules"]["name"] = manifest["kind"] = nasty
    path.write_text(json.dumps(manifest), encoding="utf-8")
    for said in (call("status", site.out), call("runs", site.out), call("top", site.out)):
        assert said.code == 0, said.stderr
        assert "\x1b" not in said.stdout
        assert "\u202e" not in said.stdout
        assert "\nforged" not in said.stdout
    for said in (call("status", site.out, "--json"), call("runs", site.out, "--json"), call("top", site.out, "--json")):
        assert said.code == 0
        assert said.json()


def test_status_of_a_damaged_run(site: Site) -> None:
    last = sorted((site.out / "current" / "timeline").iterdir())[-1]
    content = last.read_bytes()
    last.write_bytes(content[:-20])
    said = call("status", site.out)
    assert said.code == 1
    assert "timeline" in said.stderr
    last.write_bytes(content)
    (site.out / "current" / "manifest.json").write_text("{")
    said = call("status", site.out)
    assert said.code == 1
    assert "manifest.json" in said.stderr


def test_shared_files_take_room_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    one = lookback.disk_bytes(tmp_path)
    assert one >= 100_000
    os.link(tmp_path / "a", tmp_path / "b")
    assert lookback.disk_bytes(tmp_path) == one
    shutil.copy(tmp_path / "a", tmp_path / "c")
    assert lookback.disk_bytes(tmp_path) == 2 * one
    (tmp_path / "d").symlink_to("nowhere")
    assert lookback.disk_bytes(tmp_path) >= 2 * one


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s ago"), (119, "119 s ago"), (120, "2 min ago"), (7199, "119 min ago"), (7200, "2 h ago"), (26 * 3600, "26 h ago"),
     (48 * 3600, "2 days ago"), (4000 * 86400, "4,000 days ago"), (-3600, "in 60 min")],
)  # fmt: skip
def test_ago(seconds: int, text: str) -> None:
    assert lookback.ago(seconds * 1_000_000) == text


# ---------------------------------------------------------------- runs


def test_runs_of_a_folder(site: Site) -> None:
    for _ in range(4):
        assert site.backfill("--max-rejected", "1", "--keep", "2").code == 0
    found = call("runs", site.out, "--json").json()
    states = {row["run"]: row["state"] for row in found}
    assert states["000005"] == "current"
    assert states["000004"] == "kept"
    assert [row["run"] for row in found] == sorted(states, reverse=True)
    assert {path.name for path in (site.out / "runs").iterdir()} == {"000004", "000005"}
    assert found[0]["rated"] == 60
    assert found[0]["rows_read"] == 61
    text = call("runs", site.out).stdout
    assert text.splitlines()[0].split()[:3] == ["run", "state", "published"]
    assert text.splitlines()[1].startswith("000005   current  20")
    assert "000004   kept     20" in text


def test_runs_that_are_gone_and_runs_that_are_damaged(site: Site) -> None:
    assert site.backfill("--max-rejected", "1").code == 0
    lines = [
        {
            "time": f"2026-01-01T00:00:{n % 60:02}Z",
            "command": "nightly",
            "outcome": "published",
            "run": f"{n:06d}",
            "rows_read": n,
            "bins": {"rated": n},
        }
        for n in range(101, 131)
    ]
    write_journal(site.out, *lines, {"outcome": "published", "run": "../../etc"}, {"outcome": "failed", "run": "000777"})
    for number in ("000001", "000002"):
        folder = site.out / "runs" / number
        folder.rename(folder.with_name(f"0002{number[-2:]}"))
    (site.out / "current").unlink()
    (site.out / "current").symlink_to("runs/000202")
    (site.out / "runs" / "000201" / "manifest.json").write_text("{")
    (site.out / "runs" / "000203").mkdir()  # moved into place and never switched to: was never published
    found = call("runs", site.out, "--json").json()
    assert [(row["run"], row["state"]) for row in found[:3]] == [("000202", "current"), ("000201", "damaged"), ("000130", "gone")]
    assert "000203" not in {row["run"] for row in found}
    assert "000777" not in {row["run"] for row in found}
    assert found[2]["rated"] == 130
    lines_shown = call("runs", site.out).stdout.splitlines()
    gone = [line for line in lines_shown if " gone " in line]
    assert len(gone) == 20
    assert gone[0].startswith("000130")
    assert f"and {len(found) - 22} earlier ones" in lines_shown[-1]


def test_runs_before_the_first(tmp_path: Path) -> None:
    with store.hold(tmp_path / "out"):
        pass
    assert call("runs", tmp_path / "out").stdout == "nothing is published yet\n"
    assert call("runs", tmp_path / "out", "--json").json() == []


# ---------------------------------------------------------------- top


def test_top_shows_the_board(site: Site) -> None:
    board = pl.read_parquet(site.out / "current" / "leaderboard.parquet")
    said = call("top", site.out)
    assert said.code == 0
    assert said.stdout.startswith("Leaderboard of run 000001, published 20")
    lines = said.stdout.splitlines()[2:]
    assert len(lines) == 10
    first = board.row(0, named=True)
    assert lines[0].split() == [str(first["rank"]), first["player_id"], str(first["rating"]), str(first["games"]), "games"]
    assert len(call("top", site.out, "-n", "3").stdout.splitlines()) == 5
    assert len(call("top", site.out, "--number", "1000").stdout.splitlines()) == 2 + board.height


def test_top_as_json_is_the_table(site: Site) -> None:
    board = pl.read_parquet(site.out / "current" / "leaderboard.parquet")
    found = call("top", site.out, "--json", "-n", "4").json()
    assert found["run"] == "000001"
    assert found["as_of"] == "2026-06-01T00:00:00Z"
    assert [row["player_id"] for row in found["rows"]] == board["player_id"].head(4).to_list()
    assert found["rows"][0]["last_played_at"] == board["last_played_at"][0].isoformat().replace("+00:00", "Z")


@dataclass
class TwoBoards:
    """Two published runs, of 30 March and 2 April, of which only the second is kept; the players on their boards, in order."""

    out: Path
    boards: list[list[str]]


@pytest.fixture(scope="module")
def two_boards(template: Path, tmp_path_factory: pytest.TempPathFactory) -> TwoBoards:
    base = tmp_path_factory.mktemp("boards")
    shutil.copytree(template / "games", base / "games")
    shutil.copytree(template / "out", base / "out", symlinks=True)
    site = Site(base, base / "games", base / "out")
    support.write(site.games / "c.parquet", [game(1000 + i, NOON + 70 * DAY + i * MINUTE, "new", f"p{i % 7}") for i in range(50)])
    for made_at in ("2026-03-30T02:30:00Z", "2026-04-02T02:30:00Z"):
        manifest_with(site.out, made_at=made_at)
        (site.out / "boards" / f"{(site.out / 'current').resolve().name}.parquet").unlink(missing_ok=True)
        journal.repair(site.out)
        if made_at.startswith("2026-03"):
            assert site.backfill("--max-rejected", "1", "--keep", "1").code == 0
    assert [path.name for path in (site.out / "runs").iterdir()] == ["000002"]
    boards = [pl.read_parquet(site.out / "boards" / f"00000{n}.parquet")["player_id"].to_list() for n in (1, 2)]
    assert "new" in boards[1]
    assert "new" not in boards[0]
    return TwoBoards(site.out, boards)


@pytest.mark.parametrize(
    ("on", "which"),
    [
        ("2026-03-30", 0),
        ("2026-03-30T02:30:00Z", 0),
        ("2026-03-30T04:30+02:00", 0),
        ("2026-04-01", 0),
        ("2026-04-02T02:29:59", 0),
        ("2026-04-02", 1),
        ("2026-04-02T02:30", 1),
        ("9999-12-30", 1),
    ],
)
def test_the_board_as_it_was_published(two_boards: TwoBoards, on: str, which: int) -> None:
    found = call("top", two_boards.out, "--published-on", on, "--json", "-n", "100").json()
    assert [row["player_id"] for row in found["rows"]] == two_boards.boards[which]
    assert found["run"] == f"00000{which + 1}"
    text = call("top", two_boards.out, "--published-on", on).stdout
    assert text.startswith(f"Leaderboard of run 00000{which + 1}, published 2026-0")


@pytest.mark.parametrize("on", ["2026-03-29", "2026-03-30T02:29:59.999999", "1970-01-01"])
def test_a_day_before_the_first_board(two_boards: TwoBoards, on: str) -> None:
    said = call("top", two_boards.out, "--published-on", on)
    assert (said.code, said.stdout) == (2, "")
    assert "the first that is known is of 2026-03-30T02:30:00Z" in said.stderr


@pytest.mark.parametrize("on", ["yesterday", "2026-13-01", "", "9999-12-31", "2026-03-30T25:00"])
def test_a_day_that_is_none(site: Site, on: str) -> None:
    said = call("top", site.out, "--published-on", on)
    assert said.code == 2
    assert "is not a" in said.stderr


def test_a_run_from_before_the_archive_counts_while_it_is_kept(site: Site) -> None:
    manifest_with(site.out, made_at="2026-03-30T02:30:00Z")
    shutil.rmtree(site.out / "boards", ignore_errors=True)
    found = call("top", site.out, "--published-on", "2026-03-31", "--json").json()
    assert found["run"] == "000001"


def test_top_of_ladders(run_backfill: Backfill) -> None:
    games = [{**game(i, NOON + i * DAY, f"p{i % 4}", "q"), "ladder": f"l{i % 5}\x1b"} for i in range(40)]
    out = run_backfill(games, *AS_OF, "--pool", "ladder", rules="chess").ok()
    said = call("top", out.folder, "-n", "1")
    assert said.code == 0
    assert "\x1b" not in said.stdout
    assert "l0\\x1b" in said.stdout
    assert "and 2 more ladders" in said.stdout
    found = call("top", out.folder, "-n", "1", "--json").json()
    assert [row["pool"] for row in found["rows"]] == [f"l{i}\x1b" for i in range(5)]


def test_top_of_an_empty_board(run_backfill: Backfill) -> None:
    out = run_backfill([game(1, "2026-09-01 00:00:00", "a", "b")], *AS_OF).ok()
    assert "nobody stands on it" in call("top", out.folder).stdout
    assert call("status", out.folder, "--json").json()["last_game_at"] is None
    assert "last game    none" in call("status", out.folder).stdout
    assert call("verify", out.folder.parent / "in", "--out", out.folder).code == 0


def test_a_damaged_board(site: Site) -> None:
    (site.out / "current" / "leaderboard.parquet").write_bytes(b"PAR1")
    said = call("top", site.out)
    assert said.code == 1
    assert "leaderboard.parquet" in said.stderr


def test_a_folder_whose_tilde_was_not_written_out() -> None:
    for command in ("status", "runs", "top"):
        assert call(command, "~/out").code == 2
    assert call("rollback", "~/out", "1").code == 2
    assert call("verify", "games", "--out", "~/out").code == 2
