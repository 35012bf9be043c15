"""Every cell of the tables that the tavla42 article prints, and the figures in its prose, each through the tool itself.

One backfill plays all cells of a table: every cell has its own two players, start ratings give the gap, and a player
with a heavy week first loses 50 games to somebody so strong that the change is 0. Printed percentages have one decimal:
half a unit of it is the tolerance; rating changes are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import naive
import pytest
import support

HEAVY = 50
SINCE = {"1.0.5": "2026-02-01", "1.2.0": "2026-03-01", "1.3.1": "2026-04-01"}
ERAS = {400: "2026-02-15", 800: "2026-03-15", 1200: "2026-04-15"}
BEFORE_1_0_5 = "2026-01-15"
AS_OF = "2026-12-01"


@dataclass
class Cells:
    """Games of players who meet once, and the start ratings that give the gaps."""

    games: list[support.Row] = field(default_factory=list)
    starts: list[support.Row] = field(default_factory=list)

    def player(self, rating: int, when: str, heavy: bool = False) -> str:
        name = f"p{len(self.starts):04}"
        self.starts.append({"player_id": name, "rating": rating})
        if heavy:
            giant = f"p{len(self.starts):04}"
            self.starts.append({"player_id": giant, "rating": 30_000})
            first = support.ts(when) - 5 * naive.DAY_US
            for i in range(HEAVY):
                self.games.append(support.game(len(self.games), first + i * naive.HOUR_US, giant, name, cube=1))
        return name

    def play(
        self,
        gap: int,
        *,
        when: str = ERAS[1200],
        favourite_wins: bool = True,
        cube: int = 1,
        heavy: tuple[bool, bool] = (False, False),
        **more: object,
    ) -> int:
        """Adds a game of a favourite (1500 + gap) and an underdog (1500); heavy says whose week is heavy."""
        favourite, underdog = self.player(1500 + gap, when, heavy[0]), self.player(1500, when, heavy[1])
        sides = (favourite, underdog) if favourite_wins else (underdog, favourite)
        self.games.append(support.game(len(self.games), when, *sides, cube=cube, **more))
        return len(self.games) - 1


@dataclass
class Played:
    """The answers, by game: of the tool and of the twin, which have been found equal."""

    lines: dict[int, support.Row]

    def changes(self, game_id: int) -> tuple[int, int]:
        return self.lines[game_id]["winner_change"], self.lines[game_id]["loser_change"]

    def percent(self, game_id: int) -> float:
        return 100 * self.lines[game_id]["winner_expected"]


Play = Callable[..., Played]


@pytest.fixture
def play(run_backfill: support.Backfill) -> Play:
    """Replays the cells under `tavla42-history` (or another ruleset) with the tool and with the twin."""

    def run(cells: Cells, rules: str = "tavla42-history") -> Played:
        twin_rules = naive.TAVLA42
        options = ["--as-of", AS_OF]
        if rules == "tavla42-history":
            twin_rules = naive.tavla42_history({name: support.ts(at) for name, at in SINCE.items()})
            options += [part for name, at in SINCE.items() for part in ("--since", f"{name}={at}")]
        elif rules == "fibs-1pt":
            twin_rules = naive.FIBS_1PT
        out = run_backfill(cells.games, *options, rules=rules, starts=cells.starts).ok()
        twin = naive.replay(cells.games, twin_rules, as_of=support.ts(AS_OF), starts=cells.starts)
        support.compare("timeline", out.rows("timeline"), twin.timeline, True)
        return Played({line["game_id"]: line for line in out.rows("timeline")})

    return run


BOTH = pytest.mark.parametrize("rules", ["tavla42", "tavla42-history"])

EXPECTED = {0: 50.0, 50: 52.4, 100: 54.8, 150: 57.1, 200: 59.5, 300: 64.0, 400: 68.3, 500: 72.3}


@BOTH
def test_table_of_expected_percentages(play: Play, rules: str) -> None:
    cells = Cells()
    ids = {gap: cells.play(gap) for gap in EXPECTED}
    played = play(cells, rules)
    for gap, printed in EXPECTED.items():
        assert played.percent(ids[gap]) == pytest.approx(printed, abs=0.05), gap


CHANGES = {0: (16, 16), 100: (14, 18), 200: (13, 19), 300: (12, 20), 400: (10, 22)}


@BOTH
def test_table_of_changes_by_gap(play: Play, rules: str) -> None:
    cells = Cells()
    ids = {(gap, wins): cells.play(gap, favourite_wins=wins) for gap in CHANGES for wins in (True, False)}
    played = play(cells, rules)
    for gap, (favourite, underdog) in CHANGES.items():
        assert played.changes(ids[gap, True]) == (favourite, -favourite)
        assert played.changes(ids[gap, False]) == (underdog, -underdog)


# gap: (K 32 favourite wins, loses), (K 16 favourite wins, loses)
BY_K = {0: ((16, -16), (8, -8)), 150: ((14, -18), (7, -9)), 300: ((12, -20), (6, -10))}


@BOTH
def test_table_of_changes_by_k(play: Play, rules: str) -> None:
    cells = Cells()
    ids = {
        (gap, heavy, wins): cells.play(gap, favourite_wins=wins, heavy=(heavy, heavy))
        for gap in BY_K
        for heavy in (False, True)
        for wins in (True, False)
    }
    played = play(cells, rules)
    for gap, row in BY_K.items():
        for heavy, (wins, loses) in enumerate(row):
            assert played.changes(ids[gap, bool(heavy), True])[0] == wins, (gap, heavy)
            assert played.changes(ids[gap, bool(heavy), False])[1] == loses, (gap, heavy)


# divisor: (expected %, change for a win, for a loss) of a favourite by 300 points
BY_DIVISOR = {400: (84.9, 5, -27), 800: (70.3, 9, -23), 1200: (64.0, 12, -20)}


def test_table_of_the_favourite_by_300_points_under_each_divisor(play: Play) -> None:
    cells = Cells()
    ids = {
        (divisor, wins): cells.play(300, when=when, favourite_wins=wins) for divisor, when in ERAS.items() for wins in (True, False)
    }
    played = play(cells)
    for divisor, (percent, win, loss) in BY_DIVISOR.items():
        assert played.percent(ids[divisor, True]) == pytest.approx(percent, abs=0.05)
        assert 100 - played.percent(ids[divisor, False]) == pytest.approx(percent, abs=0.05)
        assert played.changes(ids[divisor, True])[0] == win
        assert played.changes(ids[divisor, False])[1] == loss


# cube: (coefficient, K 32, K 16) of two players with 1500
BY_CUBE = {
    1: (1.00, 16, 8),
    2: (1.17, 19, 9),
    4: (1.33, 21, 11),
    8: (1.50, 24, 12),
    16: (1.67, 27, 13),
    32: (1.83, 29, 15),
    64: (2.00, 32, 16),
}


@BOTH
def test_table_of_the_cube(play: Play, rules: str) -> None:
    cells = Cells()
    ids = {(cube, heavy): cells.play(0, cube=cube, heavy=(heavy, heavy)) for cube in BY_CUBE for heavy in (False, True)}
    played = play(cells, rules)
    for cube, (coefficient, full, reduced) in BY_CUBE.items():
        assert played.lines[ids[cube, False]]["stake"] == pytest.approx(coefficient, abs=0.005)
        assert played.changes(ids[cube, False]) == (full, -full)
        assert played.changes(ids[cube, True]) == (reduced, -reduced)


def test_prose_everyone_starts_from_1500_and_wins_16(play: Play) -> None:
    cells = Cells(games=[support.game(0, ERAS[1200], "a", "b")], starts=[{"player_id": "unused", "rating": 1500}])
    line = play(cells).lines[0]
    assert (line["winner_rating_before"], line["loser_rating_before"]) == (1500, 1500)
    assert (line["winner_change"], line["loser_change"]) == (16, -16)


def test_prose_200_points_at_divisor_400_are_76_percent_and_300_are_85(play: Play) -> None:
    cells = Cells()
    by_200, by_300 = cells.play(200, when=ERAS[400]), cells.play(300, when=ERAS[400])
    lost = cells.play(300, when=ERAS[400], favourite_wins=False)
    played = play(cells)
    assert round(played.percent(by_200)) == 76
    assert round(played.percent(by_300)) == 85
    assert played.changes(by_300) == (5, -5)
    assert played.changes(lost) == (27, -27)
    # what keeps him level: 27 / (5 + 27) of his games, with the rounded changes
    assert pytest.approx(85, abs=1) == 100 * 27 / (5 + 27)


def test_prose_200_points_at_divisor_1200_are_about_60_percent(play: Play) -> None:
    cells = Cells()
    won, lost = cells.play(200), cells.play(200, favourite_wins=False)
    played = play(cells)
    assert played.percent(won) == pytest.approx(60, abs=1)
    win, loss = played.changes(won)[0], played.changes(lost)[1]
    assert 100 * -loss / (win - loss) == pytest.approx(60, abs=1)


def test_prose_k_is_the_players_own(play: Play) -> None:
    """The heavy side wins 8 where the other loses 16, and loses 8 where the other wins 16."""
    cells = Cells()
    heavy_wins = cells.play(0, heavy=(True, False))
    heavy_loses = cells.play(0, heavy=(True, False), favourite_wins=False)
    played = play(cells)
    assert played.changes(heavy_wins) == (8, -16)
    assert played.changes(heavy_loses) == (16, -8)


@pytest.mark.parametrize(("games", "k"), [(0, 32), (10, 32), (49, 32), (50, 16), (51, 16), (60, 16)])
def test_prose_k_halves_from_50_games_of_the_last_7_days(play: Play, games: int, k: int) -> None:
    start = support.ts(ERAS[1200])
    cells = Cells(starts=[{"player_id": "giant", "rating": 30_000}])
    cells.games = [support.game(i, start + i * naive.HOUR_US, "giant", "a") for i in range(games)]
    cells.games.append(support.game(99, start + games * naive.HOUR_US, "a", "b"))
    line = play(cells).lines[99]
    assert (line["winner_recent_games"], line["winner_k"], line["loser_k"]) == (games, k, 32)
    assert (line["winner_change"], line["loser_change"]) == (k // 2, -16)


def test_prose_the_window_moves_along(play: Play) -> None:
    """50 games at one instant: exactly 7 days later they still count, a microsecond later they do not."""
    start = support.ts(ERAS[1200])
    cells = Cells(starts=[{"player_id": "giant", "rating": 30_000}])
    cells.games = [support.game(i, start, "giant", "a") for i in range(50)]
    cells.games += [
        support.game(60, start + 7 * naive.DAY_US, "a", "b"),
        support.game(61, start + 7 * naive.DAY_US + 1, "a", "c"),
    ]
    played = play(cells)
    assert (played.lines[60]["winner_recent_games"], played.lines[60]["winner_k"]) == (50, 16)
    assert (played.lines[61]["winner_recent_games"], played.lines[61]["winner_k"]) == (1, 32)


def test_prose_k_is_32_in_a_heavy_week_before_1_3_1(play: Play) -> None:
    cells = Cells()
    ids = [cells.play(0, when=when, heavy=(True, True)) for when in ("2026-02-15", "2026-03-15", "2026-03-31 23:00:00")]
    later = cells.play(0, heavy=(True, True))
    played = play(cells)
    for game_id in ids:
        assert played.lines[game_id]["winner_recent_games"] == 50  # counted under every version, used from 1.3.1
        assert played.changes(game_id) == (16, -16)
    assert played.changes(later) == (8, -8)


def test_prose_300_games_two_or_three_points_below_expectation_cost_about_200(play: Play) -> None:
    """K × games × shortfall; a heavy week moves half as far from its 51st game on.

    The week is played out against 300 newcomers at cube 1, 48 % won: under the FIBS curve all games count with K 32,
    under tavla42 all but the first 50 with K 16. What he moved in all, up and down, follows K alone.
    """
    k, games_a_week = 32, 300
    swing = k * games_a_week * 0.02
    assert swing == pytest.approx(200, abs=10)
    start = support.ts(ERAS[1200])
    won = [i % 25 < 12 for i in range(300)]
    assert sum(won) / 300 == 0.48
    games = []
    for i, wins in enumerate(won):
        sides = ("me", f"o{i:03}") if wins else (f"o{i:03}", "me")
        games.append(support.game(i, start + i * naive.HOUR_US // 2, *sides))
    moved = {}
    for rules, reduced in (("fibs-1pt", 32), ("tavla42", 16)):
        played = play(Cells(games, [{"player_id": "unused", "rating": 1500}]), rules)
        my_k = [played.lines[i]["winner_k" if won[i] else "loser_k"] for i in range(300)]
        assert my_k == [32] * HEAVY + [reduced] * (300 - HEAVY)
        moved[rules] = sum(abs(played.changes(i)[0 if won[i] else 1]) for i in range(300))
    assert moved["fibs-1pt"] == pytest.approx(300 * 16, rel=0.05)
    assert moved["tavla42"] == pytest.approx(50 * 16 + 250 * 8, rel=0.05)


def test_prose_fibs_divides_by_2000(play: Play) -> None:
    cells = Cells()
    won, lost = cells.play(300), cells.play(300, favourite_wins=False)
    played = play(cells, "fibs-1pt")
    assert played.percent(won) == pytest.approx(100 / (1 + 10 ** (-300 / 2000)))
    assert played.changes(won) == (13, -13)
    assert played.changes(lost) == (19, -19)
    assert played.lines[won]["winner_k"] == 32


def test_prose_the_cube_multiplied_before_1_0_5_and_is_at_most_double_since(play: Play) -> None:
    cells = Cells()
    before = {cube: cells.play(0, when=BEFORE_1_0_5, cube=cube) for cube in BY_CUBE}
    since = {(d, cube): cells.play(0, when=when, cube=cube) for d, when in ERAS.items() for cube in BY_CUBE}
    played = play(cells)
    for cube, game_id in before.items():
        assert played.changes(game_id) == (16 * cube, -16 * cube)
    for (_, cube), game_id in since.items():
        assert played.changes(game_id) == (BY_CUBE[cube][1], -BY_CUBE[cube][1])
    assert max(played.changes(i)[0] for i in since.values()) == 2 * 16


def test_prose_gammon_and_backgammon_change_nothing_since_1_0_5(play: Play) -> None:
    cells = Cells()
    ids = [cells.play(0, when=when, result=result) for when in ERAS.values() for result in ("single", "gammon", "backgammon", None)]
    played = play(cells)
    assert {played.changes(i) for i in ids} == {(16, -16)}


def test_prose_games_that_end_early_are_ordinary_losses(play: Play) -> None:
    cells = Cells()
    ids = [cells.play(0, cube=8, ended_by=how) for how in ("normal", "resigned", "left", "disconnected", "timed out", None)]
    played = play(cells)
    assert {played.changes(i) for i in ids} == {(24, -24)}


def test_prose_boosted_games_and_tournaments_move_nothing_but_the_podium_awards_do(
    run_backfill: support.Backfill,
) -> None:
    when = support.ts(ERAS[1200])
    modes = ["ranked", "boosted", "casual", "tournament"]
    games = [support.game(i, when + i, f"w{i}", f"l{i}", mode=mode) for i, mode in enumerate(modes)]
    awards = [
        {"award_id": i, "awarded_at": when + 10, "player_id": p, "points": points, "reason": "podium"}
        for i, (p, points) in enumerate([("w0", 50), ("new", 25), ("l0", 15)])
    ]
    out = run_backfill(games, "--as-of", AS_OF, awards=awards).ok()
    assert out.bins()["unrated"] == 3
    assert out.ratings() == {"w0": 1566, "l0": 1499, "new": 1525}


def test_prose_old_games_keep_their_rule_and_ratings_carry_over(run_backfill: support.Backfill) -> None:
    """A game under 400 and the next under 800: the second starts from what the first gave."""
    games = [support.game(1, "2026-02-28 23:59:59.999999", "a", "b"), support.game(2, "2026-03-01", "a", "b")]
    options = [part for name, at in SINCE.items() for part in ("--since", f"{name}={at}")]
    out = run_backfill(games, "--as-of", AS_OF, *options, rules="tavla42-history").ok()
    first, second = out.rows("timeline")
    assert (first["rule_version"], second["rule_version"]) == ("1.0.5", "1.2.0")
    assert (second["winner_rating_before"], second["loser_rating_before"]) == (1516, 1484)
    assert second["winner_expected"] == pytest.approx(1 / (1 + 10 ** (-32 / 800)))


# ---------------------------------------------------------------- the other article: matches to N points


def test_nardy_example_of_1100_against_1500(run_backfill: support.Backfill) -> None:
    """It prints 6.92 and 4.77, cut; with all digits 6.928203 and 4.776783."""
    starts = [
        {"player_id": "A", "rating": 1100.0, "experience": 675.0},
        {"player_id": "B", "rating": 1500.0, "experience": 950.0},
    ]
    games = [support.game(1, "2026-01-01", "A", "B", match_length=3)]
    line = run_backfill(games, "--as-of", AS_OF, rules="nardy", starts=starts).ok().rows("timeline")[0]
    assert line["winner_expected"] == pytest.approx(0.31, abs=0.005)
    assert 1 - line["winner_expected"] == pytest.approx(0.69, abs=0.005)
    assert int(100 * line["stake"]) == 692
    assert int(100 * line["winner_change"]) == 477
    assert int(-100 * line["loser_change"]) == 477
    assert (line["winner_k"], line["loser_k"]) == (1, 1)


def test_nardy_starts_from_1300_and_five_matches_to_3_are_an_experience_of_15(run_backfill: support.Backfill) -> None:
    games = [support.game(i, support.ts("2026-01-01") + i, "A", f"x{i}", match_length=3) for i in range(6)]
    lines = run_backfill(games, "--as-of", AS_OF, rules="nardy").ok().rows("timeline")
    assert lines[0]["winner_rating_before"] == lines[0]["loser_rating_before"] == 1300
    assert [line["winner_experience"] for line in lines] == [0, 3, 6, 9, 12, 15]
    assert [line["winner_k"] for line in lines] == pytest.approx([5, 4.97, 4.94, 4.91, 4.88, 4.85])


@pytest.mark.parametrize(("experience", "k"), [(0, 5), (100, 4), (399, 1.01), (400, 1), (401, 1), (500, 1), (9000, 1)])
def test_nardy_ramp(run_backfill: support.Backfill, experience: float, k: float) -> None:
    starts = [{"player_id": "A", "rating": 1300.0, "experience": float(experience)}]
    games = [support.game(1, "2026-01-01", "A", "B", match_length=5)]
    line = run_backfill(games, "--as-of", AS_OF, rules="nardy", starts=starts).ok().rows("timeline")[0]
    assert line["winner_k"] == pytest.approx(k)


@pytest.fixture(scope="module", autouse=True)
def the_article_is_at_hand(shared: Path) -> None:
    """The tables are copied here as figures; the article itself must still print them."""
    text = (shared / "seeds" / "tavla42-elo.sr.txt").read_text(encoding="utf-8")
    for gap, percent in EXPECTED.items():
        assert f"\n{gap}\t{percent:.1f}%".replace(".", ",") in text
    for gap, (favourite, underdog) in CHANGES.items():
        assert f"\n{gap}\t+{favourite} / −{favourite}\t+{underdog} / −{underdog}" in text
    for gap, ((a, b), (c, d)) in BY_K.items():
        assert f"\n{gap}\t+{a} / −{-b}\t+{c} / −{-d}" in text
    for cube, (coefficient, full, reduced) in BY_CUBE.items():
        assert f"\n{cube}\t{coefficient:.2f}\t±{full}\t±{reduced}".replace(".", ",") in text
    for divisor in BY_DIVISOR:
        assert f"÷{divisor}" in text
    assert "\t".join(["Poeni za pobedu", *(f"+{row[1]}" for row in BY_DIVISOR.values())]) in text
    assert "\t".join(["Poeni za poraz", *(f"−{-row[2]}" for row in BY_DIVISOR.values())]) in text
