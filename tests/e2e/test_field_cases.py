"""Cases from people who do this job, each under its number: small inputs, right answers, through the command.

A, B, C are players. Unless a case says otherwise: start 1500, divisor 400, K 32, integer changes. Cases 14, 17, 18, 21, 23,
24, 41, 42 and 43 are about nightly runs, studies and reports, and are tested where those are.
"""

from __future__ import annotations

import itertools
import random
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import naive
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
from support import Backfill, game, ts

AS_OF = ("--as-of", "2027-01-01")
ANY_SHARE = ("--max-rejected", "100%")
NOON = ts("2026-03-10 12:00:00")


@pytest.fixture
def rules(tmp_path: Path) -> Any:
    """Writes a ruleset of one's own: divisor 400 and K 32 unless said otherwise."""
    numbers = itertools.count()
    return lambda **wanted: support.own_rules(tmp_path / "rules" / f"own{next(numbers)}.toml", **wanted)


# ---------------------------------------------------------------- order


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("files", [1, 2])
def test_case_01_two_games_at_one_instant_go_by_id(
    run_backfill: Backfill, rules: Any, threads: str, first: int, files: int
) -> None:
    rows = [game("g1", NOON, "A", "B"), game("g2", NOON, "B", "C")]
    if first:
        rows.reverse()
    games: Any = rows if files == 1 else {"x.parquet": rows[:1], "y.parquet": rows[1:]}
    own = rules()
    for _ in range(2):
        out = run_backfill(games, *AS_OF, "--threads", threads, rules=own).ok()
        assert out.ratings() == {"A": 1516, "B": 1501, "C": 1483}


