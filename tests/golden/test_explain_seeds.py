"""`explain` on every example that the two published accounts print: the exact changes, and percentages to their one decimal.

As in `test_seed_tables.py` and `test_seed2.py`, whose figures these are, each example has two players of its own: start ratings give the
gap, and 50 games against somebody far too strong (change 0) make a heavy week.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import support
import support_nightly

from eloreplay.asking import asked_run
from eloreplay.explain import explain_game
from eloreplay.explain_page import explain_text

HOUR = 3_600_000_000
SINCE = {"1.0.5": "2026-02-01", "1.2.0": "2026-03-01", "1.3.1": "2026-04-01"}
BEFORE, BY_400, BY_800, BY_1200 = "2026-01-15", "2026-02-15", "2026-03-15", "2026-04-15"
GIANT = 30_000


@dataclass(frozen=True)
class Example:
    """A printed example: the favourite is `gap` points above 1500; `won` and `lost` are the winner's and the loser's change."""

    gap: int
    won: int
    lost: int
    when: str = BY_1200
    favourite_wins: bool = True
    cube: int = 1
    heavy: tuple[bool, bool] = (False, False)
    percent: float | None = None
    result: str | None = None


def examples() -> list[Example]:
    found = [Example(0, 16, -16, percent=50.0)]
    # the expected percentages, and the table of changes
    for gap, percent, won, upset in (
        (50, 52.4, None, None), (100, 54.8, 14, 18), (150, 57.1, 14, 18), (200, 59.5, 13, 19), (300, 64.0, 12, 20), (400, 68.3, 10, 22),
        (500, 72.3, None, None),
    ):  # fmt: skip
        win, loss = won or round(32 * (1 - percent / 100)), upset or round(32 * percent / 100)
        found.append(Example(gap, win, -win, percent=percent))
        found.append(Example(gap, loss, -loss, favourite_wins=False))
    # K 32 and K 16; and one of each
    for gap, won, upset in ((0, 8, 8), (150, 7, 9), (300, 6, 10)):
        found.append(Example(gap, won, -won, heavy=(True, True)))
        found.append(Example(gap, upset, -upset, heavy=(True, True), favourite_wins=False))
    found += [Example(0, 8, -16, heavy=(True, False)), Example(0, 16, -8, heavy=(True, False), favourite_wins=False)]
    # the favourite by 300 points under each divisor, and 76 % for 200 points at 400
    for when, percent, won, upset in ((BY_400, 84.9, 5, 27), (BY_800, 70.3, 9, 23), (BY_1200, 64.0, 12, 20)):
        found.append(Example(300, won, -won, when=when, percent=percent))
        found.append(Example(300, upset, -upset, when=when, favourite_wins=False))
    # the cube; it multiplied before 1.0.5
    for cube, full, reduced in ((1, 16, 8), (2, 19, 9), (4, 21, 11), (8, 24, 12), (16, 27, 13), (32, 29, 15), (64, 32, 16)):
        found.append(Example(0, full, -full, cube=cube))
        found.append(Example(0, reduced, -reduced, cube=cube, heavy=(True, True)))
        found.append(Example(0, 16 * cube, -16 * cube, cube=cube, when=BEFORE))
    found += [Example(0, 16, -16, result=result) for result in ("single", "gammon", "backgammon")]
    return found


def test_every_printed_example_of_tavla42(run_backfill: support.Backfill) -> None:
    games: list[support.Row] = []
    starts: list[support.Row] = []

    def player(rating: int, when: int, heavy: bool) -> str:
        name = f"p{len(starts):04}"
        starts.append({"player_id": name, "rating": rating})
        if heavy:
            starts.append({"player_id": f"{name} giant", "rating": GIANT})
            first = when - 120 * HOUR
            games.extend(support.game(f"{name} {i}", first + i * HOUR, f"{name} giant", name, cube=1) for i in range(50))
        return name

    wanted = examples()
    for number, one in enumerate(wanted):
        when = support.ts(one.when)
        favourite, other = player(1500 + one.gap, when, one.heavy[0]), player(1500, when, one.heavy[1])
        sides = (favourite, other) if one.favourite_wins else (other, favourite)
        games.append(support.game(f"g{number}", when, *sides, cube=one.cube, result=one.result))
    since = [part for name, at in SINCE.items() for part in ("--since", f"{name}={at}")]
    out = run_backfill(games, "--as-of", "2026-12-01", *since, rules="tavla42-history", starts=starts).ok()
    with asked_run(out.folder) as asked:
        for number, one in enumerate(wanted):
            found = explain_game(asked, f"g{number}", past=False)
            text = explain_text(found)
            winner, loser = found["sides"]
            assert (winner["change"], loser["change"]) == (one.won, one.lost), one
            assert found["agrees"], (one, found["differences"])
            assert f"rounded +{one.won}" in text
            assert f"rounded −{-one.lost}" in text
            heavy = one.heavy if one.favourite_wins else one.heavy[::-1]
            assert [side["k"] for side in found["sides"]] == [16 if reduced else 32 for reduced in heavy]
            assert text.count("50 rated games in the 7 days before, 50 or more, so 16 instead of 32") == sum(heavy)
            if one.percent is not None:
                favourite = winner if one.favourite_wins else loser
                assert 100 * favourite["expected"] == pytest.approx(one.percent, abs=0.05)
            assert (found["unequal"] is None) == (one.won == -one.lost)


def test_the_mixed_week_is_explained_in_words(run_backfill: support.Backfill) -> None:
    """ "Why did I get fewer points than he lost?": the account's own question."""
    when = support.ts(BY_1200)
    games = [support.game(f"h{i:02}", when - (100 - i) * HOUR, "giant", "a") for i in range(60)]
    games += [support.game(f"o{i}", when - (60 - i) * HOUR, "giant", "b") for i in range(10)]
    games.append(support.game("x", when, "a", "b"))
    starts = [{"player_id": "giant", "rating": GIANT}]
    out = run_backfill(games, "--as-of", "2026-12-01", starts=starts).ok()
    said = support_nightly.command(["explain", out.folder, "x"], out.folder).ok().stdout
    assert "60 rated games in the 7 days before, 50 or more, so 16 instead of 32" in said
    assert "10 rated games in the 7 days before, fewer than 50, so the full K" in said
    assert "it had been reduced since game h50" in said
    assert "a gained 8 and b lost 16, because each side has its own K" in said


