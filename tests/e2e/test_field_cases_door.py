"""Field cases that are about the door and the switch: two runs into one folder, and a machine that is not as one would like.

The same numbers as in `test_field_cases.py`, which has each case in one run.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import support
from support import Backfill, Row, game, ts

import eloreplay
from eloreplay import queries

AS_OF = ("--as-of", "2027-01-01")
NOON = ts("2026-03-10 12:00:00")


@pytest.fixture
def rules(tmp_path: Path) -> Any:
    """Writes rules of one's own: divisor 400 and K 32 unless said otherwise."""
    numbers = itertools.count()
    return lambda **wanted: support.own_rules(tmp_path / "rules" / f"own{next(numbers)}.toml", **wanted)


# ---------------------------------------------------------------- two runs into one folder


@pytest.mark.parametrize("late_first", [False, True])
def test_case_13_a_voiding_row_that_comes_later_replays_everything(
    run_backfill: Backfill, rules: Any, tmp_path: Path, late_first: bool
) -> None:
    """The correction is a row of a higher revision in a later file; the folder's second run rates as if the game had never been."""
    own, out = rules(), tmp_path / "out"
    types = {"revision": support.TYPES["revision"]}
    first = support.write(
        tmp_path / "b.parquet",
        [game(1, NOON, "A", "B", voided=False, revision=None), game(2, NOON + 1, "A", "C", voided=False, revision=None)],
        types,
    )
    late = support.write(
        tmp_path / ("a.parquet" if late_first else "c.parquet"), [game(1, NOON, "A", "B", voided=True, revision=1)], types
    )
    before = run_backfill([first], *AS_OF, rules=own, out=out).ok()
    assert before.ratings() == {"A": 1531, "B": 1484, "C": 1485}
    after = run_backfill([first, late], *AS_OF, rules=own, out=out).ok()
    assert {"B": 1500} | after.ratings() == {"A": 1516, "B": 1500, "C": 1484}
    assert (after.bins()["voided"], after.bins()["duplicate"], after.bins()["rated"]) == (1, 1, 1)


def _copies(flip: bool, revised: bool) -> list[Row]:
    rows = [game("g1", NOON, "A", "B", revision=None) for _ in range(3)]
    if flip:
        rows[2] |= {"winner_id": "B", "loser_id": "A"}
    if revised:
        rows[2]["revision"] = 1
    return rows


@pytest.mark.parametrize("layout", ["one file", "three files", "three files, other names", "overlap of months"])
def test_case_15_copies_are_found_wherever_they_stand(run_backfill: Backfill, rules: Any, layout: str) -> None:
    own = rules()
    types = {"revision": support.TYPES["revision"]}
    padding = [game(f"x{i}", NOON - 40 * 86_400_000_000 + i * 3_600_000_000, "C", "D", revision=None) for i in range(600)]

    def run(rows: list[Row]) -> support.Out:
        a, b, c = rows
        files: Any = {
            "one file": [*rows, *padding],
            "three files": {"1.parquet": [a], "2.parquet": [b, *padding], "3.parquet": [c]},
            "three files, other names": {"z.parquet": [a, *padding], "y/b.parquet": [b], "a/c.parquet": [c]},
            "overlap of months": {"1.parquet": [*padding[:300], a, b], "2.parquet": [b, *padding[250:], c]},
        }[layout]
        return run_backfill(files, *AS_OF, "--max-rejected", "5%", rules=own, types=types).ok()

    for order in list(itertools.permutations(range(3)))[::3]:
        same = run([_copies(False, False)[i] for i in order])
        assert {p: r for p, r in same.ratings().items() if p in "AB"} == {"A": 1516, "B": 1484}
        revised = run([_copies(True, True)[i] for i in order])
        assert {p: r for p, r in revised.ratings().items() if p in "AB"} == {"A": 1484, "B": 1516}
        conflicting = run([_copies(True, False)[i] for i in order])
        assert not {"A", "B"} & set(conflicting.ratings())
        refused = conflicting.bins()["rejected"]["conflicting_copies"]
        assert refused == (4 if layout == "overlap of months" else 3), "every copy is refused"
        assert {row["reason"] for row in conflicting.rows("rejected")} == {"conflicting_copies"}