def test_case_02_file_names_and_row_groups_do_not_order(run_backfill: Backfill, tmp_path: Path) -> None:
    rng = random.Random(2)
    rows = [game(i, NOON + i // 3 * naive.HOUR_US, *rng.sample("ABCDE", 2)) for i in range(90)]
    expected = run_backfill(rows, *AS_OF).ok().rows("timeline")
    newest_first = rows[::-1]
    for names in (("part_1", "part_2", "part_10"), ("part_10", "part_1", "part_2"), ("c", "b", "a")):
        folder = tmp_path / "-".join(names)
        for i, name in enumerate(names):
            support.write(folder / f"{name}.parquet", newest_first[30 * i : 30 * i + 30], row_group_size=7)
        assert run_backfill(folder, *AS_OF).ok().rows("timeline") == expected
        files = sorted(folder.glob("*.parquet"), reverse=True)
        assert run_backfill(files, *AS_OF).ok().rows("timeline") == expected


def test_case_03_a_thousand_games_at_one_instant_stay_in_order_of_id(run_backfill: Backfill) -> None:
    rng = random.Random(3)
    ids = rng.sample(range(10_000), 1000)
    rows = [game(i, NOON, *rng.sample("ABCD", 2)) for i in ids]
    lines = run_backfill(rows, *AS_OF).ok().rows("timeline")
    assert [line["game_id"] for line in lines] == sorted(ids)
    assert [line["seq"] for line in lines] == list(range(1, 1001))


def test_case_04_the_end_of_a_game_decides(run_backfill: Backfill, rules: Any, tmp_path: Path) -> None:
    rows = [
        {"id": 1, "started_at": ts("2026-03-10 10:00"), "ended_at": ts("2026-03-10 18:00"), "w": "A", "l": "B"},
        {"id": 2, "started_at": ts("2026-03-10 11:00"), "ended_at": ts("2026-03-10 11:30"), "w": "C", "l": "A"},
    ]
    columns = tmp_path / "columns.toml"
    columns.write_text('[columns]\ngame_id = "id"\nplayed_at = "ended_at"\nwinner_id = "w"\nloser_id = "l"\n', encoding="utf-8")
    types = {"started_at": support.UTC_US, "ended_at": support.UTC_US}
    out = run_backfill(rows, *AS_OF, "--columns", str(columns), rules=rules(), types=types).ok()
    first, second = out.rows("timeline")
    assert (first["game_id"], second["game_id"]) == (2, 1)
    assert (second["winner_rating_before"], second["loser_rating_before"]) == (1484, 1500)


def test_case_05_both_ratings_are_read_before_either_is_written(run_backfill: Backfill, rules: Any) -> None:
    """With a very small divisor a rating read too late would show at once."""
    rows = [game(1, NOON, "A", "B"), game(2, NOON + 1, "A", "B")]
    out = run_backfill(rows, *AS_OF, rules=rules(divisor=40)).ok()
    assert out.changes() == {1: (16, -16), 2: (4, -4)}  # 32 / (1 + 10^(32/40)) = 4.38


# ---------------------------------------------------------------- weekly count


@pytest.mark.parametrize("chunk", ["month", "week", "day"])
def test_case_06_k_halves_for_the_51st_game_across_every_cut(run_backfill: Backfill, chunk: str) -> None:
    start = ts("2026-03-30")  # 48 games, then April
    rows = [game(i, start + (i - 1) * naive.HOUR_US, "A", f"x{i}") for i in range(1, 61)]
    lines = run_backfill(rows, *AS_OF, "--chunk", chunk).ok().rows("timeline")
    assert [line["winner_recent_games"] for line in lines] == list(range(60))
    assert [line["winner_k"] for line in lines] == [32] * 50 + [16] * 10
    assert {line["loser_k"] for line in lines} == {32}


def test_case_07_only_rated_games_of_either_side_count_and_each_player_for_himself(run_backfill: Backfill) -> None:
    extra: list[dict[str, Any]] = [
        {"voided": True},
        {"mode": "casual"},
        {"mode": "what"},
        {"cube": 3},
        {"loser_id": "A"},
        {"loser_id": None},
    ]
    rows = []
    for i in range(49):  # A wins every second one and loses the others
        sides = ("A", f"x{i}") if i % 2 else (f"x{i}", "A")
        rows.append(game(i, NOON + i * naive.HOUR_US, *sides, voided=False, mode="ranked", cube=1))
    rows += [rows[7], rows[8]]  # delivered twice
    rows += [
        game(100 + i, NOON + i, "A", "B", **({"voided": False, "mode": "ranked", "cube": 1} | more))
        if "loser_id" not in more
        else game(100 + i, NOON + i, "A", more["loser_id"], voided=False, mode="ranked", cube=1)
        for i, more in enumerate(extra)
    ]
    rows += [game(200 + i, NOON + (50 + i) * naive.HOUR_US, "A", "B", mode="ranked") for i in range(2)]
    lines = {r["game_id"]: r for r in run_backfill(rows, *AS_OF, *ANY_SHARE).ok().rows("timeline")}
    assert len(lines) == 51
    for i in range(49):
        mine, k = ("winner", "winner_k") if i % 2 else ("loser", "loser_k")
        assert (lines[i][f"{mine}_recent_games"], lines[i][k]) == (i, 32)
    assert (lines[200]["winner_recent_games"], lines[200]["winner_k"]) == (49, 32)
    assert (lines[201]["winner_recent_games"], lines[201]["winner_k"]) == (50, 16)
    assert [lines[i]["loser_recent_games"] for i in (200, 201)] == [0, 1]


def test_case_08_nothing_is_rounded_before_the_end(run_backfill: Backfill, rules: Any) -> None:
    """K 25 halved is 12.5; with the coefficient 1.5 of cube 8: 12.5 × 1.5 × 0.5 = 9.375."""
    own = rules(k=25, heavy=(50, 12.5), cube=True)
    starts = [{"player_id": p, "rating": 30_000 if p in "GH" else 1500} for p in "ABCDGH"]
    rows = [game(i, NOON + i, *sides, cube=1) for i, sides in enumerate([("G", "A")] * 50 + [("H", "B")] * 50)]
    rows += [game(200, NOON + naive.HOUR_US, "A", "B", cube=8), game(201, NOON + naive.HOUR_US, "C", "D", cube=8)]
    lines = {r["game_id"]: r for r in run_backfill(rows, *AS_OF, rules=own, starts=starts).ok().rows("timeline")}
    assert (lines[200]["winner_rating_before"], lines[200]["loser_rating_before"]) == (1500, 1500)
    assert (lines[200]["winner_k"], lines[200]["loser_k"]) == (12.5, 12.5)
    assert (lines[200]["winner_change"], lines[200]["loser_change"]) == (9, -9)
    assert (lines[201]["winner_change"], lines[201]["loser_change"]) == (19, -19)  # 18.75


# ---------------------------------------------------------------- rounding


def test_case_09_k_25_moves_equal_players_by_13_both_ways(run_backfill: Backfill, rules: Any) -> None:
    out = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=rules(name="k25", k=25)).ok()
    assert out.ratings() == {"A": 1513, "B": 1487}


def test_case_10_halves_go_away_from_zero_and_just_below_does_not(run_backfill: Backfill, rules: Any) -> None:
    """Equal players: the change before rounding is k / 2."""
    wanted = {25.0: 13, 5.0: 3, 1.0: 1, 0.9999999999999999: 0, 3.0: 2, 7.0: 4, 0.9999999999999998: 0, 2.9999999999999996: 1}
    for k, change in wanted.items():
        out = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=rules(k=k)).ok()
        assert out.changes() == {1: (change, -change)}, k


def test_case_11_a_change_of_nothing_is_shown_and_counts(run_backfill: Backfill, rules: Any) -> None:
    starts = [{"player_id": "A", "rating": 2300}, {"player_id": "B", "rating": 1500}]
    out = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=rules(heavy=(50, 16)), starts=starts).ok()
    assert out.changes() == {1: (0, 0)}
    assert {p["player_id"]: (p["rating"], p["games"]) for p in out.rows("players")} == {"A": (2300, 1), "B": (1500, 1)}
    again = [game(1, NOON, "A", "B"), game(2, NOON + 1, "A", "B")]
    out = run_backfill(again, *AS_OF, rules=rules(heavy=(50, 16)), starts=starts).ok()
    assert out.rows("timeline")[1]["loser_recent_games"] == 1


