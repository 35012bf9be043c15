"""Nights one by one, rows in and exact values out: the field cases that are about nights (6, 13–24, 43), and what a night refuses.

A, B, C are players. Unless a case says otherwise: start 1500, divisor 400, K 32, integer changes. The numbers are worked out by hand.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import naive
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
import support_nightly
from support import Backfill, Out, Row, game, ts

import eloreplay
from eloreplay import queries

HOUR, DAY = naive.HOUR_US, naive.DAY_US
NOON = ts("2026-03-10 12:00:00")
AS_OF = ("--as-of", "2027-01-01")
Files = dict[str, list[Row]]


@dataclass
class Site:
    """A folder of games, rules and an output folder; `night` is compared with a fresh backfill unless told otherwise."""

    base: Path
    rules: str = ""
    options: list[str] = field(default_factory=list)
    fresh_runs: int = 0

    @property
    def games(self) -> Path:
        return self.base / "games"

    @property
    def out(self) -> Path:
        return self.base / "out"

    def deliver(self, **files: list[Row]) -> None:
        """Files by their names; a file that exists is replaced."""
        for name, rows in files.items():
            support.write(self.games / f"{name}.parquet", rows)

    def table(self, name: str, rows: list[Row], types: dict[str, Any] | None = None) -> Path:
        return support.write(self.base / f"{name}.parquet", rows, types)

    def backfill(self, *options: str | Path, as_of: str = AS_OF[1], out: Path | None = None) -> Out:
        out = out or self.out
        argv = ["backfill", self.games, "--rules", self.rules, "--out", out, "--quiet", "--no-study", "--as-of", as_of]
        return support_nightly.command([*argv, *self.options, *options], out)

    def night(self, *options: str | Path, as_of: str = AS_OF[1], accept: bool = True) -> Out:
        accepted = ["--accept-changes"] if accept else []
        return support_nightly.night(self.games, self.out, "--as-of", as_of, *accepted, *options)

    def equal(self, *options: str | Path, as_of: str = AS_OF[1]) -> None:
        """What is published is what a backfill of the files publishes."""
        self.fresh_runs += 1
        fresh = self.base / f"fresh{self.fresh_runs}"
        self.backfill(*options, as_of=as_of, out=fresh).ok()
        support_nightly.assert_equal(self.out, fresh)

    def seen(self) -> dict[str, str]:
        return support_nightly.seen(self.out)

    def run_name(self) -> str:
        return os.readlink(self.out / "current").removeprefix("runs/")

    def changes(self) -> dict[Any, tuple[Any, ...]]:
        """Player to (before, after, change, restated, rank before, rank after, games)."""
        names = ("rating_before", "rating_after", "change", "restated_change", "rank_before", "rank_after", "games")
        return {row["player_id"]: tuple(row[name] for name in names) for row in Out(0, "", "", self.out).rows("changes")}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, rules=str(support.own_rules(tmp_path / "own.toml")))


def refused(site: Site, before: dict[str, str], out: Out, code: int, *words: str) -> None:
    """The night ended with this code and these words, and what readers see is as it was."""
    assert out.code == code, f"exit code {out.code}, not {code}\n{out.text}"
    for word in words:
        assert word in out.stderr, f"{word!r} is not in\n{out.stderr}"
    assert "Traceback" not in out.stderr
    assert "unexpected" not in out.stderr
    assert site.seen() == before
    assert not (site.out / "work").exists()


def series(n: int, first: int = 0, players: int = 7, step: int = HOUR) -> list[Row]:
    """Games one after the other, between players in a fixed pattern."""
    return [
        game(i, NOON + i * step, f"p{i % players}", f"p{(i * i + 1 + i // players) % players + players}")
        for i in range(first, first + n)
    ]


# ---------------------------------------------------------------- weekly count


@pytest.mark.parametrize("chunk", ["month", "week", "day", None])
@pytest.mark.parametrize("cut", [48, 50])
def test_case_06_k_halves_for_the_51st_game_wherever_the_nights_are_cut(site: Site, chunk: str | None, cut: int) -> None:
    start = ts("2026-03-30")  # 48 games, then April
    rows = [game(i, start + (i - 1) * HOUR, "A", f"x{i}") for i in range(1, 61)]
    site.rules = "tavla42"
    site.options = ["--chunk", chunk] if chunk else []
    site.deliver(first=rows[:cut])
    site.backfill().ok()
    site.deliver(second=rows[cut:])
    lines = site.night().ok().rows("timeline")
    assert [line["winner_recent_games"] for line in lines] == list(range(60))
    assert [line["winner_k"] for line in lines] == [32] * 50 + [16] * 10
    assert {line["loser_k"] for line in lines} == {32}
    site.equal()


def test_case_06_a_game_more_in_the_week_before_the_cut_halves_k_after_it(site: Site) -> None:
    """49 games of March; a 50th comes late, and the game of April that had k 32 has k 16."""
    start = ts("2026-03-30")
    rows = [game(i, start + i * HOUR, "A", f"x{i}") for i in range(49)]
    april = game(100, "2026-04-01 01:00:00", "A", "y")
    site.rules = "tavla42"
    site.options = ["--chunk", "month"]
    site.deliver(march=rows[:47], april=[*rows[47:], april])
    site.backfill().ok()
    assert Out(0, "", "", site.out).rows("timeline")[-1]["winner_k"] == 32
    site.deliver(late=[game(101, start + 1, "z", "A")])
    line = site.night().ok().rows("timeline")[-1]
    assert (line["game_id"], line["winner_recent_games"], line["winner_k"]) == (100, 50, 16)
    site.equal()


# ---------------------------------------------------------------- late, voided, corrected


def test_case_13_a_game_is_voided_and_who_never_played_it_moves(site: Site) -> None:
    rows = [game(1, NOON, "A", "B", voided=False, revision=1), game(2, NOON + HOUR, "A", "C", voided=False, revision=1)]
    site.deliver(day1=rows)
    assert site.backfill().ok().ratings() == {"A": 1531, "B": 1484, "C": 1485}
    site.deliver(day2=[rows[0] | {"voided": True, "revision": 2}])
    out = site.night().ok()
    assert out.ratings() == {"A": 1516, "C": 1484}
    assert (out.bins()["voided"], out.bins()["duplicate"], out.bins()["rated"]) == (1, 1, 1)
    assert site.changes() == {
        "A": (1531, 1516, -15, -15, 1, 1, 1),
        "B": (1484, None, None, None, 3, None, 0),
        "C": (1485, 1484, -1, -1, 2, 2, 1),
    }
    site.equal()


def test_case_13_voided_in_the_file_itself(site: Site) -> None:
    """The same, delivered otherwise: the file is written anew and now says that the game does not count."""
    rows = [game(1, NOON, "A", "B", voided=False), game(2, NOON + HOUR, "A", "C", voided=False)]
    site.deliver(all=rows)
    site.backfill().ok()
    site.deliver(all=[rows[0] | {"voided": True}, rows[1]])
    assert site.night().ok().ratings() == {"A": 1516, "C": 1484}
    site.equal()


def test_case_14_late_games_and_games_at_the_last_instant_are_rated(site: Site) -> None:
    """g2 is late, g4 stands at the very instant of g3: neither may be lost, and g3 is rated anew."""
    g1, g3 = game("g1", "2026-03-10 10:00:00", "A", "B"), game("g3", "2026-03-10 12:00:00", "A", "B")
    site.deliver(known=[g1, g3])
    assert site.backfill().ok().changes() == {"g1": (16, -16), "g3": (15, -15)}
    site.deliver(late=[game("g4", "2026-03-10 12:00:00", "B", "A"), game("g2", "2026-03-10 11:00:00", "B", "A")])
    out = site.night().ok()
    lines = out.rows("timeline")
    assert [line["game_id"] for line in lines] == ["g1", "g2", "g3", "g4"]
    # 1516 : 1484, the lower one wins 17.47; then 1499 : 1501, 16.09; then 1515 : 1485, the lower one wins 17.38.
    assert out.changes() == {"g1": (16, -16), "g2": (17, -17), "g3": (16, -16), "g4": (17, -17)}
    assert out.ratings() == {"A": 1498, "B": 1502}
    site.equal()


def test_case_14_a_game_at_the_last_instant_with_a_lower_id_comes_before_it(site: Site) -> None:
    site.deliver(known=[game("g3", NOON, "A", "B")])
    site.backfill().ok()
    site.deliver(more=[game("g2", NOON, "B", "C")])
    assert site.night().ok().changes() == {"g2": (16, -16), "g3": (17, -17)}
    site.equal()


@pytest.mark.parametrize("revisions", [True, False])
def test_case_15_overlap_replay_and_a_flipped_winner_night_by_night(site: Site, revisions: bool) -> None:
    first, flipped = game("g1", NOON, "A", "B"), game("g1", NOON, "B", "A")
    if revisions:
        first, flipped = first | {"revision": 1}, flipped | {"revision": 2}
    site.options = ["--max-rejected", "1"]
    site.deliver(a=[first])
    assert site.backfill().ok().ratings() == {"A": 1516, "B": 1484}
    site.deliver(b=[first])
    out = site.night().ok()
    assert (out.ratings(), out.bins()["duplicate"]) == ({"A": 1516, "B": 1484}, 1)
    site.deliver(c=[flipped])
    out = site.night().ok()
    if revisions:
        assert (out.ratings(), out.bins()["duplicate"]) == ({"A": 1484, "B": 1516}, 2)
    else:
        assert (out.ratings(), out.bins()["rejected"]["conflicting_copies"], out.bins()["duplicate"]) == ({}, 3, 0)
        assert out.refused() == [(f"{name}.parquet", 0, "conflicting_copies") for name in "abc"]
    site.equal()


def test_case_16_an_older_revision_that_comes_again_changes_nothing(site: Site) -> None:
    old, new = game(1, NOON, "A", "B", revision=1), game(1, NOON, "B", "A", revision=2)
    site.deliver(one=[old])
    site.backfill().ok()
    for name, row in (("two", new), ("three", old), ("four", old | {"winner_id": "C", "revision": None})):
        site.deliver(**{name: [row]})
        assert site.night().ok().ratings() == {"A": 1484, "B": 1516}
        site.equal()
    assert Out(0, "", "", site.out).bins()["duplicate"] == 3


@pytest.mark.parametrize("chunk", ["month", "day", None])
def test_case_17_every_cut_gives_what_a_full_run_gives(site: Site, chunk: str | None) -> None:
    """A game or a few a night, half of them late, for as many nights as it takes."""
    rng = random.Random(17)
    rows = [game(i, NOON + rng.randrange(40) * DAY // 2, *rng.sample("ABCDE", 2)) for i in range(40)]
    site.options = ["--chunk", chunk] if chunk else []
    site.rules = str(support.own_rules(site.base / "own.toml", heavy=(4, 16)))
    site.deliver(n0=rows[:5])
    site.backfill().ok()
    at, number = 5, 0
    while at < len(rows):
        number, end = number + 1, at + rng.choice((1, 4, 6))
        site.deliver(**{f"n{number}": rows[at:end]})
        site.night().ok()
        at = end
        if number % 3 == 0 or at >= len(rows):
            site.equal()
    assert int(site.run_name()) == number + 1 >= 9


def test_case_18_a_ban_list_that_grows_overnight_stops_publication_and_asks(site: Site) -> None:
    rows = [game(i, NOON + i * HOUR, f"p{i % 40}", f"q{i % 37}") for i in range(400)]
    site.deliver(games=rows)
    banned = site.table("banned", [{"player_id": "p39"}])
    site.backfill("--exclude-players", banned).ok()
    site.table("banned", [{"player_id": f"p{i}"} for i in range(20, 40)] + [{"player_id": f"stranger{i}"} for i in range(2980)])
    before = site.seen()
    refused(site, before, site.night(accept=False), 5, "--accept-changes")
    out = site.night().ok()
    assert out.bins()["unrated"] == 200
    site.equal("--exclude-players", banned)


def test_case_19_a_banned_players_games_go_both_ways(site: Site) -> None:
    site.deliver(games=[game(1, NOON, "X", "A"), game(2, NOON + 1, "B", "X"), game(3, NOON + 2, "A", "B")])
    site.backfill().ok()
    banned = site.table("banned", [{"player_id": "X"}])
    out = site.night("--exclude-players", banned).ok()
    assert out.ratings() == {"A": 1516, "B": 1484}
    assert (out.bins()["rated"], out.bins()["unrated"]) == (1, 2)
    site.equal("--exclude-players", banned)
    # The next night knows the list without being told.
    site.deliver(more=[game(4, NOON + 3, "A", "X")])
    assert site.night().ok().bins()["unrated"] == 3
    site.equal("--exclude-players", banned)


def test_case_20_a_game_from_the_future_is_held_and_rated_when_its_time_comes(site: Site) -> None:
    site.deliver(first=[game(0, "2099-01-01", "A", "B"), game(1, NOON, "A", "C")])
    site.backfill(as_of="2026-03-11").ok()
    site.deliver(second=[game(i, NOON + DAY + i, "A", f"x{i}") for i in range(2, 11)])
    out = site.night(as_of="2026-03-12").ok()
    assert (out.bins()["rated"], out.bins()["held"]) == (10, 1)
    assert "B" not in out.ratings()
    site.equal(as_of="2026-03-12")
    out = site.night(as_of="2099-01-01").ok()
    assert (out.bins()["rated"], out.bins()["held"]) == (11, 0)
    assert "B" in out.ratings()
    site.equal(as_of="2099-01-01")


# ---------------------------------------------------------------- broken and empty input


def test_case_21_the_same_inputs_and_as_of_twice_publish_nothing(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    before = site.seen()
    site.night().ok()
    assert site.seen() == before
    assert [path.name for path in (site.out / "runs").iterdir()] == ["000001"]
    site.deliver(second=series(5, first=20))
    site.night().ok()
    after = site.seen()
    assert after["current"] == "runs/000002"
    for _ in range(2):
        site.night(accept=False).ok()
        assert site.seen() == after
    # A file that was only touched is the same input.
    os.utime(site.games / "first.parquet", ns=(1, 1))
    site.night(accept=False).ok()
    assert site.seen() == after


@pytest.mark.parametrize("size", [-20, 0, 500])
@pytest.mark.parametrize("name", ["new", "known"])
def test_case_22_a_damaged_file_stops_the_night_by_name(site: Site, size: int, name: str) -> None:
    site.deliver(known=series(20))
    site.backfill().ok()
    before = site.seen()
    site.deliver(**{name: series(30)})
    path = site.games / f"{name}.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    refused(site, before, site.night(), 3, f"{name}.parquet")
    path.write_bytes(whole)
    assert site.night().ok().bins()["rated"] == 30
    site.equal()


def test_case_22_damage_in_the_middle_of_a_new_file(site: Site) -> None:
    site.deliver(known=series(20))
    site.backfill().ok()
    before = site.seen()
    site.deliver(new=series(300, first=20))
    path = site.games / "new.parquet"
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(bytes(content))
    refused(site, before, site.night(), 3, "new.parquet")


def test_case_22_an_empty_mount_never_publishes_an_empty_board(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    before = site.seen()
    shutil.move(site.games, site.base / "elsewhere")
    for games in (site.games, site.base / "missing.parquet", site.base / "*.nothing"):
        out = support_nightly.night(games, site.out, *AS_OF, "--accept-changes")
        refused(site, before, out, 3)
    site.games.mkdir()
    for options in ((), ("--allow-missing",)):
        refused(site, before, site.night(*options), 3)


def test_case_22_a_new_file_without_rows_is_fine(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    types = support.table(series(1)).schema
    support.write(site.games / "none.parquet", [], {name: types.field(name).type for name in types.names}, types.names)
    assert site.night().ok().bins()["rated"] == 20
    site.equal()


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("side", [True, False])
def test_case_22_the_first_games_after_an_empty_history(site: Site, numbers: bool, side: bool) -> None:
    """Nothing has said yet whether ids are numbers or text; also side tables may be the first to say it."""

    def player(number: int) -> Any:
        return number if numbers else f"p{number}"

    id_type = pa.int64() if numbers else pa.string()
    types = {"game_id": id_type, "winner_id": id_type, "loser_id": id_type}
    support.write(site.games / "none.parquet", [], types, ["game_id", "played_at", "winner_id", "loser_id"])
    site.backfill().ok()
    tables: list[str | Path] = []
    if side:
        tables += ["--exclude-players", site.table("banned", [{"player_id": player(9)}])]
        tables += ["--aliases", site.table("aliases", [{"alias_id": player(7), "player_id": player(1)}])]
        cup = {"award_id": player(1), "awarded_at": NOON, "player_id": player(1), "points": 5.0, "reason": "cup"}
        tables += ["--awards", site.table("awards", [cup])]
        tables += ["--start-ratings", site.table("starts", [{"player_id": player(3), "rating": 1700.0}])]
        site.night(*tables).ok()
        site.equal(*tables)
    site.deliver(first=[game(player(i), NOON + i, player(i % 3), player(7 + i % 3)) for i in range(6)])
    site.night().ok()
    site.equal(*tables)


def test_a_new_file_of_another_schema_stops_the_night(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    before = site.seen()
    for number, (bad, words) in enumerate(
        [
            ([{k: v for k, v in game(99, NOON, "A", "B").items() if k != "loser_id"}], ("loser_id",)),
            ([game("99", NOON, "A", "B")], ("game_id",)),
            ([game(99, NOON, 1, 2)], ("winner_id",)),
            ([game(99.5, NOON, "A", "B")], ("game_id",)),
        ]
    ):
        name = f"bad{number}"
        site.deliver(**{name: bad})
        refused(site, before, site.night(), 3, f"{name}.parquet", *words)
        (site.games / f"{name}.parquet").unlink()
    site.night(accept=False).ok()
    assert site.seen() == before


def test_too_many_refused_rows_of_the_night_stop_it(site: Site) -> None:
    """One of 2,012 rows in all, but more than a hundredth of those that are new."""
    site.deliver(first=series(2000))
    site.backfill().ok()
    before = site.seen()
    site.deliver(second=[*series(11, first=2000), game(9000, NOON, "A", "A")])
    refused(site, before, site.night(), 3, "self_play", "--max-rejected")
    assert (site.out / "refused" / "rejected.parquet").is_file()
    site.deliver(second=series(11, first=2000))
    site.night().ok()
    assert not (site.out / "refused").exists()
    site.equal()


# ---------------------------------------------------------------- nights and days


def test_case_23_two_nights_at_once_are_two_single_nights(site: Site) -> None:
    site.deliver(first=series(40))
    site.backfill(as_of="2026-03-13").ok()
    alone = site.base / "alone"
    shutil.copytree(site.out, alone, symlinks=True)
    late = [game(900, NOON + 1, "A", "p1"), *series(5, first=40)]
    site.deliver(second=late)
    site.night(as_of="2026-03-14").ok()
    site.deliver(third=[*series(9, first=45), game(3, NOON + 3 * HOUR, "p1", "A", revision=2)])
    site.night(as_of="2026-03-15").ok()
    site.equal(as_of="2026-03-15")
    support_nightly.night(site.games, alone, "--as-of", "2026-03-15", "--accept-changes").ok()
    support_nightly.assert_equal(alone, site.out)
    assert (os.readlink(alone / "current"), site.run_name()) == ("runs/000002", "000003")
    before = support_nightly.seen(alone)
    support_nightly.night(site.games, alone, "--as-of", "2026-03-15").ok()
    assert support_nightly.seen(alone) == before


@pytest.mark.parametrize("zone", ["Europe/Belgrade", "America/New_York"])
def test_case_23_the_zone_of_the_host_changes_nothing(site: Site, zone: str) -> None:
    """The night of a clock change, in a process of its own."""
    start = ts("2026-03-28 20:00:00")
    rows = [game(i, start + i * HOUR // 2, f"p{i % 3}", f"q{i % 4}") for i in range(40)]
    site.deliver(first=rows[:20])
    site.backfill(as_of="2026-03-29").ok()
    site.deliver(second=rows[20:])
    argv = support_nightly.night_command(site.games, site.out, "--as-of", "2026-03-29 16:00", "--accept-changes")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=os.environ | {"TZ": zone}, cwd=site.base)
    assert done.returncode == 0, done.stderr
    site.equal(as_of="2026-03-29 16:00")


def _without_roots_rights() -> None:
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def test_case_24_no_home_no_place_for_a_cache_and_an_unwritable_package(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    site.deliver(second=series(5, first=20))
    package = site.base / "package"
    source = Path(eloreplay.__file__).parent
    shutil.copytree(source, package / "eloreplay", ignore=shutil.ignore_patterns("__pycache__", "sql"))
    shutil.copytree(queries.sql_folder(), package / "eloreplay" / "sql")
    folders = [path for path in package.rglob("*") if path.is_dir()]
    for folder in (package, *folders):
        folder.chmod(0o555)
    env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME")}
    argv = support_nightly.night_command(site.games, site.out, *AS_OF, "--accept-changes")[3:]
    done = subprocess.run(
        [sys.executable, "-c", "import sys, eloreplay.cli as c; print(c.__file__); sys.exit(c.main(sys.argv[1:]))", *argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=package,
        env=env | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": "/dev/null/x"},
        preexec_fn=_without_roots_rights,
    )
    for folder in (package, *folders):
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(package)), "another copy of the package ran"
    assert done.stderr == ""
    site.equal()


# ---------------------------------------------------------------- who moved, and why


def test_changes_of_a_night_of_new_games(site: Site) -> None:
    """1516 against 1500: expected 0.52301, so the win is worth 15.26."""
    site.deliver(first=[game(1, NOON, "A", "B")])
    site.backfill().ok()
    assert site.changes() == {"A": (None, 1516, None, None, None, 1, 1), "B": (None, 1484, None, None, None, 2, 1)}
    site.deliver(second=[game(2, NOON + HOUR, "A", "C")])
    site.night().ok()
    assert site.changes() == {"A": (1516, 1531, 15, 0, 1, 1, 2), "C": (None, 1485, None, None, None, 2, 1)}


def test_case_43_changes_of_a_late_game_say_what_the_past_did_and_what_the_night(site: Site) -> None:
    """A 1531, B 1469; a late game makes it 1515 and 1485; then A beats C (expected 0.52157) and stands at 1530: why -1, and not +15?"""
    site.deliver(first=[game(1, "2026-03-10 10:00:00", "A", "B"), game(3, "2026-03-10 12:00:00", "A", "B")])
    assert site.backfill().ok().ratings() == {"A": 1531, "B": 1469}
    site.deliver(second=[game(2, "2026-03-10 11:00:00", "B", "A"), game(4, "2026-03-10 13:00:00", "A", "C")])
    site.night().ok()
    assert site.changes() == {
        "A": (1531, 1530, -1, -16, 1, 1, 4),
        "B": (1469, 1485, 16, 16, 2, 2, 3),
        "C": (None, 1485, None, None, None, 2, 1),
    }
    lines = {row["game_id"]: row for row in Out(0, "", "", site.out).rows("timeline")}
    assert (lines[4]["winner_rating_before"], lines[4]["winner_change"]) == (1515, 15)
    needed = ("winner_rating_before", "winner_change", "winner_k", "winner_expected", "winner_games", "rule_version")
    assert all(lines[i][name] is not None for i in lines for name in needed)


def test_changes_of_a_merged_player(site: Site) -> None:
    """C was A all the time: A beats B, then D: 1516 and 15.26 more; the account C is gone."""
    site.deliver(first=[game(1, NOON, "A", "B"), game(2, NOON + HOUR, "C", "D")])
    assert site.backfill().ok().ratings() == {"A": 1516, "B": 1484, "C": 1516, "D": 1484}
    aliases = site.table("aliases", [{"alias_id": "C", "player_id": "A"}])
    assert site.night("--aliases", aliases).ok().ratings() == {"A": 1531, "B": 1484, "D": 1485}
    assert site.changes() == {
        "A": (1516, 1531, 15, 15, 1, 1, 2),
        "C": (1516, None, None, None, 1, None, 0),
        "D": (1484, 1485, 1, 1, 3, 2, 1),
    }
    site.equal("--aliases", aliases)
    # Taken back: an empty table, in the same place.
    types = support.table([{"alias_id": "C", "player_id": "A"}]).schema
    support.write(aliases, [], {name: types.field(name).type for name in types.names}, types.names)
    assert site.night().ok().ratings() == {"A": 1516, "B": 1484, "C": 1516, "D": 1484}
    site.equal()


def test_case_43_the_digest_names_new_games_restated_days_and_who_moved_most(site: Site) -> None:
    site.deliver(first=series(30))
    site.backfill().ok()
    site.deliver(second=[game(900, "2026-03-10 12:30:00", "p1", "p9"), *series(3, first=30)])
    out = support_nightly.night(site.games, site.out, *AS_OF, "--accept-changes", quiet=False).ok()
    assert "2026-03-10" in out.stdout
    assert "late" in out.stdout
    top = max(Out(0, "", "", site.out).rows("changes"), key=lambda row: abs(row["change"] or 0))
    assert top["player_id"] in out.stdout
    assert "\n  2026-03-10  1 late\n  game 900\n" in out.stdout
    assert site.out.joinpath("current", "manifest.json").read_text(encoding="utf-8").count('"restated_ids"') == 1
    for line in support_nightly.night(site.games, site.out, *AS_OF, "--json", quiet=False).ok().stdout.splitlines():
        assert isinstance(json.loads(line), dict)


def test_the_digest_says_how_many_more_moved_and_were_restated(site: Site) -> None:
    site.deliver(first=series(30))
    site.backfill().ok()
    late = [{**row, "game_id": 900 + n, "played_at": row["played_at"] + 1} for n, row in enumerate(series(30)[:7])]
    site.deliver(second=late)
    out = support_nightly.night(site.games, site.out, *AS_OF, "--accept-changes", "--dry-run", quiet=False).ok()
    assert "\n  games 900, 901, 902, 903, 904 and 2 more\n" in out.stdout
    moved = int(re.findall(r"([0-9]+) players have another rating", out.stdout)[0])
    assert moved > 10
    assert f"\n  and {moved - 10} more (changes.parquet of the run has them all)\n" in out.stdout


# ---------------------------------------------------------------- a dry run, the budget, freshness


def test_a_dry_run_publishes_nothing_and_says_what_would_be_replayed(site: Site) -> None:
    site.deliver(first=series(60))
    site.backfill().ok()
    before = site.seen()
    site.deliver(second=[game(900, NOON + 49 * HOUR + 1, "p1", "p9")])
    out = support_nightly.night(site.games, site.out, *AS_OF, "--dry-run", quiet=False).ok()
    assert site.seen() == before
    assert sorted(path.name for path in (site.out / "runs").iterdir()) == ["000001"]
    assert "2026-03-12" in out.stdout, "the day of the late game"
    assert "p1" in out.stdout, "who would move"
    site.night().ok()
    assert site.run_name() == "000002"
    site.equal()


def test_a_dry_run_of_a_night_over_budget_says_so_and_publishes_nothing(site: Site) -> None:
    site.deliver(first=series(300))
    site.backfill().ok()
    before = site.seen()
    site.deliver(second=[game(900, NOON + 1, "p1", "p9")])
    out = site.night("--dry-run", accept=False)
    assert out.code in (0, 5), out.text
    assert site.seen() == before


RESTATED = [
    ("late", 11, (), 5),
    ("late", 10, (), 0),  # 3.3 % of 300 games, and yet few
    ("late", 4, ("--max-restated", "1%"), 5),  # a share that is given is taken at its word
    ("late", 3, ("--max-restated", "1%"), 0),  # not more than one of a hundred
    ("late", 11, ("--max-restated", "0.5"), 0),
    ("late", 1, ("--max-restated", "0"), 5),
    ("flipped", 11, (), 5),
    ("voided", 11, (), 5),
    ("gone", 11, (), 5),
    ("copied", 40, ("--max-restated", "0"), 0),  # identical copies restate nothing
    ("held", 40, ("--max-restated", "0"), 0),
    ("new", 40, ("--max-restated", "0"), 0),
]


@pytest.mark.parametrize(("kind", "number", "options", "code"), RESTATED)
def test_the_budget_of_restated_games(site: Site, kind: str, number: int, options: tuple[str, ...], code: int) -> None:
    """Restated are games of the past that came late, are other games now, or are rated no more."""
    rows = [game(i, NOON + i * HOUR, f"p{i % 9}", f"q{i % 8}", voided=False, revision=0) for i in range(300)]
    site.deliver(first=rows)
    site.backfill(as_of="2026-04-01").ok()
    before = site.seen()
    some = rows[50 : 50 + number]
    last = NOON + 300 * HOUR
    more = {
        "late": [row | {"game_id": 1000 + row["game_id"], "played_at": row["played_at"] + 1} for row in some],
        "flipped": [row | {"winner_id": row["loser_id"], "loser_id": row["winner_id"], "revision": 1} for row in some],
        "voided": [row | {"voided": True, "revision": 1} for row in some],
        "gone": [],
        "copied": some,
        "held": [row | {"game_id": 1000 + row["game_id"], "played_at": ts("2026-05-01")} for row in some],
        "new": [row | {"game_id": 1000 + row["game_id"], "played_at": last + row["game_id"]} for row in some],
    }[kind]
    if more:
        site.deliver(second=more)
    else:
        site.deliver(first=[row for row in rows if row not in some])
    out = site.night(*options, accept=False, as_of="2026-04-01")
    assert out.code == code, out.text
    if code == 5:
        refused(site, before, out, 5, f"{number} of 300 published games", "--max-restated", "--accept-changes")
        site.night(*options, as_of="2026-04-01").ok()
    assert site.run_name() == "000002"
    site.equal(as_of="2026-04-01")


@pytest.mark.parametrize(("moved", "points", "options", "code"), [
    (11, 101, (), 5),
    (11, 100, (), 0),  # by more than 100 points
    (11, -101, (), 5),
    (10, 101, (), 0),  # a third of the players, and yet few
    (10, 101, ("--max-moved", "5%"), 5),
    (11, 101, ("--max-moved", "50%"), 0),
])  # fmt: skip
def test_the_budget_of_moved_players(site: Site, moved: int, points: int, options: tuple[str, ...], code: int) -> None:
    site.deliver(first=[game(i, NOON + i, f"p{i}", f"q{i}") for i in range(15)])
    site.backfill().ok()
    before = site.seen()
    # At the instant of the last game: what moves players after it is no restatement.
    rows = [
        {"award_id": i, "awarded_at": NOON + 14, "player_id": f"{'pq'[i % 2]}{i // 2}", "points": float(points), "reason": "cup"}
        for i in range(moved)
    ]
    awards = site.table("awards", rows)
    out = site.night("--awards", awards, *options, accept=False)
    assert out.code == code, out.text
    if code == 5:
        refused(site, before, out, 5, "100 points", "--accept-changes")
        site.night("--awards", awards, *options).ok()
    assert site.run_name() == "000002"
    site.equal("--awards", awards)


def test_a_night_of_new_games_alone_is_within_every_budget(site: Site) -> None:
    site.deliver(first=series(100))
    site.backfill().ok()
    site.deliver(second=series(400, first=100))
    site.night("--max-restated", "0", "--max-moved", "100%", accept=False).ok()
    site.equal()


def test_freshness_too_few_new_games(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    site.deliver(second=series(4, first=20))
    before = site.seen()
    stopped = site.night("--min-new-games", "5", "--if-stale", "stop")
    refused(site, before, stopped, 3, "4 new games", "--min-new-games 5")
    warned = support_nightly.night(site.games, site.out, *AS_OF, "--min-new-games", "5", "--if-stale", "warn", quiet=False).ok()
    assert "--min-new-games" in warned.text
    assert site.run_name() == "000002"
    site.deliver(third=series(5, first=24))
    enough = support_nightly.night(site.games, site.out, *AS_OF, "--min-new-games", "5", "--if-stale", "stop", quiet=False).ok()
    assert "--min-new-games" not in enough.text


def test_freshness_counts_games_and_no_copies(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    site.deliver(second=[*series(2, first=20), *series(10)])
    assert site.night("--min-new-games", "3", "--if-stale", "stop").code == 3
    site.night("--min-new-games", "2", "--if-stale", "stop").ok()


def test_freshness_also_holds_where_nothing_is_new(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    before = site.seen()
    refused(site, before, site.night("--min-new-games", "1", "--if-stale", "stop"), 3, "--min-new-games")


# ---------------------------------------------------------------- what has to be the same


def test_a_vanished_file_is_refused_by_name_until_it_is_allowed(site: Site) -> None:
    site.deliver(first=series(20), second=series(10, first=20))
    site.backfill().ok()
    before = site.seen()
    content = (site.games / "second.parquet").read_bytes()
    (site.games / "second.parquet").unlink()
    refused(site, before, site.night(), 3, "second.parquet", "--allow-missing")
    assert site.night("--allow-missing").ok().bins()["rated"] == 20
    site.equal()
    site.night().ok()  # the file is forgotten
    (site.games / "second.parquet").write_bytes(content)
    assert site.night().ok().bins()["rated"] == 30
    site.equal()


@pytest.mark.parametrize("chunk", ["month", None])
@pytest.mark.parametrize("how", ["gone", "shrunk", "moved", "voided"])
def test_a_month_that_vanishes_leaves_nothing_behind(site: Site, how: str, chunk: str | None) -> None:
    """The only games of a month, a first one, a last one or one in between, are no more: neither in the timeline nor in any count."""
    site.options = ["--chunk", chunk] if chunk else []
    january = [game(i, ts("2026-01-05") + i * HOUR, f"p{i % 3}", f"p{3 + i % 4}") for i in range(20)]
    february = [game(100, "2026-02-03 12:00:00", "p0", "p3"), game(101, "2026-02-03 13:00:00", "p3", "p1")]
    april = [game(200 + i, ts("2026-04-20") + i * HOUR, "p0", "p3") for i in range(4)]
    site.deliver(january=january, february=february, april=april)
    site.backfill(as_of="2026-05-01").ok()
    end = [game(300 + i, ts("2026-04-28") + i * HOUR, "p0", "p5") for i in range(2)]
    site.deliver(end=end)
    site.night(as_of="2026-05-01").ok()
    for name, rows in (("february", february), ("january", january), ("april", april)):
        if how == "gone":
            (site.games / f"{name}.parquet").unlink()
        elif how == "shrunk":
            types = support.table(january).schema
            support.write(site.games / f"{name}.parquet", [], {c: types.field(c).type for c in types.names}, types.names)
        elif how == "voided":
            site.deliver(**{name: [row | {"voided": True} for row in rows]})
        else:
            site.deliver(**{name: [row | {"played_at": end[0]["played_at"] + 1} for row in rows]})
        site.night("--allow-missing", as_of="2026-05-01").ok()
        site.equal(as_of="2026-05-01")


def test_a_renamed_file_is_no_loss(site: Site) -> None:
    site.deliver(first=series(20), second=[*series(10, first=20), game(777, NOON, "A", "A")])
    site.options = ["--max-rejected", "1"]
    site.backfill().ok()
    (site.games / "second.parquet").rename(site.games / "archive-2.parquet")
    site.night("--allow-missing").ok()
    site.equal()
    assert Out(0, "", "", site.out).refused() == [("archive-2.parquet", 10, "self_play")]


def test_the_same_files_by_another_path_are_the_same_files(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, its files one by one, a wildcard, relative to another folder: nothing has changed and nothing has vanished."""
    site.deliver(first=series(20), second=series(10, first=20))
    site.backfill().ok()
    before = site.seen()
    monkeypatch.chdir(site.base)
    files = [site.games / "second.parquet", site.games / "first.parquet"]
    for games in (files, [Path("games")], [Path("games/*.parquet")], [*files, Path("games")]):
        support_nightly.night(games, site.out, *AS_OF).ok()
        assert site.seen() == before
    monkeypatch.chdir(site.games)
    support_nightly.night([Path("first.parquet"), Path("second.parquet")], Path("../out"), *AS_OF).ok()
    assert site.seen() == before


