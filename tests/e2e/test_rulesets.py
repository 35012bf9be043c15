"""Rulesets of one's own through the command: every key has the effect that `docs/rulesets.md` promises.

A, B, C are players; start 1500, divisor 400, k 32, integer changes unless said otherwise, so equals move by 16.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import naive
import polars as pl
import pytest
from support import Backfill, Out, Row, game, iso, ts
from support_nightly import command

from eloreplay.rules import SHIPPED, load_undated, shipped_rulesets

AS_OF = ("--as-of", "2027-01-01")
NOON = ts("2026-03-10 12:00:00")
HOUR = 3_600_000_000
TABLES = ("timeline", "players", "leaderboard", "awards", "calibration", "summary")


@pytest.fixture
def own(tmp_path: Path) -> Any:
    """Writes a ruleset: `version` are the lines of its one version, `head` and `tail` what stands before and after it."""
    written = []

    def write(version: str = "k = 32", head: str = "", tail: str = "", integer: bool = True, start: float = 1500) -> Path:
        path = tmp_path / f"own{len(written)}.toml"
        written.append(path)
        rounding = "half-away-from-zero" if integer else "none"
        text = f'name = "own"\nstart = {start}\nrounding = "{rounding}"\n{head}\n[[version]]\nname = "1"\ndivisor = 400\n{version}\n{tail}\n'
        path.write_text(text, encoding="utf-8")
        return path

    return write


def streak(n: int, start: int = NOON) -> list[Row]:
    """A beats n newcomers, one an hour."""
    return [game(i, start + i * HOUR, "A", f"N{i:03}") for i in range(n)]


def same(a: Out, b: Out) -> None:
    for name in TABLES:
        assert a.frame(name).equals(b.frame(name), null_equal=True), name
        assert a.frame(name).schema == b.frame(name).schema, name


# ---------------------------------------------------------------- k


def test_k_by_games(run_backfill: Backfill, own: Any) -> None:
    rules = own("k_by_games = [{ from = 0, k = 40 }, { from = 2, k = 20 }, { from = 5, k = 10 }]")
    rows = run_backfill(streak(7), *AS_OF, rules=rules).ok().rows("timeline")
    assert [r["winner_k"] for r in rows] == [40, 40, 20, 20, 20, 10, 10]
    assert {r["loser_k"] for r in rows} == {40}


def test_games_of_a_start_rating_count_for_k_by_games(run_backfill: Backfill, own: Any) -> None:
    rules = own("k_by_games = [{ from = 0, k = 40 }, { from = 30, k = 20 }]")
    starts = [{"player_id": "A", "rating": 1600.0, "games": 29}]
    rows = run_backfill(streak(2), *AS_OF, rules=rules, starts=starts).ok().rows("timeline")
    assert [(r["winner_games"], r["winner_k"]) for r in rows] == [(29, 40), (30, 20)]


def test_k_by_rating_and_the_first_step_holds_below_it(run_backfill: Backfill, own: Any) -> None:
    rules = own("k_by_rating = [{ from = 1500, k = 32 }, { from = 1516, k = 8 }]")
    out = run_backfill([*streak(2), game(9, NOON + 9 * HOUR, "B", "N000")], *AS_OF, rules=rules).ok()
    rows = out.rows("timeline")
    assert [r["winner_k"] for r in rows] == [32, 8, 32]
    # N000 has lost and stands below the first step
    assert rows[2]["loser_rating_before"] == 1484
    assert rows[2]["loser_k"] == 32


def test_a_heavy_week_by_factor_reduces_whatever_k_there_is(run_backfill: Backfill, own: Any) -> None:
    rules = own(
        "k_by_games = [{ from = 0, k = 40 }, { from = 4, k = 20 }]\nheavy = { games = 3, factor = 0.5 }", "count = { hours = 3 }"
    )
    rows = run_backfill([*streak(6), game(9, NOON + 20 * HOUR, "A", "B")], *AS_OF, rules=rules).ok().rows("timeline")
    assert [r["winner_recent_games"] for r in rows] == [0, 1, 2, 3, 3, 3, 0]
    assert [r["winner_k"] for r in rows] == [40, 40, 40, 20, 10, 10, 20]


def test_a_ramp_of_one_s_own(run_backfill: Backfill, own: Any) -> None:
    rules = own('k = 10\nramp = { height = 3, length = 20, experience = "before" }', integer=False)
    rows = [row | {"match_length": 5} for row in streak(6)]
    found = run_backfill(rows, *AS_OF, rules=rules).ok().rows("timeline")
    assert [r["winner_k"] for r in found] == pytest.approx([30, 25, 20, 15, 10, 10])


def test_matches_count_for_experience_also_without_a_ramp(run_backfill: Backfill, own: Any) -> None:
    rules = own('k = 1\nstake = { base = 4, match_length = "sqrt" }', integer=False)
    out = run_backfill([row | {"match_length": 9} for row in streak(2)], *AS_OF, rules=rules).ok()
    assert {p["player_id"]: p["experience"] for p in out.rows("players")} == {"A": 18, "N000": 9, "N001": 9}
    assert [r["stake"] for r in out.rows("timeline")] == [12, 12]
    assert [r["winner_experience"] for r in out.rows("timeline")] == [None, None]


# ---------------------------------------------------------------- bounds, stake, advantage


def test_floor_and_cap_stop_a_change_and_move_nobody_back(run_backfill: Backfill, own: Any) -> None:
    rows = [game(1, NOON, "A", "B"), game(2, NOON + HOUR, "A", "B"), game(3, NOON + 2 * HOUR, "B", "A")]
    starts = [{"player_id": "C", "rating": 1400.0}, {"player_id": "D", "rating": 1600.0}]
    rows += [game(4, NOON + 3 * HOUR, "D", "C"), game(5, NOON + 4 * HOUR, "C", "D")]
    out = run_backfill(rows, *AS_OF, rules=own(head="floor = 1480\ncap = 1520"), starts=starts).ok()
    assert out.changes() == {1: (16, -16), 2: (4, -4), 3: (18, -18), 4: (0, 0), 5: (24, -24)}
    assert out.ratings() == {"A": 1502, "B": 1498, "C": 1424, "D": 1576}


def test_the_largest_change_of_a_game(run_backfill: Backfill, own: Any) -> None:
    starts = [{"player_id": "B", "rating": 2000.0}]
    awards = [{"award_id": 1, "awarded_at": NOON - 1, "player_id": "A", "points": 50.0, "reason": None}]
    out = run_backfill(
        [*streak(1), game(2, NOON + HOUR, "C", "B")], *AS_OF, rules=own(head="max_change = 20"), starts=starts, awards=awards
    )
    assert out.ok().changes() == {0: (14, -14), 2: (20, -20)}
    # an award is no game
    assert out.rows("awards")[0]["change"] == 50


def test_weight_multiplies_the_stake(run_backfill: Backfill, own: Any) -> None:
    weights = [0.5, 2.0, None, 1.0]
    rows = [game(i, NOON + i, f"A{i}", f"B{i}", weight=w) for i, w in enumerate(weights)]
    out = run_backfill(rows, *AS_OF, rules=own("k = 32\nstake = { weight = true }")).ok()
    assert [c[0] for c in out.changes().values()] == [8, 32, 16, 16]
    ignored = run_backfill(rows, *AS_OF, rules=own()).ok()
    assert [c[0] for c in ignored.changes().values()] == [16] * 4
    assert {r["weight"] for r in ignored.rows("timeline")} == {None}


def test_an_advantage_counts_for_the_expectation_only(run_backfill: Backfill, own: Any) -> None:
    rows = [game(1, NOON, "A", "B", advantage=100.0), game(2, NOON, "C", "D", advantage=-100.0), game(3, NOON, "E", "F")]
    out = run_backfill(rows, *AS_OF, rules=own(head="advantage = true")).ok()
    assert out.changes() == {1: (12, -12), 2: (20, -20), 3: (16, -16)}
    assert {r["winner_rating_before"] for r in out.rows("timeline")} == {1500}


def test_gammons_multiply_where_the_rules_say_so(run_backfill: Backfill, own: Any) -> None:
    rows = [game(i, NOON, f"A{i}", f"B{i}", result=r) for i, r in enumerate(["single", "gammon", "backgammon", None])]
    rules = own("k = 32\nstake = { result = { gammon = 2, backgammon = 3 } }")
    assert [c[0] for c in run_backfill(rows, *AS_OF, rules=rules).ok().changes().values()] == [16, 32, 48, 16]


def test_a_draw_takes_from_the_favourite(run_backfill: Backfill, own: Any) -> None:
    starts = [{"player_id": "A", "rating": 1600.0}]
    rows = [game(1, NOON, "A", "B", is_draw=True), game(2, NOON, "C", "D", is_draw=True), game(3, NOON + 1, "B", "A", is_draw=True)]
    out = run_backfill(rows, *AS_OF, rules=own(), starts=starts).ok()
    assert out.changes() == {1: (-4, 4), 2: (0, 0), 3: (4, -4)}
    players = {p["player_id"]: (p["wins"], p["losses"], p["draws"]) for p in out.rows("players")}
    assert players == {"A": (0, 0, 2), "B": (0, 0, 2), "C": (0, 0, 1), "D": (0, 0, 1)}


# ---------------------------------------------------------------- awards


def award(award_id: Any, when: int, player: str, points: float, reason: str | None = None) -> Row:
    return {"award_id": award_id, "awarded_at": when, "player_id": player, "points": points, "reason": reason}


def test_awards_come_before_the_games_of_their_instant_in_order_of_id(run_backfill: Backfill, own: Any) -> None:
    # text ids by their bytes: a10 before a2
    awards = [award("a2", NOON, "A", -150.0), award("a10", NOON, "A", 100.0), award("b", NOON + 1, "Z", 5.0)]
    out = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=own(), awards=awards).ok()
    applied = [(r["award_id"], r["rating_before"], r["change"]) for r in out.rows("awards")]
    assert applied == [("a10", 1500, 100), ("a2", 1600, -150), ("b", 1500, 5)]
    (row,) = out.rows("timeline")
    assert (row["winner_rating_before"], row["winner_change"]) == (1450, 18)
    players = {p["player_id"]: p for p in out.rows("players")}
    assert (players["A"]["peak_rating"], players["A"]["peak_at"], players["A"]["games"]) == (1600, NOON, 1)
    # an award makes a player known, but puts nobody on the board
    assert players["Z"] == dict.fromkeys(players["Z"]) | {
        "player_id": "Z", "rating": 1505, "games": 0, "wins": 0, "losses": 0, "draws": 0, "peak_rating": 1505, "peak_at": NOON + 1,
    }  # fmt: skip
    assert [(r["player_id"], r["rating"]) for r in out.rows("leaderboard")] == [("B", 1482), ("A", 1468)]


def test_bins_of_awards(run_backfill: Backfill, own: Any) -> None:
    awards = [
        award(1, NOON, "A", 10.0), award(1, NOON, "A", 10.0),
        award(2, NOON, "A", 10.0), award(2, NOON, "A", 11.0),
        award(3, ts("2027-01-01 00:00:00"), "A", 1.0), award(4, ts("2027-01-01 00:00:00") + 1, "A", 1.0),
        award(5, NOON, "A", 1.5), award(6, NOON, "X", 9.0), award(7, NOON, None, 9.0),
    ]  # fmt: skip
    everything = (*AS_OF, "--max-rejected", "1")
    out = run_backfill([game(1, NOON, "A", "B")], *everything, rules=own(), awards=awards, excluded=["X"]).ok()
    bins = out.manifest()["award_bins"]
    assert bins == {
        "applied": 2, "unrated": 1, "held": 1, "duplicate": 1,
        "rejected": {"missing_id": 1, "missing_time": 0, "conflicting_copies": 2, "bad_points": 1},
    }  # fmt: skip
    assert out.ratings() == {"A": 1500 + 10 + 16 + 1, "B": 1484}
    floats = run_backfill([game(1, NOON, "A", "B")], *everything, rules=own(integer=False), awards=awards).ok()
    assert floats.manifest()["award_bins"]["rejected"]["bad_points"] == 0


def test_a_floor_holds_against_an_award(run_backfill: Backfill, own: Any) -> None:
    out = run_backfill(streak(1), *AS_OF, rules=own(head="floor = 1400"), awards=[award(1, NOON, "Z", -500.0)])
    assert out.ok().rows("awards")[0]["change"] == -100


# ---------------------------------------------------------------- players that come, go and merge


def history(seed: int, n: int = 240, players: str = "ABCDEFGH") -> list[Row]:
    """Games full of ties, over two months."""
    rng = random.Random(seed)
    instants = [ts("2026-02-20 00:00:00") + rng.randrange(0, 40 * 24) * HOUR for _ in range(n // 2)]
    return [
        game(i, rng.choice(instants), *rng.sample(players, 2), is_draw=rng.random() < 0.1, match_length=rng.choice([1, 3, 5, 7]))
        for i in range(n)
    ]


@pytest.mark.parametrize("rules", ["chess", "nardy"])
def test_merge_then_unmerge_exclude_then_include_void_then_restore(run_backfill: Backfill, rules: str, tmp_path: Path) -> None:
    rows, out = history(1), tmp_path / "out"
    before = run_backfill(rows, *AS_OF, rules=rules).ok()
    steps: list[tuple[Any, dict[str, Any]]] = [
        (rows, {"aliases": [{"alias_id": "B", "player_id": "A"}, {"alias_id": "C", "player_id": "B"}]}),
        (rows, {"excluded": ["D"]}),
        ([*rows, *(row | {"revision": 1, "voided": True} for row in rows[:50])], {}),
    ]
    back = [rows, rows, [*steps[2][0], *(row | {"revision": 2, "voided": False} for row in rows[:50])]]
    for (games, tables), undone in zip(steps, back, strict=True):
        changed = run_backfill(games, *AS_OF, "--max-rejected", "1", rules=rules, out=out, **tables).ok()
        assert not changed.frame("players").equals(before.frame("players"))
        restored = run_backfill(undone, *AS_OF, rules=rules, out=out).ok()
        same(before, restored)


def test_a_merged_player_has_both_pasts(run_backfill: Backfill, own: Any) -> None:
    rows = [game(1, NOON, "old", "B"), game(2, NOON + 1, "new", "C"), game(3, NOON + 2, "old", "new")]
    aliases = [{"alias_id": "old", "player_id": "new"}]
    out = run_backfill(rows, *AS_OF, "--max-rejected", "1", rules=own(), aliases=aliases).ok()
    assert out.bins()["rejected"]["self_play"] == 1
    assert [(r["winner_id"], r["winner_rating_before"], r["winner_games"]) for r in out.rows("timeline")] == [
        ("new", 1500, 0), ("new", 1516, 1),
    ]  # fmt: skip
    assert "old" not in out.ratings()


def test_start_ratings_for_a_site_without_its_full_history(run_backfill: Backfill, own: Any) -> None:
    starts = [{"player_id": "A", "rating": 1700.0, "games": 120}, {"player_id": "Z", "rating": 1450.0, "games": None}]
    out = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=own(), starts=starts).ok()
    players = {p["player_id"]: p for p in out.rows("players")}
    assert (players["A"]["rating"], players["A"]["games"], players["A"]["wins"]) == (1708, 121, 1)
    assert (players["Z"]["rating"], players["Z"]["games"], players["Z"]["peak_rating"]) == (1450, 0, None)
    assert [r["player_id"] for r in out.rows("leaderboard")] == ["A", "B"]
    half = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=own(), starts=[{"player_id": "A", "rating": 1700.5}])
    assert half.code == 3
    assert "whole number" in half.text


def test_pools_have_ratings_awards_adjustments_and_boards_of_their_own(run_backfill: Backfill, own: Any) -> None:
    tail = '[[adjustment]]\nname = "gift"\nat = 2026-03-11\nadd = 10\n[[band]]\nname = "low"\nfrom = 0\n[[band]]\nname = "high"\nfrom = 1520'
    rows = [game(1, NOON, "A", "B", ladder="x"), game(2, NOON + 1, "B", "A", ladder="y")]
    rows += [game(3, NOON + 48 * HOUR, "A", "B", ladder="x")]
    awards = [award(1, NOON + 2, "A", 4.0) | {"ladder": "y"}]
    out = run_backfill(rows, *AS_OF, "--pool", "ladder", rules=own(tail=tail), awards=awards).ok()
    ratings = {(p["pool"], p["player_id"]): p["rating"] for p in out.rows("players")}
    assert ratings == {("x", "A"): 1541, ("x", "B"): 1479, ("y", "A"): 1498, ("y", "B"): 1526}
    board = [(r["pool"], r["rank"], r["player_id"], r["band"]) for r in out.rows("leaderboard")]
    assert board == [("x", 1, "A", "high"), ("x", 2, "B", "low"), ("y", 1, "B", "high"), ("y", 2, "A", "low")]
    summary = out.frame("summary").filter(statistic="players", slice="band")
    assert summary.select("pool", "slice_value", "value").rows() == [
        ("x", "high", 1), ("x", "low", 1), ("y", "high", 1), ("y", "low", 1),
    ]  # fmt: skip


# ---------------------------------------------------------------- bands


def test_bands_stand_on_the_board_and_in_the_distribution_when_the_rules_name_them(run_backfill: Backfill, own: Any) -> None:
    bands = "".join(f'[[band]]\nname = "{n}"\nfrom = {f}\n' for n, f in (("bronze", 1490), ("silver", 1516), ("gold", 1800)))
    rows = [game(1, NOON, "A", "B"), game(2, NOON, "C", "D", is_draw=True)]
    out = run_backfill(rows, *AS_OF, rules=own(tail=bands)).ok()
    board = out.frame("leaderboard")
    assert board.columns == ["rank", "player_id", "rating", "games", "wins", "losses", "last_played_at", "band"]
    assert dict(board.select("player_id", "band").rows()) == {"A": "silver", "C": "bronze", "D": "bronze", "B": None}
    players = out.frame("players")
    assert players.columns[-1] == "band"
    assert dict(players.select("player_id", "band").rows()) == {"A": "silver", "C": "bronze", "D": "bronze", "B": None}
    found = out.frame("summary").filter(statistic="players", slice="band")
    assert dict(found.select("slice_value", "value").rows()) == {"": 1, "bronze": 2, "silver": 1, "gold": 0}
    without = run_backfill(rows, *AS_OF, rules=own()).ok()
    assert "band" not in without.frame("leaderboard").columns
    assert "band" not in without.frame("players").columns
    assert without.frame("summary").filter(slice="band").is_empty()


# ---------------------------------------------------------------- dated adjustments


def adjustment(name: str, at: int, keys: str) -> str:
    return f'[[adjustment]]\nname = "{name}"\nat = "{iso(at)}"\n{keys}\n'


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("add = 10", {"A": 1526, "B": 1494}),
        ("add = -2.5", {"A": 1513, "B": 1481}),
        ("pull_to = 1500\nfactor = 0.5", {"A": 1508, "B": 1492}),
        ("pull_to = 1500\nfactor = 0", {"A": 1500, "B": 1500}),
        ("floor = 1490", {"A": 1516, "B": 1490}),
        ("pull_to = 1400\nfactor = 0.5\nadd = 3\nfloor = 1450", {"A": 1461, "B": 1450}),
    ],
)
def test_each_kind_of_adjustment(run_backfill: Backfill, own: Any, keys: str, wanted: dict[str, int]) -> None:
    rows = [game(1, NOON, "A", "B"), game(2, NOON + 2 * HOUR, "C", "D")]
    out = run_backfill(rows, *AS_OF, rules=own(tail=adjustment("step", NOON + HOUR, keys))).ok()
    found = out.ratings()
    # C and D were not yet known, and start as everybody does
    assert found == wanted | {"C": 1516, "D": 1484}
    steps = {r["player_id"]: r for r in out.rows("awards")}
    assert {p: r["rating_before"] + r["change"] for p, r in steps.items()} == wanted
    assert {(r["award_id"], r["reason"], r["awarded_at"]) for r in steps.values()} == {(None, "step", NOON + HOUR)}


def test_an_adjustment_comes_first_at_its_instant_then_awards_then_games(run_backfill: Backfill, own: Any) -> None:
    rules = own(tail=adjustment("reset", NOON, "pull_to = 1500\nfactor = 0"))
    awards = [award(1, NOON, "A", 30.0), award(2, NOON - 1, "A", 200.0)]
    out = run_backfill([game(1, NOON - 2, "A", "B"), game(2, NOON, "A", "B")], *AS_OF, rules=rules, awards=awards).ok()
    assert [(r["reason"], r["award_id"], r["player_id"], r["rating_before"], r["change"]) for r in out.rows("awards")] == [
        (None, 2, "A", 1516, 200), ("reset", None, "A", 1716, -216), ("reset", None, "B", 1484, 16), (None, 1, "A", 1500, 30),
    ]  # fmt: skip
    last = out.rows("timeline")[-1]
    assert (last["winner_rating_before"], last["loser_rating_before"]) == (1530, 1500)
    # the peak is that of a game or award, and the past stays
    assert {p["player_id"]: p["peak_rating"] for p in out.rows("players")} == {"A": 1716, "B": 1485}


def test_an_adjustment_after_the_as_of_is_not_due_and_one_at_it_is(run_backfill: Backfill, own: Any) -> None:
    rules = own(tail=adjustment("gift", NOON + HOUR, "add = 5"))
    rows = [game(1, NOON, "A", "B")]
    early = run_backfill(rows, "--as-of", iso(NOON + HOUR - 1), rules=rules).ok()
    assert early.ratings() == {"A": 1516, "B": 1484}
    due = run_backfill(rows, "--as-of", iso(NOON + HOUR), rules=rules).ok()
    assert due.ratings() == {"A": 1521, "B": 1489}


def test_floor_and_cap_hold_in_an_adjustment(run_backfill: Backfill, own: Any) -> None:
    rules = own(
        head="floor = 1480\ncap = 1520", tail=adjustment("up", NOON + 1, "add = 10") + adjustment("down", NOON + 2, "add = -60")
    )
    starts = [{"player_id": "C", "rating": 1700.0}]
    out = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=rules, starts=starts).ok()
    found = [(r["reason"], r["player_id"], r["change"]) for r in out.rows("awards")]
    assert found == [("up", "A", 4), ("up", "B", 10), ("up", "C", 0), ("down", "A", -40), ("down", "B", -14), ("down", "C", -60)]


def chain(out: Out, start: float) -> None:
    """In the documented order a player's next before is his previous before and change, through games, awards and adjustments."""
    query = (
        "select player_id, rating_before, change, rating_after from player_timeline "
        "order by player_id, played_at, (seq is not null), award_id nulls first, seq"
    )
    with duckdb.connect(str(out.current / "ratings.duckdb"), read_only=True) as connection:
        rows = connection.execute(query).fetchall()
    ratings: dict[str, float] = {}
    for player, before, change, after in rows:
        assert before == ratings.get(player, start), player
        assert after == before + change
        ratings[player] = after
    assert ratings == out.ratings()
    assert len(rows) == 2 * out.frame("timeline").height + out.frame("awards").height