def test_case_12_the_gap_is_divided_exactly(run_backfill: Backfill, rules: Any) -> None:
    starts = [{"player_id": "A", "rating": 1600}, {"player_id": "B", "rating": 1500}]
    line = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=rules(), starts=starts).ok().rows("timeline")[0]
    assert line["winner_expected"] == pytest.approx(0.640065, abs=5e-7)
    assert line["winner_change"] == 12


# ---------------------------------------------------------------- late, voided, corrected


def test_case_13_a_voided_game_is_replayed_away_not_subtracted(run_backfill: Backfill, rules: Any) -> None:
    rows = [game(1, NOON, "A", "B", voided=True), game(2, NOON + 1, "A", "C", voided=False)]
    out = run_backfill(rows, *AS_OF, rules=rules()).ok()
    assert {"B": 1500} | out.ratings() == {"A": 1516, "B": 1500, "C": 1484}
    assert out.bins()["voided"] == 1
    before = run_backfill([r | {"voided": False} for r in rows], *AS_OF, rules=rules()).ok()
    assert before.ratings() == {"A": 1531, "B": 1484, "C": 1485}  # C never met B and moves too


def test_case_15_the_highest_revision_is_rated_once(run_backfill: Backfill, rules: Any) -> None:
    rows = [
        game("g1", NOON, "A", "B", revision=1),
        game("g1", NOON, "A", "B", revision=1),
        game("g1", NOON, "B", "A", revision=2),
    ]
    for order in itertools.permutations(rows):
        out = run_backfill(list(order), *AS_OF, rules=rules()).ok()
        assert out.ratings() == {"A": 1484, "B": 1516}
        assert out.bins()["duplicate"] == 2
    without = [{k: v for k, v in r.items() if k != "revision"} for r in rows]
    out = run_backfill(without, *AS_OF, *ANY_SHARE, rules=rules()).ok()
    assert out.bins()["rejected"]["conflicting_copies"] == 3
    assert out.refused() == [("games.parquet", i, "conflicting_copies") for i in range(3)]
    assert out.bins()["rated"] == 0


def test_case_16_an_older_revision_that_comes_again_changes_nothing(run_backfill: Backfill, rules: Any) -> None:
    old, new = game(1, NOON, "A", "B", revision=1), game(1, NOON, "B", "A", revision=2)
    for files in ({"1.parquet": [old], "2.parquet": [new], "3.parquet": [old]}, {"1.parquet": [new, old]}):
        out = run_backfill(files, *AS_OF, rules=rules()).ok()
        assert out.ratings() == {"A": 1484, "B": 1516}


def test_case_19_a_banned_players_games_go_both_ways(run_backfill: Backfill, rules: Any) -> None:
    rows = [game(1, NOON, "X", "A"), game(2, NOON + 1, "B", "X"), game(3, NOON + 2, "A", "B")]
    out = run_backfill(rows, *AS_OF, rules=rules(), excluded=["X"]).ok()
    assert out.ratings() == {"A": 1516, "B": 1484}
    assert (out.bins()["rated"], out.bins()["unrated"]) == (1, 2)


def test_case_20_a_game_from_the_future_is_held(run_backfill: Backfill, rules: Any) -> None:
    rows = [game(0, "2099-01-01", "A", "B")] + [game(i, NOON + i, "A", f"x{i}") for i in range(1, 11)]
    out = run_backfill(rows, *AS_OF, rules=rules()).ok()
    assert (out.bins()["rated"], out.bins()["held"]) == (10, 1)
    assert "B" not in out.ratings()
    later = run_backfill(rows, "--as-of", "2099-01-01", rules=rules()).ok()  # at the instant itself it is played
    assert (later.bins()["rated"], later.bins()["held"]) == (11, 0)
    assert run_backfill(rows, rules=rules()).ok().bins()["held"] == 1  # the run's own start


# ---------------------------------------------------------------- broken and empty input


def test_case_22_a_cut_file_stops_the_run_by_name_and_the_last_result_stays(run_backfill: Backfill, tmp_path: Path) -> None:
    good = support.write(tmp_path / "good.parquet", [game(1, NOON, "A", "B")])
    whole = support.write(tmp_path / "cut.parquet", [game(2, NOON + 1, "A", "B")])
    out = tmp_path / "out"
    run_backfill(good, *AS_OF, out=out).ok()
    published = (out / "current").resolve()
    before = {p: p.read_bytes() for p in sorted(published.rglob("*")) if p.is_file()}
    for size in (len(whole.read_bytes()) - 20, 0):
        whole.write_bytes(whole.read_bytes()[:size])
        failed = run_backfill([good, whole], *AS_OF, out=out)
        assert failed.code == 3, failed.text
        assert "cut.parquet" in failed.text
        assert (out / "current").resolve() == published
        assert {p: p.read_bytes() for p in sorted(published.rglob("*")) if p.is_file()} == before


