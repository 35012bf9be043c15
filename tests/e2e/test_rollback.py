"""`rollback`: the old run is published again whole, whatever happens on the way, and the next run goes on from it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
import support
from support import Backfill, game
from support_killed import wait_for
from warm import Run, Warm

from eloreplay import journal, store
from eloreplay.cli import main
from eloreplay.compare import compare_runs
from eloreplay.rollback import link_or_copy

NOON = support.ts("2026-03-01 12:00:00")
DAY = 86_400_000_000
AS_OF = ("--as-of", "2026-06-01")
SEED = 20261130


@dataclass
class Said:
    code: int
    stdout: str
    stderr: str


def call(*arguments: object) -> Said:
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main([str(argument) for argument in arguments])
    assert "Traceback" not in stderr.getvalue()
    assert "unexpected" not in stderr.getvalue()
    return Said(code, stdout.getvalue(), stderr.getvalue())


def digests(run: Path) -> dict[str, str]:
    """Every file of a run that a reader sees, whole, with its digest; but for what is made anew for the place and the moment."""
    found = {}
    for path in sorted(run.rglob("*.parquet")):
        name = str(path.relative_to(run))
        if name != "changes.parquet":
            pq.read_table(path)
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@dataclass
class Site:
    """Games of two months in two files; run 1 read the first, run 2 both."""

    games: Path
    out: Path

    @property
    def current(self) -> Path:
        return (self.out / "current").resolve()

    def run(self, number: int) -> Path:
        return self.out / "runs" / f"{number:06d}"

    def backfill(self, *more: object) -> Said:
        return call("backfill", self.games, "--rules", "tavla42", "--out", self.out, *AS_OF, "--quiet", "--no-study", *more)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("rollback")
    players = [f"p{i % 7}" for i in range(90)]
    games = [game(f"g{i:03}", NOON + i * DAY // 2, players[i], f"q{i % 5}") for i in range(90)]
    support.write(base / "games" / "a.parquet", games[:60])
    Backfill(base)(base / "games", *AS_OF, out=base / "out").ok()
    support.write(base / "games" / "b.parquet", [*games[60:], game("late", NOON + 3 * DAY + 1, "p0", "zed")])
    Backfill(base)(base / "games", *AS_OF, out=base / "out").ok()
    return base


@pytest.fixture
def site(template: Path, tmp_path: Path) -> Site:
    shutil.copytree(template, tmp_path / "site", symlinks=True)
    return Site(tmp_path / "site" / "games", tmp_path / "site" / "out")


def views(run: Path) -> dict[str, int]:
    """Rows of every view."""
    with duckdb.connect(str(run / "ratings.duckdb"), read_only=True) as database:
        names = [name for (name,) in database.sql("select view_name from duckdb_views() where not internal").fetchall()]
        return {name: database.sql(f"select count(*) from {name}").fetchall()[0][0] for name in names}


def test_an_old_run_is_published_again(site: Site) -> None:
    old, bad = digests(site.run(1)), digests(site.run(2))
    assert old != bad
    said = call("rollback", site.out, "1")
    assert (said.code, said.stderr) == (0, "")
    assert said.stdout.startswith("run 000001 is published again as run 000003, instead of run 000002\n")
    assert "before  as of 2026-06-01T00:00:00Z: 91 rated games, 91 rows read, 13 players" in said.stdout
    assert "after   as of 2026-06-01T00:00:00Z: 60 rated games, 60 rows read, 12 players" in said.stdout
    assert os.readlink(site.out / "current") == "runs/000003"
    assert digests(site.current) == old
    assert compare_runs(site.run(1), site.current) is None
    assert digests(site.run(1)) == old
    assert digests(site.run(2)) == bad
    assert not (site.out / "work").exists()
    assert sorted(path.name for path in (site.out / "runs").iterdir()) == ["000001", "000002", "000003"]


def test_the_files_are_links_and_outlive_the_old_run(site: Site) -> None:
    assert call("rollback", site.out, "000001").code == 0
    for name in digests(site.run(1)):
        assert (site.run(1) / name).samefile(site.run(3) / name), name
    for name in ("manifest.json", "ratings.duckdb", "changes.parquet"):
        assert not (site.run(1) / name).samefile(site.run(3) / name), name
    before = digests(site.current)
    shutil.rmtree(site.run(1))
    assert digests(site.current) == before
    # The views read the new place.
    found = views(site.current)
    assert found["timeline"] == 60
    assert found["player_timeline"] == 120
    assert set(found) >= {
        "timeline",
        "players",
        "leaderboard",
        "awards",
        "rejected",
        "calibration",
        "summary",
        "changes",
        "player_timeline",
    }


def test_the_manifest_says_what_it_is(site: Site) -> None:
    old = json.loads((site.run(1) / "manifest.json").read_text(encoding="utf-8"))
    assert call("rollback", site.out, "1").code == 0
    new = json.loads((site.current / "manifest.json").read_text(encoding="utf-8"))
    assert new["run"] == "000003"
    assert new["rollback_of"] == "000001"
    assert new["kind"] == "rollback"
    assert new["made_at"] > old["made_at"]
    assert new["after"] == "000002"
    different = {"run", "rollback_of", "kind", "made_at", "changed_players", "after"}
    assert {k: v for k, v in new.items() if k not in different} == {k: v for k, v in old.items() if k not in different}
    line = journal.entries(site.out)[-1]
    assert (line["command"], line["outcome"], line["run"], line["rollback_of"]) == ("rollback", "published", "000003", "000001")
    assert (site.out / "boards" / "000003.parquet").is_file()


def test_changes_compare_with_the_run_that_was_published(site: Site) -> None:
    before = pl.read_parquet(site.run(2) / "players.parquet")
    after = pl.read_parquet(site.run(1) / "players.parquet")
    assert call("rollback", site.out, "1").code == 0
    changes = pl.read_parquet(site.current / "changes.parquet")
    assert changes.columns == [
        "player_id",
        "rating_before",
        "rating_after",
        "change",
        "restated_change",
        "rank_before",
        "rank_after",
        "games",
    ]
    ratings = {row["player_id"]: (row["rating"], row["games"]) for row in before.to_dicts()}
    wanted = {}
    for player, (rating, games) in ratings.items():
        now = after.filter(player_id=player)
        new = (now["rating"][0], now["games"][0]) if now.height else None
        if new is None:
            wanted[player] = (rating, None, None, None, 0)
        elif new != (rating, games):
            wanted[player] = (rating, new[0], new[0] - rating, new[0] - rating, new[1])
    found = {
        row["player_id"]: tuple(row[name] for name in ("rating_before", "rating_after", "change", "restated_change", "games"))
        for row in changes.to_dicts()
    }
    assert found == wanted
    assert "zed" in found
    assert json.loads((site.current / "manifest.json").read_text(encoding="utf-8"))["changed_players"] == len(wanted)


def test_the_next_run_has_the_next_number_and_goes_on(site: Site) -> None:
    bad = digests(site.run(2))
    assert call("rollback", site.out, "1").code == 0
    assert site.backfill().code == 0
    assert os.readlink(site.out / "current") == "runs/000004"
    assert compare_runs(site.run(2), site.current) is None
    # Of four runs the last three are kept; what the second run shares with nobody is still there.
    assert sorted(path.name for path in (site.out / "runs").iterdir()) == ["000002", "000003", "000004"]
    assert digests(site.run(2)) == bad


def test_a_night_goes_on_from_it(site: Site) -> None:
    assert call("rollback", site.out, "1").code == 0
    said = call("nightly", site.games, "--out", site.out, *AS_OF, "--accept-changes", "--quiet")
    assert said.code == 0, said.stderr
    assert os.readlink(site.out / "current") == "runs/000004"
    assert compare_runs(site.run(2), site.current) is None


def test_a_night_is_rolled_back_and_rolled_back_to(site: Site) -> None:
    options = ("--out", site.out, "--accept-changes", "--quiet")
    support.write(site.games / "c.parquet", [game("z", NOON + 46 * DAY, "p1", "p2")])
    assert call("nightly", site.games, *options, "--as-of", "2026-06-02").code == 0
    assert call("rollback", site.out, "2").code == 0
    assert compare_runs(site.run(2), site.current) is None
    assert call("rollback", site.out, "3").code == 0
    assert compare_runs(site.run(3), site.current) is None
    manifest = json.loads((site.current / "manifest.json").read_text(encoding="utf-8"))
    assert "night" not in manifest
    # Its files are those that the night read: there is nothing new for the next one.
    assert call("nightly", site.games, *options, "--as-of", "2026-06-02").code == 0
    assert site.current.name == "000005"
    assert call("verify", site.games, "--out", site.out, "--sample", "3", "--quiet").code == 0


def test_back_and_forth(site: Site) -> None:
    assert call("rollback", site.out, "1", "--quiet").code == 0
    assert call("rollback", site.out, "2", "--quiet").code == 0
    assert compare_runs(site.run(2), site.current) is None
    assert call("rollback", site.out, "3", "--quiet").code == 0
    assert compare_runs(site.run(1), site.current) is None
    assert site.current.name == "000005"
    manifest = json.loads((site.current / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["rollback_of"] == "000003"


def test_a_dry_run_says_it_and_does_nothing(site: Site) -> None:
    before = {str(path): path.stat().st_mtime_ns for path in site.out.rglob("*")}
    said = call("rollback", site.out, "1", "--dry-run")
    assert said.code == 0
    assert said.stdout.startswith("run 000001 would be published again as run 000003, instead of run 000002\n")
    assert "Nothing was changed" in said.stdout
    found = json.loads(call("rollback", site.out, "1", "--dry-run", "--json").stdout)
    assert {str(path): path.stat().st_mtime_ns for path in site.out.rglob("*")} == before
    assert found["done"] is False
    done = json.loads(call("rollback", site.out, "1", "--json").stdout)
    assert done == {**found, "done": True}
    assert done["before"]["rated"] == 91
    assert done["after"]["rated"] == 60
    changed = json.loads((site.current / "manifest.json").read_text(encoding="utf-8"))["changed_players"]
    assert done["moved_players"] == changed


def test_with_ladders_and_awards(run_backfill: Backfill) -> None:
    games = [
        {**game(f"g{i:03}", NOON + i * DAY // 3, f"p{i % 9}", f"p{(i * 5 + 1) % 9}"), "ladder": "ab"[i % 2]} for i in range(60)
    ]
    games = [row | {"match_length": 1 + i % 7} for i, row in enumerate(games)]
    award = {"award_id": "x", "awarded_at": NOON + DAY, "player_id": "p1", "points": 2.25, "reason": "cup", "ladder": "b"}
    awards = [award, {**award, "award_id": "y", "points": None}]
    options = (*AS_OF, "--pool", "ladder", "--max-rejected", "1")
    first = run_backfill(games, *options, rules="nardy", awards=awards).ok()
    run_backfill(games[:50], *options, rules="nardy", awards=awards[:1], out=first.folder).ok()
    assert call("rollback", first.folder, "1").code == 0
    assert compare_runs(first.folder / "runs" / "000001", first.folder / "current") is None
    assert (first.folder / "current" / "rejected_awards.parquet").is_file()
    changes = pl.read_parquet(first.folder / "current" / "changes.parquet")
    assert changes.columns[:2] == ["pool", "player_id"]
    assert changes.height > 0
    found = views((first.folder / "current").resolve())
    assert found["player_timeline"] == 2 * found["timeline"] + 1 > 100


def test_a_run_of_other_rules_and_other_ids(site: Site) -> None:
    games = support.write(site.games.parent / "other.parquet", [game(i, NOON + i * DAY, i % 4, 7) for i in range(20)])
    assert call("backfill", games, "--rules", "chess", "--out", site.out, *AS_OF, "--quiet").code == 0
    said = call("rollback", site.out, "2")
    assert said.code == 0
    assert compare_runs(site.run(2), site.current) is None
    assert call("rollback", site.out, "3").code == 0
    assert compare_runs(site.run(3), site.current) is None


# ---------------------------------------------------------------- what cannot be done


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("2", ["run 000002 is the published one", "kept are 000001"]),
        ("3", ["run 000003 is not kept", "kept are 000001"]),
        ("0", ["run 000000 is not kept"]),
        ("999999999999", ["is not kept"]),
        ("last", ["is not the number of a run such as 42"]),
        ("../1", ["is not the number of a run"]),
        ("", ["is not the number of a run"]),
    ],
)
def test_a_run_that_is_not_there(site: Site, number: str, words: list[str]) -> None:
    before = {str(path): path.lstat().st_mtime_ns for path in site.out.rglob("*")}
    for more in ((), ("--dry-run",)):
        said = call("rollback", site.out, number, *more)
        assert (said.code, said.stdout) == (2, "")
        for word in words:
            assert word in said.stderr
    assert {str(path): path.lstat().st_mtime_ns for path in site.out.rglob("*")} == before


def test_the_only_run(site: Site) -> None:
    assert site.backfill("--keep", "1").code == 0
    said = call("rollback", site.out, "1")
    assert said.code == 2
    assert "no other run is kept (see --keep)" in said.stderr


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    assert call("rollback", tmp_path, "1").code == 2
    with store.hold(tmp_path / "out"):
        pass
    said = call("rollback", tmp_path / "out", "1")
    assert said.code == 2
    assert "nothing is published there yet" in said.stderr


def test_a_folder_that_is_held(site: Site) -> None:
    with store.hold(site.out):
        assert call("rollback", site.out, "1", "--dry-run").code == 0
        assert call("rollback", site.out, "1").code == 4
    assert os.readlink(site.out / "current") == "runs/000002"


def remove(run: Path, name: str) -> None:
    (run / name).unlink()


def cut(run: Path, name: str) -> None:
    (run / name).write_bytes((run / name).read_bytes()[:-10])


@pytest.mark.parametrize("spoil", [remove, cut])
@pytest.mark.parametrize("name", ["players.parquet", "summary.parquet", "manifest.json", "timeline"])
def test_a_kept_run_that_is_not_whole(site: Site, name: str, spoil: Callable[[Path, str], None]) -> None:
    chosen = str(sorted((site.run(1) / "timeline").iterdir())[-1].relative_to(site.run(1))) if name == "timeline" else name
    spoil(site.run(1), chosen)
    said = call("rollback", site.out, "1")
    assert said.code == 1
    assert chosen in said.stderr
    assert os.readlink(site.out / "current") == "runs/000002"
    assert not (site.out / "work").exists()
    assert site.backfill().code == 0


@pytest.mark.parametrize("spoil", [remove, cut])
@pytest.mark.parametrize("name", ["players.parquet", "manifest.json", "leaderboard.parquet", "ratings.duckdb"])
def test_the_published_run_is_what_is_broken(site: Site, name: str, spoil: Callable[[Path, str], None]) -> None:
    spoil(site.run(2), name)
    old = digests(site.run(1))
    said = call("rollback", site.out, "1")
    assert said.code == 0, said.stderr
    assert digests(site.current) == old
    assert site.current.name == "000003"
    assert views(site.current)["timeline"] == 60
    assert pq.read_schema(site.current / "changes.parquet").names[0] == "player_id"


def test_where_there_are_no_hard_links(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    old = digests(site.run(1))
    assert call("rollback", site.out, "1").code == 0
    assert digests(site.current) == old
    for name in old:
        assert not (site.run(1) / name).samefile(site.run(3) / name)


def test_a_copy_takes_the_place_of_half_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"something that was there")
    link_or_copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"new"


def test_in_a_folder_with_an_odd_name(template: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s [a] *?{b} "out"'
    shutil.copytree(template, odd, symlinks=True)
    site = Site(odd / "games", odd / "out")
    assert call("rollback", site.out, "1").code == 0
    assert compare_runs(site.run(1), site.current) is None
    assert views(site.current)["timeline"] == 60


# ---------------------------------------------------------------- killed


@dataclass(frozen=True)
class Whole:
    """What a reader may find: the run that was published, or the one that is rolled back to."""

    bad: dict[str, str]
    old: dict[str, str]


@pytest.fixture
def whole(site: Site) -> Whole:
    return Whole(digests(site.run(2)), digests(site.run(1)))


def assert_whole(site: Site, whole: Whole) -> str:
    current = site.out / "current"
    assert current.is_symlink()
    found = digests(current.resolve())
    assert found in (whole.bad, whole.old)
    assert json.loads((current / "manifest.json").read_text(encoding="utf-8"))["run"] == current.resolve().name
    views(current.resolve())
    assert (current / "changes.parquet").is_file()
    return "old" if found == whole.old else "bad"


def assert_undisturbed(site: Site, whole: Whole) -> None:
    """The next attempt does what was asked for, and what the killed one left is gone."""
    if site.current.name == "000002":
        said = call("rollback", site.out, "1")
        assert said.code == 0, said.stderr
    else:  # it had switched already: this is how the next run begins, whichever it is
        with store.hold(site.out) as folder:
            journal.repair(site.out)
            folder.begin()
            folder.clean()
    assert assert_whole(site, whole) == "old"
    assert site.current.name == "000003"
    assert not (site.out / "work").exists()
    assert sorted(path.name for path in (site.out / "runs").iterdir()) == ["000001", "000002", "000003"]
    assert digests(site.run(1)) == whole.old
    assert digests(site.run(2)) == whole.bad
    lines = [line for line in journal.entries(site.out) if line["outcome"] == "published" and line["run"] == "000003"]
    assert [(line["command"], line["rollback_of"]) for line in lines] == [("rollback", "000001")]
    assert (site.out / "boards" / "000003.parquet").is_file()


def back_to_the_start(template: Path, site: Site) -> None:
    shutil.rmtree(site.out)
    shutil.copytree(template / "out", site.out, symlinks=True)


def killed_at_random(template: Path, site: Site, whole: Whole, warm: Warm, number: int, seed: int) -> tuple[dict[str, int], int]:
    rng, seen, killed = random.Random(seed), {"bad": 0, "old": 0}, 0

    def start() -> Run:
        run = warm.start(["rollback", str(site.out), "1", "--quiet"])
        wait_for(run, site.out / "work")
        return run

    started = start()
    began = time.monotonic()
    assert started.wait() == 0
    seconds = time.monotonic() - began
    for _ in range(number):
        back_to_the_start(template, site)
        killed += start().kill_after(rng.uniform(0.0, 1.05 * seconds)) == -signal.SIGKILL
        seen[assert_whole(site, whole)] += 1
        assert_undisturbed(site, whole)
    return seen, killed


def test_killed_at_random_instants(template: Path, site: Site, whole: Whole, warm: Warm) -> None:
    seen, killed = killed_at_random(template, site, whole, warm, 6, SEED)
    assert sum(seen.values()) == 6
    assert killed >= 2


@pytest.mark.long
def test_killed_at_a_hundred_random_instants(template: Path, site: Site, whole: Whole, warm: Warm) -> None:
    seen, killed = killed_at_random(template, site, whole, warm, 100, SEED + 1)
    assert sum(seen.values()) == 100
    assert killed >= 50


@pytest.mark.parametrize(
    ("step", "count", "when", "seen"),
    [
        ("link", 1, "after", "bad"),
        ("link", 5, "after", "bad"),
        ("fsync", 3, "after", "bad"),
        ("rename", -1, "before", "bad"),
        ("rename", -1, "after", "bad"),
        ("symlink", 1, "after", "bad"),
        ("replace", -1, "before", "bad"),
        ("replace", -1, "after", "old"),
    ],
)
def test_killed_at_a_step(site: Site, whole: Whole, warm: Warm, step: str, count: int, when: str, seen: str) -> None:
    # The archive of boards replaces files as well: have it written before, so that what is counted is the switch's own call.
    journal.repair(site.out)
    if count == -1:  # moving ratings.duckdb out of the working folder is a rename, too
        count = {"rename": 2, "replace": 1}[step]
    run = warm.start(["rollback", str(site.out), "1", "--quiet"], cut=(step, count, when))
    assert run.wait() == -signal.SIGKILL
    assert assert_whole(site, whole) == seen
    assert_undisturbed(site, whole)


def test_readers_meanwhile_see_whole_runs(site: Site, whole: Whole, warm: Warm) -> None:
    run = warm.start(["rollback", str(site.out), "1", "--quiet"])
    seen: list[Any] = []
    while not run.poll():
        seen.append(assert_whole(site, whole))
    assert run.wait() == 0
    seen.append(assert_whole(site, whole))
    assert seen[0] == "bad"
    assert seen[-1] == "old"
    assert seen == sorted(seen)