def test_case_16_revision_1_delivered_again_changes_no_byte(run_backfill: Backfill, rules: Any, tmp_path: Path) -> None:
    own, out = rules(), tmp_path / "out"
    one = support.write(tmp_path / "m.parquet", [game(1, NOON, "A", "B", revision=1), game(2, NOON + 9, "B", "C", revision=1)])
    two = support.write(tmp_path / "n.parquet", [game(1, NOON, "B", "A", revision=2)])
    first = run_backfill([one, two], *AS_OF, rules=own, out=out).ok()
    players = (out / "current" / "players.parquet").read_bytes()
    assert first.ratings()["A"] == 1484
    again = shutil.copy(one, tmp_path / "a-again.parquet")
    second = run_backfill([Path(again), one, two], *AS_OF, rules=own, out=out).ok()
    assert (out / "current" / "players.parquet").read_bytes() == players
    assert (second.bins()["rated"], second.bins()["duplicate"]) == (2, 3)


def test_case_19_a_ban_that_comes_later_takes_the_wins_against_him_as_well(
    run_backfill: Backfill, rules: Any, tmp_path: Path
) -> None:
    own, out = rules(), tmp_path / "out"
    games = [game(1, NOON, "A", "X"), game(2, NOON + 1, "X", "B"), game(3, NOON + 2, "A", "B"), game(4, NOON + 3, "other X", "B")]
    run_backfill(games, *AS_OF, rules=own, out=out).ok()
    aliases = [{"alias_id": "other X", "player_id": "X"}]
    after = run_backfill(games, *AS_OF, rules=own, out=out, excluded=["X"], aliases=aliases).ok()
    assert after.ratings() == {"A": 1516, "B": 1484}
    assert after.bins()["unrated"] == 3
    banned_by_alias = run_backfill(games, *AS_OF, rules=own, out=out, excluded=["other X"], aliases=aliases).ok()
    assert banned_by_alias.ratings() == after.ratings()


def test_case_20_a_held_game_is_rated_when_its_time_comes(run_backfill: Backfill, rules: Any, tmp_path: Path) -> None:
    own, out = rules(), tmp_path / "out"
    rows = [game(i, NOON + i, "A", f"x{i}") for i in range(10)] + [game(99, "2026-12-24 18:00:00", "B", "A")]
    random.Random(20).shuffle(rows)
    held = run_backfill(rows, "--as-of", "2026-12-24T17:59:59.999999", rules=own, out=out).ok()
    assert (held.bins()["rated"], held.bins()["held"]) == (10, 1)
    assert held.ratings().get("B") is None
    due = run_backfill(rows, "--as-of", "2026-12-24T18:00:00Z", rules=own, out=out).ok()
    assert (due.bins()["rated"], due.bins()["held"]) == (11, 0)
    assert due.rows("timeline")[-1]["game_id"] == 99


def test_case_22_an_empty_mount_publishes_nothing(run_backfill: Backfill, rules: Any, tmp_path: Path) -> None:
    own, out = rules(), tmp_path / "out"
    mount = tmp_path / "mount"
    support.write(mount / "games.parquet", [game(1, NOON, "A", "B")])
    run_backfill([mount], *AS_OF, rules=own, out=out).ok()
    (mount / "games.parquet").rename(tmp_path / "away")
    gone = run_backfill([mount], *AS_OF, rules=own, out=out)
    assert (gone.code, os.readlink(out / "current")) == (3, "runs/000001")
    # A file of no rows is no empty mount: it says that there were no games.
    support.write(mount / "none.parquet", [game(1, NOON, "A", "B")])
    none = support.table([game(1, NOON, "A", "B")]).slice(0, 0)
    support.pq.write_table(none, mount / "none.parquet")
    nobody = run_backfill([mount], *AS_OF, rules=own, out=out).ok()
    assert nobody.manifest()["rows_read"] == 0
    assert nobody.rows("leaderboard") == []
    assert nobody.rows("timeline") == []


# ---------------------------------------------------------------- a machine that is not as one would like