def test_case_22_no_rows_is_fine_and_no_file_is_an_error(run_backfill: Backfill, tmp_path: Path) -> None:
    columns = ["game_id", "played_at", "winner_id", "loser_id"]
    types = {"game_id": pa.int64(), "winner_id": pa.string(), "loser_id": pa.string()}
    empty = support.write(tmp_path / "none.parquet", [], types, columns)
    out = run_backfill(empty, *AS_OF).ok()
    assert out.manifest()["rows_read"] == 0
    assert out.frame("players").height == out.frame("leaderboard").height == out.frame("timeline").height == 0
    (tmp_path / "mount").mkdir()
    for path in (tmp_path / "mount", tmp_path / "missing.parquet", tmp_path / "*.nothing"):
        failed = run_backfill(path, *AS_OF)
        assert failed.code == 3, failed.text
        assert not (failed.folder / "current").exists()


def test_case_22_in_a_process_of_its_own(run_backfill: Backfill, tmp_path: Path) -> None:
    whole = support.write(tmp_path / "cut.parquet", [game(2, NOON + 1, "A", "B")])
    whole.write_bytes(whole.read_bytes()[:-20])
    failed = run_backfill.process(whole, *AS_OF)
    assert failed.code == 3
    assert "cut.parquet" in failed.stderr
    assert "Traceback" not in failed.text
    assert not (failed.folder / "current").exists()


# ---------------------------------------------------------------- rules


def test_case_25_versions_are_half_open(run_backfill: Backfill, rules: Any) -> None:
    versions = [{"name": "v1", "from": "2026-01-01T00:00:00Z", "k": 32}, {"name": "v2", "from": "2026-07-01", "k": 20}]
    own = rules(versions=versions)
    rows = [
        game(0, "2025-12-31 23:59:59.999999", "Q", "R"),
        game(1, "2026-01-01", "A", "B"),
        game(2, "2026-06-30 23:59:59.999999", "C", "D"),
        game(3, "2026-07-01", "E", "F"),
    ]
    out = run_backfill(rows, *AS_OF, *ANY_SHARE, rules=own).ok()
    lines = [(r["game_id"], r["rule_version"], r["winner_change"]) for r in out.rows("timeline")]
    assert lines == [(1, "v1", 16), (2, "v1", 16), (3, "v2", 10)]
    assert out.refused() == [("games.parquet", 0, "before_first_rule_version")]


# winner, loser, points, experience of both: changes by convention (before: the `nardy` form, after: `fibs`)
MATCHES = [
    ((1500, 1500, 7, 0, 400), {"before": (26.4575, -5.2915), "after": (26.0871, -5.2915)}, 5e-5),
    ((1500, 1925, 7, 0, 10000), {"before": (41.533996, -8.306799), "after": (40.952520, -8.306799)}, 5e-7),
    ((1550, 1450, 13, 200, 150), {"before": (17.206649, -20.074423), "after": (16.461027, -19.328802)}, 5e-7),
    ((1500, 1500, 5, 399, 400), {"before": (4.516857, -4.472136), "after": (4.472136, -4.472136)}, 5e-7),
    ((1500, 1500, 1, 500, 500), {"before": (2.0, -2.0), "after": (2.0, -2.0)}, 0),
    ((1100, 1500, 3, 675, 950), {"before": (4.776783, -4.776783), "after": (4.776783, -4.776783)}, 5e-7),
]


def play_match(
    run_backfill: Backfill, convention: str, winner: int, loser: int, points: int, e_winner: int, e_loser: int
) -> support.Row:
    starts = [
        {"player_id": "W", "rating": float(winner), "experience": float(e_winner)},
        {"player_id": "L", "rating": float(loser), "experience": float(e_loser)},
    ]
    rows = [game(1, NOON, "W", "L", match_length=points)]
    ruleset = {"before": "nardy", "after": "fibs"}[convention]
    return run_backfill(rows, *AS_OF, rules=ruleset, starts=starts).ok().rows("timeline")[0]


@pytest.mark.parametrize("convention", ["before", "after"])
@pytest.mark.parametrize(("match", "changes", "tolerance"), MATCHES)
def test_case_26_27_28_matches_under_both_conventions(
    run_backfill: Backfill, convention: str, match: tuple[int, ...], changes: dict[str, Any], tolerance: float
) -> None:
    line = play_match(run_backfill, convention, *match)
    wanted = changes[convention]
    assert line["winner_change"] == pytest.approx(wanted[0], abs=tolerance)
    assert line["loser_change"] == pytest.approx(wanted[1], abs=tolerance)
    assert (line["winner_experience"], line["loser_experience"]) == match[3:]  # before the match in both


