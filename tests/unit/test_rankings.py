"""Rank correlations against their definitions, pair by pair."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from eloreplay.rankings import inversions, kendall, spearman


def sign(x: float) -> int:
    return int(x > 0) - int(x < 0)


def kendall_by_pairs(x: list[float], y: list[float]) -> float | None:
    signs = [(sign(a - b), sign(c - d)) for (a, c), (b, d) in combinations(zip(x, y, strict=True), 2)]
    free = sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs)
    return sum(a * b for a, b in signs) / math.sqrt(free) if free else None


def spearman_by_ranks(x: list[float], y: list[float]) -> float | None:
    ranks = [np.array([sum(b < a for b in v) + (sum(b == a for b in v) + 1) / 2 for a in v]) for v in (x, y)]
    if any(len(set(v)) < 2 for v in (x, y)):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


@pytest.mark.parametrize("values", [2, 5, 1000])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 64])
def test_both_are_what_their_definitions_say(n: int, values: int) -> None:
    draw = np.random.default_rng(n * 10_000 + values)
    for _ in range(20):
        x = draw.integers(-values, values, n) / 4
        y = x + draw.integers(-values, values, n)
        for found, wanted in ((kendall(x, y), kendall_by_pairs(x, y)), (spearman(x, y), spearman_by_ranks(x, y))):
            assert (found is None) == (wanted is None)
            assert found is None or found == pytest.approx(wanted, abs=1e-12)


def test_the_ends_are_reached_exactly() -> None:
    x = np.arange(1000.0)
    assert (kendall(x, 3 * x), spearman(x, x**3)) == (1.0, 1.0)
    assert (kendall(x, -x), spearman(x, 5 - x)) == (-1.0, -1.0)


def test_inversions_are_counted_once_each() -> None:
    assert inversions(np.array([3, 1, 2, 3, 0])) == 6
    n = 100_000
    assert inversions(np.arange(n)[::-1].copy()) == n * (n - 1) // 2
