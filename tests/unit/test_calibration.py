"""Intervals and bins of the calibration curve."""

from __future__ import annotations

import math

import pytest

from eloreplay.calibration import Z95, wilson


@pytest.mark.parametrize(
    ("wins", "games", "low", "high"),
    [
        # Newcombe 1998 (Stat. Med. 17: 857-872), table I, method 3: 81/263, 15/148, 0/20, 1/29.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_agrees_with_published_intervals(wins: int, games: int, low: float, high: float) -> None:
    found_low, found_high = wilson(wins, games)
    assert found_low is not None
    assert found_high is not None
    assert found_low == pytest.approx(low, abs=5e-5)
    assert found_high == pytest.approx(high, abs=5e-5)


def test_wilson_solves_its_own_equation() -> None:
    for edge in wilson(37.5, 90):
        assert edge is not None
        assert abs(37.5 / 90 - edge) == pytest.approx(Z95 * math.sqrt(edge * (1 - edge) / 90), rel=1e-12)


def test_no_games_no_interval() -> None:
    assert wilson(0, 0) == (None, None)