def test_case_28_400_points_in_a_match_to_17(run_backfill: Backfill) -> None:
    line = play_match(run_backfill, "before", 1900, 1500, 17, 500, 500)
    assert line["winner_expected"] == pytest.approx(0.869751, abs=5e-7)


@pytest.mark.parametrize("gap", [-1500, -400, -37, 0, 1, 250, 999])
def test_case_29_with_equal_k_the_changes_are_exact_opposites(run_backfill: Backfill, rules: Any, gap: int) -> None:
    starts = [{"player_id": "A", "rating": 1500 + gap}, {"player_id": "B", "rating": 1500}]
    for own in (rules(), rules(integer=False), "tavla42", "chess"):
        whole = own == "tavla42" or (own != "chess" and "half-away" in Path(own).read_text(encoding="utf-8"))
        table = starts if whole else [s | {"rating": float(s["rating"])} for s in starts]
        ((win, loss),) = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=own, starts=table).ok().changes().values()
        assert win == -loss
    line = play_match(run_backfill, "before", 1500 + gap, 1500, 9, 700, 900)
    assert line["winner_change"] == -line["loser_change"]


def test_case_30_the_kernel_gets_what_the_rule_file_says(run_backfill: Backfill, rules: Any) -> None:
    for k in (32, 40):
        line = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=rules(k=k)).ok().rows("timeline")[0]
        assert (line["winner_k"], line["winner_change"]) == (k, k / 2)


def test_case_31_the_cube_multiplies_the_change_and_a_gammon_does_not(run_backfill: Backfill) -> None:
    rows = [
        game(i, NOON, f"a{i}", f"b{i}", cube=2, result=result) for i, result in enumerate(("single", "gammon", "backgammon", None))
    ]
    assert set(run_backfill(rows, *AS_OF).ok().changes().values()) == {(19, -19)}  # 16 × 7/6 = 18.67
    since = [p for v, at in (("1.0.5", "01-02"), ("1.2.0", "01-03"), ("1.3.1", "01-04")) for p in ("--since", f"{v}=2026-{at}")]
    out = run_backfill(rows, *AS_OF, *since, rules="tavla42-history").ok()
    assert set(out.changes().values()) == {(19, -19)}


# ---------------------------------------------------------------- rows


def test_case_32_nobody_beats_himself(run_backfill: Backfill, rules: Any) -> None:
    rows = [game(1, NOON, "A", "A"), game(2, NOON + 1, "a", "A")]
    out = run_backfill(rows, *AS_OF, *ANY_SHARE, rules=rules()).ok()
    assert out.refused() == [("games.parquet", 0, "self_play")]
    assert {p["player_id"]: (p["rating"], p["games"]) for p in out.rows("players")} == {"A": (1484, 1), "a": (1516, 1)}
    merged = run_backfill(rows, *AS_OF, *ANY_SHARE, rules=rules(), aliases=[{"alias_id": "a", "player_id": "A"}]).ok()
    assert merged.bins()["rejected"]["self_play"] == 2  # after aliases


def test_case_33_impossible_cubes_and_lengths_are_refused_with_file_and_row(run_backfill: Backfill) -> None:
    cubes = [1, 3, 0, 1_712_345_678, 128, -2, 64]
    rows = [game(i, NOON + i, "A", "B", cube=c) for i, c in enumerate(cubes)]
    out = run_backfill({"x.parquet": rows[:2], "y.parquet": rows[2:]}, *AS_OF, *ANY_SHARE).ok()
    assert out.refused() == [
        ("x.parquet", 1, "bad_cube"),
        *(("y.parquet", i, "bad_cube") for i in range(4)),
    ]
    assert sorted(int(r["cube"]) for r in out.rows("rejected")) == sorted(cubes[1:6])  # their own values
    lengths = [-1, 0, None, 1000, 999, 1]
    rows = [game(i, NOON + i, "A", "B", match_length=n) for i, n in enumerate(lengths)]
    out = run_backfill(rows, *AS_OF, *ANY_SHARE, rules="nardy").ok()
    assert out.refused() == [("games.parquet", i, "bad_match_length") for i in range(4)]
    assert all(abs(p["rating"]) < 3000 for p in out.rows("players"))


def test_case_33_too_many_refused_rows_stop_the_run_and_are_written_out_all_the_same(run_backfill: Backfill) -> None:
    rows = [game(i, NOON + i, "A", "B", cube=3 if i < 2 else 1) for i in range(100)]
    failed = run_backfill(rows, *AS_OF)
    assert failed.code == 3
    assert not failed.current.exists()
    written = [p for p in failed.folder.rglob("*rejected*.parquet") if "award" not in p.name]
    assert len(written) == 1
    assert pl.read_parquet(written[0]).get_column("row").sort().to_list() == [0, 1]
    assert run_backfill(rows, *AS_OF, "--max-rejected", "2%").ok().bins()["rejected"]["bad_cube"] == 2
    assert run_backfill(rows, *AS_OF, "--max-rejected", "0.02").ok().bins()["rated"] == 98