@pytest.mark.parametrize("rules", ["nardy", "fibs"])
def test_the_printed_match_of_nardy(run_backfill: support.Backfill, rules: str) -> None:
    """1100 beats 1500 over 3 points, both beyond the ramp: printed (cut) as P 0.31, S 6.92, 4.77."""
    starts: list[dict[str, Any]] = [
        {"player_id": player, "rating": rating, "games": 9, "experience": experience}
        for player, rating, experience in (("A", 1100.0, 675.0), ("B", 1500.0, 950.0))
    ]
    row = support.game(1, "2026-05-01 12:00:00", "A", "B", match_length=3)
    out: Path = run_backfill([row], "--as-of", "2027-01-01", rules=rules, starts=starts).ok().folder
    said = support_nightly.command(["explain", out, "1"], out).ok().stdout
    for words in (
        "A has no earlier game and begins with his start rating, 1100",
        "31.05%",
        "6.9282",
        "+4.7768",
        "−4.7768",
        "√(match length)",
        "10^(400/(2000/√3))",
    ):
        assert words in said, (words, said)
    with asked_run(out) as asked:
        found = explain_game(asked, "1")
    assert found["sides"][0]["change"] == pytest.approx(4.776783, abs=5.1e-7)
    assert [side["k"] for side in found["sides"]] == [1, 1]
    assert found["agrees"]


@pytest.mark.parametrize(
    ("rules", "won", "words"), [("nardy", 26.4575, "0 before, × 5"), ("fibs", 26.0871, "0 before and the 7 of this match")]
)
def test_a_beginner_s_ramp_is_a_reason(run_backfill: support.Backfill, rules: str, won: float, words: str) -> None:
    """Field case 26: 1500 each, 7 points, experience 0 and 400, under the two published conventions."""
    starts: list[dict[str, Any]] = [
        {"player_id": player, "rating": 1500.0, "games": 9, "experience": experience}
        for player, experience in (("A", 0.0), ("B", 400.0))
    ]
    row = support.game(1, "2026-05-01 12:00:00", "A", "B", match_length=7)
    out = run_backfill([row], "--as-of", "2027-01-01", rules=rules, starts=starts).ok().folder
    said = " ".join(support_nightly.command(["explain", out, "1"], out).ok().stdout.split())
    assert f"+{won}" in said
    assert "−5.2915" in said
    assert f"an experience of {words}" in said
    assert "an experience of 400 before" in said
    assert "It falls with experience: B had 400 before, A 0." in said