def test_a_changed_rule_file_is_refused_and_what_differs_is_named(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    before = site.seen()
    site.deliver(second=series(3, first=20))
    path = Path(site.rules)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("k = 32", "k = 24"), encoding="utf-8")
    refused(site, before, site.night(), 2, "own.toml", "k", "32", "24", "backfill")
    path.write_text(text.replace("divisor = 400", "divisor = 800"), encoding="utf-8")
    refused(site, before, site.night(), 2, "divisor", "400", "800")
    # Words and the order of keys change no rating.
    path.write_text("# a remark\n" + text, encoding="utf-8")
    site.night().ok()
    path.write_text(text, encoding="utf-8")
    site.equal()


def test_the_rules_live_on_in_the_manifest_when_their_file_is_gone(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    site.deliver(second=series(3, first=20))
    path = Path(site.rules)
    path.rename(site.base / "kept.toml")
    site.night().ok()
    site.rules = str(site.base / "kept.toml")
    site.equal()


def test_the_columns_file_is_that_of_the_run_before(site: Site) -> None:
    columns = site.base / "columns.toml"
    columns.write_text('[columns]\nwinner_id = "w"\ncube = "coalesce(c, 1)"\n', encoding="utf-8")
    site.options = ["--columns", str(columns)]

    def mapped(rows: list[Row]) -> list[Row]:
        return [{"w" if k == "winner_id" else k: v for k, v in row.items()} | {"c": 1} for row in rows]

    site.deliver(first=mapped(series(20)))
    site.backfill().ok()
    site.deliver(second=mapped(series(3, first=20)))
    site.night().ok()
    site.equal()
    before = site.seen()
    columns.write_text('[columns]\nwinner_id = "w"\ncube = "coalesce(c, 2)"\n', encoding="utf-8")
    site.deliver(third=mapped(series(3, first=23)))
    refused(site, before, site.night(), 2, "columns.toml", "coalesce(c, 2)")


def test_since_and_pool_and_board_come_from_the_manifest(site: Site) -> None:
    site.rules = "tavla42-history"
    site.options = ["--since", "1.0.5=2026-03-11", "--since", "1.2.0=2026-03-12", "--since", "1.3.1=2026-03-13", "--pool", "ladder"]
    site.options += ["--top", "3", "--min-games", "2", "--active-days", "2", "--chunk", "week"]
    ladders = itertools.cycle(("gold", "silver", "gold"))
    rows = [row | {"ladder": next(ladders)} for row in series(90)]
    site.deliver(first=rows[:50])
    site.backfill().ok()
    site.deliver(second=rows[50:])
    site.night().ok()
    site.equal()
    assert {row["rule_version"] for row in Out(0, "", "", site.out).rows("timeline")} == {"pre-1.0.5", "1.0.5", "1.2.0", "1.3.1"}


def test_without_a_published_run_there_is_nothing_to_go_on_from(site: Site) -> None:
    site.deliver(first=series(20))
    for folder in (site.out, site.base / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        out = support_nightly.night(site.games, folder, *AS_OF)
        assert out.code == 2, out.text
        assert "backfill" in out.stderr
        assert not (folder / "current").exists()
    strangers = site.base / "strangers"
    strangers.mkdir()
    (strangers / "letter.txt").write_text("dear", encoding="utf-8")
    out = support_nightly.night(site.games, strangers, *AS_OF)
    assert out.code == 2, out.text
    assert [path.name for path in strangers.iterdir()] == ["letter.txt"]


def test_a_backfill_between_nights_is_a_new_start(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    site.deliver(second=series(5, first=20))
    site.night().ok()
    site.rules = str(support.own_rules(site.base / "other.toml", k=24))
    site.backfill().ok()
    site.deliver(third=series(5, first=25))
    site.night().ok()
    assert site.run_name() == "000004"
    site.equal()


def test_a_run_that_was_published_before_can_be_gone_on_from(site: Site) -> None:
    """`current` set back by hand to an older run: the next night goes on from there."""
    site.deliver(first=series(20))
    site.backfill().ok()
    site.deliver(second=series(5, first=20))
    site.night().ok()
    (site.out / "current").unlink()
    os.symlink("runs/000001", site.out / "current")
    site.deliver(third=series(5, first=25))
    site.night().ok()
    assert site.run_name() == "000002"
    site.equal()


def test_a_folder_that_was_moved_goes_on(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    moved = site.base / "moved"
    shutil.move(site.out, moved)
    shutil.copytree(moved, site.out, symlinks=True)
    shutil.rmtree(moved)
    site.deliver(second=series(5, first=20))
    site.night().ok()
    site.equal()


def test_a_night_after_a_rollback_goes_on_from_what_is_published(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    site.deliver(second=series(5, first=20))
    site.night().ok()
    support_nightly.command(["rollback", site.out, "1", "--quiet"], site.out).ok()
    assert Out(0, "", "", site.out).bins()["rated"] == 20
    site.night().ok()
    site.equal()
    assert Out(0, "", "", site.out).bins()["rated"] == 25


def test_only_the_new_file_is_not_the_whole_history(site: Site) -> None:
    """The slip of the pen that would take years of games out."""
    site.deliver(first=series(20))
    site.backfill().ok()
    before = site.seen()
    site.deliver(second=series(5, first=20))
    out = support_nightly.night(site.games / "second.parquet", site.out, *AS_OF, "--accept-changes")
    refused(site, before, out, 3, "first.parquet", "whole history", "--allow-missing")


def test_stamps_without_a_zone_do_not_mix_with_those_of_the_runs_before(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    before = site.seen()
    naive_stamps = support.table(series(5, first=20))
    at = naive_stamps.column_names.index("played_at")
    naive_stamps = naive_stamps.set_column(at, "played_at", naive_stamps["played_at"].cast(pa.timestamp("us")))
    pq.write_table(naive_stamps, site.games / "second.parquet")
    refused(site, before, site.night(), 3, "second.parquet", "zone")


def test_instants_at_the_ends_of_time(site: Site) -> None:
    """Days that no calendar has, before and after all others, night after night; what cannot be an instant is refused, the last are held."""
    first, last = -9_213_683_299_200_000_000, 2**63 - 1
    site.options = ["--max-rejected", "1"]
    site.deliver(known=series(20), ends=[game(700 + i, first + i, "p1", "p9") for i in (-1, 0, 1)] + [game(710, last, "p1", "p9")])
    site.backfill().ok()
    site.deliver(more=[game(720, first + 2, "p9", "p1"), game(730, last - 1, "p1", "p9"), *series(3, first=20)])
    out = site.night().ok()
    assert out.bins()["rated"] >= 24
    site.equal()


# ---------------------------------------------------------------- what a run keeps


def test_a_folder_of_before_there_were_nights_says_what_to_do(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    shutil.rmtree((site.out / "current").resolve() / "fold")
    before = site.seen()
    refused(site, before, site.night(), 2, "backfill")
    site.backfill().ok()
    site.deliver(second=series(5, first=20))
    site.night().ok()
    site.equal()


KEPT = (
    "fold/fold.json", "fold/rows/*.parquet", "fold/rows/undated.parquet", "fold/ids/*.npy", "fold/state/*.parquet", "fold/players.parquet",
    "fold/file_days.parquet", "fold/refused.parquet", "fold/aliases.parquet", "fold/favourite_counts.parquet", "timeline/*.parquet",
    "players.parquet", "awards.parquet", "manifest.json",
)  # fmt: skip


@pytest.mark.parametrize("harm", [pytest.param("gone", marks=pytest.mark.long), "cut"])
@pytest.mark.parametrize("pattern", KEPT)
def test_what_a_run_keeps_is_damaged_and_no_wrong_night_is_published(site: Site, pattern: str, harm: str) -> None:
    """Either the night says so by name and code, or it did not need the file and publishes what a backfill would."""
    site.options = ["--chunk", "day"]
    site.rules = "tavla42"
    site.deliver(first=[*series(100), game(None, NOON, "A", "B")])
    site.options += ["--max-rejected", "5%"]
    site.backfill().ok()
    run = (site.out / "current").resolve()
    path = sorted(run.glob(pattern))[-1]
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30])
    before = site.seen()
    site.deliver(
        second=[*series(5, first=100), game(900, NOON + 98 * HOUR + 1, "p1", "p9"), game(3, NOON + 3 * HOUR, "p0", "A", revision=1)]
    )
    out = site.night()
    if out.code == 0:
        site.equal()
    elif pattern == "fold/fold.json" and harm == "gone":
        refused(site, before, out, 2, "run eloreplay backfill once more")  # as a folder of before there were nights
    else:
        refused(site, before, out, 1, path.name)


# ---------------------------------------------------------------- archived files


def test_files_of_a_sealed_past_may_be_archived(site: Site) -> None:
    """From then on the stored rows are the source, also for copies and corrections of what is archived."""
    site.deliver(old=[r | {"revision": 0} for r in series(30)], new=[r | {"revision": 0} for r in series(30, first=30)])
    site.backfill().ok()
    archive = site.base / "archive"
    archive.mkdir()
    border = support.iso(NOON + 30 * HOUR)
    shutil.move(site.games / "old.parquet", archive / "old.parquet")
    refused(site, site.seen(), site.night(), 3, "old.parquet", "--allow-missing")
    site.deliver(third=[r | {"revision": 0} for r in series(5, first=60)])
    site.night("--sealed-before", border).ok()
    shutil.copy(archive / "old.parquet", site.games / "old.parquet")
    site.equal()
    (site.games / "old.parquet").unlink()
    # A late game, a correction and a copy in the sealed time.
    flipped = game(7, NOON + 7 * HOUR, "p9", "p2", revision=1)
    site.deliver(fourth=[game(900, NOON + 5 * HOUR + 1, "p1", "p9", revision=0), flipped, series(3)[2] | {"revision": 0}])
    site.night("--sealed-before", border).ok()
    shutil.copy(archive / "old.parquet", site.games / "old.parquet")
    site.equal()


def test_a_file_that_reaches_beyond_the_seal_may_not_vanish(site: Site) -> None:
    site.deliver(old=series(30), new=series(30, first=30))
    site.backfill().ok()
    before = site.seen()
    shutil.move(site.games / "old.parquet", site.base / "old.parquet")
    refused(site, before, site.night("--sealed-before", support.iso(NOON + 29 * HOUR)), 3, "old.parquet")


# ---------------------------------------------------------------- two at once


def test_while_another_run_holds_the_folder_a_night_names_it(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    before = site.seen()
    site.deliver(second=series(5, first=20))
    script = (
        "import sys, pathlib\n"
        "from eloreplay.store import hold\n"
        "with hold(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(site.out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused(site, before, site.night(), 4, f"process {holder.pid}", "since 20")
        holder.kill()
    site.night().ok()
    site.equal()


def test_the_command_is_there(run_backfill: Backfill) -> None:
    out = support_nightly.command(["nightly", "--help"], run_backfill.base)
    assert out.code == 0
    for option in (
        "--as-of",
        "--allow-missing",
        "--sealed-before",
        "--dry-run",
        "--max-restated",
        "--max-moved",
        "--accept-changes",
    ):
        assert option in out.stdout


# ---------------------------------------------------------------- a question meanwhile


def test_a_night_during_a_what_if_leaves_the_run_that_it_reads(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one run is kept, two are published while the question is worked out, and a second question is asked meanwhile."""
    from eloreplay import what_if

    site.deliver(first=series(30))
    site.backfill("--keep", "1").ok()
    void = site.table("void", [{"game_id": 3}])
    ask = ["what-if", site.out, "--void", void, "--quiet", "--to"]
    alone = support_nightly.command([*ask, site.base / "alone"], site.base / "alone").ok()
    real, runs = what_if.go_on, []

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        if not runs:
            runs.append(True)
            for number in (1, 2):
                site.deliver(**{f"more{number}": series(5, first=30 + 5 * number)})
                site.night().ok()
                runs.append(sorted(path.name for path in (site.out / "runs").iterdir()))
            support_nightly.command([*ask, site.base / "other"], site.base / "other").ok()
        return real(*arguments, **named)

    monkeypatch.setattr(what_if, "go_on", meanwhile)
    answer = support_nightly.command([*ask, site.base / "answer"], site.base / "answer").ok()
    assert runs == [True, ["000001", "000002"], ["000001", "000003"]]
    support_nightly.assert_equal(answer.folder, alone.folder)
    assert answer.manifest()["after"] == "000001"
    site.deliver(more3=series(5, first=50))
    site.night().ok()
    assert [path.name for path in (site.out / "runs").iterdir()] == ["000004"]


def test_one_of_a_thing_is_said_as_one(site: Site) -> None:
    site.deliver(first=series(20))
    site.backfill().ok()
    late = game(900, NOON + HOUR + 1, "p0", "p1")
    site.deliver(late=[late], new=[game(901, NOON + 20 * HOUR, "p0", "p1")])
    said = support_nightly.night(site.games, site.out, *AS_OF, "--accept-changes", quiet=False).ok().stdout
    assert "1 new game as of" in said
    assert "1 game of the past is not what it was: 1 came late" in said


@pytest.mark.parametrize("command", ["nightly", "what-if"])
def test_the_help_says_whose_number_of_threads_is_used(command: str) -> None:
    said = support_nightly.command([command, "--help"], Path())
    assert "as many as in the run before unless given" in " ".join(said.stdout.split())


def test_a_day_is_known_by_number_last_instant_and_both_halves_of_its_digest(site: Site) -> None:
    """One of them alone being another is a change: each is looked at."""
    day = {"file_no": 0, "day": 7, "row_count": 2, "last_us": 9, "digest": "ab" * 32}
    changes = [{"row_count": 3}, {"last_us": 8}, {"last_us": None}, {"digest": "ab" * 31 + "ac"}, {"digest": "bb" + "ab" * 31}]
    database = queries.Database(None, threads=1, memory_limit="200MB", spill=site.base / "spill")
    types = pa.schema([(name, pa.string() if name == "digest" else pa.int64()) for name in day])
    database.put("rewritten", pa.table({"file_no": pa.array([0], pa.int64())}))
    database.put("file_days_before", pa.Table.from_pylist([day], schema=types))
    for change in ({}, *changes):
        database.put("incoming_days", pa.Table.from_pylist([day | change], schema=types))
        assert database.rows("known_days") == ([] if change else [(0, 7)]), change
        assert database.rows("withdrawn_days") == ([(0, 7)] if change else []), change
    database.close()