@pytest.mark.parametrize("old_name", ["a_old.parquet", "z_old.parquet"])
def test_case_34_a_column_that_old_files_lack_is_still_read_from_new_ones(run_backfill: Backfill, old_name: str) -> None:
    files = {old_name: [game(1, NOON, "A", "B")], "m_new.parquet": [game(2, NOON + 1, "C", "D", cube=64, mode="ranked")]}
    assert run_backfill(files, *AS_OF).ok().changes() == {1: (16, -16), 2: (32, -32)}


def test_case_34_a_file_without_a_needed_column_stops_the_run(run_backfill: Backfill) -> None:
    broken = {k: v for k, v in game(2, NOON + 1, "C", "D").items() if k != "loser_id"}
    failed = run_backfill({"a.parquet": [game(1, NOON, "A", "B")], "b.parquet": [broken]}, *AS_OF)
    assert failed.code == 3
    assert "b.parquet" in failed.text
    assert "loser_id" in failed.text
    without_length = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules="fibs")
    assert without_length.code == 3
    assert "match_length" in without_length.text


def test_case_35_names_are_not_identity(run_backfill: Backfill, rules: Any) -> None:
    names = ["Ann", "ann ", "ann", "Zo\u00eb", "Zoe\u0308", "007", "7", " 7", ""]
    rows = [game(i, NOON + i, name, "rest") for i, name in enumerate(names)]
    out = run_backfill(rows, *AS_OF, rules=rules()).ok()
    games = {p["player_id"]: p["games"] for p in out.rows("players")}
    assert games == dict.fromkeys(names, 1) | {"rest": len(names)}


def test_case_35_numbers_and_strings_are_never_mixed(run_backfill: Backfill) -> None:
    failed = run_backfill({"a.parquet": [game(1, NOON, "7", "8")], "b.parquet": [game(2, NOON, 7, 8)]}, *AS_OF)
    assert failed.code == 3
    assert "b.parquet" in failed.text or "a.parquet" in failed.text
    failed = run_backfill([game(1, NOON, 7.0, 8.0)], *AS_OF)
    assert failed.code == 3
    assert "winner_id" in failed.text or "loser_id" in failed.text


def test_case_36_an_unknown_outcome_is_refused_and_no_draw(run_backfill: Backfill, rules: Any, tmp_path: Path) -> None:
    columns = tmp_path / "columns.toml"
    columns.write_text(
        "[columns]\n"
        "winner_id = \"case outcome when '1' then first when '2' then second end\"\n"
        "loser_id = \"case outcome when '1' then second when '2' then first end\"\n",
        encoding="utf-8",
    )
    rows = [
        {"game_id": i, "played_at": NOON + i, "first": "A", "second": "B", "outcome": outcome}
        for i, outcome in enumerate(["1", "2", "?", None])
    ]
    out = run_backfill(rows, *AS_OF, *ANY_SHARE, "--columns", str(columns), rules=rules()).ok()
    assert out.refused() == [("games.parquet", i, "missing_id") for i in (2, 3)]
    assert [(r["winner_id"], r["is_draw"]) for r in out.rows("timeline")] == [("A", False), ("B", False)]


def test_case_37_players_who_only_stand_in_side_tables_do_no_harm(run_backfill: Backfill, rules: Any) -> None:
    """Ids below, between and above those of the games, in every side table, move nobody else."""
    rows = [game(i, NOON + i, 10, 20) for i in range(3)]
    plain = run_backfill(rows, *AS_OF, rules=rules()).ok()
    strangers = [-(2**62), 0, 15, 2**62]
    out = run_backfill(
        rows,
        *AS_OF,
        rules=rules(),
        excluded=[5, 2**63 - 1],
        aliases=[{"alias_id": 6, "player_id": 16}, {"alias_id": -7, "player_id": 6}],
        starts=[{"player_id": p, "rating": 1700} for p in strangers],
        awards=[{"award_id": 1, "awarded_at": NOON, "player_id": -9, "points": 5, "reason": "x"}],
    ).ok()
    assert out.rows("timeline") == plain.rows("timeline")
    assert out.ratings() == plain.ratings() | dict.fromkeys(strangers, 1700) | {-9: 1505}


def test_case_38_the_mapping_voids_aborted_games(run_backfill: Backfill, rules: Any, tmp_path: Path) -> None:
    columns = tmp_path / "columns.toml"
    columns.write_text(
        "[columns]\nvoided = \"coalesce(state in ('aborted', 'walkover'), false)\"\nended_by = \"state\"\n", encoding="utf-8"
    )
    states = ["finished", "aborted", "walkover", "resigned", "timed out", None]
    rows = [game(i, NOON + i, "A", f"x{i}", state=s) for i, s in enumerate(states)]
    out = run_backfill(rows, *AS_OF, "--columns", str(columns), rules=rules(), types={"state": pa.string()}).ok()
    assert [r["game_id"] for r in out.rows("timeline")] == [0, 3, 4, 5]
    assert (out.bins()["rated"], out.bins()["voided"]) == (4, 2)