def by_hand(rows: list[Row], awards: list[Row], steps: list[tuple[int, float, float, float, float]], cap: float) -> dict[str, int]:
    """Whole ratings, one event after the other: steps (at, pull_to, factor, add, floor), then awards, then games of an instant."""
    ratings: dict[str, int] = {}
    events: list[tuple[int, int, Any, Any]] = [(step[0], 0, 0, step) for step in steps]
    events += [(a["awarded_at"], 1, a["award_id"], a) for a in awards] + [(g["played_at"], 2, g["game_id"], g) for g in rows]

    def move(player: str, change: float) -> None:
        rating = ratings.setdefault(player, 1500)
        whole = naive.half_away(change)
        ratings[player] = rating + (max(0, min(whole, int(cap) - rating)) if whole > 0 else whole)

    for _, kind, _, event in sorted(events, key=lambda e: e[:3]):
        if kind == 0:
            _, pull_to, factor, add, floor = event
            for player, rating in list(ratings.items()):
                move(player, max(pull_to + (rating - pull_to) * factor + add, floor) - rating)
        elif kind == 1:
            move(event["player_id"], event["points"])
        else:
            w, lo = event["winner_id"], event["loser_id"]
            p = naive.expected(ratings.get(w, 1500), ratings.get(lo, 1500), 400)
            change = 32 * ((0.5 if event["is_draw"] else 1) - p)
            move(w, change)
            move(lo, -change)
    return ratings


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_steps_make_a_chain_and_no_chunk_shows(run_backfill: Backfill, own: Any, seed: int, integer: bool) -> None:
    rows = history(seed)
    rng = random.Random(seed)
    instants = sorted({row["played_at"] for row in rows})
    edge, shared_instant = ts("2026-03-01 00:00:00"), instants[len(instants) // 3]
    awards = [award(i, rng.choice([*instants, edge]), rng.choice("ABCDEFGHZ"), float(rng.randrange(-40, 40))) for i in range(30)]
    awards += [award(99, shared_instant, "A", 7.0)]
    tail = (
        adjustment("reset", edge, "pull_to = 1500\nfactor = 0.3\nadd = 1")
        + adjustment("gift", shared_instant, "add = 12")
        + adjustment("floor", instants[-1] + HOUR, "floor = 1495")
        + adjustment("before all", instants[0] - HOUR, "add = 100")
    )
    rules = own("k = 32", head="cap = 1600", tail=tail, integer=integer)
    runs = [run_backfill(rows, *AS_OF, "--chunk", chunk, rules=rules, awards=awards).ok() for chunk in ("month", "week", "day")]
    for run in runs:
        chain(run, 1500)
    for run in runs[1:]:
        same(runs[0], run)
    if integer:
        steps = [(edge, 1500, 0.3, 1, -1e9), (shared_instant, 0, 1, 12, -1e9), (instants[-1] + HOUR, 0, 1, 0, 1495)]
        steps += [(instants[0] - HOUR, 0, 1, 100, -1e9)]
        assert runs[0].ratings() == by_hand(rows, awards, steps, 1600)
    assert runs[0].frame("awards").filter(pl.col("award_id").is_null())["reason"].n_unique() == 3


# ---------------------------------------------------------------- versions


def test_a_rating_is_carried_over_a_change_of_rules(run_backfill: Backfill, own: Any) -> None:
    second = f'[[version]]\nname = "2"\nfrom = "{iso(NOON + HOUR)}"\ndivisor = 800\nk = 10\n'
    rows = [game(1, NOON, "A", "B"), game(2, NOON + HOUR - 1, "A", "B"), game(3, NOON + HOUR, "A", "B")]
    out = run_backfill(rows, *AS_OF, rules=own(tail=second)).ok()
    assert [r["rule_version"] for r in out.rows("timeline")] == ["1", "1", "2"]
    assert out.changes() == {1: (16, -16), 2: (15, -15), 3: (5, -5)}
    moved = run_backfill(rows, *AS_OF, "--since", f"2={iso(NOON + HOUR + 1)}", rules=own(tail=second)).ok()
    assert [r["rule_version"] for r in moved.rows("timeline")] == ["1", "1", "1"]


def test_only_a_version_that_needs_lengths_uses_them(run_backfill: Backfill, own: Any) -> None:
    second = f'[[version]]\nname = "m"\nfrom = "{iso(NOON + HOUR)}"\ndivisor = 2000\ndivide_by = "sqrt_match_length"\nk = 1\nstake = {{ base = 4, match_length = "sqrt" }}\n'
    rows = [game(1, NOON, "A", "B", match_length=9), game(2, NOON + HOUR, "C", "D", match_length=9)]
    out = run_backfill(rows, *AS_OF, rules=own(tail=second, integer=False)).ok()
    assert out.changes() == {1: (16.0, -16.0), 2: (6.0, -6.0)}
    missing = run_backfill([game(1, NOON, "A", "B")], *AS_OF, rules=own(tail=second, integer=False))
    assert missing.code == 3
    assert "match_length" in missing.text


# ---------------------------------------------------------------- a file to begin from


@pytest.mark.parametrize("name", shipped_rulesets())
def test_the_file_of_a_ruleset_is_printed_as_it_is_and_can_be_used(name: str, own: Any, tmp_path: Path) -> None:
    printed = command(["rules", name, "--toml"], tmp_path).ok().stdout
    assert printed == (SHIPPED / f"{name}.toml").read_text(encoding="utf-8")
    copy = tmp_path / "copy.toml"
    copy.write_text(printed, encoding="utf-8")
    assert load_undated(str(copy)) == load_undated(name)
    assert command(["rules", copy, "--toml"], tmp_path).ok().stdout == printed


def test_what_has_no_file_to_print(own: Any, tmp_path: Path) -> None:
    for words, said in (
        (["--toml"], "name it"),
        (["tavla42", "--toml", "--json"], "without --json"),
        (["tavla42", "--toml", "--since", "1.2.0=2026-03-22"], "--since"),
        (["nobody", "--toml"], "neither a file nor a shipped ruleset"),
        ([own("q = 3"), "--toml"], "unknown key"),
    ):
        refused = command(["rules", *words], tmp_path)
        assert (refused.code, refused.stdout, said in refused.stderr) == (2, "", True), refused.text