@pytest.fixture
def locked_package(tmp_path: Path) -> Iterator[Path]:
    """The package in a folder where nothing can be written, with a broken compiled file in it."""
    target = tmp_path / "lib" / "eloreplay"
    package = Path(eloreplay.__file__).parent
    shutil.copytree(package, target, ignore=shutil.ignore_patterns("__pycache__", "sql"))
    shutil.copytree(queries.sql_folder(), target / "sql")
    cache = target / "__pycache__"
    cache.mkdir()
    for name in ("kernel.replay_games-1.py311.nbi", "kernel.replay_games-1.py311.1.nbc"):
        (cache / name).write_bytes(b"\x80\x04cut")
    folders = [folder for folder in (target.parent, target, *target.rglob("*")) if folder.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    yield target.parent
    for folder in folders:
        folder.chmod(0o755)


def _without_roots_rights() -> None:
    """In the child: root loses the right to write where modes forbid it; anybody else has none to lose."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("home", [None, "/nonexistent", "locked"])
def test_case_24_no_home_and_no_place_to_write(
    run_backfill: Backfill, locked_package: Path, tmp_path: Path, home: str | None
) -> None:
    argv, out = run_backfill.arguments([game(1, NOON, "A", "B"), game(2, NOON + 1, "B", "C")], *AS_OF)
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME")
    }
    if home is not None:
        env["HOME"] = str(locked_package) if home == "locked" else home
    env["PYTHONPATH"] = str(locked_package)
    done = subprocess.run(
        [sys.executable, "-c", "import sys, eloreplay.cli as c; print(c.__file__); sys.exit(c.main(sys.argv[1:]))", *argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=locked_package,
        env=env,
        preexec_fn=_without_roots_rights,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(locked_package)), "another copy of the package ran"
    assert done.stderr == ""
    assert len(support.Out(0, "", "", out).ratings()) == 3


def test_case_24_a_truncated_kernel_cache(run_backfill: Backfill, tmp_path: Path) -> None:
    """Whatever a cache of compiled code holds: cut files, or none may be made."""
    rows = [game(1, NOON, "A", "B"), game(2, NOON + 1, "B", "C")]
    cache = tmp_path / "cache"
    cache.mkdir()
    env = {"NUMBA_CACHE_DIR": str(cache)}
    first = run_backfill.process(rows, *AS_OF, env=env).ok()
    for path in cache.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-20])
    second = run_backfill.process(rows, *AS_OF, env=env).ok()
    assert second.ratings() == first.ratings()
    third = run_backfill.process(rows, *AS_OF, env={"NUMBA_CACHE_DIR": "/dev/null/x"}).ok()
    assert third.ratings() == first.ratings()


# ---------------------------------------------------------------- rows


def test_case_35_names_that_look_alike_stay_apart_through_every_table(run_backfill: Backfill, rules: Any) -> None:
    names = ["Ann", "ann", "ann ", " ann", "é", "e\u0301", "007", "7", "07", "", "a\0", "a", "A\u200bnn", "ı", "I", "İ"]
    rows = [game(i, NOON + i, name, "house") for i, name in enumerate(names)]
    out = run_backfill(rows, *AS_OF, rules=rules()).ok()
    players = {row["player_id"]: row["games"] for row in out.rows("players")}
    assert players == dict.fromkeys(names, 1) | {"house": len(names)}
    order = [row["player_id"] for row in out.rows("players")]
    assert order == sorted(order, key=str.encode)


def test_case_33_no_value_of_a_cube_or_length_gets_through(run_backfill: Backfill) -> None:
    """Also not those where the arithmetic of a check could overflow."""
    good: list[Row] = [game(i, NOON + i, "A", "B", cube=1, match_length=3) for i in range(3)]
    cubes = [-(2**63), -(2**63) + 1, -1, 0, 3, 128, 1_712_345_678, 2**31, 2**62, 2**63 - 1]
    bad = [game(10 + i, NOON, "A", "B", cube=cube, match_length=3) for i, cube in enumerate(cubes)]
    out = run_backfill([*good, *bad], *AS_OF, "--max-rejected", "100%").ok()
    assert (out.bins()["rated"], out.bins()["rejected"]["bad_cube"]) == (3, len(cubes))
    assert out.refused() == [("games.parquet", 3 + i, "bad_cube") for i in range(len(cubes))]
    assert [row["cube"] for row in out.rows("rejected")] == [str(cube) for cube in cubes]
    lengths = [-(2**63), -1, 0, 1000, 2**31, 2**63 - 1, None]
    bad = [game(10 + i, NOON, "A", "B", cube=1, match_length=length) for i, length in enumerate(lengths)]
    out = run_backfill([*good, *bad], *AS_OF, "--max-rejected", "100%", rules="nardy").ok()
    assert (out.bins()["rated"], out.bins()["rejected"]["bad_match_length"]) == (3, len(lengths))
    assert out.refused() == [("games.parquet", 3 + i, "bad_match_length") for i in range(len(lengths))]