def test_bins_hold_every_reason_also_at_nothing(run_backfill: Backfill, rules: Any) -> None:
    bins = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=rules()).ok().bins()
    assert set(bins) == {"rated", "unrated", "voided", "held", "duplicate", "rejected"}
    assert bins["rejected"] == dict.fromkeys(naive.REASONS, 0)


# ---------------------------------------------------------------- calibration


def test_case_39_even_games_have_no_favourite(run_backfill: Backfill, rules: Any) -> None:
    starts = [{"player_id": p, "rating": 1600 if p in "EH" else 1500} for p in "ABCDEFGH"]
    rows = [game(i, NOON + i, *sides) for i, sides in enumerate(("AB", "CD", "EF", "GH"))]
    curve = run_backfill(rows, *AS_OF, rules=rules(), starts=starts).ok().frame("calibration")
    for axis in ("gap", "probability"):
        bins = curve.filter((pl.col("slice") == "all") & (pl.col("slice_value") == "") & (pl.col("axis") == axis))
        assert bins["games"].sum() == 2
        assert bins["favourite_wins"].sum() == 1
        assert bins.filter(pl.col("games") == 0)["real_rate"].null_count() == bins.filter(pl.col("games") == 0).height
    row = curve.filter((pl.col("slice") == "all") & (pl.col("axis") == "gap") & (pl.col("games") > 0)).to_dicts()
    assert [(r["bin_low"], r["real_rate"]) for r in row] == [(100, 0.5)]
    assert row[0]["expected_rate"] == pytest.approx(0.640065, abs=5e-7)


def test_case_40_ratings_before_the_game_know_no_favourite_among_newcomers(run_backfill: Backfill, rules: Any) -> None:
    rows = [game(i, NOON + i, f"w{i}", f"l{i}") for i in range(3)]
    curve = run_backfill(rows, *AS_OF, rules=rules()).ok().frame("calibration")
    assert curve["games"].sum() == 0
    assert curve["favourite_wins"].sum() == 0


# ---------------------------------------------------------------- for the reader


def test_case_44_within_a_tie_more_games_first_then_the_id(run_backfill: Backfill, rules: Any) -> None:
    """All end on 1500: a draw of equals moves nobody. Minimum games, length and activity window as asked."""
    day = naive.DAY_US
    rows = [
        game(1, NOON, "c", "d", is_draw=True),
        game(2, NOON + 1, "b", "a", is_draw=True),
        game(3, NOON + 2, "b", "e", is_draw=True),
        game(4, NOON + 10 * day, "e", "b", is_draw=True),
    ]
    own = rules()
    board = run_backfill(rows, *AS_OF, rules=own).ok().rows("leaderboard")
    assert [(r["rank"], r["player_id"], r["games"]) for r in board] == [
        (1, "b", 3),
        (1, "e", 2),
        (1, "a", 1),
        (1, "c", 1),
        (1, "d", 1),
    ]
    assert set(board[0]) == {"rank", "player_id", "rating", "games", "wins", "losses", "last_played_at"}
    asked = run_backfill(rows, *AS_OF, "--min-games", "2", rules=own).ok().rows("leaderboard")
    assert [r["player_id"] for r in asked] == ["b", "e"]
    asked = run_backfill(rows, *AS_OF, "--top", "3", rules=own).ok().rows("leaderboard")
    assert [r["player_id"] for r in asked] == ["b", "e", "a"]
    asked = run_backfill(rows, *AS_OF, "--active-days", "9", rules=own).ok().rows("leaderboard")
    assert [r["player_id"] for r in asked] == ["b", "e"]


def test_case_44_ranks_leave_a_hole_after_a_tie(run_backfill: Backfill, rules: Any) -> None:
    rows = [game(1, NOON, "a", "x"), game(2, NOON, "b", "y"), game(3, NOON, "m", "n", is_draw=True)]
    board = run_backfill(rows, *AS_OF, rules=rules()).ok().rows("leaderboard")
    assert [(r["rank"], r["player_id"], r["rating"]) for r in board] == [
        (1, "a", 1516),
        (1, "b", 1516),
        (3, "m", 1500),
        (3, "n", 1500),
        (5, "x", 1484),
        (5, "y", 1484),
    ]


def test_case_44_the_peak_is_recomputed(run_backfill: Backfill, rules: Any) -> None:
    rows = [game(i, NOON + i, *sides) for i, sides in enumerate(["AB", "AC", "DA", "EA"])]
    out = run_backfill(rows, *AS_OF, rules=rules()).ok()
    a = next(p for p in out.rows("players") if p["player_id"] == "A")
    lines = out.rows("timeline")
    assert a["peak_rating"] == lines[2]["loser_rating_before"] > a["rating"]
    assert a["peak_at"] == NOON + 1
    b = next(p for p in out.rows("players") if p["player_id"] == "B")
    assert (b["peak_rating"], b["peak_at"]) == (1484, NOON)  # after a game, not the start rating


