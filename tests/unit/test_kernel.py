"""The kernel's parts, alone, and once with every position checked."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eloreplay.kernel import PLAYER_STATE, ROUND_HALF_AWAY, ROUND_NONE, expected_score, rate_game, round_each, round_half_away


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(12.5, 13), (-12.5, -13), (2.5, 3), (0.5, 1), (-0.5, -1), (0.49999999999999994, 0), (-0.317, 0), (0.0, 0), (9.375, 9)],
)
def test_case_10_half_away_from_zero(value: float, wanted: int) -> None:
    assert round_half_away(value) == wanted


@given(st.floats(min_value=-1e9, max_value=1e9))
def test_rounding_agrees_with_exact_arithmetic(value: float) -> None:
    exact = Fraction(value)
    wanted = math.floor(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    assert round_half_away(value) == wanted


def test_a_rounded_nothing_has_no_sign() -> None:
    values = np.array([-0.317, -0.0, 0.3])
    round_each(values)
    assert not np.signbit(values).any()


@settings(deadline=None)  # the first call compiles
@given(
    gap=st.floats(min_value=-4000, max_value=4000),
    divisor=st.sampled_from([400.0, 800.0, 1200.0, 2000.0]),
    k=st.sampled_from([1.0, 16.0, 32.0]),
    stake=st.floats(min_value=0.1, max_value=20),
    score=st.sampled_from([0.5, 1.0]),
    rounding=st.sampled_from([ROUND_NONE, ROUND_HALF_AWAY]),
)
def test_case_29_equal_k_gives_exact_opposites(
    gap: float, divisor: float, k: float, stake: float, score: float, rounding: int
) -> None:
    expected, winner, loser = rate_game(gap, divisor, k, k, stake, score, rounding)
    assert winner == -loser
    assert 0.0 <= expected <= 1.0
    if score == 1.0:
        assert winner >= 0.0


def test_case_9_the_change_is_rounded_and_not_the_rating() -> None:
    assert rate_game(0.0, 400.0, 25.0, 25.0, 1.0, 1.0, ROUND_HALF_AWAY) == (0.5, 13.0, -13.0)


def test_case_8_nothing_is_rounded_before_the_end() -> None:
    assert rate_game(0.0, 400.0, 12.5, 12.5, 1.5, 1.0, ROUND_NONE)[1] == 9.375
    assert rate_game(0.0, 400.0, 12.5, 12.5, 1.5, 1.0, ROUND_HALF_AWAY)[1] == 9.0


def test_case_12_the_gap_is_not_divided_as_integers() -> None:
    expected, winner, _ = rate_game(100.0, 400.0, 32.0, 32.0, 1.0, 1.0, ROUND_HALF_AWAY)
    assert expected == pytest.approx(0.640065, abs=5e-7)
    assert winner == 12.0


def test_gaps_beyond_any_float_give_certainty_and_no_error() -> None:
    assert expected_score(1e9, 400.0) == 1.0
    assert expected_score(-1e9, 400.0) == 0.0


def test_a_player_takes_one_cache_line() -> None:
    assert PLAYER_STATE.itemsize == 64


def test_case_37_a_whole_run_with_bounds_checks(tmp_path: Path) -> None:
    """The sample's rules and a match ruleset once more with numba checking every index, in processes of their own."""
    code = (
        "import sys, polars as pl, datetime as dt\n"
        "from eloreplay.cli import main\n"
        "n = 3000\n"
        "start = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)\n"
        "games = pl.DataFrame({'game_id': range(n), 'played_at': [start + dt.timedelta(hours=i // 3) for i in range(n)],\n"
        "    'winner_id': [i % 7 for i in range(n)], 'loser_id': [7 + i % 5 for i in range(n)], 'match_length': [1 + i % 9 for i in range(n)]})\n"
        "games.write_parquet(sys.argv[1] + '/games.parquet')\n"
        "pl.DataFrame({'award_id': [1, 2], 'awarded_at': [start, start + dt.timedelta(days=9000)], 'player_id': [3, 99],\n"
        "    'points': [50, 25]}).write_parquet(sys.argv[1] + '/awards.parquet')\n"
        "for rules in ('tavla42', 'nardy'):\n"
        "    code = main(['backfill', sys.argv[1] + '/games.parquet', '--rules', rules, '--out', sys.argv[1] + '/' + rules, '--quiet',\n"
        "        '--awards', sys.argv[1] + '/awards.parquet', '--as-of', '2100-01-01', '--chunk', 'day'])\n"
        "    assert code == 0, code\n"
        "from eloreplay.kernel import rate_game\n"
        "import numba; assert numba.config.BOUNDSCHECK == 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