def test_case_45_rating_of_the_day_by_utc_half_open_and_the_last_game_by_time_and_id(run_backfill: Backfill, rules: Any) -> None:
    rows = [
        game(3, "2026-03-10 23:59:59.999999", "C", "A"),
        game(2, "2026-03-10 23:59:59.999999", "A", "B"),
        game(1, "2026-03-11 00:00:00", "A", "D"),
    ]
    out = run_backfill(rows, *AS_OF, rules=rules()).ok()
    query = """
        select cast(timezone('UTC', played_at) as date) as day, arg_max(rating_after, seq) as rating, max(seq) as seq
        from player_timeline where player_id = 'A' and game_id is not null group by day order by day
    """
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        with duckdb.connect(str(out.current / "ratings.duckdb"), read_only=True) as con:
            con.execute(f"set timezone = '{zone}'")
            days = con.execute(query).fetchall()
        first, second = days
        assert str(first[0]) == "2026-03-10"
        assert str(second[0]) == "2026-03-11"
        assert (first[2], second[2]) == (2, 3)
        assert first[1] == 1499  # +16, then −17 as the favourite by 16
        assert second[1] == 1515


def test_case_45_player_timeline_is_a_chain_through_games_and_awards(run_backfill: Backfill) -> None:
    rng = random.Random(45)
    rows = [game(i, NOON + i // 2, *rng.sample("ABCD", 2), is_draw=rng.random() < 0.2) for i in range(60)]
    awards = [
        {"award_id": i, "awarded_at": NOON + 7 * (i % 3), "player_id": "ABC"[i % 3], "points": 50 - i, "reason": "cup"}
        for i in range(6)
    ]
    out = run_backfill(rows, *AS_OF, awards=awards).ok()
    with duckdb.connect(str(out.current / "ratings.duckdb"), read_only=True) as con:
        lines = con.sql("select * from player_timeline").pl()
        boards = con.sql("select * from leaderboard").pl()
    assert set(lines.columns) == {
        *("player_id", "seq", "played_at", "game_id", "opponent_id", "score", "rating_before", "change"),
        *("rating_after", "expected", "k", "stake", "games", "recent_games", "experience", "rule_version"),
        *("award_id", "points"),
    }
    assert boards.to_dicts() == out.frame("leaderboard").to_dicts()
    assert lines.filter(pl.col("game_id").is_not_null()).height == 120
    assert set(lines["score"].drop_nulls().unique()) == {0.0, 0.5, 1.0}
    ratings = out.ratings()
    for player in "ABCD":
        mine = lines.filter(pl.col("player_id") == player)
        games = mine.filter(pl.col("game_id").is_not_null()).sort("seq").to_dicts()
        twin_awards = sorted((a["awarded_at"], a["award_id"], a["points"]) for a in awards if a["player_id"] == player)
        rating = 1500
        for line in games:
            at = (line["played_at"] - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000
            while twin_awards and twin_awards[0][0] <= round(at):
                rating += twin_awards.pop(0)[2]
            assert line["rating_before"] == rating
            rating += line["change"]
            assert line["rating_after"] == rating
        rating += sum(a[2] for a in twin_awards)
        assert ratings[player] == rating
        assert [line["games"] for line in games] == list(range(len(games)))


def test_other_columns_never_influence_a_rating(run_backfill: Backfill, rules: Any) -> None:
    rows = [game(i, NOON + i, "A", "B") for i in range(5)]
    noisy = [r | {"country": "RS", "k": 99, "rating": i, "seq": -i} for i, r in enumerate(rows)]
    own = rules()
    assert run_backfill(rows, *AS_OF, rules=own).ok().rows("timeline") == (
        run_backfill(noisy, *AS_OF, rules=own).ok().rows("timeline")
    )


def test_the_same_in_a_process_of_its_own_in_another_zone(run_backfill: Backfill, tmp_path: Path) -> None:
    rng = random.Random(1)
    rows = [game(i, NOON + i // 3 * naive.HOUR_US, *rng.sample("ABCDE", 2)) for i in range(60)]
    games = support.write(tmp_path / "games.parquet", rows)
    here = run_backfill(games, *AS_OF).ok()
    there = run_backfill.process(games, *AS_OF, env={"TZ": "America/New_York"}).ok()
    for name in ("timeline", "players", "leaderboard"):
        assert there.frame(name).equals(here.frame(name)), name
    shutil.copy(games, tmp_path / "again.parquet")
    twice = run_backfill([tmp_path / "again.parquet", games], *AS_OF).ok()
    assert twice.bins()["duplicate"] == 60
    assert twice.frame("timeline").equals(here.frame("timeline"))
    assert pq.read_schema(next((here.current / "timeline").glob("*.parquet"))).field("seq").type == pa.int64()
